"""What a loader says of itself: counts, seconds, what is ready, how far the pass is, how long it takes."""

from __future__ import annotations

import json
import time
import weakref
from typing import Any

import pytest

import fastresume as fr
from fastresume.reading.monitor.stats import Stats
from support.each_of import each_of
from support.jobs import make
from support.strategies import Dataset
from support.watching import in_time

HOW: list[dict[str, Any]] = [
    {"threads": 0},
    {"threads": 2},
    {"num_workers": 2, "multiprocessing_context": "fork"},
]
IDS = ["no-threads", "threads", "workers"]


def busy(batch: fr.Batch) -> fr.Batch:
    """A transform that takes 2 ms."""
    end = time.perf_counter() + 0.002
    while time.perf_counter() < end:
        pass
    return batch


@pytest.mark.processes
@pytest.mark.parametrize("how", HOW, ids=IDS)
def test_seconds_are_told_apart(small_dataset: Dataset, how: dict[str, Any]) -> None:
    with fr.Loader(make(small_dataset).map(busy), **how) as loader:
        stats = loader.stats()
        assert (stats.decode_seconds, stats.transform_seconds, stats.seconds) == (0.0, 0.0, 0.0)
        seen = 0.0
        for number, _ in enumerate(loader, start=1):
            assert stats.transform_seconds >= 0.002 * number
            assert stats.decode_seconds >= seen
            seen = stats.decode_seconds
        assert seen > 0
        assert 0 < stats.wait_seconds < stats.next_seconds <= stats.seconds
        assert 0 < stats.wait_share < 1
        assert 0 < stats.next_share <= 1
        before = stats.decode_seconds, stats.transform_seconds
        assert stats.queued_batches == 0
        next(iter(loader))  # another reader's, on top of the first one's
        assert stats.decode_seconds > before[0]
        assert stats.transform_seconds >= before[1] + 0.002


@pytest.mark.parametrize("tail", ["drop", "short"])
def test_after_a_pass_its_figures_stay_and_no_other_pass_is_told_as_begun(
    small_dataset: Dataset, tail: Any
) -> None:
    with fr.Loader(make(small_dataset, tail=tail)) as loader:
        batches = len(list(loader))
        stats = loader.stats()
        assert (stats.batches, stats.epoch, stats.step) == (batches, 1, 0)
        assert stats.rows > 0
        assert stats.seconds > 0
        assert repr(stats).endswith("pass 0 is done, pass 1 not begun)")
        next(iter(loader))
        assert ", pass 1: " in repr(stats)


def test_without_threads_the_read_is_the_wait(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=0)
    list(loader)
    assert loader.stats().wait_seconds >= loader.stats().decode_seconds > 0


@pytest.mark.processes
@each_of("mapped", [False, True])
@each_of("how", HOW[1:])
def test_what_is_ready_is_told_without_taking_it(
    small_dataset: Dataset, how: dict[str, Any], mapped: bool
) -> None:
    dataset = make(small_dataset, columns=["row", "label"])
    with fr.Loader(dataset.map(busy) if mapped else dataset, **how) as loader:
        stats = loader.stats()
        assert (stats.queued_batches, stats.queued_bytes) == (0, 0)
        loader.start()
        ready = 4 if "num_workers" in how else 10  # two of each worker, or the whole pass
        assert in_time(lambda: stats.queued_batches == ready), stats
        assert stats.queued_bytes >= 90 * ready
        assert loader.dataset.batches_left == 10
        iterator = iter(loader)
        next(iterator)
        assert stats.queued_batches >= ready - 1
        list(iterator)
        assert (stats.queued_batches, stats.queued_bytes) == (0, 0)


def test_progress_is_that_of_all_ranks_and_the_rest_is_foretold(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("fastresume.reading.monitor.stats.time.perf_counter", lambda: clock[0])
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=5, world=(1, 3))
    loader = fr.Loader(dataset, threads=1)
    stats = loader.stats()
    assert (stats.progress, stats.step, stats.eta_seconds, stats.batches_per_second) == (0.0, 0, None, None)
    iterator = iter(loader)
    next(iterator)
    assert stats.progress == 15 / 103
    assert stats.eta_seconds is None  # one batch is no pace
    for _ in range(2):
        clock[0] += 0.5
        next(iterator)
    assert (stats.progress, stats.step, stats.epoch) == (45 / 103, 3, 0)
    assert stats.batches_per_second == pytest.approx(2)
    assert stats.eta_seconds == pytest.approx(dataset.batches_left / 2)
    list(iterator)
    assert (stats.progress, stats.step, stats.epoch, stats.dropped_rows) == (0.0, 0, 1, 13)


def test_the_pace_is_that_of_late(small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("fastresume.reading.monitor.stats.time.perf_counter", lambda: clock[0])
    dataset = make(small_dataset)
    stats = Stats(dataset._spec, dataset._shared_cursor)
    delivered: Any = fr.Loader(make(small_dataset), threads=0)._present()._front(is_drawn=False)
    for seconds, batches in ((1.0, 100), (20.0, 10)):
        for _ in range(batches):
            clock[0] += seconds
            stats._count(delivered, clock[0], clock[0])
    assert stats.batches_per_second == pytest.approx(1 / 20)


def test_all_of_it_is_one_dict_of_plain_numbers(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=2)
    list(loader)
    stats = loader.stats()
    found = stats.as_dict()
    assert json.loads(json.dumps(found)) == found
    assert {name: getattr(stats, name) for name in found} == found
    public = {name for name, value in vars(Stats).items() if isinstance(value, property)}
    assert set(found) == public


def test_what_a_reader_read_is_counted_also_when_it_is_left(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    before = 0.0
    for _ in range(5):
        for _ in loader:
            break
        now = loader.stats().decode_seconds
        assert now > before
        before = now


def test_a_batch_that_was_not_handed_over_is_not_counted(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    iterator = iter(loader)
    for _ in range(9):
        next(iterator)
    monkeypatch.setattr("fastresume.reading.iterator.BatchIterator._finish", interrupt)  # of the pass
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    monkeypatch.undo()
    assert (loader.stats().batches, loader.stats().dropped_rows) == (9, 0)
    assert [batch.step for batch in loader] == [9]
    assert (loader.stats().batches, loader.stats().dropped_rows) == (10, 3)


def interrupt(_iterator: object) -> None:
    """What a signal handler may do anywhere."""
    raise KeyboardInterrupt


@pytest.mark.processes
def test_what_workers_made_for_another_serving_is_not_ready(small_dataset: Dataset) -> None:
    with fr.Loader(make(small_dataset), num_workers=1, multiprocessing_context="fork") as loader:
        first = next(iter(loader))
        list(loader)
        loader.load_state_dict(first.state_dict())
        loader.start()
        assert in_time(lambda: loader.stats().queued_batches == 2)
        assert len(list(loader)) == 9
        assert loader.stats().queued_batches == 0


def test_stats_keep_no_reader_alive(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset).map(busy), threads=2)
    iterator = iter(loader)
    next(iterator)
    stats, reader = loader.stats(), weakref.ref(iterator._reader)  # type: ignore[attr-defined]
    counted = stats.rows, stats.bytes
    del loader, iterator
    assert in_time(lambda: reader() is None)
    assert (stats.queued_batches, stats.rows, stats.bytes) == (0, *counted)
    assert stats.transform_seconds > 0
