"""Sources to live through: a dataset or a loader, with threads or without, with a transform or without."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from support.child import WAIT_SECONDS
from support.watching import in_time

ROWS = 200
SLOW_FILES = 3000


def slow_dataset(directory: str) -> fr.ParquetDataset:
    """Return the dataset of these, a fourth of them in each batch; footers are read once for all tests."""
    cache = Path(directory).with_suffix(".cache")
    # Four rows a file.
    return fr.ParquetDataset(directory, batch_size=SLOW_FILES, cache=fr.Cache(manifest=cache))


def rows_of(batches: Any) -> list[int]:
    """Return the numbers of the rows in batches."""
    return [int(row) for batch in batches for row in batch.rows()]


def same(batch: fr.Batch) -> fr.Batch:
    """A transform that changes nothing, which runs in threads of its own under a loader."""
    return batch


def source_of(dataset: fr.ParquetDataset, threads: int, mapped: bool = False) -> Any:
    """Return what to iterate over: the dataset itself, or a loader; with a transform if `mapped`."""
    chosen = dataset.map(same) if mapped else dataset
    return fr.Loader(chosen, threads=threads) if threads else chosen


HOW = pytest.mark.parametrize(("threads", "mapped"), [(0, False), (2, False), (0, True), (2, True)])


def in_a_fork(
    work: Callable[[], object], seconds: float = WAIT_SECONDS, at_once: bool = False
) -> dict[str, Any]:
    """Return what `work` returns, or how it fails, in a forked process, and how that ends.

    It ends as any process does, objects and all, which takes torch a second; or else `at_once`.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        began = time.monotonic()
        try:
            text = repr(work())
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            text = f"{type(error).__name__}: {error}"
        os.write(write, f"{time.monotonic() - began:.3f} {text}".encode())
        if at_once:
            os._exit(0)
        sys.exit(0)
    os.close(write)
    status: list[int] = []

    def has_ended() -> bool:
        found, code = os.waitpid(pid, os.WNOHANG)
        status.extend([code] if found else [])
        return bool(found)

    ended = in_time(has_ended, seconds)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    took, _, said = os.read(read, 1 << 16).decode().partition(" ")
    os.close(read)
    return {"said": said, "seconds": took, "ended": ended and status == [0]}
