"""Lists of nulls: what pandas and pyarrow write of a column whose lists are all empty in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.each_of import each_of

NULLS: list[list[None] | None] = [[], None, [None, None], [], [None]]
TYPED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int32": (pa.int32(), [[1, None], [], None]),
    "int64": (pa.int64(), [[1 << 40], [], [None, 7]]),
    "float64": (pa.float64(), [[0.5], [None], []]),
    "bool": (pa.bool_(), [[True, None], [False], []]),
    "timestamp": (pa.timestamp("us"), [[5], [], None]),
    "string": (pa.string(), [["x", None], [], None]),
    "binary": (pa.binary(), [[b"x"], [b"", None], None]),
}

WRITERS = each_of(
    "how",
    [
        {},
        {"use_dictionary": False},
        {"data_page_version": "2.0", "compression": "zstd", "row_group_size": 2},
        {"use_dictionary": False, "column_encoding": {"x.list.element": "DELTA_BINARY_PACKED"}},
    ],
)


def write(path: Path, values: list[Any], element: pa.DataType, **how: Any) -> list[Any]:
    array = pa.array(values, pa.list_(element))
    pq.write_table(pa.table({"id": range(len(values)), "x": array}), path, **how)
    read: list[Any] = pq.read_table(path)["x"].to_pylist()
    return read


def read(path: Path, nulls: str = "mask", **how: Any) -> list[Any]:
    dataset = fr.ParquetDataset(path, batch_size=2, world=(0, 1), tail="short", nulls=nulls, **how)
    found: list[Any] = []
    for batch in dataset:
        found += batch["x"].to_arrow().to_pylist() if nulls == "mask" else batch["x"].to_list()
    return found


@WRITERS
def test_a_file_of_them_alone_has_empty_lists_and_null_elements(tmp_path: Path, how: dict[str, Any]) -> None:
    expected = write(tmp_path / "a.parquet", NULLS, pa.null(), **how)
    assert read(tmp_path) == expected
    filled = [fr.col("x").fill_null(-1)]
    assert read(tmp_path, "error", columns=filled) == [[], [], [-1, -1], [], [-1]]
    dataset = fr.ParquetDataset(tmp_path, batch_size=5, nulls="mask")
    assert dataset.schema["x"].dtype == torch.int32
    assert dataset.read_rows([4, 0, 2])["x"].to_arrow().to_pylist() == [[None], [], [None, None]]


@WRITERS
@each_of("name", TYPED)
@each_of("is_first", [True, False])
def test_beside_a_typed_file_they_are_lists_of_its_type(
    tmp_path: Path, how: dict[str, Any], name: str, is_first: bool
) -> None:
    element, values = TYPED[name]
    names = ("a.parquet", "b.parquet") if is_first else ("b.parquet", "a.parquet")
    of_nulls = write(tmp_path / names[0], NULLS, pa.null(), **how)
    of_values = write(tmp_path / names[1], values, element)
    if name == "timestamp":
        of_values = [[5], [], None]
    expected = of_nulls + of_values if is_first else of_values + of_nulls
    assert read(tmp_path) == expected
    shuffled = fr.ParquetDataset(tmp_path, batch_size=3, nulls="mask", shuffle=True, tail="short")
    for batch in shuffled:
        assert batch["x"].to_arrow().to_pylist() == [expected[row] for row in batch.rows()]


def test_empty_ones_are_no_nulls(tmp_path: Path) -> None:
    """As in the file of a day on which nothing was tagged."""
    write(tmp_path / "a.parquet", [[], []], pa.null())
    write(tmp_path / "b.parquet", [["x"], []], pa.string())
    assert [x["x"].to_strings() for x in fr.ParquetDataset(tmp_path, batch_size=4)] == [[[], [], ["x"], []]]
    codes = fr.ParquetDataset(tmp_path, batch_size=4, columns=[fr.col("x").codes()])
    assert next(iter(codes))["x"].to_list() == [[], [], [0], []]
    buckets = fr.ParquetDataset(tmp_path, batch_size=4, columns=[fr.col("x").hash(10)])
    assert [len(row) for row in next(iter(buckets))["x"].to_list()] == [0, 0, 1, 0]
    padded = fr.ParquetDataset(tmp_path / "a.parquet", batch_size=2, columns=[fr.col("x").pad(3)])
    assert next(iter(padded))["x"].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_a_null_list_or_element_follows_the_rule_of_nulls(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [[], [None]], pa.null())
    with pytest.raises(fr.DataError, match="a list, or an element of one, is null"):
        read(tmp_path, "error")
    write(tmp_path / "a.parquet", [[], None], pa.null())
    with pytest.raises(fr.DataError, match=r"column 'x'.*a\.parquet"):
        read(tmp_path, "error")


def test_a_list_and_a_number_agree_on_no_type(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [[], []], pa.null())
    pq.write_table(pa.table({"id": [0], "x": [1]}), tmp_path / "b.parquet")
    with pytest.raises(fr.DataError, match="the column is list<null>, expected int64"):
        read(tmp_path)
