"""Files whose schemas differ: one type that holds all, or a refusal that names file and column."""

from __future__ import annotations

import itertools
import re
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
from support.each_of import each_of
from support.strategies import FLOATS, INTEGERS, extremes
from support.topologies import Shuffle

ORDERS = ({}, Shuffle(3, 5, 12).arguments)


def write(directory: Path, *tables: dict[str, Any], **how: Any) -> Path:
    """Write a file for each table, `0.parquet` first; return the directory."""
    for place, table in enumerate(tables):
        pq.write_table(pa.table(table), directory / f"{place}.parquet", row_group_size=4, **how)
    return directory


def rows_of(directory: Path, name: str, order: dict[str, Any] | None = None, **arguments: Any) -> list[Any]:
    """All rows of a column in the order of their numbers, as they are delivered."""
    found: dict[int, Any] = {}
    for batch in fr.ParquetDataset(directory, batch_size=3, tail="short", **(order or {}), **arguments):
        value = batch[name]
        rows = value.to_list() if isinstance(value, fr.Jagged) else list(value)
        found.update(zip(batch.rows().tolist(), rows, strict=True))
    return [found[row] for row in sorted(found)]


def joined(one: str, other: str) -> np.dtype | None:
    """The type that both become: the smallest that holds both, integers and floats apart."""
    among = next((group for group in (INTEGERS, FLOATS) if one in group and other in group), ())
    held = [np.dtype(name) for name in among if all(np.can_cast(of, name) for of in (one, other))]
    return min(held, key=lambda dtype: (dtype.itemsize, dtype.kind != "u"), default=None)


@each_of("one", [*INTEGERS, *FLOATS])
@each_of("other", [*INTEGERS, *FLOATS, "bool"])
@each_of("is_listed", [False, True])
def test_numbers_become_the_smallest_type_that_holds_both(
    tmp_path: Path, one: str, other: str, is_listed: bool
) -> None:
    given = [np.array([0, 1]) if name == "bool" else extremes(np.dtype(name)) for name in (one, other)]
    arrays = [pa.array(values.astype(name)) for values, name in zip(given, (one, other), strict=True)]
    if is_listed:
        arrays = [pa.ListArray.from_arrays([0, 2, len(array)], array) for array in arrays]
    for use_dictionary in (False, True):
        write(tmp_path, *({"x": array} for array in arrays), use_dictionary=use_dictionary)
        dtype = joined(one, other)
        if dtype is None:
            with pytest.raises(
                fr.DataError, match=rf"the column is .*{other}.*, expected .*{one}.* as in"
            ) as caught:
                fr.ParquetDataset(tmp_path, batch_size=1)
            for word in ("column 'x'", str(tmp_path / "0.parquet"), str(tmp_path / "1.parquet")):
                assert word in str(caught.value)
            continue
        assert fr.ParquetDataset(tmp_path, batch_size=1).schema["x"].dtype == getattr(torch, dtype.name)
        expected = np.concatenate(
            [values.astype(name).astype(dtype) for values, name in zip(given, (one, other), strict=True)]
        )
        for order in ORDERS:
            rows = rows_of(tmp_path, "x", order)
            if is_listed:
                rows = [torch.tensor(item, dtype=getattr(torch, dtype.name)) for row in rows for item in row]
            found = torch.stack(rows).numpy()
            assert found.dtype == dtype
            assert np.array_equal(found, expected, equal_nan=dtype.kind == "f")
            assert np.array_equal(np.signbit(found), np.signbit(expected)) or dtype.kind != "f"


def test_one_type_is_that_of_all_files_not_of_the_first_two(tmp_path: Path) -> None:
    names = ("uint8", "int8", "uint16", "int64", "int16")
    write(tmp_path, *({"x": np.array([1, 2], name)} for name in names))
    assert fr.ParquetDataset(tmp_path, batch_size=1).schema["x"].dtype == torch.int64
    assert rows_of(tmp_path, "x") == [1, 2] * 5


def test_nulls_and_masks_stay_what_they_are(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"x": pa.array([1, None], pa.int8())},
        {"x": pa.array([None, 2**40])},
        {"x": pa.array([3, 4])},
    )
    for order in ORDERS:
        assert rows_of(tmp_path, "x", order, columns=fr.col("*").fill_null(2**41)) == [
            1,
            2**41,
            2**41,
            2**40,
            3,
            4,
        ]
        assert rows_of(tmp_path, "x_valid", order, nulls="mask") == [True, False, False, True, True, True]


