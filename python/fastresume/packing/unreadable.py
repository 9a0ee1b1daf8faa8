"""Rows whose costs can't be read: they are in no unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.batch.jagged import Jagged
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals
from fastresume.columns.request import column_request
from fastresume.filter.damaged_rows import DamagedRows
from fastresume.options.rows import Intervals as RowIntervals
from fastresume.options.rows import select


class Unreadable:
    """The selected rows of which an index can't tell the cost, since a page is damaged or a file gone.

    Args:
        manifest: the files, and which of their rows are selected.
        columns: what is read.
        most: so many rows may be left out.

    Attributes:
        layout: what becomes of the columns, with damaged rows.
    """

    def __init__(self, manifest: _core.Manifest, columns: list[str], most: int) -> None:
        self._manifest = manifest
        self.layout = column_request(columns, "mask").layout(manifest).masking_damage(masks_damage=True)
        self._damaged = DamagedRows(most, "the index of units", "all units")
        self._found: list[Intervals] = []

    @property
    def count(self) -> int:
        """How many rows were left out."""
        return self._damaged.count

    def among(
        self, damage: Sequence[tuple[int, int, str]], rows: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Which of these selected rows are left out, as they are damaged.

        Raises:
            DataError: if they are too many.
        """
        found = self._damaged.among(damage, rows)
        gone = rows[found]
        self._found.append(np.stack([gone, gone + 1], axis=1))
        return found

    def lengths(
        self, first: int, rows: int, error: Exception
    ) -> tuple[npt.NDArray[np.int64], list[tuple[int, int, str]]]:
        """The lengths of lists in rows over which an error was raised, and which of them are damaged.

        Raises:
            Exception: the error, if none is.
        """
        memory, written = self.layout.read_rows(self._manifest, np.array([[first, first + rows]]), rows)
        if not written.damage:
            raise error
        value = next(iter(Schema(self.layout).tensors(memory).values()))
        lengths = value.lengths if isinstance(value, Jagged) else value
        return lengths.numpy().astype(np.int64), written.damage

    def without(self) -> _core.Manifest:
        """The files, of which all other selected rows are selected."""
        if not self.count:
            return self._manifest
        return select(self._manifest, ~RowIntervals(np.concatenate(self._found)))
