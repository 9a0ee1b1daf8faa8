"""What can't be packed, or counted, is refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.documents import opened, write


def test_what_can_not_be_packed_is_refused_by_name(tmp_path: Path) -> None:
    directory = write(tmp_path / "data", [[[1, 2], [3], [4]]])
    other = tmp_path / "other.parquet"
    table = {
        "tokens": [[1, 2], [3]],
        "labels": [[1, 2], [3, 4]],
        "gap": [[1, None], [2]],
        "big": [5, 2],
        "part": [0.5, 1.0],
    }
    pq.write_table(pa.table(table), other)
    negative = tmp_path / "negative.parquet"
    pq.write_table(
        pa.table({"tokens": [[1], [2]], "big": [5, -2], "none": [None, 1], "text": ["a", "b"]}), negative
    )
    cases: list[tuple[Any, Any, type[Exception], str]] = [
        (
            directory,
            fr.Packed("cost", length=2),
            fr.DataError,
            "takes columns of lists of values, found for 'cost'",
        ),
        (directory, fr.Packed("none", length=2), fr.DataError, "'none'"),
        (negative, fr.Packed("text", length=2), fr.DataError, "found for 'text': texts: tokenize them first"),
        (negative, fr.Bins("text", cost=2), fr.DataError, "list or an integer, found texts: tokenize them f"),
        (
            other,
            fr.Packed("tokens", "labels", length=2),
            fr.DataError,
            "row 1 of the row group has 2 elements here, and 1 in",
        ),
        (other, fr.Bins("text", cost=2), fr.DataError, "'text'"),
        (directory, fr.Bins("text", cost=2), fr.DataError, "a row costs the length of a list or an integer"),
        (
            other,
            fr.Bins("part", cost=2),
            fr.DataError,
            r"as frame\['part'\] = frame\['part'\]\.round\(\)\.astype\('Int64'\): a cast comes later",
        ),
        (
            other,
            fr.Bins("big", cost=3, oversized="error"),
            fr.DataError,
            r"row 0 of the row group costs 5, .* write oversized='alone'.*row group 0, file '",
        ),
        (
            negative,
            fr.Bins("big", cost=3),
            fr.DataError,
            r"row 1 of the row group costs -2, .* filter= leaves such rows out, as in fr.col\('big'\) >= 0",
        ),
        (negative, fr.Bins("none", cost=3), fr.DataError, "row 0 of the row group is null, and no cost"),
        (directory, "tokens", TypeError, r"unit must be fr.Packed\(...\) or fr.Bins"),
    ]
    for path, unit, kind, words in cases:
        with pytest.raises(kind, match=words):
            opened(path, unit, batch_size=1)
    with pytest.raises(fr.DataError, match=r"no tensor of that name: columns=\['tokens'\] has all"):
        opened(directory, fr.Packed("tokens", length=2), batch_size=1, columns=["cost"])
    renamed: dict[str, Any] = {"batch_size": 1, "columns": fr.col("tokens").alias("ids")}
    with pytest.raises(fr.DataError, match=r"of that name, but 'ids' of it: write that name in fr\.Packed"):
        opened(directory, fr.Packed("tokens", length=2), **renamed)
    assert opened(directory, fr.Packed("ids", length=2), **renamed).peek()["ids"].tolist() == [[1, 2]]
    with pytest.raises(fr.DataError, match=r"found for 'tok\*': a pattern: it takes names, as fr\.Packed"):
        opened(directory, fr.Packed("tok*", length=2), batch_size=1)
    with (
        pytest.warns(UserWarning, match="rest='pad' keeps them"),
        pytest.raises(ValueError, match=r"tokens, and no file has enough for one of length=1000: name a sma"),
    ):
        opened(directory, fr.Packed("tokens", length=1000), batch_size=1)
    with pytest.raises(fr.DataError, match=r"an element of a list is null.*fill_null\(value\)"):
        next(iter(opened(other, fr.Packed("gap", length=1), batch_size=1)))
    filled = opened(other, fr.Packed("gap", length=3), batch_size=1, columns=fr.col("gap").fill_null(7))
    assert next(iter(filled))["gap"].tolist() == [[1, 7, 2]]
    dataset = opened(directory, fr.Packed("tokens", length=2), batch_size=1)
    with pytest.raises(fr.StateError, match=r"the same unit=; here it is fr.Packed\('tokens', length=1\)$"):
        opened(directory, fr.Packed("tokens", length=1), batch_size=1).load_state_dict(dataset.state_dict())
    with pytest.raises(
        fr.StateError, match="and the same unit= if it counted sequences or bins; here are rows"
    ):
        fr.ParquetDataset(directory, batch_size=1).load_state_dict(dataset.state_dict())
    assert dataset.read_rows([1])["tokens"].to_list() == [[3]]  # type: ignore[union-attr]
    assert dataset.locate([2]) == [(str(directory / "0.parquet"), 0, 2)]


COLUMNS: dict[str, tuple[pa.Array, fr.Column | None]] = {
    "of one length by their type": (pa.array([[1, 2, 3]] * 8, pa.list_(pa.int64(), 3)), None),
    "of one length, and cast": (
        pa.array([[1, 2, 3]] * 8, pa.list_(pa.int64(), 3)),
        fr.col("x").cast(torch.int32).alias("t"),
    ),
    "padded": (pa.array([[1, 2, 3]] * 8), fr.col("x").alias("t").pad(4, truncate="head")),
    "of one length by a rule": (pa.array([[1, 2, 3]] * 8), fr.col("x").fixed((3,)).alias("t")),
}


@pytest.mark.parametrize("which", COLUMNS)
def test_lists_of_one_length_are_packed_as_the_error_says(which: str) -> None:
    array, asked = COLUMNS[which]
    table = pa.table({"t" if asked is None else "x": array, "other": pa.array([[4, 5, 6]] * 8)})
    given: dict[str, Any] = {"batch_size": 1, "unit": fr.Packed("t", "other", length=5)}
    with pytest.raises(fr.DataError, match=r"as its rows have one length: write columns=") as refused:
        fr.ArrowDataset(table, columns=None if asked is None else [asked, "other"], **given)
    columns = eval(str(refused.value).partition("columns=")[2])  # noqa: S307  (our own words)
    batch = next(iter(fr.ArrowDataset(table, columns=columns, **given)))
    assert (batch["t"].tolist(), batch["other"].tolist()) == ([[1, 2, 3, 1, 2]], [[4, 5, 6, 4, 5]])


def test_a_separator_that_a_mask_can_t_hold_fits_after_the_cast_that_the_error_names() -> None:
    table = pa.table({"t": [[1, 2]] * 4, "mask": pa.array([[1, 1]] * 4, pa.list_(pa.int8()))})
    given: dict[str, Any] = {"batch_size": 1, "unit": fr.Packed("t", "mask", length=3, separator=50256)}
    with pytest.raises(ValueError, match=r"does not fit 'mask'.*; a mask need not be packed") as refused:
        fr.ArrowDataset(table, **given)
    column = eval(str(refused.value).partition("write ")[2].partition(" in columns=")[0])  # noqa: S307
    batch = next(iter(fr.ArrowDataset(table, columns=["t", column], **given)))
    assert batch["mask"].tolist() == [[1, 1, 50256]]


def test_what_has_no_cost_gets_one_as_the_error_says(tmp_path: Path) -> None:
    path, written = tmp_path / "a.parquet", tmp_path / "b.parquet"
    frame = pd.DataFrame({"words": [["a", "b"], ["c"]], "price": [1.6, 2.4]})
    frame.to_parquet(path)
    for name, cost in (("words", "length"), ("price", "price")):
        with pytest.raises(fr.DataError) as refused:
            opened(path, fr.Bins(name, cost=4), batch_size=1)
        (line,) = re.findall(r"as (frame\[.*?)(?:, and|: a cast)", str(refused.value))
        exec(line, {"frame": frame})  # noqa: S102  (our own words)
        frame.to_parquet(written)
        assert len(opened(written, fr.Bins(cost, cost=4), batch_size=1)) == 1


def test_a_struct_costs_what_one_of_its_columns_says(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"c": [{"a": 2, "b": [1]}] * 3}), path)
    words = r"'c' is a struct.*write one of fr.Bins\('c.a', cost=...\), fr.Bins\('c.b'"
    with pytest.raises(fr.DataError, match=words):
        opened(path, fr.Bins("c", cost=4), batch_size=1)
    assert len(opened(path, fr.Bins("c.a", cost=4), batch_size=1)) == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: fr.Packed(length=3), r"found \(\): write fr.Packed\('tokens', length=3\)"),
        (lambda: fr.Packed(["a", "b"], length=3), r"write fr.Packed\('a', 'b', length=3\)$"),  # type: ignore[arg-type]
        (lambda: fr.Packed(fr.col("a"), "b", length=3), r"write fr.Packed\('a', 'b', length=3\)$"),  # type: ignore[arg-type]
        (
            lambda: fr.Packed(fr.col("a").fill_null(0).alias("c"), "b", length=3),  # type: ignore[arg-type]
            r"write fr.Packed\('c', 'b', length=3\) for unit=, and columns=\[fr.col\('a'\).*\('c'\), 'b'\]$",
        ),
        (lambda: fr.Bins(["a"], cost=1), r"found \['a'\]: write fr.Bins\('a', cost=1\)$"),  # type: ignore[arg-type]
        (lambda: fr.Packed("a", length=3, separator="</s>"), "as tokenizer.eos_token_id"),  # type: ignore[arg-type]
        (
            lambda: fr.Packed("a", "b", length=3, separator=(0, -100)),  # type: ignore[arg-type]
            r"found \(0, -100\): write separator=\{'a': 0, 'b': -100\}$",
        ),
        (
            lambda: fr.Packed("a", "b", length=3, separator={"a": 7}),
            r"found \{'a': 7\}: write separator=\{'a': 7, 'b': 0\}$",
        ),
        (
            lambda: fr.Packed("a", "b", length=3, separator={"a": 7, "b": "x"}),  # type: ignore[dict-item]
            "the separator of 'b' must be an integer, found 'x'",
        ),
        (lambda: fr.Packed("a", "a", length=3), "twice"),
        (lambda: fr.Packed("position", length=3), "can't be called 'position'"),
        (lambda: fr.Packed("a", length=0), "length must be at least 1"),
        (lambda: fr.Packed("a", length=2, rest="keep"), "rest"),
        (lambda: fr.Bins(3, cost=1), "write fr.Bins"),
        (lambda: fr.Bins("a", cost=0), "cost must be at least 1"),
        (lambda: fr.Bins("a", cost=1, oversized="split"), "oversized"),
    ],
)
def test_a_unit_that_is_none_is_refused_where_it_is_written(make: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        make()


def test_what_is_advised_instead_of_a_list_or_an_expression_packs(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[1, None], [3]], "b": [[1, 2], [3]]}), tmp_path / "rows.parquet")
    with pytest.raises(TypeError) as caught:
        fr.Packed(fr.col("a").fill_null(9).alias("c"), "b", length=5, separator=(0, -100))  # type: ignore[arg-type]
    unit, columns = str(caught.value).partition(": write ")[2].split(" for unit=, and columns=")
    dataset = fr.ParquetDataset(
        tmp_path,
        batch_size=1,
        unit=eval(unit.replace("5)", "5, separator={'c': 0, 'b': -100})"), {"fr": fr}),  # noqa: S307
        columns=eval(columns, {"fr": fr}),  # noqa: S307  (our own words)
    )
    assert dataset.peek()["c"].tolist() == [[1, 9, 0, 3, 0]]
    assert dataset.peek()["b"].tolist() == [[1, 2, -100, 3, -100]]


def test_rows_without_values_are_said_to_have_none_whatever_chose_them(tmp_path: Path) -> None:
    directory = write(tmp_path / "data", [[[], [], [1, 2]]])
    unit = fr.Packed("tokens", length=2)
    for rows in ([[0, 2]], [[1, 2]]):
        with pytest.raises(ValueError, match=r"0 sequences, of \d rows?: these have no values$"):
            opened(directory, unit, batch_size=1, rows=rows)
    with pytest.raises(ValueError, match="filter= and rows= keep none"):
        opened(directory, unit, batch_size=1, rows=[])
    assert opened(directory, unit, batch_size=1).num_rows == 1
