"""The oracle against numbers worked out by hand from docs/DESIGN.md, and against the laws it stands for.

Whoever doubts the oracle checks these examples with pencil and paper; everything else is tested against the
oracle.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from oracle import OracleJob
from strategies import (
    ROW_NUMBERS,
    TYPES,
    ColumnSpec,
    Dataset,
    DatasetSpec,
    Leg,
    Topology,
    chains,
    dataset_specs,
    datasets,
    one_order,
    plain_spec,
    topologies,
    written,
)


def job(rows: int, topology: Topology) -> OracleJob:
    """Return an oracle job of that topology."""
    return OracleJob(
        rows,
        topology.world_size,
        topology.workers,
        topology.batch_size,
        lanes=topology.lanes,
        groups=topology.groups,
    )


# ---------------------------------------------------------------------------------------- lanes, by hand (§4)


def test_two_ranks_read_a_half_each_and_the_tail_is_dropped() -> None:
    # R = 11, L = 2, c = 2: S = 11 div 4 = 2 slices a lane; lanes [0,4) and [4,8). The tail is 8, 9, 10: fewer
    # than the 4 rows of a global batch, so it is dropped.
    left = list(range(11))
    assert oracle.rank_batches(left, 2, 1, 2, 0, 2) == [[0, 1], [2, 3]]
    assert oracle.rank_batches(left, 2, 1, 2, 1, 2) == [[4, 5], [6, 7]]
    assert oracle.global_batches(left, 2, 1, 2) == [[0, 1, 4, 5], [2, 3, 6, 7]]

    two_ranks = OracleJob(11, world_size=2, workers=0, batch_size=2)
    assert two_ranks.run_pass() == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    assert two_ranks.dropped == {0: [8, 9, 10]}


def test_four_lanes_in_two_groups_alternate_and_the_tail_gives_one_more_batch() -> None:
    # R = 23, L = 4, G = 2, c = 2: S = 23 div 8 = 2; lanes [0,4) [4,8) [8,12) [12,16). Lanes 0 and 2 are in
    # group 0, lanes 1 and 3 in group 1. A global batch has c * L / G = 4 rows. The tail is 16..22: [16,20) is
    # a whole global batch, 20, 21, 22 are not.
    left = list(range(23))
    expected = [[0, 1, 8, 9], [4, 5, 12, 13], [2, 3, 10, 11], [6, 7, 14, 15], [16, 17, 18, 19]]
    assert oracle.global_batches(left, 4, 2, 2) == expected
    # One rank owns all four lanes; of two ranks, rank 0 owns lanes 0 and 1, rank 1 lanes 2 and 3.
    assert oracle.rank_batches(left, 4, 2, 2, 0, 1) == expected
    assert oracle.rank_batches(left, 4, 2, 2, 0, 2) == [[0, 1], [4, 5], [2, 3], [6, 7], [16, 17]]
    assert oracle.rank_batches(left, 4, 2, 2, 1, 2) == [[8, 9], [12, 13], [10, 11], [14, 15], [18, 19]]
    # That is the default of two ranks with two workers: L = W * G = 4.
    assert OracleJob(23, world_size=2, workers=2, batch_size=2).cut == [4, 2, 2]
    assert OracleJob(23, world_size=2, workers=2, batch_size=2).batches_left == 5


def test_one_lane_is_time_order() -> None:
    # lanes=1: batch n is the stretch [6n, 6n + 6), and each of three ranks takes its third of it.
    time_order = OracleJob(14, world_size=3, workers=2, batch_size=2, lanes=1)
    assert time_order.cut == [1, 1, 6]
    assert time_order.run_pass() == [[[0, 1], [2, 3], [4, 5]], [[6, 7], [8, 9], [10, 11]]]
    assert time_order.dropped == {0: [12, 13]}


def test_several_lanes_of_a_rank_make_one_batch() -> None:
    # One rank, L = 3, c = 1: batch_size = c * L / (W * G) = 3. S = 7 div 3 = 2; lanes [0,2) [2,4) [4,6), and
    # 6 is left over.
    assert OracleJob(7, 1, 0, 3, lanes=3).run_pass() == [[[0, 2, 4]], [[1, 3, 5]]]


def test_with_fewer_rows_than_all_lanes_want_everything_is_tail() -> None:
    # R = 5, L = 6, G = 3, c = 1: S = 0; global batches of 2 rows: [0,1] [2,3], and 4 is dropped.
    assert oracle.global_batches(list(range(5)), 6, 3, 1) == [[0, 1], [2, 3]]
    assert oracle.rank_batches(list(range(5)), 6, 3, 1, 1, 2) == [[1], [3]]


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        (Topology(2, 0, 4, lanes=3), "world_size \\* groups = 2 does not divide lanes = 3"),
        (Topology(2, 0, 3, lanes=4), "lanes = 4 does not divide batch_size \\* world_size \\* groups = 6"),
        (Topology(1, 3, 4, groups=4), "workers = 3 does not divide groups = 4"),
        (Topology(3, 0, 40), "100 rows give no batch of 3 ranks x 40 rows"),
        (Topology(1, 0, 0), "world_size 1, batch_size 0: both must be positive"),
        (Topology(1, 2, 4, lanes=1, groups=2), "groups = 2 does not divide lanes = 1"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(topology: Topology, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        job(100, topology)


# --------------------------------------------------------------------------------------- replay, by hand (§5)


def test_replay_walks_cut_after_cut() -> None:
    # 12 rows. Cut [2,1,2,1]: lanes [0,6) [6,12); batch 0 takes 0,1,6,7. Left: 2,3,4,5,8,9,10,11.
    # Cut [3,1,1,1]: S = 8 div 3 = 2; lanes (2,3) (4,5) (8,9); batch 0 takes 2,4,8. Left: 3,5,9,10,11.
    # Cut [1,1,2,1]: batch 0 takes 3,5. Left: 9,10,11.
    assert oracle.replay(12, [], []) == list(range(12))
    assert oracle.replay(12, [], [[2, 1, 2, 1]]) == [2, 3, 4, 5, 8, 9, 10, 11]
    assert oracle.replay(12, [], [[2, 1, 2, 1], [3, 1, 1, 1]]) == [3, 5, 9, 10, 11]
    assert oracle.replay(12, [], [[2, 1, 2, 1], [3, 1, 1, 1], [1, 1, 2, 1]]) == [9, 10, 11]


def test_replay_begins_with_what_no_cut_explains() -> None:
    # Consumed 0..2 and 5..6 of 10: left 3,4,7,8,9. Cut [2,2,1,3]: S = 5 div 2 = 2; lanes (3,4) (7,8), one a
    # group; batches [3] [7] [4] [8] and from the tail [9]. Three done: 8 and 9 are left; five done: nothing.
    assert oracle.replay(10, [(0, 3), (5, 7)], [[2, 2, 1, 3]]) == [8, 9]
    assert oracle.replay(10, [(0, 3), (5, 7)], [[2, 2, 1, 5]]) == []
    with pytest.raises(ValueError, match="6 batches done in a cut that has 5"):
        oracle.replay(10, [(0, 3), (5, 7)], [[2, 2, 1, 6]])


def test_a_cursor_is_this_text() -> None:
    two_ranks = OracleJob(23, 2, 2, 2, fingerprint="5f1c")
    for _ in range(3):
        two_ranks.step()
    # The check is what `gzip` writes for the same text without "check" (CRC-32, here as 8 hex digits).
    assert two_ranks.state() == (
        '{"check":"f409d641","consumed":[],"cuts":[[4,2,2,3]],"dataset":{"fingerprint":"5f1c","rows":23},'
        '"epoch":0,"fastresume":1,"first_epoch":0,"order":{"kind":"sequential"},"selection":null}'
    )


def test_a_check_has_eight_digits() -> None:
    assert oracle.checked({"epoch": 8}) == '{"check":"07b82930","epoch":8}'


def test_the_same_cut_goes_on_where_it_was() -> None:
    # The cut [4,2,2] of 23 rows, written out above: after batch 0 comes batch 1, on one rank as on two.
    two_ranks = OracleJob(23, 2, 2, 2)
    two_ranks.step()
    one_rank = OracleJob(23, 1, 2, 4, lanes=4)
    one_rank.load(two_ranks.state())
    assert one_rank.step() == [[4, 5, 12, 13]]
    assert json.loads(one_rank.state())["cuts"] == [[4, 2, 2, 2]]
    # Another cut divides the 15 rows left anew: 2,3,6,7,10,11,14..22. L = 2, c = 4: S = 1, and a tail of 7.
    other = OracleJob(23, 1, 2, 4)
    other.load(one_rank.state())
    assert other.run_pass() == [[[2, 3, 6, 7]], [[10, 11, 14, 15]], [[16, 17, 18, 19]]]
    assert other.dropped == {0: [20, 21, 22]}


def test_another_cut_of_what_remains_is_appended_and_the_same_cut_goes_on() -> None:
    first = OracleJob(12, 2, 0, 2)
    assert first.step() == [[0, 1], [6, 7]]
    second = OracleJob(12, 3, 0, 1)
    second.load(first.state())
    assert second.state() == first.state()  # a cut with nothing done is dropped
    assert second.step() == [[2], [4], [8]]
    assert json.loads(second.state())["cuts"] == [[2, 1, 2, 1], [3, 1, 1, 1]]
    assert second.steps_done == 2

    third = OracleJob(12, 1, 0, 3, lanes=3)  # another world size, the same cut [3, 1, 1]
    third.load(second.state())
    assert third.step() == [[3, 5, 9]]
    # Of 8 rows two batches of 3 came; 10 and 11 are dropped: the pass is over.
    assert third.dropped == {0: [10, 11]}
    assert json.loads(third.state())["cuts"] == []
    assert json.loads(third.state())["epoch"] == 1


def test_a_first_cut_that_is_come_back_to_is_a_new_cut() -> None:
    # Cut [1,1,2,1] takes 0,1; cut [1,1,3,1] takes 2,3,4; [1,1,2] again is a third cut, and takes 5,6.
    state = OracleJob(20, 1, 0, 2).state()
    for batch_size in (2, 3, 2):
        reader = OracleJob(20, 1, 0, batch_size)
        reader.load(state)
        reader.step()
        state = reader.state()
    assert json.loads(state)["cuts"] == [[1, 1, 2, 1], [1, 1, 3, 1], [1, 1, 2, 1]]


def test_a_rest_that_gives_no_batch_is_a_pass_that_ends_without_one() -> None:
    small = OracleJob(10, 1, 0, 3)
    small.step()
    small.step()
    large = OracleJob(10, 1, 0, 5)
    large.load(small.state())  # 6, 7, 8, 9 are left
    assert large.state() == small.state()
    assert large.batches_left == 0
    assert large.step() is None
    assert large.dropped == {0: [6, 7, 8, 9]}
    assert (large.epoch, json.loads(large.state())["cuts"]) == (1, [])
    assert large.step() == [[0, 1, 2, 3, 4]]


def test_epochs_of_the_job_are_counted_from_the_first() -> None:
    old = OracleJob(4, 1, 0, 2)
    old.run_pass()
    old.run_pass()
    old.step()
    new = OracleJob(4, 1, 0, 2)
    new.load(old.state(), reset_epochs=True)
    assert (new.epoch, new.epochs_done, new.batches_left) == (2, 0, 1)
    assert new.run_pass() == [[[2, 3]]]
    assert (new.epoch, new.first_epoch, new.epochs_done) == (3, 2, 1)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('"rows":23', '"rows":24', "dataset"),
        ('"fastresume":1', '"fastresume":2', "fastresume"),
        ('"sequential"', '"shuffled"', "order"),
        ("[4,2,2,1]", "[4,2,2,2]", "check"),
    ],
)
def test_foreign_or_damaged_state_is_refused(old: str, new: str, named: str) -> None:
    reader = OracleJob(23, 2, 2, 2)
    reader.step()
    assert old in reader.state()
    with pytest.raises(ValueError, match=f"^{named} of the state"):
        OracleJob(23, 2, 2, 2).load(reader.state().replace(old, new))


# ----------------------------------------------------------------------------------------- intervals, by hand


def test_remaining_is_what_was_not_consumed() -> None:
    assert oracle.remaining([], 5) == [(0, 5)]
    assert oracle.remaining([(3, 5), (0, 1), (4, 7)], 10) == [(1, 3), (7, 10)]
    assert oracle.remaining([(0, 10)], 10) == []
    assert oracle.remaining([(2, 2)], 4) == [(0, 4)]  # an empty interval consumes nothing
    assert oracle.remaining([], 0) == []


def test_slices_are_counted_along_the_intervals() -> None:
    # 13 rows: 0..4 and 10..17. In three: cut points 13*1//3 = 4 and 13*2//3 = 8.
    intervals = [(0, 5), (10, 18)]
    assert oracle.slice_intervals(intervals, 0, 3) == [(0, 4)]
    assert oracle.slice_intervals(intervals, 1, 3) == [(4, 5), (10, 13)]
    assert oracle.slice_intervals(intervals, 2, 3) == [(13, 18)]


def test_slices_are_cut_at_multiples_and_the_last_takes_the_rest() -> None:
    # 13 rows hold 3 whole units of 4. In two: 4 * (1 * 3 // 2) = 4, so 4 rows and 9 rows.
    intervals = [(0, 5), (10, 18)]
    assert oracle.slice_intervals(intervals, 0, 2, multiple_of=4) == [(0, 4)]
    assert oracle.slice_intervals(intervals, 1, 2, multiple_of=4) == [(4, 5), (10, 18)]
    # Three units in four slices: the first is empty. No unit at all: the last slice has everything.
    assert [oracle.slice_intervals(intervals, i, 4, 4) for i in (0, 1)] == [[], [(0, 4)]]
    assert [oracle.slice_intervals(intervals, i, 2, 14) for i in (0, 1)] == [[], [(0, 5), (10, 18)]]


def test_offsets_say_what_was_consumed() -> None:
    # Slices began at 0, 40 and 70 of 100 rows; of the one at 70 nothing was consumed.
    offsets = {"/data/*.parquet:0": 9, "/data/*.parquet:40": 54, "/data/*.parquet:70": 69}
    assert oracle.offsets_consumed(offsets, 100) == (0, [(0, 10), (40, 55)])
    # The rows before the smallest key remain: no slice that covers them was heard of.
    assert oracle.offsets_consumed({"hdfs://host:9000/a:40": 54}, 100) == (0, [(40, 55)])
    assert oracle.offsets_consumed({"a:0": 54, "a:40": 59, "version": "x"}, 100) == (0, [(0, 60)])
    assert oracle.offsets_consumed({"a:0": 49, "a:50": 99, "__epochs_completed__": 2}, 100) == (3, [])
    assert oracle.offsets_consumed({}, 100) == (0, [])


@pytest.mark.parametrize(
    "offsets",
    [
        {"a:0": 100},
        {"a:5": 3},
        {"a:0": -2},
        {"a:0": "9"},
        {"a:0": 9.0},
        {"a:0": True},
        {"a:x": 9},
        {"a:-1": 9},
    ],
)
def test_offsets_that_are_no_rows_are_refused_by_name(offsets: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(offsets))):
        oracle.offsets_consumed(offsets, 100)


# --------------------------------------------------------------------------------------------- files, by hand


def test_files_are_ordered_by_the_bytes_of_their_paths(tmp_path: Path) -> None:
    # '-' is 0x2d, '.' 0x2e, '/' 0x2f, digits 0x3., capitals before small letters, then UTF-8.
    names = ["Z.parquet", "a-b/x.parquet", "a.parquet", "a/x.parquet", "a1.parquet", "é.parquet"]
    for name in reversed(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    named = [tmp_path / name for name in names]
    assert oracle.canonical_files(tmp_path) == named
    assert oracle.canonical_files(named[::-1]) == named


def test_files_that_nobody_meant_are_left_out(tmp_path: Path) -> None:
    meant = "a.parquet"
    for name in ("_SUCCESS", "a.parquet.crc", ".a.parquet", "_tmp.parquet", "_tmp/b.parquet", "a.txt", meant):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "x.parquet").mkdir()
    assert oracle.canonical_files(tmp_path) == [tmp_path / meant]
    assert oracle.canonical_files(str(tmp_path / "_tmp.parquet")) == [tmp_path / "_tmp.parquet"]
    with pytest.raises(ValueError, match="the same file twice"):
        oracle.canonical_files([tmp_path, tmp_path / meant])


def test_rows_are_numbered_through_empty_files_and_groups(small_dataset: Dataset) -> None:
    table = oracle.read_table(small_dataset.directory)
    assert table[ROW_NUMBERS].tolist() == list(range(103))
    assert oracle.canonical_files(small_dataset.directory) == list(small_dataset.files)
    assert {name: str(values.dtype) for name, values in table.items()} == {
        "row": "int64",
        "label": "bool",
        "i_1": "float32",
        "i_2": "float32",
        "c_1": "int64",
        "c_2": "int64",
        "at": "int64",
    }


def test_zero_row_groups_are_really_written(write_dataset: Callable[[DatasetSpec], Dataset]) -> None:
    metadata = pq.read_metadata(write_dataset(plain_spec([3, 0, 2])).files[0])
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [3, 0, 2]


# --------------------------------------------------------------------------------------- files, as strategies


@given(dataset_specs())
def test_drawn_files_hold_what_the_spec_says(spec: DatasetSpec) -> None:
    with written(spec) as dataset:
        assert dataset.num_rows == spec.num_rows
        assert oracle.canonical_files(dataset.directory) == list(dataset.files)
        table = oracle.read_table(dataset.directory)
        assert table[ROW_NUMBERS].tolist() == list(range(spec.num_rows))
        assert list(table) == dataset.schema.names


@given(dataset_specs())
def test_a_spec_is_written_the_same_everywhere(spec: DatasetSpec) -> None:
    with written(spec) as one, written(spec) as other:
        assert oracle.same_values(oracle.read_table(one.files), oracle.read_table(other.directory))
        for left, right in zip(one.files, other.files, strict=True):
            assert left.read_bytes() == right.read_bytes()


@given(st.data())
def test_datasets_can_be_drawn_onto_disk(dataset_root: Path, data: st.DataObject) -> None:
    dataset = data.draw(datasets(dataset_root, dataset_specs(min_rows=1)))
    assert dataset.directory.parent == dataset_root
    assert sum(pq.read_metadata(file).num_rows for file in dataset.files) == dataset.num_rows >= 1


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("fill", ["count", "bits", "extremes"])
def test_values_come_back_byte_for_byte(
    write_dataset: Callable[[DatasetSpec], Dataset], type_: str, fill: str
) -> None:
    column = ColumnSpec("c", type_, fill=fill)
    stored = oracle.read_table(write_dataset(plain_spec([50], columns=[column])).directory)["c"]
    given_ = column.values(0, 50)
    if type_ in ("timestamp[s]", "date64"):  # the file holds milliseconds, and days
        given_ = given_.cast({"timestamp[s]": "timestamp[ms]", "date64": "date32"}[type_])
    expected = given_.to_numpy(zero_copy_only=False)
    if expected.dtype.kind == "M":
        expected = expected.view(np.int64)
    assert stored.dtype == expected.dtype
    assert stored.tobytes() == expected.tobytes()


# ------------------------------------------------------------------------------------------ the oracle's laws


@given(st.data(), st.integers(1, 200))
def test_law_1_a_pass_delivers_each_row_once_or_drops_it(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(topologies(rows=rows)))
    delivered = [position for step in reader.run_pass() for batch in step for position in batch]
    assert sorted(delivered + reader.dropped[0]) == list(range(rows))
    assert len(reader.dropped[0]) < reader.world_size * reader.batch_size


@given(st.data(), st.integers(1, 120))
def test_law_2_a_loaded_cursor_goes_on_as_if_nothing_had_happened(data: st.DataObject, rows: int) -> None:
    topology = data.draw(topologies(rows=rows))
    unbroken, states = job(rows, topology), []
    states.append(unbroken.state())
    steps = []
    while unbroken.epoch < 2:
        steps.append(unbroken.step())
        states.append(unbroken.state())
    k = data.draw(st.integers(0, len(steps)))
    resumed = job(rows, topology)
    resumed.load(states[k])
    assert [resumed.step() for _ in steps[k:]] == steps[k:]
    assert resumed.state() == states[-1]


@given(st.data(), st.integers(1, 200))
def test_law_3_no_chain_of_topologies_loses_or_repeats_a_row(data: st.DataObject, rows: int) -> None:
    legs = data.draw(chains(rows))
    seen: dict[int, Counter[int]] = {}
    dropped: dict[int, list[int]] = {}

    def keep(reader: OracleJob, leg: Leg, steps: int) -> None:
        for _ in range(steps):
            epoch = reader.epoch
            for batch in reader.step() or []:
                assert len(batch) == leg.topology.batch_size
                seen.setdefault(epoch, Counter()).update(batch)
        dropped.update(reader.dropped)

    state = None
    for leg in legs:
        reader = job(rows, leg.topology)
        if state is not None:
            reader.load(state)
        keep(reader, leg, leg.kept)
        state = reader.state()
        for _ in range(leg.lost):  # after the cursor that was saved: the next life reads them again
            reader.step()
    assert state is not None
    last = job(rows, legs[-1].topology)
    last.load(state)
    epoch = last.epoch
    while last.epoch == epoch:
        keep(last, legs[-1], 1)
    for epoch in range(last.epoch):
        assert seen.get(epoch, Counter()) + Counter(dropped[epoch]) == Counter(range(rows))


@given(st.data(), st.integers(1, 120))
def test_law_4_world_size_and_workers_do_not_change_the_order(data: st.DataObject, rows: int) -> None:
    runs = [job(rows, topology).run_pass() for topology in data.draw(one_order(rows=rows))]
    orders = [[[position for batch in step for position in batch] for step in run] for run in runs]
    assert all(order == orders[0] for order in orders)


@given(st.data(), st.integers(1, 120))
def test_law_7_a_finished_pass_is_the_next_pass_at_zero(data: st.DataObject, rows: int) -> None:
    topology = data.draw(topologies(rows=rows))
    reader = job(rows, topology)
    first = reader.run_pass()
    fields = json.loads(reader.state())
    assert (fields["epoch"], fields["consumed"], fields["cuts"]) == (1, [], [])
    fresh = job(rows, topology)
    fresh.load(reader.state())
    assert fresh.run_pass() == first == reader.run_pass()


@given(st.data(), st.integers(1, 200))
def test_law_8_every_rank_gets_the_same_number_of_full_batches(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(topologies(rows=rows)))
    for _ in range(data.draw(st.integers(0, 3))):
        reader.step()
    expected = reader.batches_left
    steps = reader.run_pass()
    assert len(steps) == expected
    for step in steps:
        assert [len(batch) for batch in step] == [reader.batch_size] * reader.world_size


@given(st.data(), st.integers(1, 200))
def test_the_ranks_batches_joined_are_the_global_batches(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(topologies(rows=rows)))
    joined = [[position for batch in step for position in batch] for step in reader.run_pass()]
    assert joined == oracle.global_batches(list(range(rows)), *reader.cut)


@given(st.data(), st.integers(1, 120))
def test_the_cursor_tells_what_is_left(data: st.DataObject, rows: int) -> None:
    reader = job(rows, data.draw(topologies(rows=rows)))
    for _ in range(data.draw(st.integers(0, 10))):
        reader.step()
    fields = json.loads(reader.state())
    left = oracle.replay(rows, fields["consumed"], fields["cuts"])
    epoch = reader.epoch
    rest = [position for step in reader.run_pass() for batch in step for position in batch]
    assert sorted(rest + reader.dropped[epoch]) == left


ends = st.tuples(st.integers(0, 60), st.integers(0, 60))
intervals = st.lists(ends.map(lambda pair: (min(pair), max(pair))))


@given(intervals, st.integers(1, 7), st.integers(1, 9))
def test_slices_are_a_partition_cut_at_multiples(
    drawn: list[oracle.Interval], count: int, multiple_of: int
) -> None:
    slices = [oracle.slice_intervals(drawn, i, count, multiple_of) for i in range(count)]
    lengths = [len(oracle.positions_of(slice_)) for slice_ in slices]
    joined = [position for slice_ in slices for position in oracle.positions_of(slice_)]
    assert joined == oracle.positions_of(drawn)
    assert all(length % multiple_of == 0 for length in lengths[:-1])
    assert max(lengths[:-1], default=0) - min(lengths[:-1], default=0) <= multiple_of


@given(intervals, st.integers(0, 60))
def test_consumed_and_remaining_are_all_rows_once(drawn: list[oracle.Interval], total: int) -> None:
    inside = [position for position in oracle.positions_of(drawn) if position < total]
    left = oracle.remaining(drawn, total)
    assert sorted(inside + oracle.positions_of(left)) == list(range(total))
    assert left == oracle.intervals_of(oracle.positions_of(left))
