"""The table that `paths` names, if it names one."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import fastresume._core as _core
from fastresume.messages import warn
from fastresume.options.checks import at_least, quoted
from fastresume.tables.delta import open_delta
from fastresume.tables.delta_log import LOG
from fastresume.tables.iceberg import of_scan, open_iceberg
from fastresume.tables.snapshot import Snapshot

_log = logging.getLogger("fastresume")

DELTA = "delta://"
ICEBERG = "iceberg://"

MOST_PAGE_BYTES = 1 << 30
"""A page that takes more when it is decompressed is an error, before memory is taken for it: a few kB of a
file may state 2 GiB. Writers end a page after a megabyte, or after a thousand cells."""

BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)[^{}]*\}")
"""Several files in one text, as shells and WebDataset write them: part-{0,1} or part-{000..127}."""

_METADATA = ".metadata.json"
"""How the names end of what Iceberg says of a table."""

TABLES = {
    "deltalake": ("deltalake.DeltaTable", "table_uri"),
    "pyiceberg": ("pyiceberg.table.Table", "snapshot_by_id"),
}
"""What each package calls its tables, and an attribute that these have."""


def open_table(paths: object, options: Callable[[], Mapping[str, str] | None]) -> Snapshot | None:
    """The snapshot of the table that `paths` is; None of paths of files.

    Args:
        paths: what the user passed: `delta://` and a path or address, `iceberg://catalog/namespace.table`,
            with or without `?version=12` at its end, a `deltalake.DeltaTable`, a `pyiceberg.table.Table`,
            or what its `scan(snapshot_id=)` returns.
        options: tells how the table's store is reached.

    Raises:
        ValueError: if a table is named beside other paths, or only a part of one is.
        ImportError: if the package that reads such tables is not installed.
        SourceError, DataError: if the table can't be read.
    """
    alone = paths[0] if isinstance(paths, list | tuple) and len(paths) == 1 else paths
    found = _open(alone, options)
    if found is not None:
        if not found.files:
            raise _core.SourceError(
                f"{found.name} has no files: append rows to it first, or name another version"
            )
        return found
    if any(map(names_table, _entries(paths))):
        raise ValueError(f"a table is read alone, found it among other paths: {quoted(paths)}")
    return None


def _open(table: object, options: Callable[[], Mapping[str, str] | None]) -> Snapshot | None:
    package = _package(table)
    if package == "pyiceberg" and hasattr(table, "table_metadata"):
        return open_iceberg(*of_scan(table))
    if package in TABLES and not hasattr(table, TABLES[package][1]):
        raise TypeError(f"paths is a {type(table).__name__} of {package}: pass its {TABLES[package][0]}")
    if package == "deltalake":
        return open_delta(table, None, options())
    if package == "pyiceberg":
        return open_iceberg(table, None)
    if isinstance(table, str) and table.startswith((DELTA, ICEBERG)):
        address, version = _at_version(table)
        if address.startswith(DELTA):
            return open_delta(address.removeprefix(DELTA), version, options())
        return open_iceberg(address.removeprefix(ICEBERG), version)
    return None


def _at_version(address: str) -> tuple[str, int | None]:
    """The address of a table, and the number at its end."""
    found, is_named, version = address.rpartition("?version=")
    if not is_named:
        return address, None
    if not version.isdecimal():
        raise ValueError(
            f"the version of a table is a number, as {found}?version=12, found {quoted(version)}"
        )
    return found, at_least(0, "the version of a table", int(version), bits=63)


def open_files(
    paths: list[list[str]],
    stores: _core.Stores,
    cache: str | None,
    verifies_checksums: bool,
    table: Snapshot | None,
) -> _core.Manifest:
    """The manifest of files, as their table has them if they are one's.

    Raises:
        SourceError, DataError: if a file can't be read.

    Warns:
        UserWarning: if the cache can't be written.
    """
    try:
        manifest = _core.Manifest.open(paths, stores, cache, verifies_checksums, MOST_PAGE_BYTES, table)
    except _core.DataError:
        log = None if table is not None else _log_of(path for generation in paths for path in generation)
        if log is None:
            raise
        raise _core.DataError(log) from None
    except _core.SourceError as error:
        if table is None:
            if (log := _log_of(path for generation in paths for path in generation)) is not None:
                raise _core.SourceError(log) from None
            way = _listed(path for generation in paths for path in generation) if error.is_missing else None
            if way is None:
                raise
            raise _core.SourceError(f"{error}. {way}") from None
        if error.is_missing:
            raise _core.SourceError(
                f"{error}. It is a file of {table.name}: where old files were removed (VACUUM, "
                "expire_snapshots), name a newer one, as '?version=12' at the end of its address"
            ) from None
        if not table.unused_properties:
            raise
        raise _core.SourceError(
            f"{error}. Of what the catalog says of the store, {', '.join(table.unused_properties)} is not "
            "passed on: storage_options= or credentials= say it otherwise"
        ) from None
    if (cause := manifest.not_cached()) is not None:
        warn(cause)
    if (names := manifest.second_names()) is not None:  # some link files in order to read them twice
        _log.warning(names)
    return manifest


def _log_of(paths: Iterable[str]) -> str | None:
    """What to write instead of the log of a table, which has no rows; None if no path is one."""
    for name in paths:
        path = Path(name)
        absolute = path.absolute()
        log = next((one for one in (absolute, *absolute.parents) if one.name == LOG), None)
        if log is not None:
            way = f"write {quoted(DELTA + str(log.parent))}"
            return f"'{name}' is of the log of a Delta table, which has no rows: {way}"
        newest = name if name.endswith(_METADATA) else _newest(path)
        if newest is not None:
            way = f"write pyiceberg.table.StaticTable.from_metadata({newest!r}) instead of a path"
            return f"'{name}' is the metadata of an Iceberg table, which has no rows: {way}"
    return None


def _newest(folder: Path) -> str | None:
    """The file of an Iceberg table's metadata that is the newest of a folder; None if it has none."""
    try:
        found = [(one.stat().st_mtime_ns, str(one)) for one in folder.glob(f"*{_METADATA}")]
    except (OSError, ValueError):
        return None
    return max(found)[1] if found else None


def _listed(paths: Iterable[str]) -> str | None:
    """What to write for files that are listed in one text; None if none is."""
    for path in paths:
        if BRACES.search(path):
            return f"Braces mean nothing here: write a list of paths, or {quoted(BRACES.sub('*', path))}"
        if ".parquet," in path:
            return f"One text names one path: write a list, as {quoted(path.split(','))}"
    return None


def _entries(paths: object) -> Iterator[object]:
    """The entries of lists of paths, and of lists of these."""
    if isinstance(paths, Sequence) and not isinstance(paths, str | bytes):
        for entry in paths:
            yield from _entries(entry)
    else:
        yield paths


def names_table(entry: object) -> bool:
    """Whether it is a table of Delta or Iceberg, or names one."""
    return _package(entry) in TABLES or (isinstance(entry, str) and entry.startswith((DELTA, ICEBERG)))


def _package(value: object) -> str | None:
    """The package of tables that a value is of. None is imported here: the code that passes a table has."""
    packages = (of.__module__.partition(".")[0] for of in type(value).__mro__)
    return next((package for package in packages if package in TABLES), None)
