"""Choosing rows: by a mask, by intervals, by a split; what is chosen is a dataset like any other."""

from __future__ import annotations

import itertools
import json
import operator
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from golden import make_selections
from support import oracle
from support.each_of import each_of
from support.jobs import FEWER, THREADS, data_loader, fields_of, make, make_reader, rows_delivered
from support.refusals import each_refused
from support.strategies import Dataset, DatasetSpec, dataset_specs, written
from support.topologies import Shuffle, orders, selections

GOLDEN = json.loads((Path(make_selections.__file__).parent / "selections.json").read_text())

SHUFFLED = Shuffle(17, 8, 20)

MASK = np.arange(103) % 3 == 0


# ----------------------------------------------------------------------------------------------------- naming


@each_of(
    "rows",
    [
        MASK,
        MASK.tolist(),
        torch.from_numpy(MASK),
        np.repeat(MASK, 2)[::2],
        oracle.intervals_of(np.flatnonzero(MASK).tolist()),
        np.array(oracle.intervals_of(np.flatnonzero(MASK).tolist()), np.int32)[::-1],
        torch.tensor(oracle.intervals_of(np.flatnonzero(MASK).tolist())),
        [[0, 1], [0, 1], [3, 3], *oracle.intervals_of(np.flatnonzero(MASK).tolist())],
    ],
)
def test_rows_are_named_in_any_form(small_dataset: Dataset, rows: Any) -> None:
    """And however they are named, they are the same selection."""
    named = make(small_dataset, 5, rows=rows, tail="pad")
    assert named.num_rows == 35
    assert (named.num_file_rows, len(named)) == (103, 7)
    assert named.selection.tolist() == [[row, row + 1] for row in range(0, 103, 3)]
    assert fields_of(named.state_dict())["selection"] == oracle.selection_hash(range(0, 103, 3))
    assert rows_delivered(named) == list(range(0, 103, 3))


REORDERED = np.random.default_rng(4).permutation(103)
"""The row numbers of a frame that was sorted."""


def of_index(index: Any, dtype: str = "bool") -> pd.Series:
    return pd.Series(np.arange(len(index)) % 3 == 0, index=index, dtype=dtype)


@each_of("dtype", ["bool", "boolean", "bool[pyarrow]"])
@each_of("index", [REORDERED, range(102, -1, -1), REORDERED.astype("uint8"), range(103)])
def test_a_mask_of_pandas_is_of_the_rows_that_its_index_names(
    small_dataset: Dataset, index: Any, dtype: str
) -> None:
    mask = of_index(index, dtype)
    expected = sorted(mask.index[mask.to_numpy(bool)])
    assert rows_delivered(make(small_dataset, 1, rows=mask)) == expected
    assert rows_delivered(make(small_dataset, 1, rows=mask & fr.Split(0, 1))) == expected


@each_of(
    "index",
    [[*range(53), *range(50)], range(1, 104), np.arange(103) + 0.0, [f"user {row}" for row in range(103)]],
)
def test_a_mask_of_pandas_whose_index_names_no_rows_is_refused(small_dataset: Dataset, index: Any) -> None:
    mask, as_array = of_index(index), "write rows=mask.to_numpy() if the mask has the order of the rows"
    for call in (
        lambda: make(small_dataset, 1, rows=mask),
        lambda: make(small_dataset, 1, rows=fr.Split(0, 1) | mask),
    ):
        with pytest.raises(ValueError, match="index of a mask must number its rows, 0 to 102") as caught:
            call()
        assert as_array in str(caught.value)
    assert make(small_dataset, 1, rows=mask.to_numpy()).num_rows == 35
    with pytest.raises(ValueError, match=r"write numpy.flatnonzero\(mask.to_numpy\(\)\) if"):
        make(small_dataset, 1).read_rows(mask)


def test_what_reads_rows_by_numbers_says_how_a_mask_of_pandas_names_them(small_dataset: Dataset) -> None:
    mask, dataset = of_index(REORDERED), make(small_dataset, 1)
    with pytest.raises(TypeError, match=r"write numpy.flatnonzero\(mask.sort_index\(\)\)"):
        dataset.read_rows(mask)
    expected = sorted(mask.index[mask])
    assert dataset.read_rows(np.flatnonzero(mask.sort_index())).rows().tolist() == expected


