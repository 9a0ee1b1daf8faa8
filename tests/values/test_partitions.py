"""Columns whose values stand in the paths of files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.topologies import Shuffle

ORDERS = ({}, Shuffle(3, 4, 9).arguments)
FILES = ("region=eu/day=7/a", "region=eu/day=-12/b", "region=us%2Fwest/day=007/c", "region=é ü/day=0/d")


def write(directory: Path, *names: str, **columns: Any) -> Path:
    """Write a file of 5 rows under each name; return the directory."""
    for place, name in enumerate(sorted(names, key=str.encode)):
        path = directory / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"row": range(place * 5, place * 5 + 5), **columns}), path, row_group_size=2)
    return directory


def read(directory: Path, name: str, **arguments: Any) -> list[Any]:
    """A column's rows by their numbers."""
    found: dict[int, Any] = {}
    for batch in fr.ParquetDataset(directory, batch_size=3, tail="short", **arguments):
        value = batch[name]
        rows = value.tolist() if isinstance(value, torch.Tensor) else value.to_strings()
        found.update(zip(batch["row"].tolist(), rows, strict=True))  # type: ignore[union-attr]
    return [found[row] for row in sorted(found)]


@pytest.mark.parametrize("order", ORDERS, ids=["sequential", "shuffled"])
def test_integers_are_int64_and_all_else_is_text(tmp_path: Path, order: dict[str, Any]) -> None:
    write(tmp_path, *FILES)
    days = [-12] * 5 + [7] * 5 + [7] * 5 + [0] * 5
    regions = ["eu"] * 10 + ["us/west"] * 5 + ["é ü"] * 5
    both = {**order, "columns": ["*", fr.col("region").from_path(), fr.col("day").from_path()]}
    assert read(tmp_path, "day", **both) == days
    assert read(tmp_path, "region", **both) == regions
    assert read(tmp_path, "day", columns=["*", fr.col("day").from_path()], **order) == days
    schema = fr.ParquetDataset(
        tmp_path, batch_size=1, columns=["*", fr.col("region").from_path(), fr.col("day").from_path()]
    ).schema
    assert repr(schema) == "row: int64 [B]\nregion: uint8 [B, *] string\nday: int64 [B]"


def test_a_partition_is_a_column_like_others(tmp_path: Path) -> None:
    write(tmp_path, *FILES)
    region, day = fr.col("region").from_path(), fr.col("day").from_path()
    columns = [region, fr.stack(day, "row", name="m")]
    dataset = fr.ParquetDataset(tmp_path, batch_size=4, columns=columns, nulls="mask")
    assert list(dataset.schema) == ["region", "m", "m_valid"]
    (first, *_) = pickle.loads(pickle.dumps(dataset))
    assert first["m"].tolist() == [[-12, row] for row in range(4)]
    assert first["m_valid"].all()
    assert fr.ParquetDataset(tmp_path, batch_size=4, columns=["row", fr.col("day").from_path()]).schema["row"]
    chosen = dataset.read_rows([19, 0, 12])
    assert chosen["region"].to_strings() == ["é ü", "eu", "us/west"]  # type: ignore[union-attr]


def test_the_innermost_directory_counts_and_the_file_s_name_does_not(tmp_path: Path) -> None:
    write(tmp_path, "day=1/x=2/day=3/day=9", "day=4/day=5/x")
    assert read(tmp_path, "day", columns=["*", fr.col("day").from_path()]) == [3] * 5 + [5] * 5


def test_a_directory_that_is_named_alone_has_its_value(tmp_path: Path) -> None:
    write(tmp_path, *FILES)
    assert read(tmp_path / "region=eu/day=7", "day", columns=["*", fr.col("day").from_path()]) == [7] * 5


def test_what_writers_call_a_null_is_one(tmp_path: Path) -> None:
    write(tmp_path, "day=__HIVE_DEFAULT_PARTITION__/a", "day=3/b")
    for order in ORDERS:
        assert (
            read(tmp_path, "day", columns=["*", fr.col("day").from_path().fill_null(-1)], **order)
            == [3] * 5 + [-1] * 5
        )
        assert (
            read(tmp_path, "day_valid", nulls="mask", columns=["*", fr.col("day").from_path()], **order)
            == [True] * 5 + [False] * 5
        )


def test_a_path_of_a_null_is_refused_at_once_where_nothing_is_said_of_nulls(tmp_path: Path) -> None:
    """But not if no row of its file is selected."""
    write(tmp_path, "day=__HIVE_DEFAULT_PARTITION__/a", "day=3/b", "x/c")
    how: dict[str, Any] = {"columns": ["*", fr.col("day").from_path().optional()]}
    for rows, file in (([[0, 10]], "a"), ([[9, 10]], "a"), ([[4, 5], [10, 11]], "c")):
        with pytest.raises(
            fr.DataError, match=r"all of it is null, as of one .* in the file's path"
        ) as caught:
            fr.ParquetDataset(tmp_path, batch_size=1, rows=rows, **how)
        assert "column 'day'" in str(caught.value)
        assert f"/{file}.parquet" in str(caught.value)
    assert read(tmp_path, "day", rows=[[0, 5]], **how) == [3] * 5
    assert read(tmp_path, "day", filter=fr.col("day").is_valid(), **how) == [3] * 5


def test_paths_may_lack_an_optional_partition(tmp_path: Path) -> None:
    write(tmp_path, "a", "region=eu/b")
    with pytest.raises(fr.DataError, match=r"the path has no directory 'region=...'") as caught:
        read(tmp_path, "region", columns=["*", fr.col("region").from_path()])
    assert str(tmp_path / "a.parquet") in str(caught.value)
    region = fr.col("region").from_path().optional().fill_null("")
    assert read(tmp_path, "region", columns=["row", region]) == [""] * 5 + ["eu"] * 5


def test_a_partition_that_is_none_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "region=eu/b", c=[1] * 5)
    with pytest.raises(ValueError, match=r"no path has a directory 'day=...'"):
        read(tmp_path, "region", columns=["*", fr.col("day").from_path().optional()])
    # The name of a column of the files may stand in their paths, too.
    write(tmp_path, "c=2/region=eu/b", c=[1] * 5)
    columns = ["*", fr.col("c").from_path().alias("of path")]
    assert read(tmp_path / "c=2", "c", columns=columns) == [1] * 5
    assert read(tmp_path / "c=2", "of path", columns=columns) == [2] * 5


def test_a_state_knows_nothing_of_partitions(tmp_path: Path) -> None:
    write(tmp_path, *FILES)
    dataset = fr.ParquetDataset(tmp_path, batch_size=3, columns=["*", fr.col("day").from_path()])
    state = next(iter(dataset)).state_dict()
    other = fr.ParquetDataset(tmp_path, batch_size=3, columns=["*", fr.col("region").from_path()])
    other.load_state_dict(state)
    assert next(iter(other))["row"].tolist() == [3, 4, 5]