def test_columns_of_a_stack_become_one_type_each(tmp_path: Path) -> None:
    one, two = np.array([1, 2], np.int16), np.array([1, 2], np.int32)
    write(tmp_path, {"a": one, "b": two}, {"b": two, "a": two})
    assert (
        fr.ParquetDataset(tmp_path, batch_size=1, columns=["*", "!*", fr.stack("*", name="m")])
        .schema["m"]
        .dtype
        == torch.int32
    )
    write(tmp_path, {"a": one, "b": two}, {"b": two, "a": one})
    with pytest.raises(fr.DataError, match="more than one type"):
        fr.ParquetDataset(tmp_path, batch_size=1, columns=["*", "!*", fr.stack("*", name="m")])


AT = 1_700_000_000_123_456_000


@each_of(
    ("arrays", "expected"),
    [
        (
            [pa.array(["a"]), pa.array(["b"]).dictionary_encode(), pa.array(["c"], pa.large_string())],
            [b"a", b"b", b"c"],
        ),
        (
            [
                pa.array([Decimal("1.5")], pa.decimal128(5, 2)),
                pa.array([Decimal("2.5")], pa.decimal128(15, 2)),
            ],
            [150, 250],
        ),
        ([pa.array([None]), pa.array([7], pa.date32())], [0, 7]),
        ([pa.array(["a"]), pa.array([None])], [b"a", b""]),
        ([pa.array([[1]]), pa.array([[2]], pa.list_(pa.int8(), 1)), pa.array([None])], [[1], [2], []]),
    ],
)
def test_what_holds_the_same_agrees(tmp_path: Path, arrays: list[pa.Array], expected: list[Any]) -> None:
    write(tmp_path, *({"x": array} for array in arrays))
    for order in ORDERS:
        found = rows_of(tmp_path, "x", order, columns=fr.col("*").fill_null(0))
        assert [
            bytes(row) if isinstance(want, bytes) else row for row, want in zip(found, expected, strict=True)
        ] == expected


def test_int96_agrees_with_nanoseconds_and_decimals_however_they_are_held(tmp_path: Path) -> None:
    table = {"x": pa.array([AT], pa.timestamp("ns")), "d": pa.array([Decimal("1.25")], pa.decimal128(9, 2))}
    how = [{"use_deprecated_int96_timestamps": True}, {"store_decimal_as_integer": True}]
    for place, arguments in enumerate(how):
        pq.write_table(pa.table(table), tmp_path / f"{place}.parquet", **arguments)
    assert rows_of(tmp_path, "x") == [AT, AT]
    assert rows_of(tmp_path, "d") == [125, 125]
    assert rows_of(tmp_path, "d", columns=fr.col("d").decimal("float64")) == [1.25, 1.25]


def test_integers_beside_durations_are_taken_for_durations(tmp_path: Path) -> None:
    """Files without Arrow's schema have none; and of three files, two units are refused in any order."""
    durations = {"x": pa.array([1, 2], pa.duration("us"))}
    for tables in ([durations, {"x": [3]}], [{"x": [1, 2]}, durations]):
        write(tmp_path, *tables)
        assert fr.ParquetDataset(tmp_path, batch_size=1).schema["x"].unit == "duration[us]"
        assert rows_of(tmp_path, "x")[:2] == [1, 2]
    types = (pa.duration("us"), pa.int64(), pa.duration("s"))
    for order in itertools.permutations(types):
        write(tmp_path, *({"x": pa.array([1], type_)} for type_ in order))
        with pytest.raises(fr.DataError, match="column 'x'"):
            fr.ParquetDataset(tmp_path, batch_size=1)


@each_of(
    ("one", "other"),
    [
        (pa.timestamp("ms"), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.duration("ms"), pa.duration("us")),
        (pa.duration("us"), pa.time64("us")),
        (pa.date32(), pa.int32()),
        (pa.time32("ms"), pa.int64()),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.decimal128(9, 2), pa.int64()),
        (pa.binary(2), pa.binary(3)),
        (pa.binary(2), pa.binary()),
        (pa.string(), pa.binary()),
        (pa.int64(), pa.list_(pa.int64())),
        (pa.int64(), pa.struct([("y", pa.int64())])),
        (pa.int64(), pa.float64()),
        (pa.list_(pa.int32()), pa.list_(pa.date32())),
    ],
)
def test_what_does_not_agree_is_refused_with_both_files(tmp_path: Path, one: Any, other: Any) -> None:
    for types in ((one, other), (other, one)):
        write(tmp_path, *({"x": pa.array([None], type_)} for type_ in types))
        with pytest.raises(fr.DataError, match=r"column 'x(\.y)?'") as caught:
            fr.ParquetDataset(tmp_path, batch_size=1, columns=fr.col("*").fill_null(0))
        for place in (0, 1):
            assert str(tmp_path / f"{place}.parquet") in str(caught.value)