def test_rows_to_skip_are_left_out(small_dataset: Dataset) -> None:
    bad = [[90, 103], [5, 7], [6, 20]]
    assert make(small_dataset, 5, rows=~fr.Intervals(bad)).selection.tolist() == [[0, 5], [20, 90]]
    assert make(
        small_dataset, 5, rows=fr.Intervals([[0, 10], [80, 100]]) & ~fr.Intervals(bad)
    ).selection.tolist() == [
        [0, 5],
        [80, 90],
    ]
    both = fr.Intervals([[0, 3], [60, 70]]) | fr.Intervals([[2, 9]])
    assert make(small_dataset, 5, rows=both).selection.tolist() == [[0, 9], [60, 70]]
    assert make(small_dataset, 5, rows=fr.Intervals([[2, 9]]) | [[0, 3]]).selection.tolist() == [[0, 9]]
    assert make(small_dataset, 5, rows=~fr.Intervals(bad)).num_rows == 75
    assert make(small_dataset, 5, rows=~fr.Intervals([])).selection is None


@each_of(
    "arguments",
    [
        {"rows": np.ones(103, np.bool_)},
        {"rows": [[0, 50], [50, 103]]},
        {"rows": fr.Split(0, 1)},
        {"rows": ~fr.Intervals([])},
        {"rows": fr.Intervals([[0, 103]]) & ~fr.Intervals(np.empty((0, 2), np.int64))},
    ],
)
def test_a_selection_of_all_rows_is_none(small_dataset: Dataset, arguments: Any) -> None:
    """Its states are those of the dataset without one."""
    dataset, plain = make(small_dataset, 5, **arguments), make(small_dataset, 5)
    assert dataset.selection is None
    assert dataset.state_dict() == plain.state_dict()
    state = next(iter(dataset)).state_dict()
    assert fields_of(state)["selection"] is None
    plain.load_state_dict(state)
    assert next(iter(plain)).rows().tolist() == [5, 6, 7, 8, 9]


