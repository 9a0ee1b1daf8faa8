"""The proof, from delivery logs alone, that every row of every finished pass was delivered exactly once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import numpy as np

from fastresume._core import StateError
from fastresume.amounts import plural
from fastresume.audit.account import Account
from fastresume.audit.batch_graph import BatchGraph
from fastresume.audit.descriptions import Descriptions
from fastresume.audit.history import History, Places
from fastresume.audit.log_format import Records, Start, read_log, state_hash
from fastresume.audit.place import ALONE, Place
from fastresume.audit.report import Report
from fastresume.audit.row_proof import RowProof


def audit(directory: Path, declared: Sequence[str] = ()) -> Report:
    """Proves what the logs in a directory show. The texts of states that are declared are taken on trust.

    Raises:
        OSError: if the directory or a file in it can't be read.
        StateError: if what is declared is no state.
    """
    report = Report()
    starts: list[Start] = []
    parts: list[Records] = []
    ranges = 0
    found = (path for path in directory.iterdir() if path.match("rank-*.log"))
    # What was written last counts where records of several runs are of one batch.
    for path in sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name)):
        own, records, damage = read_log(path)
        parts.append(records.moved(len(starts), ranges))
        starts += own
        ranges += len(records.ranges)
        if damage is not None:
            report.problem(damage, ["from there on it does not count: is there a copy of the file?"])
    report.logs = len(parts)
    begun = {state_hash(start.cursor) for start in starts}
    for number, text in enumerate(declared, 1):
        if starts and state_hash(text) not in begun:
            which = f" number {number}" if len(declared) > 1 else ""
            report.note(f"no run started from the state of --start{which}, so that it proves nothing")
    if starts:
        names = [column.name for column in fields(Records)]
        records = Records(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
        for job in _jobs(directory, starts, records, _parsed(starts, report), declared):
            report.add(job)
    return report


def _parsed(starts: Sequence[Start], report: Report) -> tuple[Places, Places]:
    """The places of starts by their indices: of their states, and of stages that begin or continue there."""
    parsed: dict[str, Place] = {}
    states, stages = dict[int, Place](), dict[int, Place]()
    for index, start in enumerate(starts):
        try:
            for text in (start.cursor, start.stage or start.cursor):
                parsed[text] = parsed.get(text) or Place(text)
        except StateError as cause:
            report.problem(f"{start.file}: at byte {start.offset}: in a start record, {cause}")
            continue
        states[index], stages[index] = parsed[start.cursor], parsed[start.stage or start.cursor]
    return states, stages


def _jobs(
    directory: Path,
    starts: Sequence[Start],
    records: Records,
    places: tuple[Places, Places],
    declared: Sequence[str],
) -> Iterator[Report]:
    """What is found of each job: it reads the same sources in the same order, with files that came."""
    _, stages = places
    descriptions = Descriptions(directory, ((starts[index], stages[index]) for index in stages))
    trusted = {state_hash(text): Place(text) for text in declared}
    for members in _grouped(starts, stages, descriptions):
        report = Report()
        own_places = [stages[index] for index in members]
        own_starts = [starts[index] for index in members]
        _introduce(own_places, own_starts, descriptions, report)
        graph = BatchGraph(starts, members, records, stages, report.problem)
        own = {name for place in own_places for name in place.names}
        own |= {old for start in own_starts for old in start.renamed}
        of_job = {
            state: place
            for state, place in trusted.items()
            if place.is_mixture == own_places[0].is_mixture and own >= set(place.names)
        }
        history = History(graph, places, of_job, descriptions, report)
        proof = RowProof(graph, stages, descriptions, report)
        Account(graph, history, proof, descriptions, report).tell()
        yield report


def _grouped(
    starts: Sequence[Start], stages: Mapping[int, Place], descriptions: Descriptions
) -> list[list[int]]:
    """The starts of each job: those that have a source in common, by its name, files and order."""
    kinds: dict[object, list[int]] = defaultdict(list)
    for index, place in stages.items():
        orders = {name: order for name, order in place.orders.items() if name not in place.rounds}
        sources = sorted((name, place.files[name], str(orders.get(name))) for name in place.names)
        kinds[place.is_mixture, str(sources), str(starts[index].renamed)].append(index)
    jobs: list[list[list[int]]] = []
    # The most files come last: each dataset continues in one that begins with it.
    for kind in sorted(kinds.values(), key=lambda members: _extent(stages[members[0]], descriptions)):

        def is_of(job: list[list[int]], own: int = kind[0]) -> bool:
            pairs = [pair for of in reversed(job) for pair in ((of[0], own), (own, of[0]))]
            return any(
                descriptions.share_a_source(stages[one], stages[other], starts[other].renamed)
                for one, other in pairs
            )

        found = [job for job in jobs if is_of(job)]
        jobs = [job for job in jobs if job not in found]
        jobs.append([each for job in found for each in job] + [kind])
    return [[index for kind in job for index in kind] for job in jobs]


def _extent(place: Place, descriptions: Descriptions) -> tuple[bool, int, int]:
    dataset = None if place.is_mixture else descriptions.of(place, ALONE)
    return place.is_mixture, place.positions, 0 if dataset is None else len(dataset.files)


def _introduce(
    places: Sequence[Place], starts: Sequence[Start], descriptions: Descriptions, report: Report
) -> None:
    last, logs = places[-1], len({start.file for start in starts})
    if last.is_mixture:
        _introduce_mixture(places, starts, descriptions, report)
    elif last.round is not None:
        names = ", ".join(last.round.topics)
        how = (
            "shuffled in each round" if last.orders[ALONE]["kind"] == "shuffled" else "in the order of rounds"
        )
        report.lines.append(f"stream of {names}, {how}; {plural(logs, 'log')}")
    else:
        dataset, order = descriptions.of(last, ALONE), last.orders[ALONE]
        of_files = "" if dataset is None else f" in {plural(len(dataset.files), 'file')}"
        if last.selection is not None:
            of_files += f", selection {last.selection[:16]}"
        if dataset is not None and dataset.units is not None:
            of_files += f", {dataset.units.text}"
        how = f"shuffled with seed {order['seed']}" if order["kind"] == "shuffled" else order["kind"]
        counted = descriptions.counted(last)
        report.lines.append(
            f"dataset {last.fingerprint[:16]}: {last.positions} {counted}{of_files}, {how}; "
            f"{plural(logs, 'log')}"
        )
    descriptions.tell_missing((place for place in places if not place.is_described_by_rank_0), report)
    for contradiction in descriptions.contradictions:
        report.problem(contradiction)


def _introduce_mixture(
    places: Sequence[Place], starts: Sequence[Start], descriptions: Descriptions, report: Report
) -> None:
    """Reports the sources of a mixture, and which of them have other names now, or were started over."""
    names: dict[str, str | None] = dict.fromkeys(name for place in places for name in place.names)
    notes = list[str]()
    for place, start in zip(places, starts, strict=True):
        for old, new in start.renamed.items():
            if new is not None and old not in place.names and new in place.names:
                names.pop(old, None)
                names[new] = old
            own = [name for name in place.names if new is None and name != old]
            for name in (name for name in own if descriptions.are_related(place, old, place, name)):
                notes.append(f"{name} has the files of {old}, which was let go: their rows are read again")
    each = (name if old is None else f"{name} (before: {old})" for name, old in names.items())
    logs = len({start.file for start in starts})
    report.lines.append(f"mixture of {', '.join(each)}: {plural(logs, 'log')}")
    for note in dict.fromkeys(notes):
        report.note(note)
