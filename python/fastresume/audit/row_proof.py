"""The proof that each batch handed over the rows of its positions, no matter which run followed it.

Positions become rows by the order of the state that they were logged under, no matter what followed that
state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from fastresume.audit.axis import by_pass
from fastresume.audit.batch_graph import BatchGraph, Edge
from fastresume.audit.descriptions import Descriptions
from fastresume.audit.log_format import Integers, digest, key_of, of_source
from fastresume.audit.order import Dataset, Order
from fastresume.audit.place import ALONE, Place
from fastresume.audit.ranges import chunks, coverage, size, union, without
from fastresume.audit.report import Report
from fastresume.buffers import Intervals, of_runs

Expected = Callable[[Place, Integers], int | None]


class RowProof:
    """Compares the digests that batches logged with those of what is at their positions.

    Args:
        graph: the batches.
        places: of the starts.
        descriptions: the files of the sources.
        report: takes what is wrong.

    Attributes:
        wrong: the `order_key`s of the places under which a batch is wrong.
        unknown: the batches of units whose contents are not known.
    """

    def __init__(
        self, graph: BatchGraph, places: Mapping[int, Place], descriptions: Descriptions, report: Report
    ) -> None:
        self._graph, self._places = graph, places
        self._descriptions, self._report = descriptions, report
        self._everything: dict[tuple[int, int], int] = {}
        self._are_whole: dict[int, bool] = {}
        self.wrong: set[object] = set()
        self.unknown: set[int] = set()

    def check(self, index: Integers) -> None:
        """Checks records; tells which are wrong."""
        records = self._graph.records
        of_places: dict[object, tuple[Place, list[Integers]]] = {}
        start_of = records.start[index]
        for start in np.unique(start_of).tolist():
            place = self._places[start]
            of_places.setdefault(place.order_key, (place, []))[1].append(index[start_of == start])
        for place, parts in of_places.values():
            some = self._inside(place, np.concatenate(parts))
            counted = self._descriptions.counted(place)
            rows = f"the {counted} handed over are not those of their places"
            self._compare(place, some, records.digest, self._rows, rows)
            if counted != "rows":
                held = f"what the {counted} held is not what those of their places hold"
                has_content = np.array([records.content[each] is not None for each in some], np.bool_)
                is_known = self._compare(place, some[has_content], records.content, self._content, held)
                self.unknown.update((some[~has_content] if is_known else some).tolist())

    def place_of(self, edge: Edge) -> Place:
        """The place that a batch was logged under."""
        return self._places[int(self._graph.records.start[self._graph.kept[edge.first]])]

    def _inside(self, place: Place, index: Integers) -> Integers:
        """The records whose positions the stage has; reports the others."""
        records = self._graph.records
        positions = self._graph.positions(index)
        of_record = np.repeat(index, records.count[index])
        is_beyond = (positions[:, 0] < 0) | (positions[:, 1] > place.positions)
        beyond = np.unique(np.append(of_record[is_beyond], index[records.epoch[index] != place.epoch]))
        if len(beyond):
            self.wrong.add(place.order_key)
            found = self._graph.positions(beyond)
            span = f"positions from {found.min(initial=0)} to {found.max(initial=1) - 1}"
            there = f"{place.positions} {self._descriptions.counted(place)}"
            details = (f"batch {records.step[each]}, {self._graph.place(each)}" for each in beyond)
            self._report.problem(f"pass {place.epoch}: {span}, where there are {there}", details)
        return np.setdiff1d(index, beyond)

    def _compare(self, place: Place, index: Integers, digests: Any, expected: Expected, what: str) -> bool:
        """Compares the digests of batches with what is expected; says whether that is known."""

        def differs(some: Integers) -> bool | None:
            due = expected(place, some)
            return None if due is None else (sum(map(int, digests[some])) - due) % (1 << 64) != 0

        def wrong(some: Integers) -> Iterator[Integers]:
            if differs(some):
                halves = np.array_split(some, 2)
                yield from (some,) if len(some) == 1 else (each for half in halves for each in wrong(half))

        are_wrong = differs(index)
        if are_wrong:
            self.wrong.add(place.order_key)
            self._report.problem(f"pass {place.epoch}: {what}", self._names(place, wrong(index)))
        return are_wrong is not None

    def _names(self, place: Place, wrong: Iterator[Integers]) -> Iterator[str]:
        for each in wrong:
            yield f"batch {self._graph.records.step[each[0]]}, {self._graph.place(each[0])}"
            for name, spans in place.at(union(self._graph.positions(each))).items():
                for line in self._descriptions.names(place, name, spans):
                    yield f"  should be {line}"

    # ------------------------------------------------------------------------------------- what is expected

    def _rows(self, place: Place, index: Integers) -> int | None:
        return self._sum(place, self._graph.positions(index), self._digest)

    def _content(self, place: Place, index: Integers) -> int | None:
        """What units at these positions hold, and those that were dropped: the first rank logs them."""
        graph = self._graph
        ends = index[graph.records.is_last[index] & (not place.is_mixture)]
        tell = (each for each in ends if graph.starts[graph.records.start[each]].rank == 0)
        parts = [graph.positions(index), *map(graph.dropped, tell)]
        return self._sum(place, np.concatenate(parts), self._held)

    def _sum(self, place: Place, positions: Intervals, of_rows: Callable[..., int | None]) -> int | None:
        """The sum of what is expected at positions, each as often as it is among them."""
        bounds, times = coverage(positions, place.positions)
        spans = np.column_stack([bounds[:-1], bounds[1:]])
        total = 0
        for least in range(1, int(times.max(initial=0)) + 1):
            for name, found in place.at(union(spans[times >= least])).items():
                dataset = self._descriptions.of(place, name)
                for number, of_pass in by_pass(found):
                    one = None if dataset is None else of_rows(place, name, dataset, number, of_pass)
                    if one is None:
                        return None
                    total += one
        return total

    def _digest(self, place: Place, name: str, dataset: Dataset, number: int, positions: Intervals) -> int:
        """The digest of the rows at positions of a source's pass.

        That of a whole pass needs no order: it has all rows. So has one from which less than half is missing.
        """
        axis, key = place.axes[name], 0 if name == ALONE else key_of(name)
        missing = without(positions, axis.rows)
        is_most = size(missing) < size(positions)
        order = Order(place.orders[name], number, dataset, axis.ends_in(number))
        rows = (order.rows(part) for part in chunks(missing if is_most else positions))
        found = sum(digest(part, key) for part in rows)
        if not is_most:
            return found
        known = id(dataset), key
        if known not in self._everything:
            everything = (of_runs(part) for part in chunks(dataset.selected))
            self._everything[known] = sum(digest(part, key) for part in everything)
        return self._everything[known] - found

    def _held(
        self, place: Place, name: str, dataset: Dataset, number: int, positions: Intervals
    ) -> int | None:
        """The digest of what the units at positions of a source's pass hold; None if it is not known."""
        contents = None if dataset.units is None else dataset.units.contents
        if contents is None or not self._are_of_all(dataset):
            return None
        order = Order(place.orders[name], number, dataset, place.axes[name].ends_in(number))
        parts = (contents[order.rows(part)] for part in chunks(positions))
        held = sum(int(part.sum(dtype=np.uint64)) for part in parts)
        return held if name == ALONE else of_source(held, name)

    def _are_of_all(self, dataset: Dataset) -> bool:
        """Whether bins hold the selected rows; tells it if they do not."""
        units = dataset.units
        if units is None or units.contents is None or not units.hold_whole_rows:
            return True
        if id(dataset) not in self._are_whole:
            parts = (of_runs(part) for part in chunks(units.of_rows.selected))
            due, held = sum(map(digest, parts)), int(units.contents.sum(dtype=np.uint64))
            self._are_whole[id(dataset)] = is_whole = (due - held) % (1 << 64) == 0
            if not is_whole:
                self._report.problem("the bins, as they are described, do not hold every selected row once")
        return self._are_whole[id(dataset)]
