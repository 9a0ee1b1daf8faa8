"""Law 7: a finished pass is the next pass at zero, and the passes done are counted in the cursor."""

from __future__ import annotations

import pickle
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from support import oracle
from support.each_of import each_of
from support.jobs import FEWER, REST, THREADS, Job, fields_of, make, make_reader, parallel, rows_of
from support.strategies import Dataset, plain_spec, written
from support.topologies import TAILS, orders, topologies


@pytest.mark.law(7)
@FEWER
@given(rows=st.integers(1, 60), data=st.data())
def test_a_finished_pass_is_the_next_pass_at_zero(rows: int, data: st.DataObject) -> None:
    workers = st.sampled_from((0, 0, 1, 2))
    topology = data.draw(topologies(rows=rows, workers=workers, tails=TAILS))
    shuffle = data.draw(orders(rows))
    with written(plain_spec([rows])) as dataset:
        job = Job(dataset, topology, shuffle=shuffle)
        first = job.run_pass()
        fields = fields_of(job.state())
        assert (fields["epoch"], fields["consumed"], fields["cuts"]) == (1, [], [])
        fresh = Job(dataset, topology, shuffle=shuffle, state=job.state())
        assert len(first) == fresh.ranks[0].dataset.batches_left
        second = job.run_pass()
        assert fresh.run_pass() == second
        if shuffle is None:
            assert second == first


@pytest.mark.law(7)
@each_of("threads", THREADS)
def test_an_epoch_budget_survives_any_number_of_kills(small_dataset: Dataset, threads: int | None) -> None:
    random_ = random.Random(5)
    state, kept, lives = None, [], 0
    while True:
        lives += 1
        loader = make_reader(make(small_dataset), threads)
        if state is not None:
            loader.load_state_dict(state)
        until_killed = random_.randrange(1, 9)
        for _ in range(loader.epoch, 3):
            for batch in loader:
                kept.append((batch.epoch, batch.rows().tolist()))
                state = batch.state_dict()
                until_killed -= 1
                if until_killed == 0:
                    break
            if until_killed == 0:
                break
        else:
            break
    assert lives > 3
    assert loader.epoch == 3
    assert kept == [(epoch, list(range(10 * i, 10 * i + 10))) for epoch in range(3) for i in range(10)]


@pytest.mark.law(7)
def test_epochs_can_be_counted_anew_from_a_state(small_dataset: Dataset) -> None:
    old = make(small_dataset)
    for _ in range(2):
        list(old)
    states = [old.state_dict(), next(iter(old)).state_dict()]
    for state, left in zip(states, (10, 9), strict=True):
        new = make(small_dataset)
        new.load_state_dict(state, reset_epochs=True)
        assert (new.epoch, new.batches_left) == (0, left)
        batches = list(new)
        assert [batch.epoch for batch in batches] == [2] * left
        assert batches[0].rows()[0] == 10 * (10 - left)
        assert new.epoch == 1
        assert (fields_of(new.state_dict())["first_epoch"], fields_of(new.state_dict())["epoch"]) == (2, 3)
        loader = fr.Loader(make(small_dataset))
        loader.load_state_dict(state, reset_epochs=True)
        assert (loader.epoch, loader.batches_left) == (0, left)


@pytest.mark.law(7)
@each_of("threads", THREADS)
def test_a_rest_that_makes_no_global_batch_ends_the_pass_with_a_warning(
    small_dataset: Dataset, threads: int | None
) -> None:
    small = make(small_dataset, 10)
    state = list(small)[8].state_dict()  # 13 rows are left
    dataset = make(small_dataset, 7, **parallel(1, 2))
    loader = make_reader(dataset, threads)
    loader.load_state_dict(state)
    assert loader.state_dict() == state
    assert (loader.batches_left, loader.epoch) == (0, 0)
    with pytest.warns(UserWarning, match=REST.format(13, 14)):
        assert list(loader) == []
    assert (loader.batches_left, loader.epoch) == (7, 1)
    fields = fields_of(loader.state_dict())
    assert (fields["epoch"], fields["consumed"], fields["cuts"]) == (1, [], [])
    assert len(list(loader)) == 7


