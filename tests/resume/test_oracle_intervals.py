"""The oracle's intervals and imported offsets: by hand, and the laws of slices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import oracle
from support.each_of import each_of


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


@each_of(
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
