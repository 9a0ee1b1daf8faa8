"""The process that imports a loader once, and forks each rank of each life of a job from itself.

It reads requests as lines of JSON. Each forked process writes into a pipe of its own: its number, what was
asked for, and how it ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pickle
import signal
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from beside.job import Job
from beside.loaders import LOADERS, Loader

ROUNDS = 5
LONGEST_SECONDS = 1_800
"""After which a rank ends that waits to be killed by a process that is gone."""


def read(loader: Loader, request: dict[str, Any], tell: Callable[[object], None]) -> None:
    """Tell the ids of each batch; save the state after one of them, and wait to be killed after another."""
    job = Job(**request["job"])
    states = [pickle.loads(Path(path).read_bytes()) for path in request["states"]]  # noqa: S301  (its own)
    reading = loader.open(job, states)
    for number, ids in enumerate(reading.batches, 1):
        if number == request["save_after"]:
            Path(request["state"]).write_bytes(pickle.dumps(reading.state()))
        tell({"ids": [int(row) for row in ids]})
        if number == request["stop_after"]:
            signal.pause()


def timed(loader: Loader, request: dict[str, Any], tell: Callable[[object], None]) -> None:
    """Tell the seconds to the first batch after a resume, over those of a fresh start, taken in turns."""
    job = Job(**request["job"])
    reading = loader.open(job, [])
    for _ in range(request["save_after"]):
        next(reading.batches)
    state = pickle.dumps(reading.state())
    reading.close()
    ratios = []
    for number in range(ROUNDS + 1):
        seconds = []
        for states in ([], [pickle.loads(state)]):  # noqa: S301
            del reading
            gc.collect()
            began = time.perf_counter()
            reading = loader.open(job, states)
            next(reading.batches)
            seconds.append(time.perf_counter() - began)
            reading.close()
        if number:
            ratios.append(seconds[1] / seconds[0])
    tell({"ratio": statistics.median(ratios)})


def write(loader: Loader, request: dict[str, Any], tell: Callable[[object], None]) -> None:
    """Write the rows as this loader reads them."""
    loader.write(request["directory"])
    tell({})


def child(request: dict[str, Any]) -> None:
    """All that a forked process does."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.alarm(LONGEST_SECONDS)
    with Path(request["told"]).open("w", buffering=1) as pipe:

        def tell(what: object) -> None:
            pipe.write(json.dumps(what) + "\n")

        tell({"pid": os.getpid()})
        try:
            {"read": read, "timed": timed, "write": write}[request["what"]](
                LOADERS[request["loader"]], request, tell
            )
            tell({"end": True})
        except BaseException as error:  # noqa: BLE001  (what it refuses is told)
            traceback.print_exc()
            tell({"error": type(error).__name__, "says": str(error)})


def main() -> None:
    warnings.simplefilter("ignore")
    for module in LOADERS[sys.argv[1]].imports:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            os.setsid()
            child(json.loads(line))
            os._exit(0)


if __name__ == "__main__":
    main()
