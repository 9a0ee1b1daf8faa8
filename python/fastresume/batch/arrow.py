"""Tensors as Arrow arrays; they share memory where Arrow has the same layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fastresume.packages import optional


def of_tensor(tensor: Tensor, *marks: Tensor | None) -> Any:
    """A tensor `[B, ...]` as an array of B values, or of lists of fixed size.

    Numbers share the tensor's memory. Bools become bits, and so do marks: each has the tensor's shape, or the
    first dimensions of it, and marks the rows, lists or numbers there.

    Raises:
        TypeError: if the tensor has no rows, or Arrow has no such type.
    """
    arrow = optional("pyarrow", "to_arrow", "'fastresume[arrow]'")
    if tensor.ndim == 0:
        raise TypeError("a tensor without dimensions has no rows")
    values = _numpy(tensor)
    masks = {mark.ndim: _numpy(mark).reshape(-1) for mark in marks if mark is not None}
    array = _primitive(arrow, values.reshape(-1), masks.get(tensor.ndim))
    for axis in range(tensor.ndim - 1, 0, -1):
        rows = int(np.prod(values.shape[:axis]))
        lists = arrow.list_(array.type, values.shape[axis])
        array = arrow.Array.from_buffers(lists, rows, [_bits(arrow, masks.get(axis))], children=[array])
    return array


def of_rows(
    values: Any, offsets: Tensor, valid: Tensor | None, kind: str, values_valid: Tensor | None = None
) -> Any:
    """Rows of different lengths as a large_list, large_string or large_binary array, over the same memory.

    The values are a tensor, or `Jagged` rows, which have a `to_arrow` of their own.

    Raises:
        ValueError: if a string is not UTF-8 (a file may hold any bytes), or the offsets do not ascend.
    """
    arrow = optional("pyarrow", "to_arrow", "'fastresume[arrow]'")
    rows = len(offsets) - 1
    buffers = [_bits(arrow, None if valid is None else _numpy(valid)), arrow.py_buffer(_numpy(offsets))]
    if kind == "list":
        items = of_tensor(values, values_valid) if isinstance(values, Tensor) else values.to_arrow()
        array = arrow.Array.from_buffers(arrow.large_list(items.type), rows, buffers, children=[items])
    else:
        text = arrow.large_string() if kind == "string" else arrow.large_binary()
        array = arrow.Array.from_buffers(text, rows, [*buffers, arrow.py_buffer(_numpy(values))])
    array.validate(full=True)
    return array


def of_batch(values: Mapping[str, Any], masked: frozenset[str]) -> Any:
    """The values of a batch as a record batch; `masked` names tensors that `name + "_valid"` may mask.

    So may `name + "_values_valid"`, the elements of their lists.

    Raises:
        TypeError: if a value is neither a tensor with rows nor a `Jagged`, or Arrow has no such type.
        ValueError: if columns differ in their numbers of rows, or a string is not UTF-8.
    """
    arrow = optional("pyarrow", "to_arrow", "'fastresume[arrow]'")
    # What rows are filled up with is no null: its marks stay a column.
    ends = {name: ["_valid", "_values_valid"][: 1 + (f"{name}_length" not in values)] for name in masked}
    masks = {name: [end for end in ends[name] if _is_masked(values, name, end)] for name in masked}
    spent = {f"{name}{end}" for name, found in masks.items() for end in found}
    columns = {}
    for name, value in values.items():
        if name in spent:
            continue
        try:
            marks = [values[f"{name}{end}"] for end in masks.get(name, ())]
            columns[name] = of_tensor(value, *marks) if isinstance(value, Tensor) else _of_other(value)
        except TypeError as cause:
            raise TypeError(f"{name!r} can't be a column of Arrow: {cause}") from None
        except ValueError as cause:
            raise ValueError(f"{name!r} can't be a column of Arrow: {cause}") from None
    first = next(iter(columns), "")
    for name, column in columns.items():
        if len(column) != len(columns[first]):
            raise ValueError(
                f"the columns of a record batch have one number of rows: {first!r} has "
                f"{len(columns[first])}, {name!r} has {len(column)}"
            )
    return arrow.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _is_masked(values: Mapping[str, Any], name: str, end: str) -> bool:
    """Whether a tensor and its mask are both still there, whatever a transform did to them."""
    value, mask = values.get(name), values.get(f"{name}{end}")
    if not (isinstance(value, Tensor) and isinstance(mask, Tensor)):
        return False
    return mask.dtype == torch.bool and mask.ndim > 0 and mask.shape == value.shape[: mask.ndim]


def _of_other(value: Any) -> Any:
    if not hasattr(value, "to_arrow"):
        raise TypeError(f"it is a {type(value).__name__}, not a tensor or Jagged")
    return value.to_arrow()


def _numpy(tensor: Tensor) -> npt.NDArray[Any]:
    """The values as a contiguous numpy array, over the same memory if they are contiguous on the CPU."""
    try:
        array: npt.NDArray[Any] = tensor.detach().cpu().contiguous().numpy()
    except TypeError as cause:
        raise TypeError(
            f"Arrow has no type for {str(tensor.dtype).removeprefix('torch.')}: {cause}"
        ) from None
    return array


def _primitive(arrow: Any, values: npt.NDArray[Any], valid: npt.NDArray[Any] | None) -> Any:
    try:
        kind = arrow.from_numpy_dtype(values.dtype)
    except NotImplementedError:  # complex numbers
        raise TypeError(f"Arrow has no type for {values.dtype}") from None
    data = _bits(arrow, values) if values.dtype == np.bool_ else arrow.py_buffer(values)
    return arrow.Array.from_buffers(kind, len(values), [_bits(arrow, valid), data])


def _bits(arrow: Any, marks: npt.NDArray[Any] | None) -> Any:
    return None if marks is None else arrow.py_buffer(np.packbits(marks, bitorder="little"))
