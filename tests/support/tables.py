"""Tables of any kind: what is written to them, and what is read of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

import fastresume as fr


def ids(first: int, count: int, **columns: object) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), **columns})


def opened(table: Any, **options: Any) -> fr.ParquetDataset:
    options = {"batch_size": 3, "tail": "short", "nulls": "mask", "rank": 0, "world_size": 1} | options
    return fr.ParquetDataset(table, **options)


def id_list(dataset: fr.ParquetDataset) -> list[int]:
    return [value for batch in dataset for value in batch["id"].tolist()]


def rows_of(dataset: fr.ParquetDataset, names: list[str]) -> list[dict[str, Any]]:
    """All rows that are left of a pass, in the order of delivery, as Arrow has them."""
    rows = []
    for batch in dataset:
        rows += pa.Table.from_batches([batch.to_arrow()]).select(names).to_pylist()
    return rows


def in_order_of(key: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row[key] is None, row[key]))


def kept(table: Any, condition: object) -> list[int]:
    """The ids of the rows that a filter keeps."""
    try:
        dataset = opened(table, filter=condition)
    except ValueError as cause:
        if "no batch would come" not in str(cause):
            raise
        return []
    return id_list(dataset)
