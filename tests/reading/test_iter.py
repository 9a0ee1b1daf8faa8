"""What `iter()` means (docs/DESIGN.md §6): it goes on, restarts, resets; and what a loader has beside it."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
import warnings
from collections.abc import Iterator
from dis import opname
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch

import fastresume as fr
from support.each_of import each_of
from support.jobs import THREADS, assert_same_batch, make, make_reader, rows_of
from support.profile import one_in
from support.strategies import Dataset

EVERY = one_in(12)
"""An exception comes before one of so many instructions."""


@each_of("threads", THREADS)
def test_after_a_break_the_next_iter_goes_on(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    seen = []
    for _ in range(5):
        for number, batch in enumerate(loader):
            seen.append((batch.epoch, batch.step))
            if number == 3:
                break
    # Three calls end in a break, one with the pass; the fifth begins the next pass.
    assert seen == [(0, step) for step in range(10)] + [(1, step) for step in range(8)]


@each_of("threads", THREADS)
def test_an_exception_in_the_loop_loses_nothing(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    seen = []
    while loader.epoch == 0:
        with contextlib.suppress(ZeroDivisionError):
            for batch in loader:
                seen.append(batch.step)
                1 / (len(seen) % 3)
    assert seen == list(range(10))


@each_of("threads", THREADS)
def test_rows_that_an_evaluation_by_hand_leaves_out_are_told_once(
    small_dataset: Dataset, threads: int | None
) -> None:
    def read(tail: Any, mode: Any) -> int:
        data = fr.ParquetDataset(small_dataset.files, batch_size=10, on_iter="restart", tail=tail)
        loader = make_reader(data, threads)
        with mode():
            next(iter(loader))  # a part of a pass is no evaluation
            with pytest.warns(UserWarning) if warns else contextlib.nullcontext() as told:  # noqa: PT030
                rows = sum(batch.num_rows for batch in loader)
            assert rows == sum(batch.num_rows for batch in loader)
        assert not warns or "leaves out 3 of its 103 rows" in str(told[0].message)
        return rows

    for mode in (torch.no_grad, torch.inference_mode):
        warns = True
        assert read("drop", mode) == 100
        warns = False
        assert read("short", mode) == 103
    assert read("drop", torch.enable_grad) == 100


@each_of("threads", THREADS)
def test_two_iterators_with_no_batch_between_them_start_at_one_place(
    small_dataset: Dataset, threads: int | None
) -> None:
    loader = make_reader(make(small_dataset), threads)
    next(iter(loader))
    iter(loader)
    iter(loader)
    assert next(iter(loader)).step == 1


@each_of("threads", THREADS)
def test_an_older_iterator_is_an_error(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    with pytest.raises(fr.FastresumeError, match="a newer iterator of this dataset continues"):
        next(older)
    assert next(newer).step == 1
    with pytest.raises(fr.FastresumeError, match="a newer iterator"):
        next(older)
    assert next(newer).step == 2


def test_a_loader_and_its_dataset_are_one(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    loader, other = fr.Loader(dataset, threads=1), fr.Loader(dataset, threads=2)
    steps = [next(iter(reader)).step for reader in (dataset, loader, other, dataset, loader)]
    assert steps == [0, 1, 2, 3, 4]
    older = iter(loader)
    newer = iter(dataset)
    with pytest.raises(fr.FastresumeError, match="a newer iterator"):
        next(older)
    assert next(newer).step == 5


@each_of("threads", THREADS)
@each_of("change", ["load", "reset"])
def test_a_load_or_reset_ends_older_iterators(
    small_dataset: Dataset, threads: int | None, change: str
) -> None:
    loader = make_reader(make(small_dataset), threads)
    older = iter(loader)
    state = next(older).state_dict()
    next(older)
    loader.load_state_dict(state) if change == "load" else loader.reset()
    with pytest.raises(fr.StateError, match="a state was loaded after this iterator was made"):
        next(older)
    assert next(iter(loader)).step == (1 if change == "load" else 0)
    with pytest.raises(fr.StateError, match="a state was loaded after this iterator was made"):
        next(older)


@each_of("threads", THREADS)
def test_a_pass_that_is_over_stays_over(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    iterator = iter(loader)
    assert len(list(iterator)) == 10
    assert list(iterator) == []
    newer = iter(loader)
    assert list(iterator) == []
    assert next(newer).epoch == 1


@each_of("threads", THREADS)
def test_restart_makes_every_iter_a_whole_pass(small_dataset: Dataset, threads: int | None) -> None:
    dataset = make(small_dataset, on_iter="restart")
    loader = make_reader(dataset, threads)
    start = loader.state_dict()
    expected = list(make(small_dataset))
    for stop in (3, 10, 1, 10):
        found = []
        for batch in loader:
            found.append(batch)
            if len(found) == stop:
                break
        assert rows_of(found) == rows_of(expected[:stop])
        assert [batch.epoch for batch in found] == [0] * stop
        if stop < 10:  # a state in mid pass is that of the batch
            assert loader.state_dict() == expected[stop - 1].state_dict()
            assert loader.batches_left == 10 - stop
        else:
            assert len(list(loader)) == 10
            assert loader.state_dict() == start
            assert found[-1].state_dict() == (start if len(found) == 10 else None)
        assert loader.epoch == 0


@each_of("threads", THREADS)
def test_restart_of_a_pass_of_one_batch_is_that_batch_every_time(
    small_dataset: Dataset, threads: int | None
) -> None:
    """Its cursor at the end is that of its start: that tells nothing of what was delivered."""
    loader = make_reader(make(small_dataset, 103, on_iter="restart"), threads)
    for _ in range(3):
        assert rows_of(loader) == [list(range(103))]


@pytest.mark.filterwarnings("ignore:the dataset has on_iter=.restart.:UserWarning")
def test_restart_after_a_load_is_the_whole_pass_of_that_epoch(small_dataset: Dataset) -> None:
    training = make(small_dataset)
    list(training)
    state = next(iter(training)).state_dict()
    dataset = make(small_dataset, on_iter="restart")
    dataset.load_state_dict(state)
    assert dataset.state_dict() == state
    for _ in range(2):
        assert [(batch.epoch, batch.step) for batch in dataset] == [(1, step) for step in range(10)]
    assert (dataset.epoch, dataset.batches_left) == (1, 10)


@each_of("threads", THREADS)
def test_reset_goes_back_to_the_start_of_the_pass_once(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    list(loader)
    start = loader.state_dict()
    for batch in loader:
        if batch.step == 4:
            break
    loader.reset()
    assert loader.state_dict() == start
    assert (loader.epoch, loader.batches_left) == (1, 10)
    assert [(batch.epoch, batch.step) for batch in loader] == [(1, step) for step in range(10)]
    assert loader.epoch == 2


def test_peek_shows_the_next_batch_and_delivers_nothing(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=2)
    expected = list(make(small_dataset))
    states = [loader.state_dict(), *(batch.state_dict() for batch in expected)]
    assert_same_batch(loader.peek(), expected[0])
    assert loader.peek() is loader.peek()
    assert loader.state_dict() == states[0]
    for number, batch in enumerate(loader):
        assert_same_batch(batch, expected[number])
        following = loader.peek()
        assert (following.epoch, following.step) == divmod(number + 1, 10)
        assert loader.state_dict() == states[number + 1]
    assert (loader.epoch, loader.peek().epoch) == (1, 1)
    loader.load_state_dict(states[4])
    assert loader.peek().step == 4
    assert next(iter(loader)).step == 4
    loader.reset()
    assert loader.peek().step == 0


def assert_closed(iterator: Iterator[fr.Batch]) -> None:
    """A loop must not take the end of a pass for what is none."""
    for _ in "ab":
        with pytest.raises(fr.FastresumeError, match=r"close\(\) was called before the pass was over: break"):
            next(iterator)


def test_start_and_close_move_nothing(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=2)
    loader.start()
    loader.close()
    loader.start()
    loader.start()
    iterator = iter(loader)
    assert next(iterator).step == 0
    loader.start()
    loader.close()
    loader.close()
    assert_closed(iterator)
    assert loader.batches_left == 9
    assert [batch.step for batch in loader] == list(range(1, 10))
    loader.close()
    assert loader.epoch == 1


def test_a_loader_is_a_context_manager_and_can_be_used_again(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    with fr.Loader(dataset, threads=2) as loader:
        assert isinstance(loader, fr.Loader)
        iterator = iter(loader)
        assert next(iterator).step == 0
    assert_closed(iterator)
    with pytest.raises(KeyError), loader:
        raise KeyError
    assert next(iter(loader)).step == 1
    assert next(iter(dataset)).step == 2


def test_stats_count_what_was_delivered(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset, columns=["row", "label"]), threads=2)
    stats = loader.stats()
    loader.peek()
    assert (stats.batches, stats.rows, stats.bytes, stats.wait_seconds) == (0, 0, 0, 0.0)
    for number, _ in enumerate(loader, start=1):
        assert loader.stats() is stats
        assert (stats.batches, stats.rows, stats.bytes) == (number, 10 * number, 90 * number)
    assert stats.wait_seconds > 0


def test_bytes_ahead_that_were_meant_as_batches_are_told(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    size = dataset._spec.batch_bytes
    with pytest.warns(
        UserWarning, match=f"a batch has about {size}: write prefetch_bytes={2 * size} for 2 b"
    ):
        fr.Loader(dataset, prefetch_bytes=2)
    fr.Loader(dataset, prefetch_bytes=2 * size)


@each_of(
    ("arguments", "error", "message"),
    [
        ({"threads": -1}, ValueError, "threads must be at least 0, found -1"),
        ({"threads": 1.5}, TypeError, "threads must be an integer, found 1.5"),
        ({"prefetch_bytes": 0}, ValueError, "prefetch_bytes must be at least 1, found 0"),
        ({"prefetch_bytes": "1"}, TypeError, "prefetch_bytes must be an integer, found '1'"),
        ({"device": "vulkan"}, ValueError, "device must be 'cpu', 'cuda' or 'cuda:INDEX'"),
        ({"device": 1.5}, TypeError, "device must be a torch.device, a string or an index, found 1.5"),
        ({"num_workers": -1}, ValueError, "num_workers must be at least 0, found -1"),
    ],
)
def test_a_loader_refuses_what_it_does_not_know(
    small_dataset: Dataset, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    dataset = make(small_dataset)
    with pytest.raises(error, match=message):
        fr.Loader(dataset, **arguments)
    with pytest.raises(TypeError, match=r"dataset must be a ParquetDataset, .*found list"):
        fr.Loader([dataset])  # type: ignore[arg-type]
    for path in ("data.parquet", Path("data.parquet")):
        with pytest.raises(TypeError, match=r"write fr\.Loader\(fr\.ParquetDataset\(paths"):
            fr.Loader(path)  # type: ignore[arg-type]


def test_a_warning_made_an_error_leaves_the_rest_where_it_was(small_dataset: Dataset) -> None:
    state = list(make(small_dataset, 10))[8].state_dict()
    dataset = make(small_dataset, 14)
    dataset.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="13 rows"):
            next(iter(dataset))
    assert dataset.state_dict() == state
    with pytest.warns(UserWarning, match="13 rows"):
        assert list(dataset) == []
    assert dataset.epoch == 1


class AnyMomentError(Exception):
    """What the signal handler of the next test raises."""


def next_but_for(iterator: Iterator[fr.Batch], instructions: int) -> fr.Batch | None:
    """The next batch; none if an exception came up before one of Python's instructions, the so many-th."""
    left = instructions

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        frame.f_trace_opcodes = True
        # Python calls no signal handler before it returns: only where a function begins, after calls, and
        # where it jumps back.
        if event == "opcode" and not opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN"):
            left -= 1
            if left < 0:
                raise AnyMomentError
        return count

    was_enabled = gc.isenabled()
    gc.disable()  # it calls what others have it call, which no exception leaves
    sys.settrace(count)
    try:
        return next(iterator)
    except AnyMomentError:
        return None
    finally:
        sys.settrace(None)
        if was_enabled:
            gc.enable()


@pytest.mark.law(11)
@pytest.mark.parametrize(("threads", "mapped"), [(0, False), (1, False), (0, True)])
@pytest.mark.parametrize(
    "step", [pytest.param(0, marks=pytest.mark.slow), 2]
)  # the first one, and the one that ends the pass
def test_an_exception_before_any_instruction_of_next_moves_nothing(
    small_dataset: Dataset, threads: int, mapped: bool, step: int
) -> None:
    dataset = make(small_dataset, batch_size=30)
    loader = fr.Loader(dataset.map(dict) if mapped else dataset, threads=threads)
    for instructions in itertools.count(step=EVERY):
        loader.reset()
        iterator, stats = iter(loader), loader.stats()
        for _ in range(step):
            next(iterator)
        before, batches = dataset.state_dict(), stats.batches
        batch = next_but_for(iterator, instructions)
        if batch is not None:
            break
        assert (dataset.state_dict(), stats.batches) == (before, batches)
        batch = next(iterator)
        assert batch.step == step
        assert batch.state_dict() == dataset.state_dict()
        assert [again.step for again in loader.replay(step + 1)] == list(range(step + 1))
    assert batch.step == step
    assert instructions > 200
