"""Iceberg tables: what `pyiceberg` writes, and commits that only other writers make."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

CATALOG = "lake"


def catalog_in(root: Path) -> SqlCatalog:
    """A catalog of a directory, with the namespace `ns`."""
    root.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog(CATALOG, uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    catalog.create_namespace_if_not_exists("ns")
    return catalog


class _DeletesWriter(ManifestWriterV2):
    """Writes a manifest of deletes, of which pyiceberg itself writes none."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _Deletes(_FastAppendFiles):
    """A commit of files of deletes, beside files of data."""

    deletes: Sequence[DataFile] = ()

    def _existing_manifests(self) -> list[Any]:
        meta = self._transaction.table_metadata
        made = []
        for file in self.deletes:
            spec, output = meta.specs()[file.spec_id], self.new_manifest_output()
            with _DeletesWriter(spec, meta.schema(), output, self.snapshot_id, "deflate") as writer:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=file
                    )
                )
            made.append(writer.to_manifest_file())
        return [*super()._existing_manifests(), *made]


def delete_rows(table: Table, rows: dict[str, list[int]], number: int = 0) -> None:
    """Delete rows of files by their positions, as Spark does where it merges on read."""
    found = pa.table(
        {
            "file_path": [path for path, places in rows.items() for _ in places],
            "pos": pa.array([place for places in rows.values() for place in places], pa.int64()),
        }
    )
    fields = [
        field.with_metadata({"PARQUET:field_id": str(number)}).with_nullable(False)
        for field, number in zip(found.schema, (2147483546, 2147483545), strict=True)
    ]
    commit(table, deletes=[_file_of_deletes(table, found.cast(pa.schema(fields)), f"deletes-{number}")])


def deleting_file(table: Table, rows: pa.Table, name: str, columns: Sequence[int], **how: Any) -> DataFile:
    """A file of rows whose values of some columns, by their ids, delete others; its fields have their ids."""
    return _file_of_deletes(
        table, rows, name, content=DataFileContent.EQUALITY_DELETES, columns=columns, **how
    )


def _file_of_deletes(
    table: Table,
    rows: pa.Table,
    name: str,
    content: DataFileContent = DataFileContent.POSITION_DELETES,
    columns: Sequence[int] | None = None,
    partition: Sequence[Any] = (),
    spec: int | None = None,
    file_format: FileFormat = FileFormat.PARQUET,
) -> DataFile:
    path = f"{table.location()}/data/{name}.parquet"
    Path(path.removeprefix("file://")).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path.removeprefix("file://"))
    file = DataFile.from_args(
        content=content,
        file_path=path,
        file_format=file_format,
        partition=Record(*partition),
        record_count=rows.num_rows,
        file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
        equality_ids=None if columns is None else list(columns),
    )
    file.spec_id = table.spec().spec_id if spec is None else spec
    return file


def commit(table: Table, deletes: Sequence[DataFile] = (), data: Sequence[DataFile] = ()) -> None:
    """One commit of files of data and of deletes, as Flink makes them."""
    with table.transaction() as transaction:
        made = _Deletes(Operation.OVERWRITE if data else Operation.DELETE, transaction, table.io)
        made.deletes = deletes
        for file in data:
            made.append_data_file(file)
        made.commit()


def files_of(table: Table) -> list[str]:
    """The paths of the files of the present snapshot, as the table has them."""
    return [task.file.file_path for task in table.scan().plan_files()]
