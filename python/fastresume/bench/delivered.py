"""The batches of any library: how many rows they have, and the cells of their columns."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from fastresume.bench import storage
from fastresume.bench.cells import Array, Cells, cells_of
from fastresume.bench.task import Task


def num_rows(batch: Any) -> int:
    """The number of rows in a batch: of tensors by name, of Arrow, or of polars.

    Raises:
        TypeError: if it is none of these.
    """
    for name in ("num_rows", "height"):
        if hasattr(batch, name):
            return int(getattr(batch, name))
    first = next(iter(batch.values()), None) if isinstance(batch, Mapping) else None
    if isinstance(first, Tensor):
        return len(first)
    if first is not None and hasattr(first, "offsets"):
        return len(first.offsets) - 1
    found = type(batch).__name__ if first is None else f"{type(batch).__name__} of {type(first).__name__}"
    raise TypeError(
        "a batch must be tensors by name (values, offsets and valid of lists), an Arrow table or a polars "
        f"frame, found {found}"
    )


def tokens_of(batch: Any, task: Task) -> Cells:
    """The tokens of a batch of sequences, without what they are filled up with.

    Raises:
        ValueError: if the column is missing, or a sequence is too long.
    """
    (name,) = task.names
    if not isinstance(batch, Mapping):
        cells = _cells_by_name(batch, task)[name]
        longest = 0 if cells.offsets is None else int(np.diff(cells.offsets).max(initial=0))
    elif name not in batch:
        raise ValueError(f"the column {name!r} was not delivered")
    else:
        tokens = _array(batch[name])
        document = batch.get("document")
        longest = tokens.shape[1]
        values = tokens.reshape(-1) if document is None else tokens[_array(document) >= 0]
        cells = Cells(values, None, None)
    if longest > task.length:
        raise ValueError(f"a sequence has {longest} tokens, expected {task.length}")
    return Cells(cells.values, None, None)


def cells_by_name(batch: Any, task: Task) -> dict[str, Cells]:
    """The cells of every column of the task; null lists count as empty if some have nulls inside.

    Raises:
        ValueError: if a column is missing.
    """
    cells = _cells_by_name(batch, task)
    of_nulls = (column.name for column in task.columns if column.has_null_elements)
    return {**cells, **{name: cells[name]._replace(valid=None) for name in of_nulls}}


def _cells_by_name(batch: Any, task: Task) -> dict[str, Cells]:
    if isinstance(batch, Mapping):
        return {name: _of_tensors(batch, name, task.stacks) for name in task.names}
    table = batch.to_arrow() if hasattr(batch, "to_arrow") else batch
    if missing := set(task.names) - set(table.schema.names):
        raise ValueError(f"the column {min(missing)!r} was not delivered")
    types = _types(task)
    # Some libraries deliver other types with the same values: wider offsets, other time units.
    columns = {name: table.column(name) for name in task.names}
    return {
        name: cells_of(column if column.type == types[name] else column.cast(types[name]))
        for name, column in columns.items()
    }


@functools.cache
def _types(task: Task) -> dict[str, Any]:
    schema = storage.schema(task.files[0], task.storage_options)
    types = importlib.import_module("pyarrow").types
    return {
        field.name: field.type.value_type if types.is_dictionary(field.type) else field.type
        for field in schema
    }


def _of_tensors(batch: Mapping[str, Any], name: str, stacks: Mapping[str, list[str]]) -> Cells:
    if name in batch:
        value = batch[name]
        if isinstance(value, Tensor):
            valid = _mask(batch.get(f"{name}_valid"))
            return Cells(_array(value), None, valid) if value.ndim == 1 else _of_matrix(_array(value), valid)
        return Cells(_array(value.values), _array(value.offsets), _mask(value.valid))
    for stack, members in stacks.items():
        if name in members and stack in batch:
            place = members.index(name)
            valid = batch.get(f"{stack}_valid")
            return Cells(
                _array(batch[stack][:, place]), None, None if valid is None else _mask(valid[:, place])
            )
    raise ValueError(f"the column {name!r} was not delivered")


def _of_matrix(rows: Array, valid: Array | None) -> Cells:
    """Lists of fixed size in the form of lists of any length: null lists have no values."""
    there = np.ones(len(rows), np.bool_) if valid is None else valid
    offsets = np.concatenate([[0], np.cumsum(there * rows.shape[1], dtype=np.int64)])
    return Cells(rows[there].reshape(-1), offsets, valid)


def _mask(valid: Tensor | None) -> Array | None:
    return None if valid is None else _array(valid)


def _array(tensor: Tensor) -> Array:
    array: Array = tensor.contiguous().numpy()
    return array
