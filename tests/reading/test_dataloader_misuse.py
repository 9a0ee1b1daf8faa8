"""What people do to a DataLoader, and what it does to their batches: noticed, refused, or harmless."""

from __future__ import annotations

import multiprocessing
import random
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    ChainDataset,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    Subset,
    get_worker_info,
    random_split,
)

import fastresume as fr
from fastresume.reading import spec
from fastresume.reading.workers import parcels
from support.dataloaders import BATCH, STEPS, make, rows_of
from support.random_states import global_states
from support.strategies import Dataset, plain_spec

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker processes:UserWarning"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([40, 0, 60], [], [100, 11]).write(tmp_path_factory.mktemp("misuse"))


def loader_of(dataset: fr.ParquetDataset, num_workers: int, **how: Any) -> DataLoader[fr.Batch]:
    how = {"multiprocessing_context": "fork" if num_workers else None, **how}
    return DataLoader(dataset, batch_size=None, num_workers=num_workers, **how)


def test_out_of_order_is_refused_at_the_first_batch(data: Dataset) -> None:
    dataset = make(data)
    refused(iter(loader_of(dataset, 2, in_order=False)), "in_order=False is not supported")
    assert dataset.batches_left == STEPS


def refused(iterator: Any, words: str) -> None:
    """Assert that the next batch is an error, and leave no cycle of it and the iterator.

    Torch's clean-up waits five seconds for each worker when Python's garbage collector calls it, since the
    collector closes the queues first.
    """
    with pytest.raises((fr.FastresumeError, ValueError), match=words) as raised:
        next(iterator)
    raised.value.__traceback__ = None
    del raised


