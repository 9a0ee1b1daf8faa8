"""What people write of columns by mistake is an error that says what to write instead."""

from __future__ import annotations

import copy
import inspect
import io
import math
import pickle
import re
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume.options.attributes import METHODS_OF_COLUMNS
from support.each_of import each_of

x: Any = fr.col("x")
flag: Any = fr.col("flag")
ANY: Any = fr


@pytest.fixture
def path(tmp_path: Path) -> Path:
    table = {
        "label": [1, 2],
        "user_id": ["a", "b"],
        "flag": [True, False],
        "tokens": [[1], [2, 3]],
        "money": pa.array([Decimal("1.00"), None], pa.decimal128(9, 2)),
        "price": pa.array([1, 2]).cast(pa.decimal128(21, 2)),
        "hash": pa.array([b"ab", b"cd"], pa.binary(2)),
        "id": pa.array([UUID(int=number).bytes for number in (1, 2)], pa.uuid()),
    }
    (tmp_path / "day=1").mkdir()
    pq.write_table(pa.table(table), tmp_path / "day=1" / "x.parquet")
    return tmp_path


EXPRESSIONS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a list of numbers": (lambda: ANY.col([1, 2]), TypeError, "takes names or patterns of columns, found 1"),
    "a list of lists": (lambda: ANY.stack([["a"], "b"]), TypeError, "takes names, patterns and fr.col"),
    "a stack in a stack": (lambda: ANY.stack(fr.stack("a")), TypeError, "takes names, patterns and fr.col"),
    "a type of Python": (lambda: x.cast(float), TypeError, "write torch.float64"),
    "a type of numpy": (lambda: x.cast(np.int32), TypeError, "write torch.int32"),
    "a type of Arrow": (lambda: x.cast(pa.float32()), TypeError, "write torch.float32"),
    "no type's name": (lambda: x.cast("i4, f4"), TypeError, "takes a torch.dtype, found 'i4, f4'"),
    "a type's name": (lambda: x.cast("bool"), TypeError, "write torch.bool"),
    "a type of polars": (lambda: x.cast(pl.Float64), TypeError, "found Float64: write torch.float64"),
    "a name that is none": (lambda: x.alias(3), TypeError, "fr.col('x').alias takes a name, found 3"),
    "buckets of text": (lambda: x.hash("9"), TypeError, "the buckets of fr.col('x').hash must be"),
    "no value for nulls": (lambda: ANY.col("x").fill_null(None), TypeError, ".mask_null() says in a tensor"),
    "pandas' NA": (lambda: x == pd.NA, TypeError, "found <NA>: ask is_null()"),
    "codes of buckets": (lambda: x.hash(9).codes(), TypeError, "write .hash or .codes, not both"),
    "a cast of buckets": (lambda: x.hash(9).cast(torch.float32), TypeError, "dataset.map(function) makes"),
    "rounding to integers": (
        lambda: x.cast(torch.int8, rounding=True),
        TypeError,
        "rounding= is for casts to floats, found torch.int8",
    ),
    "a hash of a cast": (lambda: x.cast(torch.int8).hash(9), TypeError, "write .cast(torch.int64)"),
    "no inner length": (lambda: x.fixed((3, None)), ValueError, "as (None, 4)"),
    "pandas' rename": (lambda: x.rename("y"), AttributeError, "write .alias(name)"),
    "pandas' astype": (
        lambda: x.astype("int32"),
        AttributeError,
        "write .cast(dtype), as .cast(torch.float32)",
    ),
    "torch's half": (lambda: x.half, AttributeError, "write .cast(torch.float16)"),
    "pandas' fillna": (lambda: x.fillna(0), AttributeError, "write .fill_null(value)"),
    "pandas' isna": (lambda: x.isna(3), AttributeError, "write .is_null()"),
    "a slip": (lambda: x.fill_nul(0), AttributeError, "did you mean .fill_null?"),
    "a range": (lambda: x.between(1, 3), AttributeError, "write (fr.col(name) >= low) & (fr.col(name) <= hi"),
    "a cast of a stack": (lambda: ANY.stack("a").cast(1), AttributeError, "write it of the columns"),
    "arithmetic": (lambda: x % 2 == 0, TypeError, "expressions have no arithmetic, dataset.map"),
    "arithmetic behind": (lambda: 2 * x, TypeError, "expressions have no arithmetic, dataset.map"),
    "and of a bool column": (lambda: flag and x > 3, TypeError, "compare it, as fr.col('flag') == True"),
    "and of conditions": (lambda: x > 3 and x < 5, TypeError, "write &, | and ~ for and, or and not"),
    "a chain": (lambda: 0 < x < 5, TypeError, "(fr.col('a') > 0) & (fr.col('a') < 9)"),
    "not": (lambda: ~flag, TypeError, "write fr.col('flag') == False"),
    "& without parentheses": (lambda: x > 3 & x < 5, TypeError, "put parentheses around comparisons"),
    "& of a column": (lambda: (x > 3) & flag, TypeError, "write a comparison there, in parentheses"),
    "two columns": (
        lambda: fr.col("a") == x,
        TypeError,
        "compares a column with a value; rows= takes a mask",
    ),
    "several values": (lambda: x == [1, 2], TypeError, ".isin([...]) asks for several values"),
    "a decimal that is no number": (lambda: x == Decimal("NaN"), TypeError, "found Decimal('NaN')"),
    "a decimal for nulls": (
        lambda: x.fill_null(Decimal("0.5")),
        TypeError,
        "write .decimal('float64') before it, and 0.5",
    ),
    "a decimal bound": (
        lambda: x.clip(Decimal(0), 5),
        TypeError,
        "write .decimal('float64') before it, and 0.0",
    ),
    "a struct": (lambda: x == {"a": 1}, TypeError, "has its own name, as fr.col('struct.a') == 1"),
    "structs": (lambda: x.isin([{"a": 1}]), TypeError, "has its own name, as fr.col('struct.a') == 1"),
    "a UUID": (lambda: x == UUID(int=1), TypeError, "no filter compares UUIDs; rows= takes a mask"),
    "a part of a text": (
        lambda: x.contains("a"),
        AttributeError,
        "filter=pyarrow.compute.match_like(pyarrow.compute.field(name), 'a%')",
    ),
    "pandas' texts": (lambda: x.str.contains("a"), AttributeError, "pyarrow.compute.match_like(pyarrow.comp"),
    "a function": (lambda: x.abs() > 1, AttributeError, "or filter=pyarrow.compute.abs(pyarrow.compute.fiel"),
    "a logarithm": (
        lambda: x.log() > 1,
        AttributeError,
        "filter=pyarrow.compute.ln(pyarrow.compute.field(nam",
    ),
    "a year": (
        lambda: x.year == 2026,
        AttributeError,
        "filter=pyarrow.compute.year(pyarrow.compute.field(na",
    ),
    "a lower text": (
        lambda: x.lower(3),
        AttributeError,
        "filter=pyarrow.compute.utf8_lower(pyarrow.compute.f",
    ),
    "a mean": (lambda: x.mean(3), AttributeError, "'mean': write dataset.map(function)"),
    "pandas' dropna": (lambda: x.dropna(3), AttributeError, "write filter=fr.col(name).is_valid()"),
    "one of each": (
        lambda: x.one_hot(3),
        AttributeError,
        "write torch.nn.functional.one_hot(batch[name], n) in",
    ),
    "a norm": (lambda: x.normalize(3), AttributeError, "write (batch[name] - mean) / std in dataset.map"),
    "buckets": (lambda: x.bucketize(3), AttributeError, "write torch.bucketize(batch[name], boundaries) in"),
    "no NaN": (lambda: x.nan_to_num(3), AttributeError, "write batch[name].nan_to_num() in dataset.map"),
    "arithmetic in a filter": (lambda: x * 2 > 3, TypeError, "as pyarrow.compute.field('x') * 2 > 3"),
    "a condition and pyarrow's": (
        lambda: (x > 3) & (pc.field("x") > 3),
        TypeError,
        "write both with fr.col, or both with pyarrow.compute.field",
    ),
    "tensors": (lambda: x.isin(torch.tensor([1, 2])), TypeError, ".isin(tensor.tolist()) for several"),
    "NaN": (
        lambda: x.is_nan,
        AttributeError,
        "write filter=~pyarrow.compute.is_nan(pyarrow.compute.field(na",
    ),
    "a filled NaN": (
        lambda: x.fill_nan,
        AttributeError,
        "write batch[name].nan_to_num() in dataset.map(func",
    ),
    "an empty code": (
        lambda: x.codes().fill_null(""),
        TypeError,
        "fill_null takes a code, which is a number",
    ),
    "a tensor": (lambda: x == torch.tensor(1), TypeError, "write its .item()"),
    "minus": (lambda: -x, TypeError, "expressions have no arithmetic"),
    "an index": (lambda: x[0], TypeError, "write batch[name][:, 0]"),
    "a null of a comparison": (lambda: (x > 1).is_null, AttributeError, "write fr.col(name).is_null(...)"),
    "polars' strategy": (
        lambda: x.fill_null(strategy="forward"),
        TypeError,
        "write a value, as .fill_null(0)",
    ),
    "numpy's bounds": (lambda: x.clip(min=0, max=3), TypeError, "clip has no argument min=: write low="),
    "a tokenizer's length": (lambda: x.pad(max_length=3), TypeError, "max_length=: write length="),
    "no length": (x.pad, TypeError, "fr.col(...).pad lacks length: write length=..."),
    "rounding without its name": (lambda: x.cast(torch.float32, True), TypeError, "as rounding=True"),
    "two values": (lambda: x.isin(1, 2), TypeError, "takes values, found 2 too: write .isin([1, 2])"),
    "a type of codes": (lambda: x.codes(dtype=torch.int32), TypeError, "needs none: a code is int64"),
    "numpy's axis": (lambda: ANY.stack("i", axis=1), TypeError, "axis=, and needs none: columns are side by"),
    "a share alone": (lambda: ANY.Split(0.8), TypeError, "fr.Split lacks stop: write fr.Split(0.0, 0.8)"),
    "a stop twice": (
        lambda: ANY.Split(0, 1, stop=1),
        TypeError,
        "fr.Split takes stop once, found 1 and stop=1",
    ),
    "two bounds": (lambda: ANY.Intervals(0, 100), TypeError, "found 100 too: write fr.Intervals([[0, 100]])"),
    "a rank alone": (lambda: ANY.World(0), TypeError, "lacks world_size: write fr.World(rank, world_size)"),
    "a sum of splits": (lambda: ANY.Split(0, 0.5) + ANY.Split(0.5, 1), TypeError, "write a | b for the rows"),
    "two costs": (
        lambda: ANY.Bins("a", "b", cost=9),
        TypeError,
        "found 'b' too: write fr.Bins('tokens', cost=8",
    ),
    "weights alone": (
        lambda: ANY.Mixture({}, [1], batch_size=4),
        TypeError,
        "write fr.Mixture({name: (dataset",
    ),
    "None": (lambda: x == None, TypeError, "ask is_null()"),  # noqa: E711
    "Python's in": (lambda: x in [1, 2], TypeError, "and .isin([1, 2]) for in"),
    "a tokenizer's longest": (
        lambda: x.pad("longest"),
        TypeError,
        "write batch['x'].to_padded() in dataset.map(function), which is as long as the longest",
    ),
    "no nulls": (lambda: x.drop_null, AttributeError, "write filter=fr.col(name).is_valid()"),
    "polars' names": (lambda: ANY.col.price, AttributeError, "no attribute 'price': write fr.col('price')"),
    "pyspark's names": (lambda: ANY.col["a", "b"], TypeError, "fr.col has no items: write fr.col('a', 'b')"),
    "a member of a struct": (lambda: x["a"], TypeError, "so write fr.col('x.a')"),
    "polars' member": (lambda: x.struct.field("a"), AttributeError, "write fr.col('struct.member')"),
    "a slice": (lambda: x[:-1], TypeError, "write batch[name][:, :-1]"),
    "numpy's function": (
        lambda: np.log1p(x) > 1,
        TypeError,
        "log1p finds none: write dataset.map(function), or filter=pyarrow.compute.log1p(pyarrow",
    ),
    "torch's function": (
        lambda: torch.log(x),
        TypeError,
        "filter=pyarrow.compute.ln(pyarrow.compute.field('x",
    ),
    "a function of several": (lambda: torch.stack([x, x]), TypeError, "as of batch['x']"),
    "numpy's choice": (lambda: np.where(x, 1, 2), TypeError, "where finds none: write dataset.map(function)"),
    "numpy's clip": (lambda: np.clip(x, 0, 1), TypeError, "write fr.col('x').clip(...)"),
    "torch's clip": (lambda: torch.clamp(x, min=0), TypeError, "write .clip(low, high)"),
    "torch's NaN": (
        lambda: torch.isnan(x),
        TypeError,
        "filter=~pyarrow.compute.is_nan(pyarrow.compute.field('x",
    ),
    "Python's function": (lambda: round(x, 2), TypeError, "expressions have no arithmetic"),
    "Python's logarithm": (lambda: math.log(x), TypeError, "expressions have no arithmetic"),
    "a number of numpy": (lambda: np.float64(2) * x > 3, TypeError, "pyarrow.compute.field('x') * 2 > 3"),
    "a tensor behind": (lambda: torch.tensor(2) - x, TypeError, "pyarrow.compute.field('x') - 2 > 3"),
    "an array behind": (lambda: np.arange(3) == x, TypeError, ".isin([...]) asks for several values"),
    "a power": (lambda: x**2 > 3, TypeError, "as pyarrow.compute.power(pyarrow.compute.field('x'), 2) > 3"),
    "a power behind": (
        lambda: 2**x > 3,
        TypeError,
        "as pyarrow.compute.power(pyarrow.compute.field('x'), 2)",
    ),
    "an amount": (lambda: abs(x) > 3, TypeError, "as pyarrow.compute.abs(pyarrow.compute.field('x')) > 3"),
    "a rest": (lambda: x % 7 == 0, TypeError, "file_rows))['x'] and mask = values % 7 == 0"),
    "a quotient": (lambda: np.floor_divide(x, 7), TypeError, "file_rows))['x'] and mask = values // 7 == 0"),
    "arithmetic of a member": (lambda: fr.col("a.b") + 1, TypeError, "pyarrow.compute.field('a', 'b') + 2"),  # type: ignore[operator]
    "a mask and a column": (lambda: np.ones(3, bool) & x, TypeError, "write filter=condition beside rows="),
}


