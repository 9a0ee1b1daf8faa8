"""The rows of a batch that can't be read or decoded, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Damage = tuple[tuple[int, int, str], ...]
"""Ranges of row numbers `[start, end)`, each with its cause: column, row group and file are in it."""

Rows = npt.NDArray[np.int64]


def among(damage: Sequence[tuple[int, int, str]], rows: Rows) -> npt.NDArray[np.bool_]:
    """Which of these rows are damaged: bool `[n]`."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for start, end, _ in damage:
        found |= (rows >= start) & (rows < end)
    return found


def masked_of(
    damage: Sequence[tuple[int, int, str]], rows: Rows, failure: str | None
) -> list[tuple[str, Rows]]:
    """The rows that are masked of these, by cause: all of them, where a function failed over their batch."""
    if failure is not None:
        return [(failure, rows)]
    return [(one[2], rows[among((one,), rows)]) for one in of_rows(damage, rows)]


def of_rows(damage: Sequence[tuple[int, int, str]], rows: Rows) -> Damage:
    """The ranges that have one of these rows: none, where all of them can be read."""
    return tuple(one for one in damage if among((one,), rows).any())
