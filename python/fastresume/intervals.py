"""Interval algebra over row numbers, for users with a reader of their own.

Intervals are int64 arrays of shape `[n, 2]`: each row is a half-open range `[start, end)`. Results are sorted
and coalesced; arguments need not be. A million intervals take milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, overload

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import Intervals as RowArray
from fastresume.buffers import of_buffer, of_words, to_array, to_int64
from fastresume.options.checks import integer, quoted
from fastresume.options.unknown import takes_no_other

__all__ = ["max_merge", "remaining", "slice_intervals"]

Key = TypeVar("Key")

MERGED_AT_ONCE = 64
"""The number of states that one call of the core merges."""


@takes_no_other("fr.intervals.remaining")
def remaining(consumed: npt.ArrayLike, total: int) -> RowArray:
    """The rows of `[0, total)` that are in none of the `consumed` intervals.

    Args:
        consumed: intervals, int64 `[n, 2]`, in any order; they may overlap.
        total: the number of rows.

    Returns:
        Intervals, int64 `[m, 2]`, sorted and coalesced.

    Raises:
        ValueError: if an interval is negative, ends before it starts or after `total`, or the shape or dtype
            is wrong.

    Examples:
        >>> remaining([[0, 300], [500, 800]], 1000).tolist()
        [[300, 500], [800, 1000]]
    """
    return of_buffer(_core.remaining(to_array(consumed), _to_count("total", total)))


@takes_no_other("fr.intervals.slice_intervals")
def slice_intervals(intervals: npt.ArrayLike, index: int, count: int, multiple_of: int = 1) -> RowArray:
    """Slice `index` of `count` contiguous slices of the rows in `intervals`.

    The slices of all indices hold each row exactly once, in order. Cut points are multiples of `multiple_of`
    rows, counted along the intervals. Slices differ by at most one such unit, and the last slice also takes
    the rest.

    Args:
        intervals: int64 `[n, 2]`.
        index: which slice, in `[0, count)`.
        count: how many slices.
        multiple_of: rows per unit (a batch size, say), at least 1.

    Returns:
        Intervals, int64 `[m, 2]`, sorted and coalesced; possibly empty.

    Raises:
        ValueError: if `index` or `multiple_of` is out of range, or an interval is malformed.

    Examples:
        >>> slice_intervals([[0, 5], [10, 16]], index=1, count=2, multiple_of=4).tolist()
        [[4, 5], [10, 16]]
    """
    array = to_array(intervals)
    numbers = (_to_count("index", index), _to_count("count", count), _to_count("multiple_of", multiple_of))
    return of_buffer(_core.slice_intervals(array, *numbers))


@overload
def max_merge(states: Sequence[Mapping[Key, int]]) -> dict[Key, int]: ...


@overload
def max_merge(states: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]: ...


@takes_no_other("fr.intervals.max_merge")
def max_merge(
    states: Sequence[Mapping[Key, int]] | Sequence[npt.NDArray[np.int64]],
) -> dict[Key, int] | npt.NDArray[np.int64]:
    """The elementwise maximum (arrays), or the maximum under each key (mappings), over all states.

    The merge is commutative, associative and idempotent. It is right for offsets that only one reader moves,
    and only forward.

    Args:
        states: int64 arrays of one shape, or mappings of key to int; at least one.

    Returns:
        An array of that shape, or a dict with all keys.

    Raises:
        ValueError: if there is no state, or arrays differ in shape.
        TypeError: if arrays and mappings are mixed, a state is None, or a value is not an integer.

    Examples:
        >>> max_merge([{"a:0": 7, "a:500": 500}, {"a:0": 3, "a:900": 950}])
        {'a:0': 7, 'a:500': 500, 'a:900': 950}
    """
    if isinstance(states, Mapping) or not isinstance(states, Iterable):
        raise TypeError(f"states must be a list of arrays or of mappings, found {quoted(states)}")
    given: list[Any] = list(states)
    if not given:
        raise ValueError("no state is given")
    mappings = [state for state in given if isinstance(state, Mapping)]
    nothing = [number for number, state in enumerate(given) if state is None]
    if nothing:
        raise TypeError(f"state {nothing[0]} of {len(given)} is None: leave out what was never saved")
    if mappings and len(mappings) < len(given):
        raise TypeError("states are either all arrays or all mappings, found both")
    if mappings:
        merged: dict[Key, int] = {}
        for one in mappings:
            for key, value in one.items():
                number = value if type(value) is int else integer(f"the value under {quoted(key)}", value)
                if key not in merged or number > merged[key]:
                    merged[key] = number
        return merged
    arrays = [np.asarray(state) for state in given]
    for array in arrays:
        if array.dtype.kind not in "iu":
            raise TypeError(f"states must be integer arrays, found dtype {str(array.dtype)[:200]}")
        if array.shape != arrays[0].shape:
            raise ValueError(f"states must have one shape, found {arrays[0].shape} and {array.shape}")
    greatest = to_int64(arrays[0]).reshape(-1)
    # Arrays of another dtype or layout are copied: at most this many at a time.
    for first in range(0, len(arrays), MERGED_AT_ONCE):
        some = [to_int64(array).reshape(-1) for array in arrays[first : first + MERGED_AT_ONCE]]
        greatest = of_words(_core.greatest([greatest, *some]))
    return greatest.reshape(arrays[0].shape)


def __dir__() -> list[str]:
    return __all__


def _to_count(name: str, value: int) -> int:
    number = integer(name, value)
    if not 0 <= number < 2**63:
        raise ValueError(f"{name} must be in [0, 2**63), found {number}")
    return number