@each_of("what", EXPRESSIONS)
def test_an_expression_says_what_to_write(what: str) -> None:
    function, kind, words = EXPRESSIONS[what]
    with pytest.raises(kind) as caught:
        function()
    assert words in str(caught.value)
    assert type(caught.value) is kind


def test_what_is_advised_instead_of_arithmetic_chooses_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(-5, 45), "y": [0] * 50}), tmp_path / "rows.parquet")
    opened = partial(fr.ParquetDataset, tmp_path, batch_size=1, columns=["x"])
    numbers = np.arange(-5, 45)
    for computed, expected in (
        (lambda: x + 1, numbers + 2 > 3),
        (lambda: x - 1, numbers - 2 > 3),
        (lambda: x * 9, numbers * 2 > 3),
        (lambda: x / 9, numbers / 2 > 3),
        (lambda: -x, -numbers > 3),
        (lambda: abs(x), np.abs(numbers) > 3),
        (lambda: x**3, numbers**2 > 3),
    ):
        with pytest.raises(TypeError) as caught:
            computed()
        chosen = eval(str(caught.value).partition(", as ")[2], {"pyarrow": pa})  # noqa: S307  (our own words)
        assert opened(filter=chosen).num_rows == expected.sum()
    dataset = opened(rows=[[0, 9]])
    for computed, expected in ((lambda: x % 10, numbers % 10 == 0), (lambda: x // 7, numbers // 7 == 0)):
        with pytest.raises(TypeError) as caught:
            computed()
        values, mask = re.findall(r"values = (.*) and mask = (.*)", str(caught.value))[0]
        made = eval(mask, {"values": eval(values, {"dataset": dataset})})  # noqa: S307  (our own words)
        assert [int(batch["x"]) for batch in opened(rows=made)] == numbers[expected].tolist()


def test_fr_col_is_a_function_for_all_that_ask() -> None:
    assert pickle.loads(pickle.dumps(fr.col)) is copy.deepcopy(fr.col) is fr.col
    assert inspect.signature(fr.col).parameters.keys() == {"names"}
    assert "columns=" in str(fr.col.__doc__)
    assert not hasattr(fr.col, "price")


def test_numbers_of_numpy_are_compared_from_both_sides() -> None:
    for number in (np.int64(3), np.float32(3)):
        assert repr(number < x) == repr(x > 3).replace("3)", f"{number.item()!r})")
        assert repr(number == x) == repr(x == number.item())


def test_expressions_are_copied_pickled_and_asked_for_attributes_as_before() -> None:
    for one in (x.fill_null(0), fr.stack("a", "b")):
        assert copy.deepcopy(one).equals(one)
        assert pickle.loads(pickle.dumps(one)).equals(one)
        assert not hasattr(one, "shape")
        assert getattr(one, "rename", None) is None


def test_a_mask_of_numbers_is_refused_and_other_sets_of_rows_say_what_to_write(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(100), "f": [0.5, float("nan")] * 50}), tmp_path / "x.parquet")
    mask = np.repeat([0, 1], 50)
    condition: Any = fr.col("x") < 10
    cases: dict[str, tuple[Callable[..., Any], type[Exception], str]] = {
        "ones": (lambda made: made(rows=mask), ValueError, "write rows=numpy.asarray(rows, bool)"),
        "bytes": (lambda made: made(rows=torch.tensor(mask).byte()), ValueError, "a mask has the type bool"),
        "floats": (lambda made: made(rows=[1.0, 2.0]), TypeError, "found float64 numbers [1.0, 2.0]: write"),
        "a list": (lambda made: made(rows=[fr.Split(0, 1)]), TypeError, "write rows=a & b for the rows that"),
        "a condition": (lambda made: made(rows=condition), TypeError, "write filter= for it"),
        "numbers": (lambda made: made().read_rows(mask > 0), TypeError, "write numpy.flatnonzero(mask)"),
        "values": (lambda made: made(filter=fr.col("x") == np.arange(9999)), TypeError, ".isin([...])"),
        "pyarrow's": (lambda made: made(filter=pc.field("zz") > 1), fr.DataError, "'zz'; there are: x, f"),
        "a pattern": (lambda made: made(filter=fr.col("*") > 1), ValueError, "takes no patterns"),
    }
    for name, (call, kind, words) in cases.items():
        with pytest.raises(kind) as caught:
            call(lambda **how: fr.ParquetDataset(tmp_path, batch_size=1, **how))
        assert words in str(caught.value), name
        assert len(str(caught.value)) < 300, name
    assert fr.ParquetDataset(tmp_path, batch_size=1, rows=np.asarray(mask, bool)).num_rows == 50
    not_nan = ~pc.is_nan(pc.field("f"))  # as `fr.col("f").is_nan` says
    assert fr.ParquetDataset(tmp_path, batch_size=1, filter=not_nan).num_rows == 50


