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
from support.each_of import each_of
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


def open_dataset(path: Path, columns: Any, **arguments: Any) -> fr.ParquetDataset:
    """The dataset of a file, in one batch, with nulls masked."""
    return fr.ParquetDataset(path, columns=columns, **{"batch_size": 4, "nulls": "mask", **arguments})


def named(**names: str) -> list[fr.Column]:
    """Columns by new names."""
    return [fr.col(old).alias(new) for new, old in names.items()]


def test_tensors_masks_and_matrices_have_their_new_names(path: Path) -> None:
    dataset = open_dataset(
        path,
        [*named(A="a", text="t", member="s.m"), fr.stack("b", name="dense")],
    )
    assert list(dataset.schema) == ["A", "A_valid", "text", "member", "member_valid", "dense", "dense_valid"]
    assert dataset.schema["A"].columns == ("a",)
    batch = next(iter(dataset))
    assert list(batch) == list(dataset.schema)
    assert (batch["A"].tolist(), batch["A_valid"].tolist()) == ([1, 0, 3, 4], [True, False, True, True])
    assert batch["text"].to_strings() == ["x", None, "z", ""]  # type: ignore[union-attr]
    assert batch.to_arrow().column("A").to_pylist() == [1, None, 3, 4]
    assert list(dataset.read_rows([2])) == list(dataset.batch_at(0, 0)) == list(batch)


@pytest.mark.filterwarnings("ignore:.*footers show:UserWarning")
def test_lengths_follow_the_name_of_what_is_padded(path: Path) -> None:
    pq.write_table(pa.table({"l": pa.array([[1], [2, 3], None, [300]]), "a": pa.array(range(4))}), path)
    padded = fr.col("l").cast(torch.float16).pad(2)
    batch = next(iter(open_dataset(path, [padded.alias("L"), "a"])))
    assert list(batch) == ["L", "L_valid", "L_length", "L_values_valid", "a", "a_valid"]
    assert batch["L"].tolist() == [[1.0, 0.0], [2.0, 3.0], [0.0, 0.0], [300.0, 0.0]]
    assert batch["L_length"].tolist() == [1, 2, 0, 1]
    hashed = next(iter(open_dataset(path, fr.col("l").hash(10).pad(2, -1).alias("h"))))
    buckets = [oracle.bucket(item, 10) for item in (1, 2, 3, 300)]
    assert hashed["h"].tolist() == [[buckets[0], -1], buckets[1:3], [-1, -1], [buckets[3], -1]]
    assert hashed["h_length"].tolist() == [1, 2, 0, 1]
    with pytest.raises(ValueError, match=r"two tensors are called 'x_length'"):
        open_dataset(path, [padded.alias("x"), fr.col("a").alias("x_length")])
    with pytest.raises(fr.DataError, match="row 3 of the row group holds 300, which does not fit int8"):
        list(open_dataset(path, fr.col("l").cast(torch.int8).pad(2)))


def test_names_may_change_places(path: Path) -> None:
    batch = next(iter(open_dataset(path, named(b="a", a="b"))))
    assert (batch["b"].tolist(), batch["a"].tolist()) == ([1, 0, 3, 4], [0.5, 1.5, 2.5, 3.5])
    assert list(batch) == ["b", "b_valid", "a", "a_valid"]


def test_a_column_may_be_delivered_more_than_once_under_several_names(path: Path) -> None:
    columns = ["a", fr.col("a").hash(10).alias("bucket"), fr.col("a").cast(torch.float32).alias("x")]
    dataset = open_dataset(path, columns)
    batch = next(iter(dataset))
    assert list(batch) == ["a", "a_valid", "bucket", "bucket_valid", "x", "x_valid"]
    assert batch["a"].tolist() == [1, 0, 3, 4]
    assert batch["bucket"].tolist() == [oracle.bucket(n, 10) if n else 0 for n in (1, None, 3, 4)]
    assert (batch["x"].dtype, batch["x"].tolist()) == (torch.float32, [1.0, 0.0, 3.0, 4.0])
    assert dataset.schema["bucket"].expression == "fr.col('a').hash(10).alias('bucket')"
    twice = next(iter(open_dataset(path, fr.stack("a", fr.col("a").clip(high=3), name="m"))))
    assert twice["m"].tolist() == [[1, 1], [0, 0], [3, 3], [4, 3]]


