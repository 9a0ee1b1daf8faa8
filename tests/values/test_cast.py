"""Numbers cast to other types on the way: kept exactly, or rounded from float to float, or an error."""

from __future__ import annotations

import decimal
import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import fastresume as fr
from support.casts import open_dataset, read, write
from support.each_of import each_of
from support.shapes import CASTS, bits_of

# ----------------------------------------------------------------------------------------------- what is said

# Their files hold what casts do not, as footers tell (test_known_misfits.py).
pytestmark = pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")


@each_of(
    ("values", "to", "words"),
    [
        (pa.array([1] * 12 + [300]), torch.int8, "row 2 of the row group holds 300, which does not fit int8"),
        (pa.array([1.0] * 12 + [0.5]), torch.int64, "holds 0.5, which does not fit int64"),
        (pa.array([1.0] * 12 + [np.nan]), torch.int64, "holds NaN, which does not fit int64"),
        (pa.array([1.0] * 12 + [-np.inf]), torch.uint8, "holds -inf, which does not fit uint8"),
        (pa.array([1.0] * 12 + [1e300]), torch.float32, "holds 1e300, which does not fit float32"),
        (
            pa.array([1] * 12 + [2**53 + 1]),
            torch.float64,
            "holds 9007199254740993, which does not fit float64 exactly",
        ),
        (pa.array([1] * 12 + [257]), torch.bfloat16, "holds 257, which does not fit bfloat16 exactly"),
        (pa.array([1] * 12 + [2]), torch.bool, "holds 2, which does not fit bool"),
        (pa.array([1] * 12 + [-1], pa.int8()), torch.uint64, "holds -1, which does not fit uint64"),
        (
            pa.array([[1, 1]] * 12 + [[1, 300]]),
            torch.int8,
            "row 2 of the row group holds 300, which does not fit int8",
        ),
    ],
)
def test_an_overflow_names_value_row_group_column_and_file(
    path: Path, values: pa.Array, to: torch.dtype, words: str
) -> None:
    write(path, x=values)
    place = f"(column 'x', row group 1, file '{path}')"
    with pytest.raises(fr.DataError) as caught:
        read(path, fr.col("x").cast(to))
    found = f"{words}: .cast() can name a type that holds it"
    if words.endswith(" exactly"):
        found += f", and .cast({to}, rounding=True) takes the nearest"
    assert str(caught.value).endswith(f"{found} {place}")
    assert "row 2 of the row group" in str(caught.value)


def test_a_batch_before_the_overflow_is_delivered_and_the_cursor_stays_there(path: Path) -> None:
    write(path, x=pa.array([1] * 27 + [300]))  # in the third row group, of which the third batch has a row
    dataset = open_dataset(path, fr.col("x").cast(torch.int8))
    iterator = iter(dataset)
    states = [next(iterator).state_dict() for _ in range(2)]
    with pytest.raises(fr.DataError, match="300"):
        next(iterator)
    assert dataset.state_dict() == states[-1]