DATASETS: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "a name that is near": ({"columns": "lable"}, fr.DataError, "matches 'lable' (did you mean 'label'?)"),
    "another case": ({"columns": "LABEL"}, fr.DataError, "(did you mean 'label'?)"),
    "another word": ({"columns": "userid"}, fr.DataError, "(did you mean 'user_id'?)"),
    "all names at once": (
        {"columns": ["lable", "flag", fr.col("tokns").pad(3)]},
        fr.DataError,
        "'lable' (did you mean 'label'?), 'tokns' (did you mean 'tokens'?); there are: label, user_id, flag,",
    ),
    "no near name": ({"columns": "zebra"}, fr.DataError, "no column matches 'zebra'; there are: label,"),
    "a name in the path": ({"columns": "day"}, fr.DataError, "fr.col('day').from_path() is what the files'"),
    "a decimal": ({"columns": "price"}, fr.DataError, "fr.col('price').decimal(\"float64\") in columns="),
    "a cast of text": (
        {"columns": fr.col("user_id").cast(torch.int8)},
        fr.DataError,
        ".hash(buckets) and .co",
    ),
    "codes of integers": (
        {"columns": fr.col("label").codes()},
        fr.DataError,
        "subtract in dataset.map(function), as batch['x'] - 1, or look them up in a dict there (.hash(buck",
    ),
    "an amount for nulls of decimals": (
        {"columns": fr.col("money").fill_null(0.5)},
        ValueError,
        'decimal(9, 2) in units of 10^-2; write .decimal("float64") before it to name an amount',
    ),
    "an amount as a bound of decimals": (
        {"columns": fr.col("money").clip(0.5, 1)},
        ValueError,
        'write .decimal("float64") before it to name an amount',
    ),
    "polars' exclusion": ({"columns": ["*", "-label"]}, fr.DataError, "'-label' (write '!label' to leave it"),
    "scikit-learn's exclusion": (
        {"columns": fr.stack(fr.col("*", "~label"), name="f")},
        fr.DataError,
        "'~label' (write '!label' to leave it out)",
    ),
    "a pattern's exclusion": ({"columns": ["*", "^lab*"]}, fr.DataError, "(write '!lab*' to leave it out)"),
    "a regular expression": (
        {"columns": "^lab.*$"},
        fr.DataError,
        "those of files: write 'lab*'",
    ),
    "names in one text": ({"columns": "label, flag"}, fr.DataError, "write them one by one: 'label', 'flag'"),
    "a key of pandas": ({"columns": "m['k']"}, fr.DataError, "no column matches 'm['k']'; there are"),
    "a slip in an exclusion": ({"columns": ["*", "!lable"]}, fr.DataError, "(did you mean '!label'?)"),
    "packed texts": (
        {"columns": "user_id", "unit": fr.Packed("user_id", length=8)},
        fr.DataError,
        "found for 'user_id': texts: tokenize them first",
    ),
    "bins of texts": ({"unit": fr.Bins("user_id", cost=8)}, fr.DataError, "found texts: tokenize them first"),
    "a pad of codes": ({"columns": fr.col("user_id").codes().pad(3)}, fr.DataError, "a code is one number"),
    "all left out": (
        {"columns": ["label", "!label"]},
        ValueError,
        "leaves out all that it names; there are: ",
    ),
    "a stack of text": ({"columns": fr.stack("user_id")}, fr.DataError, ".hash(buckets) or .codes() makes"),
    "nothing": ({"columns": []}, ValueError, "without columns=, all are"),
    "a list in a list": ({"columns": [["label", "flag"]]}, TypeError, "write fr.stack(*names, name='dense')"),
    "polars' columns": ({"columns": [pl.col("label")]}, TypeError, "write fr.col(name)"),
    "a column of polars": ({"columns": pl.col("label")}, TypeError, "write fr.col(name)"),
    "a filter in quotes": (
        {"filter": "label > 3"},
        TypeError,
        "write fr.col('a') > 3 instead of its text",
    ),
    "a filter of a bool": ({"filter": fr.col("flag")}, TypeError, "compare it, as fr.col('flag') == True"),
    "a mask as a filter": (
        {"filter": np.ones(99, bool)},
        TypeError,
        "found <ndarray bool [99]>: rows= takes",
    ),
    "a list as a filter": (
        {"filter": [True, False]},
        TypeError,
        "rows= takes a mask, numbers of rows or a S",
    ),
    "a split as a filter": (
        {"filter": fr.Split(0, 0.5)},
        TypeError,
        "rows= takes a mask, numbers of rows or",
    ),
    "SQL's like": (
        {"filter": [("user_id", "like", "a%")]},
        ValueError,
        "found 'like'; an expression of pyar",
    ),
    "bytes": ({"filter": fr.col("hash") == b"ab"}, TypeError, "pyarrow.compute.field('hash') == b'ab'"),
    "bytes of UUIDs": (
        {"filter": fr.col("id") == b"ab" * 8},
        TypeError,
        "no filter compares UUIDs; rows= take",
    ),
    "a wide decimal": (
        {"filter": fr.col("price") > 1},
        fr.DataError,
        "is decimal(21, 2), by which an expression of pyarrow can filter: write filter=pyarrow.compute.field",
    ),
    "a decimal with an operator": (
        {"filter": (fr.col("label") > 0) & ~(fr.col("price") <= 100.0)},
        fr.DataError,
        "field('label') > 0) & (~(pyarrow.compute.field('price') <= decimal.Decimal('100.0')))",
    ),
    "a condition as rows": (
        {"rows": "age > 50"},
        TypeError,
        'write filter=fr.col("age") > 50, or rows=fr.Split(',
    ),
    "a text as rows": (
        {"rows": "train"},
        TypeError,
        'write filter=fr.col("age") > 50, or rows=fr.Split(0.0, 0.9)',
    ),
    "a function as rows": (
        {"rows": lambda row: True},
        TypeError,
        'write filter=fr.col("age") > 50, or rows=fr.S',
    ),
    "a frame as rows": (
        {"rows": pd.DataFrame({"a": [1], "b": [2]})},
        TypeError,
        "write rows=frame.index.to_numpy(), if it counts the rows of all files",
    ),
    "a table as rows": (
        {"rows": pa.table({"row": [1]})},
        TypeError,
        "write rows=frame['row'].to_numpy(), which",
    ),
    "one term": ({"filter": ("label", ">", 3)}, TypeError, "write [('label', '>', 3)]"),
    "a filter's name": ({"filter": fr.col("lable") > 3}, fr.DataError, "(did you mean 'label'?)"),
    "a number in quotes": ({"filter": fr.col("label") > "3"}, TypeError, "with '3': write a number"),
    "a text as a number": ({"filter": fr.col("user_id") > 3}, TypeError, "with 3: write a text"),
    "a list": ({"filter": fr.col("tokens") == 3}, TypeError, "columns that have one value in a row"),
    "a word of nulls": (
        {"nulls": "drop"},
        ValueError,
        "filter=fr.col(name).is_valid() leaves rows with a null",
    ),
    "pandas' nulls": ({"dropna": True}, TypeError, "write filter=fr.col(name).is_valid()"),
    "a bool for nulls of numbers": (
        {"columns": fr.col("flag").fill_null(False).cast(torch.float32)},
        ValueError,
        "Write .fill_null(0): it is a value of the new type",
    ),
    "a rank alone": ({"rank": 0}, TypeError, "write world=(rank, world_size)"),
    "a world of three": ({"world": (0, 1, 2)}, TypeError, "(rank, world_size)"),
    "a split by name": (
        {"split": "train"},
        TypeError,
        "write its files, as 'data/train-*.parquet', or rows=",
    ),
    "tokens": ({"max_tokens": 8192}, TypeError, "write unit=fr.Bins('tokens', cost=n)"),
    "a seed": ({"random_state": 1}, TypeError, "write seed= of ParquetDataset"),
    "pandas' columns": ({"usecols": ["label"]}, TypeError, "write columns=[...]"),
    "polars' rows": ({"n_rows": 3}, TypeError, "write rows=[[0, n]]"),
    "torch's ranks": ({"num_replicas": 2}, TypeError, "write world=(rank, world_size)"),
    "torch's mesh": ({"mesh": None}, TypeError, "write world=mesh[name], the dimension"),
    "a pair that is swapped": ({"world": (2, 0)}, ValueError, "(rank, world_size), did you mean (0, 2)?"),
    "ranks from 1": ({"world": (2, 2)}, ValueError, "count from 0, so the last one is (1, 2)"),
    "another case of an argument": ({"BATCH_SIZE": 3}, TypeError, "did you mean batch_size=?"),
    "a share as rows": ({"rows": 0.8}, TypeError, "write rows=[[0, 2]], or fr.Split(0.0, 0.8)"),
    "what is not needed": (
        {"streaming": True},
        TypeError,
        "streaming=, and needs none: files are never read",
    ),
}


