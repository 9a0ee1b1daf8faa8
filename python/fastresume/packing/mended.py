"""Sequences of rows some of which can't be decoded any more."""

from __future__ import annotations

import numpy as np

import fastresume._core as _core
from fastresume.batch.damage import Damage, Range, among, of_rows
from fastresume.batch.joining import Words, repeated
from fastresume.batch.origin import UnitRows
from fastresume.buffers import Intervals, members, of_buffer, of_runs, runs_of_one
from fastresume.packing.cutting import Made, SequenceCutter, UnitSource


class MendedSequences:
    """Makes sequences one by one; those that can't be made are filled with padding.

    Args:
        source: what they are made of; its layout masks damage.
    """

    def __init__(self, source: UnitSource) -> None:
        self._source = source
        self._cutter = SequenceCutter(source, None, 0)
        self._joiner = _core.RowJoiner(None, source.schema.row_widths, 0)
        self._row_order = _core.Order.of_files(source.manifest)

    def made(self, numbers: Intervals, count: int) -> Made:
        """The sequences in these runs, over and over until there are `count`.

        A sequence that can't be made names one damaged row, and no document.

        Raises:
            DataError, SourceError: if one can't be made for another reason than damage.
        """
        memories: list[tuple[_core.Memory, int, int]] = []
        rows: list[Intervals] = []
        damage: dict[Range, None] = {}
        for unit in of_runs(numbers).tolist():
            try:
                # By itself: no rows are decoded but those that it is cut from.
                made = self._cutter.made(np.array([[unit, unit + 1]], np.int64), 1, 1)
                memory, runs = made.memory, made.runs
            except (_core.DataError, _core.SourceError):
                found = self._damage(unit)
                if not found:
                    raise
                damage |= dict.fromkeys(found)
                memory, runs = self._cutter.padding(), runs_of_one(self._first_of(unit, found))
            memories.append((memory, 0, 1))
            rows.append(runs)
        lengths = np.array([len(each) for each in rows], np.int64)
        inside, ends = members(lengths, repeated(np.arange(len(rows)), count))
        joined = self._joiner.joined(memories, np.arange(len(rows)), count)
        return Made(joined, np.concatenate(rows)[inside], UnitRows(ends, True), None, tuple(damage))

    def _rows_of(self, unit: int) -> Intervals:
        """The rows that a sequence is cut from."""
        ordinals = self._source.table.core.rows(unit, unit + 1)
        return of_buffer(self._row_order.rows(np.array([ordinals], np.int64)))

    def _damage(self, unit: int) -> Damage:
        """The rows that it is cut from which can't be decoded."""
        runs = self._rows_of(unit)
        rows = of_runs(runs)
        _, written = self._source.layout.read_rows(self._source.manifest, runs, len(rows))
        return of_rows(tuple(written.damage), rows)

    def _first_of(self, unit: int, damage: Damage) -> Words:
        """The first damaged row that a sequence is cut from."""
        rows = of_runs(self._rows_of(unit))
        return rows[among(damage, rows)][:1]
