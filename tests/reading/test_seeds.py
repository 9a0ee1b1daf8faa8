"""What transforms draw from: a function of the seed, the epoch and a place in the pass alone."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume.batch.seeds import batch_seed, row_seeds
from golden import make_seeds
from support import oracle
from support.each_of import each_of
from support.jobs import data_loader, make, parallel
from support.strategies import Dataset
from support.topologies import seeds

GOLDEN = json.loads((Path(make_seeds.__file__).parent / "seeds.json").read_text())

LARGEST = 2**53 - 1

numbers = st.integers(0, LARGEST)


def test_the_oracle_still_says_what_the_golden_seeds_say() -> None:
    text = (Path(make_seeds.__file__).parent / "seeds.json").read_text()
    assert text == make_seeds.as_text(make_seeds.golden())


@each_of("golden", GOLDEN["rows"])
def test_golden_seeds_of_rows_are_what_they_were(golden: dict[str, Any]) -> None:
    found = row_seeds(np.array(golden["positions"]), golden["seed"], golden["epoch"], golden["draw"])
    assert found.dtype == np.int64
    assert [str(seed) for seed in found.tolist()] == golden["seeds"]


def test_golden_seeds_of_batches_are_what_they_were() -> None:
    for golden in GOLDEN["batches"]:
        place = (golden[name] for name in ("seed", "epoch", "step", "rank", "draw"))
        assert f"{batch_seed(*place):016x}" == golden["batch_seed"]


@given(seed=seeds(), epoch=numbers, draw=numbers, positions=st.lists(numbers, max_size=5))
def test_any_seeds_are_those_of_the_oracle(seed: int, epoch: int, draw: int, positions: list[int]) -> None:
    found = row_seeds(np.array(positions, dtype=np.int64), seed, epoch, draw)
    assert found.tolist() == [oracle.row_seed(seed, epoch, position, draw) for position in positions]
    assert batch_seed(seed, epoch, 3, 2, draw) == oracle.batch_seed(seed, epoch, 3, 2, draw)


def test_no_two_rows_passes_or_draws_share_a_seed(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 103, tail="short")
    found = [
        batch.row_seeds(draw)
        for seed in (0, 1)
        for epoch in (0, 1, 2)
        for batch in [make(small_dataset, 103, tail="short", seed=seed).batch_at(epoch, 0)]
        for draw in (0, 1, 2)
    ]
    assert len(torch.cat(found).unique()) == 2 * 3 * 3 * 103
    assert torch.equal(found[0], next(iter(dataset)).row_seeds())


@pytest.mark.parametrize("order", [{}, {"shuffle": True, "block_rows": 10, "window_rows": 40}])
def test_a_row_draws_the_same_on_any_ranks_workers_and_batch_sizes(
    small_dataset: Dataset, order: dict[str, Any]
) -> None:
    def drawn(**arguments: Any) -> dict[int, int]:
        found: dict[int, int] = {}
        for rank in range(arguments.get("world_size", 1)):
            dataset = fr.ParquetDataset(
                small_dataset.directory,
                tail="pad",
                seed=5,
                **{**parallel(), **order, **arguments, "rank": rank},
            )
            for batch in dataset:
                for row, seed in zip(batch.rows().tolist(), batch.row_seeds().tolist(), strict=True):
                    assert found.setdefault(row, seed) == seed  # a copy draws what its original does
        return found

    expected = drawn(batch_size=103)
    assert len(set(expected.values())) == 103
    for arguments in (
        {"batch_size": 1},
        {"batch_size": 10},
        {"batch_size": 7, "world_size": 3},
        {"batch_size": 4, "world_size": 2, "lanes": 8, "groups": 2},
        {"batch_size": 4, "world_size": 2, "lanes": 1},
    ):
        assert drawn(**arguments) == expected, arguments


def test_a_loaded_state_brings_the_seed_of_its_order(small_dataset: Dataset) -> None:
    order = {"shuffle": True, "block_rows": 10, "window_rows": 40}
    dataset = make(small_dataset, 10, seed=17, **order)
    iterator = iter(dataset)
    state = next(iterator).state_dict()
    resumed = make(small_dataset, 10, **order)
    resumed.load_state_dict(state)
    one, other = next(iterator), next(iter(resumed))
    assert torch.equal(one.row_seeds(), other.row_seeds())
    assert torch.equal(one.row_seeds(), resumed.batch_at(0, 1, state).row_seeds())
    assert one.generator().initial_seed() == other.generator().initial_seed()


def test_ranks_steps_passes_and_draws_have_generators_of_their_own(small_dataset: Dataset) -> None:
    found = set()
    for rank in range(3):
        dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10, world=(rank, 3))
        for epoch in range(2):
            for step in range(3):
                batch = dataset.batch_at(epoch, step)
                for draw in range(2):
                    seed = batch.generator(draw=draw).initial_seed()
                    assert seed % 2**64 == oracle.batch_seed(0, epoch, step, rank, draw)
                    found.add(tuple(torch.rand(4, generator=batch.generator(draw=draw)).tolist()))
    assert len(found) == 3 * 2 * 3 * 2


@pytest.mark.law(10)
def test_drawing_moves_no_global_random_state(small_dataset: Dataset) -> None:
    batch = next(iter(make(small_dataset)))
    before = torch.get_rng_state()
    torch.rand(3, generator=batch.generator())
    batch.row_seeds()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.processes
def test_batches_draw_the_same_after_they_went_through_a_worker_process(small_dataset: Dataset) -> None:
    for tail in ("drop", "short", "pad"):
        arguments = {"tail": tail, "lanes": 4, "groups": 2, "rank": 1, "world_size": 2}
        plain = list(make(small_dataset, 10, **arguments))
        sent = list(data_loader(make(small_dataset, 10, **arguments), 2))
        assert len(plain) == len(sent)
        for one, other in zip(plain, sent, strict=True):
            again = pickle.loads(pickle.dumps(other))
            for found in (other, again, other.to("cpu")):
                assert torch.equal(one.row_seeds(), found.row_seeds())
                assert one.generator().initial_seed() == found.generator().initial_seed()


def test_rows_that_were_read_by_their_numbers_have_nothing_to_draw_from(small_dataset: Dataset) -> None:
    batch = make(small_dataset).read_rows([3, 1])
    for draw in (batch.row_seeds, batch.generator):
        with pytest.raises(fr.FastresumeError, match="they are no batch of a pass"):
            draw()


@pytest.mark.parametrize("draw", [-1, 2**53])
def test_draws_are_counted_from_zero(small_dataset: Dataset, draw: int) -> None:
    batch = next(iter(make(small_dataset)))
    for method in (batch.row_seeds, batch.generator):
        with pytest.raises(ValueError, match="draw must be"):
            method(draw=draw)


def test_a_batch_can_be_pickled_without_what_made_it(small_dataset: Dataset) -> None:
    batch = make(small_dataset, 50, tail="pad").batch_at(0, 2)
    expected = batch.row_seeds().tolist()
    assert expected[:3] * 16 == expected[:48]  # three rows are left, and fill the batch up
    for copied in (copy.deepcopy(batch), pickle.loads(pickle.dumps(copy.copy(batch)))):
        assert copied.row_seeds().tolist() == expected
        assert copied.state_dict() == batch.state_dict()
