"""`Loader(num_workers=)`: worker processes of torch's, and all that `iter()` means without them.

With FASTRESUME_PROFILE=soak every start method and more workers are tried.
"""

from __future__ import annotations

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
from fastresume.reading.workers.channel import Channel
from fastresume.reading.workers.messages import Task
from support.audits import assert_proven
from support.child import children
from support.crews import BATCH, ROWS, STEPS, in_workers, make, processes_of, rows_of, states_of
from support.oracle import OracleJob
from support.profile import SOAK
from support.random_states import global_states
from support.strategies import Dataset, plain_spec
from support.topologies import Shuffle

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker processes:UserWarning"),
]

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
    with in_workers(make(data).map(named), 1, multiprocessing_context="forkserver") as loader:
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
        assert loader._pool is not None
        serving = serving or loader._pool._serving
        assert loader._pool._serving == serving  # what was made ahead was not thrown away
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
    with pytest.raises(fr.FastresumeError, match="a newer iterator of this dataset continues"):
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
            signal.alarm(100)
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
    assert time.monotonic() - began < 60
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
    child.join(60)
    assert child.exitcode == 0  # one that died would never answer
    assert queue.get() == list(range(STEPS))


def take_turns_as_daemon(train: fr.ParquetDataset, evaluate: fr.ParquetDataset, queue: Any) -> None:
    torch.set_num_threads(1)
    queue.put(take_turns(fr.Loader(train, threads=1), fr.Loader(evaluate, threads=2)))


def test_a_default_device_of_torch_is_not_that_of_workers(data: Dataset) -> None:
    expected = rows_of([make(data).peek()])
    with torch.device("meta"):
        assert rows_of([next(iter(fr.Loader(make(data), num_workers=1)))]) == expected


def test_mistakes_are_errors_that_say_what_to_write(data: Dataset) -> None:
    dataset = make(data)
    with pytest.raises(ValueError, match="name one of them"):
        fr.Loader(dataset, threads=2, num_workers=2)
    with pytest.raises(ValueError, match="multiprocessing_context is for worker processes: pass num_workers"):
        fr.Loader(dataset, multiprocessing_context="fork")
    with pytest.raises(ValueError, match=r"multiprocessing_context must be one of \['fork'"):
        fr.Loader(dataset, num_workers=1, multiprocessing_context="thread")
    with pytest.raises(TypeError, match="has no argument prefetch_factor=: write prefetch_bytes="):
        fr.Loader(dataset, num_workers=1, prefetch_factor=2)  # type: ignore[call-arg]
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
    seen: list[Task] = []
    post = Channel.post

    def tell(channel: Channel, message: bytes) -> None:
        seen.append(pickle.loads(message))
        post(channel, message)

    monkeypatch.setattr(Channel, "post", tell)
    dataset = make(data, lanes=3, groups=3)
    with in_workers(dataset, 3) as loader:
        next(iter(loader))
    assert [task.start is not None for task in seen] == [True] * 3 + [False] * (len(seen) - 3)
    assert len(seen) > 3
    offsets = {f"{data.directory}:{start}": start for start in range(0, 100, 2)}
    state = fr.Cursor.from_offsets(offsets, dataset, files=dataset.files)
    dataset.load_state_dict(state)
    expected = rows_of(list(dataset))
    with in_workers(dataset, 3) as loader:
        for taken in (2, 0, 5):  # what begins amid a serving, and anew
            loader.load_state_dict(state)
            found = rows_of(list(islice(loader, taken)))
            assert found + rows_of(list(loader)) == expected
