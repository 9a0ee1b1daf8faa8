"""Arrow's files and streams as a source of rows: `.arrow`, `.arrows`, `.feather`, `.ipc`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import fastresume._core as _core
from fastresume.options.checks import path_generations, quoted
from fastresume.sources.saved_dataset import check_met, data_files
from fastresume.sources.schema import arrow, check_names, footer_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa

ARROW_SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")
"""How names of Arrow's files end: those that a directory means."""

Part = tuple[str | os.PathLike[str], Sequence[int], bytes]


def names_files(source: Any) -> bool:
    """Whether it is a path, or a list of what names files."""
    if isinstance(source, list | tuple) and source:
        return all(names_files(entry) for entry in source)
    return isinstance(source, str | os.PathLike)


def names_arrow(path: str) -> bool:
    """Whether it names Arrow's files: by its end, or by those that a directory has and no Parquet files."""
    if path.endswith(ARROW_SUFFIXES):
        return True
    if not Path(path).is_dir():
        return False
    ends = {found.suffix for found in Path(path).rglob("*.*")}
    return ".parquet" not in ends and not ends.isdisjoint(ARROW_SUFFIXES)


class IpcFiles:
    """Files of the same columns, whose batches the core reads.

    Args:
        files: the files, as the core knows them.
        schema: their columns.
    """

    def __init__(self, files: _core.ArrowFiles, schema: pa.Schema) -> None:
        self._files, self._schema = files, schema

    def named(self, error: _core.DataError) -> _core.DataError:
        """The error of what the core finds in the columns of all files, with the first one of these."""
        return _in_file(error, self._first(), "its columns are damaged: ")

    def _first(self) -> os.PathLike[str]:
        return self._files.parts()[0][0]

    @classmethod
    def of(cls, source: Any, stores: _core.Stores) -> Self:
        """The files that paths, patterns, directories and addresses name.

        Raises:
            SourceError: if one names no file, or a file can't be read.
            DataError: if a file is damaged or none of Arrow's, has other columns than the first one, or is no
                data file of the saved dataset in its folder.
        """
        named = [[file for path in some for file in data_files(path)] for some in path_generations(source)]
        each = [path for some in named for path in some]
        listed = _core.ArrowSchemas.list(named, stores)
        (first, message), *others = distinct = listed.distinct()
        check_met((path for path, _ in distinct), each)
        schema = _schema(message, first)
        for path, message in others:
            if not (own := _schema(message, path)).equals(schema):
                raise _core.DataError(
                    f"its columns differ from those of '{os.fspath(first)}': found {quoted(str(own))}, "
                    f"expected {quoted(str(schema))} (file '{os.fspath(path)}')"
                )
        try:
            files = listed.open(schema)
        except _core.DataError as error:  # of a type, it names the column alone
            raise _in_file(error, first) from None
        check_met((path for path, *_ in files.parts()), each)
        return cls(files, schema_of(schema))

    def rows(self) -> _core.Rows:
        """What the core reads the rows from.

        Raises:
            DataError: naming the first column that can't be delivered, and a file that has it.
        """
        try:
            footer = footer_of(self._schema)
        except _core.DataError as error:
            raise _in_file(error, self._first()) from None
        return self._files.rows(self._schema, footer, (rows_of, self))

    def parts(self, _: _core.Rows) -> Sequence[Part]:
        """The parts, in the order in which their rows are numbered: their hashes are of the metadata."""
        return self._files.parts()


def rows_of(files: IpcFiles) -> _core.Rows:
    """What the core reads the rows of files from, made again from a pickle."""
    return files.rows()


def _in_file(error: _core.DataError, path: os.PathLike[str], what: str = "") -> _core.DataError:
    """The error with the file, if it doesn't name one yet."""
    message = str(error)
    return error if "(file '" in message else _core.DataError(f"{what}{message} (file '{os.fspath(path)}')")


def _schema(message: bytes, path: os.PathLike[str]) -> pa.Schema:
    pyarrow = arrow()
    from pyarrow import ipc

    try:
        schema: pa.Schema = ipc.read_schema(pyarrow.py_buffer(message))
        check_names(schema)
    except MemoryError:  # that of Arrow is an ArrowException, too
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _core.DataError(f"its schema can't be read: {error} (file '{os.fspath(path)}')") from None
    return schema
