"""The snapshots of Iceberg tables, as the package `pyiceberg` reads them."""

from __future__ import annotations

import contextlib
import gzip
import importlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.options.checks import quoted
from fastresume.packages import optional
from fastresume.tables import file_io
from fastresume.tables.failures import fail
from fastresume.tables.iceberg_fields import FieldNames, IcebergField, fields_of, values_of
from fastresume.tables.snapshot import (
    DeletedValues,
    DeletingFile,
    Snapshot,
    SnapshotName,
    plain_address,
)


def open_iceberg(table: Any, version: int | None) -> Snapshot:
    """A snapshot of a table.

    Args:
        table: `catalog/namespace.table`, or a `pyiceberg.table.Table`.
        version: the id of the snapshot; the present one, or that of the object, if None.

    Raises:
        ModuleNotFoundError: if `pyiceberg` is not installed.
        ValueError: if the name is none of a table.
        SourceError: if there is no such catalog, table or snapshot.
        DataError: if the table has what can't be read exactly.
    """
    load_catalog = optional("pyiceberg.catalog", "iceberg://", "'fastresume[iceberg]'").load_catalog
    from pydantic import ValidationError  # of pyiceberg's

    named = table if isinstance(table, str) else ".".join(table.name())
    if isinstance(table, str):
        catalog, _, path = table.partition("/")
        if "." not in path or not all([catalog, *path.split(".")]):
            raise ValueError(
                f"'iceberg://{table}' names no table: write 'iceberg://catalog/namespace.table', where the "
                "catalog is one of .pyiceberg.yaml or of the environment (PYICEBERG_CATALOG__NAME__URI)"
            )
        if catalog.endswith(":") or path.endswith(".metadata.json"):
            raise ValueError(
                f"'iceberg://{table}' names a file of metadata: write ParquetDataset("
                "pyiceberg.table.StaticTable.from_metadata(path), ...), or 'iceberg://catalog/namespace.table'"
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


def of_scan(scan: Any) -> tuple[Any, int | None]:
    """The table that a `DataScan` scans, and the id of its snapshot.

    Raises:
        ValueError: if it scans a part of the snapshot.
    """
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.table import Table

    if scan.row_filter != AlwaysTrue() or tuple(scan.selected_fields) != ("*",) or scan.limit is not None:
        raise ValueError(
            "a scan of a part of a table is not read: write table.scan(snapshot_id=n), and filter=, columns= "
            "and rows= of ParquetDataset"
        )
    name = getattr(scan, "table_identifier", None) or ("scan",)
    catalog: Any = getattr(scan, "catalog", None)
    return Table(name, scan.table_metadata, "", scan.io, catalog), scan.snapshot_id


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
    entries = list(_entries(table, snapshot))
    data = [entry for entry in entries if not int(entry.data_file.content)]
    # Tables of format 1 number no commits.
    lost = {entry.snapshot_id for entry in data if not entry.sequence_number} - by_id.keys()
    commits = {each: place for place, each in enumerate([*_lost_commits(table, data, lost), *by_id])}

    def place(entry: Any) -> tuple[int, int, str]:
        number = commits.get(entry.snapshot_id, -1)
        return entry.sequence_number or 0, number, entry.data_file.file_path

    data.sort(key=place)
    # As they were where nothing showed the order of what is forgotten.
    by_path = sorted(range(len(data)), key=lambda one: _unknown(place(data[one]), data[one], lost))
    for entry in data:
        if entry.data_file.file_format.value != "PARQUET":
            kind = entry.data_file.file_format.value
            raise _core.DataError(
                f"the Iceberg table '{name}' has the {kind} file '{entry.data_file.file_path}': only Parquet "
                "is read, so rewrite the table with write.format.default=parquet"
            )
    schema = table.schemas().get(snapshot.schema_id) if version is not None else table.schema()
    forgotten = f"it has forgotten {len(lost)} snapshots" if lost else None
    reached = file_io.reached(table.io.properties, [entry.data_file.file_path for entry in data])
    names, fields = FieldNames(table), list(fields_of(schema or table.schema()))
    deletes = [entry for entry in entries if int(entry.data_file.content)]
    return Snapshot(
        SnapshotName("Iceberg", name, snapshot.snapshot_id, *_rewritten_by(snapshot, by_id), forgotten),
        [plain_address(entry.data_file.file_path) for entry in data],
        [replace(field.column, names_in_files=names.of(field)) for field in fields],
        values_of(table.specs(), fields, [entry.data_file for entry in data]),
        _deleted(table, name, data, [entry for entry in deletes if int(entry.data_file.content) == 1]),
        reached.options or None,
        list(names.shared),
        reached.unused,
        [by_path] if lost else [],
        _deleted_values(
            table, name, fields, data, [entry for entry in deletes if int(entry.data_file.content) == 2]
        ),
    )


def _entries(table: Any, snapshot: Any) -> Iterator[Any]:
    for manifest in snapshot.manifests(table.io):
        yield from manifest.fetch_manifest_entry(table.io)


def _unknown(place: tuple[int, int, str], entry: Any, lost: set[Any]) -> tuple[int, int, str]:
    return (place[0], -1, place[2]) if entry.snapshot_id in lost else place


def _lost_commits(table: Any, data: Sequence[Any], lost: set[Any]) -> list[Any]:
    """Snapshots that the table has forgotten, in their order: as older metadata tell, or its manifests."""
    if not lost:
        return []
    times: dict[Any, int] = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshot_log}
    for log in reversed(table.metadata.metadata_log):
        if lost <= times.keys():
            break
        with contextlib.suppress(Exception):  # it may be gone, too
            with table.io.new_input(log.metadata_file).open() as opened:
                content = opened.read()
            found = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
            for each in found.get("snapshots") or ():
                times.setdefault(each["snapshot-id"], each["timestamp-ms"])
    # A snapshot's manifest comes before those of earlier snapshots.
    by_manifests = {entry.snapshot_id: place for place, entry in enumerate(reversed(data))}
    known = [number for number in lost if number in times]
    unknown = sorted(lost - times.keys(), key=lambda number: by_manifests[number])
    return [*unknown, *sorted(known, key=lambda number: (times[number], by_manifests[number]))]


