"""Integers that a cast does not hold are told when a dataset is made, from what footers say."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import fastresume as fr
from support.each_of import each_of

EXACT = {
    torch.bool: (0, 1),
    torch.bfloat16: (-(2**8), 2**8),
    torch.float16: (-(2**11), 2**11),
    torch.float32: (-(2**24), 2**24),
    torch.float64: (-(2**53), 2**53),
    **{
        dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16)
    },
    torch.uint32: (0, 2**32 - 1),
    torch.uint64: (0, 2**64 - 1),
}
"""The first and the last integer, all between which a dtype holds."""


def write(path: Path, *groups: pa.Array, **how: Any) -> Path:
    """Write a file of one column, each array of which is a row group."""
    with pq.ParquetWriter(path, pa.schema([("x", groups[0].type)]), **how) as writer:
        for group in groups:
            writer.write_table(pa.table({"x": group}))
    return path


def warned(path: Path | list[Path], column: Any, **arguments: Any) -> list[str]:
    """What a dataset of the column says when it is made."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fr.ParquetDataset(path, batch_size=1, columns=column, **arguments)
    return [str(one.message) for one in caught]


def in_lists(values: list[int], kind: pa.DataType) -> pa.Array:
    """Lists of one integer each."""
    return pa.array([[value] for value in values], pa.list_(kind))


@each_of("dtype", EXACT)
@each_of("stored", ["int8", "uint16", "int32", "uint32", "int64", "uint64"])
@each_of("form", [pa.array, in_lists])
def test_the_bounds_of_every_type_decide_and_no_row_is_read(
    tmp_path: Path, dtype: torch.dtype, stored: str, form: Any
) -> None:
    own = np.iinfo(stored)
    for bound, one in zip(EXACT[dtype], (-1, 1), strict=True):
        for integer in (bound, bound + one):
            if not own.min <= integer <= own.max:
                continue
            kind = pa.type_for_alias(stored)
            path = write(tmp_path / "x.parquet", form([0, 1], kind), form([integer, 1], kind))
            said = warned(path, fr.col("x").cast(dtype))
            assert len(said) == (integer != bound), (said, integer)
            if said:
                assert f"footers show {integer} in the column 'x' (file '{path}')" in said[0]
                name = str(dtype).removeprefix("torch.")
                assert f".cast(torch.{name}, rounding=True)" in said[0] or not dtype.is_floating_point


def test_the_file_with_the_greatest_integer_is_named_and_the_advice_holds_it(tmp_path: Path) -> None:
    for number, greatest in enumerate((3, 2**60, 2**30)):
        write(tmp_path / f"{number}.parquet", pa.array([0, greatest]))
    (said,) = warned([tmp_path], fr.col("x").cast(torch.float32).alias("y"))
    assert said == (
        "fr.col('x').cast(torch.float32).alias('y'): footers show 1152921504606846976 in the column 'x' "
        f"(file '{tmp_path / '1.parquet'}'), and float32 does not hold every integer beyond 16777216. A row "
        "with one that it does not hold will be a DataError: .cast(torch.int64) holds it, and "
        ".cast(torch.float32, rounding=True) takes the nearest"
    )
    assert not warned([tmp_path], fr.col("x").cast(torch.int64))
    assert not warned([tmp_path], fr.col("x").cast(torch.float32, rounding=True))
    assert not warned([tmp_path], "x")
    (said,) = warned([tmp_path], fr.stack(fr.col("x").cast(torch.float64), name="y"))
    assert "float64 does not hold every integer beyond 9007199254740992" in said


def test_what_no_footer_tells_is_not_told(tmp_path: Path) -> None:
    column = fr.col("x").cast(torch.int8)
    assert not warned(write(tmp_path / "a.parquet", pa.array([300]), write_statistics=False), column)
    assert not warned(write(tmp_path / "b.parquet", pa.array([300.0])), column)
    assert not warned(write(tmp_path / "c.parquet", pa.array([None, None], pa.int64())), column.mask_null())


def test_a_manifest_cache_tells_it_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pa.array([300]))
    how = {"cache": fr.Cache(manifest=tmp_path / "manifest")}
    first, again = (warned(path, fr.col("x").cast(torch.int8), **how) for _ in range(2))
    assert first == again
    assert "int8 ends at 127" in first[0]