@each_of(
    ("dtype", "message"),
    [
        ("int8", r"fr.col\('x'\).cast takes a torch.dtype, found 'int8': write torch.int8$"),
        ("double", "takes a torch.dtype, found 'double': write torch.float64$"),
        (np.int8, "takes a torch.dtype, found <class"),
        (torch.complex64, "integers, floats or bool, found torch.complex64"),
    ],
)
def test_what_is_no_type_of_numbers_is_refused_where_it_is_written(dtype: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        fr.col("x").cast(dtype)


@each_of(
    ("name", "error", "message"),
    [
        ("y", fr.DataError, r"fr.col\('y'\).cast\(torch.int8\): no column matches 'y'; there are: x, text"),
        ("text", fr.DataError, r".cast\(\) takes no column of type string: it takes numbers .*'text'"),
        ("uuid", fr.DataError, r".cast\(\) takes no column of type .*'uuid'"),
        ("x[", ValueError, r"the pattern 'x\[' can't be read"),
    ],
)
def test_what_can_not_be_cast_is_refused_at_construction(
    path: Path, name: str, error: Any, message: str
) -> None:
    uuid = pa.array([b"0" * 16], pa.binary(16))
    write(path, x=pa.array([1]), text=pa.array(["a"]), list=pa.array([[1]]), uuid=uuid)
    with pytest.raises(error, match=message):
        open_dataset(path, fr.col(name).cast(torch.int8))


# ---------------------------------------------------------------------------------------------- which columns


def test_a_pattern_and_the_name_of_a_struct_cast_each_column_that_they_mean(path: Path) -> None:
    struct = pa.array([{"a": 1, "b": 2}])
    write(path, i_1=pa.array([1]), i_2=pa.array([1]), f_1=pa.array([1.0]), s=struct, t=pa.array(["t"]))
    columns = [
        "*",
        fr.col("i_*", "!i_2").cast(torch.float64),
        fr.col("i_2").cast(torch.int8),
        fr.col("s").cast(torch.int32),
    ]
    schema = open_dataset(path, columns).schema
    assert {name: field.dtype for name, field in schema.items()} == {
        "i_1": torch.float64,
        "i_2": torch.int8,
        "f_1": torch.float64,
        "s.a": torch.int32,
        "s.b": torch.int32,
        "t": torch.uint8,
    }
    assert schema["s.a"].expression == "fr.col('s').cast(torch.int32)"
    assert schema["t"].expression is None


def test_columns_of_several_types_are_stacked_once_they_are_cast_to_one(path: Path) -> None:
    columns = {"a": pa.array([1, 2]), "b": pa.array([0.5, None]), "c": pa.array([True, False])}
    write(path, **columns)
    with pytest.raises(fr.DataError, match=r"'a' is int64, 'b' is float64; .cast\(dtype\) makes them one"):
        open_dataset(path, fr.stack("*", name="m"))
    dataset = open_dataset(path, fr.stack(fr.col("*").cast(torch.float32), name="m"), nulls="mask")
    assert str(dataset.schema).startswith("m: float32 [B, 3] a, b, c")
    batch = next(iter(dataset))
    assert batch["m"].tolist() == [[1.0, 0.5, 1.0], [2.0, 0.0, 0.0]]
    assert batch["m_valid"].tolist() == [[True, True, True], [True, False, True]]


def test_decimals_of_two_scales_are_no_matrix_but_when_they_are_cast(path: Path) -> None:
    """1.50 and 1.5000 are 150 and 15000 of the last digit of each."""
    kinds = {"a": pa.decimal128(9, 2), "b": pa.decimal128(9, 4), "c": pa.decimal128(9, 2)}
    write(path, **{name: pa.array([Decimal("1.50")] * 2, kind) for name, kind in kinds.items()})
    with pytest.raises(
        fr.DataError, match=r"'a' is decimal\(9, 2\), 'b' is decimal\(9, 4\); .cast\(dtype\) makes them one"
    ):
        open_dataset(path, fr.stack("a", "b", name="m"))
    assert open_dataset(path, fr.stack("a", "c", name="m")).schema["m"].unit == "decimal(9, 2)"
    (batch,) = open_dataset(path, fr.stack(fr.col("*").cast(torch.float64), name="m"))
    assert batch["m"].tolist() == [[1.5] * 3] * 2


def test_values_for_nulls_are_those_of_the_new_type(path: Path) -> None:
    write(path, x=pa.array([1, None]), l=pa.array([[1, None], None]))
    batch = next(iter(open_dataset(path, fr.col("*").cast(torch.float32).fill_null(0.5))))
    assert batch["x"].tolist() == [1.0, 0.5]
    assert batch["l"].values.tolist() == [1.0, 0.5]  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="the fill value 300 does not fit, the column is int8"):
        open_dataset(path, fr.col("x").cast(torch.int8).fill_null(300))


@each_of(
    ("to", "value", "nearest"),
    [
        (torch.float16, 2049, 2048),
        (torch.float16, 2049.0, 2048),
        (torch.bfloat16, 257, 256),
        (torch.float32, -(2**24) - 1, -(2**24)),
        (torch.float64, 2**53 + 1, 2**53),
        (torch.float64, -(2**53) - 1, -(2**53)),
    ],
)
def test_a_whole_number_for_nulls_is_never_rounded(
    path: Path, to: torch.dtype, value: float, nearest: int
) -> None:
    write(path, x=pa.array([1, None]), l=pa.array([[1], []]))
    name = str(to).removeprefix("torch.")
    said = f"does not fit, the column is {name}: the nearest is {nearest}"
    with pytest.raises(ValueError, match=f"the fill value {value} {said}"):
        open_dataset(path, fr.col("x").cast(to).fill_null(value))
    with pytest.raises(ValueError, match=f"the pad value {value} {said}"):
        open_dataset(path, fr.col("l").cast(to).pad(2, value=value))
    both = fr.col("*").cast(to).fill_null(nearest)
    columns = [both, fr.col("l").cast(to).pad(2, value=nearest).alias("padded")]
    batch = next(iter(open_dataset(path, columns)))
    assert batch["x"].tolist()[1] == batch["padded"].tolist()[1][0] == nearest


def test_a_fraction_for_nulls_is_the_nearest_number_of_the_type(path: Path) -> None:
    write(path, x=pa.array([1, None]))
    for to in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert next(iter(open_dataset(path, fr.col("*").cast(to).fill_null(0.1))))["x"][1] == torch.tensor(
            0.1, dtype=to
        )


