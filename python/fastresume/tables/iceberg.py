"""The snapshots of Iceberg tables, as the package `pyiceberg` reads them."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.options.checks import quoted
from fastresume.tables.failures import fail
from fastresume.tables.iceberg_fields import Field, FieldNames
from fastresume.tables.snapshot import (
    FileValue,
    Snapshot,
    SnapshotName,
    TableColumn,
    file_value,
    plain_address,
)

STORE_OPTIONS = {
    "s3.endpoint": "aws_endpoint_url",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "s3.region": "aws_region",
}
"""What a catalog tells of the store of its tables, in the words of `storage_options`."""


def open_iceberg(table: Any, version: int | None) -> Snapshot:
    """A snapshot of a table.

    Args:
        table: `catalog/namespace.table`, or a `pyiceberg.table.Table`.
        version: the id of the snapshot; the present one, or that of the object, if None.

    Raises:
        ImportError: if `pyiceberg` is not installed.
        ValueError: if the name is none of a table.
        SourceError: if there is no such catalog, table or snapshot.
        DataError: if the table has what can't be read exactly.
    """
    try:
        from pydantic import ValidationError
        from pyiceberg.catalog import load_catalog
    except ImportError as cause:
        raise ImportError(
            "iceberg:// needs the package pyiceberg: pip install 'fastresume[iceberg]'"
        ) from cause

    named = table if isinstance(table, str) else ".".join(table.name())
    if isinstance(table, str):
        catalog, _, path = table.partition("/")
        if "." not in path or not all([catalog, *path.split(".")]):
            raise ValueError(
                f"'iceberg://{table}' names no table: write 'iceberg://catalog/namespace.table', where the "
                "catalog is one of .pyiceberg.yaml or of the environment (PYICEBERG_CATALOG__NAME__URI)"
            )
    try:
        return _snapshot(_loaded(load_catalog, table) if isinstance(table, str) else table, named, version)
    except (_core.SourceError, _core.DataError):
        raise
    except ValidationError:
        # Its text has parts of the answer, which may be anything.
        raise _core.SourceError(
            f"can't read the Iceberg table '{named}': what it answers is not in the form of a table that "
            "this release of pyiceberg knows"
        ) from None
    except Exception as cause:  # noqa: BLE001  (drivers of databases and damaged files have errors of their own)
        fail(f"can't read the Iceberg table '{named}'", cause)


def _loaded(load_catalog: Callable[[str], Any], name: str) -> Any:
    from pydantic import ValidationError

    catalog, _, path = name.partition("/")
    try:
        opened = load_catalog(catalog)
    except ValidationError:
        raise
    except ValueError as cause:
        raise _core.SourceError(f"can't open the Iceberg catalog {quoted(catalog)}: {cause}") from cause
    return opened.load_table(path)


def _snapshot(table: Any, name: str, version: int | None) -> Snapshot:
    snapshot = table.current_snapshot() if version is None else table.snapshot_by_id(version)
    if snapshot is None:
        of = "no snapshot yet: append rows to it first" if version is None else f"no snapshot {version}"
        raise _core.SourceError(f"the Iceberg table '{name}' has {of}")
    by_id = {each.snapshot_id: each for each in table.snapshots()}
    commits = {each: place for place, each in enumerate(by_id)}
    entries = list(_entries(table, snapshot))
    data = [entry for entry in entries if not int(entry.data_file.content)]

    def place(entry: Any) -> tuple[int, int, str]:
        # Tables of format 1 number no commits.
        number = commits.get(entry.snapshot_id, -1)
        return entry.sequence_number or 0, number, entry.data_file.file_path

    data.sort(key=place)
    for entry in data:
        if entry.data_file.file_format.value != "PARQUET":
            kind = entry.data_file.file_format.value
            raise _core.DataError(
                f"the Iceberg table '{name}' has the {kind} file '{entry.data_file.file_path}': only Parquet "
                "is read, so write the table anew with write.format.default=parquet"
            )
    schema = table.schemas().get(snapshot.schema_id) if version is not None else table.schema()
    names = FieldNames(table, name, [entry.data_file.file_path for entry in data])
    fields = list(names.fields(schema or table.schema()))
    return Snapshot(
        SnapshotName("Iceberg", name, snapshot.snapshot_id, _rewritten_by(snapshot, by_id)),
        [plain_address(entry.data_file.file_path) for entry in data],
        [TableColumn(field.path, names.of(field), field.type_name, field.is_struct) for field in fields],
        _values(table.specs(), fields, [entry.data_file for entry in data]),
        _deleted(table, name, data, [entry for entry in entries if int(entry.data_file.content)]),
        _options(table.io.properties),
    )


def _entries(table: Any, snapshot: Any) -> Iterator[Any]:
    for manifest in snapshot.manifests(table.io):
        yield from manifest.fetch_manifest_entry(table.io)


def _rewritten_by(snapshot: Any, by_id: Mapping[int, Any]) -> str | None:
    """The last commit that removed or rewrote rows, in words."""
    at = snapshot
    while at is not None:
        operation = at.summary.operation.value if at.summary else "append"
        if operation != "append":
            return f"snapshot {at.snapshot_id} ({operation})"
        at = by_id.get(at.parent_snapshot_id)
    return None


def _options(told: Mapping[str, Any]) -> dict[str, str] | None:
    found = {ours: str(told[theirs]) for theirs, ours in STORE_OPTIONS.items() if told.get(theirs)}
    if found.get("aws_endpoint_url", "").startswith("http://"):
        found["aws_allow_http"] = "true"
    return found or None


def _values(specs: Mapping[int, Any], fields: list[Field], files: list[Any]) -> list[dict[str, FileValue]]:
    """Of each file, what columns that it may lack are there: as its partition says, or by default."""
    defaults: dict[str, FileValue] = {
        field.path: field.default for field in fields if field.default is not None
    }
    told = {field.number: field.path for field in fields if field.type_name is not None}
    parts = {
        number: [
            (place, told[part.source_id])
            for place, part in enumerate(spec.fields)
            if str(part.transform) == "identity" and part.source_id in told
        ]
        for number, spec in specs.items()
    }
    return [
        defaults | {name: file_value(file.partition[place]) for place, name in parts.get(file.spec_id, ())}
        for file in files
    ]


# ---------------------------------------------------------------------------------------------------- deletes


def _deleted(table: Any, name: str, data: list[Any], deletes: list[Any]) -> dict[int, npt.NDArray[np.int64]]:
    """The deleted rows of files, by their places."""
    places = {entry.data_file.file_path: place for place, entry in enumerate(data)}
    found: dict[int, list[npt.NDArray[np.int64]]] = defaultdict(list)
    # A file of deletion vectors has an entry for each of its vectors.
    for file_path, entry in {entry.data_file.file_path: entry for entry in deletes}.items():
        kind = entry.data_file.file_format.value
        if int(entry.data_file.content) != 1 or kind not in ("PARQUET", "PUFFIN"):
            what = "equality deletes" if int(entry.data_file.content) != 1 else f"deletes in {kind}"
            raise _core.DataError(
                f"the Iceberg table '{name}' has {what} ('{Path(file_path).name}'), which are not read "
                "yet: compact the table (rewrite_data_files), or name a version= before them"
            )
        for path, rows in (_vectors if kind == "PUFFIN" else _positions)(table, file_path):
            place = places.get(path)
            # Of files that are gone; and a file that came later has other rows.
            if place is None or (data[place].sequence_number or 0) > (entry.sequence_number or 0):
                continue
            found[place].append(rows)
    return {place: np.unique(np.concatenate(rows)) for place, rows in found.items()}


def _positions(table: Any, path: str) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """What a file of position deletes deletes: of each file the rows."""
    compute = importlib.import_module("pyarrow.compute")
    parquet = importlib.import_module("pyarrow.parquet")
    with table.io.new_input(path).open() as opened:
        told = parquet.read_table(opened, columns=["file_path", "pos"])
    for file in compute.unique(told["file_path"]).to_pylist():
        rows = told.filter(compute.equal(told["file_path"], file))["pos"]
        yield file, rows.to_numpy().astype(np.int64)


def _vectors(table: Any, path: str) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """What a file of deletion vectors deletes: of each file the rows."""
    # A vector that a later one of the same file replaces is part of that.
    puffin = importlib.import_module("pyiceberg.table.puffin")
    vectors = importlib.import_module("pyiceberg.table.deletion_vector")
    with table.io.new_input(path).open() as opened:
        content = puffin.PuffinFile(opened.read())
    for vector in vectors.deletion_vectors_from_puffin_file(content):
        yield vector.referenced_data_file, vector.to_vector().to_numpy().astype(np.int64)
