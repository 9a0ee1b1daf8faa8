"""Lists and texts filled up and cut off to rows of one length: `.pad()`."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume import testing
from support import oracle
from support.cells import Cells, filled, read_cells, tensor_of
from support.each_of import each_of
from support.jobs import data_loader, make
from support.layouts import Pad
from support.strategies import Dataset
from support.topologies import Shuffle

OF_VECTORS, OF_BYTES = pa.list_(pa.list_(pa.float32())), pa.list_(pa.binary(2))
ROWS: list[list[int | None] | None] = [[1, 2], [], None, [3, 4, 5, 6], [7], [8, 9, 10]]


def assert_padded(
    batch: fr.Batch, name: str, cells: Cells, pad: Pad, keep: str | None, rule: Any = "error"
) -> None:
    """Assert that a batch holds each row of a column filled up, or cut off, to the length of the pad."""
    matrix, lengths = tensor_of(batch, name), tensor_of(batch, f"{name}_length")
    assert matrix.numpy().dtype == cells.dtype
    assert matrix.shape == (batch.num_rows, pad.size)
    assert matrix.is_contiguous()
    assert (lengths.dtype, lengths.shape) == (torch.int64, (batch.num_rows,))
    for place, row in enumerate(batch.rows()):
        expected = elements_of(cells, int(row), rule)
        empty = np.array(pad.value).astype(cells.dtype).tobytes()
        found = oracle.padded(expected, pad.size, empty, pad.side, keep)
        assert found is not None, f"{name}: row {row} is too long, and delivered"
        whole, length = found
        assert lengths[place] == length, f"{name}: row {row}"
        assert matrix[place].numpy().tobytes() == b"".join(whole), f"{name}: row {row}"
    if rule == "mask":
        there = [cells.rows[row] is not None for row in batch.rows()]
        assert tensor_of(batch, f"{name}_valid").tolist() == there, name
    else:
        assert f"{name}_valid" not in batch


def elements_of(cells: Cells, row: int, rule: Any) -> list[bytes]:
    """The elements of a row, each as its bytes; nulls as the rule says."""
    cell = cells.rows[row]
    if cell is None:
        return []
    if isinstance(cell, bytes):
        return [bytes([byte]) for byte in cell]
    fill = filled(cells, rule) if rule != "mask" else None
    return [element if element is not None else fill for element in cell]  # type: ignore[misc]


def table_of(rows: list[Any], type_: pa.DataType | None = None) -> pa.Table:
    """One column, `x`; and the rows' numbers."""
    return pa.table({"x": pa.array(rows, type_ or pa.list_(pa.int64())), "row": range(len(rows))})


def write(path: Path, rows: list[Any], type_: pa.DataType | None = None) -> Path:
    """A file of one column, `x`, and the rows' numbers, in row groups of two."""
    pq.write_table(table_of(rows, type_), path / "a.parquet", row_group_size=2)
    return path / "a.parquet"


def read(path: Path, **arguments: Any) -> fr.Batch:
    """All rows as one batch."""
    arguments = {"nulls": "mask", "columns": "x", **arguments}
    (batch,) = fr.ParquetDataset(path, batch_size=1000, tail="short", **arguments)
    return batch


# ------------------------------------------------------------------------------------------ what is delivered


def test_rows_are_filled_up_behind_and_their_lengths_are_told(tmp_path: Path) -> None:
    batch = read(write(tmp_path, ROWS), columns=fr.col("x").pad(4))
    assert list(batch) == ["x", "x_valid", "x_length", "x_values_valid"]
    assert tensor_of(batch, "x").tolist() == [
        [1, 2, 0, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
        [3, 4, 5, 6],
        [7, 0, 0, 0],
        [8, 9, 10, 0],
    ]
    assert tensor_of(batch, "x_length").tolist() == [2, 0, 0, 4, 1, 3]
    assert tensor_of(batch, "x_valid").tolist() == [True, True, False, True, True, True]


def test_a_pad_has_a_value_and_a_side(tmp_path: Path) -> None:
    batch = read(write(tmp_path, ROWS), columns=["*", fr.col("x").pad(4, value=-1, side="left")])
    assert tensor_of(batch, "x").tolist() == [
        [-1, -1, 1, 2],
        [-1, -1, -1, -1],
        [-1, -1, -1, -1],
        [3, 4, 5, 6],
        [-1, -1, -1, 7],
        [-1, 8, 9, 10],
    ]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ("head", [[1, 2], [0, 0], [0, 0], [3, 4], [7, 0], [8, 9]]),
        ("tail", [[1, 2], [0, 0], [0, 0], [5, 6], [7, 0], [9, 10]]),
    ],
)
def test_longer_rows_keep_one_end(tmp_path: Path, keep: Any, expected: list[list[int]]) -> None:
    batch = read(write(tmp_path, ROWS), columns=["*", fr.col("x").pad(2, truncate=keep)])
    assert tensor_of(batch, "x").tolist() == expected
    assert tensor_of(batch, "x_length").tolist() == [2, 0, 0, 2, 1, 2]


