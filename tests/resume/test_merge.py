"""States of ranks that are out of step are merged into one; and what a cursor tells of what is left."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.each_of import each_of
from support.jobs import FEWER, Job, fields_of, make, oracle_job, parallel, rows_of, text_of
from support.strategies import Dataset, DatasetSpec, dataset_specs, plain_spec, written
from support.topologies import RANKS, TAILS, Shuffle, chains, orders, topologies

Write = Callable[[DatasetSpec], Dataset]

SHUFFLE = Shuffle(17, 20, 45)


def cursor_of(text: str) -> fr.Cursor:
    """The cursor of a state's text."""
    return fr.Cursor.from_state({"fastresume": text})


def states_of(job: oracle.OracleJob, steps: int) -> list[str]:
    """The states of a job before so many steps and after each of them."""
    states = [job.state()]
    for _ in range(steps):
        job.step()
        states.append(job.state())
    return states


# ----------------------------------------------------------------------------------------- against the oracle


@pytest.mark.law(3)
@given(rows=st.integers(1, 90), data=st.data())
def test_a_merge_is_the_oracles(rows: int, data: st.DataObject) -> None:
    """Of any ranks, workers and lanes, in the first cut of a pass or a later one, in any epoch."""
    shuffle = data.draw(orders(rows))
    any_topology = topologies(rows=rows, world_sizes=RANKS, tails=TAILS, small=True)
    state = None
    for leg in data.draw(chains(rows, max_legs=3, tails=TAILS, small=True)):
        job = oracle_job(rows, leg.topology, "0" * 32, shuffle)
        if state is not None:
            job.load(state)
        state = states_of(job, leg.kept)[-1]
    job = oracle_job(rows, data.draw(any_topology), "0" * 32, shuffle)
    if state is not None:
        job.load(state)
    assume(job.batches_left > 0)
    states = states_of(job, job.batches_left - 1)
    drawn = [data.draw(st.sampled_from(states)) for _ in range(job.world_size)]
    expected = oracle.merge(drawn)
    how = {"world_size": job.world_size}
    merged = fr.Cursor.merge([cursor_of(text) for text in drawn], **how)
    assert text_of(merged.to_state()) == expected
    # States as they are, and as parsed JSON; by their ranks, in any order.
    assert fr.Cursor.merge([{"fastresume": text} for text in drawn], **how) == merged
    assert fr.Cursor.merge([json.loads(text) for text in drawn], **how) == merged
    by_rank = [(rank, {"fastresume": text}) for rank, text in enumerate(drawn)]
    assert fr.Cursor.merge(dict(data.draw(st.permutations(by_rank))), **how) == merged


