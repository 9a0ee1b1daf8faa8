"""Columns of Iceberg tables are what their ids say, whatever files call them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.types import IntegerType, ListType, LongType, MapType, NestedField, StringType, StructType

import fastresume as fr
from support.iceberg_files import add_file, columns_of, with_id
from support.iceberg_tables import catalog_in, files_of
from support.tables import in_order_of, kept, opened, rows_of


def field(number: int, name: str, kind: Any) -> NestedField:
    return NestedField(number, name, kind, required=False)


INTEGERS = StructType(field(11, "p", IntegerType()), field(12, "q", IntegerType()))
SCHEMA = Schema(
    field(1, "id", LongType()),
    field(2, "a", IntegerType()),
    field(3, "b", IntegerType()),
    field(4, "s", StructType(field(8, "x", IntegerType()), field(9, "y", IntegerType()))),
    field(5, "l", ListType(10, INTEGERS, element_required=False)),
    field(
        6, "m", MapType(13, StringType(), 14, StructType(field(15, "v", IntegerType())), value_required=False)
    ),
    field(7, "n", ListType(16, ListType(17, IntegerType(), element_required=False), element_required=False)),
)
IDS = {"id": 1, "a": 2, "b": 3, "s": 4, "l": 5, "m": 6, "n": 7, "x": 8, "y": 9, "p": 11, "q": 12, "v": 15}

ROWS = [
    {
        "id": 0,
        "a": 1,
        "b": 10,
        "s": {"x": 5, "y": 50},
        "l": [{"p": 1, "q": 2}, None],
        "m": [("k", {"v": 3})],
        "n": [[1], []],
    },
    {"id": 1, "a": 2, "b": None, "s": None, "l": [], "m": None, "n": None},
    {
        "id": 2,
        "a": None,
        "b": 30,
        "s": {"x": None, "y": 70},
        "l": None,
        "m": [("k", None)],
        "n": [None, [2, None]],
    },
]


def content(names: Callable[[str], str], order: int = 1) -> pa.Table:
    """The rows as a file has them, with the table's ids under other names."""

    def named(name: str, kind: pa.DataType) -> pa.Field:
        return with_id(pa.field(names(name), kind), IDS[name])

    def element(kind: pa.DataType, number: int) -> pa.DataType:
        return pa.list_(with_id(pa.field("element", kind), number))

    ints = pa.int32()
    pair = pa.struct([named("p", ints), named("q", ints)][::order])
    entries = pa.map_(
        with_id(pa.field("key", pa.string(), nullable=False), 13),
        with_id(pa.field("value", pa.struct([named("v", ints)])), 14),
    )
    kinds = {
        "id": pa.int64(),
        "a": ints,
        "b": ints,
        "s": pa.struct([named("x", ints), named("y", ints)][::order]),
        "l": element(pair, 10),
        "m": entries,
        "n": element(element(ints, 17), 16),
    }

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {names(name): renamed(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(renamed(one) for one in value)
        return value

    fields = [named(name, kind) for name, kind in kinds.items()][::order]
    rows = [{names(name): renamed(value) for name, value in row.items()} for row in ROWS]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


SWAPPED = {"a": "b", "b": "a", "x": "y", "y": "x", "p": "q", "q": "p"}

NAMES: dict[str, Callable[[str], str]] = {
    "as the table": str,
    "in capitals": str.upper,
    "swapped": lambda name: SWAPPED.get(name, name),
    "of others": lambda name: f"c{IDS[name]}",
    "struct as a leaf": lambda name: {"s": "a", "a": "s"}.get(name, name),
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return catalog_in(tmp_path / "lake").create_table("ns.t", schema=SCHEMA)


def without_lists(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value or [] if name[0] in "lm" else value for name, value in row.items()}


@pytest.mark.parametrize("order", [1, -1], ids=["in order", "reversed"])
@pytest.mark.parametrize("names", NAMES)
def test_columns_and_members_are_those_of_their_ids(table: Table, names: str, order: int) -> None:
    assert table.schema().find_field("n.element.element").field_id == 17
    add_file(table, content(NAMES[names], order), "other")
    expected = columns_of(content(str))
    # Of pyiceberg, null lists of structs come back as empty ones.
    by_pyiceberg = columns_of(table.scan().to_arrow())
    assert [without_lists(row) for row in by_pyiceberg] == [without_lists(row) for row in expected]
    assert rows_of(opened(table), list(expected[0])) == expected
    for name in ("a", "b", "s.x", "s.y"):
        large = [row["id"] for row in expected if row[name] is not None and row[name] > 1]
        assert kept(table, fr.col(name) > 1) == large, name
        there = [row["id"] for row in expected if row[name] is not None]
        assert kept(table, ~fr.col(name).is_null()) == there, name
        assert [row[name] for row in rows_of(opened(table, columns=[name]), [name])] == [
            row[name] for row in expected
        ]
    if names != "as the table":
        with pytest.raises(fr.DataError, match=r"calls columns otherwise than its table.*fr\.col\(name\)"):
            opened(table, filter=pc.field("a") > 1)


def test_a_column_that_took_the_name_of_one_that_is_gone_is_not_that_one(tmp_path: Path) -> None:
    table = catalog_in(tmp_path / "lake").create_table(
        "ns.t", schema=Schema(field(1, "id", LongType()), field(2, "x", LongType()))
    )
    table.append(pa.table({"id": [0, 1], "x": [1, 2]}))
    with table.update_schema() as change:
        change.delete_column("x")
    with table.update_schema() as change:
        change.add_column("x", LongType())
    table.append(pa.table({"id": [2], "x": [3]}))
    expected = in_order_of("id", table.scan().to_arrow().to_pylist())
    assert rows_of(opened(table), ["id", "x"]) == expected
    assert kept(table, fr.col("x") > 0) == [2]
    first = table.snapshots()[0].snapshot_id
    assert rows_of(opened(table.scan(snapshot_id=first)), ["x"]) == [{"x": 1}, {"x": 2}]


def mapped(table: Table, fields: list[MappedField]) -> None:
    with table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": NameMapping(fields).model_dump_json()})


def without_ids(table: Table) -> None:
    """Writes the files of a table again as others do, who know no ids."""
    for file in files_of(table):
        path = file.removeprefix("file://")
        found = pq.ParquetFile(path).read()
        plain = pa.schema([pa.field(each.name, each.type) for each in found.schema])
        pq.write_table(pa.Table.from_arrays(found.columns, schema=plain), path)


def test_files_without_ids_are_known_by_the_mapping_of_names_alone(tmp_path: Path) -> None:
    table = catalog_in(tmp_path / "lake").create_table(
        "ns.t",
        schema=Schema(field(1, "id", LongType()), field(2, "a", LongType()), field(3, "b", LongType())),
    )
    table.append(pa.table({"id": [0, 1], "a": [1, 2], "b": [3, 4]}))
    without_ids(table)
    mapped(table, [MappedField(field_id=1, names=["id"]), MappedField(field_id=3, names=["B", "a"])])
    found = rows_of(opened(table), ["id", "a", "b"])
    assert found == [{"id": 0, "a": None, "b": 1}, {"id": 1, "a": None, "b": 2}]
    assert kept(table, fr.col("b") > 1) == [1]


def test_a_name_of_two_columns_tells_nothing_of_files_without_ids(tmp_path: Path) -> None:
    table = catalog_in(tmp_path / "lake").create_table(
        "ns.t", schema=Schema(field(1, "id", LongType()), field(2, "x", LongType()))
    )
    table.append(pa.table({"id": [0], "x": [1]}))
    with table.update_schema() as change:
        change.delete_column("x")
    with table.update_schema() as change:
        change.add_column("x", LongType())
    without_ids(table)
    with pytest.raises(fr.DataError, match=r"no field ids.*two columns 'x'.*schema\.name-mapping\.default"):
        opened(table)
    mapped(table, [MappedField(field_id=1, names=["id"]), MappedField(field_id=2, names=["x"])])
    assert rows_of(opened(table), ["id", "x"]) == [{"id": 0, "x": None}]