@pytest.mark.parametrize("what", DATASETS)
def test_a_dataset_says_what_to_write(path: Path, what: str) -> None:
    how, kind, words = DATASETS[what]
    how = how if "columns" in how else {**how, "columns": "label"}
    with pytest.raises(kind) as caught:
        fr.ParquetDataset(path, batch_size=1, **how)
    assert words in str(caught.value)


MADE = re.compile(r"make ((?:torch|fr)\..*) in dataset\.map\(function\)")


@each_of(
    ("columns", "expected"),
    [
        (fr.col("n").cast(torch.float32), [1.5, 2.0]),
        (fr.col("n").clip(0, 1), [1.5, 2.0]),
        (fr.col("n").decimal("float64"), [1.5, 2.0]),
        (fr.stack("x", "n"), [1.5, 2.0]),
        (fr.col("whole").cast(torch.int64), [1, 2]),
        (fr.col("code").cast(torch.int64), [3, 4]),
        (fr.col("lists").cast(torch.int64), [[1, 2], [3]]),
    ],
)
def test_numbers_in_texts_are_made_as_is_advised(tmp_path: Path, columns: Any, expected: list[Any]) -> None:
    table = {
        "n": ["1.5", "2"],
        "x": [0.5, 0.5],
        "whole": pa.array(["1", "2"], pa.large_string()),
        "code": pa.array(["3", "4"]).dictionary_encode(),
        "lists": [["1", "2"], ["3"]],
    }
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    with pytest.raises(fr.DataError) as caught:
        fr.ParquetDataset(tmp_path, batch_size=2, columns=columns)
    (made,) = MADE.findall(str(caught.value))
    batch = fr.ParquetDataset(tmp_path, batch_size=2).peek()
    found = eval(made, {"torch": torch, "fr": fr, "batch": batch})  # noqa: S307  (our own words)
    assert (found.to_list() if isinstance(found, fr.Jagged) else found.tolist()) == expected


