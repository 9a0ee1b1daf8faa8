"""What is handed on where a function given to `map` fails: a batch of the form that the function makes."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.jagged import Jagged
from fastresume.options.world import Cut


class StandIn(NamedTuple):
    """What functions make of the first batch of a cut that they take: the same in every process.

    Args:
        cut: how the rows are divided.
        start: the cursor where the cut begins.
        batch: what they made.
    """

    cut: Cut
    start: _core.Cursor
    batch: Batch

    def is_of(self, planned: _core.Pass) -> bool:
        """Whether it is of this cut of a pass."""
        return planned.cut == self.cut and planned.cursor_after(0) == self.start

    def instead_of(self, batch: Batch) -> Batch:
        """The batch over which a function failed, with tensors as the function makes them.

        They are its own, if names, types and shapes agree; else copies of this object's.
        """
        rows = batch.num_rows
        if _form(batch) == _form(self.batch):
            return batch
        values: dict[str, Any] = self.batch._tensors
        copied = {name: _copy(value, self.batch.num_rows, rows) for name, value in values.items()}
        return Batch(copied, batch._origin)


def _form(batch: Batch) -> dict[str, object]:
    """The names of a batch's values, with their types and shapes; lengths of rows are not among them."""
    values: dict[str, Any] = batch._tensors
    return {name: _form_of(value, batch.num_rows) for name, value in values.items()}


def _form_of(value: object, rows: int) -> object:
    if isinstance(value, Jagged):
        marks = value.valid is not None, value.values_valid is not None
        return value.kind, value.depth, value.dtype, *marks, len(value) == rows
    if isinstance(value, Tensor):
        shape = tuple(value.shape)
        return value.dtype, ("B", *shape[1:]) if shape[:1] == (rows,) else shape
    return type(value)


def _copy(value: Any, held: int, rows: int) -> Any:
    """A copy of a value of a batch of `held` rows, for one of `rows`: over and over, if it has too few."""
    has_rows = isinstance(value, Jagged | list) or (isinstance(value, Tensor) and value.dim() > 0)
    if held in (0, rows) or not has_rows or len(value) != held:
        return value.clone() if isinstance(value, Tensor | Jagged) else copy.deepcopy(value)
    if isinstance(value, list):
        return [copy.deepcopy(value[row % held]) for row in range(rows)]
    places = torch.arange(rows, device=value.device) % held
    return value[places] if isinstance(value, Tensor) else value.take(places)
