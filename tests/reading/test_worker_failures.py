"""Failures in the workers of a `Loader`: what they raise, of what they die, and what interrupts their start.

With FASTRESUME_PROFILE=soak many more interrupts are tried.
"""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.reading.workers import parcels
from support.child import Child
from support.crews import BATCH, STEPS, in_workers, make, processes_of
from support.profile import SOAK
from support.strategies import Dataset, plain_spec

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker processes:UserWarning"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([40, 0, 60], [], [100, 11]).write(tmp_path_factory.mktemp("crew"))


class Fails:
    """A transform that fails over one step, as often as it is told to, in whichever process."""

    def __init__(self, directory: Path, step: int, times: int, how: str = "raise") -> None:
        self.directory, self.step, self.times, self.how = directory, step, times, how

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        failed = list(self.directory.glob("failed-*"))
        if batch.step == self.step and len(failed) < self.times:
            (self.directory / f"failed-{len(failed)}").touch()
            if self.how == "raise":
                raise ValueError("a value of mine")
            if self.how == "abort":
                faulthandler.disable()  # whose report nobody would read
                os.abort()
            if self.how == "exit":
                os._exit(3)
            os.kill(os.getpid(), signal.SIGKILL)
        return batch


@pytest.mark.law(11)
@pytest.mark.parametrize("step", [0, 3, STEPS - 1])
def test_an_error_in_a_worker_leaves_the_cursor_before_it_and_loses_no_batch(
    data: Dataset, tmp_path: Path, step: int
) -> None:
    with in_workers(make(data).map(Fails(tmp_path, step, times=2))) as loader:
        loader.start()
        processes = processes_of(loader)
        iterator = iter(loader)
        found = [next(iterator) for _ in range(step)]
        before = loader.state_dict()
        with pytest.raises(ValueError, match="a value of mine") as error:
            next(iterator)
        notes = "\n".join(error.value.__notes__)
        assert f"raised by Fails on the batch of epoch 0, step {step}" in notes
        assert "in worker " in notes
        assert notes.count("raised by Fails") == 1
        assert loader.state_dict() == before
        with pytest.raises(ValueError, match="a value of mine"):
            next(iterator)  # the same batch is tried again
        found += iterator  # the same iterator goes on
        assert [batch.step for batch in found] == list(range(STEPS))
        assert processes_of(loader) == processes  # and the same workers


def test_a_damaged_file_is_the_error_that_it_is_without_workers(tmp_path: Path) -> None:
    data = plain_spec([30, 30], [30]).write(tmp_path)
    dataset = make(data)
    damaged = Path(dataset.files[1])
    content = bytearray(damaged.read_bytes())
    content[4:40] = b"\xff" * 36
    damaged.write_bytes(bytes(content))
    with pytest.raises(fr.DataError) as expected:
        list(dataset)
    dataset.reset()
    with in_workers(dataset, 1) as loader, pytest.raises(fr.DataError) as raised:
        list(loader)
    assert str(raised.value) == str(expected.value)
    assert dataset.batches_left == 3


def unpicklable(batch: fr.Batch) -> dict[str, Any]:
    return {"row": batch["row"], "lock": threading.Lock()}


class OddError(Exception):
    """One that pickle can't make again."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


def raise_odd(_batch: fr.Batch) -> fr.Batch:
    raise OddError(1, 2)


def test_what_can_not_be_sent_is_an_error_and_no_hang(data: Dataset) -> None:
    with (
        in_workers(make(data).map(unpicklable), 1) as loader,
        pytest.raises(
            fr.FastresumeError, match=r"pickle '_thread\.lock' object\. It is the value '.*': leave"
        ),
    ):
        next(iter(loader))
    with (
        in_workers(make(data).map(raise_odd), 1) as loader,
        pytest.raises(fr.FastresumeError, match="raised what can't be sent") as error,
    ):
        next(iter(loader))
    assert "OddError: 1 and 2" in "\n".join(error.value.__notes__)


KILLS = [
    ("kill", "SIGKILL"),
    ("abort", "SIGABRT"),
    ("exit", "ended with status 3"),
]


@pytest.mark.law(11)
@pytest.mark.parametrize(("how", "words"), KILLS)
def test_a_dead_worker_is_an_error_that_names_it_and_new_ones_go_on(
    data: Dataset, tmp_path: Path, how: str, words: str
) -> None:
    with in_workers(make(data).map(Fails(tmp_path, 6, times=1, how=how))) as loader:
        found: list[fr.Batch] = []
        began = time.monotonic()
        with pytest.raises(fr.FastresumeError) as raised:
            found.extend(loader)
        assert time.monotonic() - began < 60
        assert words in str(raised.value)
        assert "worker 0 of 2 (process " in str(raised.value)
        assert f"The cursor is before step {len(found)}" in str(raised.value)
        assert [batch.step for batch in found] == list(range(len(found)))
        found += loader
        assert [batch.step for batch in found] == list(range(STEPS))


@pytest.mark.law(11)
def test_a_worker_that_dies_is_noticed_in_a_thread_too(data: Dataset, tmp_path: Path) -> None:
    found: list[str] = []
    loader = in_workers(make(data).map(Fails(tmp_path, 1, times=1, how="exit")))

    def run() -> None:
        try:
            list(loader)
        except fr.FastresumeError as error:
            found.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()
    assert "worker 1 of 2 (process " in found[0]
    assert [batch.step for batch in loader] == list(range(1, STEPS))
    loader.close()


@pytest.mark.law(11)
@pytest.mark.parametrize("in_thread", [False, True])
def test_a_worker_that_dies_while_nobody_waits_disturbs_nothing_before_the_next_batch(
    data: Dataset, in_thread: bool
) -> None:
    """Torch's handler of dead children would raise in the midst of a step, or of a checkpoint."""
    loader, other = in_workers(make(data)), in_workers(make(data), 1)
    next(iter(other))  # its handler is the main thread's
    iterator = iter(loader)
    found: list[int] = []

    def draw(batches: int) -> None:
        found.extend(next(iterator).step for _ in range(batches))

    def call(batches: int) -> None:
        thread = threading.Thread(target=draw, args=(batches,))
        thread.start()
        thread.join(60)

    (call if in_thread else draw)(3)
    (victim, _) = processes_of(loader)
    os.kill(victim, signal.SIGKILL)
    end = time.monotonic() + 0.5
    while time.monotonic() < end:  # the step
        sum(range(1000))
    assert next(iter(other)).step == 1  # another loader goes on
    began = time.monotonic()
    with pytest.raises(
        fr.FastresumeError, match=rf"worker 0 of 2 \(process {victim}\) was killed by SIGKILL"
    ):
        draw(1)
    assert time.monotonic() - began < 60
    draw(STEPS - 3)
    assert found == list(range(STEPS))
    loader.close()
    other.close()


