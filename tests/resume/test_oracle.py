"""The oracle against numbers worked out by hand from docs/DESIGN.md.

Whoever doubts the oracle checks these examples with pencil and paper; everything else is tested against the
oracle. Its shuffled order, its intervals and its laws are in test_oracle_*.py.
"""

from __future__ import annotations

import json

import pytest

from support import oracle
from support.each_of import each_of
from support.oracle import OracleJob
from support.topologies import Topology

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


@each_of(
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
    how = {"lanes": topology.lanes, "groups": topology.groups}
    with pytest.raises(ValueError, match=message):
        OracleJob(100, topology.world_size, topology.workers, topology.batch_size, **how)


# ---------------------------------------------------------------------------------------- tails, by hand (§4)


@each_of(
    ("rest", "ranks", "size", "tail", "step", "dropped"),
    [
        ([20, 21, 22], 2, 2, "drop", None, [20, 21, 22]),
        ([20, 21, 22], 2, 2, "short", [[20], [21, 22]], []),  # 3 div 2 = 1
        ([20, 21, 22], 2, 2, "pad", [[20, 21], [22, 20]], []),
        ([5, 6], 3, 4, "drop", None, [5, 6]),
        ([5, 6], 3, 4, "short", None, [5, 6]),  # fewer rows than ranks
        ([5, 6], 3, 4, "pad", [[5, 6, 5, 6]] * 3, []),
        ([5, 6, 7], 3, 4, "short", [[5], [6], [7]], []),
        ([1, 2, 3, 4, 5, 6, 7], 4, 2, "short", [[1], [2, 3], [4, 5], [6, 7]], []),
        ([9], 2, 3, "pad", [[9, 9, 9], [9, 9, 9]], []),
        ([], 2, 2, "drop", None, []),
        ([], 2, 2, "short", None, []),
        ([], 2, 2, "pad", None, []),
    ],
)
def test_what_becomes_of_a_rest(
    rest: list[int], ranks: int, size: int, tail: str, step: list[list[int]] | None, dropped: list[int]
) -> None:
    last = oracle.last_part(rest, ranks, size, tail)
    assert (last.step, last.dropped) == (step, dropped)


def test_a_rest_is_valid_once() -> None:
    assert oracle.last_part([20, 21, 22], 2, 2, "pad").valid == [[True, True], [True, False]]
    assert oracle.last_part([5, 6], 3, 2, "pad").valid == [[True, True], [False, False], [False, False]]
    assert oracle.last_part([20, 21, 22], 2, 2, "short").valid == [[True], [True, True]]
    assert oracle.last_part([20, 21, 22], 2, 2, "drop").valid is None


def test_a_rest_is_less_than_a_global_batch_and_a_policy_has_a_name() -> None:
    with pytest.raises(ValueError, match="4 rows is a whole global batch of 4"):
        oracle.last_part([1, 2, 3, 4], 2, 2, "pad")
    with pytest.raises(ValueError, match="tail='keep'"):
        oracle.last_part([1], 2, 2, "keep")


def test_a_padded_pass_by_hand() -> None:
    # 23 rows, two ranks with two workers, as above: five whole global batches, and 20, 21, 22.
    padded = OracleJob(23, 2, 2, 2, tail="pad")
    assert padded.batches_left == 6
    for _ in range(5):
        padded.step()
        assert padded.valid == [[True, True], [True, True]]
    # All whole batches are done, a rest is left: a state in mid pass.
    assert json.loads(padded.state())["cuts"] == [[4, 2, 2, 5]]
    assert (padded.batches_left, padded.epoch, padded.rest) == (1, 0, 3)
    state = padded.state()
    assert padded.step() == [[20, 21], [22, 20]]
    assert padded.valid == [[True, True], [True, False]]
    assert (padded.epoch, json.loads(padded.state())["cuts"]) == (1, [])
    assert (padded.dropped, padded.padded) == ({0: []}, {0: [0, 1]})

    short = OracleJob(23, 2, 2, 2, tail="short")
    short.load(state)
    assert short.step() == [[20], [21, 22]]
    assert (short.dropped, short.padded) == ({0: []}, {0: [0, 0]})

    dropping = OracleJob(23, 2, 2, 2)
    dropping.load(state)
    assert (dropping.state(), dropping.batches_left) == (state, 0)
    assert dropping.step() is None
    assert dropping.dropped == {0: [20, 21, 22]}

    more_ranks = OracleJob(23, 4, 0, 1, tail="short")
    more_ranks.load(state)
    assert (more_ranks.batches_left, more_ranks.step(), more_ranks.dropped) == (0, None, {0: [20, 21, 22]})


def test_a_pass_that_is_one_padded_batch() -> None:
    small = OracleJob(3, 2, 0, 4, tail="pad")
    assert small.run_pass() == [[[0, 1, 2, 0], [1, 2, 0, 1]]]
    assert small.padded == {0: [1, 4]}
    assert OracleJob(3, 3, 0, 4, tail="short").run_pass() == [[[0], [1], [2]]]


@each_of(("rows", "ranks", "tail"), [(7, 2, "drop"), (1, 2, "short"), (0, 1, "short"), (0, 1, "pad")])
def test_a_dataset_from_which_no_batch_would_come_is_refused(rows: int, ranks: int, tail: str) -> None:
    with pytest.raises(ValueError, match=f"{rows} rows give no batch"):
        OracleJob(rows, ranks, 0, 4, tail=tail)


def test_all_rows_done_is_no_state_of_a_pass() -> None:
    fields = json.loads(OracleJob(20, 1, 0, 5).state())
    for cuts, message in (([[1, 1, 5, 4]], "4 batches done"), ([[1, 1, 3, 7]], "7 batches done")):
        with pytest.raises(ValueError, match=message):
            OracleJob(20, 1, 0, 5).load(oracle.checked({**fields, "cuts": cuts}))
    OracleJob(20, 1, 0, 5).load(oracle.checked({**fields, "cuts": [[1, 1, 3, 6]]}))


# ------------------------------------------------------------------------------- workers of one lane, merging


def test_time_order_is_the_same_with_any_number_of_workers() -> None:
    runs = [OracleJob(50, 2, workers, 3, lanes=1, tail="pad").run_pass() for workers in range(5)]
    assert all(run == runs[0] for run in runs)
    assert [[row for batch in step for row in batch] for step in runs[0][:-1]] == [
        list(range(6 * n, 6 * n + 6)) for n in range(8)
    ]
    assert runs[0][-1] == [[48, 49, 48], [49, 48, 49]]


def test_merging_by_hand() -> None:
    # 20 rows on two ranks: lanes [0,10) and [10,20), slices of 2. Rank 0 did three batches, rank 1 one.
    job = OracleJob(20, 2, 0, 2)
    states = [job.state()]
    for _ in range(3):
        job.step()
        states.append(job.state())
    merged = json.loads(oracle.merge([states[3], states[1]]))
    assert (merged["consumed"], merged["cuts"]) == ([[0, 6], [10, 12]], [])
    merged = json.loads(oracle.merge([states[0], states[2]]))
    assert (merged["consumed"], merged["cuts"]) == ([[10, 14]], [])
    assert oracle.merge([states[2], states[2]]) == states[2]


def test_merging_after_a_change_of_topology() -> None:
    # What was done before the last cut, all ranks did: 0, 1, 6, 7 of 15. Of the 11 left, two ranks with two
    # workers make lanes (2,3) (4,5) | (8,9) (10,11); batches are 2,8 then 4,10 then 3,9 then 5,11, and of
    # the tail 12,13.
    before = OracleJob(15, 2, 0, 2)
    before.step()
    job = OracleJob(15, 2, 2, 1, tail="pad")  # so that the pass is not over after the fifth
    job.load(before.state())
    states = [job.state()]
    for _ in range(5):
        job.step()
        states.append(job.state())
    assert json.loads(states[5])["cuts"] == [[2, 1, 2, 1], [4, 2, 1, 5]]
    merged = json.loads(oracle.merge([states[5], states[1]]))
    assert merged["consumed"] == [[0, 9], [12, 13]]
    merged = json.loads(oracle.merge([states[0], states[5]]))  # rank 0 did nothing of the last cut
    assert merged["consumed"] == [[0, 2], [6, 12], [13, 14]]


def test_states_that_do_not_belong_together_are_not_merged() -> None:
    def state(**fields: object) -> str:
        job = OracleJob(20, 2, 0, 2)
        job.step()
        return oracle.checked({**json.loads(job.state()), **fields})

    for fields, named in (
        ({"epoch": 1}, "epoch"),
        ({"dataset": {"fingerprint": "1", "rows": 20}}, "dataset"),
        ({"order": {"kind": "shuffled", "seed": 1, "block_rows": 1, "window_rows": 1}}, "order"),
        ({"consumed": [[0, 1]]}, "consumed"),
        ({"cuts": [[2, 1, 1, 1]]}, "cuts"),
        ({"cuts": [[2, 1, 2, 1], [2, 1, 1, 1], [2, 1, 2, 1]]}, "cuts"),
    ):
        with pytest.raises(ValueError, match=f"^{named} differ"):
            oracle.merge([state(), state(**fields)])
    with pytest.raises(ValueError, match="no states"):
        oracle.merge([])
    with pytest.raises(ValueError, match="world_size \\* groups = 3 does not divide lanes = 2"):
        oracle.merge([state(), state(), state(cuts=[[2, 1, 2, 2]])])


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
        '{"check":"ddc7f410","consumed":[],"cuts":[[4,2,2,3]],"dataset":{"fingerprint":"5f1c","rows":23},'
        '"earlier_batches":0,"epoch":0,"fastresume":1,"first_epoch":0,"order":{"kind":"sequential"},"selection":null}'
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


@each_of(
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


@each_of(
    ("row", "size", "side", "keep", "expected"),
    [
        ("ab", 4, "right", None, ("ab--", 2)),
        ("ab", 4, "left", None, ("--ab", 2)),
        ("", 2, "left", "tail", ("--", 0)),
        ("abc", 3, "right", None, ("abc", 3)),
        ("abcd", 3, "left", "head", ("abc", 3)),
        ("abcd", 3, "right", "tail", ("bcd", 3)),
        ("abcd", 3, "right", None, None),
    ],
)
def test_a_row_is_filled_up_or_cut_off(
    row: str, size: int, side: str, keep: str | None, expected: tuple[str, int] | None
) -> None:
    found = oracle.padded([letter.encode() for letter in row], size, b"-", side, keep)
    assert (found and (b"".join(found[0]).decode(), found[1])) == expected
