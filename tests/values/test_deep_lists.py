"""Lists of lists of any depth, of numbers, texts, bytes of one length, decimals, are what pyarrow reads."""

from __future__ import annotations

import decimal
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

LEAVES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int32": (pa.int32(), st.integers(-9, 9)),
    "float64": (pa.float64(), st.sampled_from([0.5, -1.0, 3.25])),
    "string": (pa.string(), st.sampled_from(["", "a", "é", "日本語", "longer than others"])),
    "binary[3]": (pa.binary(3), st.sampled_from([b"abc", b"\0\1\2", b"xyz"])),
    "decimal(7, 2)": (pa.decimal128(7, 2), st.integers(-9_999_999, 9_999_999)),
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[str, int, list[Any]]:
    """Draw a leaf, a depth, and rows with nulls at each level."""
    leaf, depth = draw(st.sampled_from(sorted(LEAVES))), draw(st.integers(1, 4))
    cells: st.SearchStrategy[Any] = st.none() | LEAVES[leaf][1]
    for _ in range(depth):
        cells = st.none() | st.lists(cells, max_size=3)
    return leaf, depth, draw(st.lists(cells, min_size=1, max_size=40))


def write(path: Path, leaf: str, depth: int, rows: list[Any], **how: Any) -> None:
    """Write the rows as a column `x`."""
    kind = LEAVES[leaf][0]
    for _ in range(depth):
        kind = pa.list_(kind)
    if leaf.startswith("decimal"):
        rows = mapped(rows, lambda number: decimal.Decimal(number).scaleb(-2))
    pq.write_table(pa.table({"row": np.arange(len(rows)), "x": pa.array(rows, kind)}), path, **how)


def mapped(cell: Any, change: Any) -> Any:
    """The cell with each value changed."""
    if isinstance(cell, list):
        return [mapped(part, change) for part in cell]
    return None if cell is None else change(cell)


def cells(jagged: fr.Jagged, leaf: str) -> list[Any]:
    """The rows of a `Jagged` as they were written."""
    if leaf == "string":
        return jagged.to_strings()
    return jagged.to_list()


@given(drawn=columns(), shuffle=st.booleans(), data=st.data())
def test_lists_of_any_depth_are_those_that_were_written(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[str, int, list[Any]],
    shuffle: bool,
    data: st.DataObject,
) -> None:
    leaf, depth, rows = drawn
    path = tmp_path_factory.mktemp("deep") / "x.parquet"
    write(
        path,
        leaf,
        depth,
        rows,
        data_page_version=data.draw(st.sampled_from(["1.0", "2.0"])),
        row_group_size=data.draw(st.integers(1, 40)),
        data_page_size=data.draw(st.sampled_from([1, 64, 1 << 20])),
        write_batch_size=data.draw(st.sampled_from([1, 3, 1024])),
        use_dictionary=data.draw(st.booleans()),
    )
    expected = mapped(rows, list) if leaf == "binary[3]" else rows
    how: dict[str, Any] = {"shuffle": True, "block_rows": 5, "window_rows": 15} if shuffle else {}
    dataset = fr.ParquetDataset(path, batch_size=7, tail="short", nulls="mask", world=(0, 1), **how)
    assert dataset.schema["x"].shape[: depth + 1] == ("B", *"*" * depth)
    found = {}
    for batch in dataset:
        jagged = batch["x"]
        assert jagged.depth == depth + (leaf == "string")
        own = cells(jagged, leaf)
        found |= dict(zip(batch["row"].tolist(), own, strict=True))
        assert cells(jagged[1:], leaf) == own[1:]
        assert cells(jagged.take(torch.arange(len(jagged)).flip(0)), leaf) == own[::-1]
        assert cells(pickle.loads(pickle.dumps(jagged)), leaf) == own
        assert jagged.to_arrow().to_pylist() == own
    assert found == dict(enumerate(expected))
    numbers = data.draw(st.permutations(range(len(rows))))[:9]
    assert cells(dataset.read_rows(numbers)["x"], leaf) == [expected[number] for number in numbers]


@pytest.mark.parametrize("workers", [0, 2])
def test_chats_read(tmp_path: Path, workers: int) -> None:
    part = pa.struct([("type", pa.string()), ("text", pa.string())])
    message = pa.struct([("role", pa.string()), ("content", pa.list_(part))])
    chats = [
        [
            {"role": "user", "content": [{"type": "text", "text": f"hello {row}"}] * (row % 3)},
            {"role": "model", "content": [{"type": "text", "text": "hi"}, {"type": "image", "text": ""}]},
        ][: row % 4]
        for row in range(50)
    ]
    table = pa.table({"row": range(50), "messages": pa.array(chats, pa.list_(message))})
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=20)
    dataset = fr.ParquetDataset(tmp_path, batch_size=8, tail="short", world=(0, 1))
    assert list(dataset.schema) == ["row", "messages.role", "messages.content.type", "messages.content.text"]
    with fr.Loader(dataset, num_workers=workers) as loader:
        for batch in loader:
            own = [chats[row] for row in batch["row"].tolist()]
            roles = [[message["role"] for message in chat] for chat in own]
            assert batch["messages.role"].to_strings() == roles
            texts = [[[p["text"] for p in message["content"]] for message in chat] for chat in own]
            assert batch["messages.content.text"].to_strings() == texts


def test_a_null_is_an_error_that_says_what_it_is(tmp_path: Path) -> None:
    cases = [([[[[1]], None]], "a list inside the list"), ([[[[1, None]]]], "an element of the list")]
    for rows, what in cases:
        write(tmp_path / "x.parquet", "int32", 3, [*rows, [[[2]]]])
        with pytest.raises(fr.DataError, match=rf"{what} in row 0 of the row group is null"):
            # Footers do not tell whether the row is one of those that are selected.
            next(iter(fr.ParquetDataset(tmp_path, batch_size=1, columns="x", rows=[[0, 1]])))