def test_numbers_between_separators_are_made_as_is_advised(tmp_path: Path) -> None:
    pq.write_table(pa.table({"l": ["1,2", "3"]}), tmp_path / "rows.parquet")
    split = fr.col("l").split(",")
    with pytest.raises(TypeError) as caught:
        split.cast(torch.int64)
    (made,) = MADE.findall(str(caught.value))
    batch = fr.ParquetDataset(tmp_path, batch_size=2, columns=split).peek()
    found = eval(made, {"torch": torch, "fr": fr, "batch": batch})  # noqa: S307  (our own words)
    assert found.to_list() == [[1, 2], [3]]


@each_of(
    ("columns", "words", "instead", "shape"),
    [
        (fr.col("bytes").fixed(12), "Write .pad(12), which", fr.col("bytes").pad(12), [2, 12]),
        (fr.col("bytes").raw(), "Write .pad(n), which", fr.col("bytes").pad(12), [2, 12]),
        (fr.col("one").fixed(2), "Write .raw(), which", fr.col("one").raw(), [2, 2]),
        (fr.col("img").fixed((3, 4)), "write .fixed(12), and", fr.col("img").fixed(12), [2, 12]),
        (
            fr.col("bytes").cast(torch.float32),
            "batch['bytes'].view(torch.float32)",
            fr.col("bytes").pad(12),
            [2, 12],
        ),
    ],
)
def test_arrays_in_bytes_and_flat_lists_are_read_as_is_advised(
    tmp_path: Path, columns: Any, words: str, instead: Any, shape: list[int]
) -> None:
    numbers = np.arange(3, dtype=np.float32)
    one = pa.array([b"ab"] * 2, pa.binary(2))
    table = {"bytes": [numbers.tobytes()] * 2, "one": one, "img": [list(range(12))] * 2}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet")
    with pytest.raises((fr.DataError, ValueError)) as caught:
        fr.ParquetDataset(tmp_path, batch_size=2, columns=columns)
    assert words in str(caught.value)
    batch = fr.ParquetDataset(tmp_path, batch_size=2, columns=instead).peek()
    (name, *_) = instead.names
    assert list(batch[name].shape) == shape  # type: ignore[union-attr]
    for way in re.findall(r"batch\['\w+'\]\.view\([^)]*\)", str(caught.value)):
        viewed = eval(way, {"batch": batch, "torch": torch})  # noqa: S307  (our own words)
        assert list(viewed.shape) in ([2, 3], [2, 3, 4])


