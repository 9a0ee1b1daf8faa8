"""Filters: a condition on columns, resolved into a selection of rows before the pass."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.conditions import OPS, as_bytes, as_filter, encode, kept_rows
from support.each_of import each_of
from support.jobs import FEWER, parallel

# ----------------------------------------------------------------------------------- what is kept: the oracle

TYPES = {
    "flag": (pa.bool_(), st.booleans()),
    "small": (pa.int8(), st.integers(-128, 127)),
    "large": (pa.int64(), st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))),
    "positive": (pa.uint64(), st.one_of(st.integers(0, 3), st.integers(2**63 - 2, 2**64 - 1))),
    "single": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.floats()),
    "half": (pa.float16(), st.floats(width=16)),
    "text": (pa.string(), st.text("ab\x00é", max_size=3)),
    "bytes": (pa.binary(), st.binary(max_size=3)),
}

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(
        (2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64 - 1, 2**64, 2**53 + 1, 10**400, -(10**400))
    ),
    st.floats(),
    st.sampled_from((0.5, -0.5, 2.0**63, 127.5, 1e300, -1e300, 0.1, 65504.5, 3.5e38)),
    st.booleans(),
)


def values_of(name: str, there: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Values to compare a column with: those that it has, any of its type, and any number."""
    own = TYPES[name][1]
    some = [value for value in there if value is not None]
    known = st.sampled_from(some) if some else own
    return st.one_of(known, own) if name in ("text", "bytes") else st.one_of(known, own, NUMBERS)


def conditions(table: pa.Table) -> st.SearchStrategy[tuple[Any, ...]]:
    """Conditions on the columns of a table, as the oracle takes them."""
    there = {name: as_python(table.column(name)) for name in table.column_names}

    def leaves(name: str) -> st.SearchStrategy[tuple[Any, ...]]:
        value = values_of(name, there[name])
        return st.one_of(
            st.tuples(st.sampled_from(OPS), st.just(name), value),
            st.tuples(st.just("in"), st.just(name), st.lists(value, max_size=20)),
            st.tuples(st.just("null"), st.just(name)),
        )

    def joined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
        return st.one_of(
            st.tuples(st.just("not"), inner),
            st.tuples(st.sampled_from(("and", "or")), inner, inner),
        )

    return st.recursive(st.sampled_from(table.column_names).flatmap(leaves), joined, max_leaves=5)