@pytest.mark.parametrize("order", [{}, Shuffle(1, 2, 4).arguments], ids=["sequential", "shuffled"])
def test_a_longer_row_is_an_error_that_names_it(tmp_path: Path, order: dict[str, Any]) -> None:
    path = write(tmp_path, ROWS)
    message = r"row 1 of the row group has 4 elements, pad has room for 3; .pad\(3, truncate=\"head\"\) keeps"
    with pytest.raises(fr.DataError, match=message) as caught:
        list(fr.ParquetDataset(path, batch_size=6, nulls="mask", columns=["*", fr.col("x").pad(3)], **order))
    assert str(caught.value).endswith(f"(column 'x', row group 1, file '{path}')")


@pytest.mark.parametrize("rows", [range(5), [1, 3, 4]], ids=["all", "some"])
def test_a_longer_row_is_named_by_its_place_in_the_row_group(tmp_path: Path, rows: Any) -> None:
    """Not by its place among those that are decoded in one go, which are those of a batch."""
    pq.write_table(table_of([[1], [2], [3], [4, 5], [6]]), tmp_path / "x.parquet")
    chosen = [[row, row + 1] for row in rows]
    with pytest.raises(fr.DataError, match="row 3 of the row group has 2 elements, pad has room for 1;"):
        list(fr.ParquetDataset(tmp_path, batch_size=1, rows=chosen, columns=["*", fr.col("x").pad(1)]))


def test_a_longer_row_that_nobody_reads_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    batch = read(path, filter=fr.col("row") != 3, columns=["*", fr.col("x").pad(3)])
    assert tensor_of(batch, "x_length").tolist() == [2, 0, 0, 1, 3]


def test_texts_are_filled_up_and_cut_off_by_bytes(tmp_path: Path) -> None:
    path = write(tmp_path, ["ab", "", None, "wörter"], pa.string())
    batch = read(path, columns=["*", fr.col("x").pad(3, value=32, truncate="head")])
    assert tensor_of(batch, "x").dtype == torch.uint8
    assert bytes(tensor_of(batch, "x").flatten().tolist()) == b"ab       w\xc3\xb6"
    assert tensor_of(batch, "x_length").tolist() == [2, 0, 0, 3]


def test_null_elements_are_filled_or_marked_and_null_rows_are_all_padding(tmp_path: Path) -> None:
    path = write(tmp_path, [[1, None], None, [None]])
    batch = read(path, columns=["*", fr.col("x").fill_null(9).pad(2, value=-1)])
    assert tensor_of(batch, "x").tolist() == [[1, 9], [-1, -1], [9, -1]]
    assert tensor_of(batch, "x_length").tolist() == [2, 0, 1]
    batch = read(path, columns=fr.col("x").pad(3, value=7, side="left"))
    assert list(batch) == ["x", "x_valid", "x_length", "x_values_valid"]
    assert tensor_of(batch, "x").tolist() == [[7, 1, 0], [7, 7, 7], [7, 7, 0]]
    marks = tensor_of(batch, "x_values_valid")
    assert marks.tolist() == [[False, True, False], [False] * 3, [False] * 3]
    assert marks.dtype == torch.bool
    vectors = [[[1.0, None], None], None]
    with pytest.raises(fr.DataError, match=r"lists in row 0 .* are null"):
        read(write(tmp_path, vectors, OF_VECTORS), columns=fr.col("x").fixed((None, 2)).pad(2))
    batch = read(
        write(tmp_path, [[[1.0, None]], None], OF_VECTORS), columns=fr.col("x").fixed((None, 2)).pad(2)
    )
    assert tensor_of(batch, "x_values_valid").tolist() == [[[True, False], [False] * 2], [[False] * 2] * 2]
    batch = read(write(tmp_path, [[b"ab", None], None], OF_BYTES), columns=fr.col("x").pad(3))
    assert tensor_of(batch, "x").shape == (2, 3, 2)
    assert tensor_of(batch, "x_values_valid").tolist() == [[True, False, False], [False] * 3]
    with pytest.raises(fr.DataError, match="a list, or an element of one, is null"):
        read(write(tmp_path, [[1], None]), nulls="error", columns=["*", fr.col("x").pad(2)])


