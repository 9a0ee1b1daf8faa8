"""Rows of a source are asked for before they are needed, several row groups at once, within `read_bytes`."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import fastresume as fr
from support.arrow_rows import TableSource, numbers_in

ROWS, SEGMENTS = 1000, 30
ONE: dict[str, Any] = {"batch_size": ROWS, "world": (0, 1)}
MOST_AHEAD = 7
LONG_SECONDS = 20
"""So long a read waits for others before it says that they did not come."""


@dataclass
class Counting(TableSource):
    """A source that counts reads that are on their way, and whose first ones wait for each other."""

    together: int = 1
    begun: int = 0
    flying: int = 0
    most: int = 0
    are_alone: bool = False
    change: threading.Condition = field(default_factory=threading.Condition)

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        with self.change:
            self.begun += 1
            self.flying += 1
            self.most = max(self.most, self.flying)
            self.change.notify_all()
            came = self.change.wait_for(lambda: self.begun >= self.together, LONG_SECONDS)
            self.are_alone |= not came
        rows = super().read(segment, start, stop, columns)
        with self.change:
            self.flying -= 1
        return rows

    def wait_for_begun(self, count: int) -> bool:
        """Whether so many reads begin."""
        with self.change:
            return self.change.wait_for(lambda: self.begun >= count, LONG_SECONDS)


def counting(together: int = 1) -> Counting:
    rows = ROWS * SEGMENTS
    return Counting(pa.table({"x": range(rows)}), (ROWS,) * SEGMENTS, together=together)


@pytest.mark.parametrize("shuffle", [False, fr.Shuffle(window_rows=4 * ROWS, block_rows=ROWS)])
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_several_reads_are_on_their_way_before_their_rows_are_needed(
    threads: int | None, shuffle: Any
) -> None:
    source = counting(together=5)
    dataset = fr.ArrowDataset(source, shuffle=shuffle, **ONE)
    assert not source.begun
    batches = dataset if threads is None else fr.Loader(dataset, threads=threads)
    found = numbers_in(batches)
    assert sorted(found) == list(range(ROWS * SEGMENTS))
    assert not source.are_alone
    assert source.begun == SEGMENTS
    assert source.most <= 1 + MOST_AHEAD + (threads or 1)


@pytest.mark.parametrize(("read_bytes", "ahead"), [(1, 0), (27_000, 2), (256 << 20, MOST_AHEAD)])
def test_what_is_read_ahead_fits_read_bytes_and_the_next_ones_follow(read_bytes: int, ahead: int) -> None:
    source = counting()
    dataset = fr.ArrowDataset(source, read_bytes=read_bytes, **ONE)  # 9,000 bytes a segment
    for place, _ in enumerate(dataset):
        due = min(place + 1 + ahead, SEGMENTS)
        assert source.wait_for_begun(due)
        assert source.begun <= due + 1
    assert source.begun == SEGMENTS


def test_sources_of_a_mixture_are_read_ahead_side_by_side() -> None:
    sources = {name: counting(together=3) for name in ("a", "b")}
    each = {name: (fr.ArrowDataset(source, world=(0, 1)), 1) for name, source in sources.items()}
    mixture = fr.Mixture(each, batch_size=ROWS, world=(0, 1))
    assert sum(batch.num_rows for batch in mixture) == 2 * ROWS * SEGMENTS
    assert not any(source.are_alone for source in sources.values())


def test_a_pass_that_ends_early_leaves_reads_that_nobody_waits_for() -> None:
    source = counting()
    dataset = fr.ArrowDataset(source, **ONE)
    with fr.Loader(dataset, threads=1) as loader:
        first = next(iter(loader))
    again = fr.ArrowDataset(source, **ONE)
    again.load_state_dict(first.state_dict())
    assert numbers_in([first, *again]) == list(range(ROWS * SEGMENTS))
