"""Any batch again, of a pass that workers or a resumed job read, without a word of who read it."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch

import fastresume as fr
from support.jobs import (
    MANY_WORKERS,
    arrays_of,
    assert_batch_values,
    assert_same_batch,
    data_loader,
    make,
    parallel,
)
from support.random_states import global_states
from support.strategies import Dataset

WORKERS: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}

ORDERS = pytest.mark.parametrize(
    "order",
    [{}, {"shuffle": True, "seed": 3, "block_rows": 10, "window_rows": 30}],
    ids=["plain", "shuffled"],
)

pytestmark = pytest.mark.processes


def shaken(batch: fr.Batch) -> dict[str, Any]:
    """What a transform draws from each of the process's generators, which a worker of a Loader seeds."""
    drawn = [*torch.rand(3).tolist(), *np.random.rand(3).tolist(), random.random()]
    own = torch.rand(3, generator=batch.generator())
    return {"c_2": batch["c_2"], "drawn": torch.tensor(drawn), "own": own}


@ORDERS
def test_a_loader_gives_the_batch_that_its_workers_made_with_what_they_drew(
    small_dataset: Dataset, order: dict[str, Any]
) -> None:
    dataset = make(small_dataset, tail="pad", **order).map(shaken)
    with fr.Loader(dataset, **WORKERS) as loader:
        passes = [list(loader), list(loader)]
    before = global_states()
    for batch in itertools.chain(*passes):
        assert_same_batch(loader.batch_at(batch.epoch, batch.step), batch)
        assert_same_batch(dataset.batch_at(batch.epoch, batch.step), batch)
        with fr.Loader(make(small_dataset, tail="pad", **order).map(shaken), **WORKERS) as fresh:
            assert_same_batch(fresh.batch_at(batch.epoch, batch.step), batch)  # nobody has read it there
    assert global_states() == before


@pytest.mark.law(10)
@pytest.mark.parametrize("threads", [0, 2])
def test_no_generator_moves_when_a_batch_is_made_again(small_dataset: Dataset, threads: int) -> None:
    dataset = make(small_dataset).map(shaken)
    loader = fr.Loader(dataset, threads=threads)
    before = global_states()
    assert loader.batch_at(0, 3).step == dataset.batch_at(0, 3).step == 3
    assert global_states() == before


@MANY_WORKERS
def test_a_dataset_gives_the_batch_that_the_workers_of_a_dataloader_made(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, tail="pad")
    batches = list(itertools.islice(data_loader(dataset, 3), 5))
    for batch in batches:  # in mid pass, which a dataset with workers does not see
        assert_same_batch(dataset.batch_at(0, batch.step), batch)
    dataset.load_state_dict(batches[-1].state_dict())
    for num_workers in (3, 2):
        for batch in data_loader(dataset, num_workers):
            batches.append(batch)
    assert {(batch.epoch, batch.step) for batch in batches} >= {(0, 10), (1, 10)}
    for batch in batches:
        assert_same_batch(dataset.batch_at(batch.epoch, batch.step), batch)


@ORDERS
@pytest.mark.parametrize("how", [{}, {"threads": 1}, WORKERS], ids=str)
def test_a_pass_that_changed_its_ranks_on_the_way_is_known_to_who_goes_on_with_it(
    small_dataset: Dataset, order: dict[str, Any], how: dict[str, Any]
) -> None:
    """Steps before the state that was loaded, and steps after it, delivered or not."""
    first = list(itertools.islice(make(small_dataset, 7, **order), 3))
    dataset = make(small_dataset, 10, tail="short", **order)
    dataset.load_state_dict(first[-1].state_dict())
    with fr.Loader(dataset, **how) as loader:
        assert_same_batch(loader.batch_at(0, 1), first[1])
        assert_same_batch(dataset.batch_at(0, 1), first[1])
        coming = [loader.batch_at(0, step) for step in range(3, 12)]
        found = list(loader)
        for batch, expected in zip(coming, found, strict=True):
            assert_same_batch(batch, expected)
        for batch in [*first, *found, *loader]:
            assert_same_batch(loader.batch_at(batch.epoch, batch.step), batch)
            assert_same_batch(dataset.batch_at(batch.epoch, batch.step), batch)
        with pytest.raises(IndexError, match="step 12 is beyond the pass, which has 12 steps"):
            loader.batch_at(0, 12)
        unbroken = fr.Loader(make(small_dataset, 10, tail="short", **order), **how)
        assert_batch_values(loader.batch_at(7, 4), arrays_of(unbroken.batch_at(7, 4)))


