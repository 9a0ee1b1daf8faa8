"""Which columns are read, and what is said of those that can't be."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two rows of numbers, of a struct, and of columns whose names have a dot or a mark."""
    path = tmp_path / "x.parquet"
    columns = {
        "a1": [1, 2],
        "a2": [3, 4],
        "a3": [5, 6],
        "s": [{"x": 1, "y": 2}, {"x": 3, "y": 4}],
        "user": [6, 7],
        "user.id": [8, 9],
        "!odd": [9, 10],
    }
    pq.write_table(pa.table(columns), path)
    return path


def keys(path: Path, columns: Any = None) -> list[str]:
    """The keys of a batch."""
    texts = [columns] if isinstance(columns, str) else columns or ["*"]
    is_made = not all(isinstance(text, str) for text in texts)
    return list(fr.ParquetDataset(path, batch_size=2, columns=texts if is_made else fr.col(*texts)).schema)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (["a*", "!a2"], ["a1", "a3"]),
        (["!a2", "a*"], ["a1", "a3"]),
        (["*", "!a*", "!s", "!user*"], ["!odd"]),
        ("!a*", ["s.x", "s.y", "user", "user.id", "!odd"]),
        (["!s", "!a[12]"], ["a3", "user", "user.id", "!odd"]),
        (["!s.y", "!a*"], ["s.x", "user", "user.id", "!odd"]),
        (["s", "!s.x"], ["s.y"]),
        (["user*", "!user"], ["user.id"]),
        (["!odd", "a1"], ["!odd", "a1"]),
        (["*", "!!odd", "![as]*"], ["user", "user.id"]),
        (["a[!1]"], ["a2", "a3"]),
        (["a3", "a1", "!a2"], ["a3", "a1"]),
    ],
    ids=repr,
)
def test_what_a_mark_stands_before_is_left_out(file: Path, columns: Any, expected: list[str]) -> None:
    """Whatever the order; a mark may be part of a name, and the others come as they are named."""
    assert keys(file, columns) == expected


def test_columns_are_left_out_of_a_stack_too(file: Path) -> None:
    assert keys(file, ["a2", fr.stack(fr.col("a*", "!a2"), name="m")]) == ["a2", "m"]


def of_stack(path: Path, *parts: Any) -> tuple[str, ...]:
    """The columns of a matrix."""
    return fr.ParquetDataset(path, batch_size=2, columns=fr.stack(*parts, name="m")).schema["m"].columns


def test_a_mark_in_a_stack_means_what_it_means_in_columns(file: Path) -> None:
    """Before, `!a2` beside `a*` was all columns but a2, so that a label came into the features."""
    for texts, expected in [
        (("a*", "!a2"), ("a1", "a3")),
        ((["!a2", "a*"],), ("a1", "a3")),
        (("!s", "!user*", "!!odd", "!a[12]"), ("a3",)),
        (("a3", "a*"), ("a3", "a1", "a2")),
        (("a1", "!odd"), ("a1", "!odd")),
    ]:
        assert of_stack(file, *texts) == expected


def test_a_mark_in_a_stack_leaves_out_of_all_names_and_of_no_expression(file: Path) -> None:
    clipped = fr.col("a2").clip(0, 1)
    assert of_stack(file, "a*", clipped, "!a2") == ("a1", "a3", "a2")
    assert of_stack(file, "!a[23]", clipped, "a*", fr.col("a3"), "user*") == (
        "a2",
        "a1",
        "a3",
        "user",
        "user.id",
    )
    assert fr.stack("*", clipped, "!a2").equals(fr.stack(fr.col("*", "!a2"), clipped))
    with pytest.raises(
        TypeError, match=r"'!a2' leaves out of names and patterns beside it.*: write fr.stack\('\*', '!a2'"
    ):
        fr.stack(fr.col("a*").clip(0, 1), "!a2")


