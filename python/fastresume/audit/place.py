"""The place in the data that a state names: what is at positions, and what was taken of each source.

A dataset is read as a mixture of one source, whose name is empty. Its stages are its passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import numpy as np

from fastresume._core import StateError
from fastresume.audit.axis import PASS, Axis, left_of, points_at
from fastresume.audit.ranges import NOTHING, common, size, union, without
from fastresume.audit.stream_round import StreamRound
from fastresume.buffers import Intervals

ALONE = ""
"""The name of what is read if it is no mixture."""

MOST_PASSES, MOST_LANES, MOST_PLACES = 1 << 22, 1 << 22, 1 << 16

Cut = tuple[int, ...]
"""Lanes, groups, and rows of each lane and batch."""


class Place:
    """The place in the data that a state names.

    Args:
        text: the state, as JSON.

    Raises:
        StateError: if it is none.

    Attributes:
        epoch: the number of the pass.
        is_mixture: whether it is one of a mixture.
        fingerprint, selection: those of its files, if it is not.
        names: of the sources.
        weights: of these in the present stage; 0 of those that are not read.
        positions: how many the present stage has; 0 where the next round is not known.
        orders: the order of each source.
        files: of each source, what tells its files and its selected rows from others.
        rows: how many a pass of each source has.
        rounds: of each source that is a stream, the round that is its pass.
    """

    def __init__(self, text: str) -> None:
        try:
            self._read(json.loads(text))
            self._check()
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as cause:
            raise StateError(f"a state is not understood: {cause!r}") from None

    def _read(self, state: Mapping[str, Any]) -> None:
        order: dict[str, Any] = state["order"]
        self.epoch: int = state["epoch"]
        self.positions: int = state["dataset"]["rows"]
        self.is_mixture = "mixture" in order
        self.rounds = _rounds(state.get("round") or {})
        self.fingerprint: str = state["dataset"]["fingerprint"]
        self.selection: str | None = state["selection"]
        self._cuts: list[list[int]] = state["cuts"]
        self._consumed = np.array(state["consumed"], np.int64).reshape(-1, 2)
        self._generations: list[list[int]] = state.get("generations", [])
        self._stages: list[tuple[list[int], int, list[list[int]]]] = []
        if self.is_mixture:
            self._sources: list[list[Any]] = order["sources"]
            self._stages = order["stages"]
            self.weights: list[int] = order["weights"]
            self.orders = {source[0]: _order(source[3]) for source in self._sources}
            of_rounds = {name: json.dumps(of.topics) for name, of in self.rounds.items()}
            self.files = {source[0]: of_rounds.get(source[0], str(source[1])) for source in self._sources}
        else:
            files = json.dumps(
                [self.fingerprint, self.selection] if self.round is None else self.round.topics
            )
            self._sources, self.weights = [[ALONE, files, self.positions]], [1]
            self.orders, self.files = {ALONE: order}, {ALONE: files}
        self.names: list[str] = list(self.orders)
        self.rows: dict[str, int] = {source[0]: source[2] for source in self._sources}
        self._order = json.dumps([self.epoch, state["dataset"], state["selection"], order])

    def _check(self) -> None:
        """Refuses numbers that no state has."""
        cuts = [*self._cuts, *(cut for _, _, own in self._stages for cut in own)]
        read = dict(zip(self.names, self.weights, strict=True))
        # A stream has none before its first round, and a mixture with it none where the next is not known.
        # Under other weights the pass of a mixture may be over already.
        least = [(int(not self.rounds and not self.is_mixture), self.positions)]
        least += [(int(read[name] > 0 and name not in self.rounds), rows) for name, rows in self.rows.items()]
        if not all(low <= rows < PASS for low, rows in least):
            raise ValueError("there are no such numbers of rows")
        if not 0 <= self.epoch < MOST_PASSES or not 0 < sum(self.weights) <= MOST_PLACES:
            raise ValueError("there are no such passes and weights")
        if any(
            not 0 < lanes <= MOST_LANES or min(groups, rows) < 1 or done < 0
            for lanes, groups, rows, done in cuts
        ):
            raise ValueError("there are no such cuts")
        for order in self.orders.values():
            if (
                order["kind"] == "shuffled"
                and not 0 < order["block_rows"] <= order["window_rows"] + 0 * order["seed"]
            ):
                raise ValueError("there is no such order")
        firsts = {source[0]: source[5][0] if len(source) > 5 else 0 for source in self._sources}
        for name, of in self.rounds.items():
            numbers = (of.number, of.number + 1) if name == ALONE else (of.number,)
            is_of_pass = (self.epoch if name == ALONE else firsts[name]) in numbers
            has_rows = self.selection is not None or of.rows.starts[-1] == self.rows[name]  # or units
            if not has_rows or not is_of_pass:
                raise ValueError("the round has other rows than the state, or another number")
        _ = self.mark

    # ------------------------------------------------------------------------------------------ what it is

    @property
    def order_key(self) -> object:
        """What decides which rows are at its positions."""
        return self._order, tuple(end for end, _ in self._generations)

    def reads(self, name: str) -> bool:
        """Whether the stage has rows of a source."""
        return self.weights[self.names.index(name)] > 0

    def earlier_files(self, name: str) -> set[str]:
        """What a source's files were before others came to them, as far as the state knows."""
        grown = (source[5][3] for source in self._sources if source[0] == name and len(source) > 5)
        return {str(files) for each in grown for files, *_ in each}

    @property
    def round(self) -> StreamRound | None:
        """Of a stream that is read by itself, the round that is the pass; None of others."""
        return self.rounds.get(ALONE)

    @property
    def is_described_by_rank_0(self) -> bool:
        """Whether it is a round of units, which rank 0's log describes and no file."""
        return self.round is not None and self.selection is not None

    @property
    def stage(self) -> tuple[object, ...]:
        """What tells the stage from others of a job."""
        shares = tuple(zip(self.names, self.weights, strict=True))
        rows = tuple((source[0], source[2]) for source in self._sources)
        return self.epoch, len(self._stages), tuple(share for share in shares if share[1]), rows

    @property
    def number(self) -> int:
        """The number of the stage in the pass."""
        return len(self._stages)

    @property
    def shares(self) -> str:
        """The sources that are read, with their shares."""
        whole = sum(self.weights)
        each = zip(self.names, self.weights, strict=True)
        return ", ".join(f"{name} {weight / whole:.2%}" for name, weight in each if weight)

    @property
    def is_start(self) -> bool:
        """Whether nothing of the pass is delivered; for a mixture, nothing of any pass of its sources."""
        is_new = not self._stages and (not self.is_mixture or all(of[4:] == [[]] for of in self._sources))
        return is_new and not len(self._consumed) and not self._cuts and not self.is_between_rounds

    @property
    def is_between_rounds(self) -> bool:
        """Whether a round is done, and the next one is not known."""
        return self.round is not None and self.epoch > self.round.number

    @property
    def is_made(self) -> bool:
        """Whether no batches can lead to it: it was merged of others, or imported."""
        ends = self._generations[:1]
        is_grown = bool(ends) and self._consumed.tolist() == [[0, ends[0][0]]]
        return len(self._consumed) > 0 and not is_grown

    @cached_property
    def mark(self) -> tuple[int, int]:
        """What two states from which the same is left have in common: a pass, and how much was taken of it.

        For a mixture 0, and how many rows its sources delivered. For a stream the end of a round is
        `(number, 0)`.
        """
        if self.is_mixture:
            return 0, sum(axis.total for axis in self.taken.values())
        if self.is_between_rounds:
            return self.epoch - 1, 0
        taken = self.positions - size(self.left)
        if self.round is not None and self.epoch and not taken:
            return self.epoch - 1, 0
        return (self.epoch, taken) if taken or not self.epoch else (self.epoch - 1, self.positions)

    # ------------------------------------------------------------------------------------------ what is left

    def left_after(self, cut: Cut, batches: int) -> Intervals:
        """The positions that are left after `batches` more batches under a cut."""
        cuts = [list(each) for each in self._cuts]
        ends = [(after, end) for end, after in self._generations]
        if batches:
            has_grown = bool(ends) and ends[-1][0] == len(cuts)  # the added rows are cut again
            if cuts and tuple(cuts[-1][:3]) == cut and not has_grown:
                cuts[-1][3] += batches
            else:
                cuts.append([*cut, batches])
        came = [*(end for _, end in ends), self.positions]
        left, done = common(without(self._consumed, self.positions), np.array([[0, came[0]]])), 0
        for (after, end), later in zip(ends, came[1:], strict=True):
            left = union(left_of(left, cuts[done:after]), np.array([[end, later]]))
            done = after
        return left_of(left, cuts[done:])

    @cached_property
    def left(self) -> Intervals:
        """The positions that are left."""
        return self.left_after((), 0)

    # ------------------------------------------------------------------------------------------ the sources

    @cached_property
    def begun(self) -> list[Axis]:
        """The axes when the present stage began: the stages before it are done again."""
        if not self.is_mixture:
            ends_before = [(end, self.epoch) for end, _ in self._generations]
            return [Axis(self.positions, self.epoch, ends_before, is_round=self.round is not None)]
        axes, came = [], []
        for name, _, rows, _, taken_form, *grown in self._sources:
            first, balance, ends, in_pass = grown[0] if grown else (0, 0, [], [])
            holes = np.array(taken_form[1:], np.int64).reshape(-1, 2)
            taken = without(holes, taken_form[0]) if taken_form else NOTHING
            sizes = [*(of[1] for of in in_pass), rows]
            generations, is_round = [(end, last) for end, last in ends], name in self.rounds
            axes.append(Axis(sizes[0], first, generations, balance, taken, is_round))
            came.append([(of[2], later) for of, later in zip(in_pass, sizes[1:], strict=True)])
        for number in range(len(self._stages) + 1):
            for axis, grown in zip(axes, came, strict=True):
                for _, rows in (each for each in grown if each[0] == number):
                    axis.grow(rows)
            if number < len(self._stages):
                weights, positions, cuts = self._stages[number]
                whole = np.array([[0, positions]], np.int64)
                axes = taken_in(axes, weights, without(left_of(whole, cuts), positions))
        return axes

    @cached_property
    def axes(self) -> dict[str, Axis]:
        """The same by the names of the sources."""
        return dict(zip(self.names, self.begun, strict=True))

    def taken_without(self, left: Intervals) -> dict[str, Axis]:
        """The axes if these positions of the stage are left."""
        axes = taken_in(self.begun, self.weights, without(left, self.positions))
        return dict(zip(self.names, axes, strict=True))

    @cached_property
    def taken(self) -> dict[str, Axis]:
        """The axes as the state says they are."""
        return self.taken_without(self.left)

    def at(self, positions: Intervals) -> dict[str, Intervals]:
        """The spans of each source at positions of the stage, sorted and joined."""
        return {
            name: axis.spans(points_at(axis, self.weights, source, positions))
            for source, (name, axis) in enumerate(zip(self.names, self.begun, strict=True))
            if self.weights[source]
        }


def taken_in(axes: Sequence[Axis], weights: Sequence[int], positions: Intervals) -> list[Axis]:
    """The axes after what is at positions of a stage was taken, too."""
    found = [points_at(axis, weights, source, positions) for source, axis in enumerate(axes)]
    return [axis.with_taken(points) for axis, points in zip(axes, found, strict=True)]


def _rounds(named: Mapping[str, Any]) -> dict[str, StreamRound]:
    """The rounds of streams that a state names; a source's session is none."""
    each = {ALONE: named, **{unquote(name): found for name, found in named.get("sessions", {}).items()}}
    keys = {"number", "parts", "topics", "watermarks"}
    return {
        name: StreamRound.of(found)
        for name, found in each.items()
        if isinstance(found, Mapping) and keys <= set(found)
    }


def _order(sizes: Sequence[int] | None) -> Mapping[str, Any]:
    if sizes is None:
        return {"kind": "sequential"}
    return dict(zip(("kind", "seed", "block_rows", "window_rows"), ("shuffled", *sizes), strict=True))
