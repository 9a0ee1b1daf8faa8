"""Lists of lists and lists of strings: two levels of offsets, each with its mask."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume import testing
from support.each_of import each_of
from support.topologies import Shuffle

GRID: list[Any] = [[[1, 2], []], [], None, [None, [3]], [[], [4, 5, 6], None]]
WORDS: list[Any] = [["a", ""], [], None, [None, "bc"], ["", "déf", None]]


def dataset_of(path: Path, rows: list[Any], type_: pa.DataType, **arguments: Any) -> fr.ParquetDataset:
    pq.write_table(pa.table({"x": pa.array(rows, type_)}), path)
    return fr.ParquetDataset(path, **{"batch_size": len(rows), **arguments})


def batch_of(path: Path, rows: list[Any], type_: pa.DataType, **arguments: Any) -> Any:
    (batch,) = dataset_of(path, rows, type_, **arguments)
    return batch["x"]


LISTS = pa.list_(pa.list_(pa.int64()))
TEXTS = pa.list_(pa.string())


# ------------------------------------------------------------------------------------------ what is delivered


def test_a_mask_tells_null_and_empty_apart_at_both_levels(path: Path) -> None:
    grid = batch_of(path, GRID, LISTS, nulls="mask")
    assert grid.offsets.tolist() == [0, 2, 2, 2, 4, 7]
    assert grid.valid.tolist() == [True, True, False, True, True]
    assert grid.values.offsets.tolist() == [0, 2, 2, 2, 3, 3, 6, 6]
    assert grid.values.valid.tolist() == [True, True, False, True, True, True, False]
    assert grid.values.values.tolist() == [1, 2, 3, 4, 5, 6]
    assert grid.to_list() == GRID
    words = batch_of(path, WORDS, TEXTS, nulls="mask")
    assert words.valid.tolist() == [True, True, False, True, True]
    assert words.values.valid.tolist() == [True, True, False, True, True, True, False]
    assert words.to_strings() == WORDS
    assert words.to_bytes()[4] == [b"", "déf".encode(), None]


def test_a_fill_makes_null_rows_empty_at_both_levels_and_stands_for_null_numbers(path: Path) -> None:
    grid = batch_of(path, [*GRID, [[None, 7]]], LISTS, columns=fr.col("*").fill_null(9))
    assert (grid.valid, grid.values.valid) == (None, None)
    assert grid.to_list() == [[[1, 2], []], [], [], [[], [3]], [[], [4, 5, 6], []], [[9, 7]]]
    words = batch_of(path, WORDS, TEXTS, columns=fr.col("*").fill_null(0))
    assert words.to_strings() == [["a", ""], [], [], ["", "bc"], ["", "déf", ""]]


@each_of(
    ("rows", "type_", "nulls", "said"),
    [
        ([[[1]], None], LISTS, "error", "row 1 of the row group is null; .mask_null"),
        (
            [[[1]], [], [[2], None]],
            LISTS,
            "error",
            "a list inside the list in row 2 of the row group is null",
        ),
        (
            [[[1]], [[2], [3, None]]],
            LISTS,
            "error",
            "an element of the list in row 1 of the row group is null",
        ),
        ([["a"], None], TEXTS, "error", "row 1 of the row group is null; .mask_null"),
        (
            [["a"], [], ["b", None]],
            TEXTS,
            "error",
            "a text inside the list in row 2 of the row group is null",
        ),
    ],
)
def test_a_null_that_is_refused_is_named_with_its_row(
    path: Path, rows: list[Any], type_: pa.DataType, nulls: str, said: str
) -> None:
    for page_rows in (1, 100):  # rows of one page, and each in one of its own
        table = pa.table({"x": pa.array([*rows, []], type_)})
        pq.write_table(table, path, data_page_size=1, write_batch_size=page_rows)
        # Footers do not tell whether the row is one of those that are selected.
        dataset = fr.ParquetDataset(path, batch_size=len(rows), rows=[[0, len(rows)]], nulls=nulls)  # type: ignore[arg-type]
        with pytest.raises(fr.DataError) as caught:
            list(dataset)
        assert said in str(caught.value)
        assert "column 'x'" in str(caught.value)


def test_the_schema_has_two_dimensions_of_any_length(path: Path) -> None:
    table = pa.table(
        {
            "grid": pa.array(GRID, LISTS),
            "words": pa.array(WORDS, TEXTS),
            "blobs": pa.array([[b"a"]] * 5),
            "map": pa.array([[("k", [1])]] * 5, pa.map_(pa.string(), pa.list_(pa.int8()))),
        }
    )
    pq.write_table(table, path)
    schema = fr.ParquetDataset(
        path, batch_size=5, columns=["*", fr.col("words").mask_null(), fr.col("grid").mask_null()]
    ).schema
    assert repr(schema) == (
        "grid: int64 [B, *, *] valid\n"
        "words: uint8 [B, *, *] string, valid\n"
        "blobs: uint8 [B, *, *] binary\n"
        "map.key: uint8 [B, *, *] string\n"
        "map.value: int8 [B, *, *]"
    )
    kinds = ["list<list>", "list<string>", "list<binary>", "list<string>", "list<list>"]
    assert [field.kind for field in schema.values()] == kinds
    assert all(
        field.is_jagged and field.is_nested and field.shape == ("B", "*", "*") for field in schema.values()
    )


def test_files_that_lack_the_column_have_null_rows_of_it_among_others(tmp_path: Path) -> None:
    for name, columns in [
        ("a", {"i": [0, 1], "x": pa.array([[[1], [2, 3]], [[4]]], LISTS), "w": [["a", "b"], []]}),
        ("b", {"i": [2, 3]}),
        ("c", {"i": [4], "x": pa.array([[[], [5]]], pa.large_list(pa.list_(pa.int32()))), "w": [["c"]]}),
    ]:
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    for order in ({}, Shuffle(3, 8, 16).arguments):
        dataset = fr.ParquetDataset(
            tmp_path,
            batch_size=5,
            nulls="mask",
            columns=["*", fr.col("x").optional(), fr.col("w").optional()],
            **order,
        )
        (batch,) = dataset
        found = dict(
            zip(
                batch["i"].tolist(),
                zip(batch["x"].to_list(), batch["w"].to_strings(), strict=True),
                strict=True,
            )
        )
        assert found == {
            0: ([[1], [2, 3]], ["a", "b"]),
            1: ([[4]], []),
            2: (None, None),
            3: (None, None),
            4: ([[], [5]], ["c"]),
        }
        assert dataset.read_rows([3, 0, 4, 0])["x"].to_list() == [
            None,
            [[1], [2, 3]],
            [[], [5]],
            [[1], [2, 3]],
        ]


def test_a_struct_whose_members_are_all_lists_of_lists_is_told_apart_from_its_members(path: Path) -> None:
    type_ = pa.struct([("g", LISTS), ("w", TEXTS)])
    rows = [{"g": [[1]], "w": ["a"]}, None, {"g": None, "w": None}, {"g": [], "w": [""]}]
    left_outs: list[list[str]] = [[], ["!x.w"], ["!x.g"]]
    for left_out in left_outs:
        dataset = dataset_of(path, rows, type_, columns=fr.col("x", *left_out).mask_null())
        (batch,) = dataset
        assert batch["x_valid"].tolist() == [True, False, True, True]


def test_types_of_inner_elements_widen_and_other_depths_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([[[1]]], pa.list_(pa.list_(pa.int16())))}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": pa.array([[[2]]], pa.list_(pa.list_(pa.int64())))}), tmp_path / "b.parquet")
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=2)
    assert batch["x"].dtype == torch.int64
    assert batch["x"].to_list() == [[[1]], [[2]]]
    pq.write_table(pa.table({"x": pa.array([[3]])}), tmp_path / "b.parquet")
    with pytest.raises(fr.DataError, match=r"the column is list<int64>, expected list<list<int16>>.*'x'"):
        fr.ParquetDataset(tmp_path, batch_size=2)


def test_a_filter_asks_only_whether_such_rows_are_null(path: Path) -> None:
    dataset = dataset_of(path, WORDS, TEXTS, batch_size=4, nulls="mask", filter=~fr.col("x").is_null())
    (batch,) = dataset
    assert batch["x"].to_strings() == [row for row in WORDS if row is not None]
    with pytest.raises(TypeError, match=r"column 'x' of the type list<string> can't be compared with 'a'"):
        dataset_of(path, WORDS, TEXTS, filter=fr.col("x") == "a")
    # pyarrow sees other columns, while these are delivered.
    table = pa.table({"x": pa.array(GRID, LISTS), "i": range(5)})
    pq.write_table(table, path, row_group_size=2)
    (batch,) = fr.ParquetDataset(path, batch_size=2, nulls="mask", filter=fr.col("i").isin([1, 4]))
    assert batch["x"].to_list() == [GRID[1], GRID[4]]


@pytest.mark.law(2)
@pytest.mark.parametrize("order", [{}, Shuffle(5, 10, 40).arguments], ids=["sequential", "shuffled"])
def test_a_resume_within_padded_batches_is_exact(path: Path, order: dict[str, Any]) -> None:
    columns = {"x": pa.array(GRID * 9, LISTS), "w": pa.array(WORDS * 9, TEXTS)}
    pq.write_table(pa.table(columns), path, row_group_size=11, data_page_size=20, write_batch_size=3)

    def made() -> fr.ParquetDataset:
        return fr.ParquetDataset(path, batch_size=8, nulls="mask", tail="pad", **order)

    assert testing.assert_exact_resume(made) == 6
    *_, last = made()
    assert last["x"].to_list()[:3] == last["x"].to_list()[5:]


def test_a_plan_counts_the_offsets_of_inner_rows(path: Path) -> None:
    flat = dataset_of(path, [list(range(50))] * 4, pa.list_(pa.int8())).plan().bytes_per_rank
    deep = (
        dataset_of(path, [[[value] for value in range(50)]] * 4, pa.list_(pa.list_(pa.int8())))
        .plan()
        .bytes_per_rank
    )
    assert deep >= flat + 4 * 50 * 8


# -------------------------------------------------------------------------------------- a Jagged of a Jagged


@pytest.fixture
def grid(path: Path) -> fr.Jagged:
    """The rows of `GRID`."""
    found: fr.Jagged = batch_of(path, GRID, LISTS, nulls="mask")
    return found


def test_rows_and_slices_and_chosen_rows_are_jagged_again(grid: fr.Jagged) -> None:
    assert [row.to_list() for row in grid] == [[[1, 2], []], [], [], [None, [3]], [[], [4, 5, 6], None]]
    assert grid[4].to_list() == GRID[4]
    assert grid[-2].to_list() == GRID[3]
    assert grid[3:].to_list() == GRID[3:]
    assert grid[3:].values.values.data_ptr() == grid.values.values[2:].data_ptr()
    assert grid.take(torch.tensor([4, 0, 2, 4])).to_list() == [GRID[4], GRID[0], None, GRID[4]]
    assert grid.lengths.tolist() == [2, 0, 0, 2, 3]
    assert grid.depth == 2
    assert grid.values.depth == 1


def test_it_is_a_plain_value_at_both_levels(grid: fr.Jagged, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[Callable[[fr.Jagged], fr.Jagged]] = [
        lambda jagged: pickle.loads(pickle.dumps(jagged)),
        copy.copy,
        copy.deepcopy,
        lambda jagged: jagged.to("cpu"),
    ]
    for change in changes:
        assert change(grid).to_list() == GRID
    moved = grid.to("meta")
    for tensor in (moved.offsets, moved.valid, moved.values.offsets, moved.values.valid, moved.values.values):
        assert tensor.device.type == "meta"
    pinned: list[torch.Tensor] = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
    grid.pin_memory()
    assert len(pinned) == 6


def test_it_says_what_it_is(grid: fr.Jagged) -> None:
    inner = "Jagged(rows=7, values=int64[6], valid=bool[7], values_valid=bool[6])"
    assert repr(grid) == f"Jagged(rows=5, values={inner}, valid=bool[5])"


def test_what_knows_one_dimension_of_rows_refuses_it(path: Path, grid: fr.Jagged) -> None:
    with pytest.raises(TypeError, match=r"one dimension of rows of different lengths.*values\.to_nested\(\)"):
        grid.to_nested()
    assert [row.tolist() for row in grid.values.to_nested().unbind()][:2] == [[1, 2], []]
    with pytest.raises(TypeError, match="'grid' is Jagged"):
        grid.to_keyed_jagged_tensor("grid")


def test_arrow_shares_its_memory_at_both_levels(grid: fr.Jagged, path: Path) -> None:
    array = grid.to_arrow()
    assert array.type == pa.large_list(pa.large_list(pa.int64()))
    assert array.to_pylist() == GRID
    addresses = [buffer.address for buffer in array.buffers() if buffer is not None]
    for tensor in (grid.offsets, grid.values.offsets, grid.values.values):
        assert tensor.data_ptr() in addresses
    words = batch_of(path, WORDS, TEXTS, nulls="mask").to_arrow()
    assert words.type == pa.large_list(pa.large_string())
    assert words.to_pylist() == WORDS


def test_rows_beside_texts_that_take_more_than_expected_are_given_back_at_both_levels(path: Path) -> None:
    """What is decoded in one go ends where a column has so many bytes: other columns' rows come again."""
    rows, large = 900, 400
    grid = [[[row, row], [], None, [row]] if row % 3 else [] for row in range(rows)]
    words = [[f"{row}", None, "x" * (row % 7)] if row % 5 else None for row in range(rows)]
    texts = ["small"] * (rows - large) + ["w" * 60_000] * large
    table = {
        "grid": pa.array(grid, LISTS),
        "words": pa.array(words, TEXTS),
        "flat": pa.array([[row] * (row % 4) for row in range(rows)], pa.list_(pa.int32())),
        "text": pa.array(texts),
    }
    pq.write_table(pa.table(table), path)
    # Of rows with gaps between them, a batch has many stretches, of which some may be done.
    chosen = [row for row in range(rows) if row % 10 != 9]
    picked = [[row, row + 1] for row in chosen]
    for batch_size in (50, 299):
        dataset = fr.ParquetDataset(path, batch_size=batch_size, tail="short", nulls="mask", rows=picked)
        start = 0
        for batch in dataset:
            some = chosen[start : start + batch.num_rows]
            assert batch["grid"].to_list() == [grid[row] for row in some]
            assert batch["words"].to_strings() == [words[row] for row in some]
            assert batch["flat"].offsets.diff().tolist() == [row % 4 for row in some]
            assert batch["text"].lengths.tolist() == [len(texts[row]) for row in some]
            start += batch.num_rows
        assert start == len(chosen)