@each_of(
    ("name", "chosen"),
    [
        ("word", pc.match_like(pc.field("user_id"), "a%")),
        ("computed", pc.field("label") * 2 < 3),
        ("function", pc.abs(pc.field("label")) < 2),
        ("bytes", pc.field("hash") == b"ab"),
        ("both", (pc.field("label") < 2) & (pc.field("user_id") == "a")),
    ],
)
def test_what_expressions_of_pyarrow_are_named_for_they_do(path: Path, name: str, chosen: Any) -> None:
    dataset = fr.ParquetDataset(path, batch_size=1, columns="label", filter=chosen)
    assert [batch["label"].tolist() for batch in dataset] == [[1]], name


def test_what_is_advised_of_pyarrow_can_filter(tmp_path: Path) -> None:
    table = pa.table({"number": [1.0], "time": pa.array([datetime(2026, 1, 1)]), "text": ["a"]})
    pq.write_table(table, tmp_path / "rows.parquet")
    advised = {
        name: words.partition("or filter=")[2]
        for name, words in METHODS_OF_COLUMNS.items()
        if words.startswith("dataset.map(function), or filter=")
    }
    assert len(advised) > 20
    for name, words in advised.items():
        is_text = "'" in words
        column = "text" if is_text else "time" if "== 3" in words else "number"
        chosen = eval(words, {"pyarrow": pa, "name": column})  # noqa: S307  (our own words)
        dataset = fr.ParquetDataset(tmp_path, columns=["number"], filter=chosen, on_iter="restart")
        assert dataset.num_rows <= 1, name


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("set_epoch", "and needs none: each pass is shuffled again"),
        ("shuffle", "write ParquetDataset(paths, shuffle=True)"),
        ("take", "write ParquetDataset(paths, rows=[[0, n]])"),
        ("peak", "did you mean .peek?"),
        ("with_format", "and needs none: a dataset is a stream of batches"),
        ("batched", "write ParquetDataset(paths, batch_size=n)"),
        ("get_state", "write batch.state_dict(), of the batch that was trained"),
        ("step", "write batch.step, of the last batch"),
        ("split", "write ParquetDataset(paths, rows=fr.Split(0.0, 0.9)), and"),
        ("dropna", "write ParquetDataset(paths, filter=fr.col(name).is_valid())"),
    ],
)
def test_methods_of_others_are_refused_by_what_there_is(path: Path, method: str, words: str) -> None:
    dataset = fr.ParquetDataset(path, batch_size=1, columns="label")
    with fr.Loader(dataset) as loader:
        for one in (dataset, loader):
            with pytest.raises(AttributeError) as caught:
                getattr(one, method)
            assert words in str(caught.value)
            assert not hasattr(one, method)
        for answer, name, way in (
            (dataset.schema, "names", r"list\(schema\)"),
            (dataset.schema, "label", r"schema\['label'\]"),
            (dataset.plan(), "memory", r"\.bytes_per_rank and"),
            (loader.stats(), "items", r"\.as_dict\(\)"),
        ):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}': write {way}"):
                getattr(answer, name)
            assert not hasattr(answer, name)
    with pytest.raises(TypeError, match="batched=, and needs none: the function gets whole batches"):
        dataset.map(len, batched=True)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no tensor 'lable'; there are: label"):
        dataset.schema["lable"]


