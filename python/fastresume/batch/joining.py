"""Rows that were decoded many at a time, of which batches are put together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.damage import Damage
from fastresume.batch.jagged import Jagged, is_one_byte

Words = npt.NDArray[np.int64]

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


def num_bytes(value: Tensor | Jagged | None) -> int:
    """The bytes of all tensors that a value is made of; none of a mark that stands for all."""
    if value is None:
        return 0
    if isinstance(value, Tensor):
        return value.nbytes
    marks = value.values_valid
    told = None if marks is None or is_one_byte(marks) else marks
    return sum(map(num_bytes, (value.values, value.offsets, value.valid, told)))
