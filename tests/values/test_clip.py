"""`fr.col(...).clip(low, high)`: numbers between two bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.each_of import each_of

ROWS = 3000
WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")


def numbers(kind: str) -> np.ndarray[Any, Any]:
    """Numbers over all of a type, of which some come often, its least and greatest among them."""
    draw = np.random.default_rng(len(kind))
    if kind in FLOATS:
        found = draw.normal(0, 40, ROWS).astype(kind)
        found[:4] = [np.nan, np.inf, -np.inf, -0.0]
        return found
    ends = np.iinfo(kind)
    found = draw.integers(ends.min, ends.max, ROWS, dtype=kind, endpoint=True)
    found[: ROWS // 2] = draw.integers(0, 50, ROWS // 2).astype(kind)
    found[:2] = ends.min, ends.max
    return found


def delivered(path: Path, *columns: Any) -> dict[str, Any]:
    dataset = fr.ParquetDataset(path, batch_size=ROWS, columns=list(columns), world=(0, 1))
    (batch,) = dataset
    return dict(batch)


@each_of(("kind", "dictionary"), [(kind, is_one) for kind in (*WHOLE, *FLOATS) for is_one in (True, False)])
def test_numbers_of_each_type_are_those_of_numpy(tmp_path: Path, kind: str, dictionary: bool) -> None:
    values = numbers(kind)
    lists = [values[row : row + row % 4] for row in range(ROWS)]
    table = pa.table({"x": values, "nulls": pa.array(values, mask=np.arange(ROWS) % 3 == 0), "l": lists})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, use_dictionary=dictionary, row_group_size=1000)
    for low, high in ((3, 40), (None, 17), (9, None), (5, 5)):
        clip = {"low": low, "high": high}
        found = delivered(
            path,
            fr.col("x").clip(**clip),
            fr.col("nulls").clip(**clip).fill_null(100),
            fr.col("l").clip(**clip),
            fr.col("x").clip(**clip).cast(torch.float32, rounding=True).alias("cast"),
            fr.stack(fr.col("x").clip(**clip), name="stack"),
        )
        expected = np.clip(values, low, high)
        np.testing.assert_array_equal(found["x"].numpy(), expected)
        np.testing.assert_array_equal(found["stack"].numpy()[:, 0], expected)
        with_fill = np.where(np.arange(ROWS) % 3 == 0, np.array(100, kind), expected)
        np.testing.assert_array_equal(found["nulls"].numpy(), with_fill)
        np.testing.assert_array_equal(found["l"].values.numpy(), np.clip(np.concatenate(lists), low, high))
        np.testing.assert_array_equal(found["cast"].numpy(), expected.astype(np.float32))


def test_a_clip_comes_before_a_cast_which_then_has_no_misfits(tmp_path: Path) -> None:
    values = numbers("int64")
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet")
    for column in (
        fr.col("x").clip(-128, 127).cast(torch.int8),
        fr.col("x").cast(torch.int8).clip(-128, 127),
    ):
        found = delivered(tmp_path / "x.parquet", column)["x"]
        np.testing.assert_array_equal(found.numpy(), np.clip(values, -128, 127).astype(np.int8))
    rounded = fr.col("x").clip(high=(1 << 24) + 1).cast(torch.float32, rounding=True)
    found = delivered(tmp_path / "x.parquet", rounded)["x"]
    np.testing.assert_array_equal(found.numpy(), np.minimum(values, (1 << 24) + 1).astype(np.float32))
    with pytest.raises(fr.DataError, match="does not fit int8"):
        delivered(tmp_path / "x.parquet", fr.col("x").clip(high=127).cast(torch.int8))


def test_files_of_several_types_and_values_of_paths_are_clipped_as_the_type_of_all(tmp_path: Path) -> None:
    parts = [("int32", 7), ("int64", -2)]
    for kind, day in parts:
        directory = tmp_path / f"day={day}"
        directory.mkdir()
        pq.write_table(pa.table({"x": numbers("int32").astype(kind)}), directory / "x.parquet")
    dataset = fr.ParquetDataset(
        str(tmp_path / "*/x.parquet"),
        batch_size=2 * ROWS,
        columns=[fr.col("x").clip(0, 30), fr.col("day").from_path().clip(0, 5)],
        world=(0, 1),
    )
    (found,) = dataset
    batch: dict[str, Any] = dict(found)
    both = np.concatenate([numbers("int32"), numbers("int32")])
    np.testing.assert_array_equal(batch["x"].numpy(), np.clip(both, 0, 30))
    assert sorted(set(batch["day"].tolist())) == [0, 5]


def test_what_no_clip_means_is_refused(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"x": [1, 2], "text": ["a", "b"], "truth": [True, False]}), tmp_path / "x.parquet"
    )
    column = fr.col("x")
    for given, message in (
        ((), "takes a bound, as"),
        ((3, 2), "the first at most the second, found 3 and 2"),
        ((float("nan"),), "found nan and None"),
        (("a",), "must be a number"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            column.clip(*given)
    wrongs: list[Callable[[], object]] = [
        lambda: column.clip(0).clip(1),
        lambda: column.hash(10).clip(0, 5),
        lambda: column.clip(0, 5).hash(10),
        lambda: column.clip(0).codes(),
        lambda: column.raw().clip(0),
        lambda: column.clip(0).split(","),
    ]
    for wrong in wrongs:
        with pytest.raises(TypeError, match=r"said already|has no meaning|what it gives are texts"):
            wrong()
    with pytest.raises(ValueError, match=r"the bound 0\.5 does not fit, the column is int64"):
        delivered(tmp_path / "x.parquet", column.clip(0.5))
    for name in ("text", "truth"):
        with pytest.raises(fr.DataError, match=r"\.clip\(\) takes no column of type .* integers, floats"):
            delivered(tmp_path / "x.parquet", fr.col(name).clip(0))


def test_it_prints_as_the_code_that_makes_it() -> None:
    for column, text in (
        (fr.col("x").clip(0, 9), "fr.col('x').clip(0, 9)"),
        (fr.col("x").clip(-1.5), "fr.col('x').clip(-1.5)"),
        (fr.col("x").cast(torch.int8).clip(high=9), "fr.col('x').clip(high=9).cast(torch.int8)"),
    ):
        assert repr(column) == text
        assert eval(text, {"fr": fr, "torch": torch}).equals(column)  # noqa: S307  (written above)
