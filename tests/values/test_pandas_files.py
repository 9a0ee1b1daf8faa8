"""Files as `df.to_parquet()` writes them by default: what columns become, and what errors say to write."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import fastresume as fr
from support.each_of import each_of

TIMES = pd.to_datetime(["2026-01-01", "2026-01-02", None])
OSLO = pd.to_datetime(["2026-01-01"]).tz_localize("Europe/Oslo")
NANOSECONDS = 1_767_225_600 * 10**9

FRAMES: dict[str, tuple[pd.DataFrame, str, dict[str, Any]]] = {
    "a counted index is not written": (pd.DataFrame({"x": [1, 2]}), "x: int64 [B]", {"x": [1, 2]}),
    "another index is a column": (
        pd.DataFrame({"x": [1, 2]}, index=pd.Index([5, 6])),
        "x: int64 [B]\n__index_level_0__: int64 [B]",
        {"x": [1, 2], "__index_level_0__": [5, 6]},
    ),
    "an index with a name is a column of it": (
        pd.DataFrame({"x": [1, 2]}, index=pd.Index(["a", "b"], name="key")),
        "x: int64 [B]\nkey: uint8 [B, *] string",
        {"x": [1, 2], "key": ["a", "b"]},
    ),
    "an index of two levels is two columns": (
        pd.DataFrame({"x": [1]}, index=pd.MultiIndex.from_tuples([(1, "a")])),
        "x: int64 [B]\n__index_level_0__: int64 [B]\n__index_level_1__: uint8 [B, *] string",
        {"x": [1], "__index_level_0__": [1], "__index_level_1__": ["a"]},
    ),
    "columns without names have numbers": (
        pd.DataFrame(np.eye(2)),
        "0: float64 [B]\n1: float64 [B]",
        {"0": [1.0, 0.0], "1": [0.0, 1.0]},
    ),
    "categories are their values": (
        pd.DataFrame({"c": pd.Categorical(["b", "a", "b"]), "n": pd.Categorical([3, 1, 3])}),
        "c: uint8 [B, *] string\nn: int64 [B]",
        {"c": ["b", "a", "b"], "n": [3, 1, 3]},
    ),
    "instants keep their unit": (
        pd.DataFrame({"t": TIMES[:2].astype("datetime64[ns]"), "s": TIMES[:2].astype("datetime64[ms]")}),
        "t: int64 [B] timestamp[ns]\ns: int64 [B] timestamp[ms]",
        {"t": [NANOSECONDS, NANOSECONDS + 86_400 * 10**9], "s": [NANOSECONDS // 10**6, 1_767_312_000_000]},
    ),
    "instants of a zone are those of UTC": (
        pd.DataFrame({"t": OSLO.astype("datetime64[us, Europe/Oslo]")}),
        "t: int64 [B] timestamp[us, UTC]",
        {"t": [(NANOSECONDS - 3_600 * 10**9) // 1000]},
    ),
    "durations are numbers with a unit": (
        pd.DataFrame({"d": pd.to_timedelta([1, 2], unit="s").astype("timedelta64[ns]")}),
        "d: int64 [B] duration[ns]",
        {"d": [10**9, 2 * 10**9]},
    ),
    "dates in objects are days": (
        pd.DataFrame({"d": pd.Series([pd.Timestamp("1970-01-03").date()], dtype=object)}),
        "d: int64 [B] date[day]",
        {"d": [2]},
    ),
    "months are numbers, and intervals their ends": (
        pd.DataFrame({"m": pd.period_range("1970-02", periods=2, freq="M"), "i": pd.interval_range(0, 2)}),
        "m: int64 [B]\ni.left: int64 [B]\ni.right: int64 [B]",
        {"m": [1, 2], "i.left": [0, 1], "i.right": [1, 2]},
    ),
    "lists, arrays and dicts in objects": (
        pd.DataFrame({"l": [[1, 2], []], "a": [np.array([0.5]), np.array([])], "o": [{"k": 1}, {"k": 2}]}),
        "l: int64 [B, *]\na: float64 [B, *]\no.k: int64 [B]",
        {"l": [[1, 2], []], "a": [[0.5], []], "o.k": [1, 2]},
    ),
}

WITH_NULLS: dict[str, tuple[Any, Any, Any]] = {
    "float64 with NaN": ([1.5, np.nan], 0, [1.5, 0.0]),
    "Int64": (pd.array([7, None], dtype="Int64"), -1, [7, -1]),
    "UInt8": (pd.array([7, None], dtype="UInt8"), 255, [7, 255]),
    "Float32": (pd.array([0.5, None], dtype="Float32"), 0, [0.5, 0.0]),
    "boolean": (pd.array([True, None], dtype="boolean"), False, [True, False]),
    "instants": (TIMES[1:].astype("datetime64[ns]"), 0, [NANOSECONDS + 86_400 * 10**9, 0]),
    "objects": (pd.Series(["a", None], dtype=object), "", ["a", ""]),
    "string": (pd.array(["a", None], dtype="string"), "", ["a", ""]),
    "categories": (pd.Categorical(["a", None]), "", ["a", ""]),
}


OF_INDEX = r"the index of the frame is the column '__index_level_0__': .* columns='!__index_level_(0__|\*)'"


def values(value: torch.Tensor | fr.Jagged) -> list[Any]:
    """What a user sees of it."""
    if isinstance(value, fr.Jagged):
        return value.to_strings() if value.kind == "string" else value.to_list()
    return value.tolist()


@each_of(("frame", "schema", "expected"), FRAMES.values())
def test_a_frame_comes_as_its_columns(
    tmp_path: Path, frame: pd.DataFrame, schema: str, expected: dict[str, Any]
) -> None:
    frame.to_parquet(tmp_path / "x.parquet")
    has_index = "__index_level_" in schema
    with pytest.warns(UserWarning, match=OF_INDEX) if has_index else contextlib.nullcontext():
        dataset = fr.ParquetDataset(tmp_path, batch_size=len(frame))
    assert str(dataset.schema) == schema
    assert {name: values(value) for name, value in dataset.peek().items()} == expected


@each_of(("column", "fill", "expected"), WITH_NULLS.values())
def test_a_missing_value_is_a_null_and_the_error_has_what_to_write(
    tmp_path: Path, column: Any, fill: Any, expected: list[Any]
) -> None:
    pd.DataFrame({"x": column}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(fr.DataError, match=r"\.mask_null\(\) or \.fill_null\(value\).*'x'.*x\.parquet"):
        list(fr.ParquetDataset(tmp_path, batch_size=2))
    filled = fr.ParquetDataset(tmp_path, batch_size=2, columns=fr.col("x").fill_null(fill)).peek()["x"]
    assert values(filled) == expected
    masked = fr.ParquetDataset(tmp_path, batch_size=2, nulls="mask").peek()
    mask = masked["x"].valid if isinstance(masked["x"], fr.Jagged) else masked["x_valid"]
    assert mask.tolist() == [True, False]


def test_the_index_is_left_out_by_its_name(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1, 2]}, index=pd.Index([5, 6])).to_parquet(tmp_path / "x.parquet")
    for columns in (["*", "!__index_level_*"], "!__index_level_0__", ["x"]):
        dataset = fr.ParquetDataset(tmp_path, batch_size=2, columns=columns)
        assert list(dataset.schema) == ["x"]


def test_the_index_is_warned_of_where_a_pattern_delivers_it(tmp_path: Path) -> None:
    """Before, ArrowDataset warned of the frame, and a stack of all columns of its file had the index."""
    frame = pd.DataFrame({"x": [1, 2]}, index=pd.Index([5, 6]))
    frame.to_parquet(tmp_path / "x.parquet")
    for source in (fr.ParquetDataset, lambda _, **asked: fr.ArrowDataset(frame, **asked)):
        for columns in (None, "*", ["x", fr.col("__index*").clip(0, 1)], fr.stack("*"), [fr.stack("!x")]):
            with pytest.warns(UserWarning, match=OF_INDEX) as warned:
                source(tmp_path, batch_size=2, columns=columns)
            assert len(warned) == 1
        for columns in ("x", "!__index_level_0__", "__index_level_0__", fr.stack("x", "__index_level_0__")):
            dataset = source(tmp_path, batch_size=1, columns=columns, filter=fr.col("__index_level_0__") > 5)
            assert len(dataset) == 1


def test_a_column_that_is_all_null_is_told_with_what_masks_it(tmp_path: Path) -> None:
    pd.DataFrame({"x": [1, 2], "s": [None, None]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(fr.DataError, match=r"\['\*', fr.col\('s'\).mask_null\(\)\] masks its nulls \("):
        fr.ParquetDataset(tmp_path, batch_size=2)
    dataset = fr.ParquetDataset(tmp_path, batch_size=2, columns=["*", fr.col("s").mask_null()])
    assert dataset.peek()["s_valid"].tolist() == [False, False]
    # Another file tells the type.
    pd.DataFrame({"x": [3, 4], "s": ["a", "b"]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(fr.DataError, match=r"fr.col\('s'\).mask_null\(\)\] masks its nulls"):
        fr.ParquetDataset(tmp_path, batch_size=2)
    batch = fr.ParquetDataset(tmp_path, batch_size=4, columns=["x", fr.col("s").fill_null("")]).peek()
    assert batch["s"].to_strings() == ["", "", "a", "b"]


def test_a_linear_model_learns_from_what_pandas_writes_with_one_error_on_the_way(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for shard in range(2):
        x = rng.normal(size=200)
        y = (x > 0).astype(np.int64)
        gone = np.full(200, shard == 1) | (rng.random(200) < 0.2)
        texts = pd.array(["even", None] * 100, dtype="string")
        index = pd.Index(rng.permutation(200))
        frame = pd.DataFrame({"x": x, "age": np.where(gone, np.nan, 30.0), "t": texts, "y": y}, index=index)
        frame.to_parquet(tmp_path / f"{shard}.parquet")
    with pytest.raises(fr.DataError, match=r"fill_null\(value\).*'age'"):
        list(fr.ParquetDataset(tmp_path, batch_size=20, columns=["x", "age", "y"]))
    inputs = fr.stack(fr.col("x", "age").cast(torch.float32).fill_null(0), name="inputs")
    columns = [inputs, fr.col("y").cast(torch.float32)]
    model = torch.nn.Linear(2, 1)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    losses = []
    for batch in fr.ParquetDataset(tmp_path, batch_size=20, columns=columns, shuffle=True):
        found = model(batch["inputs"]).squeeze(1)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(found, batch["y"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
