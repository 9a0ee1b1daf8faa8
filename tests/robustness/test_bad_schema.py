"""Law 11 for schemas that differ, types that are not supported, and nulls where none may be."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.bad_pages import fixed
from support.child import MIB, Reader
from support.each_of import each_of
from support.refusals import open_dataset, refused, rows_of
from support.thrift_writer import OneColumn, Struct, binary, data_page, i32, i64

pytestmark = pytest.mark.law(11)


def two_files(tmp_path: Path, **other: Any) -> list[Path]:
    """Write a file of the columns a (int32) and b (float32), and one of other columns."""
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([1.0], pa.float32())}), paths[0])
    pq.write_table(pa.table(other), paths[1])
    return paths


def test_a_column_that_a_later_file_lacks_is_named_with_both_files(tmp_path: Path) -> None:
    paths = two_files(tmp_path, a=pa.array([1], pa.int32()))
    with refused(fr.DataError, "column 'b'", "missing", *paths):
        open_dataset(tmp_path, batch_size=1)
    assert len(open_dataset(tmp_path, batch_size=1, columns="a")) == 2


@each_of(
    ("type_", "name"),
    [
        (pa.uint64(), "uint64"),
        (pa.float64(), "float64"),
        (pa.bool_(), "bool"),
        (pa.date32(), "date[day]"),
        (pa.string(), "string"),
        (pa.list_(pa.int32()), "list"),
    ],
)
def test_a_column_of_another_type_is_named_with_both_types(
    tmp_path: Path, type_: pa.DataType, name: str
) -> None:
    paths = two_files(tmp_path, a=pa.array([None], type_), b=pa.array([1.0], pa.float32()))
    with refused(fr.DataError, "column 'a'", "int32", name, *paths):
        open_dataset(tmp_path, batch_size=1)
    assert len(open_dataset(tmp_path, batch_size=1, columns="b")) == 2


def test_timestamps_of_two_units_do_not_mix(tmp_path: Path) -> None:
    for unit in ("ms", "us"):
        table = pa.table({"at": pa.array([dt.datetime(2026, 1, 1)], pa.timestamp(unit))})
        pq.write_table(table, tmp_path / f"{unit}.parquet")
    with refused(fr.DataError, "column 'at'", "timestamp[ms]", "timestamp[us]", tmp_path / "us.parquet"):
        open_dataset(tmp_path, batch_size=1)


def test_a_column_that_only_a_later_file_has_is_named_with_both_files(tmp_path: Path) -> None:
    one, numbers = pa.array([1.0], pa.float32()), pa.array([1], pa.int32())
    paths = two_files(tmp_path, a=numbers, b=one, c=one)
    for columns in (None, "*"):
        with refused(fr.DataError, "column 'c'", *paths):
            open_dataset(tmp_path, batch_size=1, columns=columns)
    assert len(open_dataset(tmp_path, batch_size=1, columns=["a", "b"])) == 2


def test_the_order_of_columns_is_each_files_own(tmp_path: Path) -> None:
    two_files(tmp_path, b=pa.array([2.0], pa.float32()), a=pa.array([2], pa.int32()))
    assert [batch["a"].item() for batch in open_dataset(tmp_path, batch_size=1)] == [1, 2]


def test_two_columns_of_one_name_are_refused(path: Path) -> None:
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    pq.write_table(table, path)
    with refused(fr.DataError, "two columns", "column 'a'", path):
        open_dataset(path, batch_size=1)
    assert len(open_dataset(path, batch_size=1, columns="b")) == 1


WIDE = decimal.Decimal("1.25")
WIDE_TYPE = pa.decimal128(19, 2)

UNSUPPORTED = {
    "decimal(19, 2)": pa.array([WIDE], WIDE_TYPE),
    "list<decimal(19, 2)>": pa.array([[WIDE]], pa.list_(WIDE_TYPE)),
    "list<list<decimal(19, 2)>>": pa.array([[[WIDE]]], pa.list_(pa.list_(WIDE_TYPE))),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_type_that_is_not_supported_is_named_with_column_and_file(path: Path, name: str) -> None:
    pq.write_table(pa.table({"a": pa.array([7]), "odd": UNSUPPORTED[name]}), path)
    with refused(fr.DataError, f"type {name} ", "column 'odd'", path):
        open_dataset(path, batch_size=1)
    for columns in ("odd", ["a", "odd"]):
        with refused(fr.DataError, f"type {name} ", "column 'odd'", path):
            open_dataset(path, batch_size=1, columns=columns)
    assert [batch["a"].item() for batch in open_dataset(path, batch_size=1, columns="a")] == [7]


@each_of(
    ("array", "named", "type_"),
    [
        (
            pa.array([{"a": {"b": WIDE}}], pa.struct([("a", pa.struct([("b", WIDE_TYPE)]))])),
            "odd.a.b",
            "decimal(19, 2)",
        ),
        (pa.array([[("a", WIDE)]], pa.map_(pa.string(), WIDE_TYPE)), "odd.value", "list<decimal(19, 2)>"),
        (
            pa.array([[{"a": 1, "b": WIDE}]], pa.list_(pa.struct([("a", pa.int8()), ("b", WIDE_TYPE)]))),
            "odd.b",
            "list<decimal(19, 2)>",
        ),
        (
            pa.array([[[(1, [WIDE])]]], pa.list_(pa.map_(pa.int8(), pa.list_(WIDE_TYPE)))),
            "odd.value",
            "list<list<list<decimal(19, 2)>>>",
        ),
    ],
)
def test_what_is_not_supported_inside_of_others_is_named_by_its_own_name(
    path: Path, array: pa.Array, named: str, type_: str
) -> None:
    pq.write_table(pa.table({"a": pa.array([7]), "odd": array}), path)
    for columns in (None, "odd", "odd.*", ["a", named]):
        with refused(fr.DataError, f"type {type_} ", f"column '{named}'", path):
            open_dataset(path, batch_size=1, columns=columns)
    assert [batch["a"].item() for batch in open_dataset(path, batch_size=1, columns="a")] == [7]


@each_of("version", ["1.0", "2.0"])
@each_of("threads", [0, 2])
@each_of("row", [0, 13, 29])
def test_a_null_is_named_with_column_row_group_row_and_file(
    path: Path, version: str, threads: int, row: int
) -> None:
    values = [None if index == row else index for index in range(30)]
    table = pa.table({"row": np.arange(30), "odd": pa.array(values, pa.int32())})
    # Where footers count nulls, the dataset is refused before it is read.
    pq.write_table(table, path, row_group_size=10, data_page_version=version, write_statistics=False)
    dataset = open_dataset(path)
    iterator = iter(fr.Loader(dataset, threads=threads) if threads else dataset)
    assert rows_of(next(iterator) for _ in range(row // 10)) == list(range(row // 10 * 10))
    with refused(fr.DataError, "null", f"row {row % 10} ", f"row group {row // 10}", "column 'odd'", path):
        next(iterator)
    assert rows_of(open_dataset(path, columns="row")) == list(range(30))


def test_a_column_of_nulls_alone_is_refused(path: Path) -> None:
    pq.write_table(pa.table({"odd": pa.array([None] * 10, pa.int64())}), path)
    with refused(fr.DataError, "footers count 10 nulls among 10 values", "column 'odd'", path):
        open_dataset(path)


# ------------------------------------------------------------------------------------ schemas that can not be

CONVERTED, DECIMAL, MAP, LIST = 6, 5, 1, 3


@each_of("length", [0, -4, 2**31 - 1])
def test_a_length_that_can_not_be_is_refused(path: Path, reader: Reader, length: int) -> None:
    outcome = reader.read(fixed(data_page(b"", 3), length=length).write(path))
    assert outcome.kind == "DataError"
    assert str(path) in outcome.message
    assert outcome.grown < 500 * MIB


@each_of(
    ("scale", "precision"),
    [(1, -9), (-1, 9), (1, 2**31 - 1), (2**31 - 1, 2**31 - 1)],
)
def test_a_decimal_that_can_not_be_is_its_bytes(path: Path, scale: int, precision: int) -> None:
    element = {CONVERTED: i32(DECIMAL), 7: i32(scale), 8: i32(precision)}
    fixed(data_page(b"abcd" * 3, 3), element=element).write(path)
    (batch,) = fr.ParquetDataset(path, batch_size=3)
    assert batch["x"].tolist() == [list(b"abcd")] * 3
    with pytest.raises(fr.DataError, match=r"\.decimal\(\) takes no column of type fixed_size_binary\[4\]"):
        fr.ParquetDataset(path, batch_size=3, columns=fr.col("x").decimal("float64"))


def of_schema(*elements: Struct) -> bytes:
    """A footer of these elements below the root, and no row group."""
    footer = OneColumn([], 0).footer()
    footer[tw.SCHEMA] = tw.listing(tw.Wire.STRUCT, list(elements))
    footer[tw.NUM_ROWS] = i64(0)
    footer[tw.ROW_GROUPS] = tw.listing(tw.Wire.STRUCT, [])
    return tw.encode(footer)


def group(name: bytes, children: int, repetition: int = 1, converted: int | None = None) -> Struct:
    """A group of the schema."""
    more = {} if converted is None else {CONVERTED: i32(converted)}
    made = {tw.REPETITION: i32(repetition), tw.NAME: binary(name), tw.NUM_CHILDREN: i32(children), **more}
    return dict(sorted(made.items()))


def leaf(name: bytes, repetition: int = 1) -> Struct:
    """A column of int64."""
    return {tw.TYPE: i32(tw.INT64), tw.REPETITION: i32(repetition), tw.NAME: binary(name)}


def root(children: int) -> Struct:
    """The root of a schema."""
    return {tw.NAME: binary(b"schema"), tw.NUM_CHILDREN: i32(children)}


ODD = {
    "a map of one leaf": [root(1), group(b"x", 1, 1, MAP), leaf(b"k", 2)],
    "a map of keys alone": [root(1), group(b"x", 1, 1, MAP), group(b"e", 1, 2), leaf(b"k", 0)],
    "a map of three": [
        root(1),
        group(b"x", 1, 1, MAP),
        group(b"e", 3, 2),
        leaf(b"k"),
        leaf(b"v"),
        leaf(b"w"),
    ],
    "a map that is repeated": [root(1), group(b"x", 1, 2, MAP), group(b"e", 2, 2), leaf(b"k"), leaf(b"v")],
    "a map of nothing repeated": [root(1), group(b"x", 1, 1, MAP), group(b"e", 2, 1), leaf(b"k"), leaf(b"v")],
    "a list of two": [root(1), group(b"x", 2, 1, LIST), leaf(b"k", 2), leaf(b"v", 2)],
    "a list of a list": [root(1), group(b"x", 1, 1, LIST), group(b"l", 1, 2), leaf(b"e", 2)],
    "a struct that is repeated": [root(1), group(b"x", 2, 2), leaf(b"a"), leaf(b"b", 2)],
    "a struct of structs": [root(1), *(group(b"x", 1) for _ in range(90)), leaf(b"a")],
    "names with dots": [root(2), leaf(b"x.y"), group(b"x", 1), leaf(b"y")],
    "names of nothing": [root(2), leaf(b""), group(b"", 1), leaf(b"")],
}


@each_of("what", ODD)
def test_odd_schemas_are_read_or_refused(path: Path, reader: Reader, what: str) -> None:
    outcome = reader.read(OneColumn([], 0).write(path, of_schema(*ODD[what])))
    assert outcome.kind in ("DataError", "ValueError"), outcome
    assert "gave up" not in outcome.message
    assert outcome.grown < 500 * MIB


def test_names_that_are_repeated_for_each_column_are_bounded(path: Path, reader: Reader) -> None:
    leaves = [leaf(b"%d" % number) for number in range(10_000)]
    file = OneColumn([], 0).write(path, of_schema(root(1), group(b"x" * MIB, 10_000), *leaves))
    outcome = reader.read(file)
    assert outcome.kind == "DataError"
    assert "names of the columns and of their groups take more than 67108864 bytes" in outcome.message
    assert outcome.grown < 500 * MIB


def test_two_columns_of_one_name_are_refused_where_they_are_read(path: Path) -> None:
    OneColumn([], 0).write(path, of_schema(*ODD["names with dots"]))
    with pytest.raises(fr.DataError, match="two columns have this name") as caught:
        fr.ParquetDataset(path, batch_size=1)
    assert "column 'x.y'" in str(caught.value)
