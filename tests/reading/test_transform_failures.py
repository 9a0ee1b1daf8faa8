"""What happens when a function that `map` was given fails: the batch is named, and nothing is lost."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import fastresume as fr
from fastresume.cli import main
from support.each_of import each_of
from support.jobs import (
    THREADS,
    assert_same_batch,
    data_loader,
    draw_by_row,
    fields_of,
    make,
    make_reader,
    rows_of,
)
from support.strategies import Dataset

pytestmark = pytest.mark.law(11)


class FlakyError(Exception):
    """What a transform of these tests raises."""


class FailsOnce:
    """A transform that writes to the tensors, and fails at the first call for one step."""

    def __init__(self, step: int, error: type[BaseException] = FlakyError) -> None:
        self.step, self.error = step, error
        self.has_failed = False

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        batch["c_2"] += 1
        if batch.step == self.step and not self.has_failed:
            self.has_failed = True
            raise self.error("once")
        return batch


def fail(batch: fr.Batch) -> fr.Batch:
    raise FlakyError("always")


def add_one(batch: fr.Batch) -> fr.Batch:
    batch["c_2"] = batch["c_2"] + 1
    return batch


@each_of("threads", [*THREADS, 0])
@each_of("step", [0, 4, 9])
def test_a_failure_names_the_batch_and_loses_nothing(
    small_dataset: Dataset, threads: int | None, step: int
) -> None:
    expected = list(make(small_dataset).map(add_one))
    dataset = make(small_dataset)
    iterator = iter(make_reader(dataset.map(FailsOnce(step)), threads))
    found = [next(iterator) for _ in range(step)]
    before = dataset.state_dict()
    with pytest.raises(FlakyError, match="once") as error:
        next(iterator)
    path, group, row = dataset.locate([10 * step])[0]
    assert error.value.__notes__[0].startswith(
        f"raised by FailsOnce on the batch of epoch 0, step {step}, rank 0: 10 rows, the first is row {row} "
        f"of row group {group} in {path}"
    )
    assert dataset.state_dict() == before
    found += [next(iterator) for _ in range(step, 10)]
    with pytest.raises(StopIteration):
        next(iterator)
    for one, other in zip(expected, found, strict=True):
        assert_same_batch(one, other)  # though the transform had written to the tensors when it failed
    assert dataset.epoch == 1


@each_of("threads", THREADS)
def test_a_transform_that_always_fails_is_asked_again_each_time(
    small_dataset: Dataset, threads: int | None
) -> None:
    dataset = make(small_dataset, on_iter="restart")
    next(iter(dataset))
    iterator = iter(make_reader(dataset.map(draw_by_row).map(fail), threads))
    for _ in range(3):
        with pytest.raises(FlakyError) as raised:
            next(iterator)
        assert raised.value.__notes__ == [raised.value.__notes__[0]]
        assert "fail, transform 2 of 2, on the batch of epoch 0, step 0" in raised.value.__notes__[0]
    assert fields_of(dataset.state_dict())["cuts"] == [[1, 1, 10, 1]]


@each_of("threads", THREADS)
def test_a_stop_iteration_does_not_end_the_pass(small_dataset: Dataset, threads: int | None) -> None:
    dataset = make(small_dataset)
    iterator = iter(make_reader(dataset.map(FailsOnce(3, StopIteration)), threads))
    found = [next(iterator) for _ in range(3)]
    with pytest.raises(
        fr.FastresumeError, match="FailsOnce raised StopIteration, which would end the pass"
    ) as error:
        next(iterator)
    assert "step 3" in error.value.__notes__[0]
    assert rows_of([*found, *iterator]) == rows_of(list(make(small_dataset)))


@each_of("threads", THREADS)
def test_a_note_names_the_files_of_the_batch(small_dataset: Dataset, threads: int | None) -> None:
    dataset = make(small_dataset, 103)
    with pytest.raises(FlakyError) as raised:
        next(iter(make_reader(dataset.map(fail), threads)))
    note = raised.value.__notes__[0]
    with_rows = {path for path, _, _ in dataset.locate(range(103))}
    assert len(with_rows) == 2
    assert all(path in note for path in with_rows)


@pytest.mark.processes
def test_a_failure_in_a_worker_names_the_batch(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    loader = iter(data_loader(dataset.map(FailsOnce(1)), 1))
    first = next(loader)
    with pytest.raises(
        FlakyError, match=r"(?s)once.*raised by FailsOnce on the batch of epoch 0, step 1, rank 0"
    ):
        next(loader)
    dataset.load_state_dict(first.state_dict())
    rest = list(data_loader(dataset, 1))
    assert rows_of([first, *rest]) == rows_of(list(make(small_dataset)))


def test_the_same_exception_has_its_note_once(small_dataset: Dataset) -> None:
    error = FlakyError("one and the same")

    def fail_alike(batch: fr.Batch) -> fr.Batch:
        raise error

    iterator = iter(make(small_dataset).map(fail_alike))
    for _ in range(3):
        with pytest.raises(FlakyError):
            next(iterator)
    assert len(error.__notes__) == 1


def test_a_loader_may_be_closed_by_its_own_transform(small_dataset: Dataset) -> None:
    def close(batch: fr.Batch) -> fr.Batch:
        loader.close()
        return batch

    loader = fr.Loader(make(small_dataset).map(close), threads=2)
    found = []
    # It is told if it waits for a batch by then.
    with contextlib.suppress(fr.FastresumeError):
        found += loader
    assert len(found) < len(loader)


def test_a_log_of_what_was_delivered_is_whole_after_a_failure(small_dataset: Dataset, tmp_path: Any) -> None:
    loader = fr.Loader(make(small_dataset, tail="short").map(FailsOnce(5)), threads=2, audit=tmp_path)
    iterator = iter(loader)
    delivered = [next(iterator) for _ in range(5)]
    with pytest.raises(FlakyError):
        next(iterator)
    delivered += iterator
    loader.close()
    assert len(delivered) == 11
    assert main(["audit", str(tmp_path)]) == 0