def as_python(column: pa.ChunkedArray) -> list[Any]:
    """The values as Python's own; a string as its bytes, which compare as the format orders them."""
    return [value.encode() if isinstance(value, str) else value for value in column.to_pylist()]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Draw a table of a few columns and up to 40 rows, some of them null."""
    names = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=3, unique=True))
    count = draw(st.integers(1, 40))
    columns = {}
    for name in names:
        kind, values = TYPES[name]
        some = st.one_of(st.none(), values) if draw(st.booleans()) else values
        # Few distinct values, so that row groups are all one.
        pool = draw(st.lists(some, min_size=1, max_size=5))
        drawn = draw(st.lists(st.sampled_from(pool), min_size=count, max_size=count))
        stored = [np.float16(value) if name == "half" and value is not None else value for value in drawn]
        columns[name] = pa.array(stored, kind)
    return pa.table(columns)


@given(data=st.data(), table=tables())
def test_a_filter_keeps_what_the_oracle_keeps(data: st.DataObject, table: pa.Table) -> None:
    condition = data.draw(conditions(table))
    how = {
        "row_group_size": data.draw(st.integers(1, 15)),
        "write_statistics": data.draw(st.booleans()),
        "use_dictionary": data.draw(st.booleans()),
        "data_page_version": data.draw(st.sampled_from(("1.0", "2.0"))),
        "write_page_index": data.draw(st.booleans()),
        "max_rows_per_page": data.draw(st.integers(1, 15)),
        "write_batch_size": 1,
    }
    if data.draw(st.booleans()):
        hashed = [name for name in table.column_names if name not in ("flag", "half")]
        how["bloom_filter_options"] = {name: {"ndv": 50, "fpp": 0.1} for name in hashed}
    rows = table.to_pylist()
    for row in rows:
        row.update({name: encode(value) for name, value in row.items()})
    expected = [place for place, row in enumerate(rows) if oracle.truth(as_bytes(condition), row)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.parquet"
        pq.write_table(table, path, **how)
        assert kept_rows(path, filter=as_filter(condition)) == expected


@FEWER
@given(data=st.data(), table=tables())
def test_a_filter_keeps_rows_of_those_that_are_chosen(data: st.DataObject, table: pa.Table) -> None:
    condition = data.draw(conditions(table))
    count = table.num_rows
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), np.bool_)
    rows = [{name: encode(value) for name, value in row.items()} for row in table.to_pylist()]
    expected = [at for at, row in enumerate(rows) if mask[at] and oracle.truth(as_bytes(condition), row)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.parquet"
        pq.write_table(table, path, row_group_size=data.draw(st.integers(1, 15)))
        assert kept_rows(path, filter=as_filter(condition), rows=mask) == expected


# --------------------------------------------------------------------------------------- what a user may pass


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of 1000 rows: numbers, days, words and lists, some of them null."""
    directory = tmp_path_factory.mktemp("filtered")
    for part in range(3):
        rows = np.arange(1000 * part, 1000 * part + 1000)
        table = {
            "row": rows,
            "day": pa.array(rows // 100, pa.int32()),
            "label": pa.array(rows % 3, pa.int8(), mask=rows % 10 == 0),
            "word": pa.array([None if row % 7 == 0 else f"w{row % 50}" for row in rows.tolist()]),
            "tags": pa.array([[row] * (row % 3) for row in rows.tolist()]),
            "at": pa.array(rows * 86_400_000_000, pa.timestamp("us")),
            "amount": pa.array([round(row / 8, 2) for row in rows.tolist()], pa.float64()).cast(
                pa.decimal128(12, 4)
            ),
        }
        pq.write_table(pa.table(table), directory / f"{part}.parquet", row_group_size=130)
    return directory


def dataset_of(files: Path, **arguments: Any) -> fr.ParquetDataset:
    how = {"batch_size": 10, "columns": ["row"], "tail": "short", **parallel(), **arguments}
    return fr.ParquetDataset(files, **how)


LABEL, WORD, DAY = fr.col("label"), fr.col("word"), fr.col("day")

WAYS = {
    "a condition": (LABEL == 1, pc.field("label") == 1),
    "one term": ([("label", "=", 1)], pc.field("label") == 1),
    "terms": ([("label", "==", 1), ("day", ">=", 5)], (pc.field("label") == 1) & (pc.field("day") >= 5)),
    "terms of terms": (
        [[("label", "!=", 1), ("day", "<", 5)], [("word", "in", ["w3", "w4"])], [("day", ">", 27)]],
        ((pc.field("label") != 1) & (pc.field("day") < 5))
        | pc.field("word").isin(["w3", "w4"])
        | (pc.field("day") > 27),
    ),
    "not in": ([("label", "not in", [0, 2])], pc.field("label") == 1),
    "valid": (WORD.is_valid() & (DAY <= 3), pc.field("word").is_valid() & (pc.field("day") <= 3)),
    "null": (LABEL.is_null() | (WORD == "w9"), pc.field("label").is_null() | (pc.field("word") == "w9")),
    "numpy": (DAY.isin(np.array([3, 4])) & (np.float32(0.5) < LABEL), None),
}


@each_of("way", WAYS)
def test_a_filter_may_be_passed_in_any_form(files: Path, way: str) -> None:
    """And it keeps what pyarrow keeps; its columns need not be read otherwise."""
    own, of_arrow = WAYS[way]
    if of_arrow is None:
        of_arrow = pc.field("day").isin([3, 4]) & (pc.field("label") > 0.5)
    expected = pq.read_table(files).filter(of_arrow)["row"].to_pylist()
    assert 0 < len(expected) < 3000
    for filter_ in (own, of_arrow):
        dataset = dataset_of(files, filter=filter_)
        assert list(dataset.schema) == ["row"]
        assert dataset.num_rows == len(expected)
        assert [row for batch in fr.Loader(dataset) for row in batch["row"].tolist()] == expected


def test_an_expression_of_pyarrow_may_ask_what_no_tensor_holds(files: Path) -> None:
    """Of decimals, timestamps with their own types, and functions."""
    day = dt.datetime(1970, 1, 1) + dt.timedelta(days=500)
    asked = (pc.field("amount") > pa.scalar("12.5").cast(pa.decimal128(12, 4))) & (pc.field("at") < day)
    asked = asked | (pc.list_value_length(pc.field("tags")) == 2) & (pc.field("row") > 2900)
    expected = pq.read_table(files).filter(asked)["row"].to_pylist()
    assert 400 < len(expected) < 600
    assert kept_rows(files, filter=asked, columns="row") == expected
    assert kept_rows(files, filter=asked, columns="row", rows=[[300, 450], [2990, 3000]]) == [
        row for row in expected if 300 <= row < 450 or row >= 2990
    ]


def test_a_filtered_dataset_resumes_and_refuses_the_states_of_others(files: Path) -> None:
    how = {"shuffle": True, "seed": 3, "tail": "short"}
    whole = [batch.rows().tolist() for batch in dataset_of(files, filter=LABEL == 1, **how)]
    assert sorted(itertools.chain.from_iterable(whole)) == [
        row for row in range(3000) if row % 3 == 1 and row % 10
    ]
    first = dataset_of(files, filter=LABEL == 1, **how)
    batches = iter(first)
    for _ in range(5):
        state = next(batches).state_dict()
    again = dataset_of(files, filter=[("label", "==", 1)], **how)
    again.load_state_dict(state)
    assert [batch.rows().tolist() for batch in again] == whole[5:]
    for other in (LABEL == 2, None):
        with pytest.raises(fr.StateError, match="another selection of rows"):
            dataset_of(files, filter=other, **how).load_state_dict(state)


@each_of(
    ("type_", "unit"),
    [
        (pa.timestamp("us"), "timestamp[us]"),
        (pa.timestamp("ms", "UTC"), "timestamp[ms, UTC]"),
        (pa.date32(), "date[day]"),
        (pa.time64("us"), "time[us]"),
    ],
)
def test_times_are_compared_with_integers_and_the_unit_is_told(
    tmp_path: Path, type_: pa.DataType, unit: str
) -> None:
    path = tmp_path / "x.parquet"
    stored = pa.array([1, 2], pa.int32() if type_ == pa.date32() else pa.int64())
    pq.write_table(pa.table({"at": stored.cast(type_)}), path)
    for value, error in (("yesterday", ValueError), (b"x", TypeError)):
        found = re.escape(f"column 'at' of the type {unit} can't be compared with {value!r}: write")
        with pytest.raises(error, match=found):
            fr.ParquetDataset(path, batch_size=1, filter=fr.col("at") > value)


TIMES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.timestamp("ms"), [dt.datetime(2024, 1, day, 3) for day in (1, 2, 3)]),
    (pa.timestamp("us", "UTC"), [dt.datetime(2024, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)]),
    (pa.timestamp("ns"), [dt.datetime(1969, 12, 31, 23, 59, second) for second in (57, 58, 59)]),
    (pa.date32(), [dt.date(1960, 2, day) for day in (27, 28, 29)]),
    (pa.time64("us"), [dt.time(1, 2, 3, micro) for micro in (4, 5, 6)]),
    (pa.duration("ms"), [dt.timedelta(milliseconds=number) for number in (-1, 0, 1)]),
]


