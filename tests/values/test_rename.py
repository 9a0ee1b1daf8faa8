"""New names of tensors: those of the batch alone, while arguments speak of the files' columns."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support import oracle
from support.jobs import data_loader


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of columns of several kinds, with nulls."""
    columns = {
        "a": pa.array([1, None, 3, 4]),
        "b": pa.array([0.5, 1.5, 2.5, 3.5]),
        "t": pa.array(["x", None, "z", ""]),
        "s": pa.array([{"m": 1}, None, {"m": None}, {"m": 4}]),
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


def open_dataset(path: Path, rename: Any, **arguments: Any) -> fr.ParquetDataset:
    """The dataset of a file, in one batch, with nulls masked."""
    return fr.ParquetDataset(path, rename=rename, **{"batch_size": 4, "nulls": "mask", **arguments})


def test_tensors_masks_and_matrices_have_their_new_names(path: Path) -> None:
    dataset = open_dataset(path, {"a": "A", "t": "text", "m": "dense", "s.m": "member"}, stack={"m": "b"})
    assert list(dataset.schema) == ["A", "A_valid", "text", "member", "member_valid", "dense", "dense_valid"]
    assert dataset.schema["A"].columns == ("a",)
    batch = next(iter(dataset))
    assert list(batch) == list(dataset.schema)
    assert (batch["A"].tolist(), batch["A_valid"].tolist()) == ([1, 0, 3, 4], [True, False, True, True])
    assert batch["text"].to_strings() == ["x", None, "z", ""]  # type: ignore[union-attr]
    assert batch.to_arrow().column("A").to_pylist() == [1, None, 3, 4]
    assert list(dataset.read_rows([2])) == list(dataset.batch_at(0, 0)) == list(batch)


def test_lengths_follow_the_name_of_what_is_padded_and_can_have_another(path: Path) -> None:
    pq.write_table(pa.table({"l": pa.array([[1], [2, 3], None, [300]]), "a": pa.array(range(4))}), path)
    how = {"pad": {"l": 2}, "cast": {"l": torch.float16}}
    batch = next(iter(open_dataset(path, {"l": "L"}, **how)))
    assert list(batch) == ["L", "L_valid", "L_length", "a", "a_valid"]
    assert batch["L"].tolist() == [[1.0, 0.0], [2.0, 3.0], [0.0, 0.0], [300.0, 0.0]]
    assert batch["L_length"].tolist() == [1, 2, 0, 1]
    hashed = next(iter(open_dataset(path, {"l_length": "n"}, pad={"l": fr.Pad(2, -1)}, hash={"l": 10})))
    buckets = [oracle.bucket(item, 10) for item in (1, 2, 3, 300)]
    assert hashed["l"].tolist() == [[buckets[0], -1], buckets[1:3], [-1, -1], [buckets[3], -1]]
    assert hashed["n"].tolist() == [1, 2, 0, 1]
    with pytest.raises(ValueError, match=r"'x_length' .*: the length 'l_length' and the column 'a'"):
        open_dataset(path, {"l": "x", "a": "x_length"}, **how)
    with pytest.raises(fr.DataError, match="row 3 of the row group holds 300, which does not fit int8"):
        list(open_dataset(path, {}, pad={"l": 2}, cast={"l": torch.int8}))


def test_names_may_change_places(path: Path) -> None:
    batch = next(iter(open_dataset(path, {"a": "b", "b": "a"}, columns=["a", "b"])))
    assert (batch["b"].tolist(), batch["a"].tolist()) == ([1, 0, 3, 4], [0.5, 1.5, 2.5, 3.5])
    assert list(batch) == ["b", "b_valid", "a", "a_valid"]


def test_the_mask_of_a_struct_is_a_tensor_that_has_a_name(path: Path) -> None:
    how = {"columns": "s", "nulls": {"s": "mask"}}
    assert list(open_dataset(path, {"s_valid": "there"}, **how).schema) == ["s.m", "s.m_valid", "there"]


def test_all_other_arguments_speak_of_the_columns_in_the_files(path: Path) -> None:
    dataset = open_dataset(
        path,
        {"a": "b", "b": "a", "t": "user"},
        columns=["a", "b", "t"],
        nulls={"a": -1, "t": 7},
        cast={"b": torch.float16},
        hash={"t": 10},
        filter=fr.column("a").is_null() | (fr.column("b") > 3),
        batch_size=2,
    )
    assert {name: field.dtype for name, field in dataset.schema.items()} == {
        "b": torch.int64,
        "a": torch.float16,
        "user": torch.int64,
    }
    batch = next(iter(dataset))
    assert (batch["b"].tolist(), batch["a"].tolist()) == ([-1, 4], [1.5, 3.5])
    assert batch["user"].tolist() == [7, oracle.bucket(b"", 10)]
    with pytest.raises(fr.DataError, match="no column matches 'A' of cast"):
        open_dataset(path, {"a": "A"}, cast={"A": torch.int8})


@pytest.mark.parametrize(
    ("rename", "error", "message"),
    [
        ({"a": "b"}, ValueError, "'b' stands for two tensors: the column 'a' and the column 'b'"),
        ({"a": "x", "b": "x"}, ValueError, "'x' stands for two tensors: the column 'a' and the column 'b'"),
        ({"t": "m"}, ValueError, "'m' stands for two tensors: the column 't' and the stack 'm'"),
        ({"t": "a_valid"}, ValueError, "'a_valid' .*: the column 't' and the mask of 'a'"),
        ({"a": "q", "m": "q_valid"}, ValueError, "'q_valid' .*: the stack 'm' and the mask of 'a'"),
        ({"nope": "x"}, fr.DataError, "no column matches 'nope' of rename; there are: a, b, t"),
        ({"c": "x"}, ValueError, "rename names the column 'c', which is in the stack 'm'"),
        ({"a": ""}, ValueError, "rename gives 'a' an empty name"),
        ({"a_valid": "x"}, fr.DataError, "no column matches 'a_valid' of rename"),
        ({"a": 1}, TypeError, "rename must hold strings, found 1"),
        ({1: "a"}, TypeError, "rename must hold strings, found 1"),
        (["a"], TypeError, r"rename must be a mapping of names to names, found \['a'\]"),
    ],
)
def test_names_that_clash_or_mean_nothing_are_refused(
    tmp_path: Path, rename: Any, error: Any, message: str
) -> None:
    columns = {name: pa.array([1]) for name in ("a", "b", "t", "c")}
    pq.write_table(pa.table(columns), tmp_path / "y.parquet")
    with pytest.raises(error, match=message):
        open_dataset(tmp_path / "y.parquet", rename, batch_size=1, stack={"m": "c"})


@pytest.mark.processes
def test_names_go_along_to_workers_and_into_pickles(path: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(path, {"a": "A"}, batch_size=2)))
    assert list(next(iter(data_loader(dataset, 1)))) == list(dataset.schema)
    assert "A_valid" in dataset.schema


def test_a_state_goes_on_under_other_names(path: Path) -> None:
    state = next(iter(open_dataset(path, {"a": "A"}, batch_size=2))).state_dict()
    dataset = open_dataset(path, {"b": "B"}, batch_size=2)
    dataset.load_state_dict(state)
    assert next(iter(dataset))["B"].tolist() == [2.5, 3.5]


def test_a_column_that_is_called_as_lengths_are_has_a_name_of_its_own(path: Path) -> None:
    table = pa.table({"l": [[1, 2], []], "l_length": [2, 0]})
    pq.write_table(table, path)
    for names, expected in (
        ({"l": "q"}, {"q": [[1, 2, 0], [0, 0, 0]], "q_length": [2, 0], "l_length": [2, 0]}),
        ({"l_length": "n"}, {"l": [[1, 2, 0], [0, 0, 0]], "l_length": [2, 0], "n": [2, 0]}),
    ):
        batch = next(iter(fr.ParquetDataset(path, batch_size=2, rename=names, pad={"l": 3})))
        assert {name: value.tolist() for name, value in batch.items()} == expected
    with pytest.raises(ValueError, match="the name 'l_length' stands for two tensors"):
        fr.ParquetDataset(path, batch_size=2, pad={"l": 3})