def test_a_stack_has_no_column_twice_by_the_way(file: Path) -> None:
    """Twice is what two expressions make of it, or what is named so; a pattern adds nothing again."""
    a1, clipped = fr.col("a1"), fr.col("a1").clip(0, 1)
    assert of_stack(file, clipped, fr.col("a*").clip(0, 2)) == ("a1", "a1", "a2", "a3")
    assert of_stack(file, "a1", clipped) == ("a1", "a1")
    for parts, advice in [
        (("a*", clipped), "fr.col('a*', '!a1')"),
        ((clipped, "a*"), "fr.col('a*', '!a1')"),
        ((fr.col("a*"), fr.col("!a2")), "fr.col('a*', '!a2')"),
        ((a1, fr.col("no").optional(), a1), "fr.col('a1')"),
        ((fr.col("a*").clip(0, 1), clipped), "fr.col('a*', 'a1').clip(0, 1)"),
    ]:
        with pytest.raises(
            ValueError, match=rf"the column 'a1' twice, by .*: {re.escape(advice)} has it once"
        ):
            of_stack(file, *parts)


def test_a_name_that_leaves_nothing_out_is_refused(file: Path) -> None:
    for columns in ("!b", ["a1", "!b*"], ["a*", "!t.x"]):
        with pytest.raises(fr.DataError, match=r"no column matches '!(b\*?|t\.x)'.*; there are: a1, a2"):
            keys(file, columns)
    with pytest.raises(ValueError, match="no column is selected"):
        keys(file, ["a1", "!a*"])


def test_the_name_of_a_column_means_no_other_whose_name_goes_on_behind_a_dot(file: Path) -> None:
    assert keys(file, [fr.col("user").mask_null(), fr.col("user.id").fill_null(0)]) == [
        "user",
        "user_valid",
        "user.id",
    ]
    with pytest.raises(fr.DataError, match=r"no column matches 'use' .did you mean 'user'"):
        keys(file, ["user*", fr.col("use").mask_null()])
    assert keys(file, [fr.col("s").mask_null()]) == [
        "s.x",
        "s.x_valid",
        "s.y",
        "s.y_valid",
        "s_valid",
    ]
    pq.write_table(pa.table({"user": [None, 7], "user.id": [8, None]}), file)
    with pytest.raises(fr.DataError, match=r"footers count 1 null among 2 values.*column 'user\.id'"):
        keys(file, ["user*", fr.col("user").mask_null()])


def test_the_name_of_an_optional_column_means_no_other(file: Path, tmp_path: Path) -> None:
    pq.write_table(pq.read_table(file).drop_columns(["user", "user.id"]), tmp_path / "y.parquet")
    assert keys(tmp_path, [fr.col("user").optional().mask_null()]) == ["user", "user_valid"]
    with pytest.raises(fr.DataError, match=r"the column is missing; file .*x\.parquet' has it") as caught:
        keys(tmp_path, ["*", fr.col("user").optional().mask_null()])
    assert "column 'user.id'" in str(caught.value)
    assert keys(tmp_path, ["a1"]) == ["a1"]


def test_all_columns_that_can_not_be_delivered_are_named_with_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    columns = {
        "a": [1],
        "n": pa.array([None], pa.null()),
        "d": pa.array([1]).cast(pa.decimal128(30, 2)),
        "b": [2],
    }
    pq.write_table(pa.table(columns), path)
    with pytest.raises(fr.DataError) as caught:
        fr.ParquetDataset(path, batch_size=1)
    assert str(caught.value).startswith(
        "2 columns can't be delivered; columns=['*', '!d', fr.col('n').mask_null()] leaves out what can't be "
        "delivered, and masks nulls:\n  'd': the type decimal"
    )
    assert "may not fit 64 bits: fr.col('d').decimal(\"float64\") in columns= makes" in str(caught.value)
    assert str(path) in str(caught.value)
    with pytest.raises(fr.DataError, match=r"columns=\[..., fr.col\('n'\).mask_null\(\)\]") as caught:
        fr.ParquetDataset(path, batch_size=1, columns=["*", fr.col("d").decimal("float64")])
    assert "column 'n'" in str(caught.value)
    assert list(fr.ParquetDataset(path, batch_size=1, columns=["*", "!n", "!d"]).schema) == ["a", "b"]
