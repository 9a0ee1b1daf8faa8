"""The batches of a dataset that counts units."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.batch.joining import joined, taken
from fastresume.batch.origin import Planned, UnitRows
from fastresume.batch.schema import Schema, Tensors
from fastresume.buffers import members, of_buffer, of_runs
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.cutting import Cut, cut
from fastresume.packing.packed_table import PackedTable
from fastresume.reading.composed_reader import ComposedReader
from fastresume.reading.monitor.activity import IdleActivity
from fastresume.reading.spec import Rows

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


class UnitsReader(ComposedReader):
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
        super().__init__(planned, share, place, source.masked)
        self._source = source
        self._order = order
        self._row_order = _core.Order(_core.Cursor.start(source.manifest, None), source.manifest)
        self._chunks: OrderedDict[tuple[int, int], Cut] = OrderedDict()
        self._chunk_units, self._kept = chunks_of(source.table, planned, order, place[1])
        self.activity = IdleActivity()

    def forget(self) -> None:
        """Gives the memory of chunks back."""
        self._chunks.clear()

    def rows(self, number: int) -> Rows:
        """The rows of this rank's batch with a number in the cut: units of them."""
        planned, rank = self._planned, self._rank
        runs = of_buffer(self._order.rows(of_buffer(planned.positions(number, rank))))
        parts = [part for start, end in runs.tolist() for part in self._parts(start, end)]
        count, valid, _ = planned.shape(number, rank)
        # Units by the parts that they are in, which padding repeats in turn.
        index = np.arange(count) % max(sum(part.end - part.start for part in parts), 1)
        if isinstance(self._source.table, PackedTable):
            return _sequences(parts, index)
        return _bins(parts, index, valid)

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
        runs = of_buffer(self._row_order.rows(np.array([ordinals], dtype=np.int64)))
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


def _sequences(parts: list[Part], index: Words) -> Rows:
    pieces = [
        {name: value[part.start : part.end] for name, value in part.chunk.tensors.items()} for part in parts
    ]
    rows, inside, offsets = _rows_of(parts, index)
    return _gathered(pieces, index, rows[inside], UnitRows(offsets, True), None)


def _bins(parts: list[Part], index: Words, valid: int) -> Rows:
    pieces = []
    for part in parts:
        begin, end = int(part.chunk.offsets[part.start]), int(part.chunk.offsets[part.end])
        pieces.append({name: value[begin:end] for name, value in part.chunk.tensors.items()})
    rows, inside, offsets = _rows_of(parts, index)
    counts = (len(inside), int(offsets[valid]))
    return _gathered(pieces, inside, rows[inside], UnitRows(offsets, False), counts)


def _gathered(
    pieces: list[Tensors], places: Words, rows: Words, units: UnitRows, counts: tuple[int, int] | None
) -> Rows:
    """The values of all pieces at these places, with the row numbers that they are of."""
    index = torch.from_numpy(places)
    tensors: Tensors = {name: taken(joined([piece[name] for piece in pieces]), index) for name in pieces[0]}
    return Rows(tensors, np.stack([rows, rows + 1], axis=1), units=units, counts=counts)


def _rows_of(parts: list[Part], index: Words) -> tuple[Words, Words, Words]:
    """The row numbers of all parts; which are of the units with these indices; and where each begins."""
    rows, lengths = [], []
    for part in parts:
        offsets = part.chunk.offsets[part.start : part.end + 1]
        rows.append(part.chunk.rows[offsets[0] : offsets[-1]])
        lengths.append(np.diff(offsets))
    return np.concatenate(rows), *members(np.concatenate(lengths), index)
