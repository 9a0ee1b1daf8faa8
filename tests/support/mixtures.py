"""Sources of mixtures, and mixtures of them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr
from fastresume import _core
from fastresume.mixing.spec import MixtureSpec

SIZES = {"web": 700, "code": 260, "books": 90}
PLACE = {name: place for place, name in enumerate(SIZES)}
WEIGHTS = {"web": 0.7, "code": 0.25, "books": 0.05}


def write_sources(directory: Path) -> None:
    """A directory of one file for each source, with columns of every kind."""
    for name, count in SIZES.items():
        rows = list(range(count))
        table = {
            "x": pa.array([PLACE[name] * 10_000 + row for row in rows], pa.int32()),
            "flag": pa.array([None if row % 7 == 0 else row % 2 == 0 for row in rows]),
            "short": pa.array(rows, pa.uint16()),
            "half": pa.array(np.arange(count).astype(np.float16)),
            "fixed": pa.array([[row, row + 1] for row in rows], pa.list_(pa.int64(), 2)),
            "text": [None if row % 5 == 0 else f"{name} {row}" for row in rows],
            "tokens": pa.array([[row] * (row % 4) + [None] for row in rows], pa.list_(pa.int16())),
            "deep": [[[row], [], [f"{row}"] and [row, row]][: row % 4] for row in rows],
        }
        (directory / name).mkdir()
        pq.write_table(pa.table(table), directory / name / "a.parquet", row_group_size=64)


def source(root: Path, name: str, **how: Any) -> fr.ParquetDataset:
    """One of them."""
    return fr.ParquetDataset(root / name, nulls="mask", **how)


def mixture(root: Path, weights: dict[str, float], shuffle: bool = False, **how: Any) -> fr.Mixture:
    """A mixture of some of them, of one rank unless the arguments say otherwise."""
    order: dict[str, Any] = {"shuffle": True, "block_rows": 8, "window_rows": 64} if shuffle else {}
    sources = {
        name: (source(root, name, **({**order, "seed": PLACE[name]} if shuffle else {})), weight)
        for name, weight in weights.items()
    }
    return fr.Mixture(sources, **{"batch_size": 20, "rank": 0, "world_size": 1, **how})


def places(batch: fr.Batch, made: fr.Mixture) -> list[tuple[str, int]]:
    """The source and the row number of each row."""
    names = [made.sources[number] for number in batch.source.tolist()]
    return list(zip(names, batch.rows().tolist(), strict=True))


class MixedLives:
    """The lives of a job over a mixture, which chance draws: each begins where the one before was killed."""

    draw: random.Random
    cursor: _core.Cursor | None = None

    def mixture(self) -> fr.Mixture:
        """What the next life reads."""
        raise NotImplementedError

    def begin(self) -> tuple[MixtureSpec, _core.Cursor]:
        """The next life, and where it begins."""
        spec = self.mixture()._spec
        self.cursor = spec.start() if self.cursor is None else spec.fitted(self.cursor)
        return spec, self.cursor

    def end(self, spec: MixtureSpec, cursor: _core.Cursor) -> None:
        """It is killed somewhere in the pass."""
        planned = spec.pass_from(cursor, 1)
        done = planned.batches - planned.batches_left
        self.cursor = planned.cursor_after(done + self.draw.randint(0, planned.batches_left))
