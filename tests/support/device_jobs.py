"""Datasets whose batches are copied to a device, and how they are read."""

from __future__ import annotations

from typing import Any

import pytest

import fastresume as fr
from support.jobs import assert_same_batch, make
from support.strategies import Dataset

SHUFFLED: dict[str, Any] = {"shuffle": True, "seed": 3, "block_rows": 700, "window_rows": 2100}
ORDERS = pytest.mark.parametrize("order", [{}, SHUFFLED], ids=["plain", "shuffled"])
MAPPED = pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])
BATCH = 600
"""Rows of so many bytes that the memory of a batch is used again."""

HOW: list[Any] = [
    pytest.param({"threads": 0}, id="in the caller's thread"),
    pytest.param({"threads": 1}, id="1 thread"),
    pytest.param({"threads": 4}, id="4 threads"),
    pytest.param(
        {"num_workers": 2, "multiprocessing_context": "fork"}, id="2 workers", marks=pytest.mark.processes
    ),
]
THREADS = HOW[:3]


def made(files: Dataset, mapped: bool = False, **arguments: Any) -> fr.ParquetDataset:
    groups = {"lanes": 2, "groups": 2}
    dataset = make(files, BATCH, **{"nulls": "mask", **groups, **arguments})
    return dataset.map(changed) if mapped else dataset


def changed(batch: fr.Batch) -> dict[str, Any]:
    """Tensors of new memory, and others."""
    return {**batch, "twice": batch["weight"] * 2, "every_other": batch["weight"][::2], "note": "a text"}


def assert_same(one: fr.Batch, other: fr.Batch) -> None:
    """Assert that two batches are equal, the text beside the tensors, too."""
    assert one.get("note") == other.get("note")
    plain = [
        fr.Batch({k: v for k, v in batch.items() if k != "note"}, batch._origin) for batch in (one, other)
    ]
    assert_same_batch(*plain)


def in_order(batches: list[fr.Batch]) -> None:
    assert [batch.step for batch in batches] == list(range(len(batches)))
