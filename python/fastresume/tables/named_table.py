"""The table that `paths` names, if it names one."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence

import fastresume._core as _core
from fastresume.options.checks import at_least, path_list, quoted
from fastresume.tables.delta import open_delta
from fastresume.tables.iceberg import open_iceberg
from fastresume.tables.snapshot import Snapshot

_log = logging.getLogger("fastresume")

DELTA = "delta://"
ICEBERG = "iceberg://"

TABLES = {
    "deltalake": ("deltalake.DeltaTable", "table_uri"),
    "pyiceberg": ("pyiceberg.table.Table", "snapshot_by_id"),
}
"""What each package calls its tables, and an attribute that these have."""


def open_table(
    paths: object, version: int | None, options: Callable[[], Mapping[str, str] | None]
) -> Snapshot | None:
    """The snapshot of the table that `paths` is; None of paths of files.

    Args:
        paths: what the user passed: `delta://` and a path or address, `iceberg://catalog/namespace.table`,
            a `deltalake.DeltaTable`, or a `pyiceberg.table.Table`.
        version: the number of the snapshot; the latest one if None.
        options: tells how the table's store is reached.

    Raises:
        ValueError: if `version` is given for files, or a table is named beside other paths.
        ImportError: if the package that reads such tables is not installed.
        SourceError, DataError: if the table can't be read.
    """
    number = None if version is None else at_least(0, "version", version, bits=63)
    alone = paths[0] if isinstance(paths, list | tuple) and len(paths) == 1 else paths
    found = _open(alone, number, options)
    if found is not None:
        if not found.files:
            raise _core.SourceError(
                f"{found.name} has no files: append rows to it first, or name another version="
            )
        return found
    if any(map(_is_table, _entries(paths))):
        raise ValueError(f"a table is read alone, found it among other paths: {quoted(paths)}")
    if number is not None:
        raise ValueError(
            f"version={number} names a snapshot of a table, and paths name files: write 'delta://' before "
            "the table's path"
        )
    return None


def _open(
    table: object, number: int | None, options: Callable[[], Mapping[str, str] | None]
) -> Snapshot | None:
    package = _package(table)
    if package in TABLES and not hasattr(table, TABLES[package][1]):
        raise TypeError(f"paths is a {type(table).__name__} of {package}: pass its {TABLES[package][0]}")
    if package == "deltalake":
        return open_delta(table, number, options())
    if isinstance(table, str) and table.startswith(DELTA):
        return open_delta(table.removeprefix(DELTA), number, options())
    if package == "pyiceberg":
        return open_iceberg(table, number)
    if isinstance(table, str) and table.startswith(ICEBERG):
        return open_iceberg(table.removeprefix(ICEBERG), number)
    return None


def open_files(
    paths: list[list[str]],
    stores: _core.Stores,
    cache: str | None,
    verifies_checksums: bool,
    max_page_bytes: int,
    table: Snapshot | None,
) -> _core.Manifest:
    """The manifest of files, as their table has them if they are one's.

    Raises:
        SourceError, DataError: if a file can't be read.

    Warns:
        UserWarning: if the cache can't be written.
    """
    try:
        manifest = _core.Manifest.open(paths, stores, cache, verifies_checksums, max_page_bytes, table)
    except _core.SourceError as error:
        if table is None:
            raise
        if str(error).startswith(("no such file", "no object")):
            raise _core.SourceError(
                f"{error}. It is a file of {table.name}: where old files were removed (VACUUM, "
                "expire_snapshots), version= names a newer one"
            ) from None
        if not table.unused_properties:
            raise
        raise _core.SourceError(
            f"{error}. Of what the catalog says of the store, {', '.join(table.unused_properties)} is not "
            "passed on: storage_options= or credentials= say it otherwise"
        ) from None
    if (cause := manifest.not_cached()) is not None:
        warnings.warn(cause, stacklevel=5)
    if (names := manifest.second_names()) is not None:  # some link files in order to read them twice
        _log.warning(names)
    return manifest


def open_manifest(path: str) -> _core.Manifest:
    """The manifest of the files that a path names, or of the table at an address; as the environment says.

    Raises:
        ImportError: if the package that reads such tables is not installed.
        SourceError, DataError: if the table or a file can't be read.
    """
    table = open_table(path, None, lambda: None)
    if table is None:
        return _core.Manifest.open([path_list(path)], _core.Stores())
    return table.live(_core.Manifest.open([[file] for file in table.files], _core.Stores(), table=table))


def _entries(paths: object) -> Iterator[object]:
    """The entries of lists of paths, and of lists of these."""
    if isinstance(paths, Sequence) and not isinstance(paths, str | bytes):
        for entry in paths:
            yield from _entries(entry)
    else:
        yield paths


def _is_table(entry: object) -> bool:
    return _package(entry) in TABLES or (isinstance(entry, str) and entry.startswith((DELTA, ICEBERG)))


def _package(value: object) -> str | None:
    """The package of tables that a value is of. None is imported: whoever passes a table has done so."""
    packages = (of.__module__.partition(".")[0] for of in type(value).__mro__)
    return next((package for package in packages if package in TABLES), None)
