"""`.raw()`: values of one length as the bytes that the file holds, alone and in lists."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr


def write(path: Path, kind: pa.DataType, rows: list[Any]) -> None:
    """Write the rows as a column `x`, beside their numbers."""
    pq.write_table(pa.table({"row": np.arange(len(rows)), "x": pa.array(rows, kind)}), path)


def test_vectors_of_bfloat16_are_a_view(tmp_path: Path) -> None:
    vectors = torch.randn(9, 6).to(torch.bfloat16)
    write(tmp_path / "x.parquet", pa.binary(12), [bytes(row.view(torch.uint8).tolist()) for row in vectors])
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=9, columns=fr.col("x").raw())
    assert batch["x"].view(torch.bfloat16).equal(vectors)


def test_they_have_buckets(tmp_path: Path) -> None:
    write(tmp_path / "x.parquet", pa.decimal128(33, 3), [decimal.Decimal("1.5"), decimal.Decimal(-2)])
    columns = [fr.col("x").raw().hash(99).alias("raw"), fr.col("x").decimal("bytes").hash(99).alias("bytes")]
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=2, columns=columns)
    assert batch["raw"].equal(batch["bytes"])


def test_what_has_no_such_bytes_is_refused_with_its_type(tmp_path: Path) -> None:
    table = pa.table(
        {"i": [1], "t": ["a"], "l": [[1.5]], "d": pa.array([decimal.Decimal(1)], pa.decimal128(5))}
    )
    pq.write_table(table, tmp_path / "x.parquet", store_decimal_as_integer=True)
    for name, found in [("i", "int64"), ("t", "string"), ("l", "list<float64>"), ("d", r"decimal\(5, 0\)")]:
        with pytest.raises(
            fr.DataError, match=rf"\.raw\(\) takes no column of type {found}: it takes values"
        ):
            fr.ParquetDataset(tmp_path, batch_size=1, columns=fr.col(name).raw())


def test_an_order_without_a_meaning_is_refused_at_the_call() -> None:
    x = fr.col("x")
    assert repr(x.raw().mask_null()) == "fr.col('x').raw().mask_null()"
    for wrong in (
        lambda: x.raw().cast(torch.int32),
        lambda: x.raw().raw(),
        lambda: x.decimal("int64").raw(),
        lambda: x.raw().decimal("int64"),
        lambda: x.cast(torch.int32).raw(),
        lambda: x.raw().codes(),
        lambda: x.hash(9).raw(),
        lambda: x.raw().fixed(3),
    ):
        with pytest.raises(TypeError, match=r"^fr\.col\('x'\)"):
            wrong()
