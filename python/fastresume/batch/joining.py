"""Rows of several batches as rows of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fastresume.batch.jagged import Jagged


def joined(parts: Sequence[Tensor | Jagged]) -> Tensor | Jagged:
    """The rows of all parts, one after another: values of one column, at least one part.

    Example:
        >>> joined([torch.tensor([1, 2]), torch.tensor([3])])
        tensor([1, 2, 3])
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    if isinstance(first, Tensor):
        return _joined([part for part in parts if isinstance(part, Tensor)])
    rows = [part for part in parts if isinstance(part, Jagged)]
    offsets, end = [rows[0].offsets[:1] - rows[0].offsets[0]], 0
    for part in rows:
        offsets.append(part.offsets[1:] - part.offsets[0] + end)
        end = int(offsets[-1][-1]) if len(part) else end
    valid = [part.valid for part in rows if part.valid is not None]
    marks = [_inside(part, part.values_valid) for part in rows if part.values_valid is not None]
    values = joined([_inside(part, part.values) for part in rows])
    return Jagged(
        values,
        torch.cat(offsets),
        torch.cat(valid) if valid else None,
        first.kind,
        torch.cat(marks) if marks else None,
        first.name,
    )


def taken(value: Tensor | Jagged, places: Tensor) -> Tensor | Jagged:
    """The rows with these indices (int64 `[n]`), in this order; an index may come more than once.

    Example:
        >>> taken(torch.tensor([5, 6, 7]), torch.tensor([2, 0, 2]))
        tensor([7, 5, 7])
    """
    if isinstance(value, Jagged):
        return value.take(places)
    return _of_bytes(torch.index_select(_bytes(value), 0, places), value)


def num_bytes(value: Tensor | Jagged | None) -> int:
    """The bytes of all tensors that a value is made of."""
    if value is None:
        return 0
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    return sum(map(num_bytes, (value.values, value.offsets, value.valid, value.values_valid)))


def _inside(rows: Jagged, values: Any) -> Any:
    """Of values of all rows, those that are inside of the first and the last offset."""
    return values[int(rows.offsets[0]) : int(rows.offsets[-1])]


def _joined(parts: Sequence[Tensor]) -> Tensor:
    return _of_bytes(torch.cat([_bytes(part) for part in parts]), parts[0])


def _bytes(tensor: Tensor) -> Tensor:
    """The rows as bytes, because torch can't join or index every dtype."""
    width = tensor.shape[1:].numel() * tensor.element_size()
    return tensor.contiguous().view(-1).view(torch.uint8).view(len(tensor), width)


def _of_bytes(rows: Tensor, like: Tensor) -> Tensor:
    return rows.view(-1).view(like.dtype).view(len(rows), *like.shape[1:])
