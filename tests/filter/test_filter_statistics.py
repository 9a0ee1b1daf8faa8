"""What a filter need not read: row groups that statistics in footers decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.conditions import kept_rows
from support.each_of import each_of
from support.jobs import parallel
from support.pages import damage
from support.thrift_writer import COLUMN_ORDERS, MAX, MIN, NULL_COUNT, OLD_MAX, OLD_MIN, statistics_of


@each_of(
    ("filter_", "expected"),
    [
        (fr.col("x") >= 20, [*range(20, 30)]),
        ((fr.col("x") >= 20) | (fr.col("x") < 10), [*range(10), *range(20, 30)]),
        (~fr.col("x").isin([10, 19]) & (fr.col("x") < 10), [*range(10)]),
        (fr.col("s").is_null(), [*range(20, 30)]),
        (fr.col("s").is_valid(), [*range(20)]),
        ((fr.col("s") == "b") & fr.col("x").is_valid(), [*range(10, 20)]),
    ],
)
def test_row_groups_that_footers_decide_are_not_read(
    tmp_path: Path, filter_: Any, expected: list[int]
) -> None:
    """The columns of the filter are damaged in all of them; those of the rows are whole."""
    path = tmp_path / "x.parquet"
    words = pa.array(["a"] * 10 + ["b"] * 10 + [None] * 10)
    pq.write_table(pa.table({"x": range(30), "s": words, "y": range(30)}), path, row_group_size=10)
    for group in range(3):
        damage(path, group, "x")
        damage(path, group, "s")
    dataset = fr.ParquetDataset(path, batch_size=5, columns="y", filter=filter_, **parallel())
    assert [row for batch in dataset for row in batch["y"].tolist()] == expected
    with pytest.raises(fr.DataError, match="column 'x', row group 1"):
        fr.ParquetDataset(path, batch_size=5, columns="y", filter=fr.col("x") == 15, **parallel())


def as_old_writers(footer: Any) -> None:
    """Bounds in the fields that old writers used, in their order of text, in which "a" is the greatest."""
    for column, (low, high) in enumerate([(tw.binary(b"a"), tw.binary(b"a")), (tw.binary(bytes(8)),) * 2]):
        found = statistics_of(footer, column)
        for name in (MAX, MIN, 7, 8):
            found.pop(name, None)
        found[OLD_MIN], found[OLD_MAX] = low, high


def without_order(footer: Any) -> None:
    """Bounds of which nobody knows how they compare."""
    for column, value in enumerate([b"a", bytes(8)]):
        found = statistics_of(footer, column)
        found[MIN] = found[MAX] = tw.binary(value)
    del footer[COLUMN_ORDERS]


def turned_round(footer: Any) -> None:
    for column in range(2):
        found = statistics_of(footer, column)
        found[MIN], found[MAX] = found[MAX], found[MIN]


def without_null_counts(footer: Any) -> None:
    for column in range(2):
        del statistics_of(footer, column)[NULL_COUNT]


@each_of("edit", [as_old_writers, without_order, turned_round, without_null_counts])
def test_what_footers_do_not_tell_for_certain_is_read(tmp_path: Path, edit: Any) -> None:
    path = tmp_path / "x.parquet"
    table = {"s": ["a", "é", "z", None], "x": pa.array([0, 2**64 - 1, None, 7], pa.uint64())}
    pq.write_table(pa.table(table), path)
    tw.edit_footer(path, edit)
    s, x = fr.col("s"), fr.col("x")
    assert kept_rows(path, filter=s > "b") == [1, 2]
    assert kept_rows(path, filter=s >= "a") == [0, 1, 2]
    assert kept_rows(path, filter=s == "z") == [2]
    assert kept_rows(path, filter=x > 7) == [1]
    assert kept_rows(path, filter=x <= 7) == [0, 3]
    assert kept_rows(path, filter=s.is_null() | x.is_null()) == [2, 3]
    assert kept_rows(path, filter=s.is_valid() & x.is_valid()) == [0, 1]


def test_nan_is_in_no_statistics(tmp_path: Path) -> None:
    """Bounds of 1.0 and 1.0 say nothing about a NaN beside them."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": pa.array([1.0, float("nan"), 1.0])}), path)
    found = pq.read_metadata(path).row_group(0).column(0).statistics
    assert (found.min, found.max) == (1.0, 1.0)
    x = fr.col("x")
    assert kept_rows(path, filter=x == 1) == [0, 2]
    assert kept_rows(path, filter=x != 1) == [1]
    assert kept_rows(path, filter=~(x <= 1)) == [1]
    assert kept_rows(path, filter=x.isin([1, float("nan")])) == [0, 2]
    assert kept_rows(path, filter=~x.isin([1, float("nan")])) == [1]
