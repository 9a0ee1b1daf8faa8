"""Runs that began at row 0 again: which of them counts, and how many batches of the others do not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from fastresume.audit.batch_graph import BatchGraph
from fastresume.audit.history import History, Stand
from fastresume.audit.report import Report

NTH = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


def tell_beginnings(graph: BatchGraph, history: History, way: Sequence[Stand], report: Report) -> None:
    """Tells if several runs began at the start, by the rank of each topology that began most often.

    Evaluations that restart are meant to. A run is known by the start with which it began.
    """
    batches = _batches_of_runs(graph, history)
    runs = sorted(batches)
    if len(runs) < 2:
        return
    first = next((stand.stretch for stand in way if stand.stretch is not None), None)
    counts = runs[-1]
    if first is not None:
        edge = first.edges[0]
        topology = graph.topology_of[graph.records.start[graph.kept[edge.first]]]
        same = [run for run in runs if (graph.states[run], graph.topology_of[run]) == (edge.before, topology)]
        reached = [run for run in same if batches[run] >= len(first.edges)]
        counts = max(reached or same or runs)
    others = {run: batches[run] for run in runs if run != counts}
    lost = sum(others.values())
    whose = "others"
    if len(others) == 1 and (number := runs.index(next(iter(others)))) < len(NTH):
        whose = NTH[number]
    do = "batch of the {} does not count" if lost == 1 else "batches of the {} do not count"
    note = f"{len(runs)} runs began at the start of pass 0; {lost} {do.format(whose)}"
    if len({graph.states[run] for run in runs}) > 1:
        note += "; their sources or weights differ: give another job a directory of its own"
    report.note(note)


def _batches_of_runs(graph: BatchGraph, history: History) -> Mapping[int, int]:
    """How many batches each run delivered to its rank, until its process started over."""
    starts, run_of = graph.starts, dict[int, int]()
    latest: dict[str, int] = {}
    begun: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index in sorted(graph.states):
        start = starts[index]
        if graph.states[index] in history.roots and start.on_iter != "restart":
            latest[start.file] = index
            begun[int(graph.topology_of[index]), start.rank].append(index)
        elif start.file not in latest and start.continues in latest:
            latest[start.file] = latest[start.continues]
        if start.file in latest:
            run_of[index] = latest[start.file]
    of_ranks: dict[int, list[int]] = {}
    for (topology, _), runs in sorted(begun.items()):
        if len(runs) > len(of_ranks.get(topology, ())):
            of_ranks[topology] = runs
    counts = np.bincount(graph.records.start[~graph.records.is_again], minlength=len(starts))
    batches = {run: 0 for runs in of_ranks.values() for run in runs}
    for index, run in run_of.items():
        if run in batches:
            batches[run] += int(counts[index])
    return batches
