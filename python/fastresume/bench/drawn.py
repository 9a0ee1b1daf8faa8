"""What a mixture delivers: which rows of each source, found again by their hashes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fastresume.bench.cells import Cells, cells_of
from fastresume.bench.checksum import Words, row_hashes
from fastresume.bench.rivals import row_groups_of
from fastresume.bench.task import Task

SIGMAS = 6
"""A share may be off by this many standard deviations: sources drawn at random keep their weights only so
well."""


class Drawn:
    """Counts the delivered rows of each source, those that are of none, and those that came too often."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._found: list[Words] = []
        self._num_bytes = 0

    def add(self, num_rows: int, batch: Mapping[str, Cells]) -> None:
        """Add the rows of a batch, which has every column."""
        self._found.append(row_hashes(num_rows, batch, self._task.names))
        self._num_bytes += sum(batch[name].values.nbytes for name in self._task.names)

    def to_json(self) -> dict[str, Any]:
        """The counts; a row that several sources have counts for none, as its source can't be known."""
        there, source, times = self._rows_of_sources()
        found, delivered = np.unique(
            np.concatenate([np.empty(0, np.uint64), *self._found]), return_counts=True
        )
        place = np.minimum(np.searchsorted(there, found), len(there) - 1)
        is_known = there[place] == found
        counts = np.zeros(len(self._task.sources) + 1, np.int64)  # the last one is of several sources
        np.add.at(counts, source[place[is_known]], delivered[is_known])
        repeated = np.maximum(delivered[is_known] - times[place[is_known]], 0).sum()
        return {
            "rows": int(delivered.sum()),
            "bytes": self._num_bytes,
            "sources": counts[:-1].tolist(),
            "of_several": int(counts[-1]),
            "of_none": int(delivered[~is_known].sum()),
            "repeated": int(repeated),
        }

    def _rows_of_sources(self) -> tuple[Words, Any, Any]:
        """The hashes of all rows in order, the source of each (-1 for several), and how often it is there."""
        hashes = [self._hashes(source.files) for source in self._task.sources]
        numbers = np.repeat(np.arange(len(hashes)), [len(each) for each in hashes])
        joined = np.concatenate(hashes)
        order = np.argsort(joined, kind="stable")
        there, first, times = np.unique(joined[order], return_index=True, return_counts=True)
        least, most = (function.reduceat(numbers[order], first) for function in (np.minimum, np.maximum))
        return there, np.where(least == most, least, -1), times

    def _hashes(self, files: tuple[str, ...]) -> Words:
        found = [np.empty(0, np.uint64)]
        for table in row_groups_of(files, self._task):
            cells = {name: cells_of(table.column(name)) for name in self._task.names}
            found.append(row_hashes(table.num_rows, cells, self._task.names))
        return np.concatenate(found)


def fault(found: Mapping[str, Any], task: Task) -> str | None:
    """What is wrong with the rows of a mixture, in words; None if nothing is."""
    if found["rows"] == 0:
        return "it delivered no rows"
    if found["of_none"]:
        return f"{found['of_none']} of {found['rows']} rows are no source's"
    if found["repeated"]:
        return f"{found['repeated']} of {found['rows']} rows came more often than they are there"
    if found["of_several"]:
        return None
    whole = sum(source.weight for source in task.sources)
    for source, count in zip(task.sources, found["sources"], strict=True):
        share = source.weight / whole
        expected = share * found["rows"]
        if abs(count - expected) > SIGMAS * (expected * (1 - share)) ** 0.5 + task.batch_size:
            return f"{count} of {found['rows']} rows are of {source.path}, expected some {expected:.0f}"
    return None
