"""What a snapshot of a table tells of its files, whatever kind of table it is."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import of_buffer, of_words

OF_WRITERS = re.compile("unsafe_rename|locking_provider|dynamo", re.IGNORECASE)
"""In the names of options that say how commits are written."""

FileValue = int | float | str | bytes | None
"""A value that a column has in all rows of a file."""


def file_value(value: object) -> FileValue:
    """A value of a file, as columns of files have it: dates as days, times as microseconds since 1970."""
    if isinstance(value, dt.datetime):
        whole = value.replace(tzinfo=None) - dt.datetime(1970, 1, 1)
        return (whole.days * 86_400 + whole.seconds) * 10**6 + whole.microseconds
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    return str(value)  # of a type that is not delivered


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
        names_in_files: what files call it, each by one of these names; none of one that is in no file.
        type_name: its type, of a plain value.
        is_struct: whether it is a struct, which has no values of its own.
    """

    name: str
    names_in_files: Sequence[str]
    type_name: str | None
    is_struct: bool


@dataclass(frozen=True)
class SnapshotName:
    """Which snapshot of which table a dataset reads.

    Args:
        kind: "Delta" or "Iceberg".
        table: its path or address, or its name in a catalog.
        version: the number of the snapshot.
        rewritten_by: the last commit that removed or rewrote rows, in words; None if none did.
    """

    kind: str
    table: str
    version: int
    rewritten_by: str | None = None

    @property
    def told(self) -> str:
        """What is to be said of it where a state does not fit."""
        if self.rewritten_by is None:
            return f"This is {self}; no commit that its log has removed rows: version= names an older one"
        return (
            f"This is {self}; the last that removed or rewrote rows of it was {self.rewritten_by}: "
            "version= names a snapshot before that, and dataset.remaining(state) of it what is left"
        )

    def __str__(self) -> str:
        return f"version {self.version} of the {self.kind} table '{self.table}'"


@dataclass(frozen=True)
class Snapshot:
    """The files of a snapshot, and what the table tells of them.

    Args:
        name: which one it is.
        files: their paths or addresses, in the order of the commits that added them.
        columns: those of the table, in its order.
        values: of each file, those of columns that may not be in it.
        deleted: of files that have deleted rows, by their place in `files`: the numbers of these rows.
        storage_options: how the table's store is reached, as its object says; None if that says nothing.
    """

    name: SnapshotName
    files: Sequence[str]
    columns: Sequence[TableColumn]
    values: Sequence[Mapping[str, FileValue]]
    deleted: Mapping[int, npt.NDArray[np.int64]]
    storage_options: Mapping[str, str] | None = None

    def reached_by(self, named: Mapping[str, object] | None) -> Mapping[str, object] | None:
        """How the store of the files is reached: as `storage_options` say, else as the table's object does.

        What only writers of tables are told is left out.
        """
        options = self.storage_options if named is None else named
        if not isinstance(options, Mapping):  # None, or a mistake that is told where stores are made
            return options
        return {name: value for name, value in options.items() if not OF_WRITERS.search(str(name))}

    def live(self, manifest: _core.Manifest) -> _core.Manifest:
        """The manifest of the files, in which the deleted rows are not selected.

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
