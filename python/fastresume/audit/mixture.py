"""What stands at the places of a mixture, for the audit: its own arithmetic, independent of the core's.

The axis of a source is its passes one after another. What was taken of it are ranges on it, or pieces of
passes: the pass, and a range of its positions.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np

from fastresume.audit.log_format import Integers
from fastresume.audit.ranges import NOTHING, common, size, union, without
from fastresume.buffers import Intervals

ENDLESS = 1 << 60
NO_PIECES = np.empty((0, 3), np.int64)
"""Pieces of passes: int64 `[n, 3]`, the pass, and a range of its positions."""


def counted(ranges: Intervals, places: Intervals) -> Intervals:
    """What stands at these places, counted along sorted ranges; the places are sorted and joined."""
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
    """The ranges of an axis as pieces of its passes of so many rows."""
    if not len(ranges):
        return NO_PIECES
    first, last = ranges[:, 0] // rows, (ranges[:, 1] - 1) // rows
    of = np.repeat(np.arange(len(ranges)), last - first + 1)
    nth = np.arange(len(of)) - np.repeat(np.cumsum(last - first + 1) - (last - first + 1), last - first + 1)
    passes = first[of] + nth
    starts = np.maximum(ranges[of, 0] - passes * rows, 0)
    return np.column_stack([passes, starts, np.minimum(ranges[of, 1] - passes * rows, rows)])


def from_pass(found: Integers, first: int) -> Integers:
    """The pieces, whose passes are counted from this one on."""
    return found + np.array([first, 0, 0], np.int64)


def flat(found: Integers, rows: int) -> Intervals:
    """Pieces as ranges of an axis whose passes have so many rows, or more than they have."""
    return np.column_stack([found[:, 0] * rows + found[:, 1], found[:, 0] * rows + found[:, 2]])


@lru_cache(maxsize=64)
def places_of(weights: tuple[int, ...]) -> tuple[Integers, ...]:
    """The places of each source in a period: at each stands the one that has to come first."""
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


def left_of(total: int, cuts: Sequence[Sequence[int]]) -> Intervals:
    """The positions of `[0, total)` that some cuts leave: each lane gives batches from its beginning on."""
    left = without(NOTHING, total)
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
        balance: rows that were taken before that pass, less those that only count as taken.
        taken: what was taken of it.
    """

    rows: int
    first: int = 0
    ends: list[tuple[int, int]] = field(default_factory=list)
    balance: int = 0
    taken: Intervals = field(default_factory=lambda: NOTHING)

    @property
    def pieces(self) -> Integers:
        """What was taken of passes from the first one on."""
        return from_pass(pieces(self.taken, self.rows), self.first)

    @property
    def total(self) -> int:
        """How many rows were taken."""
        return self.balance + size(self.taken)

    def ends_in(self, number: int) -> tuple[int, ...]:
        """Where the generations of the rows of a pass end, but for the last one."""
        return tuple(end for end, last in self.ends if last >= number)

    def grow(self, rows: int) -> None:
        """Adds rows: behind the passes that were partly taken; if none was, behind the last one that was."""
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
        found = from_pass(found[found[:, 0] >= base], -base)
        self.taken = union(flat(found, rows))
        self.balance += before - size(self.taken)
        self.ends.append((old, self.first + last))
        self.first += base


