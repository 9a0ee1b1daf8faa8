"""What was delivered of one job, and the proof that it was each row exactly once.

It shares no code with what plans and reads. What was delivered up to a state is what the ranks logged on
the way to it (see `batch_graph`). Wherever a state is known, be it of a mixture or of one dataset, two things
hold:

- what it says was taken of each source is what was delivered on the way to it;
- the batches that follow deliver the positions that it leaves, each once, and all where they end a pass.

So what is not delivered is still to come. `row_proof` shows that the rows are those of their positions.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fastresume.audit.axis import Taken
from fastresume.audit.batch_graph import BatchGraph, Edge
from fastresume.audit.descriptions import Descriptions, Renamed
from fastresume.audit.log_format import Integers
from fastresume.audit.logged_state import LoggedState
from fastresume.audit.place import Place
from fastresume.audit.ranges import NOTHING, common, coverage, size, union, without
from fastresume.audit.report import Report
from fastresume.buffers import Intervals

Places = Mapping[int, Place]


@dataclass(frozen=True)
class Stretch:
    """Batches one after another in one stage that were cut alike, and what they gave.

    Args:
        edges: the batches.
        place: the last known one on the way to them.
        index: their records.
        given: the positions that were delivered, sorted and joined.
        dropped: what the tail policy dropped at their end.
        is_sound: whether nothing is wrong with them.
    """

    edges: Sequence[Edge]
    place: Place
    index: Integers
    given: Intervals
    dropped: Intervals
    is_sound: bool

    @property
    def is_last(self) -> bool:
        """Whether they end the pass."""
        return self.edges[-1].is_last


@dataclass(frozen=True)
class Stand:
    """How far the job had come at a state.

    Args:
        delivered: what was delivered of each source on the way to it, or is taken on trust.
        rows: how many rows these are.
        logged: what the logs say of the state.
        given: the positions of the stage that were delivered after the place that `logged` names.
        is_sound: whether the state says what was delivered.
        next: the pass and the number of the batch that follows; None if they are not known.
        before: the state before; None where a way begins.
        stretch: the batches between these; None if there are none.
        names: how the sources of the state before are named here, if some have other names.
    """

    delivered: Mapping[str, Taken]
    rows: int
    logged: LoggedState
    given: Intervals = field(default_factory=lambda: NOTHING)
    is_sound: bool = True
    next: tuple[int, int] | None = None
    before: int | None = None
    stretch: Stretch | None = None
    names: Mapping[str, str] = field(default_factory=dict)


class History:
    """The states of a job, and what was delivered up to each of them.

    Args:
        graph: the states, and what leads to them.
        places: of the starts, by their indices: of the states, and of the stages that begin or continue
            there.
        declared: the states that are taken on trust, by their hashes.
        descriptions: the files of the sources.
        report: takes what is wrong.

    Attributes:
        known: the places of the states from which logs start, or that were declared.
        roots: those of them at which nothing is delivered yet.
        stands: how far the job had come, at all proven states where a line begins, ends, divides or is known;
            under `-1 - number` where a batch with a number ends a pass and leads back.
    """

    def __init__(
        self,
        graph: BatchGraph,
        places: tuple[Places, Places],
        declared: Places,
        descriptions: Descriptions,
        report: Report,
    ) -> None:
        self._graph, self._descriptions, self._report = graph, descriptions, report
        of_states, of_stages = places
        self.known: dict[int, Place] = dict(declared)
        self._files: dict[int, str] = {}
        self._renamed: dict[int, Renamed] = {}
        self._new_names: dict[int, Mapping[str, str]] = {}  # of the states that are joined
        # The stages that begin or continue at a state, by their topologies.
        self._stages: dict[int, dict[int, Place]] = defaultdict(dict)
        for index, state in graph.states.items():
            self.known[state] = of_states[index]
            self._stages[state][int(graph.topology_of[index])] = of_stages[index]
            self._files.setdefault(state, graph.starts[index].file)
            self._renamed.setdefault(state, graph.starts[index].renamed)
        self.roots = {state for state, place in self.known.items() if place.is_start and not place.epoch}
        graph.prove([*self.roots, *declared])
        self._join()
        self.stands: dict[int, Stand] = {}
        self._walk()

    # ------------------------------------------------------------------------------------- states that join

    def _join(self) -> None:
        """Joins the states to which no batch leads to those that name the same place."""
        graph = self._graph
        unknown = [
            state for state in self.known if state not in graph.proven and graph.best_entering(state) is None
        ]
        if not unknown:
            return
        logged, by_mark = self._logged(), {self.known[state].mark: list[int]() for state in unknown}
        for state, found in logged.items():
            if found.mark in by_mark:
                by_mark[found.mark].append(state)

        def joins(state: int, other: int) -> bool:
            if other == state:
                return False
            place, before = self.known[state], logged[other]
            names = self._descriptions.names_now(before.place, place, self._renamed.get(state, {}))
            self._new_names[state] = {old: new for old, new in names.items() if old != new}
            return self._are_one(before, place, names)

        is_found = True
        while is_found:
            is_found = False
            for state in (state for state in unknown if state not in graph.joined):
                others = [other for other in by_mark[self.known[state].mark] if other in graph.proven]
                for other in (other for other in others if joins(state, other)):
                    graph.joined[state], is_found = other, True
                    graph.prove([state])
                    break
        for state in (state for state in unknown if state not in graph.joined):
            for other in (other for other in by_mark[self.known[state].mark] if joins(state, other)):
                graph.joined[state] = other  # which tells why it is not proven
                break

    def _logged(self) -> dict[int, LoggedState]:
        """What the logs say of all states to which batches lead from known ones."""
        graph = self._graph
        logged = {state: LoggedState(place) for state, place in self.known.items()}
        queue = deque(logged)
        while queue:
            state = queue.popleft()
            for number in graph.leaving.get(state, ()):
                edge = graph.edges[number]
                if edge.after not in logged:
                    logged[edge.after] = self._after(self._leaving(logged[state], edge), [edge])
                    queue.append(edge.after)
        return logged

    def _leaving(self, logged: LoggedState, edge: Edge) -> LoggedState:
        """What the logs say of the state before a batch: the batch's own stage, if a log names it there."""
        start = int(self._graph.records.start[self._graph.kept[edge.first]])
        stage = self._stages.get(edge.before, {}).get(int(self._graph.topology_of[start]))
        return logged if stage is None else LoggedState(stage)

    def _after(self, logged: LoggedState, edges: Sequence[Edge]) -> LoggedState:
        last = edges[-1]
        return logged.after(
            self._graph.start_of(last).cut, len(edges), self._dropped(last) if last.is_last else None
        )

    def _dropped(self, edge: Edge) -> Intervals:
        return self._graph.dropped(int(self._graph.kept[edge.first]))

    def _are_one(self, logged: LoggedState, place: Place, names: Mapping[str, str]) -> bool:
        """Whether a state says that the same was taken of the same sources as the logs say of another one.

        `names` has how these are named in it.
        """
        if logged.place.is_mixture != place.is_mixture:
            return False
        if place.round is not None and logged.place.round is not None:
            is_over = logged.dropped is not None or logged.place.is_between_rounds
            if place.is_start or is_over:
                return place.is_start and is_over and place.round.follows(logged.place.round)
            if not place.round.grows(logged.place.round):
                return False
        before = {names[name]: axis for name, axis in logged.place.taken_without(logged.left).items()}
        old_names = {new: old for old, new in names.items()}
        for name, axis in place.taken.items():
            own, earlier = place.rounds.get(name), logged.place.rounds.get(old_names.get(name, name))
            if place.is_mixture and own is not None and earlier is not None:
                if own.number != earlier.number:
                    if len(axis.taken) or not before[name].is_done or not own.follows(earlier):
                        return False
                    continue
                if not own.grows(earlier):
                    return False
            taken = Taken.of(before[name]) if name in before else Taken()
            if any(map(len, taken.differences(axis))):
                return False
        taken_of = [name for name, axis in before.items() if len(axis.all_taken)]
        return all(
            self._descriptions.are_related(logged.place, old_names[name], place, name) for name in taken_of
        )

    # --------------------------------------------------------------------------------------------- the ways

    def way_to(self, state: int) -> list[Stand]:
        """How far the job had come at the states on the way to one, from where it begins."""
        way, at = list[Stand](), state
        while True:
            way.append(stand := self.stands[at])
            if stand.before is None:
                return way[::-1]
            at = stand.before

    def _walk(self) -> None:
        """Follows all ways from where they begin, and checks each of their parts once."""
        graph = self._graph
        children: dict[int, int] = defaultdict(int)
        ends = set[int]()
        for state, number in graph.proven.items():
            if (before := graph.before(state)) is not None:
                children[before] += 1 + (number is None)  # a state to which another one is joined is needed
            if number is not None and graph.edges[number].is_last:
                ends.add(state)
        for state in graph.proven:
            if state in self.known or state in ends or children[state] != 1:
                self.stands[state] = self._checked(state, self._stand_at(state))
        self._check_other_ways()

    def _stand_at(self, state: int) -> Stand:
        graph = self._graph
        before = graph.before(state)
        if before is None:
            place = self.known[state]
            delivered = {name: Taken.of(axis) for name, axis in place.taken.items()}
            is_root = state in self.roots
            return Stand(
                delivered, place.mark[1] * (not is_root), LoggedState(place), next=(0, 0) if is_root else None
            )
        if graph.proven[state] is None:
            stand, names = self.stands[before], self._new_names[state]
            if self.known[state].round is not None and self.known[state].is_start:  # with rows of its own
                return Stand({}, stand.rows, LoggedState(self.known[state]), before=before)
            delivered = {names.get(name, name): taken for name, taken in stand.delivered.items()}
            return Stand(delivered, stand.rows, LoggedState(self.known[state]), before=before, names=names)
        at, edges = self._from_stand(state)
        return self._follow(at, edges)

    def _from_stand(self, state: int) -> tuple[int, list[Edge]]:
        """The last state before a proven one with a known `Stand`, and the batches between them."""
        edges = list[Edge]()
        while state not in self.stands:
            number = self._graph.proven[state]
            edge = self._graph.edges[-1 if number is None else number]
            edges.append(edge)
            state = edge.before
        return state, edges[::-1]

    def _follow(self, state: int, edges: Sequence[Edge]) -> Stand:
        """How far the job had come after the batches that follow a state; checks what they delivered."""
        graph, stand, problems = self._graph, self.stands[state], self._report.problems
        logged = self._leaving(stand.logged, edges[0])
        before = stand.given if logged is stand.logged else NOTHING
        place, last = logged.place, edges[-1]
        if logged.dropped is not None:
            self._report.problem(f"pass {last.epoch}: no log says from which state its batches follow")
        after = self._after(logged, edges)
        index = graph.records_of(edges)
        ranges, dropped = graph.positions(index), after.dropped if after.dropped is not None else NOTHING
        whole = np.array([[0, place.positions]])
        due = left = common(place.left, without(before, place.positions))
        if not last.is_last:
            due = common(left, without(after.left, place.positions))
        given, gone = common(union(ranges), whole), common(union(dropped), whole)
        self._check_once(place, edges, np.concatenate([ranges, dropped]), (left, due))
        self._check_numbers(place, edges, stand.next)
        self._check_tail(place, last, gone)
        is_sound = stand.is_sound and self._report.problems == problems
        taken = union(given, NOTHING if place.is_mixture else gone) if is_sound else due
        delivered = dict(stand.delivered)
        for name, axis in place.axes.items():
            delivered[name] = delivered.get(name, Taken()).plus(NOTHING, axis.rows)
        for name, spans in place.at(taken).items():
            delivered[name] = delivered[name].plus(spans, place.axes[name].rows)
        step = (last.epoch + 1, 0) if last.is_last else (last.epoch, last.step + 1)
        stretch = Stretch(edges, place, index, given, gone, is_sound)
        given = union(before, taken)
        return Stand(delivered, stand.rows + size(taken), after, given, True, step, state, stretch)

    # ------------------------------------------------------------------------------------------- the checks

    def _checked(self, state: int, stand: Stand) -> Stand:
        """The `Stand` at a state, which must say what was delivered."""
        stages = self._stages.get(state, {}).values()
        for place in dict.fromkeys([self.known[state], *stages] if state in self.known else []):
            is_sound = True
            for name, axis in place.taken.items():
                lacking, more = stand.delivered.get(name, Taken()).differences(axis)
                details = [f"{line} never delivered" for line in self._names(place, name, lacking)]
                details += [f"{line} delivered, and left" for line in self._names(place, name, more)]
                if details:
                    file = self._files.get(state, "a job")
                    gave = f"{name!r} delivered" if name else "was delivered"
                    what = f"the state that {file} starts from disagrees with what the logs say {gave}"
                    self._report.problem(f"pass {place.epoch}: {what}", details)
                    is_sound = False
            if not is_sound:  # report each thing once
                delivered = {name: Taken.of(axis) for name, axis in place.taken.items()}
                stand = replace(stand, delivered=delivered, is_sound=False)
        return stand

    def _check_once(
        self, place: Place, edges: Sequence[Edge], ranges: Intervals, due: tuple[Intervals, Intervals]
    ) -> None:
        """Compares the positions that batches delivered with those that were left, and that were due."""
        total, (left, own) = place.positions, due
        bounds, times = coverage(ranges, total)
        found = common(union(ranges), np.array([[0, total]]))
        several = common(union(np.column_stack([bounds[:-1], bounds[1:]])[times > 1]), found)
        twice = union(several, common(found, without(left, total)))
        early = common(common(found, without(twice, total)), without(own, total))
        parts = (
            (common(own, without(found, total)), "never delivered"),
            (twice, "delivered more than once"),
            (early, "delivered, and left"),
        )
        details = [f"{line} {what}" for spans, what in parts for line in self.names_at(place, spans)]
        if details:
            one = self._descriptions.counted(place)[:-1]
            first, last = edges[0], edges[-1]
            batches = f"pass {first.epoch}, batches {first.step}-{last.step}"
            self._report.problem(f"{batches}: not every {one} was delivered exactly once", details)

    def _check_numbers(self, place: Place, edges: Sequence[Edge], expected: tuple[int, int] | None) -> None:
        epoch, step = expected or (place.epoch, edges[0].step)
        is_right = all(
            (edge.epoch, edge.step) == (place.epoch, step + number) for number, edge in enumerate(edges)
        )
        if not is_right or epoch != place.epoch:
            self._report.problem(f"pass {place.epoch}: its batches are not numbered one after another")

    def _check_tail(self, place: Place, last: Edge, dropped: Intervals) -> None:
        start = self._graph.start_of(last)
        most = {"drop": start.batch_size * start.world_size, "short": start.world_size}.get(start.tail, 1)
        if size(dropped) >= most:
            what = f"{size(dropped)} {self._descriptions.counted(place)} were dropped"
            what += f", which tail={start.tail!r} does not do"
            self._report.problem(f"pass {last.epoch}: {what}", self.names_at(place, dropped))

    def _check_other_ways(self) -> None:
        """Checks batches that lead to states to which others lead, too."""
        graph = self._graph
        for number, edge in enumerate(graph.edges):
            if not edge.is_whole or edge.before not in graph.proven or graph.proven[edge.after] == number:
                continue
            if (other := graph.proven[edge.after]) is not None:
                pair = edge, graph.edges[other]
                one, two = (union(graph.positions(graph.records_of([each]))) for each in pair)
                if pair[0].before == pair[1].before and np.array_equal(one, two):
                    continue
            at, edges = self._from_stand(edge.before)
            stand = self._follow(at, [*edges, edge])
            restarts = edge.is_last and graph.start_of(edge).on_iter == "restart"
            if edge.is_last:
                self.stands[-1 - number] = stand
            if not restarts:
                self._checked(edge.after, stand)

    def names_at(self, place: Place, positions: Intervals) -> Iterator[str]:
        """Which rows are at positions of a stage."""
        for name, spans in place.at(union(positions)).items() if len(positions) else ():
            yield from self._names(place, name, spans)

    def _names(self, place: Place, name: str, spans: Intervals) -> Iterator[str]:
        yield from self._descriptions.names(place, name, spans) if len(spans) else ()
