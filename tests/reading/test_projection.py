"""Which columns a batch has: names, globs, stacks."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.each_of import each_of
from support.jobs import assert_batch_values
from support.row_files import Write, one_rank
from support.strategies import ROW_NUMBERS, TYPES, ColumnSpec, Dataset, plain_spec

NAMES = ("i_1", "i_2", "i_10", "c_1", "c_2", "label", "x[0]", "I_1")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Columns of one type with telling names."""
    columns = [ColumnSpec(name, "int32", fill="bits", seed=i) for i, name in enumerate(NAMES)]
    return plain_spec([10, 4], [9], columns=columns).write(tmp_path_factory.mktemp("wide"))


def expand(patterns: list[str], among: list[str]) -> list[str]:
    """The columns that names and globs mean: in the order of the patterns, each once."""
    found = []
    for pattern in patterns:
        found += [pattern] if pattern in among else [n for n in among if fnmatch.fnmatchcase(n, pattern)]
    return list(dict.fromkeys(found))


patterns_of_wide = st.lists(
    st.sampled_from((*NAMES, "i_*", "c_?", "*_1", "[il]*", "*", "row", "i_1*")), min_size=1, max_size=4
)


@given(patterns=patterns_of_wide)
def test_columns_are_projected_by_names_and_globs_in_the_order_asked(
    wide: Dataset, patterns: list[str]
) -> None:
    table = oracle.read_table(wide.directory)
    wanted = expand(patterns, list(table))
    dataset = one_rank(wide.directory, batch_size=11, columns=patterns)
    assert list(dataset.schema) == wanted
    for number, batch in enumerate(dataset):
        rows = slice(11 * number, 11 * number + 11)
        assert_batch_values(batch, {name: table[name][rows] for name in wanted})


@given(
    columns=st.none() | patterns_of_wide,
    stacks=st.dictionaries(st.sampled_from(("dense", "s")), st.permutations(NAMES)),
    data=st.data(),
)
def test_stacked_columns_are_one_matrix_behind_the_others(
    wide: Dataset, columns: list[str] | None, stacks: dict[str, list[str]], data: st.DataObject
) -> None:
    table = oracle.read_table(wide.directory)
    wanted = list(table) if columns is None else expand(columns, list(table))
    free = [name for name in wanted if name != ROW_NUMBERS]
    stack = {}
    for name in stacks:
        if free:
            count = data.draw(st.integers(1, len(free)))
            stack[name] = data.draw(st.permutations(free))[:count]
            free = [column for column in free if column not in stack[name]]
    taken = {column for members in stack.values() for column in members}
    expected = {name: table[name] for name in wanted if name not in taken}
    for name, members in stack.items():
        expected[name] = np.stack([table[column] for column in members], axis=1)
    plain = ["*"] if columns is None else columns
    left_out = [f"!{name}" for name in taken]
    matrices = [fr.stack(*members, name=name) for name, members in stack.items()]
    dataset = one_rank(wide.directory, batch_size=23, columns=[*plain, *left_out, *matrices])
    for name, members in stack.items():
        field = dataset.schema[name]
        assert (field.shape, field.columns, field.is_stacked) == (("B", len(members)), tuple(members), True)
    (batch,) = dataset
    assert_batch_values(batch, expected)
    assert all(tensor.is_contiguous() for tensor in batch.values())


@each_of("type_", TYPES)
def test_any_type_can_be_stacked(write_dataset: Write, type_: str) -> None:
    columns = [ColumnSpec(f"c{i}", type_, fill="bits", seed=i) for i in range(3)]
    dataset = write_dataset(plain_spec([5, 2], [6], columns=columns))
    table = oracle.read_table(dataset.directory)
    (batch,) = one_rank(dataset.directory, 13, columns=fr.stack(fr.col("c2", "c*"), name="all"))
    assert_batch_values(batch, {"all": np.stack([table[f"c{i}"] for i in (2, 0, 1)], axis=1)})


def test_columns_that_are_one_dtype_in_a_tensor_can_be_stacked(write_dataset: Write) -> None:
    columns = [ColumnSpec("day", "date32"), ColumnSpec("at", "timestamp[us]"), ColumnSpec("n", "int64")]
    dataset = write_dataset(plain_spec([6], columns=columns))
    (batch,) = one_rank(
        dataset.directory, 6, columns=["*", "!n", "!at", "!day", fr.stack("n", "at", "day", name="times")]
    )
    assert batch["times"].tolist() == [[i, i, i] for i in range(6)]
    assert list(batch) == [ROW_NUMBERS, "times"]


def test_one_stacked_column_is_a_matrix(wide: Dataset) -> None:
    batch = next(iter(one_rank(wide.directory, 4, columns=fr.stack("label", name="dense"))))
    assert batch["dense"].shape == (4, 1)
    assert list(batch) == ["dense"]