def test_a_tensor_taken_as_an_attribute_says_what_to_write(path: Path) -> None:
    batch: Any = fr.ParquetDataset(path, batch_size=1, columns="label").peek()
    with pytest.raises(AttributeError, match=r"a Batch has no attribute 'label': write batch\['label'\]"):
        _ = batch.label
    with pytest.raises(AttributeError, match=r"a Batch has no attribute 'labels'$"):
        _ = batch.labels
    assert not hasattr(batch, "label")
    assert copy.copy(batch).keys() == batch.keys()


@pytest.mark.parametrize(("name", "words"), [("source", r"fr.Mixture"), ("unit_offsets", r"unit=fr.Bins")])
def test_what_only_other_batches_have_can_be_asked_for(path: Path, name: str, words: str) -> None:
    batch = next(iter(fr.ParquetDataset(path, batch_size=2, columns=["label"])))
    assert not hasattr(batch, name)
    assert getattr(batch, name, None) is None
    with pytest.raises(AttributeError, match=rf"a Batch has no attribute '{name}': write {words}"):
        getattr(batch, name)


def test_a_dataset_without_a_batch_size_says_where_it_is_named(path: Path) -> None:
    with pytest.raises(TypeError, match=r"write ParquetDataset\(paths, batch_size=n\)"):
        next(iter(fr.ParquetDataset(path, columns="label")))


