"""Ranges of positions or rows as arrays of pairs: in any order, overlapping or not, if no more is said."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fastresume.audit.log_format import Integers
from fastresume.buffers import Intervals

CHUNK = 1 << 16
NOTHING = np.empty((0, 2), np.int64)


def coverage(ranges: Intervals, total: int) -> tuple[Integers, Integers]:
    """Bounds that divide `[0, total)` and all ranges, and how many ranges cover each part."""
    bounds, place = np.unique(np.concatenate([[0, total], ranges.reshape(-1)]), return_inverse=True)
    opened = np.bincount(place[2::2], minlength=len(bounds))
    closed = np.bincount(place[3::2], minlength=len(bounds))
    return bounds, np.cumsum(opened - closed)[:-1]


def chunks(ranges: Intervals, size: int = CHUNK) -> Iterator[Intervals]:
    """The ranges in parts of about `size` numbers."""
    lengths = ranges[:, 1] - ranges[:, 0]
    pieces = -(-lengths // size)
    of_range = np.repeat(np.arange(len(ranges)), pieces)
    nth = np.arange(len(of_range)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = ranges[of_range, 0] + size * nth
    small = np.column_stack([starts, np.minimum(starts + size, ranges[of_range, 1])])
    part = (np.cumsum(small[:, 1] - small[:, 0]) - 1) // size
    yield from np.split(small, np.flatnonzero(part[1:] != part[:-1]) + 1) if len(small) else ()


def size(ranges: Intervals) -> int:
    """How many positions there are."""
    return int((ranges[:, 1] - ranges[:, 0]).sum())


def without(left: Intervals, total: int) -> Intervals:
    """The positions of `[0, total)` without these, which are sorted and joined."""
    ends = np.concatenate([[0], left.reshape(-1), [total]]).reshape(-1, 2)
    return ends[ends[:, 0] < ends[:, 1]]


def union(*several: Intervals) -> Intervals:
    """The ranges of all, sorted and joined."""
    ranges = np.concatenate([NOTHING, *several])
    ranges = ranges[ranges[:, 0] < ranges[:, 1]]
    ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ranges[:, 1])
    is_first = np.ones(len(ranges), np.bool_)
    is_first[1:] = ranges[1:, 0] > ends[:-1]
    is_last = np.append(is_first[1:], True)[: len(ranges)]
    return np.column_stack([ranges[is_first, 0], ends[is_last]])


def common(one: Intervals, other: Intervals) -> Intervals:
    """What is in both of two sorted and joined sets of ranges."""
    bounds = np.unique(np.concatenate([one.reshape(-1), other.reshape(-1)]))
    inside = np.ones(max(len(bounds) - 1, 0), np.bool_)
    for ranges in (one, other):
        at = np.searchsorted(ranges[:, 0], bounds[:-1], "right") - 1
        inside &= (at >= 0) & (bounds[:-1] < ranges[at, 1]) if len(ranges) else False
    return union(np.column_stack([bounds[:-1][inside], bounds[1:][inside]]))
