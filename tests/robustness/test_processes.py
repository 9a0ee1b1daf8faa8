"""Real processes, killed with SIGKILL at any moment: what they leave behind resumes exactly."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from pathlib import Path

import pytest
import torch

import fastresume as fr
from support.child import Child, shared_memory_files, threads
from support.killed_jobs import run_and_kill, started
from support.strategies import Dataset, plain_spec
from support.watching import in_time

pytestmark = pytest.mark.processes

ROWS = 1200


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([200, 0, 400], [350], [250]).write(tmp_path_factory.mktemp("processes"))


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
    before = shared_memory_files()
    process = started(data.directory, tmp_path, 1, how, "killed")
    assert in_time(lambda: len(list(log.glob("*.json"))) >= 2)
    tasks = Path(f"/proc/{process.pid}/task").iterdir()  # a thread of its own has started ours
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    process.kill()
    process.join()
    assert len(children) >= 2
    assert in_time(lambda: not any(is_alive(child) for child in children))
    assert in_time(lambda: shared_memory_files() <= before)


def forked_with_threads(directory: str) -> int:
    """Fork while torch has threads and a dataset its iterator; return how the fork ends."""
    torch.set_num_threads(2)
    before = threads()
    torch.ones(1 << 20).sqrt()
    assert threads() > before
    dataset = fr.ParquetDataset(directory, batch_size=8, world=(0, 1))
    first = next(iter(dataset)).rows().tolist()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if next(iter(dataset)).rows().tolist() == [row + 8 for row in first] else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_goes_on_also_where_torch_has_threads(data: Dataset) -> None:
    """The pool of threads that torch's kernels use does not survive a fork; other tests run without one."""
    with Child() as child:
        assert child.call(forked_with_threads, str(data.directory), seconds=100) == 0


def is_alive(process: str) -> bool:
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
