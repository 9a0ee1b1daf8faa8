"""The batches of a dataset that counts units."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.joining import joined, num_bytes, taken
from fastresume.batch.origin import Origin, Planned, UnitRows
from fastresume.batch.schema import Schema, Tensors
from fastresume.buffers import of_buffer, of_runs, spread
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.cutting import Cut, cut
from fastresume.packing.packed_table import PackedTable
from fastresume.reading.monitor.activity import IdleActivity
from fastresume.reading.workers.messages import Arrival

Words = npt.NDArray[np.int64]


class UnitSource(NamedTuple):
    """What units are made of.

    Args:
        manifest: the files, and which of their rows are selected.
        layout, row_schema: what becomes of rows.
        table: which rows each unit is made of.
        masked: the tensors whose nulls are marked by a mask.
    """

    manifest: _core.Manifest
    layout: _core.Layout
    row_schema: Schema
    table: PackedTable | BinsTable
    masked: frozenset[str]


class Part(NamedTuple):
    """Some units of a chunk, `[start, end)`."""

    chunk: Cut
    start: int
    end: int


class Gathered(NamedTuple):
    """The units of a batch: tensors, row numbers as runs, where those of each unit lie, and counts of rows.

    `counts` are all rows and the valid ones, where rows are counted; of sequences, these.
    """

    tensors: Tensors
    runs: Words
    units: UnitRows
    counts: tuple[int, int]


class UnitsReader:
    """The batches of one rank's worker, of units that are decoded many at a time.

    Args:
        source: what units are made of.
        planned: the rest of the pass.
        order: the unit at each position.
        share: who gets which of its batches.
        place: (rank, number of ranks, worker, number of workers).
    """

    def __init__(
        self,
        source: UnitSource,
        planned: _core.Pass,
        order: _core.Order,
        share: Planned,
        place: tuple[int, int, int, int],
    ) -> None:
        self._rank, world_size, worker, self._workers = place
        self._source = source
        self._planned = planned
        self._order = order
        self._share = share
        self._number = planned.batches - planned.batches_left + worker
        self._rows = _core.Order(_core.Cursor.start(source.manifest, None), source.manifest)
        self._chunks: OrderedDict[tuple[int, int], Cut] = OrderedDict()
        self._chunk_units, self._kept = chunks_of(source.table, planned, order, world_size)
        self._front: Arrival | None = None
        self._is_closed = False
        self.activity = IdleActivity()

    def start(self) -> None:
        """Does nothing: decoding begins with the first batch."""

    def front(self) -> Arrival | None:
        """The front batch: the same until `advance` is called; None at the end."""
        if self._is_closed:
            raise _core.StateError("the reader is closed")
        if self._front is None and self._number < self._planned.batches:
            self._front = self._made(self._number)
        return self._front

    def advance(self) -> None:
        """Releases the front batch."""
        if self._front is not None:
            self._front, self._number = None, self._number + self._workers

    def close(self) -> None:
        """Gives the memory back."""
        self._is_closed = True
        self._chunks.clear()

    def gathered(self, number: int) -> Gathered:
        """The units of this rank's batch with a number in the cut."""
        planned, rank = self._planned, self._rank
        runs = of_buffer(self._order.rows(of_buffer(planned.positions(number, rank))))
        parts = [part for start, end in runs.tolist() for part in self._parts(start, end)]
        count, valid, _ = planned.shape(number, rank)
        # Units by the parts that they are in, which padding repeats in turn.
        sizes = np.array([part.end - part.start for part in parts])
        index = np.arange(count) % max(int(sizes.sum()), 1)
        if isinstance(self._source.table, PackedTable):
            return _sequences(parts, index, (count, valid))
        return _bins(parts, index, valid)

    def _made(self, number: int) -> Arrival:
        planned = self._planned
        found, cursor = self.gathered(number), planned.cursor_after(number + 1)
        masked: frozenset[str] = self._source.masked
        place = (planned.epoch, planned.step_of(number))
        origin = Origin(cursor, *place, *found.counts, found.runs, masked, self._share, units=found.units)
        size = sum(map(num_bytes, found.tensors.values()))
        return Arrival(Batch(found.tensors, origin), planned, number, self._rank, size, cursor)

    def _parts(self, start: int, end: int) -> Iterator[Part]:
        """The units `[start, end)`, in pieces."""
        starts, size = self._source.table.starts, self._chunk_units
        while start < end:
            stretch = int(np.searchsorted(starts, start, side="right")) - 1
            begin = int(starts[stretch])
            first = begin + (start - begin) // size * size
            last = min(first + size, int(starts[stretch + 1]))
            upto = min(end, last)
            chunk = self._chunk(stretch, first - begin, last - begin)
            yield Part(chunk, start - first, upto - first)
            start = upto

    def _chunk(self, stretch: int, first: int, last: int) -> Cut:
        """Units of a file or row group, decoded now or kept from before."""
        key = stretch, first
        found = self._chunks.get(key)
        if found is None:
            found = self._decoded(stretch, first, last)
            while len(self._chunks) >= self._kept:
                self._chunks.popitem(last=False)
            self._chunks[key] = found
        self._chunks.move_to_end(key)
        return found

    def _decoded(self, stretch: int, first: int, last: int) -> Cut:
        source, table = self._source, self._source.table
        ordinals, before = table.stretch(stretch, first, last)
        runs = of_buffer(self._rows.rows(np.array([ordinals], dtype=np.int64)))
        memory, _ = source.layout.read_rows(source.manifest, runs, ordinals[1] - ordinals[0])
        tensors, numbers = source.row_schema.tensors(memory), of_runs(runs)
        if isinstance(table, BinsTable):
            return Cut(tensors, numbers, table.offsets(stretch, first, last))
        packed = table.packed
        return cut(packed, tensors, numbers, first * packed.length - before, last - first)


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


