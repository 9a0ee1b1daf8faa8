"""`.split()`: texts that hold several values, as lists of texts, buckets or codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr


def write(path: Path, rows: list[Any], kind: pa.DataType | None = None, **how: Any) -> Path:
    """Write the rows as a column `x`, beside their numbers."""
    pq.write_table(pa.table({"row": range(len(rows)), "x": pa.array(rows, kind or pa.string())}), path, **how)
    return path


@pytest.mark.parametrize("workers", [0, 2])
def test_named_codes_of_the_values_that_a_separator_of_one_byte_parts(tmp_path: Path, workers: int) -> None:
    write(tmp_path / "x.parquet", ["7\x033\x037", "", "9"])
    columns = fr.col("x").split("\x03").codes(["7", "3"], unknown=2)
    dataset = fr.ParquetDataset(tmp_path, batch_size=3, columns=columns, world=(0, 1))
    with fr.Loader(dataset, num_workers=workers) as loader:
        (batch,) = loader
    assert batch["x"].to_list() == [[0, 1, 0], [], [2]]
    assert batch["x"].values.dtype == torch.int64
    with pytest.raises(fr.DataError, match="9"):
        list(fr.ParquetDataset(tmp_path, batch_size=3, columns=fr.col("x").split("\x03").codes(["7", "3"])))


def test_binary_values_are_split_by_bytes(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", [b"\xff\0\xfe", None], pa.binary())
    columns = fr.col("x").split(b"\0").mask_null()
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=2, columns=columns)
    assert batch["x"].to_bytes() == [[b"\xff", b"\xfe"], None]


def test_files_that_lack_it_or_hold_nulls_alone_agree(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", ["a,b"])
    write(tmp_path / "b.parquet", [None], pa.null())
    pq.write_table(pa.table({"row": [0]}), tmp_path / "c.parquet")
    for made in (fr.col("x").split(","), fr.col("x").split(",").codes()):
        columns = made.optional().mask_null()
        (batch,) = fr.ParquetDataset(tmp_path, batch_size=3, columns=columns)
        found = batch["x"].to_strings() if batch["x"].depth == 2 else batch["x"].to_list()
        assert found in ([["a", "b"], None, None], [[0, 1], None, None])


def test_what_holds_no_texts_is_refused_with_its_type(tmp_path: Path) -> None:
    pq.write_table(pa.table({"i": [1], "l": [["a"]]}), tmp_path / "x.parquet")
    for name, found in (("i", "int64"), ("l", "list<string>")):
        with pytest.raises(
            fr.DataError, match=rf"\.split\(\) takes no column of type {found}: it takes texts"
        ):
            fr.ParquetDataset(tmp_path, batch_size=1, columns=fr.col(name).split(","))
    write(tmp_path / "x.parquet", ["a"])
    with pytest.raises(fr.DataError, match=r"\.pad\(\) takes no column of type list<string>"):
        fr.ParquetDataset(tmp_path, batch_size=1, columns=fr.col("x").split(",").pad(2))


def test_an_order_without_a_meaning_is_refused_at_the_call() -> None:
    x = fr.col("x")
    assert repr(x.split("\x03").hash(9).pad(3)) == "fr.col('x').split('\\x03').hash(9).pad(3)"
    for wrong in (
        lambda: x.hash(9).split(","),
        lambda: x.codes().split(","),
        lambda: x.pad(3).split(","),
        lambda: x.split(",").split(","),
        lambda: x.split(",").cast(torch.int64),
        lambda: x.split(",").fixed(2),
        lambda: x.split(",").raw(),
        lambda: x.split(3),
    ):
        with pytest.raises(TypeError, match=r"fr\.col\('x'\)"):
            wrong()
    with pytest.raises(ValueError, match="takes the text between values, found ''"):
        x.split("")
