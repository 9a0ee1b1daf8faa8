"""Time travel: any batch again, any rows by their numbers, and where rows are."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.each_of import each_of
from support.jobs import (
    FEWER,
    assert_batch_values,
    assert_same_batch,
    fields_of,
    make,
    oracle_job,
    parallel,
    rows_of,
    text_of,
)
from support.strategies import Dataset, DatasetSpec, dataset_specs, plain_spec, written
from support.topologies import TAILS, Shuffle, Topology, chains, orders, selections

SHUFFLE = Shuffle(17, 20, 45)

HOW = each_of(
    "how",
    [
        {},
        {"tail": "pad"},
        SHUFFLE.arguments,
        {**SHUFFLE.arguments, "tail": "pad", "lanes": 8},
        {**SHUFFLE.arguments, "tail": "short", "lanes": 12, "groups": 3},
        {"lanes": 1, "tail": "short"},
    ],
)


# --------------------------------------------------------------------------------------------------- batch_at


@HOW
def test_every_batch_of_unbroken_passes_comes_again(small_dataset: Dataset, how: dict[str, Any]) -> None:
    """The same tensors, rows, marks and state; whatever the dataset itself is at."""
    for rank in range(2):
        dataset = make(small_dataset, 8, **how, **parallel(rank, 2))
        passes = [list(dataset) for _ in range(3)]
        before = dataset.state_dict()
        for epoch, batches in enumerate(passes):
            for step, batch in enumerate(batches):
                assert_same_batch(dataset.batch_at(epoch, step), batch)
        assert dataset.state_dict() == before
        fresh = make(small_dataset, 8, **how, **parallel(rank, 2))
        assert_same_batch(fresh.batch_at(2, 3), passes[2][3])
        assert fresh.epoch == 0


@FEWER
@given(rows=st.integers(1, 80), data=st.data())
def test_the_passes_that_states_tell_are_the_oracles(rows: int, data: st.DataObject) -> None:
    """For every step of a pass that changed its ranks, workers, lanes, tails and batch sizes on its way."""
    chosen = data.draw(selections(rows))
    count = rows if chosen is None else len(chosen.selected(rows))
    shuffle = data.draw(orders(count))
    order = {} if shuffle is None else shuffle.arguments
    order |= {} if chosen is None else chosen.arguments
    tail = data.draw(st.sampled_from(TAILS))
    with written(plain_spec([rows])) as files:
        alone = make(files, 1, tail=tail, **order)
        states = [text_of(alone.state_dict())]
        for leg in data.draw(chains(count, max_legs=4, tails=TAILS, small=True)):
            job = oracle_job(rows, leg.topology, alone.fingerprint, shuffle, (rows,), chosen)
            job.load(states[-1])
            for _ in range(min(leg.kept, job.batches_left - 1)):
                job.step()
                states.append(job.state())
        found = oracle_job(rows, Topology(1, 0, 1, tail=tail), alone.fingerprint, shuffle, (rows,), chosen)
        steps = found.pass_of(states[-1])
        last = {"fastresume": states[-1]}
        for step, (expected,) in enumerate(steps):
            batch = alone.batch_at(0, step, state=last)
            assert batch.rows().tolist() == batch["row"].tolist() == expected
            assert (batch.epoch, batch.step) == (0, step)
            if step + 1 < len(states):
                assert text_of(batch.state_dict()) == states[step + 1]
        with pytest.raises(IndexError, match=str(len(steps))):
            alone.batch_at(0, len(steps), state=last)


@pytest.mark.parametrize("tail", TAILS)
def test_a_batch_before_a_resize_keeps_its_state(small_dataset: Dataset, tail: str) -> None:
    """Also if the dataset that looks back would have ended the pass there."""
    batches = list(make(small_dataset, 25, tail="pad"))
    resized = make(small_dataset, 1)
    resized.load_state_dict(batches[3].state_dict())  # three rows are left
    state = next(iter(resized)).state_dict()
    dataset = make(small_dataset, 1, tail=tail)
    for step in range(4):
        assert_same_batch(dataset.batch_at(0, step, state=state), batches[step])


@pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["sequential", "shuffled"])
def test_the_batches_of_a_resized_job_come_again_with_its_last_state(
    small_dataset: Dataset, shuffle: Shuffle | None
) -> None:
    """On every rank of the last life, with the states that they had; in the first life's cut too."""
    order = {} if shuffle is None else shuffle.arguments
    state, seen = None, []
    for world_size, batch_size, lanes in ((2, 4, 4), (4, 2, 8), (2, 3, 2), (2, 4, None)):
        how = {"lanes": lanes, "tail": "pad", **order}
        ranks = [make(small_dataset, batch_size, **how, **parallel(r, world_size)) for r in range(world_size)]
        for rank in ranks:
            if state is not None:
                rank.load_state_dict(state)
        for batches in itertools.islice(zip(*ranks, strict=True), 3):
            seen.append(batches)
            state = batches[0].state_dict()
    assert [batch.step for batch, *_ in seen] == list(range(12))
    for rank in range(2):
        dataset = make(small_dataset, 4, tail="pad", **order, **parallel(rank, 2))
        for step, batches in enumerate(seen):
            again = dataset.batch_at(0, step, state=state)
            if len(batches) == 2:
                assert_same_batch(again, batches[rank])
            else:  # two of four ranks' shares
                shares = rows_of(list(batches[2 * rank : 2 * rank + 2]))
                assert again.rows().tolist() == shares[0] + shares[1]
                assert again.state_dict() == batches[0].state_dict()
        # After the last state, the pass goes on as the last cut says.
        dataset.load_state_dict(state)
        for batch in dataset:
            assert_same_batch(dataset.batch_at(0, batch.step, state=state), batch)


