"""Jobs for which memory runs out, in a process that has preloaded no_memory.c.

`python -m support.no_memory FILE JOB STRIDE` forks a job for each large request of the core (or for one of so
many), which the system refuses, or all from it on. It prints as JSON what came of those that died, say.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import fastresume as fr
from fastresume.audit.verify import audit

SOURCE = Path(__file__).with_name("no_memory.c")
LEAST_BYTES = 64 << 10
"""Less is always given: the core holds memory back for what is small."""

ALONE = {"batch_size": 2000, "rank": 0, "world_size": 1}


def read(batches: Iterable[fr.Batch]) -> None:
    """Read a pass."""
    for _ in batches:
        pass


def dataset(path: str, **how: Any) -> fr.ParquetDataset:
    """A dataset of one rank."""
    return fr.ParquetDataset(path, **{**ALONE, **how})


NUMBERS = np.random.default_rng(7).integers(0, 30_000, 9000)
"""Rows in mixed order, some of them more than once."""

CHOSEN = np.arange(30_000) % 2 == 0
"""As many ranges of rows as there can be."""


def mixed(path: str) -> None:
    """Read a pass of a mixture of two sources."""
    sources = {"a": (dataset(path, shuffle=True), 0.7), "b": (dataset(path), 0.3)}
    read(fr.Mixture(sources, **ALONE))


def opened_again(path: str, **kept: str) -> None:
    """Open by what is kept of a first opening, and read."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {name: str(Path(folder, file)) for name, file in kept.items()}
        for _ in range(2):
            dataset(path, filter=fr.col("u").isin(["777 is the text", "9 is the text"]), tail="pad", **caches)


def audited(path: str) -> None:
    """Read a shuffled pass that is logged, and prove it."""
    with tempfile.TemporaryDirectory() as folder:
        with fr.Loader(dataset(path, shuffle=True), audit=folder) as loader:
            read(loader)
        assert audit(Path(folder)).problems == 0


def by_workers(path: str) -> None:
    """Read a pass by worker processes, which have inherited what refuses memory."""
    with fr.Loader(dataset(path, shuffle=True), num_workers=2) as loader:
        read(loader)


JOBS: dict[str, Callable[[str], None]] = {
    "plain": lambda path: read(dataset(path)),
    "codes": lambda path: read(dataset(path, columns=[fr.col("u").codes()])),
    "filter": lambda path: read(dataset(path, filter=fr.col("n") < 20_000)),
    "filter by evidence": lambda path: read(dataset(path, filter=fr.col("u") > "777", tail="pad")),
    "shuffled": lambda path: read(dataset(path, shuffle=True)),
    "shuffled, by threads": lambda path: read(fr.Loader(dataset(path, shuffle=True), threads=2)),
    "rows": lambda path: read([dataset(path).read_rows(NUMBERS)]),
    "chosen rows": lambda path: read(dataset(path, rows=CHOSEN)),
    "batch_at": lambda path: read([dataset(path, shuffle=True).batch_at(0, 7)]),
    "packed": lambda path: read(dataset(path, batch_size=20, unit=fr.Packed("l", length=129))),
    "packed, shuffled": lambda path: read(
        dataset(path, batch_size=20, shuffle=True, unit=fr.Packed("l", length=129))
    ),
    "bins": lambda path: read(dataset(path, batch_size=20, unit=fr.Bins("l", cost=129))),
    "map": lambda path: read(dataset(path).map(lambda batch: batch)),
    "mixture": mixed,
    "manifest cache": lambda path: opened_again(path, manifest_cache="manifest"),
    "filter cache": lambda path: opened_again(path, filter_cache="filter"),
    "audit": audited,
    "workers": by_workers,
}


def came_of(job: Callable[[str], None], path: str, request: int, lasts: bool) -> tuple[int, str]:
    """How many large requests a job made, and what came of it; -1 of one that died."""
    library = ctypes.CDLL(None)
    library.no_memory_count.restype = ctypes.c_long
    receiving, sending = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            armed = (b"_core.", ctypes.c_size_t(LEAST_BYTES), ctypes.c_long(request), int(lasts), 0)
            assert library.no_memory_arm(*armed)
            try:
                job(path)
                said = "whole"
            except (fr.FastresumeError, ValueError, MemoryError) as error:
                said = f"{type(error).__name__}: {error}"
            os.write(sending, json.dumps([library.no_memory_count(), said[:200]]).encode())
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving, "rb") as message:
        found = json.loads(message.read() or '[-1, "died"]')
    os.waitpid(process, 0)
    return found[0], found[1]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _path, _job, _stride = sys.argv[1], JOBS[sys.argv[2]], int(sys.argv[3])
    _count, _said = came_of(_job, _path, -1, lasts=False)
    _wrong = [] if _said == "whole" and _count > 0 else [f"without a fault: {_said}, {_count} requests"]
    for _request in range(0, _count, _stride):
        for _lasts in (False, True):
            _, _said = came_of(_job, _path, _request, _lasts)
            if _said != "whole" and "no memory" not in _said and "can't" not in _said:
                _wrong.append(f"request {_request} of {_count}, {_lasts=}: {_said}")
    print(json.dumps(_wrong))
