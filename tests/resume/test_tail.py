"""The tail policies: what becomes of less than a global batch, with equally many batches on every rank."""

from __future__ import annotations

import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume.amounts import plural
from support import oracle
from support.each_of import each_of
from support.jobs import (
    FEWER,
    MANY_WORKERS,
    REST,
    THREADS,
    WORKERS,
    Job,
    Ledger,
    assert_batch,
    data_loader,
    do_step,
    make,
    make_reader,
    oracle_job,
    parallel,
    rows_of,
)
from support.strategies import Dataset, DatasetSpec, plain_spec, written
from support.topologies import RANKS, TAILS, Shuffle, Topology, orders, topologies

Write = Callable[[DatasetSpec], Dataset]

pytestmark = MANY_WORKERS

SHUFFLES = each_of("shuffle", [None, Shuffle(17, 4, 9)])


# ----------------------------------------------------------------------------------------- against the oracle


@pytest.mark.law(1)
@pytest.mark.law(8)
@FEWER
@given(rows=st.integers(1, 70), data=st.data())
def test_every_policy_is_the_oracles_from_any_state(rows: int, data: st.DataObject) -> None:
    """Also where the state left less than a rank's row each, or was left by another policy."""
    shuffle = data.draw(orders(rows))
    before = data.draw(topologies(rows=rows, world_sizes=RANKS, workers=WORKERS, tails=TAILS, small=True))
    after = data.draw(topologies(rows=rows, world_sizes=RANKS, workers=WORKERS, tails=TAILS))
    job = oracle_job(rows, before, "", shuffle)
    with written(plain_spec([rows])) as files:
        job.fingerprint = make(files, 1).fingerprint
        for _ in range(data.draw(st.integers(0, job.batches_left - 1))):
            job.step()
        resumed = Job(files, after, shuffle=shuffle, state={"fastresume": job.state()})
        left = len(oracle.replay(rows, job.consumed, job.cuts))
        counted: list[int] = []
        while resumed.oracle.epoch == 0:
            resumed.step()
            counted += resumed.counted
        assert len(set(counted)) == len(counted) == left - len(resumed.oracle.dropped[0])
        resumed.step()
        resumed.kill()


@pytest.mark.law(8)
@each_of("tail", TAILS)
@each_of("world_size", [1, 2, 3, 5, 8, 16])
@each_of("rows", [1, 2, 7, 15, 16, 17, 48, 49])
def test_all_ranks_get_equally_many_batches(
    write_dataset: Write, tail: str, world_size: int, rows: int
) -> None:
    """Of any number of rows, fewer than ranks too; known beforehand, and counted down."""
    topology = Topology(world_size, 0, 3, tail=tail)
    files = write_dataset(plain_spec([rows]))
    if not topology.fits(rows):
        with pytest.raises(ValueError, match=f"no batch would come from {plural(rows, 'row')}"):
            make(files, 3, tail=tail, **parallel(0, world_size))
        return
    whole, rest = divmod(rows, 3 * world_size)
    last = {"drop": False, "short": rest >= world_size, "pad": rest > 0}[tail]
    found = Counter[int]()
    for rank in range(world_size):
        dataset = make(files, 3, tail=tail, **parallel(rank, world_size))
        assert len(dataset) == dataset.batches_left == whole + last
        sizes = []
        for number, batch in enumerate(dataset, start=1):
            sizes.append(batch.num_rows)
            found.update(batch.rows()[batch.valid.numpy()].tolist())
            assert dataset.batches_left == (whole + last - number or len(dataset))
        assert len(sizes) == whole + last
        assert set(sizes[:whole]) <= {3}
        if last:
            share = (rank + 1) * rest // world_size - rank * rest // world_size
            assert sizes[-1] == (3 if tail == "pad" else share)
    dropped = 0 if last else rest
    assert found == Counter(range(rows - dropped))


@SHUFFLES
@each_of("threads", THREADS)
@each_of("tail", TAILS)
def test_a_pass_by_threads_is_the_oracles(
    small_dataset: Dataset, tail: str, threads: int | None, shuffle: Shuffle | None
) -> None:
    for world_size, batch_size in ((1, 10), (4, 10), (5, 30)):
        topology = Topology(world_size, 0, batch_size, tail=tail)
        if topology.fits(103):
            job = Job(small_dataset, topology, shuffle=shuffle, threads=threads)
            for _ in range(2):
                job.run_pass()
            job.kill()


