"""Every type that a column may have, as the tensor that docs/reference/types.md says, value for value."""

from __future__ import annotations

import decimal
import struct
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import thrift_writer as tw
from support.asked import asked, with_nulls
from support.each_of import each_of
from support.list_writer import sized
from support.thrift_writer import OneColumn, data_page, dictionary_page, i32
from support.topologies import Shuffle

ROWS = 30
SHUFFLE = Shuffle(17, 20, 45).arguments
ORDERS = ({}, SHUFFLE)
WAYS = [
    {"use_dictionary": use_dictionary, "data_page_version": version, "max_rows_per_page": page_rows}
    for use_dictionary in (True, False)
    for version in ("1.0", "2.0")
    for page_rows in (1000, 3)
]


def write(path: Path, array: pa.Array, **how: Any) -> Path:
    """Write a file of the columns `row` and `x`, in row groups of 10 rows."""
    pq.write_table(pa.table({"row": np.arange(len(array)), "x": array}), path, row_group_size=10, **how)
    return path


def read(
    path: Path,
    nulls: Any = "error",
    order: dict[str, Any] | None = None,
    x: fr.Column | None = None,
    columns: Any = None,
) -> dict[str, Any]:
    """All rows of the files in the order of their numbers, by key; lists where rows differ in length."""
    rules = nulls if isinstance(nulls, dict) else {"x": nulls}
    how = asked(rules) if x is None else {"columns": ["*", with_nulls(x, nulls)]}
    how = how if columns is None else {"columns": columns}
    dataset = fr.ParquetDataset(path, batch_size=7, tail="short", **how, **(order or {}))
    batches = list(dataset)
    order_of = np.argsort(np.concatenate([batch.rows() for batch in batches]))
    found: dict[str, Any] = {}
    for name in dataset.schema:
        values = [batch[name] for batch in batches]
        if isinstance(values[0], torch.Tensor):
            found[name] = torch.cat([value for value in values if isinstance(value, torch.Tensor)])[order_of]
        else:
            rows = [row for value in values for row in value.to_list()]  # type: ignore[union-attr]
            found[name] = [rows[place] for place in order_of]
    return found


# ------------------------------------------------------------------------------------------------------ times


def test_a_duration_is_one_wherever_it_stands_and_an_integer_without_arrows_schema(path: Path) -> None:
    taken = pa.duration("us")
    type_ = pa.struct([("taken", taken), ("map", pa.map_(pa.string(), taken)), ("count", pa.int64())])
    table = pa.table({"x": pa.array([{"taken": 1, "map": [("a", 2)], "count": 3}], type_)})
    for store_schema in (True, False):
        pq.write_table(table, path, store_schema=store_schema)
        schema = fr.ParquetDataset(path, batch_size=1, columns=fr.col("!x.map.key").fill_null(0)).schema
        unit = "duration[us]" if store_schema else None
        units = {name: field.unit for name, field in schema.items()}
        assert units == {"x.taken": unit, "x.map.value": unit, "x.count": None}


def test_old_annotations_mean_what_they_did(path: Path) -> None:
    for converted, unit in ((9, "timestamp[ms, UTC]"), (10, "timestamp[us, UTC]"), (8, "time[us]")):
        column = OneColumn([data_page(tw.int64s(10), 10)], 10, element={6: i32(converted)})
        column.write(path)
        assert fr.ParquetDataset(path, batch_size=10).schema["x"].unit == unit
        assert read(path)["x"].tolist() == list(range(10))


DAY = 86_400 * 10**9
EPOCH = 2_440_588


def int96(nanoseconds: int) -> bytes:
    """Nanoseconds since 1970 as 96 bits."""
    day, rest = divmod(nanoseconds, DAY)
    return struct.pack("<qi", rest, day + EPOCH)


@pytest.mark.law(11)
@each_of("wrong", [2**63, -(2**63) - 1, 10**21])
@each_of("is_encoded", [False, True])
def test_a_time_beyond_int64_is_named_with_its_row(path: Path, wrong: int, is_encoded: bool) -> None:
    values = b"".join(int96(number) for number in (*range(9), wrong))
    if is_encoded:
        indices = bytes([4, 2 << 1 | 1]) + bytes([0x10, 0x32, 0x54, 0x76, 0x98, 0, 0, 0])
        pages = [dictionary_page(values, 10), data_page(indices, 10, encoding=tw.RLE_DICTIONARY)]
    else:
        pages = [data_page(values, 10)]
    OneColumn(pages, 10, type=tw.INT96).write(path)
    assert fr.ParquetDataset(path, batch_size=10).read_rows(range(9))["x"].tolist() == list(range(9))
    with pytest.raises(fr.DataError, match=rf"row 9 .* holds {wrong} ns since 1970.*64 bits") as caught:
        read(path)
    assert "column 'x'" in str(caught.value)
    assert str(path) in str(caught.value)


