"""The account of a job: its passes, its stages and its sources, in lines for people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from fastresume.amounts import plural
from fastresume.audit.axis import PASS, Taken, by_pass
from fastresume.audit.batch_graph import BatchGraph
from fastresume.audit.beginnings import tell_beginnings
from fastresume.audit.blame import Blame
from fastresume.audit.descriptions import Descriptions
from fastresume.audit.history import History, Stretch
from fastresume.audit.log_format import Integers
from fastresume.audit.order import CUT_FROM_LISTS
from fastresume.audit.place import ALONE, Place
from fastresume.audit.ranges import NOTHING, common, size, union, without
from fastresume.audit.report import Report
from fastresume.audit.row_proof import RowProof
from fastresume.audit.stream_round import StreamRound
from fastresume.buffers import Intervals, of_runs


class Account:
    """Reports the line of batches on which a job came furthest.

    Args:
        graph: the states, and what leads to them.
        history: what was delivered up to them.
        proof: that of the rows.
        descriptions: the files of the sources.
        report: takes the findings.
    """

    def __init__(
        self, graph: BatchGraph, history: History, proof: RowProof, descriptions: Descriptions, report: Report
    ) -> None:
        self._graph, self._history, self._proof = graph, history, proof
        self._descriptions, self._report = descriptions, report
        stands = history.stands
        # A state that was declared, and that nothing follows on, is no way.
        furthest = {state: (stand.before is not None, stand.rows) for state, stand in stands.items()}
        self._last = max(furthest, key=furthest.__getitem__, default=None)
        self._way = [] if self._last is None else history.way_to(self._last)
        self._stretches = [stand.stretch for stand in self._way if stand.stretch is not None]

    def tell(self) -> None:
        """Reports why states are not proven, then passes, stages and sources."""
        graph, blame = self._graph, Blame(self._graph, self._history.known, self._report)
        for state, file in graph.unproven():
            blame.state(state, file)
        for edge in graph.edges:
            if edge.is_last and not edge.is_whole:  # after a kill some ranks lack one batch, never two
                blame.state(edge.before, graph.start_of(edge).file)
        if self._last is not None:
            blame.absent(self._last)
        blame.tell()
        self._tell_unproven_ends()
        # Rank 0 may be killed before it describes a round that others began: no later run counts that one.
        places = (of.place for of in self._stretches if of.place.is_described_by_rank_0)
        self._descriptions.tell_missing(places, self._report)
        own = np.concatenate([np.empty(0, np.int64), *(stretch.index for stretch in self._stretches)])
        self._proof.check(own)
        is_member = np.isin(graph.records.start, list(graph.states))
        self._proof.check(np.setdiff1d(np.flatnonzero(is_member), own))
        tell_beginnings(graph, self._history, self._way, self._report)
        is_mixture = any(place.is_mixture for place in self._history.known.values())
        (self._tell_mixture if is_mixture else self._tell_passes)()

    # ---------------------------------------------------------------------------------------- one dataset

    def _tell_passes(self) -> None:
        of_passes: dict[int, list[Stretch]] = defaultdict(list)
        for stretch in self._stretches:
            of_passes[stretch.place.epoch].append(stretch)
        self._report.finished.append(0)
        self._report.names.append(ALONE)
        if self._stretches and self._stretches[-1].place.round is not None:
            self._tell_rounds(of_passes)
            return
        for epoch in sorted({edge.epoch for edge in self._graph.edges} | set(of_passes)):
            if epoch in of_passes:
                self._report.finished[-1] += self._tell_pass(of_passes[epoch])
            else:
                self._tell_unproven(epoch)

    def _tell_rounds(self, of_rounds: Mapping[int, Sequence[Stretch]]) -> None:
        """Reports the rounds of a stream: finished ones together, and what was removed before it was read."""
        for is_plain, group in groupby(of_rounds.items(), lambda each: self._is_plain(each[1])):
            rounds = list(group)
            if not is_plain or len(rounds) == 1:
                self._report.finished[-1] += sum(self._tell_pass(stretches) for _, stretches in rounds)
                continue
            self._report.finished[-1] += len(rounds)
            last = rounds[-1][1]
            counted = self._descriptions.counted(last[-1].place)
            self._report.counted.add(counted)
            own = [stretch for _, stretches in rounds for stretch in stretches]
            rows, batches = (
                sum(found)
                for found in zip(*((size(each.given), len(each.edges)) for each in own), strict=True)
            )
            span = f"rounds {rounds[0][0]}-{rounds[-1][0]}"
            text = f"  {span}: finished: {rows} {counted}, each exactly once{self._content(last, 0)}"
            self._report.lines.append(f"{text}; {plural(batches, 'batch', 'batches')}")
        self._tell_gaps(of for each in of_rounds.values() for of in each[-1].place.rounds.values())

    def _tell_gaps(self, rounds: Iterable[StreamRound]) -> None:
        """Reports what was removed before it was read."""
        for part, first, end in dict.fromkeys(gap for each in rounds for gap in each.gaps):
            self._report.note(f"messages [{first}, {end}) of {part} were removed before they were read")

    def _is_plain(self, stretches: Sequence[Stretch]) -> bool:
        """Whether of a round no more is to be said than that it is finished."""
        is_masked = any(found for of in stretches for found in self._graph.records.masked[of.index])
        is_known = not is_masked and not self._unknown(stretches)
        return stretches[-1].is_last and all(map(self._is_sound, stretches)) and is_known

    def _tell_pass(self, stretches: Sequence[Stretch]) -> bool:
        """Reports a pass; returns whether it was finished and is proven."""
        last, report = stretches[-1], self._report
        place, counted = last.place, self._descriptions.counted(last.place)
        called = "pass" if place.round is None else "round"
        report.counted.add(counted)
        self._report.reopened += sum(stretch.is_last for stretch in stretches[:-1])
        if not all(map(self._is_sound, stretches)):
            report.lines.append(f"  {called} {place.epoch}: not proven; {self._batches(stretches)}")
            return False
        given, dropped = (
            sum(size(each) for each in parts)
            for parts in zip(*((s.given, s.dropped) for s in stretches), strict=True)
        )
        trusted = self._trusted().get(ALONE, Taken()).spans
        trusted_rows = size(common(trusted, np.array([[place.epoch * PASS, (place.epoch + 1) * PASS]])))
        how = "finished" if last.is_last else _unfinished((given + dropped + trusted_rows) / place.positions)
        text = f"  {called} {place.epoch}: {how}: {given} {counted}, each exactly once"
        if dropped:
            text += f", {dropped} dropped by tail={self._graph.start_of(last.edges[-1]).tail!r}"
        text += self._content(stretches, trusted_rows) if last.is_last else ""
        earlier = sum(size(each.given) for each in stretches if each.place.positions < place.positions)
        came = "files" if place.round is None else "the rest"
        text += f", {earlier} of them before {came} came" if earlier else ""
        text += f"; {self._batches(stretches)}"
        text += f"; {trusted_rows} more on trust, before the start that was declared" if trusted_rows else ""
        report.lines.append(text)
        self._tell_masked(stretches)
        return last.is_last

    def _content(self, stretches: Sequence[Stretch], trusted: int) -> str:
        """What the units of a whole pass held."""
        dataset = self._descriptions.of(stretches[-1].place, ALONE)
        if dataset is None or dataset.units is None:
            return ""
        what = dataset.units.what
        if trusted or self._unknown(stretches):
            return f"; whether {what} is in them can't be told"
        return f"; {'with these ' if any(len(of.dropped) for of in stretches) else ''}{what} exactly once"

    def _tell_unproven(self, epoch: int) -> None:
        """Reports a pass without a batch on that line."""
        graph = self._graph
        edges = [edge for edge in graph.edges if edge.epoch == epoch]
        what = "not proven, as the states that it resumes from are not"
        if any(edge.before in graph.proven for edge in edges):
            what = "unfinished: no batch that every rank has delivered"
        self._report.lines.append(f"  pass {epoch}: {what}")

    def _tell_unproven_ends(self) -> None:
        """Reports finished passes to whose end no proven batches lead, and what they lack."""
        graph = self._graph
        for end in graph.edges:
            if not (end.is_last and end.is_whole) or end.before in graph.proven:
                continue
            edges, state, seen = [end], end.before, set[int]()
            while state not in seen and not (
                state in self._history.known and self._history.known[state].is_start
            ):
                seen.add(state)
                if (number := graph.best_entering(state)) is None or graph.edges[number].epoch != end.epoch:
                    break
                edges.append(graph.edges[number])
                state = graph.edges[number].before
            place = self._proof.place_of(end)
            known = self._history.known.get(state)
            misses = iter(["see what comes before"])
            if known is not None and known.is_start and not place.is_mixture:
                index = graph.records_of(edges)
                found = union(graph.positions(index), graph.dropped(int(graph.kept[end.first])))
                misses = self._history.names_at(place, without(found, place.positions))
                misses = (f"{line} never delivered" for line in misses)
            self._report.problem(f"pass {end.epoch} was finished, but the logs do not show how", misses)

    # ------------------------------------------------------------------------------------------ a mixture

    def _tell_mixture(self) -> None:
        of_stages = [list(group) for _, group in groupby(self._stretches, lambda each: each.place.stage)]

        def plain_shares(stretches: Sequence[Stretch]) -> str | None:
            """The shares of a pass that is a round of a stream, if nothing else is to be said of it."""
            place = stretches[0].place
            is_whole = place.rounds and not place.number and self._is_plain(stretches)
            return place.shares if is_whole else None

        for shares, alike in groupby(of_stages, plain_shares):
            if shares is None:
                for stretches in alike:
                    self._tell_stage(stretches)
            else:
                self._tell_stage([stretch for stretches in alike for stretch in stretches])
        names = dict.fromkeys(name for place in self._history.known.values() for name in place.names)
        moved = [stand.names for stand in self._way]
        gone = {old for each in moved for old in each} - {new for each in moved for new in each.values()}
        for name in (name for name in names if name not in gone):
            read = [stand.logged.place for stand in self._way if name in stand.logged.place.names]
            place = next((place for place in reversed(read) if place.weights[place.names.index(name)]), None)
            self._report.finished.append(self._tell_source(name, place or (read[-1] if read else None)))
            self._report.names.append(name)
        self._report.counted = self._report.counted or {"rows"}

    def _tell_stage(self, stretches: Sequence[Stretch]) -> None:
        """Reports a stage of a mixture."""
        place, report, last = stretches[0].place, self._report, stretches[-1].place
        counted = self._descriptions.counted(place)
        report.counted.add(counted)
        is_sound, unknown = all(map(self._is_sound, stretches)), self._unknown(stretches)
        what = "each exactly once" if is_sound else "not proven"
        if counted != "rows" and is_sound and not unknown:
            what += f", with all its {'tokens' if CUT_FROM_LISTS.get(counted) else 'rows'}"
        passes, batches = f"pass {place.epoch}", self._batches(stretches)
        if last.epoch != place.epoch:
            passes = f"passes {place.epoch}-{last.epoch}"
            batches = plural(sum(len(each.edges) for each in stretches), "batch", "batches")
        report.lines.append(
            f"  {passes}, stage {place.number}: {place.shares}: "
            f"{sum(size(each.given) for each in stretches)} {counted}, {what}; {batches}"
        )
        if unknown:
            report.tell([f"what the {counted} of {plural(unknown, 'batch', 'batches')} held can't be told"])
        self._tell_masked(stretches)

    def _tell_source(self, name: str, place: Place | None) -> int:
        """Reports the passes of a source; returns how many were finished."""
        if self._last is None or place is None:
            return 0
        taken = self._history.stands[self._last].delivered.get(name, Taken())
        counted, rows = self._descriptions.counted(place), max(taken.sizes, default=1)
        trusted = size(self._trusted().get(name, Taken()).spans)
        dataset, is_sound = self._descriptions.of(place, name), all(map(self._is_sound, self._stretches))
        passes = dict(by_pass(taken.spans))
        if name in place.rounds:
            return self._tell_stream(name, place.rounds[name], passes, is_sound=is_sound)
        counts = []
        for number in range(max(passes, default=-1) + 1):
            spans = passes.get(number, NOTHING)
            # A pass that was done before files came has as many rows as there were then.
            is_done = len(spans) == 1 and spans[0, 0] == 0 and int(spans[0, 1]) in taken.sizes
            counts.append((is_done, size(spans)))
        for (is_done, count), group in groupby(enumerate(counts), lambda each: each[1]):
            numbers = [number for number, _ in group]
            span = f"pass {numbers[0]}" if len(numbers) == 1 else f"passes {numbers[0]}-{numbers[-1]}"
            how = "finished" if is_done else _unfinished(count / rows)
            once = " in each" if len(numbers) > 1 else ""
            once += f", {'each exactly once' if is_sound else 'not proven'}"
            units = None if dataset is None else dataset.units
            if (
                is_done
                and is_sound
                and units is not None
                and not self._unknown(self._stretches)
                and not trusted
            ):
                once += f", with {units.what}" if count == rows else ""
            self._report.lines.append(f"  {name}: {span} {how}: {count} {counted}{once}")
        if trusted:
            text = f"{name}: {trusted} of these {counted} on trust, before the declared start"
            self._report.lines.append(f"  {text}")
        return sum(is_done for is_done, _ in counts) if is_sound else 0

    def _tell_stream(
        self, name: str, last: StreamRound, rounds: Mapping[int, Intervals], *, is_sound: bool
    ) -> int:
        """Reports the rounds of a source that is a stream; returns how many were finished.

        Of each but the last one all rows were delivered, or none would follow it.
        """
        rows = int(last.rows.starts[-1])
        done = [number for number in rounds if number != last.number or size(rounds[number]) == rows]
        once = "each exactly once" if is_sound else "not proven"
        if done:
            span = f"round {done[0]}" if len(done) == 1 else f"rounds {done[0]}-{done[-1]}"
            given = sum(size(rounds[number]) for number in done)
            self._report.lines.append(f"  {name}: {span} finished: {given} rows, {once}")
        for number in (number for number in rounds if number not in done):
            given = size(rounds[number])
            how = f"{_unfinished(given / rows)}: {given} rows, {once}"
            self._report.lines.append(f"  {name}: round {number} {how}")
        self._tell_gaps(of for stand in self._way for of in stand.logged.place.rounds.values())
        return len(done) if is_sound else 0

    # ------------------------------------------------------------------------------------------- of both

    def _is_sound(self, stretch: Stretch) -> bool:
        return stretch.is_sound and stretch.place.order_key not in self._proof.wrong

    def _unknown(self, stretches: Sequence[Stretch]) -> int:
        """The number of batches whose units have unknown contents."""
        return sum(each in self._proof.unknown for of in stretches for each in of.index.tolist())

    def _trusted(self) -> Mapping[str, Taken]:
        """What is taken on trust of each source, by its name at the end of the way."""
        trusted = self._way[0].delivered if self._way else {}
        for stand in self._way:
            trusted = {stand.names.get(name, name): taken for name, taken in trusted.items()}
        return trusted

    def _batches(self, stretches: Sequence[Stretch]) -> str:
        spans: list[tuple[int, int, int]] = []
        for edge in (edge for stretch in stretches for edge in stretch.edges):
            ranks = self._graph.start_of(edge).world_size
            if spans and (spans[-1][1] + 1, spans[-1][2]) == (edge.step, ranks):
                spans[-1] = spans[-1][0], edge.step, ranks
            else:
                spans.append((edge.step, edge.step, ranks))
        texts = (f"{first}-{last} on {ranks} rank{'s' if ranks > 1 else ''}" for first, last, ranks in spans)
        return f"batches {', '.join(texts)}"

    def _tell_masked(self, stretches: Sequence[Stretch]) -> None:
        """Lists the rows that were handed over as not valid: they count as delivered."""
        causes: dict[str, list[Integers]] = defaultdict(list)
        for stretch in stretches:
            for found in self._graph.records.masked[stretch.index]:
                for cause, ranges in found or ():
                    causes[cause].append(of_runs(ranges))
        place = stretches[-1].place
        if not causes:
            return
        if place.is_mixture:
            rows = {cause: np.concatenate(parts) for cause, parts in causes.items()}
            self._report.masked += sum(map(len, rows.values()))
            self._report.tell(
                f"{len(numbers)} of these rows were masked as not valid: {cause}"
                for cause, numbers in rows.items()
            )
            return
        rows = {cause: np.unique(np.concatenate(parts)) for cause, parts in causes.items()}
        count = len(np.unique(np.concatenate(list(rows.values()))))
        self._report.masked += count
        self._report.lines.append(f"    {count} of these rows were masked as not valid:")
        self._report.tell(
            f"  {where}: {cause}" for cause, numbers in rows.items() for where in self._rows(place, numbers)
        )

    def _rows(self, place: Place, rows: Integers) -> Iterator[str]:
        dataset = self._descriptions.of(place, ALONE)
        if dataset is not None:
            yield from (dataset if dataset.units is None else dataset.units.of_rows).name(rows)
        else:
            yield f"{plural(len(rows), 'row')} from {rows[0]} to {rows[-1]}"


def _unfinished(share: float) -> str:
    """That a pass is not finished, and how much of it was delivered: never all."""
    return f"unfinished ({min(share, 0.99):.0%})"