def _rewritten_by(snapshot: Any, by_id: Mapping[int, Any]) -> tuple[str | None, int | None]:
    """The last commit that removed or rewrote rows, in words; and the snapshot before it, if it is left."""
    at = snapshot
    while at is not None:
        operation = at.summary.operation.value if at.summary else "append"
        before = by_id.get(at.parent_snapshot_id)
        if operation != "append":
            return f"snapshot {at.snapshot_id} ({operation})", before and before.snapshot_id
        at = before
    return None, None


# ---------------------------------------------------------------------------------------------------- deletes


def _deleted(table: Any, name: str, data: list[Any], deletes: list[Any]) -> dict[int, npt.NDArray[np.int64]]:
    """The deleted rows of files, by their places."""
    places = {entry.data_file.file_path: place for place, entry in enumerate(data)}
    found: dict[int, list[npt.NDArray[np.int64]]] = defaultdict(list)
    # A file of deletion vectors has an entry for each of its vectors.
    for file_path, entry in {entry.data_file.file_path: entry for entry in deletes}.items():
        kind = entry.data_file.file_format.value
        if kind not in ("PARQUET", "PUFFIN"):
            raise _not_read(name, f"deletes in {kind}", file_path)
        for path, rows in (_vectors if kind == "PUFFIN" else _positions)(table, file_path):
            place = places.get(path)
            # Of files that are gone; and a file that came later has other rows.
            if place is None or (data[place].sequence_number or 0) > (entry.sequence_number or 0):
                continue
            found[place].append(rows)
    return {place: np.unique(np.concatenate(rows)) for place, rows in found.items()}


def _deleted_values(
    table: Any, name: str, fields: list[IcebergField], data: list[Any], deletes: list[Any]
) -> DeletedValues | None:
    """What equality deletes delete, if there are any."""
    if not deletes:
        return None
    paths = {
        field.number: field.path for field in fields if field.column.type_name and not field.column.lists
    }
    everywhere = {
        number
        for number, spec in table.specs().items()
        if all(str(field.transform) == "void" for field in spec.fields)
    }
    parts: dict[tuple[Any, ...], int] = {}

    def part(file: Any) -> int:
        values = (file.partition[place] for place in range(len(table.specs()[file.spec_id].fields)))
        return parts.setdefault((file.spec_id, *values), len(parts))

    by = []
    values = values_of(table.specs(), fields, [entry.data_file for entry in deletes])
    for entry, of_file in zip(deletes, values, strict=True):
        file = entry.data_file
        if file.file_format.value != "PARQUET":
            raise _not_read(name, f"deletes in {file.file_format.value}", file.file_path)
        unknown = [number for number in file.equality_ids or [0] if number not in paths]
        if unknown:
            what = f"deletes by a column of the id {unknown[0]}, which its schema has no more,"
            raise _not_read(name, what, file.file_path)
        columns = tuple(sorted({paths[number] for number in file.equality_ids}))
        at = None if file.spec_id in everywhere else part(file)
        number = entry.sequence_number or 0
        by.append(DeletingFile(plain_address(file.file_path), columns, of_file, number, at))
    numbers = np.array([entry.sequence_number or 0 for entry in data], np.int64)
    return DeletedValues(by, numbers, np.array([part(entry.data_file) for entry in data], np.int64))


def _not_read(name: str, what: str, path: str) -> _core.DataError:
    return _core.DataError(
        f"the Iceberg table '{name}' has {what} ('{Path(path).name}'), which are not read yet: compact the "
        "table (rewrite_data_files), or name a version before them, as '?version=12' at the end of its "
        "address"
    )


def _positions(table: Any, path: str) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
    """What a file of position deletes deletes: of each file the rows."""
    compute = importlib.import_module("pyarrow.compute")
    parquet = importlib.import_module("pyarrow.parquet")
    with table.io.new_input(path).open() as opened:
        deletes = parquet.read_table(opened, columns=["file_path", "pos"])
    for file in compute.unique(deletes["file_path"]).to_pylist():
        rows = deletes.filter(compute.equal(deletes["file_path"], file))["pos"]
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