def test_any_state_of_a_pass_tells_it(small_dataset: Dataset) -> None:
    batches = list(make(small_dataset, 10, **SHUFFLE.arguments))
    dataset = make(small_dataset, 10, **SHUFFLE.arguments)
    for told_by in (0, 4, 8):
        state = batches[told_by].state_dict()
        for form in (state, fields_of(state), batches[told_by].cursor):
            for step in (0, 3, 9):
                assert_same_batch(dataset.batch_at(0, step, state=form), batches[step])
    # The first state of a pass tells that it is unbroken so far.
    assert_same_batch(dataset.batch_at(0, 7, state=dataset.state_dict()), batches[7])


@pytest.mark.parametrize("how", [{}, {"tail": "short"}, {"tail": "pad"}])
def test_a_step_beyond_the_pass_is_an_index_error(small_dataset: Dataset, how: dict[str, Any]) -> None:
    dataset = make(small_dataset, 25, **how)
    state = next(iter(dataset)).state_dict()
    steps = len(dataset)
    assert steps == (4 if how == {} else 5)
    for place in ({}, {"state": state}):
        dataset.batch_at(0, steps - 1, **place)
        for step in (steps, steps + 1, 10**6, 2**53 - 1):
            with pytest.raises(IndexError) as caught:
                dataset.batch_at(0, step, **place)
            assert str(step) in str(caught.value)
            assert str(steps) in str(caught.value)


@each_of(
    ("epoch", "step", "error"),
    [
        (-1, 0, ValueError),
        (0, -1, ValueError),
        (0.0, 0, TypeError),
        (0, "0", TypeError),
        (0, None, TypeError),
    ],
)
def test_a_step_that_is_none_is_refused(
    small_dataset: Dataset, epoch: object, step: object, error: type[Exception]
) -> None:
    with pytest.raises(error):
        make(small_dataset).batch_at(epoch, step)  # type: ignore[arg-type]