# -------------------------------------------------------------------------------------------- missing columns


BIG = 2**60 + 1
CENTS, PARTS = (Decimal("1.25"), pa.decimal128(9, 2)), (Decimal("1.2500"), pa.decimal128(9, 4))

JOINED: dict[str, tuple[pa.Array, pa.Array, str, list[Any]]] = {
    "signs": (pa.array([BIG], pa.uint64()), pa.array([-BIG]), ".cast(torch.int64)", [BIG, -BIG]),
    "bools and integers": (pa.array([True]), pa.array([-3]), ".cast(torch.int64)", [1, -3]),
    "bools and floats": (pa.array([True]), pa.array([1.5]), ".cast(torch.float64)", [1.0, 1.5]),
    "integers and floats": (pa.array([3]), pa.array([1.5]), ".cast(torch.float64)", [3.0, 1.5]),
    "two scales": (
        pa.array([CENTS[0]], CENTS[1]),
        pa.array([PARTS[0]], PARTS[1]),
        '.decimal("float64")',
        [1.25, 1.25],
    ),
    "decimals and integers": (
        pa.array([CENTS[0]], CENTS[1]),
        pa.array([3]),
        ".cast(torch.float64)",
        [1.25, 3.0],
    ),
}


@each_of("what", JOINED)
def test_the_rule_that_an_error_advises_joins_numbers_of_two_types(tmp_path: Path, what: str) -> None:
    one, other, rule, values = JOINED[what]
    write(tmp_path, {"x": one}, {"x": other})
    with pytest.raises(fr.DataError, match=re.escape(f"fr.col('x'){rule} makes one type of both")):
        fr.ParquetDataset(tmp_path, batch_size=2)
    column = fr.col("x").cast(torch.int64) if "int64" in rule else fr.col("x").cast(torch.float64)
    if ".decimal" in rule:
        column = fr.col("x").decimal("float64")
    assert fr.ParquetDataset(tmp_path, batch_size=2, columns=column).peek()["x"].tolist() == values


def test_buckets_of_two_types_are_those_of_integers(tmp_path: Path) -> None:
    write(tmp_path, {"x": pa.array([BIG], pa.uint64())}, {"x": pa.array([-BIG])})
    with pytest.raises(fr.DataError, match=r"fr\.col\('x'\)\.cast\(torch\.int64\) makes one type of both"):
        fr.ParquetDataset(tmp_path, batch_size=2, columns=fr.col("x").hash(10))
    columns = fr.col("x").cast(torch.int64).hash(10)
    assert fr.ParquetDataset(tmp_path, batch_size=2, columns=columns).peek()["x"].shape == (2,)


