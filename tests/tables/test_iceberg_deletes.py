"""Rows of Iceberg tables that are deleted by their values: what the format says of it, case by case."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

import fastresume as fr
from support.iceberg_files import add_file, data_file, with_fields
from support.iceberg_tables import catalog_in, commit, delete_rows, deleting_file
from support.tables import id_list, kept, opened


def field(number: int, name: str, kind: Any) -> NestedField:
    return NestedField(number, name, kind, required=False)


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    return catalog_in(tmp_path / "lake")


def made(catalog: SqlCatalog, *fields: NestedField) -> Table:
    """A table whose first column is the id of a row."""
    schema = Schema(field(1, "id", LongType()), *fields)
    return catalog.create_table("ns.t", schema=schema, properties={"format-version": "2"})


def rows(table: Table, **columns: list[Any]) -> pa.Table:
    """Rows of some columns, in the types and with the ids of the table."""
    kinds = schema_to_pyarrow(table.schema())
    return pa.table(columns, schema=pa.schema([kinds.field(name) for name in columns]))


def delete(table: Table, ids: list[int], name: str = "deletes", **columns: list[Any]) -> None:
    """A commit of one file whose rows delete by the columns of these ids."""
    commit(table, [deleting_file(table, rows(table, **columns), name, ids)])


def left(table: Table) -> list[int]:
    """The ids of the rows that are left, in the order of delivery."""
    return id_list(opened(table, columns=["id"]))


UTC = dt.UTC
VALUES: dict[str, tuple[Any, list[Any]]] = {
    "boolean": (BooleanType(), [True, False]),
    "int": (IntegerType(), [-(2**31), 7]),
    "long": (LongType(), [2**62 + 1, 2**62]),
    "float": (FloatType(), [1.5, 0.1]),
    "double": (DoubleType(), [0.1, 1e300]),
    "date": (DateType(), [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
    "time": (TimeType(), [dt.time(1, 2, 3, 4), dt.time(1, 2, 3, 5)]),
    "timestamp": (TimestampType(), [dt.datetime(2024, 1, 1, microsecond=1), dt.datetime(2024, 1, 1)]),
    "timestamptz": (
        TimestamptzType(),
        [dt.datetime(2024, 1, 1, microsecond=1, tzinfo=UTC), dt.datetime(2024, 1, 1, tzinfo=UTC)],
    ),
    "string": (StringType(), ["ü", ""]),
    "binary": (BinaryType(), [b"\x00", b""]),
    "fixed": (FixedType(3), [b"abc", b"abd"]),
    "uuid": (UUIDType(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes]),
    "decimal": (DecimalType(9, 2), [decimal.Decimal("-1.50"), decimal.Decimal("1.50")]),
    "wide decimal": (DecimalType(38, 2), [decimal.Decimal("-1.50"), decimal.Decimal(10**30)]),
}


@pytest.mark.parametrize("name", VALUES)
def test_values_of_all_types_are_compared_and_null_is_one(catalog: SqlCatalog, name: str) -> None:
    kind, (one, other) = VALUES[name]
    table = made(catalog, field(2, "key", kind))
    add_file(table, rows(table, id=[0, 1, 2, 3], key=[one, other, None, one]), "a")
    delete(table, [2], key=[one, one])
    assert left(table) == [1, 2]
    delete(table, [2], "nulls", key=[None])
    assert left(table) == [1]
    add_file(table, rows(table, id=[4, 5], key=[one, None]), "b")
    assert left(table) == [1, 4, 5], "what comes later stays"
    delete(table, [2], "others", key=[other, None])
    assert left(table) == [4]


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()])
def test_nan_is_nan_and_zero_has_a_sign(catalog: SqlCatalog, kind: Any) -> None:
    table = made(catalog, field(2, "key", kind))
    add_file(table, rows(table, id=[0, 1, 2, 3], key=[math.nan, 0.0, -0.0, math.inf]), "a")
    delete(table, [2], key=[math.nan, -0.0])
    assert left(table) == [1, 3]


def test_all_columns_of_a_deletion_must_be_the_same(catalog: SqlCatalog) -> None:
    table = made(catalog, field(2, "a", LongType()), field(3, "b", StringType()))
    pairs = [(1, "x"), (1, "y"), (2, "x"), (None, "x"), (1, None), (None, None)]
    columns = dict(zip("ab", map(list, zip(*pairs, strict=True)), strict=True))
    add_file(table, rows(table, id=list(range(6)), **columns), "a")
    delete(table, [2, 3], a=[1, None, 3], b=["x", None, "x"], id=[77, 77, 77])
    assert left(table) == [1, 2, 3, 4], "other columns of the file say nothing"
    delete(table, [3], "by-b", b=["y"])
    delete(table, [2], "by-a", a=[None])
    assert left(table) == [2, 4]


def test_members_of_structs_are_compared(catalog: SqlCatalog) -> None:
    table = made(catalog, field(2, "s", StructType(field(3, "x", LongType()), field(4, "y", LongType()))))
    found = [{"x": 1, "y": 1}, {"x": 2, "y": 1}, None, {"x": None, "y": 2}]
    add_file(table, rows(table, id=[0, 1, 2, 3], s=found), "a")
    delete(table, [3], s=[{"x": 2, "y": 5}])
    assert left(table) == [0, 2, 3]
    delete(table, [3], "nulls", s=[None])
    assert left(table) == [0]


def test_a_deletion_deletes_what_is_older_and_not_what_came_with_it(catalog: SqlCatalog) -> None:
    """As Flink writes new values of a key: its old rows go, and the new one is in the same commit."""
    table = made(catalog, field(2, "key", StringType()))
    for number in range(4):
        data = data_file(
            table, rows(table, id=[2 * number, 2 * number + 1], key=["a", f"b{number}"]), f"d{number}"
        )
        deletes = deleting_file(table, rows(table, key=["a"]), f"e{number}", [2])
        commit(table, [deletes], [data])
        assert left(table) == [*range(1, 2 * number, 2), 2 * number, 2 * number + 1]
    newest = data_file(table, rows(table, id=[8, 9], key=["a", "a"]), "d9")
    commit(table, [deleting_file(table, rows(table, key=["a"]), "e9", [2])], [newest])
    delete_rows(table, {files_of_data(table)[-1]: [0]})
    assert left(table) == [1, 3, 5, 7, 9]


def files_of_data(table: Table) -> list[str]:
    return sorted(str(path) for path in table.inspect.data_files()["file_path"].to_pylist())


def test_deletions_of_a_partition_delete_there_alone(catalog: SqlCatalog) -> None:
    table = made(catalog, field(2, "day", IntegerType()), field(3, "key", StringType()))
    commit(table, data=[data_file(table, rows(table, id=[9], day=[1], key=["a"]), "unpartitioned")])
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform())
    for place, day in enumerate((1, 2, None)):
        found = rows(table, id=[2 * place, 2 * place + 1], day=[day] * 2, key=["a", "b"])
        commit(table, data=[data_file(table, found, f"day{day}", [day])])
    assert left(table) == [9, 0, 1, 2, 3, 4, 5]
    commit(table, [deleting_file(table, rows(table, key=["a"]), "of-1", [3], partition=[1])])
    assert left(table) == [9, 1, 2, 3, 4, 5], "a file of another spec is in no partition of this"
    commit(table, [deleting_file(table, rows(table, key=["b"]), "of-null", [3], partition=[None])])
    assert left(table) == [9, 1, 2, 3, 4]
    commit(table, [deleting_file(table, rows(table, key=["a"]), "of-all", [3], spec=0)])
    assert left(table) == [1, 3]
    with table.update_spec() as change:
        change.remove_field("day")
    table.refresh()
    assert [isinstance(one.transform, VoidTransform) for one in table.spec().fields] in ([], [True])
    void = [None] * len(table.spec().fields)
    commit(table, [deleting_file(table, rows(table, key=["b"]), "of-void", [3], partition=void)])
    with pytest.raises(ValueError, match="no batch would come"):
        opened(table)


def test_the_partition_column_may_be_no_column_of_the_files(catalog: SqlCatalog) -> None:
    table = made(catalog, field(2, "day", IntegerType()), field(3, "key", StringType()))
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform())
    for day in (1, 2):
        commit(table, data=[data_file(table, rows(table, id=[day], key=["a"]), f"day{day}", [day])])
    commit(table, [deleting_file(table, rows(table, day=[2], key=["a"]), "one", [2, 3], partition=[2])])
    assert left(table) == [1]
    commit(table, [deleting_file(table, rows(table, key=["a"]), "other", [2, 3], partition=[1])])
    with pytest.raises(ValueError, match="no batch would come"):
        opened(table)


def test_a_column_that_came_later_is_null_in_older_files(catalog: SqlCatalog) -> None:
    table = made(catalog)
    add_file(table, rows(table, id=[0, 1]), "a")
    with table.update_schema() as change:
        change.add_column("key", LongType())
    add_file(table, rows(table, id=[2, 3], key=[None, 4]), "b")
    delete(table, [2], key=[5])
    assert left(table) == [0, 1, 2, 3]
    delete(table, [2], "nulls", key=[None])
    assert left(table) == [3]


def test_a_column_that_came_later_has_its_default_in_older_files(catalog: SqlCatalog, tmp_path: Path) -> None:
    table = made(catalog, field(2, "key", LongType()))
    add_file(table, rows(table, id=[0, 1]), "a")
    add_file(table, rows(table, id=[2, 3], key=[7, None]), "b")
    delete(table, [2], key=[7])
    found = {"id": 2, "name": "key", "required": False, "type": "long", "initial-default": 7}
    assert left(with_fields(table, [found], tmp_path / "v3.metadata.json")) == [3]


def test_columns_are_known_by_their_ids_and_may_be_wider_now(catalog: SqlCatalog) -> None:
    table = made(
        catalog, field(2, "a", IntegerType()), field(3, "b", FloatType()), field(4, "c", DecimalType(9, 2))
    )
    cents = [decimal.Decimal("0.50"), decimal.Decimal("-7.25"), None]
    add_file(table, rows(table, id=[0, 1, 2], a=[1, 2, 3], b=[0.5, 0.1, None], c=cents), "a")
    older = [deleting_file(table, rows(table, a=[3]), "narrow", [2])]
    with table.update_schema() as change:
        change.rename_column("a", "key")
        change.update_column("a", LongType())
        change.update_column("b", DoubleType())
        change.update_column("c", DecimalType(20, 2))
    found = rows(
        table, id=[3, 4, 5], key=[1, 2**40, 9], b=[0.5, 0.1, 9.0], c=[*cents[:2], decimal.Decimal(10**15)]
    )
    add_file(table, found, "b")
    commit(table, older)
    assert left(table) == [0, 1, 3, 4, 5]
    delete(table, [2], "wide", key=[2**40, 77])
    assert left(table) == [0, 1, 3, 5]
    delete(table, [3], "b0.5", b=[0.5])
    assert left(table) == [1, 5]
    delete(table, [4], "c", c=[decimal.Decimal("-7.25")])
    assert left(table) == [5]


def test_the_order_and_the_selection_of_rows_are_those_of_the_rows_that_are_left(catalog: SqlCatalog) -> None:
    table = made(catalog, field(2, "key", LongType()))
    add_file(
        table, rows(table, id=list(range(100)), key=[row % 10 for row in range(100)]), "a", row_group_size=7
    )
    delete(table, [2], key=[0, 3, 4])
    stay = [row for row in range(100) if row % 10 not in (0, 3, 4)]
    assert left(table) == stay
    assert [row for batch in opened(table) for row in batch.rows().tolist()] == stay, "row numbers count all"
    assert kept(table, fr.col("id") < 50) == [row for row in stay if row < 50]
    assert sorted(id_list(opened(table, shuffle=True))) == stay
    assert id_list(opened(table, rows=[[10, 20]])) == [11, 12, 15, 16, 17, 18, 19]
    state = next(iter(opened(table))).state_dict()
    resumed = opened(table)
    resumed.load_state_dict(state)
    assert id_list(resumed) == stay[3:]
    delete(table, [2], "more", key=[9])
    with pytest.raises(fr.StateError, match="delete"):
        opened(table).load_state_dict(state)


def test_what_can_not_be_applied_is_refused_by_name(catalog: SqlCatalog) -> None:
    table = made(catalog, field(2, "key", LongType()))
    add_file(table, rows(table, id=[0, 1], key=[0, 1]), "a")
    found = rows(table, key=[0])
    first = table.current_snapshot().snapshot_id  # type: ignore[union-attr]
    commit(table, [deleting_file(table, found, "rows", [2], file_format=FileFormat.AVRO)])
    with pytest.raises(
        fr.DataError, match=r"has deletes in AVRO \('rows.parquet'\).*rewrite_data_files.*version="
    ):
        opened(table)
    assert id_list(opened(table.scan(snapshot_id=first))) == [0, 1]


def test_deletes_by_a_column_that_was_dropped_are_refused(catalog: SqlCatalog) -> None:
    table = made(catalog, field(2, "key", LongType()))
    add_file(table, rows(table, id=[0, 1], key=[0, 1]), "a")
    delete(table, [2], key=[0])
    with table.update_schema() as change:
        change.delete_column("key")
    with pytest.raises(fr.DataError, match=r"deletes by a column of the id 2, which its schema has no more"):
        opened(table)


@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))]
)
def test_random_commits_leave_what_the_format_says(catalog: SqlCatalog, seed: int) -> None:
    """Compared with each row against each deletion, one by one."""
    chance = random.Random(seed)
    table = made(
        catalog, field(2, "day", IntegerType()), field(3, "a", LongType()), field(4, "b", StringType())
    )
    with table.update_spec() as change:
        change.add_field("day", IdentityTransform())
    table.refresh()
    names, data, deletes, count = {3: "a", 4: "b"}, [], [], 0

    def drawn() -> dict[str, Any]:
        return {"a": chance.choice([0, 1, 2, None]), "b": chance.choice(["x", "y", "", None])}

    for number in range(chance.randint(2, 6)):
        files, deleting = [], []
        for place in range(chance.randint(0, 2)):
            day = chance.choice([1, 2, None])
            found = [{"id": count + row, "day": day, **drawn()} for row in range(chance.randint(1, 12))]
            count += len(found)
            data += [(number, day, row) for row in found]
            message = {name: [row[name] for row in found] for name in ("id", "day", "a", "b")}
            files.append(data_file(table, rows(table, **message), f"d{number}-{place}", [day]))
        for place in range(chance.randint(0, 3)):
            ids, is_global = chance.choice([[3], [4], [3, 4]]), chance.random() < 0.3
            day = chance.choice([1, 2, None])
            found = [drawn() for _ in range(chance.randint(0, 2))]
            compared = [names[one] for one in ids]
            deletes += [(number, is_global, day, {name: row[name] for name in compared}) for row in found]
            message = {name: [row[name] for row in found] for name in compared}
            how = {"spec": 0} if is_global else {"partition": [day]}
            name = f"e{number}-{place}"
            deleting.append(deleting_file(table, rows(table, **message), name, ids, **how))
        commit(table, deleting, files)

    def is_deleted(added: int, day: int | None, row: dict[str, Any]) -> bool:
        return any(
            number > added and (is_global or of == day) and message.items() <= row.items()
            for number, is_global, of, message in deletes
        )

    expected = [row["id"] for added, day, row in data if not is_deleted(added, day, row)]
    if expected:
        assert left(table) == expected
    elif data:
        with pytest.raises(ValueError, match="no batch would come"):
            opened(table)
