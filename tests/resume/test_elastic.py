"""Laws 1 and 3: whatever topologies a job lives through, each row of a pass is delivered exactly once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import fastresume as fr
from support import oracle
from support.cells import written_cells
from support.chains import live_through
from support.columns import tables
from support.conditions import selections_of
from support.each_of import each_of
from support.jobs import FEWER, WORKERS, Job, Ledger, data_loader, do_step, fields_of, make
from support.layouts import Contents, layouts
from support.profile import one_in
from support.strategies import Dataset, DatasetSpec, dataset_specs, plain_spec, written
from support.topologies import RANKS, TAILS, Chosen, Shuffle, Topology, chains, orders, selections, topologies

FLAWS = st.frozensets(st.integers(0, 6), max_size=2)
"""The steps at which a transform fails."""


@pytest.mark.law(1)
@pytest.mark.law(3)
@pytest.mark.law(8)
@FEWER
@given(rows=st.integers(1, 90), data=st.data())
def test_no_chain_of_topologies_loses_or_repeats_a_row(rows: int, data: st.DataObject) -> None:
    chosen = data.draw(selections(rows))
    selected = range(rows) if chosen is None else chosen.selected(rows)
    shuffle = data.draw(orders(len(selected)))
    small = data.draw(st.booleans())  # a job dies in mid pass only if its batches are small
    legs = data.draw(
        chains(len(selected), max_steps=8, world_sizes=RANKS, workers=WORKERS, tails=TAILS, small=small)
    )
    threads = data.draw(st.sampled_from((None, None, None, 2)))
    mapped, flaws = data.draw(st.booleans()), data.draw(FLAWS)
    spec = plain_spec([rows // 3, 0, rows // 5], [], [rows - rows // 3 - rows // 5])
    ledger = Ledger(selected)
    with written(spec) as dataset:
        table = oracle.read_table(dataset.directory)

        def live(topology: Topology, state: Mapping[str, str] | None) -> Job:
            how = {"shuffle": shuffle, "chosen": chosen, "threads": threads, "mapped": mapped, "flaws": flaws}
            return Job(dataset, topology, table=table, state=state, **how)

        live_through(legs, ledger, live)


@pytest.mark.law(3)
@each_of("shuffle", [None, Shuffle(17, 20, 45)])
@each_of(
    ("before", "after"),
    [
        (Topology(1, 0, 10), Topology(3, 0, 4)),
        (Topology(4, 2, 3), Topology(3, 4, 2, tail="pad")),
        (Topology(2, 1, 5), Topology(2, 3, 5, tail="short")),
        (Topology(6, 4, 1), Topology(1, 0, 1)),
        (Topology(1, 0, 4), Topology(1, 0, 5, tail="pad")),
        (Topology(2, 0, 8, lanes=8), Topology(4, 2, 4, lanes=1, tail="short")),
        (Topology(2, 3, 4, lanes=12, groups=3, tail="pad"), Topology(16, 0, 1, tail="pad")),
    ],
)
def test_a_cursor_loads_on_any_number_of_ranks_and_workers(
    small_dataset: Dataset, before: Topology, after: Topology, shuffle: Shuffle | None
) -> None:
    table = oracle.read_table(small_dataset.directory)
    for kept in range(0, 103 // before.global_batch_size, 2 * one_in(2)):
        ledger = Ledger(103)
        job = Job(small_dataset, before, shuffle=shuffle, table=table)
        for _ in range(kept):
            do_step(job, ledger)
        other = Job(small_dataset, after, shuffle=shuffle, table=table, state=job.state())
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
            loader = data_loader(dataset, workers)
        for number, batch in enumerate(loader):
            ledger.add(0, batch.rows().tolist())
            if number == 2:
                state = batch.state_dict()
                break
        assert fields_of(state)["epoch"] == 0
        assert len(fields_of(state)["cuts"]) == leg + 1
    loader = fr.Loader(make(small_dataset, 2))
    loader.load_state_dict(state)
    for batch in loader:
        ledger.add(0, batch.rows().tolist())
    left = 103 - 3 * (6 + 5 + 4 + 7 + 3)
    assert left % 2 == 0
    ledger.assert_exactly_once(0, [])


class JobThatDies(RuleBasedStateMachine):
    """Step, save, kill, resize and finish, in any order; the oracle beside every step."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="fastresume-"))
        self.job: Job | None = None

    @initialize(
        spec=st.one_of(
            dataset_specs(min_rows=12, max_columns=1), tables(min_rows=12, max_files=2, max_columns=2)
        ),
        data=st.data(),
    )
    def start(self, spec: DatasetSpec, data: st.DataObject) -> None:
        self.dataset = spec.write(self.directory)
        self.cells = written_cells(spec)
        self.chosen = data.draw(selections_of(spec, self.cells, least=4), label="selection")
        self.selected = (self.chosen or Chosen()).selected(spec.num_rows)
        self.ledger = Ledger(self.selected)
        self.saved: dict[str, str] | None = None
        self.shuffle = data.draw(orders(len(self.selected)), label="order")
        self.live(data)

    def live(self, data: st.DataObject, reset_epochs: bool = False) -> None:
        """Begin a life, from what was saved, on any ranks and under any layout: no state knows of it."""
        if self.job is not None:
            self.job.kill()
        small = data.draw(st.booleans(), label="small batches")
        drawn = topologies(
            rows=len(self.selected), world_sizes=RANKS, workers=WORKERS, tails=TAILS, small=small
        )
        topology = data.draw(drawn, label="topology")
        threads = data.draw(st.sampled_from((None, 2)), label="threads")
        self.job = Job(
            self.dataset,
            topology,
            shuffle=self.shuffle,
            chosen=self.chosen,
            table=Contents(self.cells, data.draw(layouts(self.cells), label="layout")),
            state=self.saved,
            threads=threads,
            reset_epochs=reset_epochs,
            mapped=data.draw(st.booleans(), label="mapped"),
            flaws=data.draw(FLAWS, label="flaws"),
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
    max_examples=max(5, settings.default.max_examples // 3), stateful_step_count=20
)
TestJobThatDies = pytest.mark.law(3)(JobThatDies.TestCase)
