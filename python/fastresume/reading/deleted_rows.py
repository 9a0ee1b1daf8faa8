"""The rows of a table's files that are left: those that are deleted neither by their places nor by values."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.batch.jagged import Jagged
from fastresume.batch.schema import Field, Schema, Tensors
from fastresume.buffers import Intervals, of_buffer, of_runs, of_words
from fastresume.columns.column import col
from fastresume.columns.request import Entry, column_request
from fastresume.filter.pruning import selected_rows
from fastresume.filter.scan import intervals_of, selected_batches
from fastresume.tables.named_table import open_files
from fastresume.tables.snapshot import DeletedValues, DeletingFile, Snapshot

Numbers = npt.NDArray[np.int64]

DECIMAL_BYTES = 16
"""A decimal has at most this many, whatever its column has in a file."""

INT64_DIGITS = 18
"""A decimal of this many digits is delivered as an integer."""

EVERYWHERE = -1
"""Instead of a partition: all of them."""


def live_rows(manifest: _core.Manifest, table: Snapshot) -> _core.Manifest:
    """The manifest of a table's files, in which the rows that are left are selected.

    Columns by whose values rows are deleted are read, as far as they may have such values.

    Raises:
        DataError, SourceError: if a file can't be read, or rows are deleted that it does not have.
    """
    live, found = table.live(manifest), table.deleted_values
    if found is None:
        return live
    by_columns: dict[tuple[str, ...], list[DeletingFile]] = defaultdict(list)
    for file in found.by:
        by_columns[file.columns].append(file)
    for columns, files in sorted(by_columns.items()):
        gone = list(_gone(live, table, replace(found, by=files), list(columns)))
        if gone:
            left = of_buffer(_core.remaining(np.concatenate(gone), live.num_rows))
            live = live.select(of_buffer(_core.intersection(selected_rows(live), left)))
    return live


def _gone(
    manifest: _core.Manifest, table: Snapshot, deleted: DeletedValues, columns: list[str]
) -> Iterator[Intervals]:
    """The selected rows that are deleted by the values of some columns, part by part."""
    # Some partitions have no files any more.
    parts = 1 + max(int(deleted.parts.max(initial=0)), *(file.part or 0 for file in deleted.by))
    newest = np.zeros(parts, np.int64)
    for file in deleted.by:
        of_parts = slice(None) if file.part is None else file.part
        newest[of_parts] = np.maximum(newest[of_parts], file.number)
    # A file that is as new as all that deletes rows of its partition loses none.
    files = np.flatnonzero(deleted.numbers < newest[deleted.parts])
    starts = _file_starts(manifest)
    rows = of_buffer(
        _core.intersection(selected_rows(manifest), np.column_stack([starts[files], starts[files + 1]]))
    )
    if not len(rows):
        return
    deleting = list(_deleting_rows(manifest, table, deleted.by, columns))
    if not deleting:
        return
    last = _LastDeletes(deleting, parts)
    for numbers, values in _read(manifest.select(rows), table, columns, "deleted rows"):
        of = np.searchsorted(starts, numbers, "right") - 1
        is_gone = last.numbers(values, deleted.parts[of]) > deleted.numbers[of]
        yield intervals_of(numbers[is_gone])


def _deleting_rows(
    manifest: _core.Manifest, table: Snapshot, files: Sequence[DeletingFile], columns: list[str]
) -> Iterator[tuple[list[Any], Numbers, Numbers]]:
    """The values that are deleted, and of each the number and the partition of its file."""
    own = replace(
        table,
        files=[file.path for file in files],
        values=[file.values for file in files],
        deleted={},
        deleted_values=None,
        other_orders=(),
    )
    opened = open_files(
        [[path] for path in own.files], manifest.stores, None, manifest.verifies_checksums, own
    )
    if not opened.num_rows:
        return
    starts = _file_starts(opened)
    number = np.array([file.number for file in files], np.int64)
    part = np.array([EVERYWHERE if file.part is None else file.part for file in files], np.int64)
    for numbers, values in _read(opened, table, columns, "deletes"):
        of = np.searchsorted(starts, numbers, "right") - 1
        yield values, number[of], part[of]


def _file_starts(manifest: _core.Manifest) -> Numbers:
    """The number of the first row of each file, and of all rows."""
    return of_words(manifest.group_starts)[of_words(manifest.file_groups)]


def _read(
    manifest: _core.Manifest, table: Snapshot, columns: list[str], reads_for: str
) -> Iterator[tuple[Numbers, list[Any]]]:
    """The numbers of the selected rows, and their values as arrays of Arrow, part by part."""
    layout = _layout(manifest, table, columns)
    schema = Schema(layout)
    fields = {field.name: field for field in schema.fields}
    for delivered, tensors in selected_batches(manifest, layout, schema, reads_for):
        yield of_runs(of_buffer(delivered.runs)), [_array(tensors, fields[name]) for name in columns]


def _layout(manifest: _core.Manifest, table: Snapshot, columns: list[str]) -> _core.Layout:
    """How the columns are read: decimals of more digits than an integer has as bytes."""
    types = {column.name: column.type_name for column in table.columns}
    wide = {name for name in columns if _digits(types[name]) > INT64_DIGITS}

    def layout(kind: Literal["bytes", "int64"]) -> _core.Layout:
        entries: list[Entry] = [col(name).decimal(kind) if name in wide else name for name in columns]
        return column_request(entries, "mask").layout(manifest)

    try:
        return layout("bytes")
    except _core.DataError:
        if not wide:
            raise
        # Files that are older than the column's present type hold fewer bytes; as integers, each is checked.
        return layout("int64")


def _digits(type_name: str | None) -> int:
    """The digits of a decimal's type; 0 of others."""
    found = re.match(r"decimal\((\d+)", type_name or "")
    return int(found[1]) if found else 0


