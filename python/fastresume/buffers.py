"""Numpy views of memory that the core filled: intervals, runs and words."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import fastresume._core as _core

Intervals = npt.NDArray[np.int64]


def of_buffer(buffer: _core.Buffer) -> Intervals:
    """The int64 `[n, 2]` view of memory that the core filled."""
    return _numbers(buffer).reshape(-1, 2)


def of_runs(runs: Intervals) -> npt.NDArray[np.int64]:
    """The numbers in runs, one after another, in the runs' order."""
    if len(runs) == 1:
        return np.arange(*runs[0], dtype=np.int64)
    lengths = runs[:, 1] - runs[:, 0]
    if (lengths == 1).all():  # usual in a shuffled batch
        return runs[:, 0].copy()
    ends = np.cumsum(lengths)
    numbers: npt.NDArray[np.int64] = np.arange(ends[-1], dtype=np.int64)
    numbers += np.repeat(runs[:, 0] - ends + lengths, lengths)
    return numbers


def of_mask(mask: npt.NDArray[np.bool_]) -> Intervals:
    """The runs of places where a mask is true.

    Examples:
        >>> of_mask(np.array([True, True, False, True])).tolist()
        [[0, 2], [3, 4]]
    """
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0))
    return edges.astype(np.int64).reshape(-1, 2)


def numbers_at(runs: Intervals, places: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The numbers at these places among those in runs, in the runs' order."""
    numbers: npt.NDArray[np.int64] = places + runs[0, 0] if len(runs) == 1 else of_runs(runs)[places]
    return numbers


def row_count(buffer: _core.Buffer) -> int:
    """The number of integers in the intervals of a buffer."""
    return int(np.diff(of_buffer(buffer)).sum())


def of_words(buffer: _core.Buffer) -> npt.NDArray[np.int64]:
    """The int64 `[n]` view of memory that the core filled."""
    return _numbers(buffer)


def _numbers(buffer: _core.Buffer) -> npt.NDArray[np.int64]:
    if len(buffer) == 0:
        return np.empty(0, dtype=np.int64)
    exporter: Any = buffer  # from Python 3.12 on, a type can say that it exports a buffer
    return np.frombuffer(exporter, dtype=np.int64)


def to_array(intervals: npt.ArrayLike) -> Intervals:
    """The intervals as a C-contiguous int64 array `[n, 2]`; only shape and dtype are checked."""
    for given in intervals if isinstance(intervals, (list, tuple)) else ():
        if isinstance(given, range):
            # A range of two numbers would be mistaken for the bounds of an interval.
            raise ValueError(
                f"intervals are pairs of bounds: write [{given.start}, {given.stop}] for {given!r}"
            )
    array = np.asarray(intervals)
    if array.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        way = ": write split.rows(num_rows)" if hasattr(intervals, "rows") else ""
        raise ValueError(f"intervals must have the shape [n, 2], found {list(array.shape)}{way}")
    if not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"intervals must be integers, found dtype {array.dtype}")
    return to_int64(array)


def to_int64(array: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The integers as a C-contiguous, aligned int64 array.

    Raises:
        ValueError: if one does not fit.
    """
    if array.dtype == np.uint64 and array.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueError(f"a number does not fit int64: {array.max()}")
    numbers = np.asarray(array, dtype=np.int64, order="C")
    return numbers if numbers.flags.aligned else numbers.copy()
