"""What was delivered from a mixture, and the proof that no row came twice in a pass of its source or is lost.

Positions are those of a stage. So what each batch gave is followed from the beginning of the job on, as
pieces of the passes of each source, by the audit's own arithmetic (see `mixture`). Wherever the job went on
from a state, this must be what the state says was taken. So what is not delivered is still to come. No log
leads to a state under other weights, sources or files. It goes on where what it says was taken had been
delivered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fastresume.audit.batch_graph import Edge, Lineage
from fastresume.audit.blame import Blame
from fastresume.audit.log_format import Integers, Records, Start, digest, key_of, of_source, state_hash
from fastresume.audit.mixture import NO_PIECES, Axis, MixtureState, Taken, flat, pieces
from fastresume.audit.order import Dataset, Order
from fastresume.audit.ranges import coverage, size, union
from fastresume.audit.report import Declared, Report
from fastresume.buffers import Intervals, of_runs

ExpectedAt = Callable[["Stretch", Intervals], int | None]
Delivered = Mapping[str, Taken]
"""What was delivered of each source, by its name."""


@dataclass(frozen=True)
class Stretch:
    """Batches one after another that were cut alike, from a place on at which ranks began to iterate."""

    edges: list[Edge]
    start: Start
    state: MixtureState
    positions: Intervals
    index: Integers

    def delivered(self) -> dict[str, Integers]:
        """What they gave of each source."""
        return self.state.at(union(self.positions))


class Known(NamedTuple):
    """The files of a source, its order, and its axis in some stage."""

    dataset: Dataset
    order: Mapping[str, Any]
    axis: Axis


class MixtureHistory:
    """What was delivered from the mixtures of a job; reports it stage by stage and source by source."""

    def __init__(
        self,
        directory: Path,
        starts: Sequence[Start],
        members: Sequence[int],
        records: Records,
        declared: Sequence[Declared],
    ) -> None:
        self._directory = directory
        self.report = Report()
        self._trusted = {state_hash(item.text): MixtureState(item.text) for item in declared}
        self._lineage = Lineage(starts, members, records, self._trusted, self.report.problem)
        self._blame = Blame(self._lineage, self.report)
        self._states: dict[str, MixtureState] = {}
        self._datasets: dict[tuple[str, str | None, int], Dataset | None] = {}
        self._latest: dict[str, Known] = {}
        self._untold = 0  # batches of which it is not known what their units held
        # The states that begin a stage, each with the state at which it was reached; and what was delivered.
        self._came_from: dict[int, int] = {}
        self._known: dict[int, Delivered] = {}
        self._connect()

    # ---------------------------------------------------------------------------------------------- the path

    def _parsed(self, text: str) -> MixtureState:
        found = self._states.get(text)
        if found is None:
            found = self._states[text] = MixtureState(text)
        return found

    def _connect(self) -> None:
        """Proves the states under other weights, sources or files, by what they say was taken."""
        lineage = self._lineage
        open_states = {state: index for index, state in lineage.states.items()}
        while True:
            rows = self._rows_up_to()
            found = []
            for state, index in open_states.items():
                if state in lineage.proven:
                    continue
                taken = self._parsed(lineage.starts[index].cursor).taken
                total = sum(axis.total for axis in taken.values())
                for before in (other for other, count in rows.items() if count == total):
                    if not any(map(len, self._differences(self._up_to(before), self._parsed_start(index)))):
                        self._came_from[state] = before
                        found.append(state)
                        break
            if not found:
                return
            lineage.prove(found)

    def _parsed_start(self, index: int) -> MixtureState:
        return self._parsed(self._lineage.starts[index].cursor)

    def _rows_up_to(self) -> dict[int, int]:
        """How many rows were delivered up to each proven state."""
        lineage, found = self._lineage, dict[int, int]()
        for last in lineage.proven:
            chain, state = [], last
            while state not in found and (before := self._before(state)) is not None:
                chain.append(state)
                state = before
            if state not in found:
                trusted = self._trusted.get(state)
                found[state] = 0 if trusted is None else sum(axis.total for axis in trusted.taken.values())
            for state in reversed(chain):
                number = lineage.proven[state]
                before = self._before(state)
                count = 0 if number is None else size(lineage.positions(lineage.records_of([number])))
                found[state] = found[before] + count if before is not None else count
        return found

    def _before(self, state: int) -> int | None:
        """The state before a proven one; None where a job begins."""
        number = self._lineage.proven[state]
        return self._came_from.get(state) if number is None else self._lineage.edges[number].before

    def _way_to(self, state: int) -> tuple[list[Edge], int]:
        """The batches that lead to a proven state, from the last state before of which all is known."""
        way, at = list[Edge](), state
        while at not in self._known and (before := self._before(at)) is not None:
            number = self._lineage.proven[at]
            if number is not None:
                way.append(self._lineage.edges[number])
            at = before
        return way[::-1], at

    def _up_to(self, state: int) -> Delivered:
        """What was delivered up to a proven state."""
        way, first = self._way_to(state)
        if first not in self._known:
            self._known[first] = self._at_root(first)
        delivered = dict(self._known[first])
        for stretch in self._stretches(way):
            add(delivered, stretch)
        self._known[state] = delivered
        return delivered

    def _at_root(self, state: int) -> Delivered:
        trusted = self._trusted.get(state)
        if trusted is None:
            return {}
        found = {}
        for name, axis in trusted.taken.items():
            early = np.arange(axis.first)
            whole = np.column_stack([early, 0 * early, 0 * early + axis.rows])
            found[name] = Taken(np.concatenate([whole, axis.pieces]), frozenset({axis.rows}))
        return found

    def _stretches(self, way: Sequence[Edge]) -> Iterator[Stretch]:
        lineage = self._lineage
        for _, group in groupby(way, key=self._stage_text):
            edges = list(group)
            start = lineage.start_of(edges[0])
            numbers = [number for edge in edges for number in range(edge.first, edge.first + edge.count)]
            index = lineage.kept[numbers]
            state = self._parsed(start.stage or start.cursor)
            yield Stretch(edges, start, state, lineage.positions(index), index)

    def _stage_text(self, edge: Edge) -> tuple[str, str, int]:
        start = self._lineage.start_of(edge)
        return start.stage or start.cursor, start.cursor, start.world_size

    # ------------------------------------------------------------------------------------------ the report

    def tell(self) -> None:
        """Reports each stage of the job that came furthest, and the passes of each source."""
        lineage, lines = self._lineage, self.report.lines
        names = dict.fromkeys(name for text in self._texts() for name in self._parsed(text).names)
        logs = len({lineage.starts[index].file for index in lineage.states})
        lines.append(f"mixture of {', '.join(names)}: {logs} logs")
        for state, file in lineage.unproven():
            self._blame.state(state, file)
        rows = self._rows_up_to()
        last = max(rows, key=lambda state: rows[state], default=None)
        if last is not None:
            self._blame.absent(last)
        self._blame.tell()
        self._known = {}
        self.report.finished = [0] * len(names)
        if last is not None:
            self._tell_way(last, list(names))
        self.report.counted = self.report.counted or {"rows"}

    def _texts(self) -> Iterator[str]:
        for index in self._lineage.states:
            start = self._lineage.starts[index]
            yield start.stage or start.cursor

    def _tell_way(self, last: int, names: Sequence[str]) -> None:
        way, first = self._way_to(last)
        delivered = dict(self._at_root(first))
        trusted = {name: size(of.pieces[:, 1:]) for name, of in delivered.items()}
        stretches = list(self._stretches(way))
        for _, group in groupby(stretches, key=lambda stretch: stretch.state.stage):
            self._tell_stage(list(group), delivered)
        for number, name in enumerate(names):
            taken = delivered.get(name, Taken())
            self.report.finished[number] = self._tell_source(name, taken, trusted.get(name, 0))

    def _tell_stage(self, stretches: Sequence[Stretch], delivered: dict[str, Taken]) -> None:
        """Reports a stage, and checks each part of it; adds what it gave."""
        problems, untold = self.report.problems, self._untold
        counted = self._counted(stretches[0])
        self.report.counted.add(counted)
        places, rows = [], 0
        for stretch in stretches:
            self._check_state(stretch, delivered)
            self._check_positions(stretch)
            self._check_digest(stretch)
            if counted != "rows":
                self._check_content(stretch)
            add(delivered, stretch)
            self._check_end(stretch, delivered)
            rows += size(stretch.positions)
            ranks, steps = stretch.start.world_size, [edge.step for edge in stretch.edges]
            places.append(f"{steps[0]}-{steps[-1]} on {ranks} rank{'s' if ranks > 1 else ''}")
        state = stretches[0].state
        number = state.stage[1]
        what = "each exactly once" if self.report.problems == problems else "not proven"
        if counted == "sequences" and self.report.problems == problems:
            what += ", with all its tokens" if self._untold == untold else ""
        self.report.lines.append(
            f"  pass {state.epoch}, stage {number}: {state.shares}: {rows} {counted}, {what}; "
            f"batches {', '.join(places)}"
        )
        if self._untold > untold:
            told = f"what the {counted} of {self._untold - untold} batches held can't be told"
            self.report.tell([told])
        self._tell_masked(stretches)

    def _tell_masked(self, stretches: Sequence[Stretch]) -> None:
        causes: dict[str, list[Integers]] = defaultdict(list)
        for stretch in stretches:
            for found in self._lineage.records.masked[stretch.index]:
                for cause, ranges in found or ():
                    causes[cause].append(of_runs(ranges))
        for cause, parts in causes.items():
            count = len(np.concatenate(parts))
            self.report.masked += count
            self.report.tell([f"{count} of these rows were masked as not valid: {cause}"])

    def _tell_source(self, name: str, taken: Taken, trusted: int) -> int:
        """Reports the passes of a source; returns how many were finished."""
        rows = max(taken.sizes, default=1)
        known = self._latest.get(name)
        counted, units = ("rows", None) if known is None else (known.dataset.counted, known.dataset.units)
        points, times = coverage(flat(taken.pieces, rows), rows)
        twice = np.column_stack([points[:-1], points[1:]])[times > 1]
        if len(twice):
            found = pieces(twice, rows)
            self.report.problem(f"{name}: {counted} were delivered more than once", self._names(name, found))
        own = pieces(union(flat(taken.pieces, rows)), rows)
        counts = np.bincount(own[:, 0], weights=own[:, 2] - own[:, 1]).astype(np.int64).tolist()
        # A pass that was done before files came has as many rows as there were then.
        is_done = [count in taken.sizes and self._is_whole(own, at, count) for at, count in enumerate(counts)]
        for (done, count), group in groupby(enumerate(counts), lambda each: (is_done[each[0]], each[1])):
            passes = [at for at, _ in group]
            span = f"pass {passes[0]}" if len(passes) == 1 else f"passes {passes[0]}-{passes[-1]}"
            how = "finished" if done else f"unfinished ({count / rows:.0%})"
            once = f"{' in each' if len(passes) > 1 else ''}, {'not ' if len(twice) else ''}each exactly once"
            if done and units is not None and not self._untold and not trusted:
                once += f", with {units.what}" if count == rows else ""
            self.report.lines.append(f"  {name}: {span} {how}: {count} {counted}{once}")
        if trusted:
            text = f"{name}: {trusted} of these {counted} on trust, before the declared start"
            self.report.lines.append(f"  {text}")
        return 0 if len(twice) else sum(is_done)

    @staticmethod
    def _is_whole(own: Integers, number: int, count: int) -> bool:
        of_pass = own[own[:, 0] == number]
        return len(of_pass) == 1 and of_pass[0, 1:].tolist() == [0, count]

    # ------------------------------------------------------------------------------------------ the checks

    def _differences(self, delivered: Delivered, state: MixtureState) -> list[Integers]:
        """What a state says was taken and was not, and what was and it does not say, of each source."""
        found: list[Integers] = []
        for name, axis in state.taken.items():
            found += delivered.get(name, Taken()).differences(axis)
        return found

    def _check_state(self, stretch: Stretch, delivered: Delivered) -> None:
        """Compares what the job went on from with what was delivered before."""
        edge, file = stretch.edges[0], stretch.start.file
        for text in dict.fromkeys((stretch.start.cursor, stretch.start.stage or stretch.start.cursor)):
            self._check_taken(self._parsed(text).taken, delivered, edge, f"the state that {file} starts from")

    def _check_end(self, stretch: Stretch, delivered: Delivered) -> None:
        """Compares what the state after the last batch says with what was delivered up to it."""
        last, start = stretch.edges[-1], stretch.start
        batches = len(stretch.edges)
        if last.is_last and start.tail != "drop":
            return  # less than a whole batch may be in it, which the next state tells
        axes = stretch.state.after(start.cut, batches)
        self._check_taken(axes, delivered, last, "the state after it")

    def _check_taken(self, axes: Mapping[str, Axis], delivered: Delivered, edge: Edge, what: str) -> None:
        for name, axis in axes.items():
            lacking, more = delivered.get(name, Taken()).differences(axis)
            details = [f"{line} never delivered" for line in self._names(name, lacking)]
            details += [f"{line} delivered, and left" for line in self._names(name, more)]
            if details:
                self.report.problem(
                    f"pass {edge.epoch}, batch {edge.step}: {what} does not tell what {name} gave",
                    details,
                )

    def _check_positions(self, stretch: Stretch) -> None:
        points, times = coverage(stretch.positions, stretch.state.positions)
        edge = stretch.edges[0]
        if points[0] < 0 or points[-1] > stretch.state.positions:
            self.report.problem(
                f"pass {edge.epoch}: positions from {points[0]} to {points[-1] - 1}, where the stage has "
                f"{stretch.state.positions}"
            )
        twice = np.column_stack([points[:-1], points[1:]])[times > 1]
        for name, found in stretch.state.at(union(twice)).items() if len(twice) else ():
            details = (f"{line} delivered more than once" for line in self._names(name, found))
            what = f"{self._counted(stretch)} of {name} were delivered more than once"
            self.report.problem(f"pass {edge.epoch}: {what}", details)

    def _check_digest(self, stretch: Stretch) -> None:
        """Compares the digest of the delivered rows with that of the rows at their places."""
        what = f"the {self._counted(stretch)} handed over are not those of their places"
        self._check_sum(stretch, stretch.index, self._lineage.records.digest, self._digest, what)

    def _check_content(self, stretch: Stretch) -> None:
        """Compares what units held with what those at their places hold."""
        content = self._lineage.records.content
        is_told = np.array([content[place] is not None for place in stretch.index], np.bool_)
        index = stretch.index[is_told]
        what = f"what the {self._counted(stretch)} held is not what those of their places hold"
        is_known = self._check_sum(stretch, index, content, self._content, what)
        self._untold += len(stretch.index) - len(index) * is_known

    def _check_sum(
        self, stretch: Stretch, index: Integers, told: Any, expected_at: ExpectedAt, what: str
    ) -> bool:
        """Compares what batches told with what is expected of their positions; says if that is known."""
        lineage = self._lineage

        def differs(some: Integers) -> bool | None:
            expected = expected_at(stretch, lineage.positions(some))
            return None if expected is None else (sum(map(int, told[some])) - expected) % (1 << 64) != 0

        are_wrong = differs(index)
        if are_wrong:
            places = (place for place in index if differs(place[None]))
            wrong = (f"batch {lineage.records.step[place]}, {lineage.place(place)}" for place in places)
            self.report.problem(f"pass {stretch.edges[0].epoch}: {what}", wrong)
        return are_wrong is not None

    def _digest(self, stretch: Stretch, positions: Intervals) -> int | None:
        """The digest of the rows at positions; None if a source's files are not described."""
        found = self._rows_at(stretch, positions)
        return None if found is None else sum(digest(rows, key_of(name)) for name, _, rows in found)

    def _content(self, stretch: Stretch, positions: Intervals) -> int | None:
        """The digest of what the units at positions hold; None if that is not known."""
        total = 0
        for name, dataset, units in self._rows_at(stretch, positions) or ():
            contents = None if dataset.units is None else dataset.units.contents
            if contents is None:
                return None
            total += of_source(int(contents[units].sum(dtype=np.uint64)), name)
        return total

    def _rows_at(self, stretch: Stretch, positions: Intervals) -> list[tuple[str, Dataset, Integers]] | None:
        """The rows, or units, of each source at positions; None if a source's files are not described."""
        places = []
        for name, found in stretch.state.at(union(positions)).items():
            axis = stretch.state.axes[name]
            dataset = self._dataset(stretch, name, axis.rows)
            if dataset is None:
                return None
            for number in np.unique(found[:, 0]).tolist():
                order = Order(dict(stretch.state.orders[name]), number, dataset, axis.ends_in(number))
                places.append((name, dataset, order.rows(found[found[:, 0] == number][:, 1:])))
        return places

    def _counted(self, stretch: Stretch) -> str:
        """What the places of a stage are, in a word."""
        found = [self._dataset(stretch, name, axis.rows) for name, axis in stretch.state.axes.items()]
        counted = {dataset.counted for dataset in found if dataset is not None}
        return counted.pop() if len(counted) == 1 else "rows"

    def _dataset(self, stretch: Stretch, name: str, rows: int) -> Dataset | None:
        told = (stretch.start.sources or {}).get(name)
        if told is None:
            return None
        key = (*told, rows)
        if key not in self._datasets:
            self._datasets[key] = found = Dataset.load(self._directory, *key)
            if found is None:
                what = f"the description of the files of {name} is missing or damaged: rows have no names"
                self.report.problem(what)
        found = self._datasets[key]
        if found is not None:
            state = stretch.state
            self._latest[name] = Known(found, state.orders[name], state.axes[name])
        return found

    def _names(self, name: str, found: Integers) -> Iterator[str]:
        """Where pieces of the passes of a source are."""
        for number, first, end in found.tolist():
            where = f"{name}: pass {number}"
            known = self._latest.get(name)
            if known is None:
                yield f"{where}: positions {first}-{end - 1}"
                continue
            order = Order(dict(known.order), number, known.dataset, known.axis.ends_in(number))
            for line in known.dataset.name(order.rows(np.array([[first, end]], np.int64))):
                yield f"{where}: {line}"


def add(delivered: dict[str, Taken], stretch: Stretch) -> None:
    """Adds what batches gave."""
    for name, axis in stretch.state.axes.items():
        before = delivered.get(name, Taken())
        delivered[name] = before.with_pieces(NO_PIECES, axis.rows)
    for name, found in stretch.delivered().items():
        delivered[name] = delivered[name].with_pieces(found, stretch.state.axes[name].rows)
