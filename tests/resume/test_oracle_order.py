"""The oracle's shuffled order: by hand, as a bijection of everything, and as the golden vectors say."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import make_orders
from support import oracle
from support.each_of import each_of
from support.profile import one_in
from support.strategies import row_groups
from support.topologies import shuffles

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


@each_of(
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


@each_of("key", [0, 1, 2**64 - 1, 0x0123456789ABCDEF])
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
    for n in SIZES[:: one_in(2)]:
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


@pytest.mark.slow
def test_the_oracle_still_says_what_the_golden_orders_say() -> None:
    text = (Path(make_orders.__file__).parent / "orders.json").read_text()
    assert text == make_orders.as_text(make_orders.golden())
    assert len(text) < 60_000