def test_maps_and_structs_are_named_as_a_whole(tmp_path: Path) -> None:
    maps = pa.array([[(1, 0.5)], [(2, 1.5), (3, 2.5)]], pa.map_(pa.int32(), pa.float32()))
    batch = read(write(tmp_path, maps.to_pylist(), maps.type), columns=fr.col("x").fill_null(0).pad(3))
    assert tensor_of(batch, "x.key").tolist() == [[1, 0, 0], [2, 3, 0]]
    assert tensor_of(batch, "x.value").tolist() == [[0.5, 0, 0], [1.5, 2.5, 0]]
    assert list(batch) == ["x.key", "x.key_length", "x.value", "x.value_length"]


def test_lengths_are_named_after_their_tensor(tmp_path: Path) -> None:
    path = write(tmp_path, ROWS)
    batch = read(path, columns=fr.col("x").pad(4).alias("y"))
    assert list(batch) == ["y", "y_valid", "y_length", "y_values_valid"]
    original = read(path, columns=fr.col("x").pad(4))
    for old, new in zip(original, batch, strict=True):
        assert tensor_of(batch, new).equal(tensor_of(original, old))
    with pytest.raises(ValueError, match=r"two tensors are called 'y_length'"):
        read(path, columns=[fr.col("x").pad(4).alias("y"), fr.col("row").alias("y_length")])


def test_a_column_that_files_lack_is_all_padding(tmp_path: Path) -> None:
    pq.write_table(pa.table({"y": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [[5]], "y": [2]}), tmp_path / "b.parquet")
    batch = read(tmp_path, columns=["*", fr.col("x").optional().pad(2, value=3)])
    assert tensor_of(batch, "x").tolist() == [[3, 3], [5, 3]]
    assert tensor_of(batch, "x_length").tolist() == [0, 1]
    assert tensor_of(batch, "x_valid").tolist() == [False, True]


def test_shapes_are_known_before_the_first_batch(tmp_path: Path) -> None:
    dataset = fr.ParquetDataset(
        write(tmp_path, ROWS), batch_size=2, nulls="mask", columns=["*", fr.col("x").pad(4)]
    )
    assert repr(dataset.schema).splitlines() == [
        "x: int64 [B, 4]",
        "x_valid: bool [B]",
        "x_length: int64 [B]",
        "x_values_valid: bool [B, 4]",
        "row: int64 [B]",
        "row_valid: bool [B]",
    ]
    kinds = ["scalar", "mask", "length", "mask", "scalar", "mask"]
    assert [field.kind for field in dataset.schema.values()] == kinds
    assert dataset.schema["x"].shape == ("B", 4)
    assert "54 bytes each" in repr(dataset.plan())
    assert pickle.loads(pickle.dumps(dataset)).schema["x"].shape == ("B", 4)


def test_a_padded_batch_is_arrow_of_the_same_values(tmp_path: Path) -> None:
    arrow = read(write(tmp_path, ROWS), columns=["*", fr.col("x").pad(4)]).to_arrow()
    assert arrow.schema.field("x").type == pa.list_(pa.int64(), 4)
    assert arrow.column("x").to_pylist()[:4] == [[1, 2, 0, 0], [0, 0, 0, 0], None, [3, 4, 5, 6]]
    assert arrow.column("x_length").to_pylist() == [2, 0, 0, 4, 1, 3]


# --------------------------------------------------------------------------------------------- wrong requests


@each_of(
    ("arguments", "error", "message"),
    [
        ({"columns": ["*", fr.col("y").pad(2)]}, fr.DataError, "no column matches 'y'; there are: x"),
        (
            {"columns": ["*", fr.col("row").pad(2)]},
            fr.DataError,
            r".pad\(\) takes no column of type int64: it takes texts.*'row'",
        ),
        (
            {"columns": ["*", fr.col("r*").pad(2)]},
            fr.DataError,
            r".pad\(\) takes no column of type int64: it takes texts.*'row'",
        ),
        (
            {"columns": ["*", fr.col("x").pad(2, value=0.5)]},
            ValueError,
            "the pad value 0.5 does not fit, the column is int64",
        ),
        ({"columns": ["*", fr.col("x").pad(2, value=2**63)]}, ValueError, "the column is int64"),
        ({"columns": ["*", fr.col("x").pad(2**50)]}, ValueError, "no memory"),
    ],
)
def test_what_can_not_be_padded_is_refused(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        read(write(tmp_path, ROWS), **arguments)


@each_of(
    ("make_", "error", "message"),
    [
        (lambda: fr.col("x").pad(0), ValueError, r"fr.col\('x'\).pad must be at least 1"),
        (lambda: fr.col("x").pad("2"), TypeError, "must be an integer"),
        (lambda: fr.col("x").pad(2, "x"), TypeError, "must be a number"),
        (lambda: fr.col("x").pad(2, 2**64), ValueError, "64 bits"),
        (
            lambda: fr.col("x").pad(2, truncate="middle"),
            ValueError,
            "'head' or 'tail' or None, found 'middle'",
        ),
        (lambda: fr.col("x").pad(2, side="top"), ValueError, "'right' or 'left', found 'top'"),
        (lambda: fr.col("x").pad(2).pad(3), TypeError, r"fr.col\('x'\).pad\(2\).pad: .pad is said already"),
        (lambda: fr.col("x").fixed(2).pad(2), TypeError, "all rows have one length already"),
        (lambda: fr.col("x").pad(2).hash(9), ValueError, "write .pad after .hash"),
        (lambda: fr.stack(fr.col("x").pad(2)), ValueError, "can't be a part of a matrix, with .pad"),
    ],
)
def test_padding_that_means_nothing_is_refused_where_it_is_written(
    make_: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_()


def test_two_tensors_of_one_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [[1]], "x_length": [1]}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="two tensors are called 'x_length'"):
        fr.ParquetDataset(tmp_path, batch_size=1, columns=["*", fr.col("x").pad(2)])