# ------------------------------------------------------------------------------------------ types and columns


def test_times_and_decimals_are_cast_as_the_numbers_that_they_would_be(path: Path) -> None:
    numbers = [1, -250, 12]
    decimals = [decimal.Decimal(number).scaleb(-2) for number in numbers]
    wide = pa.array(decimals, pa.decimal128(30, 2))
    stamps = pa.array([number * 1000 for number in numbers], pa.timestamp("ns"))
    columns = {
        "time": pa.array(numbers, pa.timestamp("us", "UTC")),
        "int96": stamps,
        "short": pa.array(decimals, pa.decimal128(9, 2)),
        "wide": wide,
        "text": pa.array(decimals, pa.decimal256(60, 2)),
        "float": wide,
    }
    how = {"use_deprecated_int96_timestamps": False, "store_decimal_as_integer": True}
    write(path, how, **columns)
    columns = [
        fr.col("time").cast(torch.int16),
        fr.col("int96").cast(torch.float32),
        fr.col("short", "wide").decimal("int64").cast(torch.int16),
        fr.col("text").decimal("int64").cast(torch.float64),
        fr.col("float").cast(torch.float32),
    ]
    dataset = open_dataset(path, columns)
    assert str(dataset.schema).splitlines() == [
        "time: int16 [B] timestamp[us, UTC]",
        "int96: float32 [B] timestamp[ns]",
        "short: int16 [B] decimal(9, 2)",
        "wide: int16 [B] decimal(30, 2)",
        "text: float64 [B] decimal(60, 2)",
        "float: float32 [B]",
    ]
    batch = next(iter(dataset))
    for name in ("time", "short", "wide", "text"):
        assert batch[name].tolist() == numbers, name
    assert batch["int96"].tolist() == [1000.0, -250_000.0, 12_000.0]
    assert torch.equal(batch["float"], torch.tensor([0.01, -2.5, 0.12]))
    for name, to in (("wide", torch.uint8), ("text", torch.uint8), ("short", torch.uint8)):
        with pytest.raises(fr.DataError, match=rf"row 1 .*holds -250, which does not fit uint8: .*'{name}'"):
            list(open_dataset(path, fr.col(name).decimal("int64").cast(to)))


@each_of("precision", [9, 30, 60])
@each_of("delivered", ["int64", "float64"])
def test_a_decimal_that_nobody_wants_may_be_anything(path: Path, precision: int, delivered: Any) -> None:
    values = [decimal.Decimal(value) for value in ("1.00", "70000.25", "3.00")]
    type_ = pa.decimal128(precision, 2) if precision < 40 else pa.decimal256(precision, 2)
    for is_integer in (True, False) if precision < 19 else (False,):
        write(path, {"store_decimal_as_integer": is_integer}, x=pa.array(values, type_))
        dataset = open_dataset(path, fr.col("x").decimal(delivered).cast(torch.int16))
        unit = 100 if delivered == "int64" else 1
        assert dataset.read_rows([0, 2])["x"].tolist() == [unit, 3 * unit]
        value = "7000025" if delivered == "int64" else "70000.25"
        with pytest.raises(fr.DataError, match=f"row 1 of the row group holds {value}, which does not fit"):
            list(dataset)


def test_instants_of_96_bits_are_cast_and_checked(path: Path) -> None:
    stamps = pa.array([1000, 2**31 * 1000], pa.timestamp("ns"))
    write(path, {"use_deprecated_int96_timestamps": True}, x=stamps)
    assert read(path, fr.col("x").cast(torch.float64)).tolist() == [1000.0, 2.0**31 * 1000]
    with pytest.raises(
        fr.DataError, match="row 1 of the row group holds 2147483648000, which does not fit int32"
    ):
        read(path, fr.col("x").cast(torch.int32))
    assert open_dataset(path, fr.col("x").cast(torch.int32)).read_rows([0])["x"].tolist() == [1000]


def test_files_that_differ_are_cast_to_one_type(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=pa.array([1], pa.int32()))
    write(tmp_path / "b.parquet", x=pa.array([2**40], pa.int64()))
    write(tmp_path / "c.parquet", y=pa.array([2**40], pa.int64()))
    lacking = fr.col("x").optional()
    found = read(tmp_path, lacking.cast(torch.float32).fill_null(7))
    assert found.tolist() == [1.0, 2.0**40, 7.0]
    with pytest.raises(fr.DataError, match=r"1099511627776, which does not fit int32: .*b\.parquet"):
        read(tmp_path, lacking.cast(torch.int32).fill_null(7))