@pytest.mark.law(9)
def test_a_state_of_something_else_is_refused(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    state = next(iter(dataset)).state_dict()
    for other, named in (
        (next(iter(make(small_dataset, **SHUFFLE.arguments))).state_dict(), "shuffled"),
        ({"fastresume": text_of(state).replace('"rows":103', '"rows":104')}, "check"),
        ({}, "fastresume"),
    ):
        with pytest.raises(fr.StateError, match=named):
            dataset.batch_at(0, 0, state=other)
    for epoch in (1, 2):
        with pytest.raises(fr.StateError, match=rf"(?s)0.*{epoch}|{epoch}.*0"):
            dataset.batch_at(epoch, 0, state=state)
    other = make(small_dataset, shuffle=True, seed=5)
    with pytest.raises(fr.StateError, match="seed"):
        other.batch_at(0, 0, state=next(iter(make(small_dataset, **SHUFFLE.arguments))).state_dict())


def test_a_cut_that_the_ranks_can_not_share_is_refused(small_dataset: Dataset) -> None:
    first = make(small_dataset, 4, lanes=2, tail="pad", **parallel(0, 2))
    state = next(iter(first)).state_dict()
    dataset = make(small_dataset, 4, **parallel(2, 3))
    with pytest.raises(ValueError, match=r"(?s)3 ranks.*share|share.*3 ranks"):
        dataset.batch_at(0, 0, state=state)
    alone = make(small_dataset, 4)
    assert alone.batch_at(0, 0, state=state).rows().tolist() == [0, 1, 2, 3, *range(48, 52)]


def test_looking_back_disturbs_no_iteration(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset, 10, **SHUFFLE.arguments), threads=2)
    expected = list(make(small_dataset, 10, **SHUFFLE.arguments))
    for batch in loader:
        assert_same_batch(loader.dataset.batch_at(0, batch.step), batch)
        loader.dataset.read_rows([3])
        assert_same_batch(batch, expected[batch.step])
        assert loader.state_dict() == batch.state_dict()
    assert loader.stats().batches == 10


