"""What becomes of nulls: an error that names one, a mask beside the values, or a value in their place."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
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
from support.asked import asked, with_nulls
from support.cells import Cells, assert_holds, is_delivered, read_cells, rule_of, written_cells
from support.columns import tables
from support.each_of import each_of
from support.jobs import make
from support.strategies import Dataset, DatasetSpec, written
from support.topologies import Shuffle

Write = Callable[[DatasetSpec], Dataset]

SHUFFLE = Shuffle(17, 20, 45).arguments


def write_columns(path: Path, version: str = "1.0", page_rows: int = 1000, **columns: pa.Array) -> Path:
    """Write a file of these columns, in row groups of 10 rows."""
    how = {"data_page_version": version, "max_rows_per_page": page_rows}
    # Where footers count nulls, a dataset that is not to have any is refused before it is read.
    pq.write_table(pa.table(columns), path, row_group_size=10, write_statistics=False, **how)
    return path


def open_dataset(path: Path, nulls: Any = "error", **arguments: Any) -> fr.ParquetDataset:
    """The dataset of one file, in batches of 10."""
    stack, columns = arguments.pop("stack", None), arguments.pop("columns", ("*",))
    columns = [columns] if isinstance(columns, str) else columns
    return fr.ParquetDataset(path, **{"batch_size": 10, **asked(nulls, stack, columns), **arguments})


# ----------------------------------------------------------------------------------------------- the argument


@each_of(
    ("value", "kept"),
    [
        (0, 0),
        (-1.5, -1.5),
        (True, True),
        (np.int8(-3), -3),
        (np.float32(0.5), 0.5),
        (np.True_, True),
        (torch.tensor(7), 7),
        (2**64 - 1, 2**64 - 1),
        ("", ""),
    ],
)
def test_a_value_reaches_the_core_as_a_plain_one(value: Any, kept: Any) -> None:
    found = fr.col("a").fill_null(value).rules.nulls
    assert found == kept
    assert type(found) is type(kept)


@each_of("value", [None, [], ["mask"], (0,), {"b": 0}, object(), 1j, "mask", b"x"])
def test_what_is_no_value_is_a_type_error_that_names_it(value: Any) -> None:
    with pytest.raises(TypeError, match=r"fr.col\('a'\).fill_null .*, found"):
        fr.col("a").fill_null(value)


@each_of("nulls", [None, 0, {"a": "mask"}, ["mask"]])
def test_what_is_said_of_all_columns_is_a_word(path: Path, nulls: Any) -> None:
    write_columns(path, a=pa.array([1]))
    with pytest.raises(TypeError, match=r"nulls must be 'error' or 'mask', .*fr.col\(name\).fill_null"):
        fr.ParquetDataset(path, batch_size=1, nulls=nulls)


@each_of("rule", ["", "drop", "Mask", "0"])
def test_a_word_that_is_no_rule_is_refused_with_those_that_are(path: Path, rule: Any) -> None:
    write_columns(path, a=pa.array([1]))
    with pytest.raises(ValueError, match=f"nulls must be 'error' or 'mask', found '{rule}'"):
        fr.ParquetDataset(path, batch_size=1, nulls=rule)


@pytest.mark.parametrize("fill", [2**64, -(2**63) - 1, 10**30])
def test_a_number_that_no_column_holds_is_refused(fill: int) -> None:
    with pytest.raises(ValueError, match=f"64 bits, found {fill}"):
        fr.col("a").fill_null(fill)


def test_what_becomes_of_nulls_is_said_once() -> None:
    with pytest.raises(TypeError, match="the rule for nulls is given already"):
        fr.col("a").fill_null(0).mask_null()


@pytest.mark.parametrize("fill", [False, True])
def test_a_bool_stands_for_nulls_of_bools_alone(path: Path, fill: bool) -> None:
    write_columns(path, a=pa.array([None, 7]), b=pa.array([None, True]), c=pa.array([1.5, None]))
    (batch,) = open_dataset(path, {"b": fill}, batch_size=2, columns=["b"])
    assert batch["b"].tolist() == [fill, True]
    for name, type_ in (("a", "int64"), ("c", "float32|float64")):
        message = (
            rf"fr.col\('{name}'\).fill_null\({fill}\): the fill value {fill} does not fit, .* is ({type_})\. "
            rf"Write .fill_null\({int(fill)}\)"
        )
        with pytest.raises(ValueError, match=message):
            open_dataset(path, {"*": "mask", name: fill})


@each_of(
    ("type_", "fill"),
    [
        ("int64", 1.5),
        ("int64", math.nan),
        ("int64", math.inf),
        ("int64", 2**63),
        ("int64", 1e30),
        ("uint64", -1),
        ("uint8", -1),
        ("uint8", 256),
        ("int8", 128),
        ("int8", -129),
        ("int32", 2**31),
        ("uint32", 2**32),
        ("bool", 2),
        ("bool", -1),
        ("bool", 0.5),
        ("float32", 1e300),
        ("float16", 1e5),
        ("timestamp[us]", 0.5),
        ("date32", 2**63),
    ],
)
@each_of("shape", ["scalar", "list", "stack"])
def test_a_fill_value_that_does_not_fit_is_refused_by_name(
    path: Path, type_: str, fill: Any, shape: str
) -> None:
    element = pa.timestamp("us") if type_ == "timestamp[us]" else pa.type_for_alias(type_)
    array = pa.array([None], pa.list_(element) if shape == "list" else element)
    pq.write_table(pa.table({"odd": array}), path)
    for name in ("odd", "o*"):
        column = fr.col(name).fill_null(fill)
        columns = fr.stack(column, name="m") if shape == "stack" else column
        with pytest.raises(ValueError, match=r"fr.col\('o") as caught:
            fr.ParquetDataset(path, batch_size=1, columns=columns)
        dtype = "int64" if type_ in ("timestamp[us]", "date32") else type_
        assert dtype in str(caught.value)
        assert str(fill).replace("e+", "e") in str(caught.value).replace("NaN", "nan"), str(caught.value)
        assert not isinstance(caught.value, fr.FastresumeError), "the argument is wrong, not the data"


@each_of("fill", [False, True])
@each_of(
    ("value", "type_"),
    [("x", "string"), (b"x", "binary"), (["x"], "list<string>"), ([b"x"], "list<binary>")],
)
def test_a_bool_makes_no_empty_text_of_a_null(path: Path, fill: bool, value: Any, type_: str) -> None:
    write_columns(path, odd=pa.array([None, value]), flag=pa.array([None, True]))
    for nulls in ({"odd": fill, "flag": fill}, {"o*": fill, "flag": fill}):
        with pytest.raises(ValueError, match=f"fill value {fill} .*, the column is {type_}: any") as caught:
            open_dataset(path, nulls)
        assert not isinstance(caught.value, fr.FastresumeError), "the argument is wrong, not the data"
    (batch,) = open_dataset(path, {"flag": fill, "odd": -1}, batch_size=2)
    assert batch["flag"].tolist() == [fill, True]
    assert batch["odd"].lengths.tolist()[0] == 0


@pytest.mark.parametrize("name", ["nope", "nope*", "[ab]c"])
def test_a_name_that_no_column_has_is_refused_with_those_that_are_there(path: Path, name: str) -> None:
    write_columns(path, a=pa.array([1]), b=pa.array([1]))
    with pytest.raises(fr.DataError, match=r"no column matches .*a, b") as caught:
        open_dataset(path, {name: "mask"})
    assert f"'{name}'" in str(caught.value)


@pytest.mark.parametrize("name", ["a[", "***"])
def test_a_pattern_that_is_none_is_refused(path: Path, name: str) -> None:
    write_columns(path, a=pa.array([1]))
    with pytest.raises(ValueError, match="pattern"):
        fr.ParquetDataset(path, batch_size=1, columns=fr.col(name).fill_null(0))


def test_columns_without_a_rule_have_errors(path: Path) -> None:
    write_columns(path, a=pa.array([None], pa.int64()), b=pa.array([None], pa.int64()))
    with pytest.raises(fr.DataError, match="column 'b'"):
        list(open_dataset(path, {"a": 0}, batch_size=1))
    with pytest.raises(fr.DataError, match="column 'a'"):
        list(open_dataset(path, batch_size=1))
    (batch,) = open_dataset(path, {"a": 0}, batch_size=1, columns="a")
    assert batch["a"].tolist() == [0]


# ----------------------------------------------------------------------------------------------------- errors

NOT_ALL = [[0, 29]]
"""Rows of which footers do not tell whether they have nulls that lists hold."""

NULLS = {
    "a number": pa.array([None if row == 13 else row for row in range(30)], pa.int32()),
    "a bool": pa.array([None if row == 13 else True for row in range(30)]),
    "a string": pa.array([None if row == 13 else "x" * row for row in range(30)]),
    "a list": pa.array([None if row == 13 else [row] * (row % 3) for row in range(30)]),
    "an element": pa.array([[7, None] if row == 13 else [row] * (row % 3) for row in range(30)]),
    "a number among nulls": pa.array([None if row >= 13 else row for row in range(30)], pa.float64()),
}


@pytest.mark.law(11)
@each_of("what", NULLS)
@each_of("version", ["1.0", "2.0"])
@each_of("how", [{}, SHUFFLE, {"threads": 2}])
@each_of("page_rows", [2, 1000])
def test_a_null_is_named_by_column_row_row_group_and_file(
    path: Path, what: str, version: str, how: dict[str, Any], page_rows: int
) -> None:
    write_columns(path, version, page_rows, row=pa.array(range(30)), odd=NULLS[what])
    threads = {"threads": how["threads"]} if "threads" in how else None
    order = {} if threads else how
    dataset = open_dataset(path, rows=NOT_ALL, **order)
    with pytest.raises(fr.DataError) as caught:
        list(fr.Loader(dataset, **threads) if threads else dataset)
    message = str(caught.value)
    for words in ("null", "row 3 ", "row group 1", "column 'odd'", str(path)):
        assert words in message, message
    assert len(list(open_dataset(path, columns="row"))) == 3


def test_the_row_groups_before_a_null_are_delivered(path: Path) -> None:
    for index, array in enumerate(NULLS.values()):
        write_columns(path, row=pa.array(range(30)), odd=array)
        iterator = iter(open_dataset(path, batch_size=5, rows=NOT_ALL))
        assert [next(iterator)["row"].tolist()[0] for _ in range(2)] == [0, 5], index
        with pytest.raises(fr.DataError, match="null"):
            next(iterator)


def test_rows_without_nulls_can_be_read_by_their_numbers(path: Path) -> None:
    write_columns(path, row=pa.array(range(30)), odd=NULLS["an element"])
    dataset = open_dataset(path, rows=NOT_ALL)
    rows = [row for row in range(28, -1, -1) if row != 13]
    assert dataset.read_rows(rows)["row"].tolist() == rows
    with pytest.raises(fr.DataError, match=r"row 3 .*column 'odd'"):
        dataset.read_rows([12, 13])


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_a_null_inside_a_list_is_marked_under_a_mask_and_filled_by_a_value(path: Path, version: str) -> None:
    """To drop the element, or to shift those behind it, would be to make up a list."""
    rows = [[1, None, 3], None, [], [None]]
    write_columns(path, version=version, list=pa.array(rows))
    with pytest.raises(fr.DataError, match=r"a list, or an element of one, is null.*column 'list'"):
        list(open_dataset(path, "error", batch_size=4))
    (batch,) = open_dataset(path, "mask", batch_size=4)
    assert batch["list"].to_list() == rows
    assert batch["list"].values_valid.tolist() == [True, False, True, False]
    (batch,) = open_dataset(path, -1, batch_size=4)
    assert batch["list"].to_list() == [[1, -1, 3], [], [], [-1]]
    assert batch["list"].valid is None


# ------------------------------------------------------------------------------------------------------ masks


def test_the_keys_of_a_batch_depend_on_the_arguments_alone(tmp_path: Path) -> None:
    """Files with nulls, without any, and whose schema says that there are none."""
    write_columns(tmp_path / "0.parquet", a=pa.array([1, None]), b=pa.array([[1], None]))
    write_columns(tmp_path / "1.parquet", a=pa.array([1, 2]), b=pa.array([[1], [2]]))
    field = pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.list_(pa.int64()), nullable=False)
    table = pa.table([pa.array([3, 4]), pa.array([[3], []])], schema=pa.schema(field))
    pq.write_table(table, tmp_path / "2.parquet")
    batches = list(fr.ParquetDataset(tmp_path, batch_size=2, nulls="mask"))
    assert [list(batch) for batch in batches] == [["a", "a_valid", "b"]] * 3
    assert [batch["a_valid"].tolist() for batch in batches] == [[True, False], [True, True], [True, True]]
    assert [batch["b"].valid.tolist() for batch in batches] == [[True, False], [True, True], [True, True]]
    assert [batch["b"].to_list() for batch in batches] == [[[1], None], [[1], [2]], [[3], []]]


def test_a_value_under_a_null_is_zero(path: Path) -> None:
    write_columns(
        path,
        number=pa.array([7, None, 9]),
        real=pa.array([math.nan, None, -0.0]),
        flag=pa.array([True, None, True]),
        text=pa.array(["a", None, ""]),
    )
    (batch,) = open_dataset(path, "mask", batch_size=3)
    assert batch["number"].tolist() == [7, 0, 9]
    assert batch["real"].tolist()[1:] == [0.0, -0.0]
    assert math.copysign(1, batch["real"].tolist()[1]) == 1
    assert batch["flag"].tolist() == [True, False, True]
    assert batch["text"].to_strings() == ["a", None, ""]
    for name in ("number", "real", "flag"):
        assert batch[f"{name}_valid"].tolist() == [True, False, True]
        assert batch[f"{name}_valid"].dtype == torch.bool


def test_columns_of_a_stack_may_be_filled_with_values_of_their_own(path: Path) -> None:
    write_columns(path, a=pa.array([1.0, None]), b=pa.array([None, 2.0]), c=pa.array([3.0, 4.0]))
    nulls = {"a": -1, "b": math.inf}
    m = fr.stack(*(fr.col(name).fill_null(value) for name, value in nulls.items()), "c", name="m")
    (batch,) = fr.ParquetDataset(path, batch_size=2, columns=m)
    assert batch["m"].tolist() == [[1, math.inf, 3], [-1, 2, 4]]


@pytest.mark.parametrize("nulls", [{"a": "mask"}, {"a": "mask", "b": 0}, {"a": "mask", "b": "error"}])
def test_a_stack_is_masked_as_a_whole_or_not_at_all(path: Path, nulls: dict[str, Any]) -> None:
    write_columns(path, a=pa.array([1]), b=pa.array([2]))
    parts = [with_nulls(fr.col(name), nulls.get(name, "error")) for name in ("a", "b")]
    with pytest.raises(
        ValueError, match=r"fr.stack.*'m'\): the nulls of 1 of its 2 columns are masked"
    ) as caught:
        fr.ParquetDataset(path, batch_size=1, columns=fr.stack(*parts, name="m"))
    assert not isinstance(caught.value, fr.FastresumeError)


def test_a_mask_whose_name_is_taken_is_refused(path: Path) -> None:
    write_columns(path, a=pa.array([1]), a_valid=pa.array([True]), b=pa.array([1]))
    for columns in (None, ["b", fr.stack("a", name="b_valid")]):
        with pytest.raises(ValueError, match=r"_valid'.*mask"):
            fr.ParquetDataset(path, batch_size=1, nulls="mask", columns=columns)
    assert list(open_dataset(path, {"a_valid": "mask"}, batch_size=1).schema) == [
        "a",
        "a_valid",
        "a_valid_valid",
        "b",
    ]


def test_a_jagged_has_no_key_for_its_mask(path: Path) -> None:
    write_columns(path, a=pa.array([[1], None]), a_valid=pa.array([1, 2]))
    (batch,) = open_dataset(path, {"a": "mask"}, batch_size=2)
    assert list(batch) == ["a", "a_valid"]
    assert batch["a_valid"].tolist() == [1, 2]
    assert batch["a"].valid.tolist() == [True, False]


# -------------------------------------------------------------------------------------- stacks, lists, states


@pytest.mark.parametrize("array", [[[1], [2]], ["a", "b"], [b"a", b"b"]], ids=["list", "string", "binary"])
def test_rows_of_different_lengths_are_no_matrix(path: Path, array: list[Any]) -> None:
    write_columns(path, a=pa.array([1, 2]), odd=pa.array(array))
    for members in ("odd", ["odd", "a"], ["a", "odd"], "*"):
        parts = [members] if isinstance(members, str) else members
        with pytest.raises(fr.DataError, match=r"'m'\): a .* can't be stacked") as caught:
            fr.ParquetDataset(path, batch_size=1, columns=fr.stack(*parts, name="m"))
        assert "column 'odd'" in str(caught.value)
        assert str(path) in str(caught.value)


def test_what_becomes_of_nulls_is_no_part_of_the_state(lists: Dataset) -> None:
    cells = read_cells(lists.directory)
    masked = make(lists, 10, nulls="mask")
    iterator = iter(masked)
    state = [next(iterator) for _ in range(3)][-1].state_dict()
    filled = make(lists, 10, columns=fr.col("*").fill_null(0))
    filled.load_state_dict(state)
    for batch in filled:
        assert_holds(batch, cells, 0)
    assert masked.fingerprint == filled.fingerprint


def test_a_pickled_dataset_keeps_its_rules(lists: Dataset) -> None:
    nulls = {"tokens": "mask", "name": 0, "weight": -1.5, "words": "mask", "grid": 7}
    dataset = pickle.loads(pickle.dumps(make(lists, 10, **asked(nulls))))
    cells = read_cells(lists.directory)
    for batch in dataset:
        assert_holds(batch, cells, nulls)


@given(tables(max_columns=3), st.sampled_from((1, 3, 7)), st.data())
def test_any_rules_for_any_columns(spec: DatasetSpec, batch_size: int, data: st.DataObject) -> None:
    """Each column's own rule: batches are right up to the first that holds a null which is an error."""
    names = ["row", *(column.name for column in spec.columns)]
    rules: dict[str, Any] = {}
    for name in names:
        rules[name] = data.draw(st.sampled_from(("error", "mask", 0, 1)), label=name)
    order = {**data.draw(st.sampled_from(({}, Shuffle(3, 8, 16).arguments))), "tail": "short"}
    with written(spec) as dataset:
        cells = written_cells(spec)
        whole = all(is_delivered(cells[name], range(spec.num_rows), rule_of(rules, name)) for name in cells)
        if not whole:
            # Footers tell of nulls, or the batch that holds the first one does.
            with pytest.raises(fr.DataError, match="null"):
                sum(hold(batch, cells, rules) for batch in make(dataset, batch_size, **asked(rules), **order))
            return
        made = make(dataset, batch_size, **asked(rules), **order)
        numbers = data.draw(st.lists(st.integers(0, spec.num_rows - 1), max_size=20))
        assert_holds(made.read_rows(numbers), cells, rules)
        assert sum(hold(batch, cells, rules) for batch in made) == spec.num_rows


def hold(batch: fr.Batch, cells: dict[str, Cells], rules: dict[str, Any]) -> int:
    """Assert that a batch is right; return its rows."""
    assert_holds(batch, cells, rules)
    return batch.num_rows
