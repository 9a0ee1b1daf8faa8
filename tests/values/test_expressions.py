"""Expressions as values, and what they make: of any column what is asked, or an error that shows them."""

from __future__ import annotations

import pickle
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
from support.columns import tables
from support.each_of import each_of
from support.jobs import parallel
from support.strategies import DatasetSpec, written

METHODS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "cast": st.tuples(st.sampled_from((torch.float32, torch.int64, torch.bool, torch.bfloat16))),
    "fill_null": st.tuples(st.sampled_from((0, 1, -1, 0.5, True, "", float("nan"), 2**63))),
    "mask_null": st.just(()),
    "optional": st.just(()),
    "alias": st.tuples(st.sampled_from(("y", "x_valid"))),
    "hash": st.tuples(st.sampled_from((1, 1000, 2**63)), st.sampled_from((0, 7))),
    "codes": st.sampled_from(((), (["a", "b"],), (["a", b"b"], 5))),
    "pad": st.sampled_from(((3,), (300, 1, "head"), (2, 0.5, "tail"))),
    "fixed": st.sampled_from(((2,), ((2, 3),), ((None, 2),), (None,))),
    "decimal": st.tuples(st.sampled_from(("int64", "float64", "float32", "bytes"))),
    "raw": st.just(()),
    "split": st.tuples(st.sampled_from((",", b"\0"))),
}


@st.composite
def expressions(draw: st.DrawFn, name: str) -> fr.Column:
    """Draw an expression; methods that have no meaning behind the others show it in their error."""
    column = fr.col(name)
    for method in draw(st.lists(st.sampled_from(sorted(METHODS)), max_size=4)):
        arguments = draw(METHODS[method])
        try:
            column = getattr(column, method)(*arguments)
        except (TypeError, ValueError) as error:
            assert f"{column!r}.{method}" in str(error)  # noqa: PT017  (any may be raised)
    return column


@given(expressions("a"), expressions("a"))
def test_an_expression_is_a_value_whose_repr_is_its_code(one: fr.Column, other: fr.Column) -> None:
    made = eval(repr(one), {"fr": fr, "torch": torch})  # noqa: S307  (that is what is said of it)
    assert made.equals(one)
    assert pickle.loads(pickle.dumps(one)).equals(one)
    assert one.equals(other) == (repr(one) == repr(other))
    with pytest.raises(AttributeError, match="frozen"):
        one.names = ("b",)  # type: ignore[misc]


@pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")
@given(tables(max_columns=2), st.data())
def test_what_an_expression_makes_is_known_at_once_or_refused_with_its_text(
    spec: DatasetSpec, data: st.DataObject
) -> None:
    """Of any column; and what was promised is what comes, or an error about a row."""
    with written(spec) as files:
        whole = fr.ParquetDataset(files.directory, batch_size=1, nulls="mask").schema
        name = data.draw(st.sampled_from(sorted(name for name in whole if not name.endswith("_valid"))))
        column = data.draw(expressions(name))
        try:
            dataset = fr.ParquetDataset(files.directory, batch_size=1, columns=column, **parallel())
        except (fr.DataError, ValueError) as error:
            found = [repr(column), "two tensors are called", "null"]
            assert any(words in str(error) for words in found)  # noqa: PT017
            return
        made = dataset.schema[column.tensor_name or name]
        assert made.expression == repr(column)
        if column.rules.hash or column.rules.codes:
            assert made.dtype == torch.int64
        elif column.rules.cast is not None:
            assert made.dtype == getattr(torch, column.rules.cast)
        try:
            batch = next(iter(dataset))
        except fr.DataError as error:
            assert "row" in str(error)  # noqa: PT017
            return
        assert list(batch) == list(dataset.schema)
        assert batch[made.name].dtype == made.dtype


@each_of(
    ("asked", "said"),
    [
        (fr.col, "takes names or patterns of columns, found none"),
        (
            lambda: fr.col("a").cast(torch.int8) > 3,
            r"fr.col\\('a'\\).cast\\(torch.int8\\) >: a filter asks what files hold",
        ),
        (lambda: fr.col("a", "b") > 3, "a condition is on one column"),
        (lambda: fr.col("a").hash(3).cast(torch.int8), "has no meaning: a bucket is int64"),
        (lambda: fr.col("a").fill_null(0).hash(3), "write .fill_null after .hash"),
        (lambda: fr.col("a").cast(torch.int8).decimal("int64"), "write .decimal before .cast"),
        (fr.stack, "holds no column"),
        (lambda: fr.stack(3), "takes names, patterns and fr.col"),
        (lambda: fr.stack(fr.col("a").alias("b")), "can't be a part of a matrix, with .alias"),
    ],
)
def test_what_has_no_meaning_is_refused_where_it_is_written(asked: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError), match=said.replace("\\\\", "\\")):
        asked()


def test_all_that_is_wrong_is_in_one_error(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": ["a"], "n": [1], "l": [[1]]}), tmp_path / "x.parquet")
    columns = [fr.col("t").cast(torch.int8), fr.col("n").codes(), fr.col("l").hash(3).fill_null(3), "n"]
    with pytest.raises(fr.DataError) as caught:
        fr.ParquetDataset(tmp_path, batch_size=1, columns=columns)
    lines = str(caught.value).splitlines()
    assert lines[0] == "3 columns can't be delivered:"
    for line, column in zip(lines[1:], columns, strict=False):
        assert repr(column) in line
        assert "takes no column" in line or "does not fit" in line


def test_what_an_expression_makes_takes_the_place_of_a_plain_column(tmp_path: Path) -> None:
    pq.write_table(pa.table({name: np.arange(3) for name in "abc"}), tmp_path / "x.parquet")

    def keys(*columns: Any) -> list[str]:
        return list(fr.ParquetDataset(tmp_path, batch_size=1, columns=columns).schema)

    cast = fr.col("b").cast(torch.float32)
    assert keys("*", cast) == ["a", "b", "c"]
    assert keys(cast, "*") == ["b", "a", "c"]
    assert keys("!a", cast) == ["b", "c"]
    assert keys("c", cast.alias("y"), "b", fr.stack("a", "b", name="m")) == ["c", "y", "b", "m"]
    assert keys("a", fr.col("z*").optional()) == ["a"]


def test_a_stack_is_a_value(tmp_path: Path) -> None:
    stack = fr.stack("i_*", fr.col("x").cast(torch.float32), name="dense")
    assert repr(stack) == "fr.stack(fr.col('i_*'), fr.col('x').cast(torch.float32), name='dense')"
    assert pickle.loads(pickle.dumps(stack)).equals(stack)
    assert not stack.equals(fr.stack("i_*", name="dense"))


def test_a_list_of_columns_is_as_its_parts() -> None:
    assert fr.col(["a", "b"]).equals(fr.col("a", "b"))
    assert fr.stack(["a", fr.col("b").fill_null(0)]).equals(fr.stack("a", fr.col("b").fill_null(0)))
