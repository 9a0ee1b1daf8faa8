"""Sets of integers as sorted intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]
"""Half open: (start, end) holds the positions start, start + 1, ..., end - 1."""


def intervals_of(positions: Iterable[int]) -> list[Interval]:
    """Return the positions as sorted, disjoint, coalesced intervals."""
    found: list[Interval] = []
    for position in sorted(set(positions)):
        if found and found[-1][1] == position:
            found[-1] = (found[-1][0], position + 1)
        else:
            found.append((position, position + 1))
    return found


def positions_of(intervals: Iterable[Sequence[int]]) -> list[int]:
    """Return the positions that the intervals hold, ascending, each once, however the intervals overlap."""
    return sorted({position for start, end in intervals for position in range(start, end)})


def remaining(consumed: Iterable[Sequence[int]], total: int) -> list[Interval]:
    """Return the intervals of [0, total) that `consumed` does not hold."""
    return intervals_of(set(range(total)) - set(positions_of(consumed)))


def slice_intervals(
    intervals: Iterable[Sequence[int]], index: int, count: int, multiple_of: int = 1
) -> list[Interval]:
    """Return slice `index` of `count` of the intervals' rows.

    The T rows are counted along the intervals. Of their whole units of `multiple_of` rows, slice i begins at
    unit i * units // count; so every cut point is a multiple of `multiple_of`, and the last slice takes the
    rest.
    """
    if not 0 <= index < count or multiple_of < 1:
        raise ValueError(f"index {index} of {count} slices, multiple_of {multiple_of}")
    rows = positions_of(intervals)
    units = len(rows) // multiple_of

    def cut(i: int) -> int:
        return len(rows) if i == count else multiple_of * (i * units // count)

    return intervals_of(rows[cut(index) : cut(index + 1)])
