"""A dataset under torch's DataLoader or torchdata's, and the rows and states that the oracle expects."""

from __future__ import annotations

from typing import Any

import fastresume as fr
from support.oracle import OracleJob
from support.strategies import Dataset

ROWS = 211
BATCH = 10
STEPS = ROWS // BATCH


def make(data: Dataset, **how: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(data.directory, **{"batch_size": BATCH, **how})


def rows_of(batches: list[fr.Batch]) -> list[list[int]]:
    assert all((batch["row"].numpy() == batch.rows()).all() for batch in batches)
    return [batch.rows().tolist() for batch in batches]


def oracle_passes(
    dataset: fr.ParquetDataset, num_workers: int, passes: int
) -> tuple[list[list[int]], list[str]]:
    job = OracleJob(ROWS, 1, max(num_workers, 1), BATCH, fingerprint=dataset.fingerprint)
    rows: list[list[int]] = []
    states: list[str] = []
    for _ in range(passes * STEPS):
        (batch,) = job.step() or ([],)
        rows.append(batch)
        states.append(job.state())
    return rows, states
