"""Law 11 for memory: no more of it is held than was stated, and a closed loader gives it back.

What needs a process of its own runs in a child: functions below that tests call by `child.call(function)`.
"""

from __future__ import annotations

import ast
import itertools
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.child import MIB, Child, forget_peak, peak, resident
from support.lives import in_a_fork, source_of

pytestmark = [pytest.mark.law(11), pytest.mark.processes]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 GiB in 64 files that are links to one of 16 MiB."""
    directory = tmp_path_factory.mktemp("large")
    first = directory / "00.parquet"
    bits = np.random.default_rng(0).integers(0, 2**62, 2 * MIB)
    table = pa.table({"bits": bits})
    pq.write_table(table, first, row_group_size=MIB, use_dictionary=False, compression="none")
    for index in range(1, 64):
        (directory / f"{index:02}.parquet").hardlink_to(first)
    return directory


def busy_seconds() -> float:
    """Return how long this process has computed."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def wait_for_threads() -> None:
    """Return when this process has stopped computing: all that is decoded ahead is there."""
    last = -1.0
    while busy_seconds() - last > 0.02:
        last = busy_seconds()
        time.sleep(0.3)


def slowly_consumed(directory: str, batch_size: int, prefetch_bytes: int) -> tuple[int, int]:
    """Return what decoding ahead takes, in bytes, while nobody wants a batch and while all are read."""
    loader = fr.Loader(
        fr.ParquetDataset(directory, batch_size=batch_size), threads=2, prefetch_bytes=prefetch_bytes
    )
    forget_peak()
    before = resident()
    iterator = iter(loader)
    next(iterator)
    wait_for_threads()
    waiting = resident() - before
    for _ in itertools.islice(iterator, 200):
        time.sleep(0.001)
    return waiting, peak() - before


def measured(name: str, *arguments: Any) -> Any:
    """Return what a function here returns in a fork, whose memory nothing else has touched."""
    found = in_a_fork(lambda: globals()[name](*arguments), seconds=40, at_once=True)
    return ast.literal_eval(found["said"])


@pytest.mark.parametrize(
    ("batch_size", "prefetch"),
    [
        (1_000_000, 64 * MIB),
        (100_000, 1),
        pytest.param(10_000, 64 * MIB, marks=pytest.mark.slow),
        pytest.param(100_000, 256 * MIB, marks=pytest.mark.slow),
        pytest.param(1, MIB, marks=pytest.mark.slow),
    ],
)
def test_decoding_ahead_takes_the_memory_that_was_stated(
    child: Child, large: Path, batch_size: int, prefetch: int
) -> None:
    waiting, most = child.call(measured, "slowly_consumed", str(large), batch_size, prefetch)
    # One segment a thread comes on top, here a row group of 8 MiB, with the bytes it is decoded from.
    stated = prefetch + 2 * 2 * 8 * MIB + 8 * batch_size
    assert waiting < stated + 64 * MIB
    assert most < stated + 96 * MIB


def all_consumed(directory: str, threads: int) -> int:
    """Return by how much memory grows over a whole pass whose batches are not kept."""
    source = source_of(fr.ParquetDataset(directory, batch_size=100_000), threads)
    for _ in itertools.islice(iter(source), 100):
        pass
    forget_peak()
    before = peak()
    for _ in source:
        pass
    return peak() - before


@pytest.mark.parametrize("threads", [0, 2])
def test_memory_does_not_grow_over_a_pass(child: Child, large: Path, threads: int) -> None:
    assert child.call(measured, "all_consumed", str(large), threads) < 300 * MIB


def consumed_and_closed(directory: str) -> tuple[int, int]:
    """Return what a process keeps after many batches, and what of it after `close()`."""
    loader = fr.Loader(fr.ParquetDataset(directory, batch_size=100_000), threads=2)
    before = resident()
    iterator = iter(loader)
    for _ in itertools.islice(iterator, 100):
        pass
    wait_for_threads()
    kept = resident() - before
    loader.close()
    return kept, resident() - before


def test_a_closed_loader_gives_the_memory_of_its_batches_back(child: Child, large: Path) -> None:
    kept, after = child.call(measured, "consumed_and_closed", str(large))
    assert kept > 40 * MIB, "there is nothing to give back"
    assert after < kept / 2
