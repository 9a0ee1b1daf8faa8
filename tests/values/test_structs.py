"""Structs, maps and lists of structs are columns of their members; lists of one length are matrices."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from test_types import ORDERS, ROWS, WAYS, read, write

import fastresume as fr
from support.each_of import each_of


def nested() -> pa.Array:
    """Structs three deep, in which each may be null."""
    rows: list[Any] = []
    for row in range(ROWS):
        leaf = None if row % 5 == 4 else row
        inner = None if row % 7 == 3 else {"b": leaf, "c": {"d": leaf}}
        rows.append(None if row % 11 == 2 else {"a": inner, "t": "x" * row, "l": [row] * (row % 3)})
    return pa.array(rows)


def cell(row: int, *path: str) -> Any:
    """The value at a path of the structs; None if it, or a struct above it, is null."""
    found = nested()[row].as_py()
    for name in path:
        found = None if found is None else found[name]
    return found


@each_of("way", WAYS)
@each_of("order", ORDERS)
def test_a_null_struct_and_a_null_member_are_told_apart_where_the_struct_is_named(
    path: Path, way: dict[str, Any], order: dict[str, Any]
) -> None:
    write(path, nested(), **way)
    found = read(path, {"x": "mask", "x.a": "mask", "x.a.c": "mask"}, order)
    for name in (("a", "b"), ("a", "c", "d")):
        key = ".".join(("x", *name))
        expected = [cell(row, *name) for row in range(ROWS)]
        assert found[key].tolist() == [value or 0 for value in expected]
        assert found[f"{key}_valid"].tolist() == [value is not None for value in expected]
    for name in ((), ("a",), ("a", "c")):
        key = "_".join((".".join(("x", *name)), "valid"))
        assert found[key].tolist() == [cell(row, *name) is not None for row in range(ROWS)]
    assert found["x.l"] == [cell(row, "l") for row in range(ROWS)]
    texts = [None if row is None else bytes(row).decode() for row in found["x.t"]]
    assert texts == [cell(row, "t") for row in range(ROWS)]
    assert list(found)[-3:] == ["x_valid", "x.a_valid", "x.a.c_valid"]


def test_members_have_the_struct_s_name_before_theirs(path: Path) -> None:
    write(path, nested())
    everything = ["x.a.b", "x.a.c.d", "x.t", "x.l"]
    for columns, names in (
        (None, ["row", *everything]),
        ("x", everything),
        ("x.a", everything[:2]),
        (["x.a.c.d", "x"], ["x.a.c.d", "x.a.b", "x.t", "x.l"]),
        ("*.d", ["x.a.c.d"]),
        ("x.*", everything),
    ):
        found = fr.ParquetDataset(path, batch_size=1, columns=columns, nulls="mask").schema
        assert [name for name in found if not name.endswith("_valid")] == names
    with pytest.raises(fr.DataError, match=r"no column matches 'x\.a\.n'"):
        fr.ParquetDataset(path, batch_size=1, columns="x.a.n")


def test_a_mask_of_all_columns_marks_members_alone(path: Path) -> None:
    write(path, nested())
    for how in ({"nulls": "mask", "columns": "x.a"}, {"columns": fr.col("x.a.*").mask_null()}):
        found = fr.ParquetDataset(path, batch_size=1, **how).schema  # type: ignore[arg-type]
        assert list(found) == ["x.a.b", "x.a.b_valid", "x.a.c.d", "x.a.c.d_valid"]


def test_what_is_left_out_of_a_struct_may_be_something_else(path: Path) -> None:
    write(path, nested())
    columns = [fr.col("x.a.b").fill_null(7), fr.col("x.a", "!x.a.b").mask_null()]
    found = read(path, columns=columns)
    assert list(found) == ["x.a.b", "x.a.c.d", "x.a.c.d_valid", "x.a_valid"]
    assert found["x.a.b"].tolist() == [7 if cell(row, "a", "b") is None else row for row in range(ROWS)]


def test_members_are_stacked(path: Path) -> None:
    write(path, nested())
    for order in ORDERS:
        columns = [fr.stack(fr.col("x.a").mask_null(), name="m"), fr.col("x", "!x.*").mask_null()]
        found = read(path, order=order, columns=columns)
        expected = [cell(row, "a", "b") for row in range(ROWS)]
        assert found["m"].tolist() == [[value or 0] * 2 for value in expected]
        assert found["m_valid"].tolist() == [[value is not None] * 2 for value in expected]
        assert found["x_valid"].tolist() == [cell(row) is not None for row in range(ROWS)]


def test_a_struct_of_lists_alone_is_told_apart_too(path: Path) -> None:
    rows = [
        None if row % 4 == 1 else {"l": None if row % 3 == 0 else [row] * (row % 5)} for row in range(ROWS)
    ]
    write(path, pa.array(rows))
    for order in ORDERS:
        found = read(path, {"x": "mask"}, order)
        assert found["x.l"] == [None if row is None else row["l"] for row in rows]
        assert found["x_valid"].tolist() == [row is not None for row in rows]


def test_a_struct_none_of_whose_members_is_delivered_has_no_mask(path: Path) -> None:
    wide, wide_type = [Decimal("1.25")], pa.list_(pa.decimal128(19, 2))
    write(
        path,
        pa.array(
            [{"t": wide, "n": {"l": [1]}}] * ROWS,
            pa.struct([("t", wide_type), ("n", pa.struct([("l", pa.list_(pa.int64()))]))]),
        ),
    )
    assert fr.ParquetDataset(path, batch_size=1, columns=fr.col("x", "!x.t").mask_null()).schema["x_valid"]
    write(path, pa.array([{"t": wide}] * ROWS, pa.struct([("t", wide_type)])))
    with pytest.raises(fr.DataError, match="none of its members can be delivered"):
        fr.ParquetDataset(path, batch_size=1, columns=fr.col("x", "!x.t").mask_null())


def test_maps_are_lists_of_keys_and_lists_of_values(path: Path) -> None:
    rows = [
        None if row == 5 else [(key, None if key == row % 7 else key * row) for key in range(row % 4)]
        for row in range(ROWS)
    ]
    write(path, pa.array(rows, pa.map_(pa.int16(), pa.int64())))
    for order in ORDERS:
        found = read(path, {"x.key": "mask", "x.value": -1}, order)
        assert list(found) == ["row", "x.key", "x.value"]
        assert found["x.key"] == [None if row is None else [key for key, _ in row] for row in rows]
        assert found["x.value"] == [
            [-1 if value is None else value for _, value in row or []] for row in rows
        ]
    found = read(path, "mask")
    assert found["x.value"] == [None if row is None else [value for _, value in row] for row in rows]


def test_lists_of_structs_are_lists_of_their_members(path: Path) -> None:
    rows = [
        None
        if row == 5
        else [
            None if row % 6 == 4 else {"a": item, "b": None if item == 2 else row / 2}
            for item in range(row % 4)
        ]
        for row in range(ROWS)
    ]
    write(path, pa.array(rows))
    for order in ORDERS:
        found = read(path, {"x.a": -1, "x.b": -2.5}, order)
        for name, fill in (("a", -1), ("b", -2.5)):
            expected = [
                [fill if item is None or item[name] is None else item[name] for item in row or []]
                for row in rows
            ]
            assert found[f"x.{name}"] == expected
    found = read(path, "mask")
    for name in ("a", "b"):
        expected = [
            None if row is None else [None if item is None else item[name] for item in row] for row in rows
        ]
        assert found[f"x.{name}"] == expected


# ---------------------------------------------------------------------------------------- lists of one length


def test_lists_of_one_length_are_known_before_the_first_batch(path: Path) -> None:
    write(path, pa.array([[1, 2]] * ROWS))
    for name in ("x", "[x]"):
        schema = fr.ParquetDataset(path, batch_size=1, columns=["*", fr.col(name).fixed(2)]).schema
        assert schema["x"].shape == ("B", 2)
        assert repr(schema).endswith("x: int64 [B, 2]")


@pytest.mark.law(11)
@each_of("length", [0, 1, 3, 1000])
def test_a_list_of_another_length_is_named_with_both(path: Path, length: int) -> None:
    write(path, pa.array([[0] * length if row == 13 else [1, 2] for row in range(ROWS)]))
    for order in ORDERS:
        with pytest.raises(
            fr.DataError, match=f"list in row 3 of the row group has {length} elements, expected 2"
        ) as caught:
            read(path, "mask", order, columns=["*", fr.col("x").fixed(2).mask_null()])
        for word in ("column 'x'", "row group 1", str(path)):
            assert word in str(caught.value)


def test_what_is_no_length_of_lists_is_refused(path: Path) -> None:
    write(path, pa.array([[1, 2]] * ROWS))
    wrong: list[tuple[Any, type[Exception]]] = [(0, ValueError), ("2", TypeError), ((), ValueError)]
    for length, error in wrong:
        with pytest.raises(error, match=r"fr.col\('x'\).fixed"):
            fr.col("x").fixed(length)
    for name, reason in (
        ("row", r".fixed\(\) takes no column of type int64: it takes lists of numbers .*'row'"),
        ("nope", "no column matches 'nope'; there are: row, x"),
    ):
        with pytest.raises(fr.DataError, match=reason):
            fr.ParquetDataset(path, batch_size=1, columns=fr.col(name).fixed(2))
    with pytest.raises(fr.DataError, match="can't be stacked"):
        fr.ParquetDataset(path, batch_size=1, columns=fr.stack(fr.col("x").fixed(2), name="m"))
