"""Transforms that draw from generators of the whole process: said where that does not come again."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import shuffle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import rand
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.reading import draws
from fastresume.testing import assert_exact_resume
from support.jobs import assert_same_batch, data_loader, make, make_reader
from support.strategies import Dataset

ONES = torch.ones(7)


def with_torch(_: fr.Batch) -> Any:
    return torch.rand(3)


def in_place(_: fr.Batch) -> Any:
    return ONES.clone().normal_()


def with_dropout(_: fr.Batch) -> Any:
    return torch.nn.functional.dropout(ONES, 0.5)


def with_a_seed(batch: fr.Batch) -> Any:
    return torch.manual_seed(batch.step)


def with_numpy(_: fr.Batch) -> Any:
    return np.random.normal(size=3)


def with_numpys_function(_: fr.Batch) -> Any:
    return rand(3)


def with_python(_: fr.Batch) -> Any:
    return random.randint(1, 6)


def with_pythons_function(_: fr.Batch) -> Any:
    return shuffle([1, 2, 3])


DRAWING = [
    (with_torch, "torch's: pass generator=batch.generator()"),
    (in_place, "torch's"),
    (with_dropout, "torch's"),
    (with_a_seed, "torch's"),
    (with_numpy, r"numpy's: draw from numpy.random.default_rng\(batch.generator\(\).initial_seed\(\)\)"),
    (with_numpys_function, "numpy's"),
    (with_python, r"Python's: draw from random.Random\(batch.generator\(\).initial_seed\(\)\)"),
    (with_pythons_function, "Python's"),
]


class Drawing:
    """A transform that keeps the batch, and lets a function draw."""

    def __init__(self, draw: Callable[[fr.Batch], Any], first_step: int = 0) -> None:
        self.draw = draw
        self.first_step = first_step
        self.__qualname__ = draw.__name__

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        if batch.step >= self.first_step:
            self.draw(batch)
        return batch


def as_advised(batch: fr.Batch) -> dict[str, Any]:
    """What the warnings say."""
    seed = batch.generator().initial_seed()
    drawn = [
        torch.rand(3, generator=batch.generator()).double(),
        torch.from_numpy(np.random.default_rng(seed).normal(size=3)),
        torch.from_numpy(np.random.default_rng(seed).random(3)),
        torch.from_numpy(np.random.RandomState(seed % 2**32).rand(3)),
        torch.tensor([random.Random(seed).random() for _ in range(3)]),
    ]
    return {"drawn": torch.cat(drawn)}


def spent(batch: fr.Batch) -> fr.Batch:
    """A transform that draws nothing, and lets others run meanwhile."""
    for _ in range(20):
        torch.mm(torch.ones(20, 20), torch.ones(20, 20))
    return batch


@contextmanager
def others_drawing() -> Iterator[None]:
    """A context in which another thread draws from all generators of the process, all the time."""
    is_over = threading.Event()

    def draw() -> None:
        while not is_over.wait(0.0002):
            torch.rand(3), np.random.rand(3), random.random()

    drawing = threading.Thread(target=draw)
    drawing.start()
    try:
        yield
    finally:
        is_over.set()
        drawing.join(60)


def test_a_thread_that_comes_later_says_nothing_again(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = next(iter(make(small_dataset)))
    known, meets = draws.Draws((with_python,)), iter([True])
    states = draws._states

    def meet() -> dict[str, Any]:
        if next(meets, False):  # another thread is as far as this one, and ends before
            known.call(0, batch)
            assert known.take() is not None
        return states()

    monkeypatch.setattr(draws, "_states", meet)
    known.call(0, batch)
    assert known.take() is None


@pytest.mark.law(2)
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize(("draw", "way"), DRAWING, ids=lambda value: getattr(value, "__name__", ""))
def test_threads_say_that_a_transform_draws_what_does_not_come_again(
    small_dataset: Dataset, draw: Callable[[fr.Batch], Any], way: str, threads: int
) -> None:
    dataset = make(small_dataset).map(as_advised).map(Drawing(draw))
    with pytest.warns(UserWarning, match=f"the transform {draw.__name__} draws .*{way}") as told:
        batches = [batch for _ in range(2) for batch in fr.Loader(dataset, threads=threads)]
    assert [batch.step for batch in batches] == [*range(10)] * 2
    assert [warning.filename for warning in told] == [__file__], "once in all passes, and at the loop"


@pytest.mark.processes
@pytest.mark.parametrize(("draw", "way"), [DRAWING[0], DRAWING[4], DRAWING[6]])
def test_so_do_the_workers_of_a_dataloader(
    small_dataset: Dataset, draw: Callable[[fr.Batch], Any], way: str
) -> None:
    dataset = make(small_dataset).map(Drawing(draw))
    with pytest.warns(UserWarning, match=f"the transform {draw.__name__} draws .*{way}") as told:
        assert len(list(data_loader(dataset, 2))) == 10
    assert [warning.filename for warning in told] == [__file__]


@pytest.mark.parametrize("draw", [with_torch, with_numpy, with_python])
def test_a_transform_that_begins_to_draw_late_is_noticed(
    small_dataset: Dataset, draw: Callable[[fr.Batch], Any]
) -> None:
    dataset = make(small_dataset, 2).map(Drawing(draw, first_step=20))
    loader = fr.Loader(dataset, threads=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches = iter(loader)
        assert [next(batches).step for _ in range(15)] == list(range(15))
    with pytest.warns(UserWarning, match=f"the transform {draw.__name__} draws"):
        assert len(list(batches)) == len(dataset) - 15


@pytest.mark.law(2)
@pytest.mark.parametrize("transform", [spent, as_advised])
@pytest.mark.parametrize("threads", [1, 4])
def test_nothing_is_said_of_a_transform_though_other_threads_draw(
    small_dataset: Dataset, transform: Any, threads: int
) -> None:
    """Warnings are errors here: as in a job whose model has dropout on the CPU, and whose loop draws."""
    with others_drawing():
        first, second = (
            list(fr.Loader(make(small_dataset, 2).map(transform), threads=threads)) for _ in "ab"
        )
    for one, other in zip(first, second, strict=True):
        assert_same_batch(one, other)


@pytest.mark.law(2)
def test_what_the_warnings_advise_comes_again(small_dataset: Dataset) -> None:
    dataset_of: Callable[[], Any] = lambda: fr.Loader(make(small_dataset).map(as_advised), threads=2)  # noqa: E731
    assert assert_exact_resume(dataset_of) == 10


@pytest.mark.processes
@pytest.mark.parametrize("draw", [with_torch, with_numpy, with_python])
def test_nothing_is_said_where_it_comes_again(
    small_dataset: Dataset, draw: Callable[[fr.Batch], Any]
) -> None:
    """In the caller's thread, whose generators a checkpoint restores; in workers that are seeded."""
    dataset = make(small_dataset).map(Drawing(draw))
    for reader in (dataset, make_reader(dataset, 0), DataLoader(dataset, batch_size=None)):
        assert len(list(reader)) == 10
    with fr.Loader(dataset, num_workers=2, multiprocessing_context="fork") as loader:
        assert len(list(loader)) == 10
    dataset.batch_at(0, 3)


@pytest.mark.law(11)
def test_as_an_error_it_loses_no_batch(small_dataset: Dataset) -> None:
    dataset = make(small_dataset).map(Drawing(with_torch))
    batches, steps = iter(fr.Loader(dataset, threads=2)), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refused = 0
        while dataset.epoch == 0:
            try:
                steps.append(next(batches).step)
            except UserWarning:
                refused += 1
                assert dataset.batches_left == 10 - len(steps)
    assert (steps, refused) == (list(range(10)), 1)
