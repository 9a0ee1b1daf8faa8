"""Why states are not proven, each cause once: logs that are missing, batches that a rank never delivered."""

from __future__ import annotations

from collections.abc import Mapping

from fastresume.audit.batch_graph import BatchGraph
from fastresume.audit.place import Place
from fastresume.audit.report import Report


class Blame:
    """The causes of missing proofs.

    Args:
        graph: the states, and what leads to them.
        known: the places of the states from which logs start.
        report: takes the causes.
    """

    def __init__(self, graph: BatchGraph, known: Mapping[int, Place], report: Report) -> None:
        self._graph, self._known, self._report = graph, known, report
        # For each cause, a file that shows it.
        self._causes: dict[tuple[int | None, int], str] = {}

    def state(self, state: int, file: str) -> None:
        """Finds why a state is not proven; the file's run resumes from it."""
        if state in self._graph.proven:
            return
        self._causes.setdefault(self._graph.cause(state), file)

    def absent(self, state: int) -> None:
        """Blames a rank that has no log at all, if others have gone two batches on without it."""
        graph = self._graph
        for number in graph.leaving.get(state, ()):
            edge = graph.edges[number]
            start = graph.start_of(edge)
            if not edge.is_whole and graph.leaving.get(edge.after):
                world_size = start.world_size
                if len(graph.ranks_logged(world_size)) < world_size:
                    self.state(edge.after, start.file)

    def tell(self) -> None:
        """Reports all causes."""
        for (number, state), file in self._causes.items():
            self._tell_cause(number, state, file)

    def _tell_cause(self, number: int | None, state: int, file: str) -> None:
        if number is None:
            place = self._known.get(state)
            epoch = "unknown" if place is None else place.epoch
            details = ["declare it with --start if that was meant; if logs are missing, bring them here"]
            if place is not None and place.is_made:
                details.insert(0, "it was merged or imported: what it says was delivered can't be proven")
            self._report.problem(f"{file} starts from a state that no log leads to (pass {epoch})", details)
            return
        edge = self._graph.edges[number]
        world_size = self._graph.start_of(edge).world_size
        absent = sorted(set(range(world_size)) - set(self._graph.ranks_of(edge)))
        if absent:  # else ranks disagree, which was reported
            ranks = f"rank {absent[0]}" if len(absent) == 1 else "ranks " + ", ".join(map(str, absent[:8]))
            self._report.problem(
                f"pass {edge.epoch}, batch {edge.step}: {ranks} of {world_size} never delivered it",
                [
                    f"but {file} continues after it",
                    "either rows were lost, or a log is missing: then bring it here",
                ],
            )