def test_several_files_in_one_text_are_refused_by_a_list_or_a_pattern(path: Path) -> None:
    for name, way in (
        ("x-{0,1}.parquet", "write a list of paths, or '.*x-\\*.parquet'"),
        ("x-{000..127}.parquet", "write a list of paths, or '.*x-\\*.parquet'"),
        ("x.parquet,y.parquet", r"write a list, as \['.*x.parquet', 'y.parquet'\]"),
    ):
        with pytest.raises(fr.SourceError, match=way):
            fr.ParquetDataset(path / name, batch_size=1)
    (file_path,) = path.rglob("*.parquet")
    odd = file_path.rename(file_path.with_name("x-{0,1}.parquet"))
    assert fr.ParquetDataset(odd, batch_size=1, columns="label").num_rows == 2
    assert fr.ParquetDataset(path / "day=1" / "x-*.parquet", batch_size=1, columns="label").num_rows == 2


def test_what_pyarrow_opened_is_refused_by_its_paths(path: Path) -> None:
    found = pyarrow.dataset.dataset(path, format="parquet")
    for opened, way in (
        (found, r"write its \.files"),
        (pq.ParquetDataset(path), r"write its \.files"),
        (pq.ParquetFile(found.files[0]), "write the path that it was made with"),
    ):
        with pytest.raises(TypeError, match=way):
            fr.ParquetDataset(opened, batch_size=1)
    assert fr.ParquetDataset(found.files, batch_size=1, columns="label").num_rows == 2


def test_an_open_file_is_refused_by_its_path(path: Path) -> None:
    (file_path,) = path.rglob("*.parquet")
    with file_path.open("rb") as file, pytest.raises(TypeError, match="open file: write its path") as caught:
        fr.ParquetDataset(file, batch_size=1)
    assert str(file_path) in str(caught.value)
    with pytest.raises(TypeError, match=r"an open file: write fr.ArrowDataset\(table\)"):
        fr.ParquetDataset(io.BytesIO(), batch_size=1)


@pytest.mark.parametrize("name", ["_metadata", "_common_metadata"])
def test_a_summary_of_files_is_no_file_of_rows(path: Path, name: str) -> None:
    (file_path,) = path.rglob("*.parquet")
    (path / name).write_bytes(file_path.read_bytes())
    with pytest.raises(ValueError, match=re.escape(f"beside it: write their directory, {str(path)!r}")):
        fr.ParquetDataset(path / name, batch_size=1)
    assert fr.ParquetDataset(path, batch_size=1, columns="label").num_rows == 2


def test_codes_that_no_tensor_has_are_refused_by_what_makes_them(path: Path) -> None:
    dataset = fr.ParquetDataset(path, batch_size=1, columns=["label", fr.col("user_id").codes()])
    assert list(dataset.dictionaries) == ["user_id"]
    with pytest.raises(KeyError, match=r"'label' is of codes: write columns=\[fr.col\('label'\).codes\(\)"):
        dataset.dictionaries["label"]


def test_a_paste_of_a_list_that_was_given_begins_with_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["a"], "y": [1]}), tmp_path / "b.parquet")
    for columns, line in ((["x", "y"], "[..., '!x']"), (None, "['*', '!x']")):
        with pytest.raises(fr.DataError) as caught:
            fr.ParquetDataset(tmp_path, batch_size=1, columns=columns)
        assert f"columns={line} leaves it out" in str(caught.value)


def test_an_import_of_a_name_that_there_is_not_says_what_to_import() -> None:
    with pytest.raises(ImportError, match=r"write from fastresume\.checkpoint import Checkp"):
        from fastresume import Checkpointer  # type: ignore[attr-defined]  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'Zebra'"):
        from fastresume import Zebra  # type: ignore[attr-defined]  # noqa: F401
    assert not hasattr(fr, "Checkpointer")


@each_of(
    ("name", "words"),
    [
        ("cols", "did you mean fr.col?"),
        ("parquetdataset", "did you mean fr.ParquetDataset?"),
        ("column", "write fr.col(name)"),
        ("DataLoader", "write fr.Loader(dataset)"),
        ("Preemption", "write fr.training.Preemption"),
        ("Segment", "write fr.sources.Segment"),
        ("load_dataset", "write fr.ParquetDataset(paths, batch_size=n), whose paths may be 'hf://"),
        ("StatefulDataLoader", "write fr.Loader(dataset)"),
        ("ResumeCallback", "write from fastresume.integrations.lightning"),
    ],
)
def test_a_name_of_the_package_that_there_is_not_says_what_there_is(name: str, words: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(fr, name)
    assert words in str(caught.value)
