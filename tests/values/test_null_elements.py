"""Null elements of lists are masked where null rows are: `Jagged.values_valid`, `name + "_values_valid"`."""

from __future__ import annotations

import pickle
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
from support.each_of import each_of

INT32 = pa.int32()

elements = st.one_of(st.none(), st.integers(-99, 99))


def opened(path: Path, **how: Any) -> fr.ParquetDataset:
    how = {"batch_size": 7, "tail": "short", "nulls": "mask", "rank": 0, "world_size": 1, **how}
    return fr.ParquetDataset(path, **how)


def write(path: Path, rows: list[Any], kind: pa.DataType = INT32, **how: Any) -> Path:
    table = pa.table({"row": np.arange(len(rows)), "x": pa.array(rows, pa.list_(kind))})
    pq.write_table(table, path, **how)
    return path


def read(dataset: fr.ParquetDataset | fr.Loader) -> dict[int, list[int | None] | None]:
    return {
        int(row): cell
        for batch in dataset
        for row, cell in zip(batch["row"].tolist(), batch["x"].to_list(), strict=True)
    }


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_hands_the_marks_over(tmp_path: Path, workers: int) -> None:
    rows = [[row, None, row] if row % 3 else [None] for row in range(100)]
    path = write(tmp_path / "x.parquet", rows, row_group_size=30)
    with fr.Loader(opened(path), num_workers=workers) as loader:
        assert read(loader) == dict(enumerate(rows))


def test_files_that_lack_the_column_have_no_elements(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [[1, None], [2]])
    pq.write_table(pa.table({"row": [2, 3]}), tmp_path / "b.parquet")
    dataset = opened(tmp_path, columns=["row", fr.col("x").optional().mask_null()], batch_size=4)
    (batch,) = dataset
    assert batch["x"].to_list() == [[1, None], [2], None, None]
    assert batch["x"].values_valid.tolist() == [True, False, True]


def test_elements_are_filled_or_refused_as_before(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [[1, None], [2]])
    (batch,) = opened(path, columns=[fr.col("x").fill_null(7)])
    assert batch["x"].to_list() == [[1, 7], [2]]
    assert batch["x"].values_valid is None
    with pytest.raises(fr.DataError, match=r"a list, or an element of one, is null"):
        opened(path, nulls="error")


def test_the_schema_says_whether_elements_are_marked(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", [[1, None], [2]])
    assert opened(path).schema["x"].marks_values
    assert not opened(path, columns=[fr.col("x").fill_null(0)]).schema["x"].marks_values


def test_the_elements_of_texts_and_stacks_have_no_mask(tmp_path: Path) -> None:
    table = pa.table({"t": ["a", None], "a": [1, None], "b": [None, 2], "l": [["a"], None]})
    pq.write_table(table, tmp_path / "x.parquet")
    columns = [fr.col("t").pad(2), fr.stack("a", "b", name="m"), "l"]
    keys = list(opened(tmp_path, columns=columns).schema)
    assert keys == ["t", "t_valid", "t_length", "m", "m_valid", "l"]


@given(data=st.data(), shuffle=st.booleans())
def test_a_jagged_of_lists_of_one_length_marks_each_of_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, shuffle: bool
) -> None:
    inner = data.draw(st.sampled_from([(2,), (1,), (2, 3)]))
    one: st.SearchStrategy[Any] = elements
    for size in reversed(inner):
        one = st.lists(one, min_size=size, max_size=size)
    rows = data.draw(st.lists(st.none() | st.lists(one, max_size=4), min_size=1, max_size=40))
    kind: pa.DataType = INT32
    is_said = data.draw(st.booleans())
    for size in reversed(inner):
        kind = pa.list_(kind, size) if is_said else pa.list_(kind)
    how = {"data_page_size": data.draw(st.sampled_from([1, 64, 1 << 20])), "write_batch_size": 3}
    path = tmp_path_factory.mktemp("inner") / "x.parquet"
    write(path, rows, kind, row_group_size=data.draw(st.integers(1, 40)), **how)
    order: dict[str, Any] = {"shuffle": True, "block_rows": 5, "window_rows": 15} if shuffle else {}
    dataset = opened(path, columns=["row", fr.col("x").fixed((None, *inner)).mask_null()], **order)
    assert dataset.schema["x"].mark_shape == inner
    with fr.Loader(dataset, threads=2) as loader:
        assert read(loader) == dict(enumerate(rows))
    for batch in dataset:
        jagged = batch["x"]
        assert jagged.values_valid.shape == jagged.values.shape
        assert not jagged.values[~jagged.values_valid].any()
        assert jagged.to_arrow().to_pylist() == jagged.to_list()
        places = torch.arange(len(jagged)).flip(0)
        assert jagged.take(places).to_list() == jagged.to_list()[::-1]
        assert jagged[1:].to_list() == jagged.to_list()[1:]
    numbers = data.draw(st.permutations(range(len(rows))))[:9]
    assert dataset.read_rows(numbers)["x"].to_list() == [rows[number] for number in numbers]


