"""Transforms that draw from generators of the whole process: said where that does not come again."""

from __future__ import annotations

import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
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
from support.each_of import each_of
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


def with_numpys_local_name(_: fr.Batch) -> Any:
    from numpy.random import normal

    return normal(size=3)


class WithNumpysAttributes:
    """What draws is called by other names than numpy's."""

    rng = np.random

    def __init__(self, way: str) -> None:
        self.__name__ = way
        self.draw: Callable[..., Any] = np.random.normal
        self.partial = partial(np.random.normal, size=3)
        self.generator = np.random.mtrand._rand

    def __call__(self, _: fr.Batch) -> Any:
        if self.__name__ == "draw":
            return self.draw(size=3)
        if self.__name__ == "rng":
            return self.rng.normal(size=3)
        if self.__name__ == "partial":
            return self.partial()
        return list(map(self.generator.normal, [1.0, 2.0]))


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
    (with_numpys_local_name, "numpy's"),
    *((WithNumpysAttributes(way), "numpy's") for way in ("draw", "rng", "partial", "map")),
    (with_python, r"Python's: draw from random.Random\(batch.generator\(\).initial_seed\(\)\)"),
    (with_pythons_function, "Python's"),
]


class Drawing:
    """A transform that keeps the batch, and lets a function draw."""

    def __init__(self, draw: Callable[[fr.Batch], Any], of: Callable[[fr.Batch], bool] | None = None) -> None:
        self.draw = draw
        self.of = of
        self.__qualname__ = draw.__name__

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        if self.of is None or self.of(batch):
            self.draw(batch)
        return batch


class Within:
    """A transform that calls a function in another thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function = function

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        thread = threading.Thread(target=self.function)
        thread.start()
        thread.join()
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


@pytest.mark.law(10)
def test_a_look_reads_the_generators_and_moves_none(small_dataset: Dataset) -> None:
    looked_at, batch = draws.Draws((spent,)), next(iter(make(small_dataset)))
    before = draws._states()
    for _ in range(draws.LOOKED_AT):
        looked_at.call(0, batch)
    assert draws._states() == before


def test_of_two_transforms_at_once_one_is_looked_at(small_dataset: Dataset) -> None:
    """What the other draws meanwhile, in its own thread, is no draw of the one that waits."""
    batch = next(iter(make(small_dataset)))
    inner = draws.Draws((with_python,))
    outer = draws.Draws((Within(lambda: inner.call(0, batch)),))
    inner.is_alone = outer.is_alone = True
    for _ in range(draws.CONFIRMED):
        outer.call(0, batch)
    assert inner.take() is None
    assert outer.take() is not None, "it did draw, by the other"
    for _ in range(draws.CONFIRMED):
        inner.call(0, batch)
    assert inner.take() is not None


@pytest.mark.law(2)
@each_of("threads", [1, 2, 4])
@each_of(("draw", "way"), DRAWING)
def test_threads_say_that_a_transform_draws_what_does_not_come_again(
    small_dataset: Dataset, draw: Callable[[fr.Batch], Any], way: str, threads: int
) -> None:
    dataset = make(small_dataset).map(as_advised).map(Drawing(draw))
    with pytest.warns(UserWarning, match=f"the transform {draw.__name__} draws .*{way}") as warned:
        batches = [batch for _ in range(2) for batch in fr.Loader(dataset, threads=threads)]
    assert [batch.step for batch in batches] == [*range(10)] * 2
    assert [warning.filename for warning in warned] == [__file__], "once in all passes, and at the loop"


@pytest.mark.processes
@pytest.mark.parametrize(("draw", "way"), [DRAWING[0], DRAWING[4], DRAWING[6]])
def test_so_do_the_workers_of_a_dataloader(
    small_dataset: Dataset, draw: Callable[[fr.Batch], Any], way: str
) -> None:
    dataset = make(small_dataset).map(Drawing(draw))
    with pytest.warns(UserWarning, match=f"the transform {draw.__name__} draws .*{way}") as warned:
        assert len(list(data_loader(dataset, 2))) == 10
    assert [warning.filename for warning in warned] == [__file__]


@pytest.mark.parametrize("draw", [with_torch, with_numpy, with_python])
def test_a_transform_that_begins_to_draw_late_is_noticed(
    small_dataset: Dataset, draw: Callable[[fr.Batch], Any]
) -> None:
    dataset = make(small_dataset, 2).map(Drawing(draw, lambda batch: batch.step >= 20))
    loader = fr.Loader(dataset, threads=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batches = iter(loader)
        assert [next(batches).step for _ in range(15)] == list(range(15))
    with pytest.warns(UserWarning, match=f"the transform {draw.__name__} draws"):
        assert len(list(batches)) == len(dataset) - 15


def test_a_transform_that_draws_for_some_batches_is_noticed(small_dataset: Dataset) -> None:
    """One thread: of two at once, one is looked at, which may be the one that does not draw."""
    dataset = make(small_dataset).map(Drawing(with_numpy, lambda batch: batch.step % 2 == 1))
    with pytest.warns(UserWarning, match="the transform with_numpy draws"):
        assert len(list(fr.Loader(dataset, threads=1))) == len(dataset)


@pytest.mark.law(2)
@each_of("transform", [spent, as_advised])
@each_of("threads", [1, 4])
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
