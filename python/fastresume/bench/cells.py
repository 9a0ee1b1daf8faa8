"""Arrow columns as arrays and tensors: what users write around pyarrow to feed a model."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Array = npt.NDArray[Any]


class Cells(NamedTuple):
    """The values of some rows of one column.

    `offsets` says where each row's values begin, and where the last one's end, if rows differ in length.
    `valid` marks nulls, if there are any: their values are 0, and their lists empty.
    """

    values: Array
    offsets: Array | None
    valid: Array | None


class Ragged(NamedTuple):
    """The same as tensors, for a column of lists or strings."""

    values: Tensor
    offsets: Tensor
    valid: Tensor | None


def cells_of(column: Any) -> Cells:
    """The cells of an Arrow array; views of its memory where that is possible."""
    arrow, compute = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.compute")
    types = arrow.types
    if isinstance(column, arrow.ChunkedArray):
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    if is_text(column.type):
        text = column.cast(arrow.large_binary())
        if valid is not None:
            text = compute.fill_null(text, b"")
        _, starts, data = text.buffers()
        offsets = np.frombuffer(starts, np.int64)[text.offset : text.offset + len(text) + 1]
        values = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return Cells(values[offsets[0] : offsets[-1]], offsets - offsets[0], valid)
    if is_list(column.type):
        values = _flat(arrow, column.flatten())
        if valid is None and not types.is_fixed_size_list(column.type):
            offsets = column.offsets.to_numpy().astype(np.int64)
            return Cells(values, offsets - offsets[0], None)
        lengths = compute.fill_null(compute.list_value_length(column), 0).to_numpy(zero_copy_only=False)
        return Cells(values, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), valid)
    return Cells(_flat(arrow, column), None, valid)


def is_list(type_: Any) -> bool:
    """Whether it is a list type, of fixed size or not."""
    types = importlib.import_module("pyarrow").types
    return any(getattr(types, f"is_{kind}")(type_) for kind in ("list", "large_list", "fixed_size_list"))


def is_text(type_: Any) -> bool:
    """Whether it is a string or binary type."""
    types = importlib.import_module("pyarrow").types
    kinds = (
        "string",
        "large_string",
        "string_view",
        "binary",
        "large_binary",
        "binary_view",
        "fixed_size_binary",
    )
    return any(getattr(types, f"is_{kind}")(type_) for kind in kinds if hasattr(types, f"is_{kind}"))


def _flat(arrow: Any, column: Any) -> Array:
    """The values of a column of fixed width; dates and times as the integers that store them."""
    if arrow.types.is_temporal(column.type):
        column = column.view(arrow.int32() if column.type.bit_width == 32 else arrow.int64())
    if column.null_count:
        zero = False if arrow.types.is_boolean(column.type) else 0
        column = column.fill_null(arrow.scalar(zero, column.type))
    values: Array = column.to_numpy(zero_copy_only=False)
    return values


def stacked_tensors_of(batch: Any, stacks: Mapping[str, list[str]]) -> dict[str, Tensor | Ragged]:
    """The same, with one matrix instead of the columns of each stack."""
    tensors = tensors_of(batch)
    for stack, members in stacks.items():
        columns = [tensors.pop(name) for name in members]
        masks = [tensors.pop(f"{name}_valid", None) for name in members]
        tensors[stack] = torch.from_numpy(np.stack([_array(column) for column in columns], axis=1))
        if any(mask is not None for mask in masks):
            all_valid = np.ones(batch.num_rows, np.bool_)
            found = [all_valid if mask is None else _array(mask) for mask in masks]
            tensors[f"{stack}_valid"] = torch.from_numpy(np.stack(found, axis=1))
    return tensors


def _array(tensor: Tensor | Ragged) -> Array:
    array: Array = torch.as_tensor(tensor).numpy()
    return array


def tensors_of(batch: Any) -> dict[str, Tensor | Ragged]:
    """A tensor per column of an Arrow table or batch, over its memory; nulls have a mask."""
    tensors: dict[str, Tensor | Ragged] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values, offsets, valid = cells_of(column)
        mask = None if valid is None else torch.from_numpy(valid)
        if offsets is not None:
            tensors[name] = Ragged(torch.from_numpy(values), torch.from_numpy(offsets), mask)
            continue
        tensors[name] = torch.from_numpy(values)
        if mask is not None:
            tensors[f"{name}_valid"] = mask
    return tensors
