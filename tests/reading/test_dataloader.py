"""Under torch's DataLoader: every number of workers, fork and spawn, fresh and persistent ones.

With FASTRESUME_PROFILE=soak every start method is tried with more workers.
"""

from __future__ import annotations

import copy
import logging
import multiprocessing
import pickle
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from fastresume.state import shared_cursor
from support.child import children, shared_memory_files
from support.dataloaders import BATCH, ROWS, STEPS, make, oracle_passes, rows_of
from support.each_of import each_of
from support.profile import SOAK
from support.strategies import Dataset, plain_spec
from support.watching import in_time

pytestmark = [
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker processes:UserWarning"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([40, 0, 60], [], [100, 11]).write(tmp_path_factory.mktemp("dataloader"))


def loader_of(dataset: fr.ParquetDataset, num_workers: int, **how: Any) -> DataLoader[fr.Batch]:
    return DataLoader(dataset, batch_size=None, num_workers=num_workers, **how)


MATRIX = [
    pytest.param(0, None, False, None, id="in-process"),
    *(
        pytest.param(
            workers,
            "fork",
            persistent,
            None,
            id=f"{workers}-fork{'-persistent' * persistent}",
            marks=pytest.mark.slow if (workers, persistent) in ((1, True), (4, False)) else (),
        )
        for workers in (1, 2, 4)
        for persistent in (False, True)
    ),
    pytest.param(2, "spawn", True, None, id="2-spawn-persistent", marks=pytest.mark.slow),
    pytest.param(1, "forkserver", False, 3, id="1-forkserver-prefetch-3", marks=pytest.mark.slow),
]
if SOAK:
    MATRIX += [
        pytest.param(
            workers,
            start,
            persistent,
            prefetch,
            id=f"{workers}-{start}-prefetch-{prefetch}{'-persistent' * persistent}",
        )
        for workers in (2, 8)
        for start in ("fork", "spawn", "forkserver")
        for persistent in (False, True)
        for prefetch in (1, 7)
    ]


@pytest.mark.law(2)
@pytest.mark.law(7)
@pytest.mark.parametrize(("num_workers", "start", "persistent", "prefetch"), MATRIX)
def test_passes_follow_each_other_and_a_loaded_state_reaches_every_worker(
    data: Dataset, num_workers: int, start: str | None, persistent: bool, prefetch: int | None
) -> None:
    dataset = make(data)
    how: dict[str, Any] = {
        "multiprocessing_context": start,
        "persistent_workers": persistent,
        "prefetch_factor": prefetch,
    }
    loader = loader_of(dataset, num_workers, **how)
    expected, states = oracle_passes(dataset, num_workers, passes=3)
    first, second = list(loader), list(loader)
    assert rows_of(first + second) == expected[: 2 * STEPS]
    assert [batch.state_dict()["fastresume"] for batch in first + second] == states[: 2 * STEPS]
    assert [batch.step for batch in second] == list(range(STEPS))
    assert {batch.epoch for batch in second} == {1}
    assert dataset.epoch == 2
    dataset.load_state_dict(first[6].state_dict())  # the workers are running, where they persist
    assert rows_of(list(loader)) == expected[7:STEPS]
    fresh = make(data)
    fresh.load_state_dict(first[-1].state_dict())  # before the workers start
    again = loader_of(fresh, num_workers, **how)
    assert rows_of(list(again)) == expected[STEPS : 2 * STEPS]


@pytest.mark.law(3)
@each_of(("before", "after"), [(0, 2), (2, 0), (2, 3), (4, 1)])
def test_another_number_of_workers_delivers_what_is_left_exactly_once(
    data: Dataset, before: int, after: int
) -> None:
    delivered = list(islice(loader_of(make(data), before), 7))
    resumed = make(data, batch_size=7)
    resumed.load_state_dict(pickle.loads(pickle.dumps(delivered[-1].state_dict())))
    delivered += list(loader_of(resumed, after))
    rows = sorted(row for batch in rows_of(delivered) for row in batch)
    rest = (ROWS - 7 * BATCH) % 7
    assert len(rows) == ROWS - rest
    assert len(set(rows)) == len(rows)


def test_an_iterator_that_nobody_drew_from_counts_nothing(data: Dataset) -> None:
    dataset = make(data)
    loader = loader_of(dataset, 2)
    expected, _ = oracle_passes(dataset, 2, passes=1)
    iter(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rows_of(list(loader)) == expected
    assert dataset.epoch == 1


@pytest.mark.parametrize("persistent", [False, True])
def test_a_pass_that_was_broken_off_starts_again_with_a_warning(data: Dataset, persistent: bool) -> None:
    dataset = make(data)
    loader = loader_of(dataset, 2, persistent_workers=persistent)
    expected, _ = oracle_passes(dataset, 2, passes=1)
    kept = list(islice(loader, 5))
    with pytest.warns(UserWarning, match="broken off starts again where it was loaded") as warned:
        assert rows_of(list(loader)) == expected
    assert [warning.filename for warning in warned] == [__file__]
    assert dataset.epoch == 1
    dataset.load_state_dict(kept[-1].state_dict())  # what the warning says
    assert rows_of(list(loader)) == expected[5:]


@pytest.mark.parametrize(
    ("start_method", "num_workers"), [("fork", 2), pytest.param("spawn", 1, marks=pytest.mark.slow)]
)
def test_a_state_that_knows_nothing_of_the_workers_batches_is_not_saved_silently(
    data: Dataset, tmp_path: Path, caplog: pytest.LogCaptureFixture, start_method: str, num_workers: int
) -> None:
    dataset = make(data)
    checkpointer = Checkpointer(tmp_path, keep=None)
    loader = loader_of(dataset, num_workers, multiprocessing_context=start_method, worker_init_fn=take_state)

    def saves(step: int, expected: dict[str, str]) -> None:
        checkpointer.save(step, loader=dataset)
        assert dataset.state_dict() == expected
        assert not caplog.records

    with caplog.at_level(logging.WARNING, logger="fastresume"):
        saves(0, dataset.state_dict())
        iterator = iter(loader)
        saves(1, dataset.state_dict())  # the workers have begun, but nothing was handed over
        next(iterator)
        batch = next(iterator)
        advice = r"workers of a torch DataLoader.*load_state_dict\(batch.state_dict\(\)\).*fastresume.Loader"
        with pytest.raises(fr.StateError, match=advice):
            checkpointer.save(2, loader=dataset)
        assert not caplog.records
        checkpointer.save(2, loader=batch)
        for one in (dataset, dataset.map(dict), fr.Loader(dataset)):
            with pytest.raises(fr.StateError, match=advice):
                one.state_dict()
        dataset.load_state_dict(batch.state_dict())
        saves(3, batch.state_dict())
        *_, last = loader
        saves(4, last.state_dict())
        for step, batch in enumerate(islice(loader_of(dataset, 0), 2), start=5):
            saves(step, batch.state_dict())


def take_state(_worker: int) -> None:
    """What a worker may do without a word: errors of it reach the main process."""
    info = torch.utils.data.get_worker_info()
    assert info is not None
    info.dataset.state_dict()
    assert not info.dataset._shared_cursor.is_behind


def test_drawing_exactly_the_last_batch_ends_the_pass(data: Dataset) -> None:
    dataset = make(data)
    loader = loader_of(dataset, 2)
    batches = list(islice(loader, len(loader)))
    assert len(batches) == STEPS
    assert dataset.epoch == 1
    assert {batch.epoch for batch in loader} == {1}


OTHERS_ARE_DONE = multiprocessing.Event()


class SlowWorker(fr.ParquetDataset):
    """One worker waits for the end of the others, whose batches arrive before they are due."""

    def __iter__(self) -> Iterator[fr.Batch]:
        worker = get_worker_info()
        for number, batch in enumerate(super().__iter__()):
            if worker is not None and worker.id == 0 and number > 0:
                assert OTHERS_ARE_DONE.wait(60)
            yield batch
        if worker is not None and worker.id > 0:
            OTHERS_ARE_DONE.set()


def test_a_last_batch_that_arrived_early_but_did_not_come_out_is_not_delivered(data: Dataset) -> None:
    # 4 batches: 0 and 2 of the slow worker, 1 and 3 of the fast one. Batch 3 arrives before batch 2.
    dataset = SlowWorker(data.directory, batch_size=50)
    loader = loader_of(dataset, 2)
    batches = list(islice(loader, 3))
    assert [batch.step for batch in batches] == [0, 1, 2]
    assert dataset.epoch == 0
    dataset.load_state_dict(batches[-1].state_dict())
    assert [batch.step for batch in loader] == [3]
    assert dataset.epoch == 1


@pytest.mark.parametrize("persistent", [False, True])
def test_an_iterator_made_before_a_state_was_loaded_raises(data: Dataset, persistent: bool) -> None:
    dataset = make(data)
    loader = loader_of(dataset, 2, persistent_workers=persistent)
    iterator = iter(loader)
    batch = next(iterator)
    dataset.load_state_dict(batch.state_dict())
    with pytest.raises(fr.StateError, match="a state was loaded after this DataLoader iterator was made"):
        list(iterator)
    assert [batch.step for batch in loader] == list(range(1, STEPS))


STATE_IS_LOADED = multiprocessing.Event()


def wait_for_the_load(worker: int) -> None:
    assert worker == 0 or STATE_IS_LOADED.wait(60)


def test_a_worker_that_begins_after_a_load_does_not_mix_with_those_before(data: Dataset) -> None:
    dataset = make(data)
    loader = loader_of(dataset, 2, persistent_workers=True, worker_init_fn=wait_for_the_load)
    iterator = iter(loader)
    batch = next(iterator)
    dataset.load_state_dict(batch.state_dict())
    STATE_IS_LOADED.set()
    with pytest.raises(fr.StateError, match="a state was loaded after this DataLoader iterator was made"):
        list(iterator)
    assert [batch.step for batch in loader] == list(range(1, STEPS))


def test_a_rest_that_makes_no_batch_is_dropped_with_a_warning_and_the_next_pass_follows(
    data: Dataset,
) -> None:
    dataset = make(data, batch_size=ROWS - 5)
    (batch,) = list(dataset)
    small = make(data, batch_size=101)
    first = next(iter(small))
    dataset.load_state_dict(first.state_dict())
    # 110 rows are left, fewer than a batch of 206.
    with pytest.warns(UserWarning, match="with 110 rows left of it: too few for a global batch of 206"):
        batches = list(loader_of(dataset, 2))
    assert [found.epoch for found in batches] == [1]
    assert (batches[0].rows() == batch.rows()).all()
    assert dataset.epoch == 2


def test_a_state_loaded_inside_a_worker_says_where_to_load_it(data: Dataset) -> None:
    with pytest.raises(fr.FastresumeError, match="into the dataset in the main process"):
        list(loader_of(make(data), 1, worker_init_fn=load_in_worker))


def load_in_worker(_worker: int) -> None:
    dataset: Any = get_worker_info().dataset  # type: ignore[union-attr]
    dataset.load_state_dict(dataset.state_dict())


@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_forgotten_batch_size_none_is_an_error_that_says_so(data: Dataset, num_workers: int) -> None:
    with pytest.raises(TypeError, match="pass batch_size=None"):
        next(iter(DataLoader(make(data), batch_size=4, num_workers=num_workers)))


def test_a_dataset_in_a_forked_child_goes_on_by_itself(data: Dataset) -> None:
    dataset = make(data)
    iterator = iter(dataset)
    next(iterator)
    context = multiprocessing.get_context("fork")
    queue: Any = context.SimpleQueue()
    child = context.Process(target=draw_all, args=(dataset, queue))
    child.start()
    assert queue.get() == (STEPS - 1, 1)
    child.join(60)
    assert child.exitcode == 0
    assert dataset.epoch == 0
    assert [batch.step for batch in iterator] == list(range(1, STEPS))


def draw_all(dataset: fr.ParquetDataset, queue: Any) -> None:
    torch.set_num_threads(1)
    batches = list(dataset)
    queue.put((len(batches), dataset.epoch))


def test_restart_gives_the_whole_pass_every_time(data: Dataset) -> None:
    dataset = make(data, on_iter="restart")
    loader = loader_of(dataset, 2)
    first, second = list(loader), list(loader)
    assert rows_of(first) == rows_of(second)
    assert {batch.epoch for batch in first + second} == {0}
    assert first[-1].state_dict() == make(data).state_dict()
    assert dataset.epoch == 0


def test_a_batch_from_a_worker_is_a_plain_value(data: Dataset) -> None:
    batch = list(loader_of(make(data), 2))[-1]
    assert isinstance(batch, fr.Batch)
    again = pickle.loads(pickle.dumps(batch))
    assert type(again) is fr.Batch
    assert again.state_dict() == batch.state_dict()
    assert torch.equal(again["row"], batch["row"])


def test_a_state_too_long_to_share_is_refused_by_workers_and_loads_in_process(
    data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_cursor, "CAPACITY_BYTES", shared_cursor._TEXT_START + 300)
    dataset = make(data)
    offsets = {f"{data.directory}:{start}": start for start in range(0, 200, 2)}
    dataset.load_state_dict(fr.Cursor.from_offsets(offsets, dataset, files=dataset.files))
    with pytest.raises(fr.StateError, match="does not reach DataLoader workers"):
        list(loader_of(dataset, 1))
    assert np.concatenate(rows_of(list(dataset))).tolist() == [*range(1, 200, 2), *range(200, 210)]


def test_intervals_of_a_state_are_written_for_workers_once_in_a_pass(data: Dataset) -> None:
    dataset, other = make(data), make(data)
    shared = dataset._shared_cursor
    for step in (2, 6):
        offsets = {f"{data.directory}:{start}": start for start in range(0, 100, step)}
        other.load_state_dict(fr.Cursor.from_offsets(offsets, other, files=other.files))
        dataset.load_state_dict(other.state_dict())
        written = shared._laid
        batches = iter(dataset)
        for batch in islice(batches, 5):
            assert shared._laid is written
            assert shared.read().cursor == shared.cursor
            assert batch.state_dict() == dataset.state_dict()
    rest = rows_of(list(copy.deepcopy(dataset)))
    assert np.concatenate(rows_of(list(loader_of(dataset, 1)))).tolist() == np.concatenate(rest).tolist()
    assert shared.read().cursor == shared.cursor
    assert shared.cursor.epoch == 1


def test_no_child_and_no_shared_memory_is_left(data: Dataset) -> None:
    memory_before, children_before = shared_memory_files(), set(children())
    dataset = make(data)
    loader = loader_of(dataset, 2, persistent_workers=True)
    list(loader)
    assert len(set(children()) - children_before) == 2
    del loader
    assert in_time(lambda: set(children()) <= children_before)
    assert shared_memory_files() <= memory_before


class Wrapped(IterableDataset[Any]):
    """What a framework may want: batches of what it is given."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[Any]:
        yield from self.inner


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_a_loader_in_several_workers_is_refused_and_a_dataset_is_shared(data: Dataset, workers: int) -> None:
    def rows(inner: Any) -> list[int]:
        return sorted(
            row
            for batch in DataLoader(Wrapped(inner), batch_size=None, num_workers=workers)
            for row in batch.rows().tolist()
        )

    whole = rows(make(data, tail="short"))
    assert whole == [*range(211)]
    loader = fr.Loader(make(data, tail="short"), threads=0)
    if workers < 2:
        assert rows(loader) == whole
    else:
        with pytest.raises(fr.FastresumeError, match=r"worker \d of 2 .* wrap its dataset"):
            rows(loader)
