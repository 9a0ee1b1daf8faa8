"""Iceberg tables whose files and schemas are what other writers make of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import StaticTable, Table
from pyiceberg.typedef import Record


def with_id(field: pa.Field, number: int) -> pa.Field:
    return field.with_metadata({"PARQUET:field_id": str(number)})


def data_file(
    table: Table, content: pa.Table, name: str, partition: Sequence[Any] = (), **how: Any
) -> DataFile:
    """A file as it is, with the ids that its fields have, which belongs to no commit yet."""
    path = f"{table.location().removeprefix('file://')}/data/{name}.parquet"
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, path, **how)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=content.num_rows,
        file_size_in_bytes=Path(path).stat().st_size,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )
    file.spec_id = table.spec().spec_id
    return file


def add_file(table: Table, content: pa.Table, name: str, **how: Any) -> None:
    """Add a file as it is, with the ids that its fields have."""
    file = data_file(table, content, name, **how)
    with table.transaction() as change, change.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def with_fields(table: Table, fields: Sequence[dict[str, Any]], path: Path) -> StaticTable:
    """The table in the third format, with fields that came later."""
    found = json.loads(Path(table.metadata_location.removeprefix("file://")).read_text())
    found["format-version"], found["next-row-id"] = 3, 1000
    for snapshot in found["snapshots"]:
        snapshot |= {"first-row-id": 0, "added-rows": 2}
    before = next(each for each in found["schemas"] if each["schema-id"] == found["current-schema-id"])
    now = len(found["schemas"])
    found["schemas"].append({**before, "schema-id": now, "fields": merged(before["fields"], fields)})
    found["current-schema-id"], found["last-column-id"] = now, 1000
    path.write_text(json.dumps(found))
    return StaticTable.from_metadata(f"file://{path}")


def merged(before: Sequence[dict[str, Any]], fields: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fields of which some came later, or are others under the same id."""
    changed = {field["id"]: field for field in fields}
    kept = [changed.pop(field["id"], field) for field in before]
    return [*kept, *changed.values()]


def leaves(kind: pa.DataType, name: str = "") -> list[str]:
    """The columns that a type is delivered as."""
    at = f"{name}." if name else ""
    if pa.types.is_struct(kind):
        return [leaf for field in kind for leaf in leaves(field.type, f"{at}{field.name}")]
    if pa.types.is_map(kind):
        return [*leaves(kind.key_type, f"{at}key"), *leaves(kind.item_type, f"{at}value")]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return leaves(kind.value_type, name)
    return [name]


def leaf_of(value: Any, kind: pa.DataType, parts: Sequence[str]) -> Any:
    """What a column has of a row: the member of structs, in lists of each of their elements."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        field = kind.field(parts[0])
        return leaf_of(value[parts[0]], field.type, parts[1:])
    if pa.types.is_map(kind):
        of, place = (kind.key_type, 0) if parts[0] == "key" else (kind.item_type, 1)
        return [leaf_of(entry[place], of, parts[1:]) for entry in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [leaf_of(one, kind.value_type, parts) for one in value]
    return value


def columns_of(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as they are delivered, by the names of columns."""
    kind = pa.struct(rows.schema)
    names = leaves(kind)
    return [{name: leaf_of(row, kind, name.split(".")) for name in names} for row in rows.to_pylist()]
