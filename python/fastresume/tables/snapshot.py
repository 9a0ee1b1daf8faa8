"""What a snapshot of a table says about its files, whatever kind of table it is."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import of_buffer, of_words

OF_WRITERS = re.compile("unsafe_rename|locking_provider|dynamo", re.IGNORECASE)
"""In the names of options that say how commits are written."""

_Value = TypeVar("_Value")

FileValue = int | float | str | bytes | None
"""A value that a column has in all rows of a file."""


def of_readers(options: Mapping[str, _Value]) -> dict[str, _Value]:
    """Options without those that say how commits are written."""
    return {name: value for name, value in options.items() if not OF_WRITERS.search(str(name))}


def file_value(value: object, type_name: str | None = None) -> FileValue:
    r"""A value of a file, as columns of its type have it in files.

    Days, microseconds and nanoseconds are counted from 1970; decimals are the bytes of their integers, the
    highest first.

    Examples:
        >>> file_value("2024-02-29", "date[day]"), file_value("00:00:01.5", "time[us]")
        (19782, 1500000)
        >>> file_value(decimal.Decimal("-1.5"), "decimal(9, 2)"), file_value("00ff", "binary")
        (b'\xff\xff\xffj', b'\x00\xff')
    """
    kind = type_name or ""
    if value is None:
        return None
    if kind.startswith("decimal("):
        return _unscaled(value, kind)
    if kind.startswith("timestamp["):
        return _since_1970(value, "ns" if kind.startswith("timestamp[ns") else "us")
    if kind == "date[day]" and isinstance(value, str):
        value = dt.date.fromisoformat(value)
    if kind == "time[us]" and isinstance(value, str):
        value = dt.time.fromisoformat(value)
    if kind == "uuid":
        return value.bytes if isinstance(value, uuid.UUID) else _uuid(value)
    if isinstance(value, str) and (kind == "binary" or kind.startswith("fixed_size_binary[")):
        return bytes.fromhex(value)
    if isinstance(value, dt.datetime):
        return _since_1970(value, "us")
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    if isinstance(value, int | float | str | bytes):
        return value
    return str(value)  # of a type that is not delivered


def _since_1970(value: object, unit: Literal["us", "ns"]) -> int:
    """The ticks of an instant: a number of them, a time, or a text, which is UTC where it has a zone."""
    if isinstance(value, int):
        return value
    if isinstance(value, dt.datetime):
        whole = value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
        value = whole.isoformat()
    text = re.sub(r"(Z|\+00:00)$", "", str(value))
    return int(np.datetime64(text, unit).astype(np.int64))


def _unscaled(value: object, type_name: str) -> bytes:
    """The bytes of a decimal's integer, as many as files have of this type."""
    precision, scale = map(int, re.findall(r"\d+", type_name))
    with decimal.localcontext() as context:
        context.prec = 100
        whole = int(decimal.Decimal(str(value)).scaleb(scale).to_integral_exact())
    return whole.to_bytes(((10**precision - 1).bit_length() + 8) // 8, "big", signed=True)


def _uuid(value: object) -> bytes:
    return value if isinstance(value, bytes) else uuid.UUID(str(value)).bytes


def plain_address(address: str) -> str:
    """An address as paths have it: that of a local file is a path, `s3a://` is `s3://`.

    Examples:
        >>> plain_address("file:/data/x"), plain_address("file:///data/x"), plain_address("s3a://bucket/x")
        ('/data/x', '/data/x', 's3://bucket/x')
    """
    for theirs, ours in (("file:///", "/"), ("file:/", "/"), ("s3a://", "s3://"), ("s3n://", "s3://")):
        if address.startswith(theirs):
            return ours + address.removeprefix(theirs)
    return address


@dataclass(frozen=True)
class TableColumn:
    """A column of the table: a leaf of its schema, or a struct.

    Args:
        name: what it is called now; inside of structs and maps with dots, as columns of files are.
        field_id: the id of its field, by which files that have ids know it; of a list, that of its elements.
        names_in_files: what files without ids call it, each by one of these; none of one that is in no file.
        type_name: its type, in lists that of their elements; None of a struct.
        lists: how many lists and maps it is in.
        structs: the names of the structs that it is in, from the outermost on.
        is_struct: whether it is a struct, which has no values of its own.
        is_there: whether a struct that files lack is there, with what its members are by default.
    """

    name: str
    field_id: int | None = None
    names_in_files: Sequence[str] = ()
    type_name: str | None = None
    lists: int = 0
    structs: Sequence[str] = ()
    is_struct: bool = False
    is_there: bool = False


@dataclass(frozen=True)
class SnapshotName:
    """The table that a dataset reads, and which snapshot.

    Args:
        kind: "Delta" or "Iceberg".
        table: its path or address, or its name in a catalog.
        version: the number of the snapshot.
        rewritten_by: the last commit that removed or rewrote rows, in words; None if none did.
        before: the number of the snapshot before that commit; None if none is left.
        lost: what of the table's history is gone, in words; None if nothing is.
    """

    kind: str
    table: str
    version: int
    rewritten_by: str | None = None
    before: int | None = None
    lost: str | None = None

    @property
    def hint(self) -> str:
        """What is to be said of it where a state does not fit."""
        if self.lost is not None:
            by = self.rewritten_by
            rewritten = "" if by is None else f", and the last that it tells to have rewritten rows is {by}"
            return (
                f"This is {self}, of whose history a part was cleaned: {self.lost}{rewritten}. Files of "
                "older commits are in the order that names and times show, which may be another one than "
                "that of the state: finish a pass before the history is cleaned, or begin a new one"
            )
        if self.rewritten_by is None:
            return f"This is {self}; no commit that its log has removed rows: the state is of another table"
        found = f"This is {self}; the last that removed or rewrote rows of it was {self.rewritten_by}"
        if self.before is None:
            return f"{found}, and no snapshot before that is left"
        return (
            f"{found}: name the snapshot before that, by '?version={self.before}' at the end of its address; "
            "dataset.remaining(state) of it is what is left"
        )

    def __str__(self) -> str:
        return f"version {self.version} of the {self.kind} table '{self.table}'"


@dataclass(frozen=True)
class DeletingFile:
    """A file whose rows delete those of older files that have the same values; null is a value.

    Args:
        path: its path or address.
        columns: the names of the columns that are compared.
        values: those of columns that may not be in it.
        number: files of smaller numbers lose rows.
        part: the partition whose files lose rows; None of all.
    """

    path: str
    columns: tuple[str, ...]
    values: Mapping[str, FileValue]
    number: int
    part: int | None


@dataclass(frozen=True)
class DeletedValues:
    """What is deleted by values.

    Args:
        by: the files that say so.
        numbers: of each file of the table, by its place, the number of the commit that added it.
        parts: of each, its partition.
    """

    by: Sequence[DeletingFile]
    numbers: npt.NDArray[np.int64]
    parts: npt.NDArray[np.int64]

    def reordered(self, order: Sequence[int]) -> DeletedValues:
        """The same with the files in another order."""
        return replace(self, numbers=self.numbers[list(order)], parts=self.parts[list(order)])


@dataclass(frozen=True)
class Snapshot:
    """The files of a snapshot, and what the table says about them.

    Args:
        name: which one it is.
        files: their paths or addresses, in the order of the commits that added them.
        columns: those of the table, in its order.
        values: of each file, those of columns that may not be in it.
        deleted: of files that have deleted rows, by their place in `files`: the numbers of these rows.
        storage_options: how the table's store is reached, as its object says; None if that says nothing.
        shared_names: names that two columns have had, so that files without ids do not tell which one they
            hold.
        other_orders: orders that the files may have had before a part of the table's
            history was cleaned.
        unused_properties: names of what the table's object says of its store, and that is not passed on.
        deleted_values: what is deleted by values, if anything is.
    """

    name: SnapshotName
    files: Sequence[str]
    columns: Sequence[TableColumn]
    values: Sequence[Mapping[str, FileValue]]
    deleted: Mapping[int, npt.NDArray[np.int64]]
    storage_options: Mapping[str, str] | None = None
    shared_names: Sequence[str] = ()
    unused_properties: Sequence[str] = ()
    other_orders: Sequence[Sequence[int]] = ()
    deleted_values: DeletedValues | None = None

    def reached_by(self, named: Mapping[str, object] | None) -> Mapping[str, object] | None:
        """How the store of the files is reached: as `storage_options` say, else as the table's object does.

        What concerns only writers of tables is left out.
        """
        options = self.storage_options if named is None else named
        if not isinstance(options, Mapping):  # None, or a mistake that is raised where stores are made
            return options
        return of_readers(options)

    def reordered(self, order: Sequence[int]) -> Snapshot:
        """The same files in another order."""
        return replace(
            self,
            files=[self.files[file] for file in order],
            values=[self.values[file] for file in order],
            deleted={place: self.deleted[file] for place, file in enumerate(order) if file in self.deleted},
            deleted_values=None if self.deleted_values is None else self.deleted_values.reordered(order),
        )

    def live(self, manifest: _core.Manifest) -> _core.Manifest:
        """The manifest of the files, in which rows that are deleted by their places are not selected.

        Raises:
            DataError: if rows are deleted that a file does not have.
        """
        if not self.deleted:
            return manifest
        starts, groups = of_words(manifest.group_starts), of_words(manifest.file_groups)
        numbers = []
        for file, rows in self.deleted.items():
            first, end = int(starts[groups[file]]), int(starts[groups[file + 1]])
            if rows.max(initial=-1) >= end - first:
                raise _core.DataError(
                    f"{self.name} has deleted row {rows.max()} of file '{self.files[file]}', which has "
                    f"{end - first}"
                )
            numbers.append(rows + first)
        gone = np.concatenate(numbers)
        gone = np.ascontiguousarray(np.column_stack([gone, gone + 1]))
        return manifest.select(of_buffer(_core.remaining(gone, manifest.num_rows)))
