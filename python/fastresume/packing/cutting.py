"""Units, made of rows that are decoded many at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import fastresume._core as _core
from fastresume.audit.log_format import digest
from fastresume.batch.damage import Damage, of_rows
from fastresume.batch.joining import Chunk, Piece, Words, repeated
from fastresume.batch.origin import UnitRows
from fastresume.batch.schema import Schema, Tensors
from fastresume.buffers import Intervals, members, of_buffer, of_runs, of_words, runs_of_one
from fastresume.packing import content
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.packed_table import PackedTable, Packing


class UnitSource(NamedTuple):
    """What units are made of.

    Args:
        manifest: the files, and which of their rows are selected.
        layout: what becomes of rows.
        schema: the tensors of units.
        table: which rows each unit is made of.
        packing: how lists are packed, if units are sequences.
    """

    manifest: _core.Manifest
    layout: _core.Layout
    schema: Schema
    table: PackedTable | BinsTable
    packing: Packing | None


class Made(NamedTuple):
    """Units of a batch.

    Args:
        memory: the memory of their tensors.
        runs: the row numbers that they are made of, unit after unit, as runs of one.
        units: which rows are of which unit.
        counts: how many rows these are, and how many of them are valid; None of sequences.
        damage: the rows that can't be decoded, and others beside them.
    """

    memory: _core.Memory
    runs: Intervals
    units: UnitRows
    counts: tuple[int, int] | None
    damage: Damage = ()


class Cutter(ABC):
    """Decodes what units are made of, and makes these of it."""

    @abstractmethod
    def made(self, numbers: Intervals, count: int, valid: int) -> Made:
        """The units in these runs, over and over until there are `count`; `valid` of them do not repeat."""

    @abstractmethod
    def content(self, tensors: Tensors, runs: Intervals, units: UnitRows, valid: int) -> int:
        """The digest of what the first `valid` units of a batch hold: tokens, or rows."""

    @abstractmethod
    def forget(self) -> None:
        """Gives back what is kept for the next units."""


class SequenceCutter(Cutter):
    """Cuts sequences of one length from lists.

    Args:
        source: what they are made of.
        chunks: how many are decoded in one go, and how many such chunks are kept; None for those asked for.
        stated_bytes: so many bytes of them are in use at a time.
    """

    def __init__(self, source: UnitSource, chunks: tuple[int, int] | None, stated_bytes: int) -> None:
        packed: Any = source.packing, source.table.core
        self._reader = _core.SequenceReader((source.manifest, source.layout), packed, chunks, stated_bytes)

    def made(self, numbers: Intervals, count: int, _valid: int) -> Made:
        """The sequences in these runs, over and over until there are so many.

        Raises:
            DataError: if an element is null, which has no number.
        """
        memory, rows, offsets = self._reader.sequences(numbers, count)
        return Made(memory, of_buffer(rows), UnitRows(of_words(offsets), True), None)

    def padding(self) -> _core.Memory:
        """A sequence of padding alone, which has no documents."""
        return self._reader.padding()

    def forget(self) -> None:
        """Gives the memory of chunks back."""
        self._reader.forget()

    def content(self, tensors: Tensors, runs: Intervals, units: UnitRows, valid: int) -> int:
        """The digest of the tokens of the first `valid` sequences, by what tells of their documents."""
        document: Any = tensors["document"]
        position: Any = tensors["position"]
        return content.total(
            content.of_sequences(document[:valid], position[:valid], runs[:, 0], units.offsets)
        )


class _Rows(NamedTuple):
    """Rows, where those of each bin begin, then their number, and which of them are damaged."""

    chunk: Chunk
    offsets: Words
    damage: Damage


class BinCutter(Cutter):
    """Puts bins together of rows.

    Args:
        source: the rows that they are made of.
        table: where each begins.
        chunks: as for `SequenceCutter`.
        stated_bytes: so many bytes of them are in use at a time.
    """

    def __init__(
        self, source: UnitSource, table: BinsTable, chunks: tuple[int, int] | None, stated_bytes: int
    ) -> None:
        self._source = source
        self._row_order = _core.Order.of_files(source.manifest)
        self._table = table
        self._chunks = chunks
        self._kept: OrderedDict[tuple[int, int, int], _Rows] = OrderedDict()
        self._joiner = _core.RowJoiner(source.layout, [], stated_bytes)

    def forget(self) -> None:
        """Gives the memory of chunks back."""
        self._kept.clear()

    def _parts(self, start: int, end: int) -> Iterator[Piece[_Rows]]:
        """The bins `[start, end)`, in pieces."""
        starts = self._table.starts
        while start < end:
            group = int(starts.searchsorted(start, side="right")) - 1
            begin, stop = int(starts[group]), int(starts[group + 1])
            first, last = start, min(end, stop)
            if self._chunks is not None:
                size, _ = self._chunks
                first = begin + (start - begin) // size * size
                last = min(first + size, stop)
            upto = min(end, last)
            yield Piece(self._chunk(group, first - begin, last - begin), start - first, upto - first)
            start = upto

    def _chunk(self, group: int, first: int, last: int) -> _Rows:
        """Bins of a row group, decoded now or kept from before."""
        key = group, first, last
        found = self._kept.get(key)
        if found is None:
            found = self._decoded(group, first, last)
            most = 1 if self._chunks is None else self._chunks[1]
            while len(self._kept) >= most:
                self._kept.popitem(last=False)
            self._kept[key] = found
        self._kept.move_to_end(key)
        return found

    def _decoded(self, group: int, first: int, last: int) -> _Rows:
        source, ordinals = self._source, self._table.stretch(group, first, last)
        runs = of_buffer(self._row_order.rows(np.array([ordinals], dtype=np.int64)))
        memory, written = source.layout.read_rows(source.manifest, runs, ordinals[1] - ordinals[0])
        offsets = self._table.offsets(group, first, last)
        return _Rows(Chunk(memory, of_runs(runs), None), offsets, tuple(written.damage))

    def made(self, numbers: Intervals, count: int, valid: int) -> Made:
        """The bins in these runs, over and over until there are `count`; `valid` of them do not repeat."""
        parts = [part for start, end in numbers.tolist() for part in self._parts(start, end)]
        rows = [
            Piece(chunk, int(offsets[start]), int(offsets[end])) for (chunk, offsets, _), start, end in parts
        ]
        row_numbers = np.concatenate([chunk.rows[begin:stop] for chunk, begin, stop in rows])
        counts = np.concatenate([np.diff(each.offsets[start : end + 1]) for each, start, end in parts])
        inside, ends = members(counts, repeated(np.arange(len(counts)), count))
        stretches = [(chunk.memory, begin, stop) for chunk, begin, stop in rows]
        memory = self._joiner.joined(stretches, np.arange(len(row_numbers)), len(inside))
        counts_of_rows = len(inside), int(ends[valid])
        damage = of_rows([one for each, _, _ in parts for one in each.damage], row_numbers)
        return Made(memory, runs_of_one(row_numbers[inside]), UnitRows(ends, False), counts_of_rows, damage)

    def content(self, _tensors: Tensors, runs: Intervals, units: UnitRows, valid: int) -> int:
        """The digest of the rows of the first `valid` bins."""
        return digest(runs[: int(units.offsets[valid]), 0])
