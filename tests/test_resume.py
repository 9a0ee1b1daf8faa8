"""The laws of docs/DESIGN.md §3 for whole jobs: killed anywhere, resumed anywhere, against the oracle.

Here a kill drops everything that a job holds. Processes that die are in test_processes.py, and what a
DataLoader's workers must see is in test_dataloader.py.
"""

from __future__ import annotations

import contextlib
import copy
import json
import pickle
import random
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch.utils.data import DataLoader

import fastresume as fr
import oracle
from jobs import (
    REST,
    Job,
    Ledger,
    assert_batch,
    assert_same_batch,
    fields_of,
    global_batches_of_core,
    oracle_job,
    parallel,
    text_of,
)
from strategies import (
    Dataset,
    DatasetSpec,
    Topology,
    chains,
    dataset_specs,
    one_order,
    plain_spec,
    topologies,
    written,
)

Write = Callable[[DatasetSpec], Dataset]

THREADS = (None, 1, 2, 4)
"""`iter(dataset)`, and loaders with so many threads."""

WORKERS = st.sampled_from((0, 0, 0, 1, 2, 3, 4))
"""None, more often than not: then every rank also tells its state and what is left between steps."""

FEWER = settings(max_examples=max(10, settings.default.max_examples // 2))
"""For tests of which one example is many jobs."""


def make(dataset: Dataset, batch_size: int = 10, **arguments: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(dataset.directory, **{"batch_size": batch_size, **parallel(), **arguments})


def make_reader(dataset: fr.ParquetDataset, threads: int | None) -> fr.ParquetDataset | fr.Loader:
    return dataset if threads is None else fr.Loader(dataset, threads=threads)


def rows_of(batches: Iterator[fr.Batch] | list[fr.Batch]) -> list[list[int]]:
    return [batch.rows().tolist() for batch in batches]


def shaped_like(value: object) -> object:
    """The keys and types of parsed JSON, whatever its numbers."""
    if isinstance(value, dict):
        return {key: shaped_like(inner) for key, inner in value.items()}
    return type(value).__name__


# ---------------------------------------------------------------------------------------------- law 2: resume


@pytest.mark.law(2)
@pytest.mark.parametrize("threads", THREADS)
@FEWER
@given(spec=dataset_specs(min_rows=1, max_columns=2), data=st.data())
def test_resume_after_every_batch_equals_no_interruption(
    threads: int | None, spec: DatasetSpec, data: st.DataObject
) -> None:
    sizes = st.integers(max(1, spec.num_rows // 12), spec.num_rows)  # 12 resumes an example are enough
    with written(spec) as dataset:
        world_size = data.draw(st.integers(1, 3))
        batch_size = data.draw(sizes) // world_size
        assume(batch_size > 0)
        rank = data.draw(st.integers(0, world_size - 1))
        place = parallel(rank, world_size)
        table = oracle.read_table(dataset.directory)
        unbroken = make(dataset, batch_size, **place)
        job = oracle_job(spec.num_rows, Topology(world_size, 0, batch_size), unbroken.fingerprint)
        states = [job.state()]
        steps = []
        while job.epoch < 2:
            epoch, number, step = job.epoch, job.steps_done, job.step()
            assert step is not None
            states.append(job.state())
            steps.append((step[rank], epoch, number, job.state()))
        a_pass = len(steps) // 2
        for k in range(a_pass + 1):
            resumed = make_reader(make(dataset, batch_size, **place), threads)
            resumed.load_state_dict({"fastresume": states[k]})
            found = [*resumed, *(resumed if k < a_pass else ())]
            for batch, expected in zip(found, steps[k:], strict=True):
                assert_batch(batch, table, *expected)


@pytest.mark.law(2)
@pytest.mark.processes
@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("rank", [0, 1])
def test_resume_of_a_dataloader_after_every_batch_equals_no_interruption(
    small_dataset: Dataset, workers: int, rank: int
) -> None:
    table = oracle.read_table(small_dataset.directory)

    def make_loader() -> DataLoader[fr.Batch]:
        dataset = make(small_dataset, 8, **parallel(rank, 2))
        return DataLoader(dataset, batch_size=None, num_workers=workers, **fork(workers))

    job = oracle_job(103, Topology(2, workers, 8), make_loader().dataset.fingerprint)
    states, steps = [job.state()], []
    while job.epoch < 2:
        epoch, number, step = job.epoch, job.steps_done, job.step()
        assert step is not None
        states.append(job.state())
        steps.append((step[rank], epoch, number, job.state()))
    for k in range(7):
        loader = make_loader()
        loader.dataset.load_state_dict({"fastresume": states[k]})
        found = [*loader, *(loader if k < 6 else ())]
        for batch, expected in zip(found, steps[k:], strict=True):
            assert_batch(batch, table, *expected)
        assert text_of(loader.dataset.state_dict()) == states[-1]


def start_late(worker: int) -> None:
    """A `worker_init_fn`: the first worker is long done when the others begin."""
    time.sleep(0.25 * worker)


@pytest.mark.law(1)
@pytest.mark.law(2)
@pytest.mark.processes
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(("workers", "done"), [(2, 9), (3, 9), (3, 8)])
def test_a_worker_that_starts_late_starts_where_the_others_did(
    small_dataset: Dataset, persistent: bool, workers: int, done: int
) -> None:
    """Also if it has nothing to deliver, and the pass ends before it looks where to start."""
    dataset = make(small_dataset)
    dataset.load_state_dict(list(make(small_dataset))[done - 1].state_dict())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create")
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            persistent_workers=persistent,
            worker_init_fn=start_late,
            **fork(workers),
        )
        places = [[(batch.epoch, batch.step) for batch in loader] for _ in range(2)]
    assert places == [[(0, step) for step in range(done, 10)], [(1, step) for step in range(10)]]


def fork(workers: int) -> dict[str, Any]:
    return {"multiprocessing_context": "fork", "timeout": 60} if workers else {}


@pytest.mark.law(2)
def test_a_resumed_job_says_the_same_of_itself(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    for batch in dataset:
        resumed = make(small_dataset)
        resumed.load_state_dict(batch.state_dict())
        assert resumed.state_dict() == batch.state_dict() == dataset.state_dict()
        assert (resumed.batches_left, resumed.epoch) == (dataset.batches_left, dataset.epoch)
        assert len(resumed) == len(dataset) == 10


# --------------------------------------------------------------------------------------------- law 3: elastic


@pytest.mark.law(1)
@pytest.mark.law(3)
@given(rows=st.integers(1, 90), data=st.data())
def test_no_chain_of_topologies_loses_or_repeats_a_row(rows: int, data: st.DataObject) -> None:
    most = data.draw(st.sampled_from((1, 4, 8)))  # a job dies in mid pass only if its batches are small
    legs = data.draw(chains(-(-rows // most), max_steps=8, workers=WORKERS, named=False))
    threads = data.draw(st.sampled_from((None, None, 2)))
    spec = plain_spec([rows // 3, 0, rows // 5], [], [rows - rows // 3 - rows // 5])
    ledger = Ledger(rows)
    with written(spec) as dataset:
        table = oracle.read_table(dataset.directory)
        state = None
        for leg in legs:
            job = Job(dataset, leg.topology, table=table, state=state, threads=threads)
            for _ in range(leg.kept):
                do_step(job, ledger)
            state = job.state()
            ledger.save()
            for _ in range(leg.lost):  # after the cursor that was saved: the next life reads them again
                job.step()
            job.kill()
        last = Job(dataset, legs[-1].topology, table=table, state=state, threads=threads)
        epoch = last.oracle.epoch
        while last.oracle.epoch == epoch:
            do_step(last, ledger)
        last.kill()


def do_step(job: Job, ledger: Ledger) -> None:
    """Do a step, note it, and check the pass if it ended."""
    epoch = job.oracle.epoch
    ledger.add(epoch, job.step())
    if job.oracle.epoch != epoch:
        dropped = job.oracle.dropped[epoch]
        assert len(dropped) < job.topology.global_batch_size
        ledger.assert_exactly_once(epoch, dropped)


@pytest.mark.law(3)
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Topology(1, 0, 10), Topology(3, 0, 4)),
        (Topology(4, 2, 3), Topology(3, 4, 2)),
        (Topology(2, 1, 5), Topology(2, 3, 5)),
        (Topology(6, 4, 1), Topology(1, 0, 1)),
        (Topology(1, 0, 4), Topology(1, 0, 5)),
    ],
    ids=str,
)
def test_a_cursor_loads_on_any_number_of_ranks_and_workers(
    small_dataset: Dataset, before: Topology, after: Topology
) -> None:
    table = oracle.read_table(small_dataset.directory)
    for kept in range(9):
        ledger = Ledger(103)
        job = Job(small_dataset, before, table=table)
        for _ in range(kept):
            ledger.add(0, job.step())
        other = Job(small_dataset, after, table=table, state=job.state())
        while other.oracle.epoch == 0:
            do_step(other, ledger)


@pytest.mark.law(3)
@pytest.mark.processes
def test_a_dataloaders_cursor_loads_into_a_loader_and_back(small_dataset: Dataset) -> None:
    ledger = Ledger(103)
    state = None
    for leg, (workers, batch_size) in enumerate([(2, 6), (0, 5), (1, 4), (2, 7), (0, 3)]):
        dataset = make(small_dataset, batch_size)
        if state is not None:
            dataset.load_state_dict(state)
        loader: Any = fr.Loader(dataset, threads=2)
        if leg % 2 == 0:
            loader = DataLoader(dataset, batch_size=None, num_workers=workers, **fork(workers))
        for number, batch in enumerate(loader):
            ledger.add(0, [batch.rows().tolist()])
            if number == 2:
                state = batch.state_dict()
                break
        assert fields_of(state)["epoch"] == 0
        assert len(fields_of(state)["cuts"]) == leg + 1
    loader = fr.Loader(make(small_dataset, 2))
    loader.load_state_dict(state)
    for batch in loader:
        ledger.add(0, [batch.rows().tolist()])
    left = 103 - 3 * (6 + 5 + 4 + 7 + 3)
    assert left % 2 == 0
    ledger.assert_exactly_once(0, [])


class JobThatDies(RuleBasedStateMachine):
    """Step, save, kill, resize and finish, in any order; the oracle beside every step."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="fastresume-"))
        self.job: Job | None = None

    @initialize(spec=dataset_specs(min_rows=12, max_columns=1), data=st.data())
    def start(self, spec: DatasetSpec, data: st.DataObject) -> None:
        self.dataset = spec.write(self.directory)
        self.table = oracle.read_table(self.directory)
        self.ledger = Ledger(spec.num_rows)
        self.saved: dict[str, str] | None = None
        self.live(data)

    def live(self, data: st.DataObject, reset_epochs: bool = False) -> None:
        """Begin a life, from what was saved, on any ranks."""
        if self.job is not None:
            self.job.kill()
        rows = -(-self.dataset.num_rows // data.draw(st.sampled_from((1, 4, 8))))
        topology = data.draw(topologies(rows=rows, workers=WORKERS, named=False), label="topology")
        threads = data.draw(st.sampled_from((None, 2)), label="threads")
        self.job = Job(
            self.dataset,
            topology,
            table=self.table,
            state=self.saved,
            threads=threads,
            reset_epochs=reset_epochs,
        )

    @rule(steps=st.integers(1, 5))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            do_step(self.job, self.ledger)

    @rule()
    def save(self) -> None:
        self.saved = self.job.state()
        self.ledger.save()

    @precondition(lambda self: self.saved is not None)
    @rule(data=st.data(), reset_epochs=st.booleans())
    def kill(self, data: st.DataObject, reset_epochs: bool) -> None:
        self.ledger.roll_back()
        self.live(data, reset_epochs)

    @rule(data=st.data())
    def resize(self, data: st.DataObject) -> None:
        self.save()
        self.live(data)

    @rule()
    def finish_the_pass(self) -> None:
        epoch = self.job.oracle.epoch
        while self.job.oracle.epoch == epoch:
            do_step(self.job, self.ledger)

    @precondition(lambda self: not self.job.topology.workers)
    @rule()
    def break_off_and_go_on(self) -> None:
        for rank in self.job.ranks:
            rank.drop()

    @precondition(lambda self: not self.job.topology.workers)
    @rule()
    def load_where_it_is(self) -> None:
        for rank in self.job.ranks:
            rank.drop()
            rank.dataset.load_state_dict(self.job.state())

    @invariant()
    def every_rank_has_the_same_cursor_and_count(self) -> None:
        if self.job is not None:
            self.job.assert_at_rest()

    def teardown(self) -> None:
        if self.job is not None:
            self.job.kill()
        shutil.rmtree(self.directory)


JobThatDies.TestCase.settings = settings(
    max_examples=max(10, settings.default.max_examples // 2), stateful_step_count=20
)
TestJobThatDies = pytest.mark.law(3)(JobThatDies.TestCase)


# ------------------------------------------------------------------------------------------- law 4: one order


@pytest.mark.law(4)
@FEWER
@given(rows=st.integers(1, 80), data=st.data())
def test_one_cut_is_one_sequence_of_global_batches(rows: int, data: st.DataObject) -> None:
    """By the core's readers: the API names no lanes yet, and one lane has one reader so far."""
    same = [
        topology
        for topology in data.draw(one_order(rows=rows))
        if topology.lanes != 1 or (topology.world_size == 1 and topology.workers <= 1)
    ]
    with written(plain_spec([rows // 2], [rows - rows // 2])) as dataset:
        read = make(dataset, 1)
        job = oracle_job(rows, same[0], read.fingerprint)
        for _ in range(data.draw(st.integers(0, job.batches_left - 1))):
            job.step()
        cursor = fr.Cursor.from_state({"fastresume": job.state()})._core
        expected = []
        epoch = job.epoch
        while job.epoch == epoch:
            step = job.step()
            expected.append(([row for batch in step or [] for row in batch], job.state()))
        for topology in same:
            assert list(global_batches_of_core(read, cursor, topology)) == expected, topology


@pytest.mark.law(4)
def test_without_named_lanes_the_order_depends_on_ranks_and_workers_alone(small_dataset: Dataset) -> None:
    """What the defaults give: lanes = ranks x workers, so two jobs of one shape agree."""
    one = Job(small_dataset, Topology(2, 2, 4)).run_pass()
    other = Job(small_dataset, Topology(2, 2, 4), threads=None).run_pass()
    assert one == other
    assert one != Job(small_dataset, Topology(4, 1, 2)).run_pass()


# ------------------------------------------------------------------------------- law 5: the cursor is a value


@pytest.mark.law(5)
@pytest.mark.parametrize("threads", THREADS)
def test_the_state_is_one_small_leaf_whose_keys_and_types_never_change(
    small_dataset: Dataset, threads: int | None
) -> None:
    dataset = make(small_dataset, 5, **parallel(1, 2))
    loader = make_reader(dataset, threads)
    states = [dataset.state_dict(), loader.state_dict()]
    for _ in range(2):
        for batch in loader:
            states += [batch.state_dict(), dataset.state_dict(), loader.state_dict()]
    shapes = [shaped_like(fields_of(state)) for state in states]
    assert all(shape == shapes[0] for shape in shapes)
    assert shapes[0] == {
        "check": "str",
        "consumed": "list",
        "cuts": "list",
        "dataset": {"fingerprint": "str", "rows": "int"},
        "epoch": "int",
        "fastresume": "int",
        "first_epoch": "int",
        "order": {"kind": "str"},
        "selection": "NoneType",
    }
    lengths = {len(text_of(state)) for state in states}
    assert max(lengths) < 1024
    assert max(lengths) - min(lengths) <= len("[2,1,5,10]")


@pytest.mark.law(5)
def test_taking_a_state_changes_nothing(small_dataset: Dataset) -> None:
    plain = list(make(small_dataset))
    dataset = make(small_dataset)
    loader = fr.Loader(dataset, threads=2)
    found = []
    for batch in loader:
        before = batch.state_dict()
        for _ in range(3):
            assert dataset.state_dict() == loader.state_dict() == batch.state_dict() == before
            state = batch.state_dict()
            state.clear()  # it is the caller's
        found.append(batch)
    for one, other in zip(found, plain, strict=True):
        assert_same_batch(one, other)


@pytest.mark.law(5)
def test_a_batch_keeps_the_state_of_its_own_step(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=2)
    batches = list(loader)
    job = oracle_job(103, Topology(1, 0, 10), loader.dataset.fingerprint)
    for batch in batches:
        job.step()
        assert text_of(batch.state_dict()) == job.state()
        assert batch.cursor == fr.Cursor.from_state(batch.state_dict())


@pytest.mark.law(5)
def test_the_size_of_a_state_does_not_grow_with_rows_files_ranks_or_steps(write_dataset: Write) -> None:
    def longest(spec: DatasetSpec, world_size: int, batch_size: int) -> int:
        dataset = make(write_dataset(spec), batch_size, **parallel(world_size - 1, world_size))
        return max(len(text_of(batch.state_dict())) for batch in dataset)

    small = longest(plain_spec([4]), 1, 1)
    large = longest(plain_spec(*[[100] * 10] * 30), 25, 2)
    assert large - small <= len("[25,1,2,599]") - len("[1,1,1,3]") + len("30000") - len("4")


@pytest.mark.law(5)
def test_a_change_of_topology_adds_a_few_bytes_and_the_end_of_the_pass_takes_them_away(
    small_dataset: Dataset,
) -> None:
    state = make(small_dataset).state_dict()
    start = len(text_of(state))
    for leg in range(10):
        before = len(text_of(state))
        dataset = make(small_dataset, 1 + leg % 3)
        dataset.load_state_dict(state)
        state = next(iter(dataset)).state_dict()
        assert 0 < len(text_of(state)) - before <= 30
    dataset = make(small_dataset, 1)
    dataset.load_state_dict(state)
    for batch in dataset:
        state = batch.state_dict()
    assert len(text_of(state)) == start


@pytest.mark.law(5)
def test_a_state_survives_what_checkpoints_do_to_it(small_dataset: Dataset, tmp_path: Path) -> None:
    batches = list(make(small_dataset))
    state = batches[3].state_dict()
    torch.save({"data": state}, tmp_path / "checkpoint.pt")
    survivors = [
        torch.load(tmp_path / "checkpoint.pt", weights_only=True)["data"],
        json.loads(json.dumps(state)),
        json.loads(text_of(state)),  # the parsed JSON itself
        pickle.loads(pickle.dumps(state)),
        copy.deepcopy(state),
        {"fastresume": json.dumps(fields_of(state), indent=2)},  # spaced by another writer
        {"fastresume": json.dumps(dict(reversed(fields_of(state).items())))},
        fr.Cursor.from_state(state),
        batches[3].cursor,
    ]
    for survivor in survivors:
        dataset = make(small_dataset)
        dataset.load_state_dict(survivor)
        assert dataset.state_dict() == state
        assert_same_batch(next(iter(dataset)), batches[4])


# ------------------------------------------------------------------------------------- law 6: unseen prefetch


@pytest.mark.law(6)
@FEWER
@given(
    spec=dataset_specs(min_rows=4, max_columns=2),
    threads=st.sampled_from((1, 2, 3, 4)),
    prefetch_bytes=st.sampled_from((1, 100, 5000, 1 << 28)),
    data=st.data(),
)
def test_threads_and_prefetch_change_no_batch_and_no_cursor(
    spec: DatasetSpec, threads: int, prefetch_bytes: int, data: st.DataObject
) -> None:
    with written(spec) as files:
        batch_size = data.draw(st.integers(1, spec.num_rows))
        plain = make(files, batch_size)
        expected = [*plain, *plain]
        dataset = make(files, batch_size)
        with fr.Loader(dataset, threads=threads, prefetch_bytes=prefetch_bytes) as loader:
            found: list[fr.Batch] = []
            state = dataset.state_dict()
            while len(found) < len(expected):
                for batch in loader:
                    found.append(batch)
                    state = batch.state_dict()
                    assert loader.state_dict() == state
                    if data.draw(st.booleans(), label="look ahead"):
                        loader.start()
                        assert_same_batch(loader.peek(), (expected + expected[:1])[len(found)]) if len(
                            found
                        ) < len(expected) else None
                        assert loader.state_dict() == state
                    if data.draw(st.integers(0, 4), label="break") == 0:
                        break
        for one, other in zip(found, expected, strict=True):
            assert_same_batch(one, other)


@pytest.mark.law(6)
def test_what_was_decoded_ahead_is_in_no_state(write_dataset: Write) -> None:
    files = write_dataset(plain_spec(*[[50] * 4] * 3))
    dataset = make(files, 5)
    loader = fr.Loader(dataset, threads=4)
    iterator = iter(loader)
    batch = next(iterator)
    loader.start()
    assert loader.peek().rows()[0] == 5
    assert fields_of(loader.state_dict())["cuts"] == [[1, 1, 5, 1]]
    assert loader.state_dict() == batch.state_dict()
    assert loader.batches_left == 119


# ------------------------------------------------------------ law 7: a finished pass is the next pass at zero


@pytest.mark.law(7)
@given(rows=st.integers(1, 60), data=st.data())
def test_a_finished_pass_is_the_next_pass_at_zero(rows: int, data: st.DataObject) -> None:
    topology = data.draw(topologies(rows=rows, named=False, workers=st.sampled_from((0, 0, 1, 2))))
    with written(plain_spec([rows])) as dataset:
        job = Job(dataset, topology)
        first = job.run_pass()
        fields = fields_of(job.state())
        assert (fields["epoch"], fields["consumed"], fields["cuts"]) == (1, [], [])
        fresh = Job(dataset, topology, state=job.state())
        assert len(first) == fresh.ranks[0].dataset.batches_left
        assert fresh.run_pass() == first == job.run_pass()


@pytest.mark.law(7)
@pytest.mark.parametrize("threads", THREADS)
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
@pytest.mark.parametrize("threads", THREADS)
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


# -------------------------------------------------------------------- laws 9 and 11: foreign state is refused


@pytest.fixture
def paused(small_dataset: Dataset) -> tuple[fr.ParquetDataset, dict[str, str]]:
    """A dataset after three batches, and the state of its second."""
    dataset = make(small_dataset)
    batches = iter(dataset)
    state = [next(batches).state_dict() for _ in range(3)][1]
    return dataset, state


def assert_refused(dataset: fr.ParquetDataset, state: Any, *named: str) -> None:
    """Assert that a state is a StateError that names these, and that the dataset stays as it was."""
    before = dataset.state_dict()
    with pytest.raises(fr.StateError) as caught:
        dataset.load_state_dict(state)
    for name in named:
        assert name in str(caught.value)
    with pytest.raises(fr.StateError):
        fr.Loader(dataset).load_state_dict(state)
    assert dataset.state_dict() == before


@pytest.mark.law(9)
@pytest.mark.parametrize(
    "nothing",
    [
        None,
        {},
        [],
        [("fastresume", 1)],
        "{}",
        b"",
        3,
        True,
        {"state": 1},
        {"data": {"fastresume": "{}"}},
        {"fastresume": None},
        {"fastresume": ""},
        {"fastresume": "{}"},
        {"fastresume": "null"},
        {"fastresume": b"{}"},
        {"fastresume": []},
        {"fastresume": 1},
        {"fastresume": float("nan")},
        {1: 2},
    ],
    ids=repr,
)
def test_what_is_no_state_is_refused(
    paused: tuple[fr.ParquetDataset, dict[str, str]], nothing: object
) -> None:
    assert_refused(paused[0], nothing)


@pytest.mark.law(9)
def test_a_state_beside_other_keys_is_refused_and_names_them(
    paused: tuple[fr.ParquetDataset, dict[str, str]],
) -> None:
    dataset, state = paused
    assert_refused(dataset, {**state, "epoch": 3}, "epoch")
    assert_refused(dataset, {**fields_of(state), "more": 3}, "more")
    assert_refused(dataset, {"model": 1}, "fastresume", "model")


@pytest.mark.law(9)
def test_a_state_of_another_dataset_is_refused_and_names_both(
    paused: tuple[fr.ParquetDataset, dict[str, str]], write_dataset: Write
) -> None:
    dataset, state = paused
    other = make(write_dataset(plain_spec([40])))
    assert_refused(other, state, dataset.fingerprint, other.fingerprint, "103", "40")
    assert rows_of(list(other))[0] == list(range(10))


def altered(state: dict[str, str], **fields: Any) -> dict[str, str]:
    """The state with other fields, and the checksum that belongs to them."""
    return {"fastresume": oracle.checked({**fields_of(state), **fields})}


@pytest.mark.law(9)
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"fastresume": 2}, ["version 2", "version 1"]),
        ({"fastresume": 0}, ["version 0", "version 1"]),
        ({"fastresume": "1"}, ["version 1"]),
        ({"order": {"kind": "shuffled", "seed": 17}}, ["shuffled"]),
        ({"order": {"kind": "sequential", "seed": 17}}, ["seed"]),
        ({"order": "sequential"}, ["sequential"]),
        ({"order": None}, ["null"]),
        ({"selection": {"where": "x > 3"}}, []),
        ({"selection": 0}, []),
        ({"dataset": {"fingerprint": "0" * 32, "rows": 103}}, ["0" * 32, "103"]),
        ({"epoch": -1}, ["-1"]),
        ({"epoch": 2**53}, [str(2**53)]),
        ({"epoch": 2**64}, []),
        ({"epoch": 1.0}, ["1.0"]),
        ({"epoch": "1"}, []),
        ({"epoch": True}, []),
        ({"epoch": None}, []),
        ({"first_epoch": 1}, ["1"]),
        ({"cuts": [[1, 1, 10, 11]]}, ["11", "10"]),
        ({"cuts": [[1, 1, 10, 0]]}, []),
        ({"cuts": [[0, 1, 10, 1]]}, ["0"]),
        ({"cuts": [[1, 0, 10, 1]]}, ["0"]),
        ({"cuts": [[1, 1, 0, 1]]}, ["0"]),
        ({"cuts": [[3, 2, 10, 1]]}, ["3", "2"]),
        ({"cuts": [[1, 1, 10]]}, []),
        ({"cuts": [[1, 1, 10, 1, 1]]}, []),
        ({"cuts": [[2**52, 1, 2**52, 1]]}, []),
        ({"cuts": {}}, []),
        ({"consumed": [[90, 104]], "cuts": []}, []),
        ({"consumed": [[5, 7], [1, 3]], "cuts": []}, []),
        ({"consumed": [[1, 3], [3, 5]], "cuts": []}, []),
        ({"consumed": [[1, 3], [2, 5]], "cuts": []}, []),
        ({"consumed": [[3, 3]], "cuts": []}, []),
        ({"consumed": [[5, 3]], "cuts": []}, []),
        ({"consumed": [[-1, 3]], "cuts": []}, []),
    ],
    ids=repr,
)
def test_a_state_that_says_what_none_of_ours_says_is_refused(
    paused: tuple[fr.ParquetDataset, dict[str, str]], fields: dict[str, Any], named: list[str]
) -> None:
    dataset, state = paused
    assert_refused(dataset, altered(state, **fields), *named)


@pytest.mark.law(9)
def test_a_state_without_one_of_its_keys_is_refused(
    paused: tuple[fr.ParquetDataset, dict[str, str]],
) -> None:
    dataset, state = paused
    for key in fields_of(state):
        fields = {name: value for name, value in fields_of(state).items() if name != key}
        text = json.dumps(fields) if key == "check" else oracle.checked(fields)
        assert_refused(dataset, {"fastresume": text})


@pytest.mark.law(9)
def test_damage_at_any_byte_is_noticed(paused: tuple[fr.ParquetDataset, dict[str, str]]) -> None:
    dataset, state = paused
    text = text_of(state)
    before = dataset.state_dict()
    for index, character in enumerate(text):
        others = {chr(ord(character) ^ (1 << bit)) for bit in range(8)} | {*'0159af ,]}"'} - {character}
        for other in others:
            damaged = text[:index] + other + text[index + 1 :]
            with pytest.raises(fr.StateError):
                dataset.load_state_dict({"fastresume": damaged})
        for damaged in (text[:index], text[:index] + text[index + 1 :], text[index + 1 :]):
            with pytest.raises(fr.StateError):
                dataset.load_state_dict({"fastresume": damaged})
    for damaged in (text + "0", text + text, "x" + text, "[" + text + "]"):
        with pytest.raises(fr.StateError):
            dataset.load_state_dict({"fastresume": damaged})
    assert dataset.state_dict() == before
    dataset.load_state_dict(state)


@pytest.mark.law(9)
@example(text="\ud800")
@example(text="\0")
@given(text=st.text(st.characters(codec=None)))
def test_any_text_is_refused(small_dataset: Dataset, text: str) -> None:
    dataset = make(small_dataset)
    with pytest.raises(fr.StateError):
        dataset.load_state_dict({"fastresume": text})


@pytest.mark.law(9)
def test_nesting_without_end_is_refused(paused: tuple[fr.ParquetDataset, dict[str, str]]) -> None:
    dataset, state = paused
    assert_refused(dataset, {"fastresume": "[" * 1_000_000})
    nested: list[Any] = []
    for _ in range(100_000):
        nested = [nested]
    assert_refused(dataset, {**fields_of(state), "consumed": nested})


@pytest.mark.law(9)
def test_after_a_refused_state_the_iteration_goes_on(
    paused: tuple[fr.ParquetDataset, dict[str, str]],
) -> None:
    dataset, _ = paused
    iterator = iter(dataset)
    assert next(iterator).step == 3
    with pytest.raises(fr.StateError):
        dataset.load_state_dict({})
    assert next(iterator).step == 4


# --------------------------------------------------------------------------------- law 12: seek, never replay


def spoil(file: Path, groups: range) -> None:
    """Overwrite the pages of some row groups; size and footer stay as they are."""
    metadata = pq.read_metadata(file)
    with file.open("r+b") as opened:
        for group in groups:
            column = metadata.row_group(group).column(0)
            start = column.dictionary_page_offset or column.data_page_offset
            opened.seek(start)
            opened.write(b"\xff" * column.total_compressed_size)


@pytest.mark.law(12)
@pytest.mark.parametrize("threads", THREADS)
def test_a_resume_reads_nothing_of_what_was_delivered(write_dataset: Write, threads: int | None) -> None:
    for group in (1, 7, 19):
        files = write_dataset(plain_spec([10] * 20))
        state = list(make(files, 5))[2 * group].state_dict()  # one batch of the group was delivered
        dataset = make(files, 5)
        spoil(files.files[0], range(group))
        spoiled = make(files, 5)
        with pytest.raises(fr.DataError):
            list(make_reader(spoiled, threads))
        loader = make_reader(dataset, threads)
        loader.load_state_dict(state)
        assert rows_of(loader)[0] == list(range(10 * group + 5, 10 * group + 10))
        assert loader.epoch == 1


@pytest.mark.law(12)
def test_the_first_batch_of_a_resume_decodes_one_row_group(write_dataset: Write) -> None:
    for group in (0, 3, 18):
        files = write_dataset(plain_spec([10] * 20))
        state = list(make(files, 5))[2 * group].state_dict()
        dataset = make(files, 5)
        spoil(files.files[0], range(group))
        spoil(files.files[0], range(group + 1, 20))
        dataset.load_state_dict(state)
        iterator = iter(dataset)
        assert next(iterator).rows().tolist() == list(range(10 * group + 5, 10 * group + 10))
        with pytest.raises(fr.DataError):
            next(iterator)


@pytest.mark.law(12)
def test_a_rank_reads_its_own_part_of_the_files_and_nothing_else(write_dataset: Write) -> None:
    for rank in range(4):
        files = write_dataset(plain_spec([10] * 5, [10] * 5, [10] * 5, [10] * 5))
        dataset = make(files, 5, **parallel(rank, 4))
        for other in range(4):
            if other != rank:
                spoil(files.files[other], range(5))
        rows = [row for batch in rows_of(dataset) for row in batch]
        assert rows == list(range(50 * rank, 50 * rank + 50))


# ------------------------------------------------------------------------------------- what iter() means (§6)


@pytest.mark.parametrize("threads", THREADS)
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


@pytest.mark.parametrize("threads", THREADS)
def test_an_exception_in_the_loop_loses_nothing(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    seen = []
    while loader.epoch == 0:
        with contextlib.suppress(ZeroDivisionError):
            for batch in loader:
                seen.append(batch.step)
                1 / (len(seen) % 3)
    assert seen == list(range(10))


@pytest.mark.parametrize("threads", THREADS)
def test_two_iterators_with_no_batch_between_them_start_at_one_place(
    small_dataset: Dataset, threads: int | None
) -> None:
    loader = make_reader(make(small_dataset), threads)
    next(iter(loader))
    iter(loader)
    iter(loader)
    assert next(iter(loader)).step == 1


@pytest.mark.parametrize("threads", THREADS)
def test_an_older_iterator_is_an_error(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    with pytest.raises(fr.FastresumeError, match="a newer iterator of this dataset goes on"):
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


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("change", ["load", "reset"])
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


@pytest.mark.parametrize("threads", THREADS)
def test_a_pass_that_is_over_stays_over(small_dataset: Dataset, threads: int | None) -> None:
    loader = make_reader(make(small_dataset), threads)
    iterator = iter(loader)
    assert len(list(iterator)) == 10
    assert list(iterator) == []
    newer = iter(loader)
    assert list(iterator) == []
    assert next(newer).epoch == 1


@pytest.mark.parametrize("threads", THREADS)
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


@pytest.mark.parametrize("threads", THREADS)
def test_restart_of_a_pass_of_one_batch_is_that_batch_every_time(
    small_dataset: Dataset, threads: int | None
) -> None:
    """Its cursor at the end is that of its start: that tells nothing of what was delivered."""
    loader = make_reader(make(small_dataset, 103, on_iter="restart"), threads)
    for _ in range(3):
        assert rows_of(loader) == [list(range(103))]


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


@pytest.mark.parametrize("threads", THREADS)
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
    assert list(iterator) == []
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
    assert list(iterator) == []
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


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"threads": -1}, ValueError, "threads must be at least 0, found -1"),
        ({"threads": 1.5}, TypeError, "threads must be an integer, found 1.5"),
        ({"prefetch_bytes": 0}, ValueError, "prefetch_bytes must be at least 1, found 0"),
        ({"prefetch_bytes": "1"}, TypeError, "prefetch_bytes must be an integer, found '1'"),
        ({"device": "cuda"}, TypeError, "device"),
        ({"num_workers": 2}, TypeError, "num_workers"),
    ],
)
def test_a_loader_refuses_what_it_does_not_know(
    small_dataset: Dataset, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    dataset = make(small_dataset)
    with pytest.raises(error, match=message):
        fr.Loader(dataset, **arguments)
    with pytest.raises(TypeError, match="dataset must be a ParquetDataset, found list"):
        fr.Loader([dataset])  # type: ignore[arg-type]


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
