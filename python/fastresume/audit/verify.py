"""The proof, from delivery logs alone, that every row of every finished pass was delivered exactly once.

It shares no code with what plans and reads. What was delivered up to a state is what the ranks logged on the
path to it (see `batch_graph`). On the path to the end of a pass, each position of `[0, N)` must lie exactly
once. The digests of the delivered rows must add up to that of all rows: this proves that the order is a
bijection, without knowing it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby, islice
from pathlib import Path

import numpy as np

from fastresume.audit.batch_graph import Lineage
from fastresume.audit.log_format import Integers, Records, Start, digest, read_log, state_hash
from fastresume.audit.order import Dataset, Order
from fastresume.buffers import Intervals, of_runs

MAX_LINES = 20
CHUNK = 1 << 16
NAMED_AT_ONCE = 1 << 20
NOTHING = np.empty((0, 2), np.int64)


@dataclass(frozen=True)
class Declared:
    """A state that is taken on trust: its text, and the positions that were not delivered before it."""

    text: str
    remaining: Intervals


@dataclass
class Report:
    """The findings: lines for people, how many of them are problems, and what was proven.

    `finished` holds, per dataset and order, how many passes were proven to be finished. `masked` is how many
    of the rows that were delivered were masked as not valid, over all passes.
    """

    lines: list[str] = field(default_factory=list)
    problems: int = 0
    finished: list[int] = field(default_factory=list)
    logs: int = 0
    masked: int = 0

    def problem(self, what: str, details: Iterable[str] = ()) -> None:
        """Adds a problem, and details below it: a readable number of them."""
        self.problems += 1
        self.lines.append(f"  problem: {what}")
        self.tell(details)

    def tell(self, details: Iterable[str]) -> None:
        """Adds details: a readable number of them."""
        lines = list(islice(details, MAX_LINES + 1))
        self.lines += [f"    {line}" for line in lines[:MAX_LINES]]
        if len(lines) > MAX_LINES:
            self.lines.append("    ... and more")


@dataclass(frozen=True)
class Passage:
    """What was delivered on a path: its records and positions, and what counts as delivered before it."""

    way: list[int]
    state: int
    index: Integers
    delivered: Intervals
    trusted: Intervals


def audit(directory: Path, declared: Sequence[Declared] = ()) -> Report:
    """Proves what the logs in a directory show.

    Raises:
        OSError: if the directory or a file in it can't be read.
    """
    report = Report()
    starts: list[Start] = []
    parts: list[Records] = []
    ranges = 0
    for path in sorted(path for path in directory.iterdir() if path.match("rank-*.log")):
        found, records, damage = read_log(path)
        parts.append(records.moved(len(starts), ranges))
        starts += found
        ranges += len(records.ranges)
        if damage is not None:
            report.problem(damage, ["from there on it does not count: is there a copy of the file?"])
    report.logs = len(parts)
    jobs: dict[str, list[int]] = defaultdict(list)
    for index, start in enumerate(starts):
        state = json.loads(start.cursor)
        jobs[json.dumps([state["dataset"], state["order"], state["selection"]])].append(index)
    if starts:
        names = [column.name for column in fields(Records)]
        records = Records(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
        for named, members in sorted(jobs.items()):
            History(directory, named, starts, members, records, declared, report).tell()
    return report


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
        report: Report,
    ) -> None:
        dataset, self._order, self._selection = json.loads(named)
        self._num_rows: int = dataset["rows"]
        fingerprint: str = dataset["fingerprint"]
        self._dataset = Dataset.load(directory, fingerprint, self._selection, self._num_rows)
        self._orders: dict[int, Order] = {}  # only the latest one
        self._report = report
        self._introduce(fingerprint, len({starts[index].file for index in members}))
        self._trusted = {state_hash(item.text): item for item in declared}
        self._lineage = Lineage(starts, members, records, self._trusted, report.problem)
        # For each cause of a missing proof, a file that shows it.
        self._causes: dict[tuple[int | None, int], str] = {}

    def tell(self) -> None:
        """Reports each pass, and why it is not proven if it is not."""
        for state, file in self._lineage.unproven():
            self._blame(state, file)
        lines = self._report.lines
        first = len(lines)
        epochs = sorted({edge.epoch for edge in self._lineage.edges})
        self._report.finished.append(sum([self._tell_pass(epoch) for epoch in epochs]))
        passes, lines[first:] = lines[first:], []
        for (number, state), file in self._causes.items():
            self._tell_cause(number, state, file)
        lines += passes  # causes come before their consequences

    def _introduce(self, fingerprint: str, logs: int) -> None:
        order = self._order
        of_files = "" if self._dataset is None else f" in {len(self._dataset.files)} files"
        if self._selection is not None:
            of_files += f", selection {self._selection[:16]}"
        how = f"shuffled with seed {order['seed']}" if order["kind"] == "shuffled" else order["kind"]
        self._report.lines.append(
            f"dataset {fingerprint[:16]}: {self._num_rows} rows{of_files}, {how}; {logs} logs"
        )
        if self._dataset is None:
            what = "dataset" if self._selection is None else "dataset or of its selection"
            self._report.problem(f"the description of the {what} is missing or damaged: rows have no names")

    def _blame(self, state: int, file: str) -> None:
        if state not in self._lineage.proven:
            self._causes.setdefault(self._lineage.cause(state), file)

    def _tell_cause(self, number: int | None, state: int, file: str) -> None:
        if number is None:
            epoch = self._lineage.epoch_of.get(state, "unknown")
            self._report.problem(
                f"{file} starts from a state that no log leads to (pass {epoch})",
                ["declare it with --start if that was meant; if logs are missing, bring them here"],
            )
            return
        edge = self._lineage.edges[number]
        world_size = self._lineage.start_of(edge).world_size
        absent = sorted(set(range(world_size)) - set(self._lineage.ranks_of(edge)))
        if absent:  # else ranks disagree, which was reported
            ranks = f"rank {absent[0]}" if len(absent) == 1 else "ranks " + ", ".join(map(str, absent[:8]))
            self._report.problem(
                f"pass {edge.epoch}, batch {edge.step}: {ranks} of {world_size} never delivered it",
                [
                    f"but {file} goes on after it",
                    "either rows were lost, or a log is missing: then bring it here",
                ],
            )

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
            self._blame(lineage.edges[number].before, lineage.start_of(lineage.edges[number]).file)
        self._tell_unfinished(epoch)
        return False

    def _tell_finished(self, last: int) -> bool:
        """Reports a pass that ends with this batch; returns whether each row was delivered exactly once."""
        lineage, problems = self._lineage, self._report.problems
        end = lineage.edges[last]
        passage = self._passage(last)
        dropped = lineage.dropped(lineage.kept[end.first])
        found = np.concatenate([passage.delivered, dropped, passage.trusted])
        misses = list(islice(self._misses(found, end.epoch), MAX_LINES + 1))
        if end.before not in lineage.proven:
            is_from_start = passage.state in lineage.pass_starts
            what = f"pass {end.epoch} was finished, but the logs do not show how"
            self._report.problem(what, misses if is_from_start else ["see what comes before"])
            return False
        if misses:
            self._report.problem(f"pass {end.epoch}: not every row was delivered exactly once", misses)
            return False
        self._check_numbers(passage)
        start = lineage.start_of(end)
        most = {"drop": start.batch_size * start.world_size, "short": start.world_size}.get(start.tail, 1)
        if _size(dropped) >= most:
            what = f"{_size(dropped)} rows were dropped, which tail={start.tail!r} does not do"
            self._report.problem(f"pass {end.epoch}: {what}", self._names(dropped, end.epoch))
        excluded = np.concatenate([dropped, passage.trusted])
        everything = self._everything()
        if everything is not None and (self._dataset is not None or len(excluded) == 0):
            expected = self._digest(everything, None) - self._digest(excluded, end.epoch)
            self._check_digest(passage, expected)
        if self._report.problems > problems:
            return False
        said = f", {_size(dropped)} dropped by tail={start.tail!r}" if len(dropped) else ""
        self._tell_passage(f"finished: {_size(passage.delivered)} rows, each exactly once{said}", passage)
        return True

    def _tell_unfinished(self, epoch: int) -> None:
        """Reports how far a pass has come, and checks what was delivered of it."""
        lineage, problems = self._lineage, self._report.problems
        of_pass = [
            number
            for number in lineage.proven.values()
            if number is not None and lineage.edges[number].epoch == epoch
        ]
        if of_pass:
            last = max(of_pass, key=lambda number: lineage.edges[number].step)
            passage = self._passage(last)
            found = np.concatenate([passage.delivered, passage.trusted])
            misses = list(islice(self._misses(found, epoch, and_missing=False), MAX_LINES + 1))
            if misses:
                self._report.problem(f"pass {epoch}: rows were delivered more than once", misses)
            self._check_numbers(passage)
            if not misses and self._dataset is not None:
                self._check_digest(passage, self._digest(passage.delivered, epoch))
            if self._report.problems == problems:
                rows, share = _size(passage.delivered), _size(found) / self._num_rows
                self._tell_passage(f"unfinished ({share:.0%}): {rows} rows, each exactly once", passage)
            furthest = [lineage.edges[last].after]
        else:
            furthest = [s for s, at in lineage.pass_starts.items() if at == epoch and s in lineage.proven]
            what = "unfinished: no batch that every rank has delivered"
            if not furthest:
                what = "not proven, as the states that it goes on from are not"
            self._report.lines.append(f"  pass {epoch}: {what}")
        for state in furthest:
            self._blame_absent(state)

    def _blame_absent(self, state: int) -> None:
        """Blames a rank that has no log at all, if others have gone two batches on without it."""
        lineage = self._lineage
        for number in lineage.leaving.get(state, ()):
            edge = lineage.edges[number]
            start = lineage.start_of(edge)
            if not edge.is_whole and lineage.leaving.get(edge.after):
                world_size = start.world_size
                if len(lineage.ranks_logged(world_size)) < world_size:
                    self._blame(edge.after, start.file)

    def _passage(self, last: int) -> Passage:
        way, state = self._lineage.way_to(last)
        index = self._lineage.records_of(way)
        trusted = NOTHING
        if state not in self._lineage.pass_starts and state in self._trusted:
            remaining = self._trusted[state].remaining.reshape(-1)
            trusted = np.array([0, *remaining.tolist(), self._num_rows]).reshape(-1, 2)
            trusted = trusted[trusted[:, 0] < trusted[:, 1]]
        return Passage(way, state, index, self._lineage.positions(index), trusted)

    def _tell_passage(self, what: str, passage: Passage) -> None:
        edges = [self._lineage.edges[number] for number in passage.way]
        places = []
        for ranks, group in groupby(edges, lambda edge: self._lineage.start_of(edge).world_size):
            steps = [edge.step for edge in group]
            places.append(f"{steps[0]}-{steps[-1]} on {ranks} rank{'s' if ranks > 1 else ''}")
        epoch = edges[0].epoch
        trusted = f"; {_size(passage.trusted)} more on trust, before the start that was declared"
        self._report.lines.append(
            f"  pass {epoch}: {what}; batches {', '.join(places)}" + (trusted if len(passage.trusted) else "")
        )
        self._tell_masked(passage)

    def _tell_masked(self, passage: Passage) -> None:
        """Lists the rows that were handed over as not valid: they count as delivered."""
        causes: dict[str, list[Integers]] = defaultdict(list)
        for found in self._lineage.records.masked[passage.index]:
            for cause, ranges in found or ():
                causes[cause].append(of_runs(ranges))
        rows = {cause: np.unique(np.concatenate(parts)) for cause, parts in causes.items()}
        if not rows:
            return
        count = len(np.unique(np.concatenate(list(rows.values()))))
        self._report.masked += count
        self._report.lines.append(f"    {count} of these rows were masked as not valid:")
        self._report.tell(
            f"  {place}: {cause}" for cause, numbers in rows.items() for place in self._names_of(numbers)
        )

    def _names_of(self, rows: Integers) -> Iterator[str]:
        if self._dataset is not None:
            yield from self._dataset.name(rows)
        else:
            yield f"{len(rows)} rows from {rows[0]} to {rows[-1]}"

    # ------------------------------------------------------------------------------------------ the checks

    def _check_numbers(self, passage: Passage) -> None:
        edges = [self._lineage.edges[number] for number in passage.way]
        starts = self._lineage.pass_starts
        first = 0 if passage.state in starts else edges[0].step
        epoch = starts.get(passage.state, edges[0].epoch)
        if any((edge.epoch, edge.step) != (epoch, first + place) for place, edge in enumerate(edges)):
            self._report.problem(f"pass {epoch}: its batches are not numbered one after another")

    def _check_digest(self, passage: Passage, expected: int) -> None:
        """Compares the digest of the delivered rows with that of the rows that should have been delivered."""
        found = int(self._lineage.records.digest[passage.index].sum(dtype=np.uint64))
        if (found - expected) % (1 << 64):
            epoch = self._lineage.edges[passage.way[0]].epoch
            what = "each position was delivered once, but the rows handed over are not those of the positions"
            self._report.problem(f"pass {epoch}: {what}", self._wrong_batches(passage, epoch))

    def _everything(self) -> Intervals | None:
        """The selected rows; None if they are not known."""
        if self._dataset is not None:
            return self._dataset.selected
        return np.array([[0, self._num_rows]]) if self._selection is None else None

    def _wrong_batches(self, passage: Passage, epoch: int) -> Iterator[str]:
        """Names the batches whose rows are not those of the order at their positions."""
        records = self._lineage.records
        for place in passage.index if self._dataset is not None else ():
            positions = self._lineage.positions(place[None])
            if self._digest(positions, epoch) != int(records.digest[place]):
                yield f"batch {records.step[place]}, {self._lineage.place(place)}"
                yield from (f"  should be {line}" for line in self._names(positions, epoch))

    def _misses(self, found: Intervals, epoch: int, and_missing: bool = True) -> Iterator[str]:
        """Names the rows whose positions do not occur exactly once."""
        points, times = _coverage(found, self._num_rows)
        if points[0] < 0 or points[-1] > self._num_rows:
            yield f"positions from {points[0]} to {points[-1] - 1}, where there are {self._num_rows} rows"
            return
        spans = np.column_stack([points[:-1], points[1:]])
        if and_missing:
            for line in self._names(spans[times == 0], epoch):
                yield f"{line} never delivered"
        for line in self._names(spans[times > 1], epoch):
            yield f"{line} delivered more than once"

    def _names(self, positions: Intervals, epoch: int) -> Iterator[str]:
        """Names the rows at the positions."""
        if self._dataset is None:
            yield from (f"positions {first}-{end - 1}" for first, end in positions.tolist())
        elif len(positions):
            order = self._order_of(epoch, self._dataset)
            for part in _chunks(positions, NAMED_AT_ONCE):
                yield from self._dataset.name(order.rows(part))

    def _order_of(self, epoch: int, dataset: Dataset) -> Order:
        if epoch not in self._orders:
            self._orders = {epoch: Order(self._order, epoch, dataset)}
        return self._orders[epoch]

    def _digest(self, positions: Intervals, epoch: int | None) -> int:
        """The digest of the rows at the positions of a pass; without a pass, positions are rows."""
        order = None
        if epoch is not None and self._dataset is not None and len(positions):
            order = self._order_of(epoch, self._dataset)
        parts = (of_runs(part) if order is None else order.rows(part) for part in _chunks(positions))
        return sum(digest(rows) for rows in parts) % (1 << 64)


def _coverage(ranges: Intervals, total: int) -> tuple[Integers, Integers]:
    """Points that divide `[0, total)` and all ranges, and how many ranges cover each part."""
    points, place = np.unique(np.concatenate([[0, total], ranges.reshape(-1)]), return_inverse=True)
    opened = np.bincount(place[2::2], minlength=len(points))
    closed = np.bincount(place[3::2], minlength=len(points))
    return points, np.cumsum(opened - closed)[:-1]


def _chunks(ranges: Intervals, size: int = CHUNK) -> Iterator[Intervals]:
    """The ranges in parts of about `size` numbers."""
    lengths = ranges[:, 1] - ranges[:, 0]
    pieces = -(-lengths // size)
    of_range = np.repeat(np.arange(len(ranges)), pieces)
    nth = np.arange(len(of_range)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    starts = ranges[of_range, 0] + size * nth
    small = np.column_stack([starts, np.minimum(starts + size, ranges[of_range, 1])])
    part = (np.cumsum(small[:, 1] - small[:, 0]) - 1) // size
    yield from np.split(small, np.flatnonzero(part[1:] != part[:-1]) + 1) if len(small) else ()


def _size(ranges: Intervals) -> int:
    return int((ranges[:, 1] - ranges[:, 0]).sum())
