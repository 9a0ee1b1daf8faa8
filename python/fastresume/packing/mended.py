"""Sequences of rows some of which can't be decoded any more."""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.damage import Damage, Range, among, of_rows
from fastresume.batch.joining import repeated
from fastresume.batch.origin import UnitRows
from fastresume.batch.schema import Tensors
from fastresume.buffers import Intervals, of_buffer, of_runs, runs_of_one
from fastresume.packing.cutting import Made, SequenceCutter, UnitSource


class MendedSequences:
    """Makes sequences one by one; those that can't be made are filled with padding.

    Args:
        source: what they are made of; its layout masks damage.
        table: which rows each sequence is made of.
    """

    def __init__(self, source: UnitSource, table: _core.SequenceTable) -> None:
        self._source = source
        self._table = table
        self._cutter = SequenceCutter(source, None, 0)
        self._row_order = _core.Order.of_files(source.manifest)

    def sequences(self, numbers: Intervals, count: int) -> tuple[Tensors, Intervals, UnitRows, Damage]:
        """The sequences in these runs, over and over until there are `count`.

        A sequence that can't be made names one damaged row, and no document.

        Raises:
            DataError, SourceError: if one can't be made for another reason than damage.
        """
        parts: list[Tensors] = []
        rows: list[Intervals] = []
        damage: dict[Range, None] = {}
        for unit in of_runs(numbers).tolist():
            try:
                made = self._made(unit)
                parts.append(self._source.schema.tensors(made.memory))
                rows.append(made.runs)
            except (_core.DataError, _core.SourceError):
                found = self._damage(unit)
                if not found:
                    raise
                damage |= dict.fromkeys(found)
                parts.append(self._padding())
                rows.append(runs_of_one(np.array([self._row(unit, found)], np.int64)))
        places = repeated(np.arange(len(parts)), count).tolist()
        tensors: Tensors = {
            name: torch.cat([cast("Tensor", parts[place][name]) for place in places]) for name in parts[0]
        }
        offsets = np.cumsum([0, *(len(rows[place]) for place in places)]).astype(np.int64)
        runs = np.concatenate([rows[place] for place in places])
        return tensors, runs, UnitRows(offsets, True), tuple(damage)

    def _made(self, unit: int) -> Made:
        """A sequence by itself: no rows are decoded but those that it is cut from."""
        return self._cutter.made(np.array([[unit, unit + 1]], np.int64), 1, 1)

    def _rows_of(self, unit: int) -> Intervals:
        """The rows that a sequence is cut from."""
        ordinals = self._table.rows(unit, unit + 1)
        return of_buffer(self._row_order.rows(np.array([ordinals], np.int64)))

    def _damage(self, unit: int) -> Damage:
        """The rows that it is cut from which can't be decoded."""
        runs = self._rows_of(unit)
        rows = of_runs(runs)
        _, written = self._source.layout.read_rows(self._source.manifest, runs, len(rows))
        return of_rows(tuple(written.damage), rows)

    def _row(self, unit: int, damage: Damage) -> int:
        """The first damaged row that a sequence is cut from."""
        rows = of_runs(self._rows_of(unit))
        return int(rows[among(damage, rows)][0])

    def _padding(self) -> Tensors:
        tensors: Tensors = {}
        for name, field in self._source.schema.items():
            shape = 1, field.size or 1
            tensors[name] = torch.full(shape, -1 if name == "document" else 0, dtype=field.dtype)
        return tensors