@pytest.mark.law(7)
def test_a_rest_is_looked_at_but_not_dropped_by_peek(small_dataset: Dataset) -> None:
    state = list(make(small_dataset, 10))[8].state_dict()
    loader = fr.Loader(make(small_dataset, 14), threads=1)
    loader.load_state_dict(state)
    assert loader.peek() is None
    assert loader.state_dict() == state
    with pytest.warns(UserWarning, match=REST.format(13, 14)):
        assert list(loader) == []
    assert loader.peek().rows()[0] == 0


# ------------------------------------------------------------------------------------------ budgets of passes


def train(
    dataset: Dataset, epochs: int, state: Any = None, stop_after: int | None = None, **how: Any
) -> tuple[list[tuple[int, list[int]]], dict[str, str]]:
    """The (epoch, rows) of the batches that the README's loop trains on, and the last state."""
    loader = fr.Loader(make(dataset, **how), threads=1)
    if state is not None:
        loader.load_state_dict(state)
    seen: list[tuple[int, list[int]]] = []
    for _ in range(loader.epoch, epochs):
        for batch in loader:
            seen.append((batch.epoch, batch.rows().tolist()))
            if len(seen) == stop_after:
                return seen, batch.state_dict()
    return seen, loader.state_dict()


SHUFFLED = {"shuffle": True, "seed": 3, "block_rows": 10, "window_rows": 30}


@pytest.mark.law(7)
@pytest.mark.parametrize("how", [{}, {**SHUFFLED, "tail": "pad"}], ids=["sequential", "shuffled"])
def test_a_budget_is_raised_and_lowered_between_lives(small_dataset: Dataset, how: dict[str, Any]) -> None:
    unbroken, _ = train(small_dataset, 4, **how)
    a_pass = len(unbroken) // 4
    first, state = train(small_dataset, 2, stop_after=a_pass + 3, **how)
    more, state = train(small_dataset, 4, state, **how)  # it was to be two passes, and becomes four
    assert first + more == unbroken
    assert fields_of(state)["epoch"] == 4
    # Lowered below what was done: nothing more is trained, in mid pass or not.
    for stop in (2 * a_pass + 1, 2 * a_pass + a_pass - 1):
        _, state = train(small_dataset, 4, stop_after=stop, **how)
        assert train(small_dataset, 2, state, **how) == ([], state)
        assert train(small_dataset, 1, state, **how) == ([], state)
    # Lowered, with some left: the pass that was begun is finished.
    first, state = train(small_dataset, 9, stop_after=2 * a_pass + 1, **how)
    assert first + train(small_dataset, 3, state, **how)[0] == unbroken[: 3 * a_pass]


@pytest.mark.law(7)
@pytest.mark.parametrize("how", [{}, {**SHUFFLED, "tail": "short"}], ids=["sequential", "shuffled"])
def test_a_job_that_was_finished_delivers_nothing(small_dataset: Dataset, how: dict[str, Any]) -> None:
    _, state = train(small_dataset, 3, **how)
    for _ in range(3):  # started again and again
        seen, again = train(small_dataset, 3, state, **how)
        assert (seen, again) == ([], state)