class FailsAt:
    """A transform that fails over one step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        if batch.step == self.step:
            raise ValueError(f"step {batch.step} of mine")
        return batch


@pytest.mark.law(11)
@pytest.mark.parametrize(
    ("step", "persistent"),
    [
        *((step, False) for step in (0, 5, STEPS - 2, STEPS - 1)),
        (5, True),
        *(pytest.param(step, True, marks=pytest.mark.slow) for step in (0, STEPS - 2, STEPS - 1)),
    ],
)
def test_a_worker_whose_error_was_caught_never_loses_its_batches_silently(
    data: Dataset, step: int, persistent: bool
) -> None:
    """Caught, torch goes on with the other workers, and would end the pass as if nothing were missing."""
    dataset = make(data)
    loader = loader_of(dataset.map(FailsAt(step)), 2, persistent_workers=persistent)
    iterator = iter(loader)
    found = [next(iterator) for _ in range(step)]
    refused(iterator, f"step {step} of mine")
    lost = (
        "the error of a worker was caught, and its batches are lost"
        "|raised an error before, and can't continue"
    )
    for _ in range(2 if step < STEPS - 1 else 1):
        refused(iterator, lost)
    assert dataset.epoch == 0
    if found:
        dataset.load_state_dict(found[-1].state_dict())
    again = iter(loader)
    refused(again, f"step {step} of mine")
    del iterator, again
    assert [batch.step for batch in loader_of(dataset, 2)] == list(range(step, STEPS))


@pytest.mark.parametrize("num_workers", [1, 2])
def test_datasets_that_workers_read_one_after_another_are_named_as_the_cause(
    data: Dataset, num_workers: int
) -> None:
    chain = ChainDataset([make(data), make(data)])
    loader: Any = DataLoader(chain, batch_size=None, num_workers=num_workers, multiprocessing_context="fork")
    iterator = iter(loader)
    for _ in range(STEPS):
        next(iterator)
    refused(iterator, r"datasets one after another, as a ChainDataset does: write fr\.ParquetDataset\(\[path")


def with_lock(batch: fr.Batch) -> dict[str, Any]:
    return {"row": batch["row"], "lock": threading.Lock()} if batch.step == 1 else dict(batch)


class Explodes:
    """A value that can be sent, and not received."""

    def __reduce__(self) -> tuple[Any, ...]:
        return explode, ()


def explode() -> None:
    raise ValueError("on arrival")


def with_explosion(batch: fr.Batch) -> dict[str, Any]:
    return {"row": batch["row"], "value": Explodes()} if batch.step == 1 else dict(batch)


@pytest.mark.law(11)
@pytest.mark.parametrize(
    ("transform", "words"),
    [
        (with_lock, r"sent by worker 1: TypeError: cannot pickle '_thread\.lock' object\. It is .* 'lock': "),
        (with_explosion, "a batch of worker 1 can't be received: ValueError: on arrival"),
    ],
)
def test_a_value_that_can_not_be_sent_is_an_error_and_no_hang(
    data: Dataset, transform: Any, words: str
) -> None:
    iterator = iter(loader_of(make(data).map(transform), 2))
    assert next(iterator).step == 0
    refused(iterator, words)


def test_a_batch_takes_one_block_and_no_descriptor_however_many_columns(data: Dataset) -> None:
    wide = make(data).map(widen)
    files = Path("/proc/self/fd")
    before = len(list(files.iterdir()))
    loader = loader_of(wide, 2, persistent_workers=True)
    kept = list(loader)
    assert len(list(files.iterdir())) - before < 20  # the pipes of two workers
    processes = [worker.pid for worker in loader._iterator._workers]  # type: ignore[union-attr]  # it is there
    senders = [name for name in parcels._mapped if int(name.partition("-")[0]) in processes]
    blocks = sum(len(parcels._mapped[sender]) for sender in senders)
    for number, batch in enumerate(kept):
        assert batch["c40"].tolist() == (batch["row"] + 40).tolist(), number
    assert blocks <= len(kept) + 2 * 8
    del loader
    assert not set(senders) & set(
        parcels._mapped
    )  # nothing stays of workers that ended, but what their batches hold
    assert kept[3]["c7"].tolist() == (kept[3]["row"] + 7).tolist()


def widen(batch: fr.Batch) -> dict[str, Any]:
    return {"row": batch["row"], **{f"c{number}": batch["row"] + number for number in range(41)}}


def seeds(_batch: fr.Batch) -> dict[str, Any]:
    info = get_worker_info()
    assert info is not None
    return {"seed": info.seed, "drawn": (random.random(), np.random.rand(), torch.rand(()).item())}


@pytest.mark.law(10)
@pytest.mark.filterwarnings(
    "ignore:the transform seeds draws from a generator"
)  # what it is here to draw from
def test_a_generator_of_ones_own_keeps_torchs_global_state_and_repeats_the_workers_seeds(
    data: Dataset,
) -> None:
    """Without one, torch draws one number of its global generator in every iter(), as the docs say."""
    before = global_states()
    passes = []
    for seed in (7, 7, 8):
        generator = torch.Generator().manual_seed(seed)
        passes.append([dict(batch) for batch in loader_of(make(data).map(seeds), 2, generator=generator)])
    assert global_states() == before
    assert passes[0] == passes[1]
    assert passes[0] != passes[2]
    assert len({batch["seed"] for batch in passes[0]}) == 2
    iter(loader_of(make(data), 1))
    assert global_states() != before


@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true but no accelerator is found")
def test_two_loaders_take_turns_with_pinning_and_deep_prefetch(data: Dataset) -> None:
    train, evaluation = make(data), make(data, on_iter="restart")
    how: dict[str, Any] = {"pin_memory": True, "prefetch_factor": 7, "persistent_workers": True}
    of_train, of_evaluation = loader_of(train, 2, **how), loader_of(evaluation, 1, **how)
    expected = rows_of(list(make(data, on_iter="restart")))
    found: list[fr.Batch] = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "'pin_memory' argument")
        for batch in of_train:
            found.append(batch)
            if batch.step % 8 == 0:
                assert rows_of(list(of_evaluation)) == expected
    assert [batch.step for batch in found] == list(range(STEPS))
    assert (train.epoch, evaluation.epoch) == (1, 0)


def test_loaders_run_in_threads_and_in_a_daemon_process(data: Dataset) -> None:
    found: dict[int, list[int]] = {}

    def run(number: int) -> None:
        found[number] = [batch.step for batch in loader_of(make(data), number)]

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {number: list(range(STEPS)) for number in range(3)}
    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()
    child = context.Process(target=draw, args=(data.directory, queue), daemon=True)
    child.start()
    assert queue.get() == list(range(STEPS))
    child.join(60)
    assert child.exitcode == 0


def test_a_worker_that_is_forked_while_another_thread_begins_a_loader_reads(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11's `functools.cached_property` has a lock, which would be taken for ever in the worker."""
    begins, goes_on = threading.Event(), threading.Event()
    of_spec, first = spec.MaskedRows, threading.current_thread()

    def made(bounds: Any) -> Any:
        if threading.current_thread() is not first:
            begins.set()
            goes_on.wait(60)
        return of_spec(bounds)

    monkeypatch.setattr(spec, "MaskedRows", made)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(b.step for b in loader_of(make(data), 0)))
    thread.start()
    assert begins.wait(60)
    assert [batch.step for batch in loader_of(make(data), 1, timeout=30)] == list(range(STEPS))
    goes_on.set()
    thread.join(60)
    assert found == list(range(STEPS))


