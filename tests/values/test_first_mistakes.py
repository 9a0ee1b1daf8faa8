"""Mistakes of the first hour: what is no rows, no condition, no device or no index says what to write."""

from __future__ import annotations

import decimal
import io
import re
import warnings
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset, default_collate

import fastresume as fr

TIMES = [datetime(2026, 1, 1 + day) for day in range(20)]
ROWS = pa.table({"x": range(20), "t": ["a"] * 20, "at": TIMES, "ok": [True] * 20, "l": [[1]] * 20})
Opened = Callable[..., fr.ParquetDataset]


@pytest.fixture
def rows(tmp_path: Path) -> Opened:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    return lambda **how: fr.ParquetDataset(tmp_path, **{"batch_size": 5, "world": (0, 1), **how})


class Lazy:
    """What has rows once they are collected, as a LazyFrame, whose schema warns where it is asked."""

    def collect(self) -> None:
        """Would make the rows."""


def arrow(source: Any) -> fr.ArrowDataset:
    return fr.ArrowDataset(source, batch_size=2, world=(0, 1))


def test_what_is_no_table_says_how_to_make_one(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(path, ROWS.schema) as file:
        file.write_table(ROWS)
    content = path.read_bytes()
    pq.write_table(ROWS, tmp_path / "x.parquet")
    files = ds.dataset(tmp_path / "x.parquet")
    for source, way in (
        (io.BytesIO(content), r"its path, or pyarrow\.ipc\.open_file\(file\)\.read_all"),
        (pa.memory_map(str(path)), r"its path, or pyarrow\.ipc\.open_file\(file\)\.read_all"),
        (content, r"pyarrow\.ipc\.open_file\(content\)\.read_all"),
        (pa.py_buffer(content), r"pyarrow\.ipc\.open_file\(content\)\.read_all"),
        (pa.ipc.open_file(content), r"write \.read_all\(\) of it"),
        (files, r"fr\.ParquetDataset\(dataset\.files\)"),
        (files.scanner(), r"write \.to_table\(\) of it"),
        ({"x": [1]}, r"pyarrow\.table\(columns\)"),
        ([{"x": 1}], r"Table\.from_pylist"),
        (np.arange(3), r"pyarrow\.table\(\{'x': array\}\)"),
        (Lazy(), r"frame\.collect\(\)"),
        ((one for one in [ROWS]), r"list\(tables\)"),
        ([[ROWS], [ROWS]], r"one flat list of tables"),
        ([1, 2], r"pyarrow\.table\(\{'x': values\}\) of the list"),
        ([[1, 2, 3]] * 2, r"found \[1, 2, 3\]: write pyarrow\.table\(\{'x': values\}\) of the whole list"),
        (pa.array([1, 2]), r"Int64Array has none: write pyarrow\.table"),
        (pd.Series([1, 2]), r"Series has none: write pyarrow\.table"),
        (pd.DataFrame({"x": [1j]}), "no columns of what this DataFrame holds: .*complex"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Duplicate column names"),
    ):
        with pytest.raises(TypeError, match=way):
            arrow(source)


@pytest.mark.parametrize(
    ("kind", "of", "way"),
    [
        ("IterableDataset", object, "load it without streaming=True"),
        ("Column", object, r"write dataset\.select_columns\('x'\)"),
        ("DatasetDict", dict, r"name one of its splits, as source\['train'\]"),
        ("IterableDatasetDict", dict, r"source\['train'\] and load it without streaming=True"),
    ],
)
def test_a_stream_or_splits_of_the_hub_say_how_to_load_them(kind: str, of: type, way: str) -> None:
    source = type(kind, (of,), {"__module__": "datasets.made"})()
    with pytest.raises(TypeError, match=rf"found a datasets\.{kind}: (name .*)?{way}$"):
        arrow(source)
    with pytest.raises(TypeError, match=rf"found a datasets\.{kind}: write fr\.ArrowDataset\(dataset[.\[)]"):
        fr.ParquetDataset(source, batch_size=2)


VALUES: dict[str, tuple[Any, str]] = {
    "numbers": (np.arange(4), "array"),
    "a matrix": (np.arange(12.0).reshape(4, 3), "array"),
    "a cube": (np.arange(24).reshape(4, 3, 2), "array"),
    "a part of a matrix": (np.arange(12.0).reshape(4, 3)[:, 1:], "array"),
    "named numbers": (np.zeros(4, [("a", "i4"), ("b", "f4")]), "array"),
    "a series": (pd.Series([1, 2, 3, 4]), "array"),
    "a tensor": (torch.arange(4), "tensor"),
    "a tensor of two dimensions": (torch.ones(4, 3), "tensor"),
    "weights": (torch.ones(4, 3, requires_grad=True), "tensor"),
    "halves": (torch.ones(4, dtype=torch.bfloat16), "tensor"),
    "torch's dataset": (TensorDataset(torch.ones(4, 3), torch.arange(4)), "dataset"),
    "pandas' groups": (pd.DataFrame({"u": [1, 2, 3, 4, 4], "x": [1, 2, 3, 4, 5]}).groupby("u"), "groups"),
    "polars' groups": (pl.DataFrame({"u": [1, 2, 3, 4, 4], "x": [1, 2, 3, 4, 5]}).group_by("u"), "groups"),
}


@pytest.mark.parametrize("what", VALUES)
def test_values_in_memory_are_refused_by_the_table_that_has_them(what: str) -> None:
    value, name = VALUES[what]
    with pytest.raises(TypeError) as caught:
        fr.ParquetDataset(value, batch_size=2)
    way = str(caught.value).partition(": write fr.ArrowDataset(")[2].removesuffix(")")
    assert arrow(eval(way, {"pyarrow": pa, "polars": pl, name: value})).num_rows == 4  # noqa: S307  (our words)
    if not isinstance(value, pd.Series):  # which is a stream of Arrow itself
        with pytest.raises(TypeError, match=f": write {re.escape(way)}$"):
            arrow(value)


def test_paths_may_be_in_an_array_or_a_series(rows: Opened, tmp_path: Path) -> None:
    rows()
    path = str(tmp_path / "rows.parquet")
    for paths in (np.array([path]), np.array([path], object), pd.Series([path])):
        assert fr.ParquetDataset(paths, batch_size=5, world=(0, 1)).num_rows == 20  # type: ignore[arg-type]


def test_a_lazy_frame_is_refused_without_a_warning_of_polars() -> None:
    frame: Any = pl.LazyFrame({"x": [1]})
    for call in (arrow, fr.ParquetDataset):
        with pytest.raises(TypeError, match=r"frame\.collect\(\)"):
            call(frame)
    held: Any = pl.DataFrame({"x": [1]})
    with pytest.raises(TypeError, match=r"fr\.ArrowDataset\(frame\) if it stays in memory"):
        fr.ParquetDataset(held)
    table: Any = ROWS
    with pytest.raises(TypeError, match=r"write fr\.Loader\(fr\.ArrowDataset\(table, batch_size=n\)\)"):
        fr.Loader(table)


def test_a_stream_that_was_read_already_is_said_to_be_read_once() -> None:
    stream = ROWS.to_reader()
    assert arrow(stream).num_rows == 20
    for source in (stream, [stream]):
        with pytest.raises(
            ValueError, match=r"no rows left, and it is read once: write table = reader\.read_al"
        ):
            arrow(source)
    assert arrow([ROWS, stream]).num_rows == 20
    with pytest.raises(ValueError, match="no batch would come from 0 rows: the source has none"):
        arrow(ROWS.slice(0, 0))


def test_what_a_stream_of_rows_fails_with_is_raised() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise pa.ArrowInvalid("line 3 has 4 columns")

    with pytest.raises(pa.ArrowInvalid, match="line 3 has 4 columns"):
        arrow(pa.RecordBatchReader.from_batches(ROWS.schema, batches()))


def test_python_objects_are_refused_whose_addresses_polars_hands_over() -> None:
    with pytest.raises(fr.DataError, match=r"the column 'x' has Python objects, .* frame\.drop\('x'\)"):
        arrow(pl.DataFrame({"x": [object(), object()]}))


def test_the_index_of_a_frame_is_told_where_it_becomes_a_column() -> None:
    with pytest.warns(
        UserWarning, match=r"is the column '__index_level_0__': frame\.reset_index\(drop=True\)"
    ):
        assert len(arrow(pd.DataFrame({"x": [1, 2, 3]}, index=[5, 6, 7])).schema) == 2
    several = pd.DataFrame({"x": [1, 2]}, index=pd.MultiIndex.from_tuples([(1, 2), (3, 4)]))
    with pytest.warns(UserWarning, match=r"or columns='!__index_level_\*'$"):
        arrow(several)
    assert list(fr.ArrowDataset(several, batch_size=2, columns="!__index_level_*").schema) == ["x"]


def test_what_is_no_condition_says_what_to_write(rows: Opened) -> None:
    x = fr.col("x")
    conditions: list[tuple[Any, str]] = [
        ([x > 5, x < 9], r"neither 'and' nor 'or': join them, as \(fr\.col\('a'\) > 3\) & "),
        ((x > 5, x < 9), "neither 'and' nor 'or'"),
        (pl.col("x") > 3, r"fr\.col instead of pl\.col"),
        (x.is_null, r"call it, as is_null\(\)"),
        (x, r"compare it, as .* == True"),
        (fr.col("ok") == "True", "write True or False"),
        (fr.col("at") >= "2026-02", "write it as '2026-02-01', or as a value of datetime"),
        (fr.col("at") > 20260201, r"integers count from 1970: write datetime\.datetime\(2026, 2, 1\)"),
        (x > 1000, "no batch would come from 0 of 20 rows: filter= and rows= keep none"),
    ]
    for condition, way in conditions:
        with pytest.raises((TypeError, ValueError), match=way):
            rows(filter=condition)


TERMS: dict[str, tuple[tuple[Any, ...], str, int]] = {
    "a null of SQL": (("t", "is", None), "filter=fr.col('t').is_null()", 1),
    "a null of words": (("t", "IS NULL"), "filter=fr.col('t').is_null()", 1),
    "a value of SQL": (("t", "is not", None), "filter=fr.col('t').is_valid()", 5),
    "a value of words": (("t", "is_not_null"), "filter=fr.col('t').is_valid()", 5),
    "an equal null": (("t", "==", None), "filter=fr.col('t').is_null()", 1),
    "another than null": (("t", "<>", pd.NA), "filter=fr.col('t').is_valid()", 5),
    "in a null": (("t", "in", None), "filter=fr.col('t').is_null()", 1),
    "a range": (("x", "between", (2, 4)), "[('x', '>=', 2), ('x', '<=', 4)]", 3),
    "a range in four": (("x", "BETWEEN", 2, 4), "[('x', '>=', 2), ('x', '<=', 4)]", 3),
    "no range": (("x", "not between", [2, 4]), "[[('x', '<', 2)], [('x', '>', 4)]]", 3),
    "capitals": (("t", "IN", ["a", "b"]), "('t', 'in', ['a', 'b'])", 2),
    "pandas' isin": (("t", "isin", ["a", "b"]), "('t', 'in', ['a', 'b'])", 2),
    "one word": (("t", "not_in", ["a", "b"]), "('t', 'not in', ['a', 'b'])", 3),
    "one of one": (("t", "in", "a"), "('t', 'in', ['a'])", 1),
    "a list with a null": (("t", "in", ["a", None]), "fr.col('t').isin(['a']) | fr.col('t').is_null()", 2),
    "not in a list with a null": (("t", "not in", ["a", None]), "('t', 'not in', ['a'])", 4),
    "SQL's other": (("x", "<>", 3), "('x', '!=', 3)", 5),
    "a word": (("x", "gte", 3), "('x', '>=', 3)", 3),
}


@pytest.mark.parametrize("what", TERMS)
def test_a_term_of_another_language_says_the_one_that_keeps_its_rows(tmp_path: Path, what: str) -> None:
    term, way, kept = TERMS[what]
    pq.write_table(pa.table({"x": range(6), "t": ["a", "b", None, "c", "d", "e"]}), tmp_path / "rows.parquet")
    opened = partial(fr.ParquetDataset, tmp_path, batch_size=1, columns="x")
    with pytest.raises((TypeError, ValueError)) as caught:
        opened(filter=[term])
    assert str(caught.value).partition(": write ")[2].removesuffix(", and join conditions by &") == way
    chosen = eval(way.removeprefix("filter="), {"fr": fr})  # noqa: S307  (our own words)
    assert opened(filter=[chosen] if isinstance(chosen, tuple) else chosen).num_rows == kept


def test_terms_of_no_language_say_their_form(rows: Opened) -> None:
    for term, words in (
        (("x",), r"\(name, op, value\), found \('x',\)$"),
        (("x", ">", 1, 2), r"\(name, op, value\), found \('x', '>', 1, 2\)$"),
        (("t", "like", "a%"), r"match_like\(pyarrow\.compute\.field\('t'\), 'a%'\)"),
    ):
        with pytest.raises(ValueError, match=words):
            rows(filter=[term])
    with pytest.raises(TypeError, match=r"write fr\.col\('x'\)\.isin\(\[1\]\) \| fr\.col\('x'\)\.is_null"):
        fr.col("x").isin(pa.array([1, None]))


def test_a_table_is_filtered_by_an_expression_of_pyarrow_before_it_is_a_source() -> None:
    given: dict[str, Any] = {"batch_size": 5, "world": (0, 1)}
    for term, words in (
        (pa.compute.field("x") > 3, r"fr\.ArrowDataset\(table\.filter\(expression\)\)$"),
        ([("t", "like", "a%")], r"more: table\.filter\(pyarrow\.compute\.match_like\(.*'t'\), 'a%'\)\)$"),
        ("x > 3", r"^filter must be a condition on fr\.col\(name\) or a list of terms"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            fr.ArrowDataset(ROWS, filter=term, **given)
    assert fr.ArrowDataset(ROWS.filter(pa.compute.field("x") > 3), **given).num_rows == 16


def test_what_holds_much_is_quoted_in_few_letters() -> None:
    many: Any = dict.fromkeys("abcdefgh", TIMES[:8])
    with pytest.raises(
        TypeError, match=r"found \{'a': \[\.\.\.\], .*: write pyarrow\.table\(columns\)"
    ) as caught:
        arrow(many)
    assert len(str(caught.value)) < 500
    with pytest.raises(TypeError, match=r"found \{'a': \[1, 2\]\}"):
        arrow({"a": [1, 2]})


def test_arguments_that_gather_or_sort_rows_say_how_files_are_written(rows: Opened, tmp_path: Path) -> None:
    for name, way in (
        ("group_by", r"frame\.groupby\(name, as_index=False\)\.agg\(list\)\.to_parquet\(path\)"),
        ("session", r"frame\.groupby\(name"),
        ("sort_by", r"frame\.sort_values\(name\)\.to_parquet\(path\)"),
        ("stratify", r"rows=fr\.Split\(0\.0, 0\.9\)"),
        ("group_by_length", r"unit=fr\.Bins\(name, cost=n\)"),
        ("weight", r"fr\.Mixture\("),
    ):
        with pytest.raises(TypeError, match=f"has no argument {name}=: write .*{way}"):
            rows(**{name: "x"})
    for name in ("sort", "groupby"):
        with pytest.raises(AttributeError, match=r"\.to_parquet\(path\)"):
            getattr(rows(), name)
    frame, path, name = pd.DataFrame({"user": [2, 1, 2], "x": [1, 2, 3]}), tmp_path / "lists.parquet", "user"
    frame.groupby(name, as_index=False).agg(list).to_parquet(path)
    assert fr.ParquetDataset(path, batch_size=2).peek()["x"].to_list() == [[2], [1, 3]]  # type: ignore[union-attr]


def test_what_names_no_rows_says_what_to_write(rows: Opened) -> None:
    for given, way in (
        ("0:50", "rows=[[0, 20]], or fr.Split"),
        (fr.Split, "rows=[[0, 20]], or fr.Split"),
        (True, "rows=[[0, 20]], or fr.Split"),
        (0, "rows=[[0, 20]], or fr.Split"),
        (10, "rows=[[0, 10]], or fr.Split"),
        (np.int64(10), "rows=[[0, 10]], or fr.Split"),
        (500, "rows=[[0, 20]], or fr.Split"),
        ({1, 2}, "rows=sorted(rows)"),
        ({1: "a"}.keys(), "rows=sorted(rows)"),
        (iter([1, 2]), "rows=list(rows)"),
    ):
        with pytest.raises(TypeError, match=f"write {re.escape(way)}"):
            rows(rows=given)
    for given, way in (
        ((0.0, 0.8), "fr.Split(0.0, 0.8)"),
        ([[0.8, 1.0]], "fr.Split(0.8, 1.0)"),
        ([0.8, 0.1, 0.1], "fr.Split(0.0, 0.8) for a share"),
        ([0.5, 7.25], "fr.Split(0.0, 0.5) for a share"),
        ([[0.0, 10.0]], "numpy.asarray(rows, int)"),
    ):
        with pytest.raises(TypeError, match=f"write rows={re.escape(way)}"):
            rows(rows=given)
    frame = pl.DataFrame({"row": [1, 2]})
    for given, way in ((frame, "frame"), (frame.lazy(), "frame.collect()")):
        with pytest.raises(TypeError, match=re.escape(f"write rows={way}['row'].to_numpy(), which")):
            rows(rows=given)
    for given, way in ((slice(3, 9), r"\[\[3, 9\]\]"), (slice(-5, None), r"\[\[15, 20\]\]")):
        with pytest.raises(TypeError, match=f"write rows={way}"):
            rows(rows=given)
    with pytest.raises(ValueError, match="start is at most stop"):
        fr.Split(0.9, 0.1)
    with pytest.raises(ValueError, match=r"90 % is 0\.9"):
        fr.Split(0, 90)


def test_paths_may_come_one_after_another_and_no_mapping_names_them(rows: Opened, tmp_path: Path) -> None:
    rows()
    opened = fr.ParquetDataset(tmp_path.glob("*.parquet"), batch_size=5, world=(0, 1))  # type: ignore[arg-type]
    assert opened.num_rows == 20
    with pytest.raises(TypeError, match=r"found a dict: write list\(mapping\.values\(\)\)"):
        fr.ParquetDataset({"train": tmp_path}, batch_size=5, world=(0, 1))  # type: ignore[arg-type]


def test_a_question_draws_no_batch(rows: Opened) -> None:
    dataset = rows()
    loader = fr.Loader(dataset)
    for stream, way in ((dataset, "'x' in dataset.schema"), (loader, "'x' in loader.dataset.schema")):
        with pytest.raises(TypeError, match=way):
            assert "x" in stream  # type: ignore[operator]
    assert dataset.epoch == 0
    assert dataset.batches_left == 4


def test_a_batch_is_no_array_and_moves_to_no_dtype(rows: Opened) -> None:
    batch = rows().peek()
    for made in (np.array, np.asarray, pd.DataFrame):
        with pytest.raises(TypeError, match=r"no array: write batch\[name\]\.numpy\(\)"):
            made(batch)
    with pytest.raises(
        TypeError, match=r"takes a device, found torch\.float16: write batch\[name\]\.to\(.* or columns="
    ):
        batch.to(torch.float16)  # type: ignore[arg-type]


def test_attributes_of_others_say_what_there_is(rows: Opened) -> None:
    dataset = rows()
    loader, texts = fr.Loader(dataset), dataset.peek()["t"]
    for of, name, way in (
        (dataset, "columns", r"\.schema"),
        (loader, "batch_size", r"loader\.dataset\.batch_size"),
        (texts, "tolist", r"\.to_list\(\), or \.to_strings\(\)"),
        (texts, "shape", r"len\(jagged\)"),
        (texts, "value", r"did you mean \.values"),
    ):
        with pytest.raises(AttributeError, match=way):
            getattr(of, name)


def test_collating_whole_batches_is_refused(rows: Opened) -> None:
    for how in ({"batch_size": None}, {"batch_size": 2}):
        with pytest.raises(TypeError, match="no collate_fn"):
            next(iter(DataLoader(rows(), collate_fn=default_collate, **how)))  # type: ignore[arg-type]


def test_sources_and_weights_of_a_mixture(rows: Opened) -> None:
    one, other = rows(), rows(rows=[[1, 19]])
    weights: list[Any] = [Decimal("0.7"), torch.tensor(0.7), torch.tensor(0.7, dtype=torch.float64)]
    wanted = fr.Mixture({"a": (one, 0.7), "b": (other, 0.3)}, batch_size=4, world=(0, 1)).shares
    for weight in weights:
        mixture = fr.Mixture({"a": (one, weight), "b": (other, 0.3)}, batch_size=4, world=(0, 1))
        assert mixture.shares == wanted
    for weight in (torch.tensor(True), Fraction(10**400), Decimal("inf")):
        with pytest.raises(ValueError, match="a weight must be a number above 0"):
            fr.Mixture({"a": (one, weight), "b": (other, 0.3)}, batch_size=4, world=(0, 1))  # type: ignore[dict-item]
    with pytest.raises(TypeError, match=r"write mixture\.datasets\['a'\]"):
        mixture["a"]
    with pytest.warns(UserWarning, match="sources 'a' and 'b' are one dataset"):
        fr.Mixture({"a": (one, 1), "b": (one, 1)}, batch_size=4, world=(0, 1))


def test_tables_of_two_widths_are_joined_as_the_error_says() -> None:
    tables = [pa.table({"x": pa.array([1], pa.int32())}), pa.table({"x": [2**40]})]
    with pytest.raises(fr.DataError, match=r"pyarrow\.concat_tables\(tables, promote_options='permissive'\)"):
        arrow(tables)
    joined = arrow(pa.concat_tables(tables, promote_options="permissive"))
    assert joined.peek()["x"].tolist() == [1, 2**40]


def test_fewer_rows_than_ranks_are_said_to_be_so(rows: Opened) -> None:
    how: dict[str, Any] = {"rows": [[0, 3]], "world": (0, 4)}
    with pytest.raises(ValueError, match=r"fewer than the 4 ranks, and tail is 'short'; tail='pad' fills up"):
        rows(tail="short", **how)
    assert len(rows(tail="pad", **how)) == 1


def test_options_name_what_to_write_for_an_argument_that_they_have_not() -> None:
    for make, way in (
        (lambda: fr.Shuffle(buffer_size=9), r"fr.Shuffle has no argument buffer_size=: write .*window_rows"),
        (lambda: fr.Shuffle(1000), r"found 1000 too: write fr.Shuffle\(window_rows=n\)"),
        (lambda: fr.Packed("t", max_length=9), "fr.Packed has no argument max_length=: write length="),
        (lambda: fr.Bins("t", coste=9), r"fr.Bins has no argument coste=: did you mean cost=\?"),
        (lambda: fr.World(rank=0, size=2), "fr.World has no argument size=: write world_size="),
        (lambda: fr.Cache(path="m"), "fr.Cache has no argument path=: write .*manifest=file"),
        (lambda: fr.MaskBadRows(limit=2), "fr.MaskBadRows has no argument limit=: write at_most="),
        (lambda: fr.Split(0, 0.8, by="id"), "fr.Split has no argument by=: write rows=mask, which you make"),
        (
            lambda: fr.ParquetDataset("a", "b", batch_size=1),
            "found 'b' too: write a list of paths",
        ),
        (lambda: fr.ArrowDataset(ROWS, ROWS, batch_size=1), "too: write a list of tables or paths"),
        (lambda: fr.ParquetDataset("a", ["x"]), r"too: write its name, as columns=\['x'\]"),
        (lambda: fr.ParquetDataset("a", 64), "too: write its name, as batch_size=64"),
        (lambda: fr.ParquetDataset("a", {}), "too: write the name of an argument, of batch_size, .*columns"),
        (lambda: fr.Loader(fr.ArrowDataset(ROWS), 4), r"too: write fr.Loader\(dataset, num_workers=n\)"),
        (lambda: fr.Split(begin=0.1), "fr.Split has no argument begin="),
    ):
        with pytest.raises(TypeError, match=way):
            make()


def test_rooms_need_no_import_of_their_own() -> None:
    assert {fr.kafka.JSON.__name__, fr.checkpoint.Checkpointer.__name__} == {"JSON", "Checkpointer"}
    assert fr.integrations.__name__ == "fastresume.integrations"


def test_a_function_that_returns_fewer_rows_is_told_that_the_others_count(rows: Opened) -> None:
    def halved(batch: fr.Batch) -> dict[str, Any]:
        return {"x": batch["x"][:2]}

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for _ in rows(columns=["x"]).map(halved):
            pass
    (once,) = told
    assert "halved returned fewer rows than its batch has; the others count as delivered" in str(once.message)

    def scaled(batch: fr.Batch) -> dict[str, Any]:
        return {"x": batch["x"], "mean": batch["x"].float().mean(), "two": batch["x"][:2]}

    next(iter(rows(columns=["x"]).map(scaled)))  # no warning, which would be an error


def test_options_of_stores_are_told_that_paths_are_local(rows: Opened) -> None:
    with pytest.warns(UserWarning, match="storage_options= is for addresses"):
        rows(storage_options={"region": "eu-west-1"})


def test_a_null_list_is_not_filled_with_a_list() -> None:
    with pytest.raises(TypeError, match=r"fill_null takes a number, found \[\]: .fill_null\(0\) makes"):
        fr.col("l").fill_null([])  # type: ignore[arg-type]


def test_an_optional_column_alone_that_no_file_has_is_named(rows: Opened) -> None:
    with pytest.raises(ValueError, match=r"fr.col\('zz'\).optional\(\) is in no file"):
        rows(columns=[fr.col("zz").optional()])


def test_what_has_no_order_names_no_columns_and_no_codes(rows: Opened) -> None:
    with pytest.raises(TypeError, match=r"found a set, which has no order: write columns=sorted"):
        rows(columns={"x", "l"})
    with pytest.raises(TypeError, match=r"a set has no order; write fr\.col\('t'\)\.codes\(sorted\(values\)"):
        fr.col("t").codes({"a"})


@pytest.mark.parametrize(
    ("values", "way"),
    [
        ({"b": 0, "c": 2, "a": 1}, "a code is an index in a list; {}(sorted(values, key=values.get))"),
        ({1: "a", 0: "b"}, "in a list; {}([values[code] for code in range(len(values))])"),
        ({"b": 1, "a": 2}.keys(), "in a list; {}(list(values))"),
        ({"t": ["b", "a"]}, "has the values of several columns; {}(values[name])"),
        ({"a": 5}, "codes are 0, 1, 2, ... in the order of a list, and these are others; {}(list(values))"),
    ],
)
def test_a_mapping_of_codes_is_refused_by_the_list_that_keeps_them(values: Any, way: str) -> None:
    with pytest.raises(TypeError, match=re.escape(way.format("write fr.col('t').codes"))):
        fr.col("t").codes(values)


def test_scalars_of_pyarrow_are_values() -> None:
    texts = pa.array(["b", "a"])
    t = fr.col("t")
    assert t.codes(texts).equals(t.codes(["b", "a"]))  # type: ignore[arg-type]
    assert repr(t.isin(texts)) == repr(t.isin(["b", "a"]))
    assert repr(t == texts[0]) == repr(t == "b")
    with pytest.raises(TypeError, match=r"ask is_null\(\)"):
        t == pa.scalar(None)  # noqa: B015


def test_a_pair_of_numbers_is_asked_whether_it_is_an_interval(rows: Opened) -> None:
    with pytest.raises(ValueError, match=r"write rows=\[\[0, 10\]\] for the interval, or rows=\[0, 10\] for"):
        rows(rows=(0, 10))
    with pytest.raises(ValueError, match=r"two rows, and rows=\[\[0, 500\]\] a range of them"):
        rows(rows=[0, 10])
    assert (rows(rows=[[0, 10]]).num_rows, rows(rows=[0, 10], batch_size=2).num_rows) == (10, 2)


def test_tables_that_differ_are_joined_by_what_the_error_says() -> None:
    big, small, text = (pa.table({"x": value}) for value in (pa.array([1], pa.uint64()), [-1], ["a"]))
    with pytest.raises(fr.DataError, match=r"write pyarrow\.concat_tables\(tables, promote_options='permiss"):
        arrow([big, small])
    joined = pa.concat_tables([big, small], promote_options="permissive")
    assert fr.ArrowDataset(joined, batch_size=2).peek()["x"].tolist() == [1, -1]
    with pytest.raises(fr.DataError, match=r"cast one of them, as table\.cast\(schema\) \(Unable to merge"):
        arrow([small, text])


def test_decimals_of_tables_are_filtered_before() -> None:
    table = pa.table({"x": pa.array([1, 2], pa.int64()).cast(pa.decimal128(38, 1))})
    with pytest.raises(fr.DataError, match=r"write table\.filter\(pyarrow\.compute\.field\('x'\) > decimal"):
        fr.ArrowDataset(table, batch_size=1, filter=fr.col("x") > 1)


def test_the_filter_that_is_advised_for_decimals_chooses_rows(tmp_path: Path) -> None:
    amounts = [Decimal("0.1"), Decimal("0.2")]
    table = pa.table({"x": amounts, "s": [{"p": one} for one in amounts], "l": [[one] for one in amounts]})
    pq.write_table(table, tmp_path / "a.parquet")
    for name in ("x", "s.p"):
        for make in (partial(fr.ParquetDataset, tmp_path), partial(fr.ArrowDataset, table)):
            with pytest.raises(fr.DataError) as caught:
                make(batch_size=1, columns=["x"], filter=fr.col(name) > 0.1)
            ((way, asked),) = re.findall(r"write (filter=|table\.filter\()(.* > .*'\))", str(caught.value))
            asked = eval(asked, {"pyarrow": pa, "decimal": decimal})  # noqa: S307  (it follows the answer)
            of_table = way.startswith("table")
            chosen = table.filter(asked) if of_table else make(batch_size=1, columns=["x"], filter=asked)
            assert chosen.num_rows == 1
    with pytest.raises(TypeError, match="'l' of the type list can't be compared"):
        fr.ParquetDataset(tmp_path, batch_size=1, columns=["x"], filter=fr.col("l") > 1)


def test_the_filter_that_is_advised_for_decimals_means_all_that_was_asked(tmp_path: Path) -> None:
    amounts = [Decimal("0.1"), Decimal("0.2"), None, Decimal(3)]
    structs = [None if one is None else {"p": one} for one in amounts]
    pq.write_table(
        pa.table({"n": range(4), "x": amounts, "x.y": amounts, "s": structs}), tmp_path / "a.parquet"
    )
    opened: Any = partial(fr.ParquetDataset, tmp_path, batch_size=1, columns=["n"], world=(0, 1))
    n = fr.col("n")
    cases: list[tuple[Callable[[Any], Any], list[int]]] = [
        (lambda of: of.isin([0.1, Decimal(3)]), [0, 3]),
        (lambda of: ~of.isin([Decimal("0.1"), Decimal("3.00")]), [1]),
        (lambda of: of == "0.2", [1]),
        (lambda of: (of > Decimal("0.1")) & (n < 2), [1]),
        (lambda of: of.is_null() | (n.isin([1, 3]) & ~(of <= 0.2)), [2, 3]),
        (lambda of: [(of.names[0], "not in", [Decimal("0.2")])], [0, 3]),
    ]
    for name in ("x", "x.y", "s.p"):
        for make, kept in cases:
            with pytest.raises(
                fr.DataError, match=f"'{re.escape(name)}' is decimal.* write filter="
            ) as caught:
                opened(filter=make(fr.col(name)))
            asked = str(caught.value).partition("filter=")[2]
            asked = eval(asked, {"pyarrow": pa, "decimal": decimal})  # noqa: S307  (it follows the answer)
            assert [int(batch["n"]) for batch in opened(filter=asked)] == kept
    many = fr.col("x").isin([Decimal(n) for n in range(100)])
    with pytest.raises(
        fr.DataError, match=r"field\('x'\) > decimal\.Decimal\('0\.1'\), and all else in such"
    ):
        opened(filter=many)
    with pytest.raises(TypeError, match=r"column 'n' of the type int64 can't be .* Decimal\('1'\): write 1$"):
        opened(filter=fr.col("n") == Decimal(1))
    with pytest.raises(TypeError, match=r"can't be compared with Decimal\('0\.25'\): write 0\.25$"):
        opened(filter=fr.col("n") > Decimal("0.25"))


def test_what_is_no_null_is_valid() -> None:
    with pytest.raises(TypeError, match=r"fr\.col\('x'\) != None: write fr\.col\('x'\)\.is_valid\(\)"):
        fr.col("x") != None  # noqa: B015, E711


def test_addresses_of_other_sources_say_what_reads_them() -> None:
    for address, way in (("odps://p/tables/t", "maxcompute.open"), ("kafka://b:9092/t", "KafkaDataset")):
        with pytest.raises(ValueError, match=way):
            fr.ParquetDataset(address, batch_size=2)


def test_a_decimal_takes_the_dtype_as_torch_names_it() -> None:
    assert fr.col("d").decimal(torch.float64).equals(fr.col("d").decimal("float64"))
    with pytest.raises(
        ValueError, match="must be 'int64' or 'float64' or 'float32' or 'bytes', found 'int8'"
    ):
        fr.col("d").decimal(torch.int8)