@pytest.mark.processes
@pytest.mark.parametrize("tail", TAILS)
@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_a_pass_by_a_dataloaders_workers_is_the_oracles(
    small_dataset: Dataset, tail: str, workers: int
) -> None:
    table = oracle.read_table(small_dataset.directory)
    for rank in (0, 1):
        dataset = make(small_dataset, 15, tail=tail, **parallel(rank, 2))
        loader = data_loader(dataset, workers)
        job = oracle_job(103, Topology(2, workers, 15, tail=tail), dataset.fingerprint)
        found = [*loader, *loader]
        for batch in found:
            epoch, number, step = job.epoch, job.steps_done, job.step()
            assert_batch(batch, table, step[rank], epoch, number, job.state(), job.valid[rank])
        assert (job.epoch, job.steps_done) == (2, 0)
        assert dataset.batches_left == len(dataset) == len(found) // 2


# --------------------------------------------------------------------------------------------------- by hand


def test_dropping_is_the_default(small_dataset: Dataset) -> None:
    assert rows_of(make(small_dataset, 50)) == rows_of(make(small_dataset, 50, tail="drop"))
    assert rows_of(make(small_dataset, 50)) == [list(range(50)), list(range(50, 100))]


def test_a_short_last_batch_is_shared(small_dataset: Dataset) -> None:
    last = [list(make(small_dataset, 25, tail="short", **parallel(r, 2)))[-1] for r in range(2)]
    assert rows_of(last) == [[100], [101, 102]]
    assert [batch["row"].tolist() for batch in last] == [[100], [101, 102]]
    assert [batch.num_rows for batch in last] == [1, 2]
    assert all(batch.valid.all() for batch in last)


def test_a_padded_last_batch_repeats_the_rest(small_dataset: Dataset) -> None:
    last = [list(make(small_dataset, 5, tail="pad", **parallel(r, 4)))[-1] for r in range(4)]
    assert rows_of(last) == [
        [100, 101, 102, 100, 101],
        [102, 100, 101, 102, 100],
        [101, 102, 100, 101, 102],
        [100, 101, 102, 100, 101],
    ]
    assert [batch["row"].tolist() for batch in last] == rows_of(last)
    assert [batch.valid.tolist() for batch in last] == [[True] * 3 + [False] * 2, *[[False] * 5] * 3]
    assert [batch.num_rows for batch in last] == [5] * 4


def test_no_rest_is_no_batch(write_dataset: Write) -> None:
    files = write_dataset(plain_spec([60]))
    for tail in TAILS:
        batches = list(make(files, 20, tail=tail))
        assert rows_of(batches) == [list(range(20 * n, 20 * n + 20)) for n in range(3)]
        assert all(batch.valid.all() for batch in batches)


def test_a_batch_larger_than_the_dataset_is_padded_or_short(write_dataset: Write) -> None:
    files = write_dataset(plain_spec([3, 0], [2]))
    (short,) = make(files, 1000, tail="short")
    assert short.rows().tolist() == list(range(5))
    (padded,) = make(files, 12, tail="pad")
    assert padded.rows().tolist() == [0, 1, 2, 3, 4] * 2 + [0, 1]
    assert padded.valid.sum() == 5
    with pytest.raises(ValueError, match="no batch would come from 5 rows"):
        make(files, 12)


@pytest.mark.parametrize("tail", TAILS)
def test_a_dataset_without_rows_gives_no_batch(write_dataset: Write, tail: str) -> None:
    with pytest.raises(ValueError, match="no batch would come from 0 rows"):
        make(write_dataset(plain_spec([0], [])), 1, tail=tail)


@each_of("tail", ["keep", "", "DROP", None, 1, True])
def test_a_policy_has_one_of_three_names(small_dataset: Dataset, tail: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="tail") as caught:
        make(small_dataset, tail=tail)
    assert repr(tail) in str(caught.value)


# ------------------------------------------------------------------------------------- the rest in the middle