def _array(tensors: Tensors, field: Field) -> Any:
    """The values of a column; those that a delete by values takes for equal are equal.

    Each NaN equals each other one, and 0.0 is not -0.0.
    """
    arrow = importlib.import_module("pyarrow")
    found = tensors[field.name]
    if isinstance(found, Jagged):
        valid = None if found.valid is None else _marks(found.valid)
        buffers = [valid, arrow.py_buffer(found.offsets.numpy()), arrow.py_buffer(found.values.numpy())]
        return arrow.Array.from_buffers(arrow.large_binary(), len(found), buffers)
    values, valid = found.numpy(), _marks(tensors[f"{field.name}_valid"])
    if field.unit is not None and field.unit.startswith("decimal"):
        values = _decimal_bytes(values)
    elif values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values).astype(np.float64).view(np.int64)
    elif values.ndim == 1:
        values = values.astype(np.int64)
    kind = arrow.int64() if values.ndim == 1 else arrow.binary(values.shape[1])
    buffers = [valid, arrow.py_buffer(np.ascontiguousarray(values))]
    return arrow.Array.from_buffers(kind, len(values), buffers)


def _marks(valid: Any) -> Any:
    """Marks of rows that are not null, as Arrow has them."""
    return importlib.import_module("pyarrow").py_buffer(np.packbits(valid.numpy(), bitorder="little"))


def _decimal_bytes(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The integers of decimals as bytes, the highest first: numbers, or bytes of any count."""
    if values.ndim == 1:
        values = values.astype(">i8").view(np.uint8).reshape(-1, 8)
    sign = np.where(values[:, :1] > 127, np.uint8(255), np.uint8(0))
    return np.hstack([np.repeat(sign, DECIMAL_BYTES - values.shape[1], axis=1), values])


class _LastDeletes:
    """Of each value that is deleted, the number of the last file that deletes it, in each partition.

    Args:
        rows: of parts of what is deleted: the values of each column, the numbers, and the partitions.
        parts: how many partitions there are.
    """

    def __init__(self, rows: Sequence[tuple[list[Any], Numbers, Numbers]], parts: int) -> None:
        arrow = importlib.import_module("pyarrow")
        of_columns, numbers, of_parts = zip(*rows, strict=True)
        self._slots = parts + 1
        self._keys = _Keys([arrow.chunked_array(chunks) for chunks in zip(*of_columns, strict=True)])
        keys = self._keys.places(self._keys.columns)
        self._known, place = np.unique(keys * self._slots + np.concatenate(of_parts) + 1, return_inverse=True)
        self._numbers = np.zeros(len(self._known), np.int64)
        np.maximum.at(self._numbers, place, np.concatenate(numbers))

    def numbers(self, values: list[Any], parts: Numbers) -> Numbers:
        """The number of the last file that deletes the values of each row, in its partition; else -1."""
        keys = self._keys.places(values)
        everywhere, there = (self._of(keys, part) for part in (np.full_like(parts, EVERYWHERE), parts))
        return np.maximum(everywhere, there)

    def _of(self, keys: Numbers, parts: Numbers) -> Numbers:
        place = _places(self._known, np.where(keys < 0, -1, keys * self._slots + parts + 1))
        return np.where(place < 0, -1, self._numbers[place])


@dataclass
class _Keys:
    """The different values that rows of some columns have together, numbered.

    Args:
        columns: the values of each column, in one order of rows.
    """

    columns: list[Any]

    def __post_init__(self) -> None:
        self._values = [column.unique() for column in self.columns]
        # Of each column but the first, the different pairs of what is before it and its own value.
        self._pairs: list[Numbers] = []
        found, *others = map(self._indices, range(len(self.columns)), self.columns)
        for values, own in zip(self._values[1:], others, strict=True):
            self._pairs.append(np.unique(found * len(values) + own))
            found = _places(self._pairs[-1], found * len(values) + own)

    def places(self, columns: list[Any]) -> Numbers:
        """The number of the values of each row; -1 if they are none of these."""
        found, *others = map(self._indices, range(len(columns)), columns)
        steps = zip(self._values[1:], others, self._pairs, strict=True)
        return reduce(lambda before, step: self._step(before, *step), steps, found)

    @staticmethod
    def _step(before: Numbers, values: Any, own: Numbers, pairs: Numbers) -> Numbers:
        return _places(pairs, np.where((before < 0) | (own < 0), -1, before * len(values) + own))

    def _indices(self, number: int, column: Any) -> Numbers:
        """The place of each value of a column among the different ones; -1 of others."""
        compute = importlib.import_module("pyarrow.compute")
        found = compute.index_in(column, value_set=self._values[number], skip_nulls=False)
        return np.asarray(found.fill_null(-1).to_numpy(), np.int64)


def _places(known: Numbers, numbers: Numbers) -> Numbers:
    """The place of each number among known ones that ascend; -1 of others."""
    place = np.searchsorted(known, numbers)
    place[place == len(known)] = 0
    return np.where(known[place] == numbers, place, -1)