# -------------------------------------------------------------------------------------------- any way to read

PADDED: dict[str, Any] = {
    "nulls": "mask",
    "columns": [
        "*",
        fr.col("tokens").pad(5, truncate="tail"),
        fr.col("name").pad(6, side="left", truncate="head"),
        fr.col("blob").pad(50, truncate="head"),
    ],
}


def assert_all(batch: fr.Batch, cells: Mapping[str, Cells]) -> None:
    assert_padded(batch, "tokens", cells["tokens"], Pad(5), "tail", "mask")
    assert_padded(batch, "name", cells["name"], Pad(6, side="left"), "head", "mask")
    assert_padded(batch, "blob", cells["blob"], Pad(50), "head", "mask")


@pytest.mark.parametrize("order", [{}, Shuffle(17, 20, 45).arguments, {"lanes": 5, "groups": 1}], ids=str)
def test_rows_are_padded_however_they_come(lists: Dataset, order: dict[str, Any]) -> None:
    cells = read_cells(lists.directory)
    dataset = make(lists, 10, tail="pad", **PADDED, **order)
    batches = list(dataset)
    for batch in batches:
        assert_all(batch, cells)
    for found, batch in zip(data_loader(dataset, 2 if "groups" not in order else 1), batches, strict=True):
        assert_all(found, cells)
        assert found.keys() == batch.keys()
    testing.assert_exact_resume(lambda: make(lists, 10, tail="short", **PADDED, **order))
    testing.assert_exact_resume(lambda: fr.Loader(make(lists, 15, **PADDED, **order), threads=2))


def test_any_rows_of_any_selection_are_padded(lists: Dataset) -> None:
    cells = read_cells(lists.directory)
    dataset = make(lists, 10, tail="short", filter=fr.col("weight") < 0, **PADDED)
    assert 0 < dataset.num_rows < 103
    for batch in dataset:
        assert_all(batch, cells)
    assert_all(dataset.read_rows([5, 102, 0, 51, 5]), cells)
    assert_all(dataset.batch_at(3, 1), cells)


@each_of("dtype", ["bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_to_padded_takes_the_values_that_pad_takes(dtype: str) -> None:
    """Before, `to_padded(value=0.5)` of integers padded with 0, and `value=-1` of bytes with 255."""
    table = pa.table({"l": pa.array([[True, False], [True]])})
    column = fr.col("l") if dtype == "bool" else fr.col("l").cast(getattr(torch, dtype))
    rows = fr.ArrowDataset(table, batch_size=2, columns=column).peek()["l"]
    taken = 0
    for value in (0, 1, -1, 2, 255, 256, 257, 2**24 + 1, 2**53 + 1, 2**63, True, False, 0.5, -1.9, 3.0, -0.0):
        taken += is_taken_by_both(table, column, rows, value)
    for value in (65520.0, 2.0**24 + 1, 1e39, -1e300, float("nan"), float("inf"), -float("inf")):
        taken += is_taken_by_both(table, column, rows, value)
    assert 4 <= taken < 23


def is_taken_by_both(table: pa.Table, column: Any, rows: fr.Jagged, value: Any) -> bool:
    """Whether both ways to pad take a value; they pad with the same, or refuse it in the same words."""
    refusal = re.escape(f"the pad value {value} does not fit, the values are ") + r"\w+$"
    try:
        expected = fr.ArrowDataset(table, batch_size=2, columns=column.pad(2, value)).peek()["l"]
    except ValueError:
        with pytest.raises(ValueError, match=refusal):
            rows.to_padded(value=value)
        return False
    found = rows.to_padded(value=value)
    assert found.dtype == expected.dtype
    assert torch.equal(found.view(torch.uint8), expected.view(torch.uint8))
    return True