def _sequences(parts: list[Part], index: Words, counts: tuple[int, int]) -> Gathered:
    places = torch.from_numpy(index)
    tensors: Tensors = {
        name: taken(joined([part.chunk.tensors[name][part.start : part.end] for part in parts]), places)
        for name in parts[0].chunk.tensors
    }
    rows, offsets = _rows_of(parts, index)
    return Gathered(tensors, np.stack([rows, rows + 1], axis=1), UnitRows(offsets, True), counts)


def _bins(parts: list[Part], index: Words, valid: int) -> Gathered:
    pieces = []
    for part in parts:
        begin, end = part.chunk.offsets[part.start], part.chunk.offsets[part.end]
        pieces.append({name: value[int(begin) : int(end)] for name, value in part.chunk.tensors.items()})
    rows, offsets = _rows_of(parts, index)
    # The rows of the units, where they lie in the pieces.
    lengths = np.concatenate([np.diff(part.chunk.offsets[part.start : part.end + 1]) for part in parts])
    begins = np.cumsum(lengths) - lengths
    places = spread(begins[index], lengths[index])
    tensors: Tensors = {
        name: taken(joined([piece[name] for piece in pieces]), torch.from_numpy(places)) for name in pieces[0]
    }
    counts = (len(rows), int(offsets[valid]))
    return Gathered(tensors, np.stack([rows, rows + 1], axis=1), UnitRows(offsets, False), counts)


def _rows_of(parts: list[Part], index: Words) -> tuple[Words, Words]:
    """The row numbers of the units with these indices among all parts', and where those of each begin."""
    rows, lengths = [], []
    for part in parts:
        offsets = part.chunk.offsets[part.start : part.end + 1]
        rows.append(part.chunk.rows[offsets[0] : offsets[-1]])
        lengths.append(np.diff(offsets))
    each = np.concatenate(lengths)
    begins = np.cumsum(each) - each
    found = np.concatenate(rows)[spread(begins[index], each[index])]
    return found, np.concatenate([[0], np.cumsum(each[index])]).astype(np.int64)
