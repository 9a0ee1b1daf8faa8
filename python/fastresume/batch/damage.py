"""The rows of a batch that can't be read or decoded, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Range = tuple[int, int, str] | tuple[int, int, str, int]
"""A range of row numbers `[start, end)` and its cause: column, row group and file are in it.

For a mixture, a fourth item is the source that the rows are of.
"""

Damage = tuple[Range, ...]

One = TypeVar("One", tuple[int, int, str], Range)

Rows = npt.NDArray[np.int64]


def among(damage: Sequence[Range], rows: Rows, sources: Rows | None = None) -> npt.NDArray[np.bool_]:
    """Which of these rows are damaged: bool `[n]`. `sources` says which source of a mixture each is of."""
    found = np.zeros(len(rows), dtype=np.bool_)
    for one in damage:
        inside = (rows >= one[0]) & (rows < one[1])
        found |= inside & (sources == one[3]) if len(one) == 4 and sources is not None else inside
    return found


def of_rows(damage: Sequence[One], rows: Rows, sources: Rows | None = None) -> tuple[One, ...]:
    """The ranges that have one of these rows: none, where all of them can be read."""
    return tuple(one for one in damage if among((one,), rows, sources).any())
