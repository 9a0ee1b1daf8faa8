"""Files whose columns are cast, and what is read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

import fastresume as fr


def write(path: Path, how: dict[str, Any] | None = None, **columns: Any) -> Path:
    """Write a file of these columns, in row groups of 10 rows."""
    pq.write_table(pa.table(columns), path, row_group_size=10, **(how or {}))
    return path


def open_dataset(path: Path, columns: Any, **arguments: Any) -> fr.ParquetDataset:
    """The dataset of some files, in batches of 7."""
    return fr.ParquetDataset(path, columns=columns, **{"batch_size": 7, "tail": "short", **arguments})


def read(path: Path, columns: Any, name: str = "x", **arguments: Any) -> torch.Tensor:
    """All values of a column, in the order of the rows."""
    found = [batch[name] for batch in open_dataset(path, columns, **arguments)]
    return torch.cat([value.values if isinstance(value, fr.Jagged) else value for value in found])
