"""Jobs for which memory runs out, in a process that has preloaded no_memory.c.

`python -m support.no_memory FILE JOB STRIDE` forks a job for each large request of the core (or for one of so
many), which the system refuses, or all from it on. It prints as JSON what came of those that died, say.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fastresume as fr

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


JOBS: dict[str, Callable[[str], None]] = {
    "plain": lambda path: read(dataset(path)),
    "codes": lambda path: read(dataset(path, columns=[fr.col("u").codes()])),
    "filter": lambda path: read(dataset(path, filter=fr.col("n") < 20_000)),
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
    with os.fdopen(receiving, "rb") as told:
        found = json.loads(told.read() or '[-1, "died"]')
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
