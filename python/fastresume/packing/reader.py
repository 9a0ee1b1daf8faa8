"""The batches of a dataset that counts units."""

from __future__ import annotations

import fastresume._core as _core
from fastresume.audit.log_format import digest
from fastresume.batch.joining import BATCHES_IN_USE, Chunk
from fastresume.batch.origin import Planned, Proof
from fastresume.buffers import Intervals, of_buffer, of_runs
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.cutting import BinCutter, Cutter, Made, SequenceCutter, UnitSource
from fastresume.packing.mended import MendedSequences
from fastresume.packing.packed_table import PackedTable
from fastresume.reading.composed_reader import ComposedReader
from fastresume.reading.monitor.activity import IdleActivity
from fastresume.reading.spec import Rows


class UnitsReader(ComposedReader):
    """The batches of one rank's worker, of units that are decoded many at a time.

    Args:
        source: what units are made of.
        planned: the rest of the pass.
        order: the unit at each position.
        share: who gets which of its batches.
        place: (rank, number of ranks, worker, number of workers).
        unit_bytes: bytes of a unit.
        is_ahead: whether units are decoded for later batches, too.
        is_audited: whether batches have what a delivery log notes.
        masks_damage: whether sequences that can't be made are masked.
    """

    def __init__(
        self,
        source: UnitSource,
        planned: _core.Pass,
        order: _core.Order,
        share: Planned,
        place: tuple[int, int, int, int],
        unit_bytes: int,
        is_ahead: bool = True,
        is_audited: bool = False,
        masks_damage: bool = False,
    ) -> None:
        super().__init__(planned, share, place, source.schema.masked)
        self._schema = source.schema
        self._order = order
        self._is_audited = is_audited
        self._mended: MendedSequences | None = None
        if masks_damage and source.packing is not None:
            self._mended = MendedSequences(source)
        chunks = chunks_of(source.table, planned, order, place[1]) if is_ahead else None
        stated = BATCHES_IN_USE * planned.cut[2] * unit_bytes
        self._cutter: Cutter
        if isinstance(source.table, BinsTable):
            self._cutter = BinCutter(source, source.table, chunks, stated)
        else:
            self._cutter = SequenceCutter(source, chunks, stated)
        self.activity = IdleActivity()

    def forget(self) -> None:
        """Gives the memory of chunks back."""
        self._cutter.forget()

    def rows(self, number: int) -> Rows:
        """The rows of this rank's batch with a number in the cut: units of them."""
        planned, rank = self._planned, self._rank
        numbers, (count, valid, _) = self._numbers_of(number), planned.shape(number, rank)
        memory, runs, units, counts, damage = self._made_of(numbers, count, valid)
        tensors = self._schema.tensors(memory)
        if self._is_audited:
            own = of_runs(of_buffer(planned.valid_runs(number, rank, numbers)))
            content = None if damage else self._cutter.content(tensors, runs, units, valid)
            units = units._replace(proof=Proof(digest(own), content))
        return Rows(tensors, runs, damage, units=units, counts=counts)

    def _made_of(self, numbers: Intervals, count: int, valid: int) -> Made:
        """The units in these runs, over and over until there are `count`; `valid` of them do not repeat."""
        try:
            return self._cutter.made(numbers, count, valid)
        except (_core.DataError, _core.SourceError):
            if self._mended is None:
                raise
            return self._mended.made(numbers, count)

    def content(self, numbers: Intervals) -> int:
        """The digest of what units hold."""
        count = int((numbers[:, 1] - numbers[:, 0]).sum())
        memory, runs, units, *_ = self._cutter.made(numbers, count, count)
        return self._cutter.content(self._schema.tensors(memory), runs, units, count)

    def next_chunk(self) -> Chunk | None:
        """The front batch as memory, and no tensors; it is released. None at the end."""
        if self._number >= self._planned.batches:
            return None
        count, valid, _ = self._planned.shape(self._number, self._rank)
        numbers = self._numbers_of(self._number)
        memory, runs, units, _, damage = self._made_of(numbers, count, valid)
        self._number += self._workers
        whose = of_runs(numbers) if self._is_audited else None
        return Chunk(memory, runs[:, 0].copy(), units.offsets, damage, whose)

    def _numbers_of(self, number: int) -> Intervals:
        """The numbers of the units of a batch, as runs."""
        return of_buffer(self._planned.rows(self._order, number, self._rank))


def chunks_of(
    table: PackedTable | BinsTable, planned: _core.Pass, order: _core.Order, world_size: int
) -> tuple[int, int]:
    """How many units are decoded in one go, and how many such chunks a reader keeps.

    A lane in a shuffled order keeps those of its window, so that each is decoded once in it.
    """
    size, lanes = table.chunk_units, max(planned.cut[0] // world_size, 1)
    if order.sizes is None:
        return size, 2 * lanes
    blocks, windows, window_units = order.sizes
    block_units = max(int(table.starts[-1]) // max(blocks, 1), 1)
    size = min(size, block_units)
    each = -(-window_units // size) + 2 * -(-blocks // max(windows, 1))
    return size, lanes * (each + 1)
