"""Rows whose costs can't be read: they are in no unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import fastresume._core as _core
from fastresume.buffers import of_buffer, of_runs
from fastresume.filter.damaged_rows import DamagedRows
from fastresume.options.rows import Intervals, select


def without(
    manifest: _core.Manifest, damage: Sequence[tuple[int, int, str]], most: int
) -> tuple[_core.Manifest, int]:
    """The files without the selected rows that the index of units can't read, and how many these are.

    Raises:
        DataError: if they are more than `most`.
    """
    if not damage:
        return manifest, 0
    found = Intervals(np.array([each[:2] for each in damage], np.int64))
    gone = select(manifest, found).selected
    rows = np.arange(manifest.num_rows) if gone is None else of_runs(of_buffer(gone))
    damaged = DamagedRows(most, "the index of units", "all units")
    damaged.among(damage, rows)
    return select(manifest, ~found), damaged.count