def test_values_of_paths_are_cast(tmp_path: Path) -> None:
    for day in (7, 300):
        (tmp_path / f"day={day}").mkdir()
        write(tmp_path / f"day={day}" / "x.parquet", x=pa.array([1, 2]))
    assert read(tmp_path, fr.col("day").from_path().cast(torch.int16), "day").tolist() == [
        300,
        300,
        7,
        7,
    ]
    dataset = open_dataset(tmp_path, fr.col("day").from_path().cast(torch.int8))
    with pytest.raises(fr.DataError, match=r"the path holds 300, which does not fit int8: .*'day'.*day=300"):
        list(dataset)
    assert dataset.read_rows([3, 2])["day"].tolist() == [7, 7]


# ----------------------------------------------------------------------------------------------- other things


def test_a_filter_speaks_of_the_files_values(path: Path) -> None:
    write(path, x=pa.array([1.25, 2.5, 1000.5]))
    kept = {"filter": (fr.col("x") > 1.25) & (fr.col("x") < 500)}
    assert read(path, fr.col("x").cast(torch.float16), **kept).tolist() == [2.5]
    write(path, x=pa.array([1, 300, 2]))
    # A row that is not kept may hold anything.
    assert read(path, fr.col("x").cast(torch.int8), filter=fr.col("x") < 100).tolist() == [1, 2]


def test_a_state_goes_on_under_other_casts(path: Path) -> None:
    write(path, x=pa.array(range(40)))
    state = next(iter(open_dataset(path, None))).state_dict()
    dataset = pickle.loads(pickle.dumps(open_dataset(path, fr.col("*").cast(torch.float16))))
    dataset.load_state_dict(state)
    assert next(iter(dataset))["x"].tolist() == [7.0, 8, 9, 10, 11, 12, 13]
    again = dataset.batch_at(0, 1)["x"]
    assert (again.dtype, again.tolist()) == (torch.float16, [7.0, 8, 9, 10, 11, 12, 13])


def test_narrow_types_take_less_memory_by_the_plan(path: Path) -> None:
    write(path, **{f"c_{index}": pa.array(range(40)) for index in range(8)})
    plain, narrow = (
        open_dataset(path, columns)._spec.layout.row_bytes for columns in (None, fr.col("*").cast(torch.int8))
    )
    assert (plain, narrow) == (64, 8)
    for to in CASTS:
        assert open_dataset(path, fr.col("*").cast(getattr(torch, to))).plan().steps == 6


def test_bfloat16_has_no_type_in_arrow_and_its_bits_can_be_had(path: Path) -> None:
    write(path, x=pa.array([1.0, -2.0]))
    batch = next(iter(open_dataset(path, fr.col("x").cast(torch.bfloat16))))
    with pytest.raises(TypeError, match=r"'x' can't be a column of Arrow: .*bfloat16"):
        batch.to_arrow()
    assert bits_of(batch["x"]).tolist() == [0x3F80, 0xC000]  # type: ignore[union-attr]


def test_integers_in_one_file_and_floats_in_another_are_read_where_they_are_cast(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", x=pa.array([1, 2]))
    write(tmp_path / "b.parquet", x=pa.array([0.5, 1e39]))
    with pytest.raises(
        fr.DataError, match=r"is (double|float64), expected int64 .*fr.col\('x'\).cast\(torch.float64\)"
    ):
        open_dataset(tmp_path, None)
    dataset = open_dataset(tmp_path, fr.col("x").cast(torch.float64), batch_size=4)
    assert next(iter(dataset))["x"].tolist() == [1.0, 2.0, 0.5, 1e39]
    with pytest.raises(fr.DataError, match=r"row 1 .* holds 1e39, which does not fit float32: .*b\.parquet"):
        list(open_dataset(tmp_path, fr.col("x").cast(torch.float32)))


def test_a_decimal_that_is_cast_is_the_number_that_it_stands_for(path: Path) -> None:
    cells = [decimal.Decimal("1.23"), decimal.Decimal("-0.01"), None]
    write(path, x=pa.array(cells, pa.decimal128(9, 2)), y=pa.array([7, 8, 9], pa.decimal128(9, 0)))
    columns = [fr.col("x").cast(torch.float32).fill_null(0), fr.col("y").cast(torch.int16)]
    batch = next(iter(open_dataset(path, columns)))
    assert torch.equal(batch["x"], torch.tensor([1.23, -0.01, 0.0]))
    assert batch["y"].tolist() == [7, 8, 9]
    with pytest.raises(
        fr.DataError, match=r'a decimal\(9, 2\) is no integer: .decimal\("int64"\) before the cast'
    ):
        open_dataset(path, fr.col("x").cast(torch.int64).fill_null(0))