def test_times_that_count_in_two_units_are_joined_by_no_rule(tmp_path: Path) -> None:
    write(tmp_path, {"x": pa.array([1], pa.timestamp("us"))}, {"x": pa.array([1], pa.timestamp("ms"))})
    with pytest.raises(fr.DataError, match="no rule joins them: write one type to all files") as caught:
        fr.ParquetDataset(tmp_path, batch_size=2)
    assert "cast" not in str(caught.value)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_column_that_files_may_lack_is_null_there(tmp_path: Path, place: int) -> None:
    tables: list[dict[str, Any]] = [
        {
            "a": [row, row + 1],
            "c": [row, row + 1],
            "t": ["x", "y"],
            "l": [[row], []],
            "s": [{"u": row}, {"u": row}],
        }
        for row in (0, 2, 4)
    ]
    tables[place] = {"a": [9, 9]}
    write(tmp_path, *tables)
    gone = [2 * place, 2 * place + 1]
    for order in ORDERS:
        columns = [
            "a",
            fr.col("c").optional().fill_null(-1),
            fr.col("[tl]").optional().fill_null(0),
            fr.col("s").optional().fill_null(5),
        ]
        filled: dict[str, Any] = {"order": order, "columns": columns}
        expected: dict[str, list[Any]] = {
            "c": [-1 if row in gone else row for row in range(6)],
            "t": [[] if row in gone else [b"xy"[row % 2]] for row in range(6)],
            "l": [[] if row in gone or row % 2 else [row] for row in range(6)],
            "s.u": [5 if row in gone else row // 2 * 2 for row in range(6)],
        }
        for name, rows in expected.items():
            assert rows_of(tmp_path, name, **filled) == rows
        lacking = [fr.col(names).optional().mask_null() for names in ("[!as]*", "s")]
        masked: dict[str, Any] = {"order": order, "columns": ["a", *lacking]}
        for name in ("c_valid", "s.u_valid", "s_valid"):
            assert rows_of(tmp_path, name, **masked) == [row not in gone for row in range(6)]
        for name in ("t", "l"):
            assert [row is None for row in rows_of(tmp_path, name, **masked)] == [
                row in gone for row in range(6)
            ]


def test_a_column_that_the_first_file_lacks_comes_behind_its_own(tmp_path: Path) -> None:
    write(tmp_path, {"b": [1]}, {"a": [1], "b": [1]}, {"c": [1], "b": [1]})
    dataset = fr.ParquetDataset(
        tmp_path,
        batch_size=1,
        columns=["b", fr.col("[ac]").optional().fill_null(0)],
    )
    assert list(dataset.schema) == ["b", "a", "c"]


def test_a_missing_column_is_refused_where_nothing_is_said_of_its_nulls(tmp_path: Path) -> None:
    write(tmp_path, {"a": [1], "c": [1]}, {"a": [1]})
    with pytest.raises(fr.DataError, match=r"the column is missing; file .*0.parquet' has it") as caught:
        fr.ParquetDataset(tmp_path, batch_size=1, columns=fr.col("*").fill_null(0))
    assert "column 'c'" in str(caught.value)
    with pytest.raises(fr.DataError, match=r"as of a column that the file lacks; \.mask_null") as caught:
        fr.ParquetDataset(tmp_path, batch_size=1, columns=["*", fr.col("c").optional()])
    assert "column 'c'" in str(caught.value)
    assert str(tmp_path / "1.parquet") in str(caught.value)


def test_a_name_that_means_no_column_is_refused_but_where_it_is_optional(tmp_path: Path) -> None:
    write(tmp_path, {"c": [1], "a": [1]}, {"b": [1], "a": [1]})
    for names in (("d",), ("c", "d*")):
        with pytest.raises(fr.DataError, match=r"no column matches 'd\*?'; there are: c, a, b "):
            fr.ParquetDataset(tmp_path, batch_size=1, columns=fr.col(*names).fill_null(0))
    every = ["a", fr.col("c", "d*").optional().fill_null(0)]
    assert list(fr.ParquetDataset(tmp_path, batch_size=1, columns=every).schema) == ["a", "c"]


# ---------------------------------------------------------------------------------------------------- resumes


@pytest.mark.law(2)
@given(
    st.lists(st.sampled_from((*INTEGERS[:7], None)), min_size=1, max_size=4),
    st.integers(1, 5),
    st.sampled_from(ORDERS),
    st.data(),
)
def test_a_resume_over_files_that_differ_is_exact(
    tmp_path_factory: pytest.TempPathFactory,
    types: list[str | None],
    batch_size: int,
    order: dict[str, Any],
    data: st.DataObject,
) -> None:
    directory = tmp_path_factory.mktemp("drift")
    types.append("int16")
    tables = [
        {"a": [place] * 5} if of is None else {"a": [place] * 5, "x": np.arange(5).astype(of)}
        for place, of in enumerate(types)
    ]
    write(directory, *tables)

    def made() -> fr.ParquetDataset:
        return fr.ParquetDataset(
            directory, batch_size=batch_size, columns=["*", fr.col("x").optional().mask_null()], **order
        )

    batches = list(made())
    place = data.draw(st.integers(0, len(batches) - 1))
    resumed = made()
    resumed.load_state_dict(batches[place].state_dict())
    later = list(resumed) if place + 1 < len(batches) else []
    assert len(later) == len(batches) - place - 1
    for batch, expected in zip(later, batches[place + 1 :], strict=True):
        assert list(batch) == list(expected) == ["a", "x", "x_valid"]
        for name in batch:
            assert torch.equal(batch[name], expected[name])  # type: ignore[arg-type]