def test_all_other_arguments_speak_of_the_columns_in_the_files(path: Path) -> None:
    dataset = open_dataset(
        path,
        [
            fr.col("a").fill_null(-1).alias("b"),
            fr.col("b").cast(torch.float16).fill_null(0).alias("a"),
            fr.col("t").hash(10).fill_null(7).alias("user"),
        ],
        filter=fr.col("a").is_null() | (fr.col("b") > 3),
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


@each_of(
    ("columns", "message"),
    [
        ([*named(x="a"), fr.col("b").alias("x")], "'x': fr.col.'a'..alias.'x'. and fr.col.'b'..alias.'x'.;"),
        (["*", fr.stack("a", name="b")], "'b': the column 'b' and fr.stack"),
        ([fr.stack("a", name="m"), fr.stack("b", name="m")], "'m': fr.stack.* and fr.stack"),
        (["a", fr.col("t").alias("a_valid")], "'a_valid': a mask"),
        (
            [fr.col("a").hash(3), fr.col("a").hash(4)],
            r"'a': fr.col\('a'\).hash\(3\) and fr.col\('a'\).hash\(4\)",
        ),
        ([fr.col("a", "b").alias("x")], r"means 2 columns \(a, b\), which can't all be called 'x'"),
    ],
)
def test_names_that_clash_are_refused(tmp_path: Path, columns: Any, message: str) -> None:
    table = {name: pa.array([1]) for name in ("a", "b", "t", "c")}
    pq.write_table(pa.table(table), tmp_path / "y.parquet")
    with pytest.raises(ValueError, match=message):
        open_dataset(tmp_path / "y.parquet", columns, batch_size=1)


def test_a_name_is_a_text_that_is_said_once() -> None:
    for name, error in (("", ValueError), (1, TypeError)):
        with pytest.raises(error, match=r"fr.col\('a'\).alias"):
            fr.col("a").alias(name)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="said already"):
        fr.col("a").alias("b").alias("c")


@pytest.mark.processes
def test_names_go_along_to_workers_and_into_pickles(path: Path) -> None:
    dataset = pickle.loads(pickle.dumps(open_dataset(path, ["b", *named(A="a")], batch_size=2)))
    assert list(next(iter(data_loader(dataset, 1)))) == list(dataset.schema)
    assert "A_valid" in dataset.schema


def test_a_state_goes_on_under_other_names(path: Path) -> None:
    state = next(iter(open_dataset(path, ["b", *named(A="a")], batch_size=2))).state_dict()
    dataset = open_dataset(path, named(B="b"), batch_size=2)
    dataset.load_state_dict(state)
    assert next(iter(dataset))["B"].tolist() == [2.5, 3.5]


def test_a_column_that_is_called_as_lengths_are_has_a_name_of_its_own(path: Path) -> None:
    table = pa.table({"l": [[1, 2], []], "l_length": [2, 0]})
    pq.write_table(table, path)
    padded = fr.col("l").pad(3)
    for columns, expected in (
        (
            [padded.alias("q"), "l_length"],
            {"q": [[1, 2, 0], [0, 0, 0]], "q_length": [2, 0], "l_length": [2, 0]},
        ),
        (
            [padded, fr.col("l_length").alias("n")],
            {"l": [[1, 2, 0], [0, 0, 0]], "l_length": [2, 0], "n": [2, 0]},
        ),
    ):
        batch = next(iter(fr.ParquetDataset(path, batch_size=2, columns=columns)))
        assert {name: value.tolist() for name, value in batch.items()} == expected
    with pytest.raises(ValueError, match="two tensors are called 'l_length'"):
        fr.ParquetDataset(path, batch_size=2, columns=["*", padded])


@pytest.mark.parametrize("turn", [1, -1])
def test_an_alias_takes_no_name_of_a_column_that_is_delivered(tmp_path: Path, turn: int) -> None:
    """The column of that name was silently not delivered."""
    pq.write_table(pa.table({"a": [1] * 4, "b": [2] * 4}), tmp_path / "x.parquet")
    for other in ("a", "*"):
        with pytest.raises(ValueError, match=r"two tensors are called 'a'.*fr.col\('b'\).alias\('a'\)"):
            open_dataset(tmp_path, [other, fr.col("b").alias("a")][::turn])
    swapped = open_dataset(tmp_path, [fr.col("b").alias("a"), fr.col("a").alias("b")])
    assert swapped.peek()["a"].tolist() == [2] * 4