@pytest.mark.law(7)
@pytest.mark.parametrize("how", [{}, {**SHUFFLED, "tail": "pad"}], ids=["sequential", "shuffled"])
def test_a_warm_start_keeps_the_position_and_drops_the_count(
    small_dataset: Dataset, how: dict[str, Any]
) -> None:
    unbroken, _ = train(small_dataset, 5, **how)
    a_pass = len(unbroken) // 5
    for done in (0, 4, a_pass, 2 * a_pass, 2 * a_pass + 7):
        _, state = train(small_dataset, 5, stop_after=done, **how) if done else ([], None)
        loader = fr.Loader(make(small_dataset, **how), threads=1)
        if state is not None:
            loader.load_state_dict(state, reset_epochs=True)
        assert loader.epoch == 0
        found = []
        for _ in range(loader.epoch, 2):
            found += [(batch.epoch, batch.rows().tolist()) for batch in loader]
        assert loader.epoch == 2
        # The pass that was begun counts as the first one of this job.
        assert found == unbroken[done : (done // a_pass + 2) * a_pass]
        # And the new count survives a restart.
        assert train(small_dataset, 2, loader.state_dict(), **how)[0] == []
        assert len(train(small_dataset, 3, loader.state_dict(), **how)[0]) == a_pass


@pytest.mark.law(7)
def test_every_epoch_of_a_shuffled_job_is_another_permutation(small_dataset: Dataset) -> None:
    seen, _ = train(small_dataset, 6, batch_size=103, **SHUFFLED)
    orders_ = [tuple(rows) for _, rows in seen]
    assert len(set(orders_)) == 6
    assert all(sorted(order) == list(range(103)) for order in orders_)
    groups = oracle.group_rows_of(small_dataset.directory)
    assert orders_ == [oracle.order_rows(groups, 3, epoch, 10, 30) for epoch in range(6)]


@pytest.mark.law(7)
def test_a_restarted_pass_is_the_same_permutation_each_time(small_dataset: Dataset) -> None:
    """`on_iter="restart"` and `reset()` move no epoch, so they change no order."""
    dataset = make(small_dataset, on_iter="restart", **SHUFFLED)
    assert rows_of(dataset) == rows_of(dataset)
    loader = fr.Loader(make(small_dataset, **SHUFFLED), threads=1)
    first = rows_of([next(iter(loader)) for _ in range(4)])
    loader.reset()
    assert rows_of([next(iter(loader)) for _ in range(4)]) == first


@pytest.mark.filterwarnings("ignore:the pass ends here")
@each_of("threads", THREADS)
@each_of("tail", TAILS)
def test_the_global_step_counts_the_batches_of_all_passes(
    small_dataset: Dataset, threads: int | None, tail: str
) -> None:
    loader = make_reader(make(small_dataset, 7, tail=tail), threads)
    batches = [batch for _ in range(3) for batch in loader]
    assert [batch.global_step for batch in batches] == list(range(len(batches)))
    for batch in batches[::9]:
        again = make_reader(make(small_dataset, 7, tail=tail), threads)
        again.load_state_dict(batch.state_dict())
        assert next(iter(again)).global_step == batch.global_step + 1
        assert pickle.loads(pickle.dumps(batch)).global_step == batch.global_step
        replayed = again.batch_at(batch.epoch, batch.step, state=batch.cursor_before)
        assert replayed.global_step == batch.global_step


@pytest.mark.filterwarnings("ignore:the pass ends here")
def test_the_global_step_goes_on_where_ranks_and_batch_sizes_change_within_a_pass(
    small_dataset: Dataset,
) -> None:
    counted, state = [], None
    for world_size, size, steps in ((1, 10, 13), (2, 4, 3), (3, 2, 2), (1, 7, 3)):
        dataset = make(small_dataset, size, **parallel(0, world_size))
        if state is not None:
            dataset.load_state_dict(state)
        batches = iter(dataset)
        for _ in range(steps):
            batch = next(batches, None) or next(batches := iter(dataset))
            counted.append(batch.global_step)
            state = batch.state_dict()
    assert counted == list(range(21))
    # Also in a later pass under another cut.
    dataset = make(small_dataset, 50, on_iter="continue")
    dataset.load_state_dict(state)
    left = len(list(dataset))
    assert next(iter(dataset)).global_step == 21 + left


def test_the_global_step_starts_anew_with_the_passes(small_dataset: Dataset) -> None:
    old = make(small_dataset)
    list(old)
    state = next(iter(old)).state_dict()
    new = make(small_dataset)
    new.load_state_dict(state, reset_epochs=True)
    assert next(iter(new)).global_step == 1
    with pytest.raises(fr.FastresumeError, match="read by their numbers"):
        _ = new.read_rows([1]).global_step


def test_a_checkpoint_takes_the_global_step(small_dataset: Dataset, tmp_path: Path) -> None:
    loader = fr.Loader(make(small_dataset))
    with Checkpointer(tmp_path / "checkpoints", keep=100) as checkpointer:
        for _ in range(2):
            for batch in loader:
                checkpointer.save(batch.global_step, loader=loader)
        restored = checkpointer.restore(loader=fr.Loader(make(small_dataset)))
        assert restored is not None
        assert restored.step == 19


def test_a_state_amid_a_pass_that_has_no_effect_is_warned_of(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, on_iter="restart")
    step = make(small_dataset)
    batches = iter(step)
    for loads in (dataset.load_state_dict, fr.Loader(dataset).load_state_dict):
        next(batches)
        with pytest.warns(UserWarning, match=r'starts pass 0 over, .* without on_iter="restart"$'):
            loads(step.state_dict())
    assert next(iter(dataset)).step == 0
    for _ in batches:
        pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset.load_state_dict(step.state_dict())  # between two passes
    assert next(iter(dataset)).epoch == 1