def test_a_state_tells_of_a_pass_that_was_read_elsewhere(small_dataset: Dataset) -> None:
    with fr.Loader(make(small_dataset), **WORKERS) as loader:
        batches = list(itertools.islice(loader, 4))
    elsewhere = fr.Loader(make(small_dataset), threads=1)
    for batch in batches:
        assert_same_batch(elsewhere.batch_at(0, batch.step, state=batches[-1].state_dict()), batch)


def test_a_loaded_state_is_what_counts_from_then_on(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    with fr.Loader(dataset, **WORKERS) as loader:
        list(itertools.islice(loader, 3))
    dataset.reset()
    for batch in dataset:
        assert_same_batch(dataset.batch_at(0, batch.step), batch)


CUTS = pytest.mark.parametrize(
    "cut", [{}, {"lanes": 1}, {"lanes": 12, "groups": 3}], ids=["one lane a rank", "one lane", "groups"]
)


@CUTS
@ORDERS
@pytest.mark.parametrize("tail", ["drop", "short", "pad"])
def test_every_row_of_a_job_is_found_with_its_batch_whichever_rank_had_it(
    small_dataset: Dataset, order: dict[str, Any], cut: dict[str, Any], tail: str
) -> None:
    how = {"tail": tail, "rows": fr.Intervals([[3, 100]]), **order, **cut}
    ranks = [make(small_dataset, 8, **how, **parallel(rank, 2)) for rank in range(2)]
    passes = [[list(dataset) for _ in range(2)] for dataset in ranks]
    asked, found = ranks[0], set()
    for batch in itertools.chain(*itertools.chain(*passes)):
        rows = batch.rows()[batch.valid.numpy()].tolist()
        found.update((batch.epoch, row) for row in rows)
        for place in range(batch.step % 4, len(rows), 4):
            again, there = asked.batch_of_row(batch.epoch, rows[place])
            assert there == place
            assert_same_batch(again, batch)
    for epoch, row in itertools.product(range(2), range(3, 100)):
        if (epoch, row) not in found:
            assert tail != "pad"  # the last row is too few for two ranks
            with pytest.raises(
                IndexError, match=f"row {row} is in no batch of pass {epoch}: .*'{tail}' drops"
            ):
                asked.batch_of_row(epoch, row)


def test_a_row_comes_again_as_the_workers_of_a_loader_made_it(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, tail="pad", shuffle=True, seed=3).map(shaken)
    with fr.Loader(dataset, **WORKERS) as loader:
        batches = list(loader)
    before = global_states()
    for batch, place in itertools.product(batches, (0, 7)):
        again, there = loader.batch_of_row(0, int(batch.rows()[place]))
        assert again.rows()[there] == batch.rows()[place]
        assert_same_batch(again, batch)
    assert global_states() == before


def test_a_row_is_found_where_the_job_changed_its_ranks_on_the_way(small_dataset: Dataset) -> None:
    """Also with the state alone; what the first cut would have given later is found under the second."""
    first = list(itertools.islice(make(small_dataset, 7, shuffle=True), 3))
    dataset = make(small_dataset, 10, tail="short", shuffle=True)
    dataset.load_state_dict(first[-1].state_dict())
    rest = list(dataset)
    fresh = make(small_dataset, 5, tail="short", shuffle=True)
    for batch, place in itertools.product([*first, *rest], range(10)):
        if place < batch.num_rows:
            row = int(batch.rows()[place])
            for again, there in (
                dataset.batch_of_row(0, row),
                fresh.batch_of_row(0, row, state=rest[-2].state_dict()),
            ):
                assert_same_batch(again, batch)
                assert there == place


def test_what_is_no_row_of_a_batch_is_refused_in_words(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, rows=fr.Intervals([[0, 50]]))
    with pytest.raises(IndexError, match="row 50 is not among the 50 of 103 rows that are selected"):
        dataset.batch_of_row(0, 50)
    with pytest.raises(IndexError, match="row 103 is not in"):
        dataset.batch_of_row(0, 103)
    with pytest.raises(fr.StateError, match="of epoch 0, asked for was epoch 1"):
        dataset.batch_of_row(1, 3, state=dataset.state_dict())
    mixture = fr.Mixture({"a": (make(small_dataset, None), 1)}, batch_size=10, stop=50, **parallel())
    with pytest.raises(TypeError, match="In a Mixture a row may come several times in a pass"):
        fr.Loader(mixture).batch_of_row(0, 3)
