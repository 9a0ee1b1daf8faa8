"""The table that `paths` names, if it names one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import fastresume._core as _core
from fastresume.options.checks import at_least, path_list, quoted
from fastresume.tables.delta import open_delta
from fastresume.tables.iceberg import open_iceberg
from fastresume.tables.snapshot import Snapshot

DELTA = "delta://"
ICEBERG = "iceberg://"


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
    if _is_of("deltalake", alone):
        return open_delta(alone, number, options())
    if isinstance(alone, str) and alone.startswith(DELTA):
        return open_delta(alone.removeprefix(DELTA), number, options())
    if _is_of("pyiceberg", alone):
        return open_iceberg(alone, number)
    if isinstance(alone, str) and alone.startswith(ICEBERG):
        return open_iceberg(alone.removeprefix(ICEBERG), number)
    if isinstance(paths, Sequence) and not isinstance(paths, str):
        for entry in paths:
            is_named = isinstance(entry, str) and entry.startswith((DELTA, ICEBERG))
            if is_named or _is_of("deltalake", entry) or _is_of("pyiceberg", entry):
                raise ValueError(f"a table is read alone, found it among other paths: {quoted(paths)}")
    if number is not None:
        raise ValueError(
            f"version={number} names a snapshot of a table, and paths name files: write 'delta://' before "
            "the table's path"
        )
    return None


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


def _is_of(package: str, value: object) -> bool:
    # Without an import: whoever passes a table has imported its package.
    return any(of.__module__.partition(".")[0] == package for of in type(value).__mro__)
