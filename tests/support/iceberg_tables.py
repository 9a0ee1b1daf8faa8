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
    """A commit of files of deletes."""

    deletes: Sequence[DataFile] = ()

    def _existing_manifests(self) -> list[Any]:
        meta = self._transaction.table_metadata
        output = self.new_manifest_output()
        with _DeletesWriter(meta.spec(), meta.schema(), output, self.snapshot_id, "deflate") as writer:
            for file in self.deletes:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED, snapshot_id=self.snapshot_id, data_file=file
                    )
                )
        return [*super()._existing_manifests(), writer.to_manifest_file()]


def delete_rows(table: Table, rows: dict[str, list[int]], content: int = 1, number: int = 0) -> None:
    """Delete rows of files by their positions, as Spark does where it merges on read.

    `content` may be 2, which says that the file holds equality deletes.
    """
    told = pa.table(
        {
            "file_path": [path for path, places in rows.items() for _ in places],
            "pos": pa.array([place for places in rows.values() for place in places], pa.int64()),
        }
    )
    fields = [
        field.with_metadata({"PARQUET:field_id": str(number)}).with_nullable(False)
        for field, number in zip(told.schema, (2147483546, 2147483545), strict=True)
    ]
    path = f"{table.location()}/data/deletes-{number}.parquet"
    pq.write_table(told.cast(pa.schema(fields)), path.removeprefix("file://"))
    file = DataFile.from_args(
        content=DataFileContent(content),
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=told.num_rows,
        file_size_in_bytes=Path(path.removeprefix("file://")).stat().st_size,
        equality_ids=[1] if content == 2 else None,
    )
    file.spec_id = table.spec().spec_id
    with table.transaction() as transaction:
        commit = _Deletes(Operation.DELETE, transaction, table.io)
        commit.deletes = [file]
        commit.commit()


def files_of(table: Table) -> list[str]:
    """The paths of the files of the present snapshot, as the table has them."""
    return [task.file.file_path for task in table.scan().plan_files()]
