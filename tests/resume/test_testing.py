"""`assert_exact_resume` passes where resume is exact, and fails where it is not, naming the first batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.testing import assert_exact_resume
from support.jobs import parallel
from support.strategies import Dataset


@pytest.fixture
def make_dataset(small_dataset: Dataset) -> Callable[..., fr.ParquetDataset]:
    """A function that makes a dataset of ten batches."""

    def make(**arguments: Any) -> fr.ParquetDataset:
        return fr.ParquetDataset(small_dataset.directory, **{"batch_size": 10, **parallel(), **arguments})

    return make


Make = Callable[..., fr.ParquetDataset]


# ------------------------------------------------------------------------------------------ where it is exact


@pytest.mark.law(2)
def test_it_passes_on_a_dataset_and_on_loaders(make_dataset: Make) -> None:
    assert assert_exact_resume(make_dataset) == 10
    for threads in (1, 2, 4):
        assert assert_exact_resume(lambda: fr.Loader(make_dataset(), threads=threads)) == 10  # noqa: B023
    place = parallel(2, 3)
    assert (
        assert_exact_resume(
            lambda: make_dataset(columns=["*", "!i_*", fr.stack("i_*", name="dense")], **place, batch_size=4)
        )
        == 8
    )


@pytest.mark.law(2)
@pytest.mark.processes
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_it_passes_on_a_dataloader(make_dataset: Make, workers: int) -> None:
    context = "fork" if workers else None

    def make_loader() -> DataLoader[fr.Batch]:
        dataset = make_dataset(batch_size=25)
        return DataLoader(dataset, batch_size=None, num_workers=workers, multiprocessing_context=context)

    assert assert_exact_resume(make_loader) == 4


def test_it_resumes_after_as_many_batches_as_asked_and_after_the_last(make_dataset: Make) -> None:
    counts = {every: assert_exact_resume(make_dataset, every) for every in (1, 2, 3, 5, 9, 10, 11)}
    assert counts == {1: 10, 2: 5, 3: 4, 5: 2, 9: 2, 10: 1, 11: 1}
    for every in (0, -1):
        with pytest.raises(ValueError, match=f"every must be at least 1, found {every}"):
            assert_exact_resume(make_dataset, every)


def test_it_moves_no_state_of_the_loaders_it_is_not_given(make_dataset: Make) -> None:
    dataset = make_dataset()
    next(iter(dataset))
    state = dataset.state_dict()
    assert_exact_resume(make_dataset)
    assert dataset.state_dict() == state


# -------------------------------------------------------------------------------------------- where it is not


class Broken:
    """A loader that is wrong in one way, after a load or always."""

    def __init__(self, dataset: fr.ParquetDataset) -> None:
        self.dataset = dataset
        self.was_loaded = False

    def load_state_dict(self, state: Any) -> None:
        self.dataset.load_state_dict(state)
        self.was_loaded = True

    def __iter__(self) -> Iterator[fr.Batch]:
        for number, batch in enumerate(self.dataset):
            yield self.changed(batch, number) if self.was_loaded else batch

    def changed(self, batch: fr.Batch, number: int) -> fr.Batch:
        return batch


class SkipsABatch(Broken):
    """Off by one: what was prefetched when the state was taken is lost."""

    def __iter__(self) -> Iterator[fr.Batch]:
        batches = super().__iter__()
        if self.was_loaded and self.dataset.batches_left < 10:
            next(batches, None)
        return batches


class RepeatsABatch(Broken):
    """Off by one the other way: the batch of the state comes again."""

    def __init__(self, dataset: fr.ParquetDataset) -> None:
        super().__init__(dataset)
        self.previous = dataset.state_dict()

    def load_state_dict(self, state: Any) -> None:
        rows = fr.Cursor.from_state(state).consumed_rows
        for batch in copy.deepcopy(self.dataset):
            if fr.Cursor.from_state(batch.state_dict()).consumed_rows == rows:
                break
            self.previous = batch.state_dict()
        super().load_state_dict(self.previous)


class StartsAgain(Broken):
    """The state is taken and forgotten."""

    def load_state_dict(self, state: Any) -> None:
        self.was_loaded = True


class ReadsTheFinishedPassAgain(Broken):
    """Exact in the pass, but a finished pass resumes as that same pass."""

    def load_state_dict(self, state: Any) -> None:
        if fr.Cursor.from_state(state).consumed_rows:
            super().load_state_dict(state)


class EndsEarly(Broken):
    def __iter__(self) -> Iterator[fr.Batch]:
        batches = list(super().__iter__())
        return iter(batches[:-1] if self.was_loaded else batches)


class ChangesOneValue(Broken):
    def changed(self, batch: fr.Batch, number: int) -> fr.Batch:
        if number == 1:
            batch["c_2"][-1] += 1
        return batch


class FlipsTheSignOfZero(Broken):
    """Equal as numbers, and not the same bits."""

    def __iter__(self) -> Iterator[fr.Batch]:
        for batch in super().__iter__():
            batch["i_1"] = batch["i_1"] * (-0.0 if self.was_loaded else 0.0)
            yield batch


class ChangesTheDtype(Broken):
    def changed(self, batch: fr.Batch, number: int) -> fr.Batch:
        batch["c_1"] = batch["c_1"].to(torch.float64)
        return batch


class ChangesTheShape(Broken):
    def changed(self, batch: fr.Batch, number: int) -> fr.Batch:
        batch["c_1"] = batch["c_1"].view(-1, 1)
        return batch


class ReordersTheTensors(Broken):
    def changed(self, batch: fr.Batch, number: int) -> fr.Batch:
        batch["label"] = batch.pop("label")
        return batch


class DropsATensor(Broken):
    def changed(self, batch: fr.Batch, number: int) -> fr.Batch:
        del batch["at"]
        return batch


class CountsEpochsAnew(Broken):
    def load_state_dict(self, state: Any) -> None:
        self.dataset.load_state_dict(state, reset_epochs=True)
        self.was_loaded = True


class SwapsTwoBatches(Broken):
    def __iter__(self) -> Iterator[fr.Batch]:
        batches = list(super().__iter__())
        if self.was_loaded and len(batches) > 2:
            batches[0], batches[1] = batches[1], batches[0]
        return iter(batches)


@pytest.mark.law(2)
@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (SkipsABatch, "resumed after batch 0: 8 batches came, expected 9"),
        (RepeatsABatch, "resumed after batch 0: 10 batches came, expected 9"),
        (StartsAgain, "resumed after batch 0: 10 batches came, expected 9"),
        (ReadsTheFinishedPassAgain, r"resumed after batch 9: batch 0 differs in epoch and step: \(0, 0\)"),
        (EndsEarly, "resumed after batch 0: 8 batches came, expected 9"),
        (ChangesOneValue, "resumed after batch 0: batch 1 differs in the tensor 'c_2'"),
        (FlipsTheSignOfZero, "resumed after batch 0: batch 0 differs in the tensor 'i_1'"),
        (ChangesTheDtype, "resumed after batch 0: batch 0 differs in the tensor 'c_1'"),
        (ChangesTheShape, "resumed after batch 0: batch 0 differs in the tensor 'c_1'"),
        (ReordersTheTensors, "resumed after batch 0: batch 0 differs in names"),
        (DropsATensor, "resumed after batch 0: batch 0 differs in names"),
        (CountsEpochsAnew, "resumed after batch 9: batch 0 differs in its state"),
        (SwapsTwoBatches, r"resumed after batch 0: batch 0 differs in epoch and step: \(0, 2\), .*\(0, 1\)"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_it_fails_on_a_loader_that_is_broken_and_says_where(
    make_dataset: Make, broken: type[Broken], message: str
) -> None:
    with pytest.raises(AssertionError, match=message):
        assert_exact_resume(lambda: broken(make_dataset()))


def test_a_loader_that_is_not_broken_passes_all_of_that(make_dataset: Make) -> None:
    assert assert_exact_resume(lambda: Broken(make_dataset())) == 10


def test_it_fails_where_there_is_nothing_to_compare() -> None:
    with pytest.raises(AssertionError, match="the loader gives no batch"):
        assert_exact_resume(list)


def test_what_can_not_resume_is_told_from_a_resume_that_is_not_exact(make_dataset: Make) -> None:
    with pytest.raises(AssertionError, match=r'on_iter="restart": each iter\(\) starts the pass over'):
        assert_exact_resume(lambda: make_dataset(on_iter="restart"))
    with pytest.raises(AssertionError, match="so that it never resumes"):
        assert_exact_resume(lambda: fr.Loader(make_dataset(on_iter="restart")))
    forgotten: Any = lambda: None  # noqa: E731
    with pytest.raises(TypeError, match=r"make_loader must return a loader, found NoneType: is its `return`"):
        assert_exact_resume(forgotten)
    without: Any = lambda: DataLoader([1, 2])  # type: ignore[arg-type, var-annotated] # noqa: E731
    for make, found in ((lambda: iter(make_dataset()), "BatchIterator"), (without, "DataLoader")):
        with pytest.raises(TypeError, match=rf"loads states, found {found}: write .*, without iter\(\)"):
            assert_exact_resume(make)


def test_a_warning_of_a_transform_is_no_failure_and_a_random_one_is_named_as_what_it_is(
    make_dataset: Make,
) -> None:
    with pytest.warns(UserWarning, match="returned fewer rows than its batch has"):
        assert assert_exact_resume(lambda: make_dataset().map(lambda _: {"few": torch.zeros(3)}), 5) == 2
    with (
        pytest.warns(UserWarning, match="draws from a generator of the whole process"),
        pytest.raises(AssertionError, match="differs in the tensor 'noise'"),
    ):
        assert_exact_resume(lambda: fr.Loader(make_dataset().map(lambda _: {"noise": torch.rand(10)})), 5)
