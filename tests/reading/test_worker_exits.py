"""What is said of a worker's death, and what is let go of with its loader."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
import fastresume.platform
from fastresume.reading.workers import exits
from support.strategies import Dataset, plain_spec
from support.watching import in_time

pytestmark = [pytest.mark.law(11), pytest.mark.processes]

BATCH = 10


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([200]).write(tmp_path_factory.mktemp("exits"))


def in_workers(data: Dataset, **how: Any) -> fr.Loader:
    dataset = fr.ParquetDataset(data.directory, batch_size=BATCH)
    return fr.Loader(dataset, num_workers=2, multiprocessing_context="fork", **how)


def processes_of(loader: fr.Loader) -> list[int]:
    assert loader._pool is not None
    return loader._pool.processes


def is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


COUNTS = "low 0\nhigh 3\noom 2\noom_kill {}\noom_group_kill 0\n"


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose kernel has killed 1 process so far, and 4 in the group of this one."""
    group = tmp_path / "cgroup/jobs/mine"
    group.mkdir(parents=True)
    (tmp_path / "self").write_text("12:cpu:/\n0::/jobs/mine\n")
    (group / "memory.events").write_text(COUNTS.format(4))
    (tmp_path / "vmstat").write_text("nr_free_pages 7\noom_kill 1\n")
    monkeypatch.setattr(fastresume.platform, "_SELF", tmp_path / "self")
    monkeypatch.setattr(fastresume.platform, "_CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(fastresume.platform, "_MACHINE", tmp_path / "vmstat")
    return tmp_path


def test_the_death_of_a_worker_by_the_out_of_memory_killer_says_so(data: Dataset, counted: Path) -> None:
    with in_workers(data) as loader:
        iterator = iter(loader)
        next(iterator)
        (counted / "cgroup/jobs/mine/memory.events").write_text(COUNTS.format(6))
        os.kill(processes_of(loader)[0], signal.SIGKILL)
        with pytest.raises(
            fr.FastresumeError,
            match=r"worker 0 of 2 \(process \d+\) was killed by SIGKILL, it seems for want of memory: the "
            "out-of-memory killer of the system has killed 2 processes in this container since the workers "
            "started; fewer workers, smaller prefetch_bytes or smaller batches take less",
        ):
            list(iterator)


def test_who_was_killed_by_somebody_else_is_not_said_to_lack_memory(counted: Path) -> None:
    before = fastresume.platform.kills_for_memory()
    assert before == {"in this container": 4, "on this machine": 1}
    found = exits.cause(-signal.SIGKILL, before)
    assert found.startswith("was killed by SIGKILL, which was not the system's out-of-memory killer")
    (counted / "vmstat").write_text("oom_kill 2\n")
    assert "has killed a process on this machine" in exits.cause(-signal.SIGKILL, before)
    (counted / "self").write_text("7:cpu,memory:/docker/1\n")  # the first version of control groups
    (counted / "cgroup/memory/docker/1").mkdir(parents=True)
    (counted / "cgroup/memory/docker/1/memory.oom_control").write_text("under_oom 0\noom_kill 5\n")
    assert "killed a process in this container" in exits.cause(-signal.SIGKILL, before)
    (counted / "self").unlink()
    (counted / "vmstat").unlink()
    assert fastresume.platform.kills_for_memory() == {}
    assert exits.cause(-signal.SIGKILL, before) == "was killed by SIGKILL, perhaps for want of memory"
    assert exits.cause(-signal.SIGTERM, before) == "was killed by SIGTERM"
    assert exits.cause(3, before) == "ended with status 3"


def test_a_worker_that_dies_takes_the_others_along(data: Dataset) -> None:
    """Also where the loader lives on, and nobody asks it for more."""
    loader = in_workers(data)
    iterator = iter(loader)
    next(iterator)
    victim, other = processes_of(loader)
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(fr.FastresumeError, match=f"process {victim}"):
        list(iterator)
    assert in_time(lambda: not is_alive(other), 10)
    loader.close()


def blocks() -> int:
    """How many blocks of shared memory this process has mapped."""
    return Path("/proc/self/maps").read_text().count("memfd:fastresume")


@pytest.mark.parametrize("is_kept", [False, True], ids=["batches let go of", "batches kept"])
def test_a_loader_that_is_dropped_keeps_no_process_and_no_shared_memory(data: Dataset, is_kept: bool) -> None:
    gc.collect()
    before, processes = blocks(), []
    kept = []
    for _ in range(5):
        loader = in_workers(data)
        for batch in loader:
            kept.append(batch["row"])
            if batch.step == 6:
                break
        processes += processes_of(loader)
        del loader, batch
    if not is_kept:
        kept.clear()
    assert in_time(lambda: not any(is_alive(process) for process in processes), 10)
    assert in_time(lambda: blocks() <= before + len(kept), 10)
    assert [rows[0].item() for rows in kept] == [row for _ in range(5) for row in FIRST][: len(kept)]


FIRST = [0, 100, 10, 110, 20, 120, 30]
"""The first rows of the first batches of 200 rows that two workers read."""
