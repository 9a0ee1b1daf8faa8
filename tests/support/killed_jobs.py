"""A job in a process of its own that is killed at any moment, and the rows that it delivered.

The process is a fork: it need not import torch again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
import warnings
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import fastresume as fr
from support.rank import replace

ROWS_LEFT_FOR_THE_LAST = 100

TOPOLOGIES = [("threads", 7), ("2", 5), ("Loader 2", 11), ("1", 8), ("Loader 3", 3)]
"""Threads, or a number of workers of torch's DataLoader or of ours, and the batch size."""


Rows = Path | Callable[[int], fr.ArrowDataset]
"""Files, or what makes a dataset of a batch size."""


def job(data: Rows, directory: Path, batch_size: int, how: str, stop: str, ready: Connection) -> None:
    """One run: goes on from the saved state, and saves the state after every batch.

    The log of a batch is written first and the state last, so that a kill between them leaves rows in the
    log that the state knows nothing of: those of a batch that was not delivered. A job that is to be killed
    does not finish, but waits for it.
    """
    os.setsid()  # its processes are killed together
    warnings.simplefilter("ignore")
    dataset = data(batch_size) if callable(data) else fr.ParquetDataset(data, batch_size=batch_size)
    saved = directory / "state.json"
    if saved.exists():
        dataset.load_state_dict(json.loads(saved.read_text()))
    batches: Iterable[object]
    if how == "threads":
        batches = fr.Loader(dataset, threads=2)
    elif how.startswith("Loader "):
        batches = fr.Loader(dataset.map(with_much_text), num_workers=int(how.removeprefix("Loader ")))
    else:
        batches = torch_loader(dataset, int(how))
    ready.send(None)
    if stop == "killed" and rows_left(fr.Cursor.from_state(dataset.state_dict())) < ROWS_LEFT_FOR_THE_LAST:
        signal.pause()
    for batch in batches:
        assert isinstance(batch, fr.Batch)
        state = batch.state_dict()
        entry = {"rows": batch.rows().tolist(), "state": state}
        replace(directory / "log" / f"{time.monotonic_ns()}.json", entry)
        replace(saved, state)
        if stop == "killed" and rows_left(batch.cursor) < ROWS_LEFT_FOR_THE_LAST:
            signal.pause()


def with_much_text(batch: fr.Batch) -> fr.Batch:
    """A transform whose values fill the pipe of a worker, which then waits for somebody who reads."""
    values: Any = batch
    values["text"] = "x" * 100_000
    return batch


def rows_left(cursor: fr.Cursor) -> int:
    return cursor.num_rows - cursor.consumed_rows


def torch_loader(dataset: Any, workers: int) -> Iterable[object]:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=workers)


def started(data: Rows, directory: Path, batch_size: int, how: str, stop: str) -> BaseProcess:
    """Start `job` in a process of its own, and wait until it is about to read."""
    context = multiprocessing.get_context("fork")
    found, ready = context.Pipe(duplex=False)
    process = context.Process(target=job, args=(data, directory, batch_size, how, stop, ready))
    process.start()
    ready.close()  # whoever waits hears of its end
    with found:
        assert found.poll(60), "the job hangs"
        found.recv()
    return process


def run_and_kill(data: Rows, directory: Path, kills: int, chance: random.Random) -> list[int]:
    """Return the rows that a job delivered which was killed so often, each time resumed in another way.

    What counts of a run is what the state that was saved last knows of.
    """
    (directory / "log").mkdir()
    kept: list[int] = []
    for attempt in range(kills + 1):
        how, batch_size = TOPOLOGIES[attempt % len(TOPOLOGIES)] if attempt < kills else ("threads", 1)
        stop = "killed" if attempt < kills else "finished"
        process = started(data, directory, batch_size, how, stop)
        process.join(chance.uniform(0.1, 0.4) if attempt < kills else 100)
        if process.exitcode is None:
            assert attempt < kills, "the last job hangs"
            os.killpg(process.pid or 0, signal.SIGKILL)
            process.join()
        else:
            assert process.exitcode == 0
        logged = sorted((directory / "log").glob("*.json"))
        entries = [json.loads(path.read_text()) for path in logged]
        for path in logged:
            path.unlink()
        saved = directory / "state.json"
        state = json.loads(saved.read_text()) if saved.exists() else None
        if state in (states := [entry["state"] for entry in entries]):
            kept += [row for entry in entries[: states.index(state) + 1] for row in entry["rows"]]
    return kept
