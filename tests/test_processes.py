"""Real processes, killed with SIGKILL at any moment: what they leave behind resumes exactly."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from child import shared_memory
from rank import replace
from strategies import Dataset, plain_spec

pytestmark = pytest.mark.processes

ROWS = 1200

ROWS_LEFT_FOR_THE_LAST = 100

TOPOLOGIES = [("threads", 7), ("2", 5), ("Loader 2", 11), ("1", 8), ("Loader 3", 3)]
"""Threads, or a number of workers of torch's DataLoader or of ours, and the batch size."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([200, 0, 400], [350], [250]).write(tmp_path_factory.mktemp("processes"))


def job(data: Path, directory: Path, batch_size: int, how: str, stop: str) -> None:
    """One run: goes on from the saved state, and saves the state after every batch.

    The log of a batch is written first and the state last, so that a kill between them leaves rows in the
    log that the state knows nothing of: those of a batch that was not delivered. A job that is to be killed
    does not finish, but waits for it.
    """
    dataset = fr.ParquetDataset(data, batch_size=batch_size)
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
    print("ready", flush=True)
    if stop == "killed" and rows_left(fr.Cursor.from_state(dataset.state_dict())) < ROWS_LEFT_FOR_THE_LAST:
        time.sleep(60)
    for batch in batches:
        assert isinstance(batch, fr.Batch)
        state = batch.state_dict()
        entry = {"rows": batch.rows().tolist(), "state": state}
        replace(directory / "log" / f"{time.monotonic_ns()}.json", entry)
        replace(saved, state)
        if stop == "killed" and rows_left(batch.cursor) < ROWS_LEFT_FOR_THE_LAST:
            time.sleep(60)
    print("done", flush=True)


def with_much_text(batch: fr.Batch) -> fr.Batch:
    """A transform whose values fill the pipe of a worker, which then waits for somebody who reads."""
    values: Any = batch
    values["text"] = "x" * 100_000
    return batch


def rows_left(cursor: fr.Cursor) -> int:
    return cursor.num_rows - cursor.consumed_rows


def torch_loader(dataset: fr.ParquetDataset, workers: int) -> Iterable[object]:
    from torch.utils.data import DataLoader

    return DataLoader(dataset, batch_size=None, num_workers=workers)


def run_and_kill(data: Path, directory: Path, kills: int, chance: random.Random) -> list[int]:
    """Return the rows that a job delivered which was killed so often, each time resumed in another way.

    What counts of a run is what the state that was saved last knows of.
    """
    (directory / "log").mkdir()
    kept: list[int] = []
    for attempt in range(kills + 1):
        how, batch_size = TOPOLOGIES[attempt % len(TOPOLOGIES)] if attempt < kills else ("threads", 1)
        command = [sys.executable, __file__, str(data), str(directory), str(batch_size), how]
        command.append("killed" if attempt < kills else "finished")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            try:
                process.wait(timeout=chance.uniform(0.1, 0.4) if attempt < kills else 100)
                assert process.returncode == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        logged = sorted((directory / "log").glob("*.json"))
        entries = [json.loads(path.read_text()) for path in logged]
        for path in logged:
            path.unlink()
        saved = directory / "state.json"
        state = json.loads(saved.read_text()) if saved.exists() else None
        if state in (states := [entry["state"] for entry in entries]):
            kept += [row for entry in entries[: states.index(state) + 1] for row in entry["rows"]]
    return kept


@pytest.mark.law(3)
@pytest.mark.slow
def test_a_job_that_is_killed_again_and_again_delivers_each_row_once(data: Dataset, tmp_path: Path) -> None:
    kept = run_and_kill(data.directory, tmp_path, kills=4, chance=random.Random(7))
    assert [row for row, count in Counter(kept).items() if count > 1] == []
    assert len(kept) == ROWS


@pytest.mark.parametrize("how", ["2", "Loader 2"])
def test_killing_the_main_process_leaves_nothing_behind(data: Dataset, tmp_path: Path, how: str) -> None:
    """No process, though the pipes are full that workers write to, and no file in shared memory."""
    (log := tmp_path / "log").mkdir()
    before = shared_memory()
    command = [sys.executable, __file__, str(data.directory), str(tmp_path), "1", how, "killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 20
        while len(list(log.glob("*.json"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        process.kill()
    deadline = time.monotonic() + 10
    while any(is_alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(children) >= 2
    assert [child for child in children if is_alive(child)] == []
    while shared_memory() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert shared_memory() <= before


FORKED = """
import os, signal, sys
import fastresume as fr
dataset = fr.ParquetDataset(sys.argv[1], batch_size=8, rank=0, world_size=1)
first = next(iter(dataset)).rows().tolist()
child = os.fork()
if child == 0:
    signal.alarm(60)
    os._exit(0 if next(iter(dataset)).rows().tolist() == [row + 8 for row in first] else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_goes_on_also_where_torch_has_threads(data: Dataset) -> None:
    """The pool of threads that torch's kernels use does not survive a fork; other tests run without one."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", FORKED, str(data.directory)]
    assert subprocess.run(command, env=environment, check=False, timeout=100).returncode == 0


def is_alive(process: str) -> bool:
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    job(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
