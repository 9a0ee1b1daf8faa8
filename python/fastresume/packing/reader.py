"""The batches of a dataset that counts units."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import fastresume._core as _core
from fastresume.audit.log_format import digest
from fastresume.batch.joining import BATCHES_IN_USE, Chunk, Piece
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
        self._starts = source.table.starts
        self._order = order
        self._chunks: OrderedDict[tuple[int, int, int], Any] = OrderedDict()
        self._chunk_units, self._kept = chunks_of(source.table, planned, order, place[1])
        self._is_ahead = is_ahead
        self._is_audited = is_audited
        self._mended: MendedSequences | None = None
        if masks_damage and isinstance(source.table, PackedTable):
            self._mended = MendedSequences(source, source.table)
        stated = BATCHES_IN_USE * planned.cut[2] * unit_bytes
        self._cutter: Cutter[Any]
        if isinstance(source.table, PackedTable):
            self._cutter = SequenceCutter(source, source.table, stated)
        else:
            self._cutter = BinCutter(source, source.table, stated)
        self.activity = IdleActivity()

    def forget(self) -> None:
        """Gives the memory of chunks back."""
        self._chunks.clear()

    def rows(self, number: int) -> Rows:
        """The rows of this rank's batch with a number in the cut: units of them."""
        planned, rank = self._planned, self._rank
        numbers, (count, valid, _) = self._numbers_of(number), planned.shape(number, rank)
        try:
            memory, runs, units, counts, damage = self._units(numbers, count, valid)
            tensors = self._schema.tensors(memory)
        except (_core.DataError, _core.SourceError):
            if self._mended is None:
                raise
            tensors, runs, units, damage = self._mended.sequences(numbers, count)
            counts = None
        if self._is_audited:
            own = of_runs(of_buffer(planned.valid_runs(number, rank, numbers)))
            content = None if damage else self._cutter.content(tensors, runs, units, valid)
            units = units._replace(proof=Proof(digest(own), content))
        return Rows(tensors, runs, damage, units=units, counts=counts)

    def content(self, numbers: Intervals) -> int:
        """The digest of what units hold."""
        count = int((numbers[:, 1] - numbers[:, 0]).sum())
        memory, runs, units, *_ = self._units(numbers, count, count)
        return self._cutter.content(self._schema.tensors(memory), runs, units, count)

    def next_chunk(self) -> Chunk | None:
        """The front batch as memory, and no tensors; it is released. None at the end."""
        if self._number >= self._planned.batches:
            return None
        count, valid, _ = self._planned.shape(self._number, self._rank)
        memory, runs, units, *_ = self._units(self._numbers_of(self._number), count, valid)
        self._number += self._workers
        return Chunk(memory, runs[:, 0], units.offsets)

    def _numbers_of(self, number: int) -> Intervals:
        """The numbers of the units of a batch, as runs."""
        return of_buffer(self._planned.rows(self._order, number, self._rank))

    def _units(self, numbers: Intervals, count: int, valid: int) -> Made:
        """These units, over and over until there are `count`; `valid` of them do not repeat."""
        parts = [part for start, end in numbers.tolist() for part in self._parts(start, end)]
        return self._cutter.made(parts, count, valid)

    def _parts(self, start: int, end: int) -> Iterator[Piece[Any]]:
        """The units `[start, end)`, in pieces."""
        starts, size = self._starts, self._chunk_units
        while start < end:
            stretch = int(starts.searchsorted(start, side="right")) - 1
            begin, stop = int(starts[stretch]), int(starts[stretch + 1])
            first, last = start, min(end, stop)
            if self._is_ahead:
                first = begin + (start - begin) // size * size
                last = min(first + size, stop)
            upto = min(end, last)
            yield Piece(self._chunk(stretch, first - begin, last - begin), start - first, upto - first)
            start = upto

    def _chunk(self, stretch: int, first: int, last: int) -> Any:
        """Units of a file or row group, decoded now or kept from before."""
        key = stretch, first, last
        found = self._chunks.get(key)
        if found is None:
            found = self._cutter.decoded(stretch, first, last)
            while len(self._chunks) >= self._kept:
                self._chunks.popitem(last=False)
            self._chunks[key] = found
        self._chunks.move_to_end(key)
        return found


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
