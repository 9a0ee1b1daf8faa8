"""What conditions are asked of: columns of rows, and footers' facts of row groups; and what they answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Marks = npt.NDArray[np.bool_]
Bound = bool | int | float | bytes | None

COMPARED_BYTES = 1 << 22
"""So many bytes of text are compared at a time: each takes nine of memory more."""


@dataclass(frozen=True)
class Truth:
    """Of each row, whether a condition is true, and whether it is false; neither where a null decides it.

    Of each row group, whether it may be true of a row, and false, and neither.
    """

    yes: Marks
    no: Marks
    null: Marks


@dataclass(frozen=True)
class Text:
    """Strings or bytes: row i is `values[offsets[i] : offsets[i + 1]]`."""

    values: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]

    def equal(self, value: bytes) -> Marks:
        """Which rows are this one."""
        found: Marks = np.diff(self.offsets) == len(value)
        if value:
            some = max(COMPARED_BYTES // len(value), 1)
            rows = np.flatnonzero(found)
            for part in (rows[first : first + some] for first in range(0, len(rows), some)):
                places = self.offsets[part][:, None] + np.arange(len(value))
                found[part] = (self.values[places] == np.frombuffer(value, np.uint8)).all(axis=1)
        return found

    def each(self) -> list[bytes]:
        """The rows one by one."""
        whole, bounds = self.values.tobytes(), self.offsets.tolist()
        return [whole[start:end] for start, end in itertools.pairwise(bounds)]


@dataclass(frozen=True)
class Values:
    """A column of some rows, and which of them are not null."""

    data: npt.NDArray[Any] | Text
    valid: Marks


@dataclass(frozen=True)
class Facts:
    """What footers tell of a column, per row group: its rows, and as far as known bounds and nulls."""

    bounds: list[tuple[Bound, Bound]]
    nulls: list[int | None]
    rows: list[int]
    is_float: bool

    def truth(self, judge: Callable[[Any, Any], tuple[bool, bool]], of_nan: tuple[bool, bool]) -> Truth:
        """What a judge of bounds says of each row group: whether some value may pass, and some may not.

        `of_nan` is the same of a NaN, which no bounds tell of.
        """
        found = []
        for (low, high), nulls, rows in zip(self.bounds, self.nulls, self.rows, strict=True):
            yes, no = (True, True) if low is None or high is None else judge(low, high)
            if self.is_float:
                yes, no = yes or of_nan[0], no or of_nan[1]
            has_value = nulls is None or nulls < rows
            found.append((yes and has_value, no and has_value, nulls != 0))
        columns = np.array(found, np.bool_).reshape(-1, 3).T
        return Truth(*columns)
