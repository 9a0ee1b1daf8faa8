"""The laws of docs/DESIGN.md §3, of the oracle itself."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support import oracle
from support.oracle import OracleJob
from support.topologies import RANKS, TAILS, Shuffle, Topology, chains, one_order, orders, topologies


def job(rows: int, topology: Topology, order: Shuffle | None = None) -> OracleJob:
    """Return an oracle job of that topology, over two row groups."""
    groups = (rows // 3, rows - rows // 3)
    return OracleJob(
        rows,
        topology.world_size,
        topology.workers,
        topology.batch_size,
        lanes=topology.lanes,
        groups=topology.groups,
        tail=topology.tail,
        order=None if order is None else {**vars(order), "group_rows": groups},
    )


def any_topologies(rows: int, **how: Any) -> st.SearchStrategy[Topology]:
    """Return a strategy for topologies of few or many ranks, under every tail policy."""
    return topologies(rows=rows, world_sizes=RANKS, tails=TAILS, **how)


@given(st.data(), st.integers(1, 200))
def test_law_1_a_pass_delivers_each_row_once_or_drops_it(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(any_topologies(rows)), data.draw(orders(rows)))
    delivered, padded = [], [0] * reader.world_size
    while reader.epoch == 0:
        step = reader.step()
        for rank, batch in enumerate(step or []):
            valid = reader.valid[rank]
            delivered += [row for row, counts in zip(batch, valid, strict=True) if counts]
            padded[rank] += valid.count(False)
            if reader.tail != "pad":
                assert all(valid)
    assert sorted(delivered + reader.dropped[0]) == list(range(rows))
    assert padded == reader.padded[0]
    most = {"drop": reader.world_size * reader.batch_size, "short": reader.world_size, "pad": 1}[reader.tail]
    assert len(reader.dropped[0]) < most


@given(st.data(), st.integers(1, 120))
def test_law_2_a_loaded_cursor_goes_on_as_if_nothing_had_happened(data: st.DataObject, rows: int) -> None:
    topology, order = data.draw(any_topologies(rows)), data.draw(orders(rows))
    unbroken, states = job(rows, topology, order), []
    states.append(unbroken.state())
    steps = []
    while unbroken.epoch < 2:
        steps.append(unbroken.step())
        states.append(unbroken.state())
    k = data.draw(st.integers(0, len(steps)))
    resumed = job(rows, topology, order)
    resumed.load(states[k])
    assert [resumed.step() for _ in steps[k:]] == steps[k:]
    assert resumed.state() == states[-1]


@given(st.data(), st.integers(1, 200))
def test_law_3_no_chain_of_topologies_loses_or_repeats_a_row(data: st.DataObject, rows: int) -> None:
    order = data.draw(orders(rows))
    legs = data.draw(chains(rows, tails=TAILS, world_sizes=RANKS, small=data.draw(st.booleans())))
    seen: dict[int, Counter[int]] = {}
    dropped: dict[int, list[int]] = {}

    def keep(reader: OracleJob, steps: int) -> None:
        for _ in range(steps):
            epoch = reader.epoch
            for batch, valid in zip(reader.step() or [], reader.valid or [], strict=True):
                counted = [row for row, counts in zip(batch, valid, strict=True) if counts]
                seen.setdefault(epoch, Counter()).update(counted)
        dropped.update(reader.dropped)

    state = None
    for leg in legs:
        reader = job(rows, leg.topology, order)
        if state is not None:
            reader.load(state)
        keep(reader, leg.kept)
        state = reader.state()
        for _ in range(leg.lost):  # after the cursor that was saved: the next life reads them again
            reader.step()
    assert state is not None
    last = job(rows, legs[-1].topology, order)
    last.load(state)
    epoch = last.epoch
    while last.epoch == epoch:
        keep(last, 1)
    for epoch in range(last.epoch):
        assert seen.get(epoch, Counter()) + Counter(dropped[epoch]) == Counter(range(rows))


@given(st.data(), st.integers(1, 120), st.sampled_from(("drop", "pad")))
def test_law_4_world_size_and_workers_do_not_change_the_order(
    data: st.DataObject, rows: int, tail: str
) -> None:
    order = data.draw(orders(rows))
    runs = [job(rows, topology, order).run_pass() for topology in data.draw(one_order(rows=rows, tail=tail))]
    flat = [[[row for batch in step for row in batch] for step in run] for run in runs]
    assert all(other == flat[0] for other in flat)


@given(st.data(), st.integers(1, 120))
def test_law_7_a_finished_pass_is_the_next_pass_at_zero(data: st.DataObject, rows: int) -> None:
    topology, order = data.draw(any_topologies(rows)), data.draw(orders(rows))
    reader = job(rows, topology, order)
    first = reader.run_pass()
    fields = json.loads(reader.state())
    assert (fields["epoch"], fields["consumed"], fields["cuts"]) == (1, [], [])
    fresh = job(rows, topology, order)
    fresh.load(reader.state())
    second = fresh.run_pass()
    assert second == reader.run_pass()
    assert [[len(batch) for batch in step] for step in second] == [[len(b) for b in step] for step in first]
    if order is None:
        assert second == first


@given(st.data(), st.integers(1, 200))
def test_law_8_every_rank_gets_the_same_number_of_batches(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(any_topologies(rows)))
    for _ in range(data.draw(st.integers(0, 3))):
        reader.step()
    expected, is_short = reader.batches_left, reader.tail == "short" and reader.rest >= reader.world_size
    steps = reader.run_pass()
    assert len(steps) == expected
    full = [reader.batch_size] * reader.world_size
    for step in steps[:-1] if is_short else steps:
        assert [len(batch) for batch in step] == full
    if is_short:
        lengths = [len(batch) for batch in steps[-1]]
        assert 0 < min(lengths) <= max(lengths) <= min(min(lengths) + 1, reader.batch_size)


@given(st.data(), st.integers(1, 200))
def test_the_ranks_batches_joined_are_the_global_batches(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(topologies(rows=rows)))
    joined = [[row for batch in step for row in batch] for step in reader.run_pass()]
    assert joined == oracle.global_batches(list(range(rows)), *reader.cut)


@given(st.data(), st.integers(1, 120))
def test_the_cursor_tells_what_is_left(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(topologies(rows=rows)))
    for _ in range(data.draw(st.integers(0, 10))):
        reader.step()
    fields = json.loads(reader.state())
    left = oracle.replay(rows, fields["consumed"], fields["cuts"])
    epoch = reader.epoch
    rest = [row for step in reader.run_pass() for batch in step for row in batch]
    assert sorted(rest + reader.dropped[epoch]) == left


@given(st.data(), st.integers(1, 120))
def test_the_pass_of_a_state_is_the_pass_that_led_to_it(data: st.DataObject, rows: int) -> None:
    order = data.draw(orders(rows))
    topology = data.draw(topologies(rows=rows, tails=TAILS, small=True))
    reader = job(rows, topology, order)
    unbroken = job(rows, topology, order).run_pass()
    for _ in range(data.draw(st.integers(0, reader.batches_left - 1))):
        reader.step()
    assert job(rows, topology, order).pass_of(reader.state()) == unbroken


@given(st.data(), st.integers(1, 120))
def test_a_merge_leaves_what_no_rank_was_given(data: st.DataObject, rows: int) -> None:
    topology = data.draw(topologies(rows=rows, tails=TAILS, small=True))
    reader = job(rows, topology)
    states, given_ = [reader.state()], [[] for _ in range(topology.world_size)]
    steps = []
    while reader.batches_left > 1:
        steps.append(reader.step())
        states.append(reader.state())
    dones = [data.draw(st.integers(0, len(steps))) for _ in given_]
    for rank, done in enumerate(dones):
        given_[rank] = [row for step in steps[:done] for row in step[rank]]
    merged = json.loads(oracle.merge([states[done] for done in dones]))
    consumed = Counter(row for rank in given_ for row in rank)
    left = oracle.replay(rows, merged["consumed"], merged["cuts"])
    assert consumed + Counter(left) == Counter(range(rows))
