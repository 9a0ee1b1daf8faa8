"""The oracle against numbers worked out by hand from docs/DESIGN.md, and against the laws it stands for.

Whoever doubts the oracle checks these examples with pencil and paper; everything else is tested against the
oracle.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from golden import make_orders
from oracle import OracleJob
from strategies import (
    RANKS,
    ROW_NUMBERS,
    TAILS,
    TYPES,
    ColumnSpec,
    Dataset,
    DatasetSpec,
    Shuffle,
    Topology,
    chains,
    dataset_specs,
    datasets,
    one_order,
    orders,
    plain_spec,
    row_groups,
    shuffles,
    topologies,
    written,
)


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


# ------------------------------------------------------------------------------- the shuffled order, by hand


def test_words_are_mixed_as_splitmix64_does() -> None:
    # The first outputs of SplitMix64 seeded with 1234567, as its authors and others publish them: its state
    # goes up by GAMMA, each output is mix(state).
    outputs = [oracle.mix((1234567 + i * oracle.GAMMA) % 2**64) for i in range(1, 6)]
    assert outputs == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
    # key([seed]) is the first output under that seed, and each word goes in on top of the hash so far.
    assert oracle.key([]) == 0
    assert oracle.key([1234567]) == outputs[0]
    assert oracle.key([1234567, 5]) == oracle.key([outputs[0] ^ 5])


def test_keys_of_other_words_are_other_keys() -> None:
    words = [(seed, epoch, v) for seed in range(20) for epoch in range(20) for v in range(5)]
    assert len({oracle.key(each) for each in words}) == len(words)


@pytest.mark.parametrize(
    ("n", "a", "b"),
    [(1, 16, 16), (256, 16, 16), (257, 17, 16), (289, 17, 17), (290, 18, 17), (10**6, 1000, 1000)],
)
def test_a_permutation_has_these_sides(n: int, a: int, b: int) -> None:
    permutation = oracle.Permutation(n, 0)
    assert (permutation.a, permutation.b) == (a, b)
    assert a * b >= n


def test_one_round_of_a_permutation_by_hand() -> None:
    # n = 1, so a = b = 16. x = 35 is l = 2, r = 3. With only the first round key k: l becomes
    # (2 + f(3 ^ k) * 16 div 2^64) mod 16, which is the four highest bits of f; r stays 3.
    permutation = oracle.Permutation(1, 99)
    assert len(permutation.keys) == 6
    assert permutation.keys[0] == oracle.mix((99 + 0x9E3779B97F4A7C15) % 2**64)
    del permutation.keys[1:]
    high_bits = oracle.Permutation.scramble(3 ^ permutation.keys[0]) >> 60
    assert permutation.once(35) == (2 + high_bits) % 16 * 16 + 3


def test_blocks_by_hand() -> None:
    # 25 rows are three parts [0,8) [8,16) [16,25); 4, 3 and 3 rows join to 10; 9 begins the next block, to
    # which 1 more fits; 10 rows are a block; 11 are two, [0,5) and [5,11).
    assert oracle.blocks_of([25, 0, 4, 3, 0, 3, 9, 1, 10, 11, 2], 10) == [
        (0, 8),
        (8, 16),
        (16, 25),
        (25, 35),
        (35, 45),
        (45, 55),
        (55, 60),
        (60, 66),
        (66, 68),
    ]
    assert oracle.blocks_of([], 1) == oracle.blocks_of([0, 0], 1) == []
    assert oracle.blocks_of([2, 1], 1) == [(0, 1), (1, 2), (2, 3)]
    assert oracle.blocks_of([1] * 5, 2) == [(0, 2), (2, 4), (4, 5)]


def test_windows_by_hand() -> None:
    # 25 div 10 = 2 blocks a window; 7 blocks are 4 windows: cuts at 7 div 4, 14 div 4, 21 div 4.
    assert oracle.windows_of(7, 10, 25) == [(0, 1), (1, 3), (3, 5), (5, 7)]
    assert oracle.windows_of(7, 10, 10) == [(i, i + 1) for i in range(7)]
    assert oracle.windows_of(7, 10, 70) == [(0, 7)]
    assert oracle.windows_of(0, 10, 70) == []
    for sizes in ((0, 5), (6, 5)):
        with pytest.raises(ValueError, match="block_rows"):
            oracle.windows_of(7, *sizes)


def test_a_pass_takes_blocks_then_windows_then_rows() -> None:
    # Four blocks of two rows, two a window. Blocks are permuted under (seed, epoch, 0), the rows of window v
    # under (seed, epoch, v + 1).
    seed, epoch = 5, 3
    blocks = [[0, 1], [2, 3], [4, 5], [6, 7]]
    places = [oracle.Permutation(4, oracle.key([seed, epoch, 0]))(j) for j in range(4)]
    expected = []
    for v in (0, 1):
        laid = blocks[places[2 * v]] + blocks[places[2 * v + 1]]
        inside = oracle.Permutation(4, oracle.key([seed, epoch, v + 1]))
        expected += [laid[inside(o)] for o in range(4)]
    assert oracle.order_rows((2, 2, 2, 2), seed, epoch, 2, 4) == tuple(expected)


# -------------------------------------------------------------------------- the shuffled order is a bijection

SIZES = sorted(
    {0, 1, 2, 3, 5, 7, 11, 13, 97, 251, 509, 1009}
    | {2**k + d for k in range(1, 11) for d in (-1, 0, 1)}
    | {15 * 16, 16 * 17, 17 * 17, 1000}
)


@pytest.mark.parametrize("key", [0, 1, 2**64 - 1, 0x0123456789ABCDEF])
def test_every_permutation_is_a_bijection(key: int) -> None:
    for n in SIZES[1:]:
        permutation = oracle.Permutation(n, key)
        assert sorted(map(permutation, range(n))) == list(range(n)), n
    with pytest.raises(ValueError, match="a permutation of 0"):
        oracle.Permutation(0, key)
    with pytest.raises(ValueError, match="3 is not in"):
        oracle.Permutation(3, key)(3)


@pytest.mark.law(1)
@pytest.mark.parametrize(("block_rows", "window_rows"), [(1, 1), (1, 7), (10, 45), (64, 64), (5000, 9000)])
def test_the_order_of_any_number_of_rows_is_a_bijection(block_rows: int, window_rows: int) -> None:
    for n in SIZES:
        if n > 150 and window_rows == 1:
            continue  # a window of one row walks through 256 numbers
        rows = oracle.order_rows((n,), 17, 2, block_rows, window_rows)
        assert sorted(rows) == list(range(n)), n


@pytest.mark.law(1)
@given(st.data(), st.lists(row_groups(), max_size=3))
def test_the_order_of_any_row_groups_is_a_bijection(
    data: st.DataObject, files: list[tuple[int, ...]]
) -> None:
    groups = tuple(rows for file in files for rows in file)
    shuffle = data.draw(shuffles(sum(groups)))
    order = oracle.Shuffled(groups, epoch=data.draw(st.integers(0, 5)), **vars(shuffle))
    rows = order.rows()
    assert sorted(rows) == list(range(sum(groups))) == list(range(order.num_rows))
    assert [order.row(position) for position in range(len(rows))] == rows
    with pytest.raises(IndexError):
        order.row(len(rows))
    # Blocks and windows cover all rows, are no larger than asked, and no window is empty.
    assert [row for start, end in order.blocks for row in range(start, end)] == list(range(len(rows)))
    assert all(0 < end - start <= shuffle.block_rows for start, end in order.blocks)
    assert sorted(block for window in order.windows for block in window) == order.blocks
    for window in order.windows:
        assert 0 < sum(end - start for start, end in window) <= shuffle.window_rows
    # Where the empty row groups are is all the same.
    without_empty = [size for size in groups if size > 0]
    assert oracle.Shuffled(without_empty, epoch=order.epoch, **vars(shuffle)).rows() == rows


def test_many_row_groups_of_one_row_are_a_bijection() -> None:
    rows = oracle.order_rows((1,) * 30_000, 0, 0, 1000, 6000)
    assert sorted(rows) == list(range(30_000))


def test_every_seed_and_epoch_is_another_order() -> None:
    found = [oracle.order_rows((50, 50), seed, epoch, 10, 40) for seed in range(9) for epoch in range(9)]
    assert len(set(found)) == 81
    # No order is nearly the same as another one either: of 100 rows, few are at the same place by chance.
    for one, other in itertools.pairwise(found):
        assert sum(a == b for a, b in zip(one, other, strict=True)) < 15


@pytest.mark.parametrize("word", [0, 1])
def test_each_number_goes_everywhere_about_as_often(word: int) -> None:
    """Blocks in the pass (word 0), and rows in the first window (word 1), over the epochs."""
    passes = 4000
    counts = Counter(oracle.Permutation(20, oracle.key([17, e, word]))(7) for e in range(passes))
    assert sorted(counts) == list(range(20))
    # Chi-squared of 19 degrees of freedom is above 45 once in a thousand; the seed is fixed.
    assert sum((count - passes / 20) ** 2 / (passes / 20) for count in counts.values()) < 45


def test_the_oracle_still_says_what_the_golden_orders_say() -> None:
    text = (Path(make_orders.__file__).parent / "orders.json").read_text()
    assert text == make_orders.as_text(make_orders.golden())
    assert len(text) < 60_000


# ---------------------------------------------------------------------------------------- tails, by hand (§4)


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    ("rows", "ranks", "tail"), [(7, 2, "drop"), (1, 2, "short"), (0, 1, "short"), (0, 1, "pad")]
)
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