@pytest.mark.parametrize("shuffle", [False, True])
def test_marks_of_lists_of_one_length_are_put_together_from_several_chunks(
    tmp_path: Path, shuffle: bool
) -> None:
    rows = [[[n, None], [None, -n]][: n % 3] for n in range(40)]
    path = write(tmp_path / "x.parquet", rows, pa.list_(INT32), row_group_size=9)
    columns = ["row", fr.col("x").fixed((None, 2)).mask_null()]
    sources = {
        name: (fr.ParquetDataset(path, columns=columns, shuffle=shuffle, nulls="mask"), 1) for name in "ab"
    }
    found = [
        (int(row), cell)
        for batch in fr.Mixture(sources, batch_size=8)
        for row, cell in zip(batch["row"].tolist(), batch["x"].to_list(), strict=True)
    ]
    assert len(found) == 80
    assert all(cell == rows[row] for row, cell in found)


def test_numbers_in_lists_of_one_length_are_filled_refused_or_padded(tmp_path: Path) -> None:
    rows = [[[1, None], [2, 3]], [[4, 5]]]
    write(tmp_path / "x.parquet", rows, pa.list_(INT32))
    inner = fr.col("x").fixed((None, 2))
    with pytest.raises(fr.DataError, match=r"a list, or an element of one, is null; \.mask_null\(\)"):
        opened(tmp_path, columns=inner, nulls="error")
    filled = next(iter(opened(tmp_path, columns=inner.fill_null(9))))["x"]
    assert filled.values.tolist() == [[1, 9], [2, 3], [4, 5]]
    padded = next(iter(opened(tmp_path, columns=inner.mask_null().pad(2))))
    assert padded["x"].tolist() == [[[1, 0], [2, 3]], [[4, 5], [0, 0]]]
    assert padded["x_values_valid"].tolist() == [
        [[True, False], [True, True]],
        [[True, True], [False, False]],
    ]


RARE: list[Any] = [[row] * (row % 4) for row in range(200)]
"""Lists of which few batches have a null element."""
RARE[57], RARE[141] = [1, None, 3], [None]


@each_of(
    "how",
    [
        {},
        {"shuffle": True, "block_rows": 4, "window_rows": 60},
        {"tail": "pad", "batch_size": 48},
        {"tail": "pad", "batch_size": 48, "shuffle": True},
        {"rows": [[0, 30], [50, 58], [140, 190]]},
    ],
)
@each_of("workers", [None, 0, 1])
def test_marks_are_whole_where_few_elements_are_null(
    tmp_path: Path, how: dict[str, Any], workers: int | None
) -> None:
    dataset = opened(write(tmp_path / "x.parquet", RARE, row_group_size=25, data_page_size=64), **how)
    alone = 0
    with fr.Loader(dataset, num_workers=workers or 0) as loader:
        for batch in dataset if workers is None else loader:
            rows = batch["row"].tolist()
            found = batch["x"]
            assert found.to_list() == [RARE[row] for row in rows]
            assert found.values_valid.tolist() == [each is not None for row in rows for each in RARE[row]]
            alone += found.values_valid.untyped_storage().nbytes() == 1
    assert alone > 0 or workers == 1, "a batch without null elements has one mark for all of them"
    for one in (
        found.clone(),
        found.to("cpu"),
        pickle.loads(pickle.dumps(found)),
        found[1:],
        found.take(torch.tensor([0])),
    ):
        assert len(one.values_valid) == len(one.values)
    picked = dataset.read_rows([58, 57, 3, 57])["x"]
    assert picked.to_list() == [RARE[58], RARE[57], RARE[3], RARE[57]]


def test_marks_of_mixed_sources_are_those_of_each(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    write(tmp_path / "a" / "x.parquet", RARE)
    write(tmp_path / "b" / "x.parquet", [[5, 5]] * 200)
    sources = {name: (fr.ParquetDataset(tmp_path / name, nulls="mask"), 1) for name in "ab"}
    for batch in fr.Mixture(sources, batch_size=8, world=(0, 1)):
        numbered = zip(batch.source.tolist(), batch.rows().tolist(), strict=True)
        assert batch["x"].to_list() == [[5, 5] if source else RARE[row] for source, row in numbered]
