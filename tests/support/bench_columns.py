"""Columns that contenders of the benchmark deliver, and the checksums of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa

from fastresume.bench.cells import cells_of
from fastresume.bench.checksum import Checksum

ROWS = 1000


def flat_columns(rows: int = ROWS) -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {
        "id": np.arange(rows),
        "small": random.integers(-100, 100, rows).astype(np.int8),
        "weight": random.normal(size=rows).astype(np.float32),
        "wide": random.normal(size=rows),
        "flag": random.random(rows) < 0.5,
        "count": random.integers(0, 2**63, rows, dtype=np.uint64),
        "other": np.arange(rows) * 7,
        "when": pa.array(np.arange(rows), pa.timestamp("ms")),
        "day": pa.array([dt.date(2026, 1, 1)] * rows),
    }


# ----------------------------------------------------------------------------------------------- the checksum

JAGGED = {
    "lists": pa.array([[1, 2], [], None, [3], [3, 4, 5]] * 4, pa.list_(pa.int64())),
    "fixed": pa.array([[1, 2], [3, 4], [5, 6], None, [9, 9]] * 4, pa.list_(pa.int32(), 2)),
    "text": pa.array(["a", "", None, "zoë", "bb"] * 4),
    "bytes": pa.array([b"a", b"", None, b"\x00\xff", b"bb"] * 4, pa.large_binary()),
    "sparse": pa.array([1, None, 3, None, 5] * 4, pa.int16()),
    "word": pa.array(["x", None, "y", "x", "x"] * 4).dictionary_encode(),
}


def sums_of(table: pa.Table, batch_rows: int = 100) -> dict[str, Any]:
    found = Checksum(table.column_names)
    for batch in table.to_batches(max_chunksize=batch_rows):
        found.add(batch.num_rows, {name: cells_of(batch[name]) for name in table.column_names})
    return found.to_json()
