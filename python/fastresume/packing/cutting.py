"""Units, made of rows that are decoded many at a time."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.batch.joining import Chunk
from fastresume.batch.origin import UnitRows
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, members, of_buffer, of_runs, of_words, runs_of_one
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.packed_table import PackedTable

Words = npt.NDArray[np.int64]


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
    """

    memory: _core.Memory
    runs: Intervals
    units: UnitRows
    counts: tuple[int, int] | None


class Part(NamedTuple):
    """Of the units of what a cutter decoded, those in `[start, end)`."""

    chunk: Any
    start: int
    end: int


class Cutter(Protocol):
    """Decodes what units are made of, and makes these of it: `SequenceCutter` or `BinCutter`."""

    def decoded(self, stretch: int, first: int, last: int) -> Any:
        """What the units `[first, last)` of a file or row group are made of."""

    def made(self, parts: list[Part], count: int, valid: int) -> Made:
        """The units of all parts, over and over until there are `count`; `valid` of them do not repeat."""


class _Documents(NamedTuple):
    """Documents, and how many of their tokens are of the unit before."""

    documents: _core.Documents
    skipped: int


class SequenceCutter:
    """Cuts sequences of one length from lists.

    Args:
        source, table: what they are made of.
        stated_bytes: so many bytes of them are in use at a time.
    """

    def __init__(self, source: UnitSource, table: PackedTable, stated_bytes: int) -> None:
        self._source, self._table = source, table
        packed = table.packed
        separators = None
        if packed.separator is not None:
            dtypes = [source.row_schema[name].dtype for name in packed.names]
            elements = [torch.full((1,), packed.separator, dtype=dtype) for dtype in dtypes]
            separators = [bytes(element.view(torch.uint8).tolist()) for element in elements]
        self._packer = _core.Packer(packed.names, packed.length, separators, stated_bytes)
        self._row_order = _core.Order(_core.Cursor.start(source.manifest, None), source.manifest)

    def decoded(self, stretch: int, first: int, last: int) -> _Documents:
        """The documents of the units `[first, last)` of a file.

        Raises:
            DataError: if an element is null, which has no number.
        """
        source = self._source
        ordinals, before = self._table.stretch(stretch, first, last)
        runs = of_buffer(self._row_order.rows(np.array([ordinals], dtype=np.int64)))
        documents = self._packer.documents(source.manifest, source.layout, runs)
        return _Documents(documents, first * self._table.packed.length - before)

    def made(self, parts: list[Part], count: int, _valid: int) -> Made:
        """The sequences of all parts, over and over until there are so many."""
        length, asked = self._table.packed.length, []
        for chunk, start, end in parts:
            documents, skipped = chunk
            asked.append((documents, skipped + start * length, end - start))
        memory, rows, offsets = self._packer.sequences(asked, count)
        return Made(memory, of_buffer(rows), UnitRows(of_words(offsets), True), None)


class BinCutter:
    """Puts bins together of rows.

    Args:
        source, table: what they are made of.
        stated_bytes: so many bytes of them are in use at a time.
    """

    def __init__(self, source: UnitSource, table: BinsTable, stated_bytes: int) -> None:
        self._source, self._table = source, table
        self._joiner = _core.RowJoiner(source.layout, [], stated_bytes)
        self._row_order = _core.Order(_core.Cursor.start(source.manifest, None), source.manifest)

    def decoded(self, stretch: int, first: int, last: int) -> Chunk:
        """The rows of the units `[first, last)` of a row group."""
        source = self._source
        ordinals, _ = self._table.stretch(stretch, first, last)
        runs = of_buffer(self._row_order.rows(np.array([ordinals], dtype=np.int64)))
        memory, _ = source.layout.read_rows(source.manifest, runs, ordinals[1] - ordinals[0])
        return Chunk(memory, of_runs(runs), self._table.offsets(stretch, first, last))

    def made(self, parts: list[Part], count: int, valid: int) -> Made:
        """The bins of all parts, over and over until there are `count`; `valid` of them do not repeat."""
        stretches, rows, lengths = [], [], []
        for chunk, start, end in parts:
            offsets = chunk.offsets[start : end + 1]
            begin, stop = int(offsets[0]), int(offsets[-1])
            stretches.append((chunk.memory, begin, stop))
            rows.append(chunk.rows[begin:stop])
            lengths.append(np.diff(offsets))
        numbers, counts = np.concatenate(rows), np.concatenate(lengths)
        inside, ends = members(counts, np.arange(count) % max(len(counts), 1))
        memory = self._joiner.joined(stretches, np.arange(len(numbers)), len(inside))
        return Made(
            memory, runs_of_one(numbers[inside]), UnitRows(ends, False), (len(inside), int(ends[valid]))
        )
