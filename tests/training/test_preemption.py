"""A job that is told to end: real signals to real ranks, and to all of their process group."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

import fastresume as fr
from fastresume.reading.workers import process as worker_process
from fastresume.reading.workers import worker
from fastresume.training import INTERRUPTED, RESUMABLE, Preemption
from support.forks import join
from support.strategies import Dataset
from support.watching import in_time

pytestmark = pytest.mark.processes

SECONDS = 60.0


def wait_until(is_so: Callable[[], bool]) -> None:
    assert in_time(is_so, SECONDS), "it does not come to that"


def is_pending(process: BaseProcess, number: signal.Signals) -> bool:
    """Whether a signal was sent to a process that its handler has not seen yet."""
    status = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    pending = [int(line.split()[1], 16) for line in status if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in pending)


class Ranks:
    """Forked processes of one gloo group, in one process group of their own, each with a log of steps."""

    def __init__(self, directory: Path, world_size: int, work: Callable[..., None], *arguments: Any) -> None:
        directory.mkdir(exist_ok=True)
        self.logs = [directory / f"{rank}.log" for rank in range(world_size)]
        context = multiprocessing.get_context("fork")
        self.processes: list[BaseProcess] = []
        for rank in range(world_size):
            leader = self.processes[0].pid if rank else 0
            place = (rank, world_size, directory, leader)
            process = context.Process(target=begin_rank, args=(*place, work, *arguments))
            process.start()
            self.processes.append(process)
            wait_until(lambda path=self.logs[rank]: path.exists())

    def steps(self, rank: int) -> list[Any]:
        return [json.loads(line) for line in self.logs[rank].read_text().splitlines()]

    def exit_codes(self) -> list[int | None]:
        for process in self.processes:
            process.join(SECONDS)
        return [process.exitcode for process in self.processes]

    def kill(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()


def begin_rank(
    rank: int, world_size: int, directory: Path, leader: int, work: Callable[..., None], *arguments: Any
) -> None:
    os.setpgid(0, leader)
    with (directory / f"{rank}.log").open("a", buffering=1) as log:
        join(directory / "store", rank, world_size)
        work(rank, directory, lambda line: log.write(json.dumps(line) + "\n"), *arguments)


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Callable[..., Ranks]]:
    made: list[Ranks] = []

    def make(name: str, *arguments: Any) -> Ranks:
        made.append(Ranks(tmp_path / name, *arguments))
        return made[-1]

    yield make
    for each in made:
        each.kill()


def slowed(batch: fr.Batch) -> fr.Batch:
    """A transform that takes its time, so that a signal finds workers in the midst of it."""
    time.sleep(0.01)
    return batch


def train(
    rank: int, directory: Path, log: Callable[[object], object], files: list[str], every: int, workers: int
) -> None:
    """Trains passes without end, from a checkpoint if there is one, until it is told to end."""
    dataset = fr.ParquetDataset(files, batch_size=4, columns="i_1", groups=2)
    loader = fr.Loader(dataset.map(slowed), **({"num_workers": workers} if workers else {"threads": 1}))
    checkpoint = directory / "checkpoint.json"
    if checkpoint.exists():
        loader.load_state_dict(json.loads(checkpoint.read_text()))
    with Preemption(every=every) as preemption, loader:
        while True:
            for batch in loader:
                sum_of_ranks = torch.tensor([rank + 1])
                dist.all_reduce(sum_of_ranks)
                log([batch.epoch, batch.step, batch.rows().tolist()])
                if preemption.is_due():
                    children = [child.is_alive() for child in multiprocessing.active_children()]
                    assert children == [True] * workers, "the workers are as they were"
                    if rank == 0:
                        with checkpoint.open("x") as file:  # one checkpoint, and no second one
                            json.dump(batch.state_dict(), file)
                    dist.barrier()
                    preemption.exit()


@pytest.mark.law(3)
def test_a_signal_to_the_process_group_ends_all_ranks_after_one_step_with_one_checkpoint(
    small_dataset: Dataset, ranks: Callable[..., Ranks]
) -> None:
    """Workers get it, too, in the midst of their work; the job goes on on another number of ranks."""
    files = [str(file) for file in small_dataset.files]
    chance = random.Random(4)
    job = ranks("job", 2, train, files, 1, 2)
    wait_until(lambda: len(job.steps(1)) >= 3)
    time.sleep(chance.random() / 10)
    os.killpg(job.processes[0].pid, signal.SIGTERM)
    os.killpg(job.processes[0].pid, signal.SIGTERM)  # a scheduler may say it more than once
    assert job.exit_codes() == [RESUMABLE, RESUMABLE]
    steps = [job.steps(rank) for rank in range(2)]
    assert [step[:2] for step in steps[0]] == [step[:2] for step in steps[1]]
    resumed = fr.Loader(fr.ParquetDataset(files, batch_size=3, columns="i_1", tail="short"), threads=0)
    resumed.load_state_dict(json.loads((job.logs[0].parent / "checkpoint.json").read_text()))
    begun = resumed.epoch  # the next pass, if the signal came with the last batch of one
    seen = [row for of_rank in steps for epoch, _, rows in of_rank if epoch == begun for row in rows]
    rest = [row for batch in resumed for row in batch.rows().tolist()]
    assert sorted(seen + rest) == list(range(resumed.dataset.num_rows))


def test_a_signal_to_one_rank_is_everyones_at_the_next_step_at_which_they_talk(
    small_dataset: Dataset, ranks: Callable[..., Ranks]
) -> None:
    job = ranks("job", 2, train, [str(file) for file in small_dataset.files], 5, 0)
    wait_until(lambda: len(job.steps(1)) >= 2)
    os.kill(job.processes[1].pid, signal.SIGTERM)
    assert job.exit_codes() == [RESUMABLE, RESUMABLE]
    assert job.steps(0)[-1][:2] == job.steps(1)[-1][:2]
    assert len(job.steps(0)) % 5 == 0


def begin_late(origin: worker_process.ProcessOrigin) -> None:
    """What a worker does first, at whose beginning a signal finds it."""
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    worker_process.begin(origin)


def dispositions(_batch: fr.Batch) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGTERM)
    ignored = [signal.getsignal(each) is signal.SIG_IGN for each in worker_process.IGNORED]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    return {"ignored": ignored, "blocked": [int(each) for each in blocked]}


def test_workers_that_have_not_begun_hear_no_signal_either(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "begin", begin_late)
    dataset = fr.ParquetDataset(small_dataset.files, batch_size=30, columns="i_1").map(dispositions)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with fr.Loader(dataset, num_workers=2, multiprocessing_context="fork") as loader:
        for batch in loader:
            assert batch["ignored"] == [True, True]
            assert batch["blocked"] == sorted(map(int, before)), "their own children hear again"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


def wait_for_nobody(rank: int, directory: Path, log: Callable[[object], object]) -> None:
    """Waits in a collective that the other rank never comes to."""
    with Preemption():
        if rank == 1:
            while True:
                signal.pause()
        log("waits")
        dist.barrier()


def test_ctrl_c_once_ends_after_the_step_and_twice_at_once(
    small_dataset: Dataset, ranks: Callable[..., Ranks]
) -> None:
    job = ranks("once", 1, train, [str(file) for file in small_dataset.files], 1, 1)
    stuck = ranks("twice", 2, wait_for_nobody)
    wait_until(lambda: len(job.steps(0)) >= 2 and len(stuck.steps(0)) == 1)
    os.killpg(job.processes[0].pid, signal.SIGINT)
    assert job.exit_codes() == [RESUMABLE]
    os.kill(stuck.processes[0].pid, signal.SIGINT)
    wait_until(lambda: not is_pending(stuck.processes[0], signal.SIGINT))
    assert stuck.processes[0].is_alive(), "the first one lets the step end"
    os.kill(stuck.processes[0].pid, signal.SIGINT)
    stuck.processes[0].join(SECONDS)
    assert stuck.processes[0].exitcode == INTERRUPTED


def wait_for_a_signal(waits: Any) -> None:
    waits.set()
    signal.pause()


def test_handlers_are_those_from_before_in_the_end_and_in_children() -> None:
    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    with Preemption(signals=[signal.SIGTERM]) as preemption:
        assert signal.getsignal(signal.SIGINT) is before[1]
        assert preemption.received is None
        assert not preemption.is_due()
        context = multiprocessing.get_context("fork")
        waits = context.Event()
        child = context.Process(target=wait_for_a_signal, args=(waits,))
        child.start()
        assert waits.wait(SECONDS)
        child.terminate()
        child.join(SECONDS)
        assert child.exitcode == -signal.SIGTERM, "it is nobody's but its own"
        assert preemption.received is None, "nor did the parent hear of it"
        os.kill(os.getpid(), signal.SIGTERM)
        assert preemption.received is signal.SIGTERM
        assert preemption.is_due()
        with pytest.raises(SystemExit) as ended:
            preemption.exit()
        assert ended.value.code == RESUMABLE == os.EX_TEMPFAIL
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
    assert signal.set_wakeup_fd(-1) == -1
    wait_until(lambda: not any("_listen" in thread.name for thread in threading.enumerate()))


@pytest.mark.parametrize(
    ("signals", "error"),
    [
        ((signal.SIGTERM, signal.SIGKILL), "ValueError: .*can handle, found SIGKILL"),
        (signal.SIGTERM, r"TypeError: signals must be a tuple of signals, as \(signal.SIGTERM,\)"),
    ],
)
def test_signals_that_are_none_to_handle_are_refused(signals: Any, error: str) -> None:
    kind, text = error.split(": ", 1)
    with pytest.raises({"ValueError": ValueError, "TypeError": TypeError}[kind], match=text):
        Preemption(signals=signals)


def test_an_entry_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    set_handler = signal.signal

    def fail_for_interrupts(number: Any, handler: Any) -> Any:
        if number == signal.SIGINT:
            raise OSError("no")
        return set_handler(number, handler)

    with monkeypatch.context() as patched:
        patched.setattr(signal, "signal", fail_for_interrupts)
        with pytest.raises(OSError, match="no"):
            Preemption().__enter__()
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.set_wakeup_fd(-1) == -1
    wait_until(lambda: not any("_listen" in thread.name for thread in threading.enumerate()))


def test_it_is_entered_once_and_asked_inside() -> None:
    before = signal.getsignal(signal.SIGINT)
    preemption = Preemption()
    with pytest.raises(RuntimeError, match="inside of `with Preemption"):
        preemption.is_due()
    with preemption:
        with pytest.raises(RuntimeError, match="entered already"):
            preemption.__enter__()
        assert not preemption.is_due()
    assert signal.getsignal(signal.SIGINT) is before


def test_outside_of_the_main_thread_it_is_an_error() -> None:
    found: list[str] = []

    def enter() -> None:
        try:
            Preemption().__enter__()
        except RuntimeError as error:
            found.append(str(error))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert "main thread alone" in found[0]