# ---------------------------------------------------------------------------------------- bytes of one length


def test_a_uuid_is_sixteen_bytes(path: Path) -> None:
    ids = [uuid.UUID(int=row << 100 | row) for row in range(ROWS)]
    write(path, pa.array([one.bytes for one in ids], pa.uuid()))
    schema = fr.ParquetDataset(path, batch_size=10).schema
    assert repr(schema).endswith("x: uint8 [B, 16] uuid")
    assert [uuid.UUID(bytes=bytes(row.tolist())) for row in read(path)["x"]] == ids


def test_a_null_among_bytes_of_one_length_is_named(path: Path) -> None:
    write(
        path,
        pa.array([None if row == 13 else b"ab" for row in range(ROWS)], pa.binary(2)),
        write_statistics=False,
    )
    with pytest.raises(fr.DataError, match="row 3 of the row group is null") as caught:
        read(path)
    assert "row group 1" in str(caught.value)
    with pytest.raises(ValueError, match="fill value 256"):
        read(path, {"x": 256})


def test_a_matrix_of_its_own_is_in_no_stack(path: Path) -> None:
    write(path, pa.array([b"ab"] * ROWS, pa.binary(2)))
    with pytest.raises(fr.DataError, match=r"name='m'\): a .* can't be stacked"):
        fr.ParquetDataset(path, batch_size=10, columns=["*", "!x", fr.stack("x", name="m")])


# --------------------------------------------------------------------------------------------------- decimals


def decimals(precision: int, scale: int, share: float = 0.2) -> list[Decimal | None]:
    """The largest and smallest decimals of a type, 0, any, and nulls."""
    random = np.random.default_rng(precision)
    largest = 10**precision - 1
    numbers = [largest, -largest, 0, 1, -1]
    numbers += [
        int.from_bytes(random.bytes(32), "big", signed=True) % (2 * largest) - largest for _ in range(25)
    ]
    context = decimal.Context(prec=80)
    return [
        None if random.random() < share else Decimal(number).scaleb(-scale, context) for number in numbers
    ]


def decimal_array(cells: Sequence[Decimal | None], precision: int, scale: int) -> pa.Array:
    """The cells as Arrow's type that holds them."""
    make = pa.decimal128 if precision <= 38 else pa.decimal256
    return pa.array(cells, make(precision, scale))


@given(st.decimals(allow_nan=False, allow_infinity=False, places=7, min_value=-(10**30), max_value=10**30))
def test_any_decimal_as_a_float_is_what_python_makes_of_it(
    tmp_path_factory: pytest.TempPathFactory, value: Decimal
) -> None:
    path = tmp_path_factory.mktemp("decimals") / "x.parquet"
    pq.write_table(pa.table({"x": pa.array([value], pa.decimal128(38, 7))}), path)
    (batch,) = fr.ParquetDataset(path, batch_size=1, columns=fr.col("x").decimal("float64"))
    assert batch["x"].tolist() == [float(value)]


def test_decimals_that_may_not_fit_are_refused_with_what_can_be_done(path: Path) -> None:
    write(path, decimal_array(decimals(19, 2), 19, 2))
    with pytest.raises(
        fr.DataError, match=r"decimal\(19, 2\) may not fit 64 bits: fr.col\('x'\).decimal\(."
    ) as caught:
        fr.ParquetDataset(path, batch_size=10)
    assert "column 'x'" in str(caught.value)
    assert str(path) in str(caught.value)


def test_decimals_that_are_asked_for_as_integers_are_checked_one_by_one(path: Path) -> None:
    cells = [Decimal(number) / 100 for number in (2**63 - 1, -(2**63), 0)]
    write(path, pa.array(cells, pa.decimal128(38, 2)))
    assert read(path, x=fr.col("x").decimal("int64"))["x"].tolist() == [2**63 - 1, -(2**63), 0]
    for wrong in (2**63, -(2**63) - 1, 10**37):
        with decimal.localcontext() as context:
            context.prec = 60
            cells = [Decimal(0), Decimal(wrong) / 100]
        write(path, pa.array(cells, pa.decimal128(38, 2)))
        with pytest.raises(
            fr.DataError, match=f"row 1 of the row group holds the unscaled {wrong}, .*64 bits"
        ):
            read(path, x=fr.col("x").decimal("int64"))


