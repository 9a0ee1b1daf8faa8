"""What was delivered from one dataset in one order, and the proof that it was each row exactly once.

It shares no code with what plans and reads. What was delivered up to a state is what the ranks logged on the
path to it (see `batch_graph`). On the path to the end of a pass, each position of `[0, N)` must lie exactly
once. The digests of the delivered rows must add up to that of all rows: this proves that the order is a
bijection, without knowing it.

Where files came behind others, the path goes on into the history of the files that were there (see `growth`).
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import Self

import numpy as np

from fastresume.audit.batch_graph import Edge, Lineage
from fastresume.audit.blame import Blame
from fastresume.audit.growth import State, before_growth, hash_in, is_beginning
from fastresume.audit.log_format import Integers, Records, Start, digest, state_hash
from fastresume.audit.order import Dataset, Order
from fastresume.audit.passage import Passage, Turn
from fastresume.audit.ranges import NOTHING, chunks, coverage, size, without
from fastresume.audit.report import MAX_LINES, Declared, Report
from fastresume.buffers import Intervals, of_runs

NAMED_AT_ONCE = 1 << 20


class History:
    """What was delivered from one dataset in one order; reports it pass by pass."""

    def __init__(
        self,
        directory: Path,
        named: str,
        starts: Sequence[Start],
        members: Sequence[int],
        records: Records,
        declared: Sequence[Declared],
    ) -> None:
        dataset, self._order, self._selection = json.loads(named)
        self.num_rows: int = dataset["rows"]
        self._fingerprint: str = dataset["fingerprint"]
        self._dataset = Dataset.load(directory, self._fingerprint, self._selection, self.num_rows)
        self._units = None if self._dataset is None else self._dataset.units
        self._counted = "rows" if self._dataset is None else self._dataset.counted
        self._orders: dict[Turn, Order] = {}  # only the latest one
        self.report = Report()
        self._introduce(self._fingerprint, len({starts[index].file for index in members}))
        self._trusted = {state_hash(item.text): item for item in declared}
        self._lineage = Lineage(starts, members, records, self._trusted, self.report.problem)
        self._blame = Blame(self._lineage, self.report)
        # The states at which files came, each with the state of fewer files that it was, and whether it went
        # back into a pass that was done.
        self._grown: dict[int, tuple[History, int, bool]] = {}
        self._finished: set[int] = set()
        self._is_gone_on_from = False

    # ---------------------------------------------------------------------------------------------- growth

    @property
    def extent(self) -> tuple[int, int]:
        """The numbers of rows and of files: what grows."""
        return self.num_rows, 0 if self._dataset is None else len(self._dataset.files)

    def go_on_from(self, others: Sequence[Self]) -> None:
        """Finds the states at which files came, in the histories of the files that were there before."""
        lineage = self._lineage
        for index, state in lineage.states.items():
            if state in lineage.proven or state in self._blame.elsewhere:
                continue
            now = lineage.parsed[state]
            if (declared := self._declared_before(now)) is not None:
                self._trusted[state] = declared
                lineage.prove([state])
                continue
            known = [
                (other, found, then["epoch"] != now["epoch"])
                for then in before_growth(now)
                for other in others
                for found in [other._find(then, self._dataset)]
                if found is not None
            ]
            if not known:
                continue
            other, found, _ = before = max(known, key=lambda each: each[1] in each[0]._lineage.proven)
            other._is_gone_on_from = True
            if found in other._lineage.proven:
                self._grown[state] = before
                lineage.prove([state])
            else:
                self._blame.elsewhere.add(state)
                other._blame.state(found, lineage.starts[index].file)

    def _find(self, state: State, newer: Dataset | None) -> int | None:
        """A state of files that are the first of others; None if it is no state of these."""
        if state["dataset"]["rows"] != self.num_rows or self._dataset is None or newer is None:
            return None
        if state["order"] != self._order or not is_beginning(self._dataset, newer):
            return None
        found = hash_in(state, self._fingerprint, self._selection)
        return found if self._lineage.knows(found) else None

    def _declared_before(self, now: State) -> Declared | None:
        """What is declared of a state before files came: the new rows are left as well."""
        for then in before_growth(now):
            rows = then["dataset"]["rows"]
            for state, declared in self._trusted.items():
                told = json.loads(declared.text)
                fingerprint, selection = told["dataset"]["fingerprint"], told["selection"]
                if told["dataset"]["rows"] == rows and hash_in(then, fingerprint, selection) == state:
                    left = NOTHING if then["epoch"] != now["epoch"] else declared.remaining
                    new = np.array([[rows, self.num_rows]])
                    return Declared(declared.text, np.concatenate([left, new]))
        return None

    def _before(self, state: int, goes_back: bool) -> Passage:
        """What was delivered before a state at which a path begins: something only where files came.

        If it `goes_back`, what was delivered of the pass that it ends.
        """
        trusted, none = NOTHING, np.empty(0, np.int64)
        if goes_back or state not in self._lineage.pass_starts:
            if state in self._grown:
                other, then, went_back = self._grown[state]
                return other._up_to(then, goes_back or went_back)
            if state in self._trusted:
                left = NOTHING if goes_back else self._trusted[state].remaining
                trusted = without(left, self.num_rows)
        return Passage([], state, none, none, NOTHING, NOTHING, trusted)

    def _up_to(self, state: int, goes_back: bool) -> Passage:
        """What was delivered up to a proven state, of its pass; of the one it ends, if it `goes_back`."""
        number = self._lineage.proven[state]
        return self._before(state, goes_back) if number is None else self._passage(number)

    # ------------------------------------------------------------------------------------------ the report

    def tell(self) -> None:
        """Reports each pass, and why it is not proven if it is not."""
        for state, file in self._lineage.unproven():
            self._blame.state(state, file)
        lines = self.report.lines
        first = len(lines)
        for epoch in sorted({edge.epoch for edge in self._lineage.edges}):
            if self._tell_pass(epoch):
                self._finished.add(epoch)
        for state, (other, _, _) in self._grown.items():
            epoch = self._lineage.epoch_of[state]
            self._finished |= {done for done in other._finished if done < epoch}
        self.report.counted = {self._counted}
        self.report.finished = [] if self._is_gone_on_from else [len(self._finished)]
        passes, lines[first:] = lines[first:], []
        self._blame.tell()
        lines += passes  # causes come before their consequences

    def _introduce(self, fingerprint: str, logs: int) -> None:
        order = self._order
        of_files = "" if self._dataset is None else f" in {len(self._dataset.files)} files"
        if self._selection is not None:
            of_files += f", selection {self._selection[:16]}"
        if self._units is not None:
            of_files += f", {self._units.text}"
        how = f"shuffled with seed {order['seed']}" if order["kind"] == "shuffled" else order["kind"]
        self.report.lines.append(
            f"dataset {fingerprint[:16]}: {self.num_rows} {self._counted}{of_files}, {how}; {logs} logs"
        )
        if self._dataset is None:
            what = "dataset" if self._selection is None else "dataset or of its selection"
            self.report.problem(f"the description of the {what} is missing or damaged: rows have no names")

    # ---------------------------------------------------------------------------------------------- a pass

    def _tell_pass(self, epoch: int) -> bool:
        """Reports a pass; returns whether it was finished and is proven."""
        lineage = self._lineage
        ends = [n for n, edge in enumerate(lineage.edges) if edge.epoch == epoch and edge.is_last]
        whole = [number for number in ends if lineage.edges[number].is_whole]
        if whole:
            proven = [self._tell_finished(number) for number in whole]
            return all(proven)
        for number in ends:  # a kill leaves some ranks one batch behind, never two
            self._blame.state(lineage.edges[number].before, lineage.start_of(lineage.edges[number]).file)
        self._tell_unfinished(epoch)
        return False

    def _tell_finished(self, last: int) -> bool:
        """Reports a pass that ends with this batch; returns whether each row was delivered exactly once."""
        lineage, problems = self._lineage, self.report.problems
        end = lineage.edges[last]
        passage, turn = self._passage(last), self._turn(end)
        dropped = lineage.dropped(lineage.kept[end.first])
        found = np.concatenate([passage.delivered, passage.dropped, passage.trusted])
        misses = list(islice(self._misses(found, turn), MAX_LINES + 1))
        if end.before not in lineage.proven:
            is_from_start = passage.state in lineage.pass_starts
            what = f"pass {end.epoch} was finished, but the logs do not show how"
            self.report.problem(what, misses if is_from_start else ["see what comes before"])
            return False
        if misses:
            self.report.problem(
                f"pass {end.epoch}: not every {self._counted[:-1]} was delivered exactly once", misses
            )
            return False
        self._check_numbers(passage)
        start = lineage.start_of(end)
        most = {"drop": start.batch_size * start.world_size, "short": start.world_size}.get(start.tail, 1)
        if size(dropped) >= most:
            what = f"{size(dropped)} {self._counted} were dropped, which tail={start.tail!r} does not do"
            self.report.problem(f"pass {end.epoch}: {what}", self._names(dropped, turn))
        excluded = np.concatenate([passage.dropped, passage.trusted])
        everything = self._everything()
        if everything is not None and (self._dataset is not None or len(excluded) == 0):
            expected = self._digest(everything, None) - self._digest(excluded, turn)
            self._check_digest(passage, expected, turn)
        tokens = self._check_content(passage, turn)
        if self.report.problems > problems:
            return False
        count = size(passage.dropped)
        said = f", {count} dropped by tail={start.tail!r}" if count else ""
        self._tell_passage(
            f"finished: {size(passage.delivered)} {self._counted}, each exactly once{said}{tokens}", passage
        )
        return True

    def _tell_unfinished(self, epoch: int) -> None:
        """Reports how far a pass has come, and checks what was delivered of it."""
        lineage, problems = self._lineage, self.report.problems
        of_pass = [
            number
            for number in lineage.proven.values()
            if number is not None and lineage.edges[number].epoch == epoch
        ]
        if of_pass:
            last = max(of_pass, key=lambda number: lineage.edges[number].step)
            passage, turn = self._passage(last), self._turn(lineage.edges[last])
            found = np.concatenate([passage.delivered, passage.dropped, passage.trusted])
            misses = list(islice(self._misses(found, turn, and_missing=False), MAX_LINES + 1))
            if misses:
                self.report.problem(f"pass {epoch}: {self._counted} were delivered more than once", misses)
            self._check_numbers(passage)
            if not misses and self._dataset is not None:
                self._check_digest(passage, self._digest(passage.delivered, turn), turn)
            if self.report.problems == problems:
                rows, share = size(passage.delivered), size(found) / self.num_rows
                self._tell_passage(
                    f"unfinished ({share:.0%}): {rows} {self._counted}, each exactly once", passage
                )
            furthest = [lineage.edges[last].after]
        else:
            begun = [*lineage.pass_starts, *self._grown]
            furthest = [s for s in begun if lineage.epoch_of[s] == epoch and s in lineage.proven]
            what = "unfinished: no batch that every rank has delivered"
            if not furthest:
                what = "not proven, as the states that it goes on from are not"
            self.report.lines.append(f"  pass {epoch}: {what}")
        for state in furthest:
            self._blame.absent(state)

    def _turn(self, edge: Edge) -> Turn:
        return Turn(edge.epoch, self._lineage.generation_ends(edge))

    def _passage(self, last: int) -> Passage:
        lineage, end = self._lineage, self._lineage.edges[last]
        way, state = lineage.way_to(last)
        own = lineage.records_of(way)
        before = self._before(state, False)
        index = np.concatenate([before.index, own])
        dropped = lineage.dropped(lineage.kept[end.first]) if end.is_last else NOTHING
        dropped = np.concatenate([before.dropped, dropped])
        return Passage(way, state, own, index, lineage.positions(index), dropped, before.trusted)

    def _tell_passage(self, what: str, passage: Passage) -> None:
        edges = [self._lineage.edges[number] for number in passage.way]
        places = []
        for ranks, group in groupby(edges, lambda edge: self._lineage.start_of(edge).world_size):
            steps = [edge.step for edge in group]
            places.append(f"{steps[0]}-{steps[-1]} on {ranks} rank{'s' if ranks > 1 else ''}")
        epoch = edges[0].epoch
        earlier = size(passage.delivered) - size(self._lineage.positions(passage.own))
        before = f", {earlier} of them before files came" if earlier else ""
        trusted = f"; {size(passage.trusted)} more on trust, before the start that was declared"
        self.report.lines.append(
            f"  pass {epoch}: {what}{before}; batches {', '.join(places)}"
            + (trusted if len(passage.trusted) else "")
        )
        self._tell_masked(passage)

    def _tell_masked(self, passage: Passage) -> None:
        """Lists the rows that were handed over as not valid: they count as delivered."""
        causes: dict[str, list[Integers]] = defaultdict(list)
        for found in self._lineage.records.masked[passage.own]:
            for cause, ranges in found or ():
                causes[cause].append(of_runs(ranges))
        rows = {cause: np.unique(np.concatenate(parts)) for cause, parts in causes.items()}
        if not rows:
            return
        count = len(np.unique(np.concatenate(list(rows.values()))))
        self.report.masked += count
        self.report.lines.append(f"    {count} of these rows were masked as not valid:")
        self.report.tell(
            f"  {place}: {cause}" for cause, numbers in rows.items() for place in self._names_of(numbers)
        )

    def _names_of(self, rows: Integers) -> Iterator[str]:
        if self._dataset is not None:
            yield from (self._dataset if self._units is None else self._units.of_rows).name(rows)
        else:
            yield f"{len(rows)} rows from {rows[0]} to {rows[-1]}"

    # ------------------------------------------------------------------------------------------ the checks

    def _check_numbers(self, passage: Passage) -> None:
        edges = [self._lineage.edges[number] for number in passage.way]
        starts = self._lineage.pass_starts
        first = 0 if passage.state in starts else edges[0].step
        epoch = starts.get(passage.state, edges[0].epoch)
        if any((edge.epoch, edge.step) != (epoch, first + place) for place, edge in enumerate(edges)):
            self.report.problem(f"pass {epoch}: its batches are not numbered one after another")

    def _check_digest(self, passage: Passage, expected: int, turn: Turn) -> None:
        """Compares the digest of the delivered rows with that of the rows that should have been delivered."""
        found = int(self._lineage.records.digest[passage.index].sum(dtype=np.uint64))
        if (found - expected) % (1 << 64):
            what = f"the {self._counted} handed over are not those of the positions"
            what = f"each position was delivered once, but {what}"
            self.report.problem(f"pass {turn.epoch}: {what}", self._wrong_batches(passage, turn))

    def _check_content(self, passage: Passage, turn: Turn) -> str:
        """Compares what the units held with what the files hold; says what that proves."""
        if self._units is None:
            return ""
        what, expected = self._units.what, self._units.content
        if self._units.counted == "bins":
            expected = self._digest(self._units.of_rows.selected, None)
        found = self._lineage.records.content[passage.index].tolist()
        if expected is None or None in found or len(passage.trusted):
            return f"; whether {what} is in them can't be told"
        if (sum(found) - expected) % (1 << 64):
            self.report.problem(f"pass {turn.epoch}: what the {self._counted} held is not {what} once")
        return f"; {'with these ' if len(passage.dropped) else ''}{what} exactly once"

    def _everything(self) -> Intervals | None:
        """The selected rows; None if they are not known."""
        if self._dataset is not None:
            return self._dataset.selected
        return np.array([[0, self.num_rows]]) if self._selection is None else None

    def _wrong_batches(self, passage: Passage, turn: Turn) -> Iterator[str]:
        """Names the batches whose rows are not those of the order at their positions."""
        records = self._lineage.records
        for place in passage.index if self._dataset is not None else ():
            positions = self._lineage.positions(place[None])
            if self._digest(positions, turn) != int(records.digest[place]):
                yield f"batch {records.step[place]}, {self._lineage.place(place)}"
                yield from (f"  should be {line}" for line in self._names(positions, turn))

    def _misses(self, found: Intervals, turn: Turn, and_missing: bool = True) -> Iterator[str]:
        """Names the rows whose positions do not occur exactly once."""
        points, times = coverage(found, self.num_rows)
        if points[0] < 0 or points[-1] > self.num_rows:
            there = f"{self.num_rows} {self._counted}"
            yield f"positions from {points[0]} to {points[-1] - 1}, where there are {there}"
            return
        spans = np.column_stack([points[:-1], points[1:]])
        if and_missing:
            for line in self._names(spans[times == 0], turn):
                yield f"{line} never delivered"
        for line in self._names(spans[times > 1], turn):
            yield f"{line} delivered more than once"

    def _names(self, positions: Intervals, turn: Turn) -> Iterator[str]:
        """Names the rows at the positions."""
        if self._dataset is None:
            yield from (f"positions {first}-{end - 1}" for first, end in positions.tolist())
        elif len(positions):
            order = self._order_of(turn, self._dataset)
            for part in chunks(positions, NAMED_AT_ONCE):
                yield from self._dataset.name(order.rows(part))

    def _order_of(self, turn: Turn, dataset: Dataset) -> Order:
        if turn not in self._orders:
            self._orders = {turn: Order(self._order, turn.epoch, dataset, turn.ends)}
        return self._orders[turn]

    def _digest(self, positions: Intervals, turn: Turn | None) -> int:
        """The digest of the rows at the positions of a pass; without a pass, positions are rows."""
        order = None
        if turn is not None and self._dataset is not None and len(positions):
            order = self._order_of(turn, self._dataset)
        parts = (of_runs(part) if order is None else order.rows(part) for part in chunks(positions))
        return sum(digest(rows) for rows in parts) % (1 << 64)