@each_of(("type_", "values"), TIMES)
def test_times_are_compared_as_what_they_are(tmp_path: Path, type_: pa.DataType, values: list[Any]) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"at": pa.array(values, type_)}), path)
    at, middle = fr.col("at"), values[1]
    forms = [middle] if isinstance(middle, dt.timedelta) else [middle, middle.isoformat()]
    if isinstance(middle, dt.datetime) and middle.tzinfo is None:
        forms += [np.datetime64(middle), np.datetime64(middle, "ns")]
    for form in forms:
        assert kept_rows(path, filter=at == form) == [1]
        assert kept_rows(path, filter=at < form) == [0]
        assert kept_rows(path, filter=[("at", ">=", form)]) == [1, 2]
        assert kept_rows(path, filter=~at.isin([form, values[0]])) == [2]


@each_of(
    ("type_", "form"),
    [
        (pa.timestamp("us"), "2026-02-01"),
        (pa.timestamp("us", "UTC"), "2026-02-01T00:00:00+00:00"),
        (pa.time64("us"), "12:30:00"),
    ],
)
def test_a_text_that_is_no_time_is_written_as_its_error_shows(
    tmp_path: Path, type_: pa.DataType, form: str
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"at": pa.array([1, 2], pa.int64()).cast(type_)}), path)
    with pytest.raises(ValueError, match=re.escape(f"write it as {form!r}")):
        kept_rows(path, filter=fr.col("at") < "1/2/2026")
    assert kept_rows(path, filter=fr.col("at") < form) == [0, 1]


