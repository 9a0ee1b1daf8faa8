"""The interval algebra against the oracle, and as those would use it who bring their own reader."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import fastresume as fr
from fastresume import intervals
from support import oracle
from support.each_of import each_of
from support.refusals import each_refused
from support.strategies import Dataset

TOTAL = 120

pairs = st.tuples(st.integers(0, TOTAL), st.integers(0, TOTAL)).map(lambda ends: (min(ends), max(ends)))
sets = st.lists(pairs, max_size=8)
"""Intervals as they come in: in any order, overlapping, empty ones among them."""


def assert_intervals(found: np.ndarray, expected: list[oracle.Interval]) -> None:
    """Assert equality, and that it is an array of int64, [n, 2], which its owner may write to."""
    assert found.dtype == np.int64
    assert found.shape == (len(expected), 2)
    assert found.tolist() == [list(pair) for pair in expected]
    found[:] = -1


def as_given(drawn: list[oracle.Interval], form: str) -> Any:
    """The intervals in one of the forms in which people have them."""
    array = np.array(drawn, dtype=np.int64).reshape(-1, 2)
    forms: dict[str, Callable[[], Any]] = {
        "list": lambda: [list(pair) for pair in drawn],
        "tuples": lambda: tuple(drawn),
        "int64": lambda: array,
        "int32": lambda: array.astype(np.int32),
        "uint64": lambda: array.astype(np.uint64),
        "uint8": lambda: array.astype(np.uint8),
        "big endian": lambda: array.astype(">i8"),
        "columns first": lambda: np.asfortranarray(array),
        "every other": lambda: np.repeat(array, 2, axis=0)[::2],
        "backwards": lambda: np.ascontiguousarray(array[::-1])[::-1],
        "read only": lambda: np.frombuffer(array.tobytes(), dtype=np.int64).reshape(-1, 2),
        "not aligned": lambda: np.frombuffer(b"....01234567" + array.tobytes(), np.int64, offset=4)[
            1:
        ].reshape(-1, 2),
    }
    return forms[form]()


FORMS = (
    "list",
    "tuples",
    "int64",
    "int32",
    "uint64",
    "uint8",
    "big endian",
    "columns first",
    "every other",
    "backwards",
    "read only",
    "not aligned",
)


# --------------------------------------------------------------------------------------- remaining and slices


@given(consumed=sets, form=st.sampled_from(FORMS), more=st.integers(0, 30))
def test_what_remains_is_what_the_oracle_says(consumed: list[oracle.Interval], form: str, more: int) -> None:
    total = max((end for _, end in consumed), default=0) + more
    found = intervals.remaining(as_given(consumed, form), total)
    assert_intervals(found, oracle.remaining(consumed, total))


@given(consumed=sets)
def test_what_remains_of_what_remains_was_consumed(consumed: list[oracle.Interval]) -> None:
    once = intervals.remaining(consumed, TOTAL)
    twice = intervals.remaining(once, TOTAL)
    assert_intervals(twice, oracle.intervals_of(oracle.positions_of(consumed)))


@given(
    drawn=sets, form=st.sampled_from(FORMS), count=st.integers(1, 9), multiple_of=st.integers(1, TOTAL + 9)
)
def test_slices_are_what_the_oracle_says(
    drawn: list[oracle.Interval], form: str, count: int, multiple_of: int
) -> None:
    for index in range(count):
        found = intervals.slice_intervals(as_given(drawn, form), index, count, multiple_of)
        assert_intervals(found, oracle.slice_intervals(drawn, index, count, multiple_of))


@given(drawn=sets, count=st.integers(1, 9), multiple_of=st.integers(1, 20))
def test_slices_hold_each_row_once_in_order_and_in_even_shares(
    drawn: list[oracle.Interval], count: int, multiple_of: int
) -> None:
    slices = [intervals.slice_intervals(drawn, i, count, multiple_of=multiple_of) for i in range(count)]
    rows = [oracle.positions_of(slice_.tolist()) for slice_ in slices]
    assert list(itertools.chain(*rows)) == oracle.positions_of(drawn)
    assert all(len(part) % multiple_of == 0 for part in rows[:-1])
    units = [len(part) // multiple_of for part in rows]
    assert max(units) - min(units) <= 1


def test_without_a_multiple_slices_differ_by_at_most_one_row() -> None:
    sizes = [int(np.diff(intervals.slice_intervals([[5, 108]], i, 7)).sum()) for i in range(7)]
    assert sum(sizes) == 103
    assert max(sizes) - min(sizes) == 1


@each_of("nothing", [[], (), np.empty((0, 2), np.int64), np.empty(0), np.empty((0, 2))])
def test_no_intervals_are_intervals_too(nothing: Any) -> None:
    assert_intervals(intervals.remaining(nothing, 5), [(0, 5)])
    assert_intervals(intervals.remaining(nothing, 0), [])
    assert_intervals(intervals.slice_intervals(nothing, 1, 3), [])
    assert_intervals(intervals.slice_intervals([[3, 3]], 0, 1), [])


def test_numbers_may_be_as_large_as_int64() -> None:
    top = 2**63 - 1
    assert_intervals(intervals.remaining([], top), [(0, top)])
    assert_intervals(intervals.remaining([[0, top]], top), [])
    assert_intervals(intervals.remaining([[1, top - 1]], top), [(0, 1), (top - 1, top)])
    cuts = [i * top // 3 for i in range(4)]
    for i in range(3):
        assert_intervals(intervals.slice_intervals([[0, top]], i, 3), [(cuts[i], cuts[i + 1])])
    assert_intervals(intervals.slice_intervals([[0, top]], top - 1, top), [(top - 1, top)])


def test_what_was_given_is_not_changed() -> None:
    given_ = np.array([[7, 9], [0, 3], [2, 4]])
    copy = given_.copy()
    intervals.remaining(given_, 10)
    intervals.slice_intervals(given_, 0, 2)
    intervals.max_merge([given_, given_ + 1])
    assert (given_ == copy).all()


def test_a_million_intervals() -> None:
    count = 1_000_000
    starts = 3 * np.arange(count, dtype=np.int64)
    shuffled = np.random.default_rng(7).permutation(count)
    consumed = np.stack([starts, starts + 1], axis=1)[shuffled]
    began = time.process_time()
    left = intervals.remaining(consumed, 3 * count)
    assert (left == np.stack([starts + 1, starts + 3], axis=1)).all()
    slices = [intervals.slice_intervals(left, i, 8, multiple_of=1000) for i in range(8)]
    assert time.process_time() - began < 20  # it takes 0.3 s; a quadratic algorithm takes hours
    assert sum(np.diff(slice_).sum() for slice_ in slices) == 2 * count
    assert {int(np.diff(slice_).sum()) for slice_ in slices} == {2 * count // 8}


@each_of(
    ("consumed", "total", "error", "message"),
    [
        ([[0, 11]], 10, ValueError, "ends at 11, beyond the total 10"),
        ([[5, 3]], 10, ValueError, r"ends before it starts: \[5, 3\)"),
        ([[-1, 3]], 10, ValueError, r"an interval is negative: \[-1, 3\)"),
        ([[-3, -1]], 10, ValueError, r"an interval is negative: \[-3, -1\)"),
        ([1, 2], 10, ValueError, r"shape \[n, 2\], found \[2\]"),
        ([[1, 2, 3]], 10, ValueError, r"shape \[n, 2\], found \[1, 3\]"),
        ([[[1, 2]]], 10, ValueError, r"shape \[n, 2\], found \[1, 1, 2\]"),
        (3, 10, ValueError, r"shape \[n, 2\], found \[\]"),
        ([[0.0, 1.0]], 10, ValueError, "integers, found dtype float64"),
        ([[True, False]], 10, ValueError, "integers, found dtype bool"),
        ([["0", "1"]], 10, ValueError, "integers, found dtype <U1"),
        (np.array([[0, 2**63]], np.uint64), 10, ValueError, "does not fit int64: 9223372036854775808"),
        ([], -1, ValueError, r"total must be in \[0, 2\*\*63\), found -1"),
        ([], 2**63, ValueError, r"total must be in \[0, 2\*\*63\), found 9223372036854775808"),
        ([], 1.0, TypeError, "total must be an integer, found 1.0"),
        ([], True, TypeError, "total must be an integer, found True"),
        ([], None, TypeError, "total must be an integer, found None"),
    ],
)
def test_what_has_no_remaining_rows_is_refused(
    consumed: Any, total: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        intervals.remaining(consumed, total)


@each_of(
    ("arguments", "error", "message"),
    [
        ((3, 3), ValueError, "slice index 3 is not below the count 3"),
        ((0, 0), ValueError, "slice index 0 is not below the count 0"),
        ((-1, 3), ValueError, r"index must be in \[0, 2\*\*63\), found -1"),
        ((0, -1), ValueError, r"count must be in \[0, 2\*\*63\), found -1"),
        ((0, 1, 0), ValueError, "multiple_of must be at least 1, found 0"),
        ((0, 1, -4), ValueError, r"multiple_of must be in \[0, 2\*\*63\), found -4"),
        ((0.0, 1), TypeError, "index must be an integer, found 0.0"),
        ((0, "1"), TypeError, "count must be an integer, found '1'"),
        ((0, 1, 2.5), TypeError, "multiple_of must be an integer, found 2.5"),
        ((True, 2), TypeError, "index must be an integer, found True"),
    ],
)
def test_slices_that_there_are_not_are_refused(
    arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        intervals.slice_intervals([[0, 10]], *arguments)
    with pytest.raises(ValueError, match="ends before it starts"):
        intervals.slice_intervals([[5, 3]], 0, 1)


# ---------------------------------------------------------------------------------------------------- merging

offsets = st.dictionaries(st.sampled_from("abcdef"), st.integers(-(2**70), 2**70), max_size=5)


@given(states=st.lists(offsets, min_size=1, max_size=5), data=st.data())
def test_mappings_merge_to_the_greatest_value_of_each_key(
    states: list[dict[str, int]], data: st.DataObject
) -> None:
    keys = {key for state in states for key in state}
    expected = {key: max(state[key] for state in states if key in state) for key in keys}
    merge = intervals.max_merge
    assert merge(states) == expected
    assert merge(data.draw(st.permutations(states))) == expected  # it commutes
    assert merge([*states, *states, expected]) == expected  # it is idempotent
    split = data.draw(st.integers(1, len(states)))
    parts = [part for part in (states[:split], states[split:]) if part]
    assert merge([merge(part) for part in parts]) == expected  # it associates


shapes = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


@given(shape=shapes, count=st.integers(1, 4), data=st.data())
def test_arrays_merge_to_the_greatest_value_of_each_place(
    shape: tuple[int, ...], count: int, data: st.DataObject
) -> None:
    states = [data.draw(arrays.arrays(np.int64, shape)) for _ in range(count)]
    before = [state.copy() for state in states]
    expected = np.maximum.reduce(states)
    merge = intervals.max_merge
    for found in (merge(states), merge(states[::-1]), merge([*states, expected]), merge([merge(states)])):
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (np.int64, shape)
        assert (found == expected).all()
    assert all((one == other).all() for one, other in zip(states, before, strict=True))


@each_of("dtype", ["int8", "uint8", "int16", "int32", "uint32", ">i8", "uint64"])
def test_arrays_of_other_integers_merge_too(dtype: str) -> None:
    states = [np.array([[1, 7], [3, 0]], dtype), np.array([[2, 1], [3, 100]], dtype).T]
    assert intervals.max_merge(states).tolist() == [[2, 7], [3, 100]]
    assert intervals.max_merge([state.tolist() for state in states]).dtype == np.int64


@each_of("count", [1, 7, 63, 64, 65, 200])
def test_many_arrays_merge_whatever_their_layout(count: int) -> None:
    states = np.random.default_rng(17).integers(-(2**62), 2**62, (5, count))
    unaligned = [np.frombuffer(b"." + state.tobytes(), np.int64, offset=1) for state in states.T]
    expected = states.max(axis=1).tolist()
    for given_ in (list(states.T), list(np.ascontiguousarray(states.T)), unaligned):
        assert intervals.max_merge(given_).tolist() == expected


def test_the_merged_value_is_a_new_one() -> None:
    state = np.array([1, 2])
    merged = intervals.max_merge([state])
    merged[:] = 9
    assert state.tolist() == [1, 2]
    mapping = {"a": 1}
    intervals.max_merge([mapping])["a"] = 9
    assert mapping == {"a": 1}
    assert type(intervals.max_merge([{"a": np.int32(3)}, {"a": 2}])["a"]) is int


@each_of(
    ("states", "error", "message"),
    [
        ([], ValueError, "no state is given"),
        ([{"a": 1}, np.array([1])], TypeError, "all arrays or all mappings, found both"),
        ([np.array([1]), np.array([1, 2])], ValueError, r"one shape, found \(1,\) and \(2,\)"),
        ([np.array([[1]]), np.array([1])], ValueError, r"one shape, found \(1, 1\) and \(1,\)"),
        ([np.array([1.0])], TypeError, "integer arrays, found dtype float64"),
        ([np.array([True])], TypeError, "integer arrays, found dtype bool"),
        ([np.array([1]), np.array([1.0])], TypeError, "integer arrays, found dtype float64"),
        ([{"a": 1.0}], TypeError, "the value under 'a' must be an integer, found 1.0"),
        ([{"a": 1}, {"b": True}], TypeError, "the value under 'b' must be an integer, found True"),
        ([{"a": "1"}], TypeError, "the value under 'a' must be an integer, found '1'"),
        ([{"a": None}], TypeError, "the value under 'a' must be an integer, found None"),
        ([{"a": 1}, None], TypeError, "state 1 of 2 is None: leave out what was never saved"),
        ([None, np.array([1])], TypeError, "state 0 of 2 is None"),
        ([None], TypeError, "state 0 of 1 is None"),
        (None, TypeError, "states must be a list of arrays or of mappings, found None"),
        ({"a": 1}, TypeError, "states must be a list of arrays or of mappings, found {'a': 1}"),
        ([{"a" * 1_000_000: "b" * 1_000_000}], TypeError, "the value under 'aaa"),
        ([np.array([2**63], np.uint64), np.array([1], np.uint64)], ValueError, "9223372036854775808"),
    ],
)
def test_what_can_not_be_merged_is_refused(states: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        intervals.max_merge(states)
    assert len(str(caught.value)) < 1000


# ----------------------------------------------------------------------- for readers that others have written


@pytest.mark.law(3)
def test_the_rows_before_the_smallest_key_are_not_lost() -> None:
    """What TorchEasyRec does with its `dataloader_state.json`, and where it loses rows.

    Four workers share 1000 rows; each slice is known by its start, and the state says the last row of it
    that came. Worker 0 had reported nothing when the state was saved, so no key says that a slice began at
    0. TorchEasyRec takes what lies between the keys to remain, and so [0, 250) is never read again.
    """
    reported = [{"data:250": 299}, {"data:500": 509, "data:250": 279}, {"data:750": 999}]
    merged = intervals.max_merge(reported)
    assert merged == {"data:250": 299, "data:500": 509, "data:750": 999}
    consumed = [(int(key.rpartition(":")[2]), last + 1) for key, last in merged.items()]
    left = intervals.remaining(consumed, 1000)
    assert left.tolist() == [[0, 250], [300, 500], [510, 750]]
    slices = [intervals.slice_intervals(left, i, 3, multiple_of=64) for i in range(3)]
    assert [slice_.tolist() for slice_ in slices] == [
        [[0, 192]],
        [[192, 250], [300, 434]],
        [[434, 500], [510, 750]],
    ]
    assert sum(int(np.diff(slice_).sum()) for slice_ in slices) == 690


@pytest.mark.law(3)
@given(rows=st.integers(1, 300), lives=st.integers(0, 4), data=st.data())
def test_a_reader_of_ones_own_delivers_each_row_once_on_any_ranks(
    rows: int, lives: int, data: st.DataObject
) -> None:
    """Life after life on other ranks, killed anywhere: remaining, slice, read, save. The last one ends."""
    delivered: list[int] = []
    consumed = np.empty((0, 2), np.int64)
    for life in range(lives + 1):
        left = intervals.remaining(consumed, rows)
        ranks, unit = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
        for rank in range(ranks):
            own = intervals.slice_intervals(left, rank, ranks, multiple_of=unit)
            taken = oracle.positions_of(own.tolist())
            if life < lives:
                taken = taken[: data.draw(st.integers(0, len(taken)))]
            delivered += taken
            consumed = np.concatenate([consumed, np.array(oracle.intervals_of(taken)).reshape(-1, 2)])
        consumed = consumed.astype(np.int64)
    assert sorted(delivered) == list(range(rows))


def test_intervals_of_a_dataset_go_where_arrays_go(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10, world=(0, 1))
    next(iter(dataset))
    left: Any = dataset.remaining()
    assert np.asarray(left).tolist() == [[10, 103]]
    assert intervals.slice_intervals(left, 0, 2).tolist() == [[10, 56]]
    assert intervals.remaining(left, 103).tolist() == [[0, 10]]
    assert fr.Intervals(left) == left
    assert (np.array([[5, 20]]) & left).rows(103).tolist() == [[10, 20]]
    assert dataset.read_rows(left).rows().tolist() == [*range(10, 103)]
    assert dataset.read_rows(~left).rows().tolist() == [*range(10)]
    assert len(dataset.locate(fr.Split(0.0, 1.0))) == 103
    each_refused(
        (
            (lambda: len(left), TypeError, r"no list: write \.rows\(num_rows\)"),
            (lambda: left[0], TypeError, r"no list: write \.rows\(num_rows\)"),
            (lambda: list(~left), TypeError, r"no list: write \.rows\(num_rows\)"),
            (
                lambda: intervals.remaining(fr.Split(0.0, 0.5), 9),  # type: ignore[arg-type]
                ValueError,
                r"write split\.rows\(num_rows\)",
            ),
        )
    )


def test_what_is_shown_of_the_module_is_what_is_for_users() -> None:
    assert dir(intervals) == sorted(intervals.__all__) == ["max_merge", "remaining", "slice_intervals"]
    assert not hasattr(intervals, "Intervals")
    assert dir(fr.testing) == ["assert_exact_resume"]