@pytest.mark.law(11)
def test_a_worker_that_dies_while_a_batch_is_taken_interrupts_nothing(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what was taken half of it, a socket for one, is left open."""
    with in_workers(make(data)) as loader:
        iterator = iter(loader)
        found = [next(iterator).step for _ in range(2)]
        [_, victim] = processes_of(loader)  # the next batch is the other one's
        unpack = parcels.unpack

        def die_and_unpack(*sent: Any) -> Any:
            monkeypatch.setattr(parcels, "unpack", unpack)
            die_and_compute(victim, 0.5)
            return unpack(*sent)

        monkeypatch.setattr(parcels, "unpack", die_and_unpack)
        found.append(next(iterator).step)
        with pytest.raises(fr.FastresumeError, match=rf"worker 1 of 2 \(process {victim}\) was killed"):
            next(iterator)
        assert found + [batch.step for batch in iterator] == list(range(STEPS))


def test_what_else_handles_dead_children_is_left_as_it_is(data: Dataset) -> None:
    """Torch's own DataLoader tells of its workers as ever, and a handler of the user's hears every child."""
    with in_workers(make(data), 1) as loader:
        next(iter(loader))
        own = DataLoader(make(data), batch_size=None, num_workers=1, multiprocessing_context="fork")
        iterator: Any = iter(own)
        next(iterator)
        with pytest.raises(RuntimeError, match=r"DataLoader worker .* is killed by signal"):
            die_and_compute(iterator._workers[0].pid, 10)
        assert next(iter(loader)).step == 1


def die_and_compute(process: int, seconds: float) -> None:
    os.kill(process, signal.SIGKILL)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1000))


class AlarmError(Exception):
    """What the signal handler of the next test raises."""


def alarm(_number: int, _frame: object) -> None:
    raise AlarmError


@pytest.mark.law(11)
def test_whatever_a_signal_handler_interrupts_no_batch_is_lost(data: Dataset) -> None:
    """In a process of its own: a handler that raises while Python forks may leave Python's locks taken."""
    with Child() as child:
        child.call(interrupt_often, str(data.directory), 300 if SOAK else 10, seconds=600 if SOAK else 60)


def interrupt_often(directory: str, times: int) -> None:
    """Between its return and the assignment a batch counts as delivered: so the cursor says what is due."""
    chance = random.Random(5)
    interrupted = 0
    signal.signal(signal.SIGALRM, alarm)
    loader = in_workers(fr.ParquetDataset(directory, batch_size=2))
    steps = len(loader)
    while interrupted < times:
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 0.15))
            iterator = iter(loader)
            for _ in range(chance.randint(1, steps)):
                due = loader.epoch, steps - loader.batches_left
                batch = next(iterator, None)
                assert batch is None or (batch.epoch, batch.step) == due
                assert batch is None or batch["row"].tolist() == batch.rows().tolist()
        except AlarmError:
            interrupted += 1
        except KeyError as error:
            # What a handler raises in Thread.start, CPython may hide behind one of its own.
            if not isinstance(error.__context__, AlarmError):
                raise
            interrupted += 1
        finally:
            with contextlib.suppress(AlarmError):
                signal.setitimer(signal.ITIMER_REAL, 0)
    left = loader.batches_left
    assert [batch.step for batch in loader] == list(range(steps - left, steps))


def test_a_daemon_process_is_told_to_use_threads(data: Dataset) -> None:
    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()
    child = context.Process(target=use_daemon, args=(data.directory, queue), daemon=True)
    child.start()
    assert "a daemon process can't start worker processes: pass num_workers=0" in queue.get()
    assert queue.get() == STEPS
    child.join(60)
    assert child.exitcode == 0


def use_daemon(directory: Path, queue: Any) -> None:
    torch.set_num_threads(1)
    dataset = fr.ParquetDataset(directory, batch_size=BATCH)
    try:
        next(iter(fr.Loader(dataset, num_workers=1)))
    except fr.FastresumeError as error:
        queue.put(str(error))
    queue.put(len(list(fr.Loader(dataset, threads=2))))