def test_a_time_between_two_numbers_of_a_unit_is_none_of_them(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    first = dt.datetime(2024, 1, 1)
    pq.write_table(pa.table({"at": pa.array([first, first + dt.timedelta(1)], pa.date32())}), path)
    noon = dt.datetime(2024, 1, 1, 12)
    assert kept_rows(path, filter=fr.col("at") < noon) == [0]
    assert kept_rows(path, filter=fr.col("at") != noon) == [0, 1]
    assert kept_rows(path, filter=fr.col("at") == noon) == []


@each_of(
    ("type_", "value", "said"),
    [
        (pa.timestamp("us"), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "write the datetime without tzinfo"),
        (pa.timestamp("us", "UTC"), dt.datetime(2024, 1, 1), "write a datetime with tzinfo=datetime.UTC"),
        (pa.timestamp("us"), dt.timedelta(1), "write a value of that type"),
        (pa.timestamp("us"), np.datetime64("NaT"), r"ask is_null\(\)"),
        (pa.duration("us"), dt.date(2024, 1, 1), "write a value of that type"),
        (pa.int64(), dt.date(2024, 1, 1), "can't be compared with datetime.date"),
    ],
)
def test_a_time_of_another_kind_is_refused(tmp_path: Path, type_: pa.DataType, value: Any, said: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"at": pa.array([1, 2], pa.int64()).cast(type_)}), path)
    with pytest.raises(TypeError, match=rf"column 'at' of the type .*{said}"):
        kept_rows(path, filter=fr.col("at") > value)


@each_of(
    ("filter_", "error", "named"),
    [
        (LABEL == "x", TypeError, "column 'label' of the type int8 can't be compared with 'x'"),
        (WORD < 3, TypeError, "column 'word' of the type string can't be compared with 3"),
        (WORD.isin(["a", 3]), TypeError, "column 'word' .* can't be compared with 3"),
        (fr.col("tags") == 3, TypeError, "column 'tags' of the type list can't be compared with 3"),
        (fr.col("nowhere") == 3, fr.DataError, "no column matches 'nowhere'"),
        (fr.col("la*") == 3, ValueError, r"no column 'la\*': a filter names columns"),
        (fr.col("amount") == 3, fr.DataError, "amount"),
        ("label == 1", TypeError, "filter must be a condition .* found 'label == 1'"),
        ([], TypeError, "filter must be"),
        ([("label", "~", 1)], ValueError, "op of a term must be one of .* found '~'"),
        ([("label", 1)], ValueError, r"a term of a filter is \(name, op, value\)"),
        (pc.field("nowhere") == 3, fr.DataError, "no column matches 'nowhere'; there are: row, day"),
        (LABEL == 77, ValueError, "no batch would come from 0 of 3,000 rows"),
    ],
)
def test_what_is_no_filter_is_refused(files: Path, filter_: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        dataset_of(files, filter=filter_)


@each_of(
    ("make", "named"),
    [
        (lambda: LABEL == None, r"found None: ask is_null\(\)"),  # noqa: E711  (that is what is refused)
        (lambda: LABEL == [1], "found \\[1\\]"),
        (lambda: LABEL.isin("abc"), "isin takes a list"),
        (lambda: LABEL.isin([None]), "is_null"),
        (lambda: (LABEL == 1) and (LABEL == 2), "for and, or and not"),
        (lambda: 0 < LABEL < 2, "for and, or and not"),
        (lambda: (LABEL == 1) & 3, "& joins conditions, found 3"),
        (lambda: (LABEL == 1) | True, r"\| joins conditions, found True"),
        (lambda: fr.col(3), "names or patterns of columns, found 3"),
    ],
)
def test_what_is_no_condition_is_refused_as_it_is_written(make: Any, named: str) -> None:
    with pytest.raises(TypeError, match=named):
        make()