@SHUFFLES
@each_of("threads", [None, 2])
def test_a_state_with_only_the_rest_left_goes_on_with_it(
    small_dataset: Dataset, shuffle: Shuffle | None, threads: int | None
) -> None:
    """All whole batches are done; what is left of them is a batch under two of the policies."""
    how = {} if shuffle is None else shuffle.arguments
    batches = list(make(small_dataset, 25, tail="pad", **how))
    state = batches[3].state_dict()
    assert fr.Cursor.from_state(state).consumed_rows == 100
    for tail, rows in (("pad", 25), ("short", 3)):
        reader = make_reader(make(small_dataset, 25, tail=tail, **how), threads)
        reader.load_state_dict(state)
        assert (reader.batches_left, reader.epoch, reader.state_dict()) == (1, 0, state)
        (batch,) = reader
        assert batch.rows().tolist() == batches[4].rows()[:rows].tolist()
        assert (batch.epoch, batch.step, reader.epoch) == (0, 4, 1)
        assert batch.state_dict() == batches[4].state_dict() == reader.state_dict()


@each_of("threads", [None, 2])
@each_of(("tail", "ranks"), [("drop", 1), ("drop", 5), ("short", 4), ("short", 16)])
def test_a_rest_that_gives_no_batch_stays_until_the_pass_is_ended(
    small_dataset: Dataset, threads: int | None, tail: str, ranks: int
) -> None:
    state = list(make(small_dataset, 25, tail="pad"))[3].state_dict()
    for rank in range(ranks):
        reader = make_reader(make(small_dataset, 6, tail=tail, **parallel(rank, ranks)), threads)
        reader.load_state_dict(state)
        assert (reader.batches_left, reader.epoch, reader.state_dict()) == (0, 0, state)
        with pytest.warns(UserWarning, match=REST.format(3)):
            assert list(reader) == []
        assert (reader.batches_left, reader.epoch) == (len(reader), 1)
        if threads is not None:
            assert (reader.stats().dropped_rows, reader.stats().batches) == (3, 0)


@pytest.mark.law(3)
@SHUFFLES
@each_of("tail", TAILS)
def test_a_resume_into_more_ranks_than_rows(
    small_dataset: Dataset, tail: str, shuffle: Shuffle | None
) -> None:
    """Of 103 rows, five are left for 16 ranks."""
    first = Job(small_dataset, Topology(1, 0, 14, tail="pad"), shuffle=shuffle)
    ledger = Ledger(103)
    for _ in range(7):
        do_step(first, ledger)
    many = Job(small_dataset, Topology(16, 0, 2, tail=tail), shuffle=shuffle, state=first.state())
    assert many.oracle.batches_left == (1 if tail == "pad" else 0)
    do_step(many, ledger)  # which counts the rows of the pass that it ends
    assert len(many.counted) == (5 if tail == "pad" else 0)
    do_step(many, ledger)


def order_of(shuffle: Shuffle | None) -> dict[str, Any]:
    """The arguments of an order."""
    return {} if shuffle is None else shuffle.arguments


# -------------------------------------------------------------------------------------------- what is counted


@SHUFFLES
@each_of("tail", TAILS)
@each_of("threads", [0, 2])
def test_stats_count_what_was_dropped_and_padded(
    small_dataset: Dataset, tail: str, threads: int, shuffle: Shuffle | None
) -> None:
    for rank in range(4):
        loader = fr.Loader(
            make(small_dataset, 5, tail=tail, **order_of(shuffle), **parallel(rank, 4)), threads=threads
        )
        stats = loader.stats()
        for number in (1, 2):
            for _ in range(len(loader) - 1):
                next(iter(loader))
            assert stats.dropped_rows == (number - 1) * (0 if tail == "pad" else 3)
            list(loader)  # the last batch
            assert stats.dropped_rows == number * (0 if tail == "pad" else 3)
            # Rank 0 has the three rows and two copies, the others five copies each.
            assert stats.padded_rows == number * ((2 if rank == 0 else 5) if tail == "pad" else 0)
            assert stats.rows == number * (30 if tail == "pad" else 25)


