"""The axis of a source, for the audit: its own arithmetic, independent of the core's.

The axis of a source is its passes one after another, and consists of points. What was taken of it are
ranges of points. Spans say the same, however many rows a pass has: position p of pass n is `n * PASS + p`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Self

import numpy as np

from fastresume.audit.log_format import Integers
from fastresume.audit.ranges import NOTHING, common, size, union, without
from fastresume.buffers import Intervals

ENDLESS = 1 << 62
PASS = 1 << 40


def counted(ranges: Intervals, places: Intervals) -> Intervals:
    """What is at these places, counted along sorted ranges; the places are sorted and joined."""
    if not len(ranges) or not len(places):
        return NOTHING
    before = np.concatenate([[0], np.cumsum(ranges[:, 1] - ranges[:, 0])])
    bounds = np.unique(np.concatenate([places.reshape(-1), before[:-1]]))
    of = np.searchsorted(places[:, 0], bounds[:-1], "right") - 1
    inside = (of >= 0) & (bounds[:-1] < places[of, 1]) & (bounds[:-1] < before[-1])
    starts, ends = bounds[:-1][inside], bounds[1:][inside]
    at = np.searchsorted(before, starts, "right") - 1
    first = ranges[at, 0] + starts - before[at]
    return np.column_stack([first, first + ends - starts])


def pieces(ranges: Intervals, rows: int) -> Integers:
    """The ranges of an axis by its passes of `rows` rows: int64 `[n, 3]`, the pass, and a range of it."""
    if not len(ranges):
        return np.empty((0, 3), np.int64)
    first, last = ranges[:, 0] // rows, (ranges[:, 1] - 1) // rows
    of = np.repeat(np.arange(len(ranges)), last - first + 1)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(last - first + 1) - (last - first + 1), last - first + 1)
    passes = first[of] + nth
    starts = np.maximum(ranges[of, 0] - passes * rows, 0)
    return np.column_stack([passes, starts, np.minimum(ranges[of, 1] - passes * rows, rows)])


def by_pass(spans: Intervals) -> Iterator[tuple[int, Intervals]]:
    """The passes that spans are of, and the positions in each."""
    passes = spans[:, 0] // PASS
    for number in np.unique(passes).tolist():
        yield number, spans[passes == number] - number * PASS


@lru_cache(maxsize=64)
def places_of(weights: tuple[int, ...]) -> tuple[Integers, ...]:
    """The places of each source in a period: at each place is the source whose turn is due first."""
    length = sum(weights)
    due: list[list[tuple[int, int]]] = [[] for _ in range(length)]
    for source, weight in enumerate(weights):
        for number in range(weight):
            due[number * length // weight].append((-(-(number + 1) * length // weight), source))
    waiting: list[tuple[int, int]] = []
    places: list[list[int]] = [[] for _ in weights]
    for place in range(length):
        for each in due[place]:
            heapq.heappush(waiting, each)
        places[heapq.heappop(waiting)[1]].append(place)
    return tuple(np.array(each, np.int64) for each in places)


def left_of(left: Intervals, cuts: Sequence[Sequence[int]]) -> Intervals:
    """What cuts leave of positions: each lane gives batches from its beginning on."""
    for lanes, groups, rows, done in cuts:
        slices = size(left) // (lanes * rows)
        of_lanes = min(done, slices * groups)
        lane = np.arange(lanes)
        given = (of_lanes - lane % groups + groups - 1) // groups * rows
        tail = lanes * slices * rows + max(done - slices * groups, 0) * rows * (lanes // groups)
        kept = np.column_stack([lane * slices * rows + given, (lane + 1) * slices * rows])
        left = union(counted(left, union(kept, np.array([[tail, size(left)]], np.int64))))
    return left


@dataclass
class Axis:
    """The axis of a source.

    Args:
        rows: of each pass.
        first: the pass with which it begins; all before it were done.
        ends: where generations of rows end, and the last pass that is divided by each.
        balance: rows that were taken before that pass, minus rows that only count as taken.
        taken: what was taken of it.
        is_round: whether its passes are rounds of a stream, and those before had other rows.
    """

    rows: int
    first: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)
    balance: int = 0
    taken: Intervals = field(default_factory=lambda: NOTHING)
    is_round: bool = False

    def spans(self, ranges: Intervals) -> Intervals:
        """Ranges of it as spans."""
        found = pieces(ranges, self.rows)
        return found[:, 1:] + (found[:, :1] + self.first) * PASS

    @property
    def all_taken(self) -> Intervals:
        """The spans of all that counts as taken, with those of the passes before the first one."""
        early = np.arange(0 if self.is_round else self.first) * PASS
        return union(np.column_stack([early, early + self.rows]), self.spans(self.taken))

    @property
    def is_done(self) -> bool:
        """Whether all of its first pass was taken."""
        return size(self.taken) == self.rows

    @property
    def total(self) -> int:
        """How many rows were taken."""
        return self.balance + size(self.taken)

    def ends_in(self, number: int) -> tuple[int, ...]:
        """Where the generations of the rows of a pass end, except the last one."""
        return tuple(end for end, last in self.ends if last >= number)

    def with_taken(self, more: Intervals) -> Self:
        """The same after more was taken."""
        return replace(self, taken=union(self.taken, more))

    def grow(self, rows: int) -> None:
        """Adds rows: to each pass that was partly taken; if none was, to the last one that was taken."""
        old, before = self.rows, size(self.taken)
        self.rows = rows
        if rows == old or not before:
            return
        found = pieces(self.taken, old)
        is_whole = found[:, 2] - found[:, 1] == old
        last = int(found[-1, 0])
        if is_whole.all():
            is_whole[-1] = False
        found[is_whole, 2] = rows
        whole = found[is_whole, 0]
        base = int(np.cumprod(whole == np.arange(len(whole))).sum())
        found = found[found[:, 0] >= base]
        self.taken = union(found[:, 1:] + (found[:, :1] - base) * rows)
        self.balance += before - size(self.taken)
        self.ends.append((old, self.first + last))
        self.first += base


def points_at(axis: Axis, weights: Sequence[int], source: int, positions: Intervals) -> Intervals:
    """The points of a source at positions of a stage: the next of what is left."""
    places, length = places_of(tuple(weights))[source], sum(weights)
    counts = positions // length * weights[source] + np.searchsorted(places, positions % length)
    return counted(without(axis.taken, ENDLESS), union(counts))


class Taken(NamedTuple):
    """What was taken of a source.

    Args:
        spans: sorted and joined.
        sizes: how many rows a pass had, each time the job began.
    """

    spans: Intervals = NOTHING
    sizes: frozenset[int] = frozenset()

    @classmethod
    def of(cls, axis: Axis) -> Self:
        """What counts as taken of an axis."""
        return cls(axis.all_taken, frozenset((axis.rows, *(end for end, _ in axis.ends))))

    def plus(self, spans: Intervals, rows: int) -> Taken:
        """These and more, of passes of `rows` rows."""
        return Taken(union(self.spans, spans), self.sizes | {rows})

    def differences(self, axis: Axis) -> tuple[Intervals, Intervals]:
        """What counts as taken on an axis and is not among these, and what is, and counts as left.

        In a pass that was done, rows that were added later count as taken. Of a stream, only the present
        round is compared.
        """
        all_taken, spans = axis.all_taken, self.spans
        if axis.is_round:
            spans = common(spans, np.array([[axis.first * PASS, ENDLESS]]))
        lacking = common(all_taken, without(spans, ENDLESS))
        passes, first = np.divmod(lacking[:, 0], PASS)
        is_later = np.isin(first, sorted(self.sizes)) & (lacking[:, 1] == passes * PASS + axis.rows)
        if is_later.any():  # if the pass was whole before they came
            whole = np.column_stack([passes * PASS, lacking[:, 0]])
            of = np.searchsorted(spans[:, 0], whole[:, 0])
            own = np.concatenate([spans, [[-1, -1]]])[of]
            is_later &= (own == whole).all(axis=1)
        return lacking[~is_later], common(spans, without(all_taken, ENDLESS))
