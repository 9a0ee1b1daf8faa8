"""Rows that are not selected are not read: pages, row groups, gaps of any size."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import oracle
from support import thrift_writer as tw
from support.asked import asked
from support.each_of import each_of
from support.jobs import make, parallel, rows_delivered
from support.strategies import plain_spec
from support.thrift_writer import OneColumn, data_page, int64s
from support.topologies import Shuffle

PAGE_ROWS = 10


def pages_with_damage(path: Path, damaged: set[int], count: int = 12) -> Path:
    """Write a file of one column whose pages have ten rows each, and some of them no sense."""
    bodies = [gzip.compress(int64s(PAGE_ROWS, PAGE_ROWS * page)) for page in range(count)]
    pages = [
        data_page(b"\xff" * len(body) if page in damaged else body, PAGE_ROWS, uncompressed=8 * PAGE_ROWS)
        for page, body in enumerate(bodies)
    ]
    OneColumn(pages, PAGE_ROWS * count, codec=tw.GZIP).write(path)
    return path


@pytest.mark.parametrize("shuffle", [None, Shuffle(17, 8, 20)], ids=["sequential", "shuffled"])
def test_pages_without_a_selected_row_are_not_decompressed(path: Path, shuffle: Shuffle | None) -> None:
    """A page that can't be decompressed lies in nobody's way; one row of it is an error."""
    order = {} if shuffle is None else shuffle.arguments
    pages_with_damage(path, {0, 3, 4, 7, 11})
    rows = np.array([[12, 13], [28, 30], [50, 52], [65, 70], [85, 87], [109, 110]])
    dataset = fr.ParquetDataset(path, batch_size=2, rows=rows, tail="short", **order, **parallel())
    expected = oracle.positions_of(rows.tolist())
    for reader in (dataset, fr.Loader(dataset, threads=2)):
        assert sorted(rows_delivered(reader)) == expected
    for row in (0, 30, 49, 79, 119):
        touched = fr.ParquetDataset(path, batch_size=1, rows=[[row, row + 1]], **order, **parallel())
        with pytest.raises(fr.DataError, match="page"):
            next(iter(touched))


def test_what_is_known_to_be_bad_is_skipped(path: Path) -> None:
    pages_with_damage(path, {2, 9})
    with pytest.raises(fr.DataError):
        rows_delivered(fr.ParquetDataset(path, batch_size=5, **parallel()))
    dataset = fr.ParquetDataset(path, batch_size=5, rows=~fr.Intervals([[20, 30], [90, 100]]), **parallel())
    assert rows_delivered(dataset) == [*range(20), *range(30, 90), *range(100, 120)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """5000 rows in two row groups of many pages, and their values; every seventh float is null."""
    path = tmp_path_factory.mktemp("many") / "x.parquet"
    rows = np.arange(5000)
    missing = rows % 7 == 3
    columns = {"row": rows, "a": rows % 11, "f": pa.array(rows / 8, pa.float32(), mask=missing)}
    pq.write_table(pa.table(columns), path, row_group_size=3000, max_rows_per_page=200, write_batch_size=100)
    return path, {"row": rows, "a": rows % 11, "f": np.where(missing, 0, rows / 8), "f_valid": ~missing}


@each_of("stack", [{}, {"both": ["row", "a"]}])
@each_of("shuffle", [None, Shuffle(17, 700, 1500)])
@each_of(
    "rows",
    [
        [[5, 6], [7, 9], [71, 74], [200, 300], [900, 901], [2998, 3001], [4999, 5000]],
        [[start, start + 1] for start in range(0, 5000, 2)],
        [[start, start + 1] for start in range(0, 5000, 64)],
        [[start, start + 2] for start in range(17, 4900, 65)],
        [[start, start + 1] for start in range(3, 4900, 66)],
        [[0, 1000], [1003, 5000]],
    ],
)
def test_rows_with_gaps_of_any_size(
    many: tuple[Path, dict[str, np.ndarray]], rows: Any, shuffle: Shuffle | None, stack: Any
) -> None:
    """Small gaps are decoded along with the rows, large ones are passed over: one cannot tell."""
    path, values = many
    how = {**asked("mask", stack), **({} if shuffle is None else shuffle.arguments), **parallel()}
    for batch_size in (64, 999):
        dataset = fr.ParquetDataset(path, batch_size=batch_size, rows=rows, tail="pad", **how)
        assert sorted(rows_delivered(dataset)) == oracle.positions_of(rows)
        for batch in fr.Loader(dataset, threads=2):
            found = {name: tensor.numpy() for name, tensor in batch.items()}
            if stack:
                found["row"], found["a"] = found.pop("both").T
                del found["both_valid"]
            assert {name: found[name].tolist() for name in sorted(values)} == {
                name: values[name][batch.rows()].tolist() for name in sorted(values)
            }


@pytest.mark.parametrize("shuffle", [None, Shuffle(17, 700, 1500)], ids=["sequential", "shuffled"])
def test_a_null_between_selected_rows_is_no_error(
    many: tuple[Path, dict[str, np.ndarray]], shuffle: Shuffle | None
) -> None:
    """Nothing is asked of rows beside the selected ones; of those that are selected each null is named."""
    path, values = many
    order = {} if shuffle is None else shuffle.arguments
    dataset = fr.ParquetDataset(path, batch_size=50, rows=values["f_valid"], **order, **parallel())
    for batch in dataset:
        assert batch["f"].tolist() == values["f"][batch.rows()].tolist()
    mask = values["f_valid"].copy()
    mask[4805] = True
    assert 4805 % 7 == 3
    with pytest.raises(fr.DataError, match=r"footers count \d+ nulls among \d+ values.*column 'f'"):
        rows_delivered(fr.ParquetDataset(path, batch_size=50, rows=mask, **order, **parallel()))


def test_row_groups_without_a_selected_row_are_not_read(tmp_path: Path) -> None:
    files = plain_spec([50, 50], [50]).write(tmp_path)
    rows = [[60, 70], [90, 100]]
    dataset = make(files, 10, rows=rows)
    files.files[1].unlink()
    assert rows_delivered(dataset) == oracle.positions_of(rows)
