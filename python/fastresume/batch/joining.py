"""Rows that were decoded many at a time, of which batches are put together."""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.damage import Damage
from fastresume.batch.jagged import Jagged, is_one_byte
from fastresume.batch.origin import UnitRows
from fastresume.buffers import members

Words = npt.NDArray[np.int64]
Decoded = TypeVar("Decoded")

BATCHES_IN_USE = 4
"""So many, as a rule: memory of others is used again."""


class Chunk(NamedTuple):
    """Some rows, or units.

    Args:
        memory: the memory of their tensors; none is made of it where rows are joined to others.
        rows: their row numbers, int64 `[n]`; of units, those of all their rows or documents.
        offsets: where those of each unit begin, then their number; None of rows.
        damage: the rows that could not be decoded, and others beside them.
        units: the numbers of the units, int64 `[n]`, where a delivery log notes them; else None.
    """

    memory: _core.Memory
    rows: Words
    offsets: Words | None
    damage: Damage = ()
    units: Words | None = None

    @property
    def size(self) -> int:
        """How many rows, or units, there are."""
        return len(self.rows) if self.offsets is None else len(self.offsets) - 1


class Piece(NamedTuple, Generic[Decoded]):
    """The rows, or units, `[start, end)` of a chunk, or of what else was decoded at once."""

    chunk: Decoded
    start: int
    end: int


def row_numbers(pieces: list[Piece[Chunk]], order: Words, count: int) -> tuple[Words, UnitRows | None]:
    """The row numbers of a batch of all pieces; of sequences, those of their documents.

    Row k of them, counted over all pieces, becomes row `order[k]`; these come again in turn up to `count`
    rows.
    """
    rows, lengths = [], []
    for chunk, start, end in pieces:
        if chunk.offsets is None:
            rows.append(chunk.rows[start:end])
            continue
        offsets = chunk.offsets[start : end + 1]
        rows.append(chunk.rows[offsets[0] : offsets[-1]])
        lengths.append(np.diff(offsets))
    found = np.concatenate(rows)
    if not lengths:
        placed = np.empty_like(found)
        placed[order] = found
        return repeated(placed, count), None
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    inside, ends = members(np.concatenate(lengths), repeated(places, count))
    return found[inside], UnitRows(ends, True)


def repeated(values: Words, count: int) -> Words:
    """The values, and the same again in turn, up to so many.

    Examples:
        >>> repeated(np.array([7, 8]), 5).tolist()
        [7, 8, 7, 8, 7]
    """
    return values if len(values) == count else values[np.arange(count) % max(len(values), 1)]


def num_bytes(value: Tensor | Jagged | None) -> int:
    """The bytes of all tensors that a value is made of; none of a mark that stands for all."""
    if value is None:
        return 0
    if isinstance(value, Tensor):
        return value.nbytes
    marks = value.values_valid
    told = None if marks is None or is_one_byte(marks) else marks
    return sum(map(num_bytes, (value.values, value.offsets, value.valid, told)))