class MixtureState:
    """The state of a mixture.

    Args:
        text: as JSON.

    Attributes:
        names: of its sources.
        weights: of these in the present stage; 0 of those that are not read.
        positions: how many the present stage has.
        orders: the order of each source.
    """

    def __init__(self, text: str) -> None:
        told = json.loads(text)
        order: dict[str, Any] = told["order"]
        self.epoch: int = told["epoch"]
        self.cuts: list[list[int]] = told["cuts"]
        self.positions: int = told["dataset"]["rows"]
        self.names: list[str] = [source[0] for source in order["sources"]]
        self.weights: list[int] = order["weights"]
        self.orders = {source[0]: _order(source[3]) for source in order["sources"]}
        self._sources: list[list[Any]] = order["sources"]
        self._stages: list[tuple[list[int], int, list[list[int]]]] = order["stages"]

    @property
    def stage(self) -> tuple[object, ...]:
        """What tells the stage from others of a job."""
        shares = tuple(zip(self.names, self.weights, strict=True))
        rows = tuple((source[0], source[2]) for source in self._sources)
        return self.epoch, len(self._stages), tuple(share for share in shares if share[1]), rows

    @property
    def shares(self) -> str:
        """The sources that are read, with their shares."""
        whole = sum(self.weights)
        each = zip(self.names, self.weights, strict=True)
        return ", ".join(f"{name} {weight / whole:.2%}" for name, weight in each if weight)

    @cached_property
    def begun(self) -> list[Axis]:
        """The axes when the present stage began: the stages before it are done again."""
        axes, came = [], []
        for _, _, rows, _, told, *grown in self._sources:
            first, balance, ends, in_pass = grown[0] if grown else (0, 0, [], [])
            holes = np.array(told[1:], np.int64).reshape(-1, 2)
            taken = without(holes, told[0]) if told else NOTHING
            sizes = [*(of[1] for of in in_pass), rows]
            axes.append(Axis(sizes[0], first, [(end, last) for end, last in ends], balance, taken))
            came.append([(of[2], later) for of, later in zip(in_pass, sizes[1:], strict=True)])
        for number in range(len(self._stages) + 1):
            for axis, grown in zip(axes, came, strict=True):
                for _, rows in (each for each in grown if each[0] == number):
                    axis.grow(rows)
            if number < len(self._stages):
                weights, positions, cuts = self._stages[number]
                taken_in(axes, weights, without(left_of(positions, cuts), positions))
        return axes

    @property
    def axes(self) -> dict[str, Axis]:
        """The same by the names of the sources."""
        return dict(zip(self.names, self.begun, strict=True))

    def after(self, cut: tuple[int, ...], batches: int) -> dict[str, Axis]:
        """The axes after so many more batches under a cut."""
        cuts = [list(each) for each in self.cuts]
        if batches:
            if cuts and tuple(cuts[-1][:3]) == cut:
                cuts[-1][3] += batches
            else:
                cuts.append([*cut, batches])
        axes = [Axis(each.rows, each.first, each.ends, each.balance, each.taken) for each in self.begun]
        taken_in(axes, self.weights, without(left_of(self.positions, cuts), self.positions))
        return dict(zip(self.names, axes, strict=True))

    @cached_property
    def taken(self) -> dict[str, Axis]:
        """The axes as the state says they are."""
        return self.after((), 0)

    def at(self, positions: Intervals) -> dict[str, Integers]:
        """Which pieces of which sources stand at positions of the stage, sorted and joined."""
        return {
            name: from_pass(pieces(ordinals_at(axis, self.weights, source, positions), axis.rows), axis.first)
            for source, (name, axis) in enumerate(zip(self.names, self.begun, strict=True))
            if self.weights[source]
        }


def taken_in(axes: Sequence[Axis], weights: Sequence[int], positions: Intervals) -> None:
    """Takes what stands at positions of a stage."""
    found = [ordinals_at(axis, weights, source, positions) for source, axis in enumerate(axes)]
    for axis, ordinals in zip(axes, found, strict=True):
        axis.taken = union(axis.taken, ordinals)


def ordinals_at(axis: Axis, weights: Sequence[int], source: int, positions: Intervals) -> Intervals:
    """What of a source stands at positions of a stage: the next of what is left."""
    places, length = places_of(tuple(weights))[source], sum(weights)
    counts = positions // length * weights[source] + np.searchsorted(places, positions % length)
    return counted(without(axis.taken, ENDLESS), union(counts))


def _order(sizes: Sequence[int] | None) -> Mapping[str, Any]:
    if sizes is None:
        return {"kind": "sequential"}
    return dict(zip(("kind", "seed", "block_rows", "window_rows"), ("shuffled", *sizes), strict=True))


@dataclass
class Taken:
    """What logs show of a source: pieces of its passes.

    Args:
        pieces: as they were delivered, in any order.
        sizes: how many rows a pass had, each time the job began.
    """

    pieces: Integers = field(default_factory=lambda: NO_PIECES)
    sizes: frozenset[int] = frozenset()

    def with_pieces(self, more: Integers, rows: int) -> Self:
        """These and more, of passes of so many rows."""
        return type(self)(np.concatenate([self.pieces, more]), self.sizes | {rows})

    def differences(self, axis: Axis) -> tuple[Integers, Integers]:
        """What counts as taken and was not delivered, and what was delivered and counts as left.

        Of a pass that was done, rows that came later count as taken.
        """
        rows = max(self.sizes | {axis.rows})
        own = union(flat(self.pieces, rows))
        passes = np.unique(self.pieces[:, 0])
        early = np.arange(axis.first)
        told = np.concatenate([axis.pieces, np.column_stack([early, 0 * early, 0 * early + axis.rows])])
        told_flat = union(flat(told, rows))
        lacking = pieces(common(told_flat, without(own, ENDLESS)), rows)
        ends = np.unique(own[:, 1])
        is_later = np.isin(lacking[:, 1], sorted(self.sizes)) & (lacking[:, 2] == axis.rows)
        is_later &= np.isin(lacking[:, 0] * rows + lacking[:, 1], ends) & np.isin(lacking[:, 0], passes)
        is_later &= np.array([size(own_of(own, int(of), rows)) == end for of, end, _ in lacking], np.bool_)
        more = pieces(common(own, without(told_flat, ENDLESS)), rows)
        return lacking[~is_later], more


def own_of(ranges: Intervals, number: int, rows: int) -> Intervals:
    """The ranges within a pass."""
    return common(ranges, np.array([[number * rows, (number + 1) * rows]], np.int64))
