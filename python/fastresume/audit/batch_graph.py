"""The graph of states and batches in the ranks' logs: which state follows from which.

A state is an opaque name here. A global batch is an edge from the state before it to the state after it. The
batch is whole when every rank has logged its part. A state is proven if whole batches lead to it from the
start of the first pass, or from a declared state. Where files, weights or sources changed, no batch leads
on: a state is joined to the one that names the same place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from fastresume.audit.log_format import Integers, Records, Start, state_hash
from fastresume.audit.place import Place
from fastresume.buffers import Intervals, of_runs

Problem = Callable[[str, Iterable[str]], None]
"""A callback for problems: takes what is wrong, and further lines."""


@dataclass(frozen=True)
class Edge:
    """A global batch: the states before and after it, and its records: `kept[first : first + count]`."""

    before: int
    after: int
    epoch: int
    step: int
    is_last: bool
    is_whole: bool
    first: int
    count: int


class BatchGraph:
    """The global batches of one job, and the states between them.

    Args:
        starts: of all logs.
        members: the indices of those that belong to this job.
        records: of all logs.
        places: those of the starts, in the stage that begins or continues there.
        problem: called for records that contradict each other.

    Attributes:
        states: the states from which iterators started, by the indices of the starts.
        kept: the records of the batches, by rank and without repetitions: the last of several counts.
        leaving: the batches that follow on each state, by number.
        proven: the batch by which each proven state was reached; None for states that need no proof.
        joined: the state that names the same place, for those to which no batch leads.
    """

    def __init__(
        self,
        starts: Sequence[Start],
        members: Sequence[int],
        records: Records,
        places: Mapping[int, Place],
        problem: Problem,
    ) -> None:
        self.starts, self.records, self._places, self._problem = starts, records, places, problem
        self.states = {index: state_hash(starts[index].cursor) for index in members}
        self.kept = np.empty(0, np.int64)
        self.topology_of = np.full(len(starts), -1)
        self.edges = self._connect(members)
        self.leaving: dict[int, list[int]] = defaultdict(list)
        self._entering: dict[int, list[int]] = defaultdict(list)
        for number, edge in enumerate(self.edges):
            self.leaving[edge.before].append(number)
            self._entering[edge.after].append(number)
        self.proven: dict[int, int | None] = {}
        self.joined: dict[int, int] = {}

    def _connect(self, members: Sequence[int]) -> list[Edge]:
        """The global batches; sets `kept` to their records."""
        records, starts, topology_of = self.records, self.starts, self.topology_of
        topologies: dict[tuple[object, ...], int] = {}
        rank_of, ranks = (np.full(len(starts), -1) for _ in range(2))
        for index in members:
            start = starts[index]
            stage = self._places[index].stage
            key = (start.world_size, start.batch_size, start.cut, start.tail, start.on_iter, stage)
            topology_of[index] = topologies.setdefault(key, len(topologies))
            rank_of[index], ranks[index] = start.rank, start.world_size
        topology, rank = topology_of[records.start], rank_of[records.start]
        mine = np.flatnonzero((topology >= 0) & ~records.is_again)
        for place in np.flatnonzero((topology >= 0) & records.is_again):
            self._differ("it was handed over twice, one time after the other", int(place) - 1, int(place))
        order = mine[np.lexsort((rank[mine], topology[mine], records.before[mine]))]
        is_other = _changes(records.before[order]) | _changes(topology[order]) | _changes(rank[order])
        for place in np.flatnonzero(~is_other & _changes(records.body[order])):
            self._differ("two runs from one state differ", order[place - 1], order[place])
        self.kept = kept = order[np.append(is_other[1:], True)[: len(order)]]
        first = np.flatnonzero(_changes(records.before[kept]) | _changes(topology[kept]))
        count = np.diff(first, append=len(kept))
        heads = kept[first]
        of_head = np.repeat(heads, count)
        differs = records.count_dropped[kept] != records.count_dropped[of_head]
        for place in np.flatnonzero(records.count_dropped[kept]):
            one, other = self.dropped(kept[place]), self.dropped(of_head[place])
            differs[place] |= not np.array_equal(one, other)
        for column in (records.after, records.epoch, records.step, records.is_last):
            differs |= column[kept] != column[of_head]
        for place in np.flatnonzero(differs):
            self._differ("two ranks disagree on it", of_head[place], kept[place])
        is_whole = count == ranks[records.start[heads]]
        is_whole[np.repeat(np.arange(len(first)), count)[differs]] = False
        columns = (records.before, records.after, records.epoch, records.step, records.is_last)
        lists = [column[heads].tolist() for column in columns]
        rows = zip(*lists, is_whole.tolist(), first.tolist(), count.tolist(), strict=True)
        return [Edge(*row) for row in rows]

    def _differ(self, what: str, one: int, other: int) -> None:
        epoch, step = self.records.epoch[other], self.records.step[other]
        self._problem(f"pass {epoch}, batch {step}: {what}", [self.place(one), self.place(other)])

    def prove(self, roots: Iterable[int]) -> None:
        """Follows whole batches from states that need no proof here."""
        found = [state for state in roots if state not in self.proven]
        self.proven.update(dict.fromkeys(found))
        while found:
            for number in self.leaving.get(found.pop(), ()):
                edge = self.edges[number]
                if edge.is_whole and edge.after not in self.proven:
                    self.proven[edge.after] = number
                    found.append(edge.after)

    def before(self, state: int) -> int | None:
        """The state before a proven one; None where a job begins."""
        number = self.proven[state]
        return self.joined.get(state) if number is None else self.edges[number].before

    def best_entering(self, state: int) -> int | None:
        """The batch that leads to a state and that most ranks have logged."""
        numbers = self._entering.get(state, ())
        return max(
            numbers, key=lambda number: (self.edges[number].is_whole, self.edges[number].count), default=None
        )

    def cause(self, state: int) -> tuple[int | None, int]:
        """Why a state is not proven: the first batch that some rank has not logged, and the state before it.

        The batch is None if no log leads to that state.
        """
        seen, broken = set[int](), None
        while state not in self.proven and state not in seen:
            seen.add(state)
            number = self.best_entering(state)
            if number is None and state in self.joined:
                state = self.joined[state]
                continue
            if number is None:
                return None, state
            broken = broken if self.edges[number].is_whole else number
            state = self.edges[number].before
        return broken, state

    def unproven(self) -> Iterator[tuple[int, str]]:
        """The states that the job resumed from although they are not proven, each with a file that shows it.

        A rank that continues after its own last batch does not show that the others got theirs.
        """
        for index, state in self.states.items():
            if state not in self.proven and not self._goes_on(index):
                yield state, self.starts[index].file
        for edge in self.edges:
            if edge.is_whole and edge.before not in self.proven:
                number = self.best_entering(edge.before)
                if number is None or not self.edges[number].is_whole:
                    yield edge.before, self.start_of(edge).file

    def _goes_on(self, index: int) -> bool:
        """Whether a start is at a state that its process, or the process that it is a copy of, reached."""
        start, state = self.starts[index], self.states[index]
        files, at = [start.file], start
        while (name := at.continues) is not None and name not in files:
            files.append(name)
            first = next((other for other in self._of_file.get(name, ())), None)
            if first is None:
                break
            at = self.starts[first]
        for place, file in enumerate(files):
            for other in self._of_file.get(file, ()):
                if place == 0 and self.starts[other].offset >= start.offset:
                    break
                if self.states[other] == state or state in self._seen_after(other):
                    return True
        return False

    def _seen_after(self, index: int) -> set[int]:
        return set(self.records.after[self.records.start == index].tolist())

    @cached_property
    def _of_file(self) -> dict[str, list[int]]:
        of_file: dict[str, list[int]] = defaultdict(list)
        for index in self.states:
            of_file[self.starts[index].file].append(index)
        return of_file

    def start_of(self, edge: Edge) -> Start:
        """The start of the first rank of a batch."""
        return self.starts[int(self.records.start[self.kept[edge.first]])]

    def ranks_of(self, edge: Edge) -> list[int]:
        """The ranks that have logged a batch."""
        of_edge = self.kept[edge.first : edge.first + edge.count]
        return [self.starts[index].rank for index in self.records.start[of_edge]]

    def ranks_logged(self, world_size: int) -> set[int]:
        """The ranks with a log of a job of `world_size` ranks."""
        starts = (self.starts[index] for index in self.states)
        return {start.rank for start in starts if start.world_size == world_size}

    def records_of(self, edges: Sequence[Edge]) -> Integers:
        """The indices of the records of some batches."""
        bounds = [(edge.first, edge.count) for edge in edges]
        spans = np.array(bounds, np.int64).reshape(-1, 2).cumsum(axis=1)
        return self.kept[of_runs(spans)]

    def positions(self, index: Integers) -> Intervals:
        """The positions in some records."""
        first = self.records.first[index]
        return self.records.ranges[of_runs(np.column_stack([first, first + self.records.count[index]]))]

    def dropped(self, index: int) -> Intervals:
        """The positions that the tail policy drops, if this record ends the pass."""
        first = self.records.first[index] + self.records.count[index]
        return self.records.ranges[first : first + self.records.count_dropped[index]]

    def place(self, index: int) -> str:
        """Where a record is, in words."""
        start = self.starts[self.records.start[index]]
        return f"rank {start.rank} of {start.world_size}: {start.file}, byte {self.records.offset[index]}"


def _changes(column: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Whether each value differs from the one before it."""
    changes = np.ones(len(column), np.bool_)
    changes[1:] = column[1:] != column[:-1]
    return changes