def draw(directory: Path, queue: Any) -> None:
    torch.set_num_threads(1)
    loader = DataLoader(fr.ParquetDataset(directory, batch_size=BATCH), batch_size=None)
    queue.put([batch.step for batch in loader])


def test_what_newcomers_write_is_an_error(data: Dataset) -> None:
    """shuffle=True is refused by torch before it asks anything; reference/loader.md says what to write."""
    dataset: Any = make(data)
    for sampler in (RandomSampler, SequentialSampler, partial(DistributedSampler, num_replicas=2, rank=0)):
        with pytest.raises(TypeError, match=r"Sampler was given a ParquetDataset.*: leave the sampler out"):
            loader_of(dataset, 0, sampler=iter(sampler(dataset)))
    for how in ({"shuffle": True}, {"sampler": range(len(dataset))}):
        with pytest.raises(ValueError, match="DataLoader with IterableDataset: expected unspecified"):
            loader_of(dataset, 0, **how)
    with pytest.raises(TypeError, match="pass batch_size=None to the DataLoader, no collate_fn, and the"):
        next(iter(DataLoader(dataset, batch_size=BATCH)))
    with pytest.raises(TypeError, match="one of batch_size and global_batch_size must be given"):
        fr.ParquetDataset(data.directory, batch_size=BATCH, global_batch_size=BATCH)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns when more comes out than a length promised
        loader = loader_of(dataset, 2)
        assert len(list(loader)) == len(loader) == len(dataset)
    with pytest.raises(TypeError, match="is made of what a dataset reads"):
        type(next(iter(make(data))))({"row": torch.zeros(1)})  # type: ignore[call-arg]  # what wrappers do


@pytest.mark.law(9)
def test_an_index_is_an_error_that_says_what_to_write(data: Dataset) -> None:
    dataset: Any = make(data)
    refusal = r"no index: write rows=fr\.Split\(0\.0, 0\.9\) .*random_split and Subset.*read_rows.*batch_at"
    for index in (0, -1, slice(3), "row"):
        with pytest.raises(TypeError, match=refusal):
            dataset[index]
    part, _ = random_split(dataset, [0.5, 0.5])
    for subset in (part, Subset(dataset, [0])):
        with pytest.raises(TypeError, match=refusal):
            subset[0]
        with pytest.raises(TypeError, match=refusal):
            next(iter(DataLoader(subset)))
    assert len(list(dataset)) == len(dataset), "it is iterated as ever"


def test_a_changed_constructor_is_refused_or_harmless(data: Dataset) -> None:
    state = next(iter(make(data))).state_dict()
    with pytest.raises(fr.StateError, match="order"):
        make(data, shuffle=True).load_state_dict(state)
    with pytest.raises(fr.StateError, match="selection"):
        make(data, rows=~fr.Intervals([[0, 5]])).load_state_dict(state)
    other = make(data, batch_size=7)
    other.load_state_dict(state)
    assert next(iter(loader_of(other, 1)))["row"].tolist() == list(range(10, 17))
