"""Files of row numbers, and datasets of them on one rank."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr
from support.jobs import parallel
from support.strategies import ROW_NUMBERS, Dataset, DatasetSpec

Write = Callable[[DatasetSpec], Dataset]


def one_rank(paths: object, batch_size: int = 1, **arguments: object) -> fr.ParquetDataset:
    return fr.ParquetDataset(paths, batch_size=batch_size, **parallel(), **arguments)  # type: ignore[arg-type]


def write_rows(path: Path, rows: int = 1, *, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({ROW_NUMBERS: pa.array(range(start, start + rows), pa.int64())}), path)
    return path


def rows_of(dataset: fr.ParquetDataset) -> list[int]:
    return [row for batch in dataset for row in batch[ROW_NUMBERS].tolist()]
