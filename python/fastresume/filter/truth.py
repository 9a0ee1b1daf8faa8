"""Three-valued logic of filters: columns of rows, statistics of ranges of rows, and the answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Marks = npt.NDArray[np.bool_]
PlainValue = bool | int | float | bytes
Bound = PlainValue | None
Sought = PlainValue | Fraction

COMPARED_BYTES = 1 << 22
"""The bytes of strings that are compared at a time: each takes nine more bytes of memory."""


@dataclass(frozen=True)
class Truth:
    """For each row, whether a condition is true, and whether it is false; neither, where a null decides it.

    For each range of rows, whether it may be true of a row, may be false, and may be neither.
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
        """Which rows equal this value."""
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
    """A column of some rows, and which rows are not null."""

    data: npt.NDArray[Any] | Text
    valid: Marks


@dataclass(frozen=True)
class Facts:
    """The statistics of a column for some ranges of rows.

    Args:
        bounds: no value is below the first, none above the second; None if they are not known.
        nulls: how many of `rows` are null; None if that is not known.
        rows: the number of rows that the statistics cover: more than the range has if it is part of a page.
        absent: values that are surely not there.
        is_float: whether there may be NaN, about which bounds say nothing.
    """

    bounds: list[tuple[Bound, Bound]]
    nulls: list[int | None]
    rows: list[int]
    absent: list[AbstractSet[Sought]]
    is_float: bool

    def unknown(self) -> Facts:
        """The same stretches, with nothing known about them."""
        count = len(self.rows)
        return Facts([(None, None)] * count, [None] * count, self.rows, [frozenset()] * count, self.is_float)

    def without_absent(self) -> Facts:
        """The same without the values that are not there."""
        return replace(self, absent=[frozenset()] * len(self.rows))

    def truth(
        self, judge: Callable[[Any, Any, AbstractSet[Sought]], tuple[bool, bool]], of_nan: tuple[bool, bool]
    ) -> Truth:
        """The answer for each range: whether some value may pass a condition, and whether some may not.

        `judge` gets both bounds, or None and None, and the absent values. `of_nan` is its answer for a NaN.
        """
        found = []
        for (low, high), nulls, rows, absent in zip(
            self.bounds, self.nulls, self.rows, self.absent, strict=True
        ):
            is_bounded = low is not None and high is not None
            yes, no = judge(low, high, absent) if is_bounded else judge(None, None, absent)
            if self.is_float:
                yes, no = yes or of_nan[0], no or of_nan[1]
            has_value = nulls is None or nulls < rows
            found.append((yes and has_value, no and has_value, nulls != 0))
        columns = np.array(found, np.bool_).reshape(-1, 3).T
        return Truth(*columns)


def may_equal(value: Any, low: Any, high: Any, absent: AbstractSet[Sought]) -> bool:
    """Whether a value may be there: within the bounds, if they are known, and not known to be absent."""
    return value not in absent and (low is None or low <= value <= high)
