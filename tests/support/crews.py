"""Loaders with worker processes, over 211 rows in 21 batches."""

from __future__ import annotations

from typing import Any

import fastresume as fr
from support.strategies import Dataset

ROWS = 211
BATCH = 10
STEPS = ROWS // BATCH


def make(data: Dataset, **how: Any) -> fr.ParquetDataset:
    """The dataset of these files."""
    return fr.ParquetDataset(data.directory, **{"batch_size": BATCH, **how})


def in_workers(dataset: fr.ParquetDataset, num_workers: int = 2, **how: Any) -> fr.Loader:
    """A loader with workers, forked ones unless it is said otherwise."""
    return fr.Loader(dataset, num_workers=num_workers, **{"multiprocessing_context": "fork", **how})


def rows_of(batches: list[fr.Batch]) -> list[list[int]]:
    """The numbers of the rows of each batch, which are what stands in it."""
    assert all((batch["row"].numpy() == batch.rows()).all() for batch in batches)
    return [batch.rows().tolist() for batch in batches]


def states_of(batches: list[fr.Batch]) -> list[str]:
    """The state after each batch."""
    return [batch.state_dict()["fastresume"] for batch in batches]


def processes_of(loader: fr.Loader) -> list[int]:
    """The worker processes, in their order."""
    assert loader._pool is not None
    return loader._pool.processes
