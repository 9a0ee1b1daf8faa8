"""What one rank of a job reads, and the made rows that all loaders read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FILES = 12
"""Of Parquet: HF datasets asks for a number that the ranks divide."""
SETS = {"all": range(9_600), "a": range(4_800), "b": range(4_800, 9_600), "large": range(38_400)}
"""The ids of each data set. They divide by all numbers of ranks, workers and rows that are used: no loader
has a tail to drop or to pad. `a` and `b` are the sources of a mixture."""
SHARDS = 96
"""Of each data set: row groups of Parquet, chunks of litdata, shards of Mosaic."""
BUFFER_ROWS = 100
"""Rows in a buffer that shuffles, in loaders that have one."""
MIXED_ROWS = 4_000
"""Of a pass over a mixture, for loaders that would repeat rows of the smaller source to fill one."""
LANES = 6
"""For loaders that are told at the start between how many ranks a job may ever be divided."""


@dataclass(frozen=True)
class Job:
    """One rank of a job: where its data is, and how it is read."""

    directory: str
    data: str = "all"
    rank: int = 0
    world_size: int = 1
    num_workers: int = 0
    batch_size: int = 16
    shuffle: bool = False
    weights: tuple[float, float] | None = None
    """Of the sources a and b, which are mixed instead of reading `data`."""

    def path(self, form: str, data: str | None = None) -> str:
        """The directory of a data set in one of the forms that loaders read."""
        return str(Path(self.directory) / form / (data or self.data))


@dataclass(frozen=True)
class Reading:
    """Batches of ids from where a loader begins, and the state after the batch that was taken last."""

    batches: Iterator[list[int]]
    state: Callable[[], object]
    close: Callable[[], None] = lambda: None