@each_of(
    ("arguments", "error", "named"),
    [
        ({"rows": MASK[:-1]}, ValueError, r"a mask of rows must have the shape \[103\].*found \[102\]"),
        ({"rows": MASK[None]}, ValueError, r"found \[1, 103\]"),
        ({"rows": [[0, 104]]}, ValueError, "rows must lie in the 103 rows of the files, found one up to 104"),
        (
            {"rows": ~fr.Intervals([[100, 200]])},
            ValueError,
            "rows must lie in the 103 rows of the files, found one up to 200",
        ),
        ({"rows": [[-1, 4]]}, ValueError, r"an interval is negative: \[-1, 4\)"),
        ({"rows": [[5, 4]]}, ValueError, r"an interval ends before it starts: \[5, 4\)"),
        ({"rows": [3, 5, 4]}, ValueError, r"each once, in the order of the files: write rows=numpy.sort"),
        (
            {"rows": [3, 3]},
            ValueError,
            r"row 3 is there twice; .*ignore_index=True\) before it, else .*unique",
        ),
        ({"rows": [3, 103]}, ValueError, "rows must be numbers from 0 to 102, found 103"),
        ({"rows": [-1, 3]}, ValueError, "rows must be numbers from 0 to 102, found -1"),
        ({"rows": [[[3, 4]]]}, ValueError, r"rows must be intervals, a boolean mask, row numbers or a Split"),
        ({"rows": [[0.0, 4.0]]}, TypeError, r"float64 numbers .*: write rows=numpy.asarray\(rows, int\)"),
        ({"rows": [range(3, 9)]}, ValueError, r"rows must be intervals.*write \[3, 9\] for range\(3, 9\)"),
        ({"rows": [range(3, 5), range(7, 9)]}, ValueError, r"write \[3, 5\] for range\(3, 5\)"),
        ({"rows": "x > 3"}, TypeError, "a boolean mask, row numbers or a Split, found 'x > 3'"),
        ({"rows": 0.9}, TypeError, r"a Split, found 0\.9: write rows=\[\[0, 103\]\], or fr\.Split\("),
        ({"rows": []}, ValueError, "no batch would come from 0 of 103 rows"),
        ({"rows": [[7, 11]]}, ValueError, "no batch would come from 4 of 103 rows: a global batch has 5"),
        ({"rows": fr.Split(0.3, 0.3)}, ValueError, "no batch would come from 0 of 103 rows"),
    ],
)
def test_what_names_no_rows_is_refused(
    small_dataset: Dataset, arguments: Any, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        make(small_dataset, 5, **arguments)


@each_of(
    ("given", "said"),
    [
        ([[5, 4]], r"fr.Intervals takes .* an interval ends before it starts: \[5, 4\)"),
        (
            MASK,
            r"start, stop\], ...\], .* by a mask need no Intervals: write rows=rows, or rows & fr.S",
        ),
        ([0, 3, 9], r"rows by numbers need no Intervals: .*; ~\(fr.Split\(0, 1\) & rows\) is all other rows"),
        ((0, 100), r"found \(0, 100\): write \[\[0, 100\]\] for one interval"),
        ([[0, 1], [2]], "fr.Intervals takes"),
        ((range(3, 5),), r"write \[3, 5\] for range\(3, 5\)"),
        (3, "fr.Intervals takes"),
    ],
)
def test_what_is_no_interval_is_refused_where_it_is_written(given: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        fr.Intervals(given)


def test_sets_of_rows_are_values() -> None:
    one, other = fr.Intervals([[8, 9], [2, 5]]), fr.Intervals(np.array([[2, 4], [4, 5], [8, 9]]))
    assert one == other
    assert hash(one) == hash(other)
    assert repr(~one) == "~fr.Intervals([[2, 5], [8, 9]])"
    assert pickle.loads(pickle.dumps(~one & fr.Split(0, 1))).rows(12).tolist() == [[0, 2], [5, 8], [9, 12]]
    assert (~~one).rows(20).tolist() == one.rows(20).tolist()
    joined = pickle.loads(pickle.dumps(one & MASK))
    assert joined.rows(103).tolist() == [[3, 4]]
    assert len(repr(joined)) < 99


@each_of("kind", [np.array, list, torch.tensor, pd.Series, pa.array])
def test_a_mask_and_numbers_are_joined_with_a_split_from_both_sides(
    small_dataset: Dataset, kind: Any
) -> None:
    split, numbers = fr.Split(0.0, 0.5, 3), np.flatnonzero(MASK)
    chosen = set(oracle.positions_of(split.rows(103).tolist()))
    for rows in (kind(MASK), kind(numbers)):
        for joined, expected in (
            (split & rows, chosen & set(numbers)),
            (split | rows, chosen | set(numbers)),
            (~(fr.Split(0, 1) & rows), set(range(103)) - set(numbers)),
            *([] if kind is pa.array else [(rows & split, chosen & set(numbers))]),
            *([] if kind is pa.array else [(rows | split, chosen | set(numbers))]),
        ):
            found = make(small_dataset, 1, rows=joined)
            assert oracle.positions_of(found.selection.tolist()) == sorted(expected)
    with pytest.raises(ValueError, match=r"a mask of rows must have the shape \[103\]"):
        make(small_dataset, 1, rows=split & kind(MASK[1:]))


def test_what_no_set_of_rows_is_joined_with_says_what_to_write(small_dataset: Dataset) -> None:
    split, mask, condition = fr.Split(0.0, 0.5), pd.Series(MASK), fr.col("row") > 50
    cases: tuple[tuple[Any, type[Exception], str], ...] = (
        (lambda: split & {1, 2}, TypeError, r"found \{1, 2\}: write rows=sorted\(rows\)"),
        (lambda: 10 & split, TypeError, r"found 10: write rows=\[\[0, 10\]\]"),
        (lambda: split | slice(5, None), TypeError, r"write rows=\[\[5, num_rows\]\]"),
        (lambda: split | None, TypeError, "found None: leave it out"),
        (lambda: split & condition, TypeError, "write filter= for it, beside rows= for others"),
    )
    each_refused(cases)
    for left, right in ((condition, split), (condition, mask), (mask, condition), (MASK, condition)):
        for join in (operator.and_, operator.or_):
            with pytest.raises(
                TypeError, match=r"joins conditions, found .* write filter=condition beside rows"
            ):
                join(left, right)
    both = make(small_dataset, 1, rows=split, filter=condition)
    assert both.num_rows == sum(row > 50 for row in oracle.positions_of(split.rows(103).tolist()))


# ----------------------------------------------------------------------------------------------------- splits


def test_splits_are_the_golden_ones() -> None:
    assert len(GOLDEN["splits"]) > 10
    for entry in GOLDEN["splits"]:
        split = fr.Split(entry["start"], entry["stop"], entry["seed"])
        if entry["first"] == 0:
            assert split.rows(200).tolist() == entry["rows"], entry


def test_the_oracle_still_says_what_the_golden_selections_say() -> None:
    text = (Path(make_selections.__file__).parent / "selections.json").read_text()
    assert text == make_selections.as_text(make_selections.golden())


@given(
    cuts=st.lists(st.floats(0, 1), max_size=4),
    seed=st.integers(0, 2**53 - 1),
    num_rows=st.integers(0, 300),
)
def test_splits_side_by_side_part_the_rows(cuts: list[float], seed: int, num_rows: int) -> None:
    bounds = [0.0, *sorted(cuts), 1.0]
    parts = [fr.Split(a, b, seed).rows(num_rows) for a, b in itertools.pairwise(bounds)]
    assert sorted(oracle.positions_of(np.concatenate(parts).tolist())) == list(range(num_rows))
    assert sum(len(oracle.positions_of(part.tolist())) for part in parts) == num_rows
    for part, (start, stop) in zip(parts, itertools.pairwise(bounds), strict=True):
        expected = [row for row in range(num_rows) if oracle.is_in_split(row, start, stop, seed)]
        assert part.tolist() == [list(pair) for pair in oracle.intervals_of(expected)]


def test_a_split_has_its_share_of_any_stretch_of_rows() -> None:
    """Within four standard deviations: of all, of the first ones, of every seventh, under many seeds."""
    for seed in range(8):
        marks = np.zeros(100_000, np.bool_)
        marks[oracle.positions_of(fr.Split(0.2, 0.5, seed).rows(100_000).tolist())] = True
        for some in (marks, marks[:1000], marks[-1000:], marks[::7], marks[3::1024]):
            assert abs(some.mean() - 0.3) < 4 * (0.3 * 0.7 / len(some)) ** 0.5


def test_a_row_stays_in_its_split_when_rows_are_added() -> None:
    few = oracle.positions_of(fr.Split(0.9, 1.0, 5).rows(1000).tolist())
    many = oracle.positions_of(fr.Split(0.9, 1.0, 5).rows(5000).tolist())
    assert [row for row in many if row < 1000] == few


@each_of(
    ("split", "error"),
    [
        ((0.5, 0.4), ValueError),
        ((-0.1, 0.4), ValueError),
        ((0.1, 1.4), ValueError),
        ((float("nan"), 1), ValueError),
        (("0", 1), TypeError),
        ((False, True), TypeError),
        ((0, 1, -1), ValueError),
        ((0, 1, 2**53), ValueError),
        ((0, 1, 0.5), TypeError),
    ],
)
def test_what_is_no_share_is_refused(split: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        fr.Split(*split)


def test_a_share_may_be_any_number() -> None:
    expected = fr.Split(0.25, 0.75).rows(500).tolist()
    for start, stop in ((Fraction(1, 4), np.float64(0.75)), (np.float32(0.25), Fraction(3, 4))):
        assert fr.Split(start, stop).rows(500).tolist() == expected


# ----------------------------------------------------------------------- what is chosen is a dataset like any


@FEWER
@given(spec=dataset_specs(min_rows=20), data=st.data())
def test_each_selected_row_comes_once_with_its_values(spec: DatasetSpec, data: st.DataObject) -> None:
    chosen = data.draw(selections(spec.num_rows, least=2))
    arguments = {} if chosen is None else chosen.arguments
    expected = list(range(spec.num_rows)) if chosen is None else chosen.selected(spec.num_rows)
    shuffle = data.draw(orders(len(expected)))
    arguments |= {} if shuffle is None else shuffle.arguments
    with written(spec) as files:
        table = oracle.read_table(files.directory)
        dataset = make(files, data.draw(st.integers(1, len(expected))), tail="short", **arguments)
        found = []
        for batch in make_reader(dataset, data.draw(st.sampled_from((None, 2)))):
            rows = batch.rows()
            found += rows.tolist()
            for name, values in table.items():
                assert batch[name].numpy().tobytes() == values[rows].tobytes()
            again = dataset.read_rows(rows)
            assert all(torch.equal(again[name], batch[name]) for name in ("row",))
        assert (found if shuffle is None else sorted(found)) == expected
        paths = [path for path, _, _ in dataset.locate(expected)]
        assert [str(files.files[index]) for index in files_of(files, expected)] == paths


def files_of(files: Dataset, rows: list[int]) -> list[int]:
    """The number of each row's file."""
    starts = np.cumsum([0, *(sum(oracle.group_rows_of(path)) for path in files.files)])
    return (np.searchsorted(starts, rows, "right") - 1).tolist()


@each_of("threads", THREADS)
@each_of("shuffle", [None, SHUFFLED])
def test_lists_strings_and_nulls_of_selected_rows(
    lists: Dataset, shuffle: Shuffle | None, threads: int | None
) -> None:
    order = {} if shuffle is None else shuffle.arguments
    every, some = (
        make(lists, 103, nulls="mask", **order, **how) for how in ({}, {"rows": MASK, "tail": "pad"})
    )
    (whole,), (part,) = list(every), list(make_reader(some, threads))
    place = {row: index for index, row in enumerate(whole.rows().tolist())}
    rows = part.rows()[part.valid.numpy()]
    assert sorted(rows.tolist()) == np.flatnonzero(MASK).tolist()
    index = torch.tensor([place[row] for row in rows.tolist()])
    for name, values in part.items():
        taken, kept = whole[name], values
        if isinstance(values, fr.Jagged):
            taken, kept = taken.take(index), values.take(torch.arange(35))
            while isinstance(taken, fr.Jagged):
                assert torch.equal(kept.offsets, taken.offsets)
                assert torch.equal(kept.valid, taken.valid)
                taken, kept = taken.values, kept.values
            assert torch.equal(kept, taken)
        else:
            assert torch.equal(kept[:35], taken[index])


def test_a_copy_and_the_workers_of_a_dataset_have_its_selection(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 5, rows=MASK, tail="short")
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.state_dict() == dataset.state_dict()
    assert rows_delivered(copy) == np.flatnonzero(MASK).tolist()


@pytest.mark.processes
def test_workers_read_the_selected_rows(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 5, rows=MASK, tail="short", groups=2)
    found = [row for batch in data_loader(dataset, 2) for row in batch.rows().tolist()]
    assert sorted(found) == np.flatnonzero(MASK).tolist()


def test_what_is_left_is_told_by_rows_of_the_files(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, 5, rows=MASK)
    batch = next(iter(dataset))
    assert batch.cursor.remaining().tolist() == [[5, 35]]
    left = [
        start + row
        for (_, _, rows), start in zip(batch.cursor.remaining(dataset), (0, 40, 53, 70), strict=True)
        for row in oracle.positions_of(rows.tolist())
    ]
    assert left == list(range(15, 103, 3))


def test_offsets_tell_rows_of_the_files(small_dataset: Dataset) -> None:
    """Rows that are not selected count in offsets, but there is nothing to be consumed of them."""
    dataset = make(small_dataset, 5, rows=MASK)
    offsets = {f"{dataset.paths[0]}:0": 31, f"{dataset.paths[0]}:50": 49}
    cursor = fr.Cursor.from_offsets(offsets, dataset, files=dataset.files)
    assert cursor.consumed_rows == 11
    dataset.load_state_dict(cursor)
    assert next(iter(dataset)).rows().tolist() == [33, 36, 39, 42, 45]


# ------------------------------------------------------------------------------------------------- its states


@pytest.mark.law(9)
def test_a_state_of_another_selection_is_refused(small_dataset: Dataset) -> None:
    other = ~MASK
    other[1] = False
    hash_, other_hash = (oracle.selection_hash(np.flatnonzero(mask).tolist()) for mask in (MASK, other))
    of_all, of_some, of_others = (
        make(small_dataset, 5, **how) for how in ({}, {"rows": MASK}, {"rows": other})
    )
    cases = [
        (of_all, of_some, "all 103 rows", f"{hash_} with 35 rows"),
        (of_some, of_all, f"{hash_} with 35 rows", "all 103 rows"),
        (of_some, of_others, f"{hash_} with 35 rows", f"{other_hash} with 67 rows"),
    ]
    for stated, own, found, expected in cases:
        before = own.state_dict()
        with pytest.raises(fr.StateError) as raised:
            own.load_state_dict(next(iter(stated)).state_dict())
        said = f"the state is of another selection of rows: {found}, this one is {expected}"
        said += ": name the same rows= and filter= as then, and the same unit= if it counted"
        said += " sequences or bins; here are rows"
        assert str(raised.value) == said
        assert own.state_dict() == before
        with pytest.raises(fr.StateError, match="another selection of rows"):
            own.batch_at(0, 0, state=stated.state_dict())
        with pytest.raises(fr.StateError, match="another selection of rows"):
            fr.Cursor.from_state(stated.state_dict()).remaining(own)


@pytest.mark.law(9)
def test_states_of_two_selections_are_not_merged(small_dataset: Dataset) -> None:
    states = [next(iter(make(small_dataset, 5, rows=rows))).state_dict() for rows in (MASK, ~MASK)]
    with pytest.raises(
        fr.StateError, match=r"selection of rows .* with 35 rows and selection of rows .* with 68"
    ):
        fr.Cursor.merge(states)


@each_of("value", [17, ["x"], {}, True])
def test_a_selection_that_is_no_text_is_damage(small_dataset: Dataset, value: Any) -> None:
    fields = fields_of(make(small_dataset, 5, rows=MASK).state_dict())
    with pytest.raises(fr.StateError, match="damaged state"):
        fr.Cursor.from_state({"fastresume": oracle.checked({**fields, "selection": value})})


def test_the_hash_of_a_selection_is_the_golden_one(small_dataset: Dataset) -> None:
    entries = [entry for entry in GOLDEN["hashes"] if entry["rows"] and entry["rows"][-1][1] <= 103]
    assert len(entries) > 4
    for entry in entries:
        dataset = make(small_dataset, 1, rows=entry["rows"])
        assert fields_of(dataset.state_dict())["selection"] == entry["hash"]


@each_of("kind", [list, np.array, np.uint16, torch.tensor])
def test_rows_by_their_numbers_are_those_of_a_mask(small_dataset: Dataset, kind: Any) -> None:
    chosen = [0, 1, 2, 7, 9, 10, 64, 101, 102]
    mask = np.isin(np.arange(103), chosen)
    by_number, by_mask = make(small_dataset, 1, rows=kind(chosen)), make(small_dataset, 1, rows=mask)
    assert by_number.state_dict() == by_mask.state_dict()
    assert [batch.rows().tolist() for batch in by_number] == [[row] for row in chosen]


def test_a_split_is_joined_by_operators_and_not_by_words() -> None:
    """`split and others` would be the others alone: the rows that were held out, among them."""
    split, some = fr.Split(0.0, 0.8), fr.Intervals([[0, 10]])
    for joined in (lambda: split and ~some, lambda: some or split, lambda: not (split & some)):
        with pytest.raises(TypeError, match="has no truth of its own: write &"):
            joined()