def test_stats_of_a_short_tail_drop_only_fewer_rows_than_ranks(small_dataset: Dataset) -> None:
    for ranks, dropped in ((3, 0), (4, 3)):
        loader = fr.Loader(make(small_dataset, 100 // ranks, tail="short", **parallel(0, ranks)), threads=1)
        list(loader)
        left = 103 - ranks * (100 // ranks)
        assert loader.stats().dropped_rows == (left if left < ranks else 0) == dropped


def test_what_is_begun_again_is_counted_when_it_ends(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset, 25), threads=1)
    next(iter(loader))
    assert loader.stats().dropped_rows == 0
    loader.reset()
    list(loader)
    assert loader.stats().dropped_rows == 3
    loader.peek()
    assert loader.stats().dropped_rows == 3


@pytest.mark.parametrize("tail", TAILS)
def test_the_end_of_a_pass_warns_of_nothing(small_dataset: Dataset, tail: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for ranks in (1, 4, 16):
            list(make(small_dataset, 6, tail=tail, **parallel(0, ranks)))


# ----------------------------------------------------------------------------------------------- batch.valid


def test_valid_stays_with_the_batch(small_dataset: Dataset) -> None:
    batch = list(make(small_dataset, 25, tail="pad"))[-1]
    expected = [True] * 3 + [False] * 22
    for other in (
        batch,
        pickle.loads(pickle.dumps(batch)),
        batch.to("cpu"),
        torch.utils.data.default_convert(batch),
    ):
        assert other.valid.dtype == torch.bool
        assert other.valid.shape == (25,)
        assert other.valid.tolist() == expected
    batch.valid[:] = True  # it is the caller's
    assert batch.valid.tolist() == expected


def test_padded_rows_are_the_callers_own_memory(small_dataset: Dataset) -> None:
    """A copy is a copy: changing one row changes no other."""
    batch = list(make(small_dataset, 25, tail="pad"))[-1]
    batch["row"][0] = -1
    assert batch["row"].tolist() == ([-1, 101, 102] + [100, 101, 102] * 8)[:25]


def test_a_stacked_matrix_is_padded_row_by_row(small_dataset: Dataset) -> None:
    table = oracle.read_table(small_dataset.directory)
    batch = list(make(small_dataset, 10, tail="pad", columns=["*", "!i_*", fr.stack("i_*", name="dense")]))[
        -1
    ]
    expected = np.stack([table["i_1"], table["i_2"]], axis=1)[batch.rows()]
    assert batch["dense"].numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize("tail", TAILS)
def test_restart_repeats_the_tail_too(small_dataset: Dataset, tail: str) -> None:
    dataset = make(small_dataset, 25, tail=tail, on_iter="restart")
    first = rows_of(dataset)
    assert rows_of(dataset) == first == rows_of(make(small_dataset, 25, tail=tail))
    assert dataset.epoch == 0


# --------------------------------------------------------------------------------- what the plan says before


@pytest.mark.filterwarnings("ignore:.* rows are decoded per row delivered:UserWarning")
@FEWER
@given(rows=st.integers(1, 80), data=st.data())
def test_the_plan_says_what_becomes_of_the_rest(rows: int, data: st.DataObject) -> None:
    """At any state of a pass: the steps to come, and how many rows are left over, dropped and padded."""
    shuffle = data.draw(orders(rows))
    topology = data.draw(topologies(rows=rows, world_sizes=RANKS, tails=TAILS))
    with written(plain_spec([rows])) as files:
        dataset = make(files, **topology.arguments, **order_of(shuffle), **parallel(0, topology.world_size))
        job = oracle_job(rows, topology, dataset.fingerprint, shuffle)
        for _ in range(data.draw(st.integers(0, 12))):
            job.step()
        dataset.load_state_dict({"fastresume": job.state()})
        plan = dataset.plan(topology.workers)
        left, epoch = len(oracle.replay(rows, job.consumed, job.cuts)), job.epoch
        assert (plan.epoch, plan.remaining_rows, plan.steps) == (epoch, left, job.batches_left)
        assert [plan.lanes, plan.groups, plan.lane_rows] == job.cut
        assert plan.tail_rows == job.rest
        while job.epoch == epoch:
            job.step()
        assert (plan.dropped_rows, plan.padded_rows) == (len(job.dropped[epoch]), sum(job.padded[epoch]))
        steps = f"{plan.steps:,} of {plural(topology.batch_size, 'row')} per rank"
        for said in (f"{plural(left, 'row')} left", steps, topology.tail):
            assert said in repr(plan)


@pytest.mark.processes
@pytest.mark.parametrize(("tail", "ranks"), [("drop", 1), ("short", 4)])
def test_workers_with_a_rest_that_gives_no_batch_begin_the_next_pass_with_a_warning(
    small_dataset: Dataset, tail: str, ranks: int
) -> None:
    state = list(make(small_dataset, 25, tail="pad"))[3].state_dict()
    dataset = make(small_dataset, 6, tail=tail, **parallel(ranks - 1, ranks))
    dataset.load_state_dict(state)
    with pytest.warns(UserWarning, match=REST.format(3)):
        places = [(batch.epoch, batch.step) for batch in data_loader(dataset, 2)]
    assert places == [(1, step) for step in range(len(dataset))]
    assert dataset.epoch == 2