@pytest.mark.law(12)
def test_no_step_takes_longer_than_another(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Of 300,000 steps; a replay of them would take many times longer."""
    files = plain_spec([300_000]).write(tmp_path_factory.mktemp("many"))
    dataset = make(files, 1, shuffle=True, seed=1, block_rows=100, window_rows=1000)

    def seconds(step: int) -> float:
        began = time.process_time()
        dataset.batch_at(0, step)
        return time.process_time() - began

    first = min(seconds(step) for step in range(5))
    last = min(seconds(step) for step in range(299_995, 300_000))
    assert last < 20 * first + 0.01


# --------------------------------------------------------------------------------------- read_rows and locate


@FEWER
@given(spec=dataset_specs(min_rows=1), data=st.data())
def test_any_rows_are_read_in_any_order(spec: DatasetSpec, data: st.DataObject) -> None:
    with written(spec) as files:
        table = oracle.read_table(files.directory)
        dataset = make(files, 1)
        numbers = data.draw(st.lists(st.integers(0, spec.num_rows - 1), max_size=30))
        numbers += data.draw(st.sampled_from(([], list(range(spec.num_rows)), numbers)))
        for given_ in (numbers, np.array(numbers, np.int64), tuple(numbers)):
            batch = dataset.read_rows(given_)
            assert batch.rows().tolist() == numbers
            assert batch.num_rows == len(numbers)
            assert batch.valid.tolist() == [True] * len(numbers)
            assert_batch_values(batch, {name: values[numbers] for name, values in table.items()})


def test_read_rows_stacks_as_the_batches_do(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 10, columns=["label", fr.stack("i_*", name="dense")])
    batch = next(iter(dataset))
    again = dataset.read_rows(batch.rows())
    assert list(again) == list(batch)
    for name in batch:
        assert again[name].dtype == batch[name].dtype
        assert again[name].shape == batch[name].shape
        assert again[name].numpy().tobytes() == batch[name].numpy().tobytes()
    twice = dataset.read_rows([102, 7, 102])
    assert twice["dense"].shape == (3, 2)
    assert twice["dense"][0].numpy().tobytes() == twice["dense"][2].numpy().tobytes()


def test_rows_read_by_number_are_of_no_pass(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    before = dataset.state_dict()
    batch = dataset.read_rows([5, 3])
    for ask in (
        batch.state_dict,
        lambda: batch.cursor,
        lambda: batch.epoch,
        lambda: batch.step,
        lambda: batch.to("cpu").state_dict(),
    ):
        with pytest.raises(fr.FastresumeError, match="rows"):
            ask()
    assert "rows=2" in repr(batch)
    assert batch.to("cpu").rows().tolist() == [5, 3]
    assert dataset.state_dict() == before


@each_of("method", ["read_rows", "locate"])
@each_of(
    ("numbers", "error"),
    [
        ([103], IndexError),
        ([0, -1], IndexError),
        ([2**63], IndexError),
        ([2**70], (IndexError, TypeError)),
        ([1.0], TypeError),
        (["1"], TypeError),
        ([[1, 2]], TypeError),
        (3, TypeError),
        (None, TypeError),
        ([True], TypeError),
    ],
)
def test_what_is_no_row_is_refused(
    small_dataset: Dataset, method: str, numbers: object, error: type[Exception] | tuple[type[Exception], ...]
) -> None:
    dataset = make(small_dataset)
    with pytest.raises(error):
        getattr(dataset, method)(numbers)
    assert next(iter(dataset)).step == 0


def test_an_index_error_names_the_row_and_how_many_there_are(small_dataset: Dataset) -> None:
    for method in ("read_rows", "locate"):
        with pytest.raises(IndexError, match=r"104.*103"):
            getattr(make(small_dataset), method)([5, 104])


def test_no_rows_are_an_empty_batch(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    batch = dataset.read_rows([])
    assert (batch.num_rows, batch.rows().tolist(), batch.valid.tolist()) == (0, [], [])
    assert {name: (tensor.dtype, len(tensor)) for name, tensor in batch.items()} == {
        name: (field.dtype, 0) for name, field in dataset.schema.items()
    }
    assert dataset.locate([]) == []


@given(spec=dataset_specs(min_rows=1, max_columns=0), data=st.data())
def test_rows_are_located_by_file_and_row_group(spec: DatasetSpec, data: st.DataObject) -> None:
    numbers = data.draw(st.lists(st.integers(0, spec.num_rows - 1), max_size=20))
    with written(spec) as files:
        places = [
            (str(file), group, row)
            for file in files.files
            for group, rows in enumerate(oracle.group_rows_of(file))
            for row in range(rows)
        ]
        dataset = make(files, 1)
        assert dataset.locate(numbers) == [places[number] for number in numbers]
        assert dataset.locate(np.array(numbers, np.int32)) == dataset.locate(numbers)
        for path, group, row in dataset.locate(numbers):
            assert (type(path), type(group), type(row)) == (str, int, int)


def test_the_rows_of_a_batch_are_found_in_their_files(small_dataset: Dataset) -> None:
    """Which rows of which files made a batch: the whole way, by pyarrow."""
    dataset = make(small_dataset, 10, tail="pad", **SHUFFLE.arguments)
    batch = dataset.batch_at(3, 10)
    assert batch.valid.sum() == 3
    for place, label, number in zip(
        dataset.locate(batch.rows()), batch["label"], batch.rows().tolist(), strict=True
    ):
        path, group, row = place
        table = pq.ParquetFile(path).read_row_group(group)
        assert table["row"][row].as_py() == number
        assert torch.tensor(table["label"][row].as_py()) == label


def test_a_batch_of_a_pass_before_this_job_s_has_a_state_that_loads(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 10)
    batches = list(dataset)
    dataset.load_state_dict(dataset.state_dict(), reset_epochs=True)
    again = dataset.batch_at(0, 3)
    assert again.rows().tolist() == batches[3].rows().tolist()
    fresh = make(small_dataset, 10)
    fresh.load_state_dict(again.state_dict())
    assert next(iter(fresh)).rows().tolist() == batches[4].rows().tolist()
    with pytest.raises(IndexError, match="epoch 9007199254740991 is not below"):
        dataset.batch_at(2**53 - 1, 0)


def test_the_last_batch_of_a_restarted_pass_has_the_state_that_it_had(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 10, on_iter="restart", shuffle=True)
    for batch in list(dataset):
        assert dataset.batch_at(batch.epoch, batch.step).state_dict() == batch.state_dict()
