"""Units, made of rows that are decoded many at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, NamedTuple

import numpy as np
import torch

import fastresume._core as _core
from fastresume.audit.log_format import digest
from fastresume.batch.damage import Damage, of_rows
from fastresume.batch.joining import Chunk, Decoded, Piece, Words, repeated
from fastresume.batch.origin import UnitRows
from fastresume.batch.schema import Schema, Tensors
from fastresume.buffers import Intervals, members, of_buffer, of_runs, of_words, runs_of_one
from fastresume.packing import content
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.packed_table import PackedTable


class UnitSource(NamedTuple):
    """What units are made of.

    Args:
        manifest: the files, and which of their rows are selected.
        layout, row_schema: what becomes of rows.
        schema: the tensors of units.
        table: which rows each unit is made of.
    """

    manifest: _core.Manifest
    layout: _core.Layout
    row_schema: Schema
    schema: Schema
    table: PackedTable | BinsTable


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


class Cutter(ABC, Generic[Decoded]):
    """Decodes what units are made of, and makes these of it.

    Args:
        source: what they are made of.
    """

    def __init__(self, source: UnitSource) -> None:
        self._source = source
        self._row_order = _core.Order(_core.Cursor.start(source.manifest, None), source.manifest)

    @abstractmethod
    def decoded(self, stretch: int, first: int, last: int) -> Decoded:
        """What the units `[first, last)` of a file or row group are made of."""

    @abstractmethod
    def made(self, parts: list[Piece[Decoded]], count: int, valid: int) -> Made:
        """The units of all parts, over and over until there are `count`; `valid` of them do not repeat."""

    @abstractmethod
    def content(self, tensors: Tensors, runs: Intervals, units: UnitRows, valid: int) -> int:
        """The digest of what the first `valid` units of a batch hold: tokens, or rows."""

    def _runs(self, ordinals: tuple[int, int]) -> Intervals:
        """The row numbers of selected rows, which are counted from 0."""
        return of_buffer(self._row_order.rows(np.array([ordinals], dtype=np.int64)))


class _Documents(NamedTuple):
    """Documents, and how many of their tokens are of the unit before."""

    documents: _core.Documents
    skipped: int


class _Rows(NamedTuple):
    """Rows, where those of each bin begin, then their number, and which of them are damaged."""

    chunk: Chunk
    offsets: Words
    damage: Damage


class SequenceCutter(Cutter[_Documents]):
    """Cuts sequences of one length from lists.

    Args:
        source, table: what they are made of.
        stated_bytes: so many bytes of them are in use at a time.
    """

    def __init__(self, source: UnitSource, table: PackedTable, stated_bytes: int) -> None:
        super().__init__(source)
        self._table = table
        packed = table.packed
        separators = None
        if packed.separator is not None:
            dtypes = [source.row_schema[name].dtype for name in packed.names]
            elements = [torch.full((1,), packed.separator, dtype=dtype) for dtype in dtypes]
            separators = [bytes(element.view(torch.uint8).tolist()) for element in elements]
        self._packer = _core.Packer(packed.names, packed.length, separators, stated_bytes)

    def decoded(self, stretch: int, first: int, last: int) -> _Documents:
        """The documents of the units `[first, last)` of a file.

        Raises:
            DataError: if an element is null, which has no number.
        """
        source = self._source
        ordinals, before = self._table.stretch(stretch, first, last)
        documents = self._packer.documents(source.manifest, source.layout, self._runs(ordinals))
        return _Documents(documents, first * self._table.packed.length - before)

    def made(self, parts: list[Piece[_Documents]], count: int, _valid: int) -> Made:
        """The sequences of all parts, over and over until there are so many."""
        length, asked = self._table.packed.length, []
        for chunk, start, end in parts:
            documents, skipped = chunk
            asked.append((documents, skipped + start * length, end - start))
        memory, rows, offsets = self._packer.sequences(asked, count)
        return Made(memory, of_buffer(rows), UnitRows(of_words(offsets), True), None)

    def content(self, tensors: Tensors, runs: Intervals, units: UnitRows, valid: int) -> int:
        """The digest of the tokens of the first `valid` sequences, by what tells of their documents."""
        document: Any = tensors["document"]
        position: Any = tensors["position"]
        return content.of_sequences(document[:valid], position[:valid], runs[:, 0], units.offsets)


class BinCutter(Cutter[_Rows]):
    """Puts bins together of rows.

    Args:
        source, table: what they are made of.
        stated_bytes: so many bytes of them are in use at a time.
    """

    def __init__(self, source: UnitSource, table: BinsTable, stated_bytes: int) -> None:
        super().__init__(source)
        self._table = table
        self._joiner = _core.RowJoiner(source.layout, [], stated_bytes)

    def decoded(self, stretch: int, first: int, last: int) -> _Rows:
        """The rows of the units `[first, last)` of a row group."""
        source = self._source
        ordinals, _ = self._table.stretch(stretch, first, last)
        runs = self._runs(ordinals)
        memory, written = source.layout.read_rows(source.manifest, runs, ordinals[1] - ordinals[0])
        offsets = self._table.offsets(stretch, first, last)
        return _Rows(Chunk(memory, of_runs(runs), None), offsets, tuple(written.damage))

    def made(self, parts: list[Piece[_Rows]], count: int, valid: int) -> Made:
        """The bins of all parts, over and over until there are `count`; `valid` of them do not repeat."""
        rows = [
            Piece(chunk, int(offsets[start]), int(offsets[end])) for (chunk, offsets, _), start, end in parts
        ]
        numbers = np.concatenate([chunk.rows[begin:stop] for chunk, begin, stop in rows])
        counts = np.concatenate([np.diff(each.offsets[start : end + 1]) for each, start, end in parts])
        inside, ends = members(counts, repeated(np.arange(len(counts)), count))
        stretches = [(chunk.memory, begin, stop) for chunk, begin, stop in rows]
        memory = self._joiner.joined(stretches, np.arange(len(numbers)), len(inside))
        counts_of_rows = len(inside), int(ends[valid])
        damage = of_rows([one for each, _, _ in parts for one in each.damage], numbers)
        return Made(memory, runs_of_one(numbers[inside]), UnitRows(ends, False), counts_of_rows, damage)

    def content(self, _tensors: Tensors, runs: Intervals, units: UnitRows, valid: int) -> int:
        """The digest of the rows of the first `valid` bins."""
        return digest(runs[: int(units.offsets[valid]), 0])