@pytest.mark.law(3)
@FEWER
@given(rows=st.integers(2, 80), data=st.data())
def test_ranks_out_of_step_lose_and_repeat_nothing(rows: int, data: st.DataObject) -> None:
    """As in inference: every rank goes at its own pace, all die, and others go on with what is left."""
    shuffle = data.draw(orders(rows))
    topology = data.draw(topologies(rows=rows, workers=st.just(0), small=True))
    order = {} if shuffle is None else shuffle.arguments
    with written(plain_spec([rows // 3, rows - rows // 3])) as files:
        delivered = Counter[int]()
        states = []
        for rank in range(topology.world_size):
            dataset = make(files, **topology.arguments, **order, **parallel(rank, topology.world_size))
            done = data.draw(st.integers(0, len(dataset) - 1))
            for batch in itertools.islice(dataset, done):
                delivered.update(batch.rows().tolist())
            states.append(dataset.state_dict())
        merged = fr.Cursor.merge(states, topology.world_size)
        assert merged.consumed_rows == delivered.total()
        after = data.draw(topologies(rows=rows, workers=st.just(0), tails=("pad",)))
        job = Job(files, after, shuffle=shuffle, state=merged.to_state())
        while job.oracle.epoch == 0:
            job.step()
            delivered.update(job.counted)
        assert delivered == Counter(range(rows))


# --------------------------------------------------------------------------------------------------- by hand


def test_each_rank_counts_for_its_own_lanes_alone(small_dataset: Dataset) -> None:
    # Two ranks, lanes [0, 51) and [51, 102) less what does not fill a slice: S = 103 div 20 = 5 slices of 10.
    ranks = [list(make(small_dataset, 10, **parallel(rank, 2))) for rank in range(2)]
    assert ranks[0][0].rows()[0] == 0
    assert ranks[1][0].rows()[0] == 50
    merged = fr.Cursor.merge([ranks[0][2].state_dict(), ranks[1][0].state_dict()])
    fields = fields_of(merged.to_state())
    assert (fields["consumed"], fields["cuts"]) == ([[0, 30], [50, 60]], [])
    assert merged.consumed_rows == 40
    assert merged.remaining().tolist() == [[30, 50], [60, 103]]


def test_a_rank_that_has_done_nothing_of_the_last_cut_has_no_such_cut(small_dataset: Dataset) -> None:
    start = next(iter(make(small_dataset, 3))).state_dict()
    ranks = [make(small_dataset, 10, **parallel(rank, 2)) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(start)
    # Where no rank has begun, the cut is that of the job before: of one lane, here.
    with pytest.raises(fr.StateError, match="pass world_size="):
        fr.Cursor.merge([start, start])
    assert fr.Cursor.merge([start, start], world_size=2).to_state() == start
    states = [next(iter(ranks[0])).state_dict(), ranks[1].state_dict()]
    assert [len(fields_of(state)["cuts"]) for state in states] == [2, 1]
    assert fields_of(fr.Cursor.merge(states).to_state())["consumed"] == [[0, 13]]
    states = [ranks[0].state_dict(), next(iter(ranks[1])).state_dict()]
    states[0] = start
    assert fields_of(fr.Cursor.merge(states).to_state())["consumed"] == [[0, 3], [53, 63]]


def test_equal_states_give_that_state(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 10, **parallel(0, 2), **SHUFFLE.arguments)
    states = [dataset.state_dict(), *(batch.state_dict() for batch in dataset), dataset.state_dict()]
    for state in states:  # before the first batch, in mid pass, and after the last one
        assert fr.Cursor.merge([state, state], world_size=2).to_state() == state
    for state in states[:-2]:
        assert fr.Cursor.merge([state, state]).to_state() == state


def test_all_that_is_left_is_delivered_after_a_merge(small_dataset: Dataset) -> None:
    states = []
    for rank, done in enumerate((4, 1)):
        dataset = make(small_dataset, 10, **parallel(rank, 2), **SHUFFLE.arguments)
        states += [list(itertools.islice(dataset, done))[-1].state_dict()]
    dataset = make(small_dataset, 7, tail="short", **SHUFFLE.arguments)
    loader = fr.Loader(dataset, threads=2)
    loader.load_state_dict(fr.Cursor.merge(states))
    order = oracle.order_rows(oracle.group_rows_of(small_dataset.directory), *(17, 0, 20, 45))
    gone = {order[position] for position in (*range(40), *range(50, 60))}
    assert sorted(row for rows in rows_of(loader) for row in rows) == sorted(set(range(103)) - gone)
    assert loader.epoch == 1


def test_merging_takes_no_part_in_its_arguments(small_dataset: Dataset) -> None:
    batches = list(make(small_dataset, 10, **parallel(0, 2)))
    states = [batches[2].state_dict(), batches[1].state_dict()]
    copies = [dict(state) for state in states]
    fr.Cursor.merge(states)
    fr.Cursor.merge(tuple(states))
    assert states == copies


# -------------------------------------------------------------------------------------------- what is refused


def states_of_ranks(data: Dataset, done: list[int], **how: Any) -> list[dict[str, str]]:
    """The states of ranks that have come so far."""
    states = []
    for rank, batches in enumerate(done):
        dataset = make(data, 2, **how, **parallel(rank, len(done)))
        assert len(list(itertools.islice(dataset, batches))) == batches
        states.append(dataset.state_dict())
    return states


@pytest.mark.law(3)
@each_of("done", [[3, 1, 4, 2], [2, 2, 2, 1], [1, 0, 0, 0]])
@each_of("how", [{}, SHUFFLE.arguments, {"tail": "pad"}, {"lanes": 8, "groups": 2}])
def test_the_states_of_some_ranks_are_never_taken_for_all(
    small_dataset: Dataset, done: list[int], how: dict[str, Any]
) -> None:
    """What the others were to read would never be delivered, even where the states given are equal."""
    states = states_of_ranks(small_dataset, done, **how)
    assert fr.Cursor.merge(states).consumed_rows == 2 * sum(done)
    for count in range(1, 4):
        missing = "that of rank 3 is" if count == 3 else f"those of ranks {count} to 3 are"
        if any(done[:count]):  # else nothing of these states is consumed, and nothing lost
            with pytest.raises(fr.StateError, match=f"{count} states .* a job of 4 ranks: {missing} lacking"):
                fr.Cursor.merge(states[:count])
        with pytest.raises(fr.StateError, match=missing):
            fr.Cursor.merge(states[:count], world_size=4)
    with pytest.raises(fr.StateError, match=r"5 states .* 4 ranks: there are only ranks 0 to 3"):
        fr.Cursor.merge([*states, states[0]])


@pytest.mark.law(3)
def test_by_their_ranks_states_come_in_any_order_and_the_lacking_one_is_named(small_dataset: Dataset) -> None:
    """A list of files sorted by name has rank-10 before rank-2, and nothing in a state tells."""
    states = dict(enumerate(states_of_ranks(small_dataset, [3, 1, 4, 2])))
    merged = fr.Cursor.merge(list(states.values()))
    assert fr.Cursor.merge(dict(sorted(states.items(), reverse=True))) == merged
    numpys = {np.int64(rank): fr.Cursor.from_state(state) for rank, state in states.items()}
    assert fr.Cursor.merge(numpys) == merged
    for rank in states:
        rest = {other: state for other, state in states.items() if other != rank}
        with pytest.raises(fr.StateError, match=f"3 states .* that of rank {rank} is lacking"):
            fr.Cursor.merge(rest)
        with pytest.raises(fr.StateError, match=f"that of rank {rank} is lacking"):
            fr.Cursor.merge(rest, world_size=4)
    with pytest.raises(fr.StateError, match="there is no rank -1"):
        fr.Cursor.merge({-1: states[0], 0: states[1]})
    with pytest.raises(fr.StateError, match=r"5 states .* of a job of 6 ranks: that of rank 4 is lacking"):
        fr.Cursor.merge({**states, 5: states[0]}, world_size=4)


@pytest.mark.law(3)
def test_where_states_do_not_tell_of_how_many_ranks_they_are_it_must_be_said(small_dataset: Dataset) -> None:
    time_order = states_of_ranks(small_dataset, [3, 1, 4, 2], lanes=1)
    between = states_of_ranks(small_dataset, [12, 12, 12, 12])
    assert {fr.Cursor.from_state(state).epoch for state in between} == {1}
    for states in (time_order, between):
        for some in (states[:1], states[:2], states):
            with pytest.raises(fr.StateError, match=r"pass world_size=, the number of ranks"):
                fr.Cursor.merge(some)
        with pytest.raises(fr.StateError, match="that of rank 3 is lacking"):
            fr.Cursor.merge(states[:3], world_size=4)
        fr.Cursor.merge(states, world_size=4)
    named = states_of_ranks(small_dataset, [3, 1], lanes=4)
    with pytest.raises(fr.StateError, match=r"those of ranks 2 to 3 are lacking, if lanes= was not named"):
        fr.Cursor.merge(named)
    assert fr.Cursor.merge(named, world_size=2).consumed_rows == 8
    for wrong in (0, -1, 1.5, True, "2"):
        with pytest.raises((TypeError, ValueError), match="world_size must be"):
            fr.Cursor.merge(named, world_size=wrong)  # type: ignore[arg-type]


def altered(state: dict[str, str], **fields: Any) -> dict[str, str]:
    """The state with other fields, and the checksum that belongs to them."""
    return {"fastresume": oracle.checked({**fields_of(state), **fields})}


@pytest.mark.law(9)
@each_of(
    ("fields", "both"),
    [
        ({"dataset": {"fingerprint": "0" * 32, "rows": 103}}, ["0" * 32]),
        ({"dataset": {"fingerprint": None, "rows": 104}}, ["103", "104"]),
        ({"order": {"kind": "sequential"}}, ["sequential", "shuffled"]),
        ({"order": {"kind": "shuffled", "seed": 18, "block_rows": 20, "window_rows": 45}}, ["17", "18"]),
        ({"order": {"kind": "shuffled", "seed": 17, "block_rows": 19, "window_rows": 45}}, ["20", "19"]),
        ({"order": {"kind": "shuffled", "seed": 17, "block_rows": 20, "window_rows": 46}}, ["45", "46"]),
        ({"epoch": 4, "first_epoch": 0}, ["epoch", "3", "4"]),
        ({"epoch": 4, "cuts": []}, ["epoch", "3", "4"]),
        ({"first_epoch": 1}, ["0", "1"]),
        ({"earlier_batches": 4}, ["earlier_batches", "0", "4"]),
        ({"cuts": [[2, 1, 5, 2]]}, ["10", "5"]),
        ({"cuts": [[4, 2, 10, 2]]}, ["4"]),
        ({"cuts": [[2, 1, 10, 2], [3, 1, 5, 1]]}, ["3", "5"]),
        ({"cuts": [[3, 1, 5, 1], [2, 1, 10, 2]]}, ["3", "5"]),
        ({"cuts": [], "consumed": [[0, 7]]}, []),
    ],
)
def test_states_of_different_jobs_are_refused_and_both_values_named(
    small_dataset: Dataset, fields: dict[str, Any], both: list[str]
) -> None:
    dataset = make(small_dataset, 10, **parallel(0, 2), **SHUFFLE.arguments)
    start = altered(dataset.state_dict(), epoch=3)
    dataset.load_state_dict(start)
    state = [batch.state_dict() for batch in itertools.islice(dataset, 3)][-1]
    assert fields_of(state)["cuts"] == [[2, 1, 10, 3]]
    if fields.get("dataset", {}).get("fingerprint", "") is None:
        fields = {"dataset": {"fingerprint": dataset.fingerprint, "rows": 104}}
    other = altered(state, **fields)
    for states in ([state, other], [other, state], [state, state, other], [state, other, state]):
        with pytest.raises(fr.StateError) as caught:
            fr.Cursor.merge(states)
        for word in both:
            assert word in str(caught.value)


@pytest.mark.law(9)
@each_of(
    ("how", "ranks"),
    [({"lanes": 4}, 3), ({"lanes": 4, "groups": 2}, 4), ({"lanes": 1}, 3), ({"lanes": 1}, 16), ({}, 3)],
)
def test_more_or_fewer_states_than_can_share_the_cut_are_refused(
    small_dataset: Dataset, how: dict[str, int], ranks: int
) -> None:
    batches = list(make(small_dataset, 4, tail="pad", **how))
    states = [batches[0].state_dict(), batches[1].state_dict()] * ranks
    for world_size in (None, ranks):
        with pytest.raises(fr.StateError) as caught:
            fr.Cursor.merge(states[:ranks], world_size)
        assert str(ranks) in str(caught.value)


@pytest.mark.law(9)
def test_a_rank_that_finished_the_pass_is_in_another_epoch(small_dataset: Dataset) -> None:
    batches = list(make(small_dataset, 10, **parallel(0, 2)))
    with pytest.raises(fr.StateError, match=r"(?s)epoch.*0.*1|epoch.*1.*0"):
        fr.Cursor.merge([batches[-1].state_dict(), batches[-2].state_dict()])


def test_no_states_and_what_is_no_list_of_states_are_refused(small_dataset: Dataset) -> None:
    state = make(small_dataset).state_dict()
    with pytest.raises(ValueError, match="state"):
        fr.Cursor.merge([])
    for one in (state, fr.Cursor.from_state(state)):
        with pytest.raises(TypeError, match="states_in_rank_order"):
            fr.Cursor.merge(one)
    for damaged in ({}, None, {"fastresume": "{}"}, "x"):
        with pytest.raises(fr.StateError):
            fr.Cursor.merge([state, damaged])


# --------------------------------------------------------------------------------- progress and what is left


@given(rows=st.integers(1, 80), data=st.data())
def test_progress_is_the_share_of_the_pass(rows: int, data: st.DataObject) -> None:
    shuffle = data.draw(orders(rows))
    job = oracle_job(rows, data.draw(topologies(rows=rows, tails=TAILS)), "0" * 32, shuffle)
    for _ in range(data.draw(st.integers(0, 20))):
        job.step()
    cursor = cursor_of(job.state())
    left = len(oracle.replay(rows, job.consumed, job.cuts))
    assert type(cursor.progress()) is float
    assert cursor.progress() == (rows - left) / rows
    assert 0.0 <= cursor.progress() < 1.0


@pytest.mark.law(1)
@given(spec=dataset_specs(min_rows=1, max_columns=0), data=st.data())
def test_what_is_left_is_told_by_file_and_row_group(spec: DatasetSpec, data: st.DataObject) -> None:
    shuffle = data.draw(orders(spec.num_rows))
    topology = data.draw(topologies(rows=spec.num_rows, tails=TAILS, workers=st.just(0)))
    order = {} if shuffle is None else shuffle.arguments
    with written(spec) as files:
        dataset = make(files, **topology.arguments, **order, **parallel(0, topology.world_size))
        groups = oracle.group_rows_of(files.directory)
        job = oracle_job(spec.num_rows, topology, dataset.fingerprint, shuffle, groups)
        for _ in range(data.draw(st.integers(0, 6))):
            job.step()
        cursor = cursor_of(job.state())
        found = cursor.remaining(dataset)
        numbers = rows_told(found, files)
        positions = oracle.replay(spec.num_rows, job.consumed, job.cuts)
        assert numbers == sorted(job._rows_at(positions))
        assert [tuple(pair) for pair in cursor.remaining().tolist()] == oracle.intervals_of(positions)
        assert cursor.remaining(dataset=dataset)[0][:2] == found[0][:2]


def rows_told(found: list[tuple[str, int, np.ndarray]], files: Dataset) -> list[int]:
    """The row numbers that (path, row group, rows) tell; each must be told in canonical form."""
    starts = {}
    row = 0
    for file in files.files:
        for group, rows in enumerate(oracle.group_rows_of(file)):
            starts[str(file), group] = (row, rows)
            row += rows
    numbers: list[int] = []
    for path, group, intervals in found:
        start, rows = starts[path, group]
        assert intervals.dtype == np.int64
        assert len(intervals) > 0  # row groups with nothing left are not told
        pairs = [tuple(pair) for pair in intervals.tolist()]
        assert pairs == oracle.intervals_of(oracle.positions_of(pairs))
        assert 0 <= pairs[0][0] < pairs[-1][1] <= rows
        numbers += [start + row for row in oracle.positions_of(pairs)]
    assert numbers == sorted(set(numbers))
    assert len({(path, group) for path, group, _ in found}) == len(found)
    return numbers


def test_what_is_left_by_hand(small_dataset: Dataset) -> None:
    # Row groups of 40, 0 and 13 rows, a file without any, then 17 and 33.
    batches = list(make(small_dataset, 25, tail="pad"))
    first, last = (str(small_dataset.files[i]) for i in (0, 2))
    found = batches[1].cursor.remaining(make(small_dataset))
    assert [(path, group, rows.tolist()) for path, group, rows in found] == [
        (first, 2, [[10, 13]]),
        (last, 0, [[0, 17]]),
        (last, 1, [[0, 33]]),
    ]
    ((path, group, rows),) = batches[3].cursor.remaining(make(small_dataset))
    assert (path, group, rows.tolist()) == (last, 1, [[30, 33]])


@pytest.mark.law(9)
def test_what_is_left_of_another_dataset_or_order_is_refused(
    small_dataset: Dataset, write_dataset: Write
) -> None:
    cursor = next(iter(make(small_dataset))).cursor
    for other in (make(write_dataset(plain_spec([40]))), make(small_dataset, **SHUFFLE.arguments)):
        with pytest.raises(fr.StateError):
            cursor.remaining(other)


def test_states_whose_ranks_json_made_texts_say_so_and_are_not_shown(small_dataset: Dataset) -> None:
    state = fr.ParquetDataset(small_dataset.directory, batch_size=4, world=(0, 1)).state_dict()
    kept = json.loads(json.dumps({0: state, 1: state}))
    with pytest.raises(TypeError, match="has texts as keys, as JSON makes them of ranks: write") as told:
        fr.Cursor.merge(kept, world_size=2)
    assert len(str(told.value)) < 200
    loaded: Any = [state, state]
    with pytest.raises(fr.StateError, match=r"2 in a list: pass one, or Cursor\.merge") as refused:
        fr.Cursor.from_state(loaded)
    assert len(str(refused.value)) < 300
    text: Any = state["fastresume"].encode()
    with pytest.raises(fr.StateError, match=r"write {'fastresume': text\.decode\(\)}"):
        fr.Cursor.from_state(text)
