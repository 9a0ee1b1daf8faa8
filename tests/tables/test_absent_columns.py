"""What a column of a table is in files that are older than it: of every type, in structs and lists."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
import torch
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import StaticTable, Table

import fastresume as fr
from support.iceberg_files import columns_of, with_fields
from support.iceberg_tables import catalog_in
from support.tables import kept, opened, rows_of

DEFAULTS: dict[str, tuple[Any, Any]] = {
    "boolean": (True, True),
    "int": (-7, -7),
    "long": (1 << 40, 1 << 40),
    "float": (2, 2.0),
    "double": (2, 2.0),
    "double of a float": (-0.125, -0.125),
    "date": ("1969-12-31", -1),
    "time": ("22:31:08.123456", 81_068_123_456),
    "timestamp": ("2017-11-16T22:31:08.000001", 1_510_871_468_000_001),
    "timestamptz": ("2017-11-16T22:31:08+00:00", 1_510_871_468_000_000),
    "string": ("ü ", "ü "),
    "binary": ("00ff", b"\x00\xff"),
    "fixed[3]": ("00ff7f", [0, 255, 127]),
    "uuid": (
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        list(UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes),
    ),
    "decimal(9, 2)": ("-14.20", -1420),
    "decimal(18, 0)": ("12", 12),
}
"""Of each type a default as JSON has it, and what is delivered of it."""


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """A table of two rows: an id, a struct that is null once, and lists of structs."""
    kinds = {
        "id": pa.int64(),
        "s": pa.struct({"x": pa.int32()}),
        "l": pa.list_(pa.struct({"x": pa.int32()})),
        "m": pa.map_(pa.string(), pa.struct({"x": pa.int32()})),
    }
    rows = [
        {"id": 0, "s": {"x": 1}, "l": [{"x": 1}, None, {"x": None}], "m": [("k", {"x": 1}), ("n", None)]},
        {"id": 1, "s": None, "l": [], "m": []},
        {"id": 2, "s": {"x": None}, "l": [{"x": 5}], "m": []},
    ]
    data = pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))
    made = catalog_in(tmp_path / "lake").create_table("ns.t", schema=data.schema)
    made.append(data)
    return made


def kind_of(name: str) -> str:
    return name.partition(" of ")[0]


def delivered(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [as_counted(row[name]) for row in rows]


def as_counted(value: Any) -> Any:
    """What Arrow makes of days and instants, as the numbers that tensors hold."""
    if isinstance(value, list):
        return [as_counted(one) for one in value]
    return value


def field(number: int, name: str, kind: Any, **found: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind, **found}


def with_member(table: Table, member: dict[str, Any], path: Path) -> StaticTable:
    """The table with a member more in its struct, in those of its lists, and in those of its map."""
    fields = json.loads(table.schema().model_dump_json(by_alias=True))["fields"]
    [_, of_struct, of_list, of_map] = fields
    of_struct["type"]["fields"].append({**member, "id": 101})
    of_list["type"]["element"]["fields"].append({**member, "id": 102})
    of_map["type"]["value"]["fields"].append({**member, "id": 103})
    return with_fields(table, [of_struct, of_list, of_map], path)


def values(dataset: fr.ParquetDataset, name: str) -> list[Any]:
    """The rows of a column as Python has them, None for a null."""
    found: list[Any] = []
    for batch in dataset:
        column = batch[name]
        if isinstance(column, fr.Jagged):
            found += listed(batch, name)
        else:
            marks = batch[f"{name}_valid"].tolist()
            found += [value if valid else None for value, valid in zip(column.tolist(), marks, strict=True)]
    return found


def listed(batch: fr.Batch, name: str) -> list[Any]:
    return pa.Table.from_batches([batch.to_arrow()])[name].to_pylist()


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_column_that_came_later_is_its_default_in_old_files(
    table: Table, tmp_path: Path, name: str
) -> None:
    message, expected = DEFAULTS[name]
    added = field(100, "new", kind_of(name), **{"initial-default": message, "write-default": message})
    found = with_fields(table, [added], tmp_path / "v3.metadata.json")
    dataset = opened(found)
    assert values(dataset, "new") == [expected] * 3
    assert kept(found, ~fr.col("new").is_null()) == [0, 1, 2]
    if not isinstance(expected, list) and not name.startswith(("decimal", "date", "time")):
        assert kept(found, fr.col("new") == expected) == [0, 1, 2]
        assert kept(found, fr.col("new") != expected) == []


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_member_is_its_default_where_its_struct_is_there(table: Table, tmp_path: Path, name: str) -> None:
    message, expected = DEFAULTS[name]
    member = field(0, "new", kind_of(name), **{"initial-default": message})
    found = with_member(table, member, tmp_path / "v3.metadata.json")
    dataset = opened(found)
    assert values(dataset, "s.new") == [expected, None, expected]
    assert kept(found, fr.col("s.new").is_null()) == [1]
    if name.startswith(("decimal", "fixed", "uuid", "date", "time")):
        return  # what they are in lists is compared below, by their bits
    assert listed_of(found, "l.new") == [[expected, None, expected], [], [expected]]
    assert listed_of(found, "m.value.new") == [[expected, None], [], []]


def listed_of(table: Any, name: str) -> list[Any]:
    return [row[name] for row in rows_of(opened(table, columns=[name]), [name])]


@pytest.mark.parametrize("name", ["date", "timestamp", "decimal(9, 2)", "fixed[3]", "uuid"])
def test_a_member_of_structs_in_lists_is_its_default(table: Table, tmp_path: Path, name: str) -> None:
    message, expected = DEFAULTS[name]
    found = with_member(
        table, field(0, "new", name, **{"initial-default": message}), tmp_path / "v3.metadata.json"
    )
    batch = next(iter(opened(found, columns=["l.new"])))
    values, offsets = batch["l.new"].values, batch["l.new"].offsets.tolist()
    assert offsets == [0, 3, 3, 4]
    none = [0] * len(expected) if isinstance(expected, list) else 0
    assert values.tolist() == [expected, none, expected, expected]


@pytest.mark.parametrize("kind", ["int", "string", "double", "timestamp"])
def test_a_member_without_a_default_is_null_and_lists_keep_their_lengths(
    table: Table, tmp_path: Path, kind: str
) -> None:
    found = with_member(table, field(0, "new", kind), tmp_path / "v3.metadata.json")
    expected = columns_of(found.scan().to_arrow())
    for name in ("s.new", "l.new", "m.value.new"):
        assert [row[name] for row in expected] == listed_of(found, name), name
    assert kept(found, fr.col("s.new").is_null()) == [0, 1, 2]
    assert kept(found, fr.col("l.new").is_null()) == []


def test_a_struct_that_came_later_is_null_and_so_are_its_members(table: Table, tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [field(101, "x", "int", **{"initial-default": 9})]}
    found = with_fields(table, [field(100, "point", inner)], tmp_path / "v3.metadata.json")
    assert [row["point"] for row in found.scan().to_arrow().to_pylist()] == [None] * 3
    assert values(opened(found), "point.x") == [None] * 3
    assert kept(found, fr.col("point").is_null()) == [0, 1, 2]
    assert kept(found, fr.col("point.x") == 9) == []


LISTS: dict[str, tuple[Any, torch.dtype, pa.DataType]] = {
    "int": ("int", torch.int32, pa.int32()),
    "long": ("long", torch.int64, pa.int64()),
    "double": ("double", torch.float64, pa.float64()),
    "string": ("string", torch.uint8, pa.string()),
    "date": ("date", torch.int64, pa.date32()),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_no_file_has_yet_is_what_the_first_file_makes_of_it(
    table: Table, tmp_path: Path, name: str
) -> None:
    kind, dtype, arrow = LISTS[name]
    column = field(
        100, "new", {"type": "list", "element-id": 101, "element": kind, "element-required": False}
    )
    found = with_fields(table, [column], tmp_path / "v3.metadata.json")
    before = next(iter(opened(found, columns=["new"])))
    assert before["new"].values.dtype == dtype
    assert before["new"].valid.tolist() == [False] * 3
    with table.update_schema() as change:
        change.union_by_name(pa.schema([("new", pa.list_(arrow))]))
    table.append(pa.table({"id": pa.array([3], pa.int64()), "new": pa.array([[]], pa.list_(arrow))}))
    after = next(iter(opened(table, columns=["new"])))
    assert (type(after["new"]), after["new"].values.dtype) == (type(before["new"]), dtype)
    assert opened(table, columns=["new"]).schema["new"] == opened(found, columns=["new"]).schema["new"]


def test_what_is_asked_of_lists_is_done_before_any_file_has_one(table: Table, tmp_path: Path) -> None:
    column = field(
        100, "new", {"type": "list", "element-id": 101, "element": "long", "element-required": False}
    )
    found = with_fields(table, [column], tmp_path / "v3.metadata.json")
    padded = next(iter(opened(found, columns=[fr.col("new").pad(4, value=-1)])))
    assert padded["new"].tolist() == [[-1] * 4] * 3
    assert padded["new_length"].tolist() == [0, 0, 0]
    fixed = next(iter(opened(found, columns=[fr.col("new").fixed(2).fill_null(0)])))
    assert fixed["new"].tolist() == [[0, 0]] * 3
    with pytest.raises(ValueError, match="no batch would come"):
        opened(found, unit=fr.Packed("new", length=4), columns=["new"])


def test_a_list_of_delta_that_no_file_has_yet_has_the_type_of_the_table(tmp_path: Path) -> None:
    from deltalake.schema import ArrayType, Field, MapType, PrimitiveType

    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": [0, 1]}))
    longs = ArrayType(PrimitiveType("long"), True)
    counts = MapType(PrimitiveType("string"), PrimitiveType("double"), True)
    DeltaTable(path).alter.add_columns([Field("hist", longs), Field("m", counts)])
    batch = next(iter(opened(f"delta://{path}")))
    kinds = {name: batch[name].values.dtype for name in ("hist", "m.key", "m.value")}
    assert kinds == {"hist": torch.int64, "m.key": torch.uint8, "m.value": torch.float64}
    assert batch["hist"].valid.tolist() == [False, False]


def as_int96(values: list[dt.datetime], path: Path) -> None:
    import pyarrow.parquet as pq

    column = pa.array(values, pa.timestamp("us", "UTC"))
    content = pa.table({"id": pa.array(range(10, 10 + len(values)), pa.int64()), "at": column})
    pq.write_table(content, path, use_deprecated_int96_timestamps=True, store_schema=False)


LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
INSTANTS = [
    dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=dt.UTC),
    LAST,
]


def test_instants_of_int96_are_those_of_the_table_beside_others(tmp_path: Path) -> None:
    path = tmp_path / "t"
    instants = pa.array(INSTANTS, pa.timestamp("us", "UTC"))
    write_deltalake(str(path), pa.table({"id": [0, 1, 2], "at": instants}))
    raw = [of.astype(np.int64).item() for of in instants.to_numpy(zero_copy_only=False)]
    for is_alone in (False, True):
        as_int96(INSTANTS, path / "spark.parquet")
        add = {
            "path": "spark.parquet",
            "partitionValues": {},
            "size": (path / "spark.parquet").stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
        }
        actions: list[dict[str, Any]] = [{"add": add}]
        if is_alone:
            [file] = DeltaTable(str(path), version=0).file_uris()
            gone = {"path": Path(file).name, "deletionTimestamp": 1, "dataChange": True}
            actions = [{"remove": gone}]
        commit = path / "_delta_log" / f"{1 + is_alone:020}.json"
        commit.write_text("\n".join(map(json.dumps, actions)))
        found = [value for batch in opened(f"delta://{path}") for value in batch["at"].tolist()]
        assert found == raw * (1 if is_alone else 2)
        assert opened(f"delta://{path}").schema["at"].unit == "timestamp[us, UTC]"
        assert kept(f"delta://{path}", fr.col("at") == LAST) == ([12] if is_alone else [2, 12])


def test_a_mix_of_decimals_is_as_wide_as_its_default(table: Table, tmp_path: Path) -> None:
    with table.update_schema() as change:
        change.union_by_name(pa.schema([("price", pa.decimal128(9, 2))]))
    table.append(
        pa.table({"id": pa.array([3], pa.int64()), "price": pa.array([Decimal("1.25")], pa.decimal128(9, 2))})
    )
    number = table.schema().find_field("price").field_id
    wider = field(number, "price", "decimal(12, 2)", **{"initial-default": "7.00"})
    found = with_fields(table, [wider], tmp_path / "v3.metadata.json")
    assert sorted(values(opened(found), "price")) == [125, 700, 700, 700]
    floats = [
        row["price"]
        for row in rows_of(opened(found, columns=[fr.col("price").decimal("float64")]), ["price"])
    ]
    assert sorted(floats) == [1.25, 7.0, 7.0, 7.0]
