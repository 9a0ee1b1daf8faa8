"""`Loader(num_workers=)`: worker processes of torch's, and all that `iter()` means without them.

With FASTRESUME_PROFILE=soak every start method and more workers are tried.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import multiprocessing
import os
import pickle
import random
import signal
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, get_worker_info

import fastresume as fr
from fastresume.reading.workers import shared_memory
from fastresume.reading.workers.channel import Channel
from fastresume.reading.workers.messages import Task
from support.audits import assert_proven
from support.child import Child, children
from support.oracle import OracleJob
from support.random_states import global_states
from support.strategies import Dataset, Shuffle, plain_spec

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker processes:UserWarning"),
]

SOAK = os.environ.get("FASTRESUME_PROFILE") == "soak"
ROWS = 211
BATCH = 10
STEPS = ROWS // BATCH
WORKERS = [1, 2, 4, 8] if SOAK else [1, 2, 3]
STARTS = ["fork", "spawn", "forkserver"] if SOAK else ["fork"]
SHUFFLE = Shuffle(3, 20, 60)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([40, 0, 60], [], [100, 11]).write(tmp_path_factory.mktemp("crew"))


@pytest.fixture(scope="module")
def shared(data: Dataset) -> Iterator[fr.Loader]:
    """A loader whose two workers all tests use that leave them as they find them."""
    with fr.Loader(make(data), num_workers=2, multiprocessing_context="fork") as loader:
        yield loader


@pytest.fixture
def loader(shared: fr.Loader, data: Dataset) -> fr.Loader:
    shared.load_state_dict(make(data).state_dict(), reset_epochs=True)
    return shared


def make(data: Dataset, **how: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(data.directory, **{"batch_size": BATCH, **how})


def in_workers(dataset: fr.ParquetDataset, num_workers: int = 2, **how: Any) -> fr.Loader:
    return fr.Loader(dataset, num_workers=num_workers, **{"multiprocessing_context": "fork", **how})


def rows_of(batches: list[fr.Batch]) -> list[list[int]]:
    assert all((batch["row"].numpy() == batch.rows()).all() for batch in batches)
    return [batch.rows().tolist() for batch in batches]


def states_of(batches: list[fr.Batch]) -> list[str]:
    return [batch.state_dict()["fastresume"] for batch in batches]


def processes_of(loader: fr.Loader) -> list[int]:
    assert loader._crew is not None
    return loader._crew.processes


@pytest.mark.law(2)
@pytest.mark.law(7)
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("num_workers", WORKERS)
def test_passes_follow_each_other_as_the_oracle_says(data: Dataset, num_workers: int, start: str) -> None:
    dataset = make(data)
    job = OracleJob(ROWS, 1, num_workers, BATCH, fingerprint=dataset.fingerprint)
    expected = [(batch, job.state()) for _ in range(2 * STEPS) for batch in job.step() or ()]
    with in_workers(dataset, num_workers, multiprocessing_context=start) as loader:
        assert (len(loader), loader.batches_left, loader.epoch) == (STEPS, STEPS, 0)
        loader.start()
        processes = processes_of(loader)
        first = list(loader)
        assert (loader.batches_left, loader.epoch) == (STEPS, 1)
        found = first + list(loader)
        assert processes_of(loader) == processes  # they last from pass to pass
        assert list(zip(rows_of(found), states_of(found), strict=True)) == expected
        assert loader.state_dict()["fastresume"] == expected[-1][1]
        for step in (0, 5, STEPS - 1):
            loader.load_state_dict(found[step].state_dict())
            assert states_of(list(loader)) == states_of(found[step + 1 : STEPS] or found[STEPS:])
    assert not set(processes) & set(children())


def test_start_methods_that_pickle_get_the_same_batches_and_refuse_a_lambda(data: Dataset) -> None:
    expected = list(make(data).map(named))
    with in_workers(make(data).map(named), 1, multiprocessing_context="spawn") as loader:
        found = list(loader)
    assert states_of(found) == states_of(expected)
    assert all(torch.equal(one["twice"], other["twice"]) for one, other in zip(found, expected, strict=True))
    refusing = in_workers(make(data).map(lambda batch: batch), 1, multiprocessing_context="forkserver")
    with pytest.raises(Exception, match="give map\\(\\) a function of a module's top level"):
        refusing.start()


def named(batch: fr.Batch) -> dict[str, Any]:
    return {**batch, "twice": batch["row"] * 2, "note": f"step {batch.step}", "list": [batch["row"][:2]]}


@pytest.mark.law(4)
@pytest.mark.law(6)
def test_with_groups_named_no_number_of_workers_changes_a_batch(data: Dataset) -> None:
    how = {"groups": 4, "tail": "pad", **SHUFFLE.arguments}
    expected = list(make(data, **how).map(named))
    for num_workers in (1, 2, 4):
        with in_workers(make(data, **how).map(named), num_workers) as loader:
            found = list(loader)
        assert states_of(found) == states_of(expected)
        for one, other in zip(found, expected, strict=True):
            assert list(one) == list(other)
            assert torch.equal(one["twice"], other["twice"])
            assert (one.rows() == other.rows()).all()
            assert torch.equal(one.valid, other.valid)
            assert torch.equal(one.row_seeds(), other.row_seeds())
            assert one.generator().initial_seed() == other.generator().initial_seed()
            assert (one["note"], one.step, one.epoch) == (other["note"], other.step, other.epoch)


def test_a_break_loses_nothing_and_costs_nothing(loader: fr.Loader) -> None:
    found: list[fr.Batch] = []
    iter(loader)  # nobody draws from it
    serving = None
    while len(found) < STEPS:
        found += islice(loader, 3)
        assert loader.batches_left == (STEPS - len(found)) % STEPS or STEPS
        assert loader._crew is not None
        serving = serving or loader._crew._serving
        assert loader._crew._serving == serving  # what was made ahead was not thrown away
    assert [batch.step for batch in found] == list(range(STEPS))
    assert loader.epoch == 1


def test_a_peek_delivers_nothing(loader: fr.Loader) -> None:
    before = loader.state_dict()
    peeked = loader.peek()
    assert peeked is not None
    assert loader.state_dict() == before
    iterator = iter(loader)
    assert next(iterator) is peeked
    again = loader.peek()
    assert next(iterator) is again
    assert loader.peek() is loader.peek()
    loader.start()
    assert [batch.step for batch in iterator] == list(range(2, STEPS))


def test_states_load_on_loader_and_dataset_at_any_time(loader: fr.Loader) -> None:
    found = list(islice(loader, 8))
    iterator = iter(loader)
    next(iterator)
    loader.dataset.load_state_dict(found[2].state_dict())
    with pytest.raises(fr.StateError, match="a state was loaded after this iterator was made"):
        next(iterator)
    assert next(iter(loader)).step == 3
    loader.load_state_dict(found[5].state_dict())
    assert (loader.state_dict(), loader.batches_left) == (found[5].state_dict(), STEPS - 6)
    assert next(iter(loader)).step == 6
    loader.reset()
    first, second = iter(loader), iter(loader)
    assert next(second).step == 0
    with pytest.raises(fr.FastresumeError, match="a newer iterator of this dataset goes on"):
        next(first)
    assert next(iter(loader.dataset)).step == 1  # in this process, from the same cursor
    assert next(iter(loader)).step == 2


def test_restart_gives_the_whole_pass_every_time(data: Dataset) -> None:
    with in_workers(make(data, on_iter="restart")) as loader:
        first = list(islice(loader, 4))
        second, third = list(loader), list(loader)
    assert rows_of(second) == rows_of(third)
    assert rows_of(first) == rows_of(second[:4])
    assert second[-1].state_dict() == make(data).state_dict()


@pytest.mark.law(3)
def test_other_numbers_of_workers_deliver_what_is_left_exactly_once(data: Dataset, tmp_path: Path) -> None:
    logs, state = tmp_path / "logs", make(data).state_dict()
    for num_workers, batch_size, steps in ((2, 10, 5), (0, 7, 3), (3, 5, 4), (1, 4, None)):
        with (
            in_workers(make(data, batch_size=batch_size, tail="short"), num_workers, audit=logs)
            if (num_workers)
            else fr.Loader(make(data, batch_size=batch_size, tail="short"), audit=logs) as loader
        ):
            loader.load_state_dict(state)
            list(islice(loader, steps))
            state = loader.state_dict()
    assert_proven(logs, passes=1)


# ------------------------------------------------------------------------------------------------- failures


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
        with pytest.raises(ValueError, match="a value of mine") as told:
            next(iterator)
        notes = "\n".join(told.value.__notes__)
        assert f"raised by Fails on the batch of epoch 0, step {step}" in notes
        assert "in worker " in notes
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
    with in_workers(dataset, 1) as loader, pytest.raises(fr.DataError) as told:
        list(loader)
    assert str(told.value) == str(expected.value)
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
        pytest.raises(TypeError, match=r"cannot pickle '_thread\.lock' object"),
    ):
        next(iter(loader))
    with (
        in_workers(make(data).map(raise_odd), 1) as loader,
        pytest.raises(fr.FastresumeError, match="raised what can't be sent") as told,
    ):
        next(iter(loader))
    assert "OddError: 1 and 2" in "\n".join(told.value.__notes__)


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
        with pytest.raises(fr.FastresumeError) as told:
            found.extend(loader)
        assert time.monotonic() - began < 10
        assert words in str(told.value)
        assert "worker 0 of 2 (process " in str(told.value)
        assert f"The cursor stands before step {len(found)}" in str(told.value)
        assert [batch.step for batch in found] == list(range(len(found)))
        found += loader
        assert [batch.step for batch in found] == list(range(STEPS))


@pytest.mark.law(11)
@pytest.mark.slow
def test_a_worker_that_dies_is_noticed_in_a_thread_too(data: Dataset, tmp_path: Path) -> None:
    """Where no signal handler runs, torch looks after its workers every five seconds."""
    told: list[str] = []
    loader = in_workers(make(data).map(Fails(tmp_path, 1, times=1, how="exit")))

    def run() -> None:
        try:
            list(loader)
        except fr.FastresumeError as error:
            told.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert "worker 1 of 2 (process " in told[0]
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
    assert time.monotonic() - began < 10
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
        unpack = shared_memory.unpack

        def die_and_unpack(*sent: Any) -> Any:
            monkeypatch.setattr(shared_memory, "unpack", unpack)
            die_and_compute(victim, 0.5)
            return unpack(*sent)

        monkeypatch.setattr(shared_memory, "unpack", die_and_unpack)
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
    child.join(10)
    assert child.exitcode == 0


def use_daemon(directory: Path, queue: Any) -> None:
    torch.set_num_threads(1)
    dataset = fr.ParquetDataset(directory, batch_size=BATCH)
    try:
        next(iter(fr.Loader(dataset, num_workers=1)))
    except fr.FastresumeError as error:
        queue.put(str(error))
    queue.put(len(list(fr.Loader(dataset, threads=2))))


# ---------------------------------------------------------------------------------- forks, seeds, newcomers


@pytest.mark.parametrize("threads", [0, 2, None], ids=["no-threads", "threads", "workers"])
def test_a_forked_child_neither_hangs_nor_disturbs_its_parent(data: Dataset, threads: int | None) -> None:
    loader = in_workers(make(data)) if threads is None else fr.Loader(make(data), threads=threads)
    iterator = iter(loader)
    kept = [next(iterator) for _ in range(3)]
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(20)
            torch.set_num_threads(1)
            try:
                next(iterator)
            except fr.StateError as error:
                status = 2 if "before it forked: make a new one in process" in str(error) else 4
            held = kept[1]["row"].tolist()
            found = [batch.step for batch in loader]  # a new iterator goes on, with workers of its own
            loader.close()
            is_same = held == kept[1]["row"].tolist() == kept[1].rows().tolist()
            first = 4 if threads == 0 else 3  # without threads, the old iterator went on
            is_told = status == (1 if threads == 0 else 2)
            status = 0 if found == list(range(first, STEPS)) and is_same and is_told else 3
        finally:
            os._exit(status)
    later = list(iterator)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert time.monotonic() - began < 15
    assert [batch.step for batch in later] == list(range(3, STEPS))
    assert rows_of(kept + later) == rows_of(list(fr.Loader(make(data, groups=loader.num_workers or 1))))
    loader.close()


class NoCuda:
    """A transform that says what CUDA was asked for in its process, and what else this process is."""

    def __call__(self, batch: fr.Batch) -> dict[str, Any]:
        info = get_worker_info()
        assert info is not None
        return {
            "initialized": torch.cuda.is_initialized(),
            "queued": len(torch.cuda._queued_calls),
            "frozen": gc.get_freeze_count() if batch.step == 0 else 0,  # it takes long
            "interrupt": signal.getsignal(signal.SIGINT),
            "seed": info.seed,
            "drawn": (random.random(), np.random.rand(), torch.rand(()).item()),
            "worker": info.id,
        }


@pytest.mark.law(10)
def test_workers_move_no_random_state_call_no_cuda_and_draw_the_same_again(data: Dataset) -> None:
    before = global_states()
    loader = in_workers(make(data, seed=7).map(NoCuda()))
    loader.start()
    iterator = iter(loader)
    found = list(iterator)
    found += islice(loader, 5)
    loader.state_dict()
    loader.load_state_dict(found[3].state_dict())
    again = list(islice(loader, 3))
    loader.close()
    assert global_states() == before
    first: Any = found[0]
    assert (first["initialized"], first["interrupt"]) == (False, signal.SIG_IGN)
    assert first["frozen"] > 0
    drawn: list[Any] = [batch["drawn"] for batch in found]
    assert len(set(drawn)) == len(drawn)
    assert [batch["drawn"] for batch in again] == drawn[4:7]
    assert {batch["worker"] for batch in found} == {0, 1}
    assert len({batch["seed"] for batch in found}) == 2
    with in_workers(make(data, seed=7).map(NoCuda())) as same:
        assert [(batch["drawn"], batch["seed"]) for batch in same] == [
            (batch["drawn"], batch["seed"]) for batch in found[:STEPS]
        ]
    with in_workers(make(data, seed=8).map(NoCuda())) as other:
        assert not set(drawn) & {batch["drawn"] for batch in other}


def test_several_loaders_run_at_once_in_threads(data: Dataset) -> None:
    found: dict[int, list[list[int]]] = {}

    def run(number: int) -> None:
        with in_workers(make(data, groups=2), 1 + number % 2) as loader:
            found[number] = rows_of(list(loader))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    expected = rows_of(list(make(data, groups=2)))
    assert found == dict.fromkeys(range(3), expected)


def take_turns(training: fr.Loader, evaluation: fr.Loader) -> list[int]:
    """The steps of a pass in whose midst there is an evaluation, now and then, begun or whole."""
    found: list[int] = []
    with training, evaluation:
        for batch in training:
            found.append(batch.step)
            if batch.step % 8 == 0:
                assert next(iter(evaluation)).step == 0
                assert [batch.step for batch in evaluation] == list(range(STEPS))
    return found


def test_training_and_evaluation_take_turns_in_workers_and_in_a_daemon(data: Dataset) -> None:
    train, evaluate = make(data), make(data, on_iter="restart")
    assert take_turns(in_workers(train), in_workers(evaluate, 1)) == list(range(STEPS))
    assert take_turns(in_workers(train), fr.Loader(evaluate, threads=2)) == list(range(STEPS))
    assert (train.epoch, evaluate.epoch) == (2, 0)
    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()
    child = context.Process(target=take_turns_as_daemon, args=(train, evaluate, queue), daemon=True)
    child.start()
    assert queue.get() == list(range(STEPS))
    child.join(10)
    assert child.exitcode == 0


def take_turns_as_daemon(train: fr.ParquetDataset, evaluate: fr.ParquetDataset, queue: Any) -> None:
    torch.set_num_threads(1)
    queue.put(take_turns(fr.Loader(train, threads=1), fr.Loader(evaluate, threads=2)))


def test_mistakes_are_errors_that_say_what_to_write(data: Dataset) -> None:
    dataset = make(data)
    with pytest.raises(ValueError, match="name one of them"):
        fr.Loader(dataset, threads=2, num_workers=2)
    with pytest.raises(ValueError, match="prefetch_factor is for worker processes: pass num_workers with it"):
        fr.Loader(dataset, prefetch_factor=2)
    with pytest.raises(ValueError, match=r"multiprocessing_context must be one of \['fork'"):
        fr.Loader(dataset, num_workers=1, multiprocessing_context="thread")
    with pytest.raises(ValueError, match="prefetch_factor must be at least 1, found 0"):
        fr.Loader(dataset, num_workers=1, prefetch_factor=0)
    with pytest.raises(ValueError, match="groups 4 is not a multiple of 3 workers"):
        fr.Loader(make(data, groups=4), num_workers=3)
    wrapped: Any = DataLoader(dataset, batch_size=None)
    with pytest.raises(TypeError, match="found DataLoader: give the dataset to one loader only"):
        fr.Loader(wrapped)
    with pytest.raises(TypeError, match="found Loader: give the dataset to one loader only"):
        fr.Loader(fr.Loader(dataset))  # type: ignore[arg-type]
    twice: Any = fr.Loader(dataset)
    with pytest.raises(TypeError, match="iterate over it as it is, without another DataLoader around it"):
        next(iter(DataLoader(twice, batch_size=None)))


def test_a_worker_is_told_once_where_the_pass_starts(data: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Task] = []
    post = Channel.post

    def tell(channel: Channel, message: bytes) -> None:
        told.append(pickle.loads(message))
        post(channel, message)

    monkeypatch.setattr(Channel, "post", tell)
    dataset = make(data, lanes=3, groups=3)
    with in_workers(dataset, 3) as loader:
        next(iter(loader))
    assert [task.start is not None for task in told] == [True] * 3 + [False] * (len(told) - 3)
    assert len(told) > 3
    offsets = {f"{data.directory}:{start}": start for start in range(0, 100, 2)}
    state = fr.Cursor.from_offsets(offsets, dataset)
    dataset.load_state_dict(state)
    expected = rows_of(list(dataset))
    with in_workers(dataset, 3) as loader:
        for taken in (2, 0, 5):  # what begins amid a serving, and anew
            loader.load_state_dict(state)
            found = rows_of(list(islice(loader, taken)))
            assert found + rows_of(list(loader)) == expected