@each_of(
    ("arguments", "error", "message"),
    [
        (
            {"columns": ["label", "lable"]},
            fr.DataError,
            "no column matches 'lable' .did you mean 'label'.*; there are: row, i_1",
        ),
        ({"columns": "z_*"}, fr.DataError, "no column matches 'z_\\*'"),
        ({"columns": []}, ValueError, "no column is selected"),
        (
            {"columns": ["i_*", fr.stack("z_*", name="s")]},
            fr.DataError,
            r"fr.stack\(fr.col\('z_\*'\), name='s'\): no column matches 'z_",
        ),
        (
            {"columns": ["*", "!row", "!i_1", fr.stack("row", "i_1", name="s")]},
            fr.DataError,
            r"fr.stack\(.*name='s'\) holds .*'row' is int64, 'i_1' is int32",
        ),
        (
            {"columns": ["*", "!i_*", fr.stack("i_*", name="label")]},
            ValueError,
            "two tensors are called 'label': the column 'label' and fr.stack",
        ),
        ({"columns": 5}, TypeError, "columns"),
        ({"columns": [5]}, TypeError, "columns must hold names, patterns, .* found 5"),
        ({"stack": {"s": "i_*"}}, TypeError, r"no argument stack=: write columns=\[fr.stack\("),
        ({"columns": {"label": "y"}}, TypeError, "found a mapping: .*alias"),
        ({"on_iter": "again"}, ValueError, "on_iter must be 'continue' or 'restart', found 'again'"),
        ({"shuffle": 1}, TypeError, "shuffle must be True, False or fr.Shuffle"),
        ({"shuffle": True, "seed": -1}, ValueError, "seed must be at least 0, found -1"),
        ({"shuffle": True, "seed": 2**53}, ValueError, "seed must be below"),
        ({"shuffle": True, "seed": 1.0}, TypeError, "seed must be an integer, found 1.0"),
        ({"shuffle": True, "block_rows": 0}, ValueError, "block_rows must be at least 1, found 0"),
        ({"shuffle": True, "block_rows": 9, "window_rows": 8}, ValueError, "block_rows 9, window_rows 8"),
        ({"window_rows": 8}, ValueError, "write shuffle=fr.Shuffle"),
        ({"tail": "keep"}, ValueError, "tail must be 'drop' or 'short' or 'pad', found 'keep'"),
        ({"tail": ["drop"]}, ValueError, "tail must be"),
        ({"lanes": 0}, ValueError, "lanes must be at least 1, found 0"),
        ({"lanes": 4}, ValueError, "batch_size 2 is not a multiple of 4, .*the nearest: 4"),
        ({"lanes": 3, "groups": 2}, ValueError, "lanes 3 is not a multiple of 2.*the nearest: 2 and 4"),
        ({"lanes": 1, "groups": 2}, ValueError, "groups must be 1, found 2"),
        ({"groups": 2.0}, TypeError, "groups must be an integer, found 2.0"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, found 0"),
        ({"batch_size": -1}, ValueError, "batch_size must be at least 1, found -1"),
        ({"batch_size": 2.0}, TypeError, "batch_size must be an integer, found 2.0"),
        ({"batch_size": True}, TypeError, "batch_size must be an integer, found True"),
        ({"batch_size": "2"}, TypeError, "batch_size must be an integer, found '2'"),
        ({"global_batch_size": 4}, TypeError, "one of batch_size .* must be given, found both, 2 and 4"),
        ({"batch_size": 24}, ValueError, "no batch would come from 23 rows: a global batch has 24"),
        ({"batch_size": 2**60}, ValueError, "batch_size"),
        ({"rank": 1, "world_size": 1}, ValueError, "rank 1 is not in \\[0, 1\\)"),
        ({"rank": -1, "world_size": 1}, ValueError, "rank -1 is not in \\[0, 1\\)"),
        ({"rank": 0, "world_size": 0}, ValueError, "world_size must be at least 1, found 0"),
        ({"rank": 0}, TypeError, "rank and world_size come together"),
        ({"world_size": 2}, TypeError, "rank and world_size come together"),
        (
            {"rank": 0, "world_size": 1, "world": fr.World(0, 1)},
            TypeError,
            r"write world=\(rank, world_size\) alone",
        ),
        ({"world": 3}, TypeError, "world must be a World"),
        ({"rank": 0.5, "world_size": 2}, TypeError, "rank"),
        ({"rank": 0, "world_size": 2.0}, TypeError, "world_size"),
    ],
)
def test_what_is_asked_wrongly_is_refused_by_name(
    wide: Dataset, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fr.ParquetDataset(wide.directory, **{"batch_size": 2, **arguments})  # type: ignore[arg-type]


def test_arguments_after_the_first_are_given_by_name(wide: Dataset) -> None:
    with pytest.raises(TypeError):
        fr.ParquetDataset(wide.directory, 4)  # type: ignore[misc]


def test_columns_may_stand_in_another_order_in_another_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": [1.5, 2.5]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"b": [3.5], "a": [3]}), tmp_path / "1.parquet")
    (batch,) = one_rank(tmp_path, 3)
    assert batch["a"].tolist() == [1, 2, 3]
    assert batch["b"].tolist() == [1.5, 2.5, 3.5]
    assert list(batch) == ["a", "b"]


def test_columns_that_nobody_asked_for_may_differ_between_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"c": [[1]], "a": [3]}), tmp_path / "1.parquet")
    (batch,) = one_rank(tmp_path, 3, columns="a")
    assert batch["a"].tolist() == [1, 2, 3]