def test_decimals_of_bytes_of_any_length(path: Path) -> None:
    """As old writers hold them: a text of bytes, the highest first."""
    numbers = [0, 1, -1, 127, 128, -128, -129, 2**62, -(2**63), 2**63 - 1]
    shortest = [n.to_bytes(n.bit_length() // 8 + 1, "big", signed=True) for n in numbers]
    long = [n.to_bytes(20, "big", signed=True) for n in numbers]
    for texts in (shortest, long, [b"", *shortest[1:]]):
        page = data_page(b"".join(map(sized, texts)), 10)
        element = {6: i32(5), 7: i32(2), 8: i32(18)}
        OneColumn([page], 10, type=tw.BYTE_ARRAY, element=element).write(path)
        assert read(path)["x"].tolist() == numbers
        assert read(path, x=fr.col("x").decimal("float64"))["x"].tolist() == [
            float(Decimal(n) / 100) for n in numbers
        ]
        assert read(path, x=fr.col("x").decimal("bytes"))["x"] == [list(text) for text in texts]
        assert fr.ParquetDataset(path, batch_size=3).read_rows([8, 1])["x"].tolist() == [-(2**63), 1]


@pytest.mark.law(11)
def test_a_decimal_of_absurd_length_is_refused_in_time(path: Path) -> None:
    page = data_page(sized(b"\1" * (1 << 22)), 1)
    element = {6: i32(5), 7: i32(2), 8: i32(18)}
    OneColumn([page], 1, type=tw.BYTE_ARRAY, element=element).write(path)
    for rule in ("int64", "float64"):
        with pytest.raises(fr.DataError, match=r"row 0 .*a decimal of 4194304 bytes"):
            list(fr.ParquetDataset(path, batch_size=1, columns=fr.col("x").decimal(rule)))


@pytest.mark.parametrize("rule", ["int32", "", "Float64"])
def test_a_word_that_is_no_rule_of_decimals_is_refused(path: Path, rule: Any) -> None:
    write(path, pa.array([1]))
    with pytest.raises(ValueError, match=r"fr.col\('x'\).decimal must be 'int64' or 'float64' or .*, found"):
        fr.col("x").decimal(rule)
    with pytest.raises(fr.DataError, match=r".decimal\(\) takes no column of type int64.*'x'"):
        fr.ParquetDataset(path, batch_size=1, columns=["*", fr.col("x").decimal("int64")])


@pytest.mark.law(11)
def test_decimals_held_as_integers_have_no_bytes_of_their_own(path: Path) -> None:
    write(path, decimal_array(decimals(9, 2), 9, 2), store_decimal_as_integer=True)
    with pytest.raises(fr.DataError, match='held as integers, which "int64" delivers'):
        fr.ParquetDataset(path, batch_size=1, columns=fr.col("x").decimal("bytes"))


# ---------------------------------------------------------------------------------------------------- filters


def test_a_filter_takes_times_by_their_units_and_members_by_their_names(path: Path) -> None:
    members = pa.array([None if row % 3 else {"a": row} for row in range(ROWS)])
    at = pa.array(range(0, 1000 * ROWS, 1000), pa.timestamp("ns"))
    for is_old in (False, True):
        table = pa.table({"x": at, "s": members})
        pq.write_table(table, path, row_group_size=10, use_deprecated_int96_timestamps=is_old)
        condition = (fr.col("x") >= 12_000) & fr.col("s.a").is_valid()
        (batch,) = fr.ParquetDataset(path, batch_size=6, columns="s", filter=condition, nulls="mask")
        assert batch["s.a"].tolist() == [12, 15, 18, 21, 24, 27]


def test_a_filter_by_what_has_no_order_here_is_refused(path: Path) -> None:
    for array, error in (
        (pa.array([b"ab"] * ROWS, pa.binary(2)), TypeError),
        (decimal_array([Decimal(3)] * ROWS, 5, 2), fr.DataError),
        (decimal_array([Decimal(3)] * ROWS, 30, 2), fr.DataError),
    ):
        write(path, array)
        with pytest.raises(error, match="column 'x'"):
            fr.ParquetDataset(path, batch_size=1, filter=fr.col("x") == 3)


@each_of("batch_size", [9, 333])
@each_of("shuffle", [False, True])
def test_a_value_that_does_not_fit_is_no_error_where_its_row_is_not_wanted(
    tmp_path: Path, batch_size: int, shuffle: bool
) -> None:
    path = tmp_path / "x.parquet"
    values = [decimal.Decimal(number) for number in range(1000)]
    values[501] = decimal.Decimal(10) ** 30
    pq.write_table(pa.table({"d": pa.array(values, pa.decimal128(38, 0))}), path)
    columns = fr.col("d").decimal("int64")
    how = {"batch_size": batch_size, "columns": columns, "tail": "short", "shuffle": shuffle}
    for chosen in (
        {"rows": ~fr.Intervals([[501, 502]])},
        {"rows": [[row, row + 1] for row in range(0, 1000, 2)]},
    ):
        for batch in fr.ParquetDataset(path, world=(0, 1), **how, **chosen):
            assert batch["d"].tolist() == batch.rows().tolist()
    with pytest.raises(fr.DataError, match="row 501 of the row group"):
        list(fr.ParquetDataset(path, world=(0, 1), **how, rows=[[500, 503]]))
