"""Choosing rows: by a mask, by intervals, by a split; what is chosen is a dataset like any other."""

from __future__ import annotations

import gzip
import itertools
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume.records import selection_file
from golden import make_selections
from support import oracle
from support import thrift_writer as tw
from support.audits import ROWS, SHUFFLE, SPEC, Ranks, assert_proven, found_in
from support.jobs import FEWER, THREADS, data_loader, fields_of, make, make_reader, parallel
from support.strategies import (
    Dataset,
    DatasetSpec,
    Shuffle,
    dataset_specs,
    orders,
    plain_spec,
    selections,
    written,
)
from support.thrift_writer import OneColumn, data_page, int64s

GOLDEN = json.loads((Path(make_selections.__file__).parent / "selections.json").read_text())

SHUFFLED = Shuffle(17, 8, 20)
MASK = np.arange(103) % 3 == 0


def rows_delivered(dataset: fr.ParquetDataset | fr.Loader) -> list[int]:
    """The rows of a pass that count, in the order of delivery."""
    return [row for batch in dataset for row in batch.rows()[batch.valid.numpy()].tolist()]


# ----------------------------------------------------------------------------------------------------- naming


@pytest.mark.parametrize(
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
    ids=[
        "mask",
        "list",
        "tensor",
        "strided",
        "intervals",
        "int32, unsorted",
        "tensor of them",
        "overlapping",
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


def test_rows_to_skip_are_left_out(small_dataset: Dataset) -> None:
    bad = [[90, 103], [5, 7], [6, 20]]
    assert make(small_dataset, 5, skip=bad).selection.tolist() == [[0, 5], [20, 90]]
    assert make(small_dataset, 5, rows=[[0, 10], [80, 100]], skip=bad).selection.tolist() == [
        [0, 5],
        [80, 90],
    ]
    assert make(small_dataset, 5, skip=bad).num_rows == 75
    assert make(small_dataset, 5, skip=[]).selection is None


@pytest.mark.parametrize(
    "arguments",
    [
        {"rows": np.ones(103, np.bool_)},
        {"rows": [[0, 50], [50, 103]]},
        {"rows": fr.Split(0, 1)},
        {"skip": []},
        {"rows": [[0, 103]], "skip": np.empty((0, 2), np.int64)},
    ],
    ids=["mask", "intervals", "split", "skip", "both"],
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


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"rows": MASK[:-1]}, ValueError, r"a mask of rows must have the shape \[103\].*found \[102\]"),
        ({"rows": MASK[None]}, ValueError, r"found \[1, 103\]"),
        ({"rows": [[0, 104]]}, ValueError, "rows must lie in the 103 rows of the files, found one up to 104"),
        (
            {"skip": [[100, 200]]},
            ValueError,
            "skip must lie in the 103 rows of the files, found one up to 200",
        ),
        ({"rows": [[-1, 4]]}, ValueError, r"an interval is negative: \[-1, 4\)"),
        ({"rows": [[5, 4]]}, ValueError, r"an interval ends before it starts: \[5, 4\)"),
        ({"skip": [[5, 4]]}, ValueError, r"an interval ends before it starts: \[5, 4\)"),
        ({"rows": [3, 4, 5]}, ValueError, r"rows must be intervals, a boolean mask or a Split.*\[n, 2\]"),
        ({"rows": [[0.0, 4.0]]}, ValueError, "rows must be intervals.*found dtype float64"),
        ({"skip": MASK}, ValueError, r"skip must be intervals: .*\[n, 2\]"),
        ({"rows": [range(3, 9)]}, ValueError, r"rows must be intervals.*write \[3, 9\] for range\(3, 9\)"),
        ({"rows": [range(3, 5), range(7, 9)]}, ValueError, r"write \[3, 5\] for range\(3, 5\)"),
        ({"skip": (range(3, 5),)}, ValueError, r"write \[3, 5\] for range\(3, 5\)"),
        ({"rows": "x > 3"}, ValueError, "rows must be intervals, a boolean mask or a Split, found 'x > 3'"),
        ({"rows": 0.9}, ValueError, r"a Split, found 0\.9: write .*for each of the 103 rows, or fr\.Split\("),
        ({"rows": [1, 2, 3]}, ValueError, r"a Split, found \[1, 2, 3\]: write \[\[start, stop\], \.\.\.\]"),
        ({"rows": []}, ValueError, "no batch would come from 0 of 103 rows"),
        ({"rows": [[7, 11]]}, ValueError, "no batch would come from 4 of 103 rows: a global batch has 5"),
        ({"rows": fr.Split(0.3, 0.3)}, ValueError, "no batch would come from 0 of 103 rows"),
    ],
    ids=str,
)
def test_what_names_no_rows_is_refused(
    small_dataset: Dataset, arguments: Any, error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        make(small_dataset, 5, **arguments)


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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("shuffle", [None, SHUFFLED], ids=["sequential", "shuffled"])
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
    cursor = fr.Cursor.from_offsets({f"{dataset.paths[0]}:0": 31, f"{dataset.paths[0]}:50": 49}, dataset)
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


@pytest.mark.parametrize("value", [17, ["x"], {}, True])
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


# --------------------------------------------------------------------------------------- what is not selected

PAGE_ROWS = 10


def pages_with_damage(path: Path, damaged: set[int], count: int = 12) -> Path:
    """Write a file of one column whose pages have ten rows each, and some of them no sense."""
    bodies = [gzip.compress(int64s(PAGE_ROWS, PAGE_ROWS * page)) for page in range(count)]
    pages = [
        data_page(b"\xff" * len(body) if page in damaged else body, PAGE_ROWS, uncompressed=8 * PAGE_ROWS)
        for page, body in enumerate(bodies)
    ]
    OneColumn(pages, PAGE_ROWS * count, codec=tw.GZIP).write(path)
    return path


@pytest.mark.parametrize("shuffle", [None, Shuffle(17, 8, 20)], ids=["sequential", "shuffled"])
def test_pages_without_a_selected_row_are_not_decompressed(path: Path, shuffle: Shuffle | None) -> None:
    """A page that can't be decompressed lies in nobody's way; one row of it is an error."""
    order = {} if shuffle is None else shuffle.arguments
    pages_with_damage(path, {0, 3, 4, 7, 11})
    rows = np.array([[12, 13], [28, 30], [50, 52], [65, 70], [85, 87], [109, 110]])
    dataset = fr.ParquetDataset(path, batch_size=2, rows=rows, tail="short", **order, **parallel())
    expected = oracle.positions_of(rows.tolist())
    for reader in (dataset, fr.Loader(dataset, threads=2)):
        assert sorted(rows_delivered(reader)) == expected
    for row in (0, 30, 49, 79, 119):
        touched = fr.ParquetDataset(path, batch_size=1, rows=[[row, row + 1]], **order, **parallel())
        with pytest.raises(fr.DataError, match="page"):
            next(iter(touched))


def test_what_is_known_to_be_bad_is_skipped(path: Path) -> None:
    pages_with_damage(path, {2, 9})
    with pytest.raises(fr.DataError):
        rows_delivered(fr.ParquetDataset(path, batch_size=5, **parallel()))
    dataset = fr.ParquetDataset(path, batch_size=5, skip=[[20, 30], [90, 100]], **parallel())
    assert rows_delivered(dataset) == [*range(20), *range(30, 90), *range(100, 120)]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """5000 rows in two row groups of many pages, and their values; every seventh float is null."""
    path = tmp_path_factory.mktemp("many") / "x.parquet"
    rows = np.arange(5000)
    missing = rows % 7 == 3
    columns = {"row": rows, "a": rows % 11, "f": pa.array(rows / 8, pa.float32(), mask=missing)}
    pq.write_table(pa.table(columns), path, row_group_size=3000, max_rows_per_page=200, write_batch_size=100)
    return path, {"row": rows, "a": rows % 11, "f": np.where(missing, 0, rows / 8), "f_valid": ~missing}


@pytest.mark.parametrize("stack", [{}, {"both": ["row", "a"]}], ids=["columns", "stacked"])
@pytest.mark.parametrize("shuffle", [None, Shuffle(17, 700, 1500)], ids=["sequential", "shuffled"])
@pytest.mark.parametrize(
    "rows",
    [
        [[5, 6], [7, 9], [71, 74], [200, 300], [900, 901], [2998, 3001], [4999, 5000]],
        [[start, start + 1] for start in range(0, 5000, 2)],
        [[start, start + 1] for start in range(0, 5000, 64)],
        [[start, start + 2] for start in range(17, 4900, 65)],
        [[start, start + 1] for start in range(3, 4900, 66)],
        [[0, 1000], [1003, 5000]],
    ],
    ids=["some", "every second", "gaps of 63", "gaps of 63 and two", "gaps of 65", "one gap"],
)
def test_rows_with_gaps_of_any_size(
    many: tuple[Path, dict[str, np.ndarray]], rows: Any, shuffle: Shuffle | None, stack: Any
) -> None:
    """Small gaps are decoded along with the rows, large ones are passed over: one cannot tell."""
    path, values = many
    how = {"nulls": "mask", "stack": stack, **({} if shuffle is None else shuffle.arguments), **parallel()}
    for batch_size in (64, 999):
        dataset = fr.ParquetDataset(path, batch_size=batch_size, rows=rows, tail="pad", **how)
        assert sorted(rows_delivered(dataset)) == oracle.positions_of(rows)
        for batch in fr.Loader(dataset, threads=2):
            found = {name: tensor.numpy() for name, tensor in batch.items()}
            if stack:
                found["row"], found["a"] = found.pop("both").T
                del found["both_valid"]
            assert {name: found[name].tolist() for name in sorted(values)} == {
                name: values[name][batch.rows()].tolist() for name in sorted(values)
            }


@pytest.mark.parametrize("shuffle", [None, Shuffle(17, 700, 1500)], ids=["sequential", "shuffled"])
def test_a_null_between_selected_rows_is_no_error(
    many: tuple[Path, dict[str, np.ndarray]], shuffle: Shuffle | None
) -> None:
    """Nothing is asked of rows beside the selected ones; of those that are selected each null is named."""
    path, values = many
    order = {} if shuffle is None else shuffle.arguments
    dataset = fr.ParquetDataset(path, batch_size=50, rows=values["f_valid"], **order, **parallel())
    for batch in dataset:
        assert batch["f"].tolist() == values["f"][batch.rows()].tolist()
    mask = values["f_valid"].copy()
    mask[4805] = True
    assert 4805 % 7 == 3
    with pytest.raises(fr.DataError, match=r"row 1805 of the row group is null.*column 'f', row group 1"):
        rows_delivered(fr.ParquetDataset(path, batch_size=50, rows=mask, **order, **parallel()))


def test_row_groups_without_a_selected_row_are_not_read(tmp_path: Path) -> None:
    files = plain_spec([50, 50], [50]).write(tmp_path)
    rows = [[60, 70], [90, 100]]
    dataset = make(files, 10, rows=rows)
    files.files[1].unlink()
    assert rows_delivered(dataset) == oracle.positions_of(rows)


# -------------------------------------------------------------------------------------------------- the audit


@pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["sequential", "shuffled"])
def test_the_audit_proves_that_each_selected_row_came_once(tmp_path: Path, shuffle: Shuffle | None) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    rows = fr.Split(0.25, 0.9, seed=5)
    how = {"rows": rows, "skip": [[300, 420]], "shuffle": shuffle}
    ranks = Ranks(data, logs, 2, 10, **how)
    state = ranks.steps(7)
    ranks = Ranks(data, logs, 3, 5, state=state, tail="short", **how)
    ranks.steps(5)
    ranks.finish()
    said = assert_proven(logs, 1)
    selected = [row for row in oracle.positions_of(rows.rows(ROWS).tolist()) if not 300 <= row < 420]
    hash_ = oracle.selection_hash(selected)
    assert f"{len(selected)} rows in 3 files, selection {hash_[:16]}, " in said
    assert f"finished: {len(selected)} rows, each exactly once" in said


@pytest.mark.parametrize("damage", [None, b"", b"1234567", bytes(64), b"\xff" * 64], ids=str)
def test_the_audit_misses_the_description_of_a_selection(tmp_path: Path, damage: bytes | None) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    ranks = Ranks(data, logs, rows=fr.Split(0, 0.5))
    ranks.steps(3)
    ranks.finish()
    (path,) = logs.glob("selection-*")
    assert path.name == selection_file(fields_of(ranks.state)["selection"])
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(damage)
    assert "the description of the dataset or of its selection is missing or damaged" in found_in(logs)


@pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["sequential", "shuffled"])
def test_the_audit_knows_which_row_stands_at_a_position(tmp_path: Path, shuffle: Shuffle | None) -> None:
    """It needs them where a pass is unfinished, and where rows are dropped."""
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    ranks = Ranks(data, logs, 2, 10, rows=fr.Split(0.25, 0.9, seed=5), skip=[[300, 420]], shuffle=shuffle)
    ranks.finish()
    ranks.steps(9)
    said = assert_proven(logs, 1)
    assert "dropped by tail='drop'" in said
    assert "unfinished" in said
    assert "180 rows, each exactly once" in said


def test_the_audit_refuses_as_many_rows_that_are_others(tmp_path: Path) -> None:
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    Ranks(data, logs, rows=[[10, 110]]).steps(3)
    (path,) = logs.glob("selection-*")
    path.write_bytes(np.array([[11, 111]], "<i8").tobytes())
    assert "the description of the dataset or of its selection is missing or damaged" in found_in(logs)


def test_the_audit_finds_a_row_that_was_not_selected(tmp_path: Path) -> None:
    """Selected positions with rows beside the selection: the digests differ."""
    data, logs = tmp_path / "data", tmp_path / "logs"
    SPEC.write(data)
    ranks = Ranks(data, logs, 1, rows=[[0, 1000]])
    other = fr.ParquetDataset(data, rows=[[0, 999], [1001, 1002]], batch_size=10, rank=0, world_size=1)
    dataset = ranks.loaders[0].dataset
    own, dataset._manifest = dataset._manifest, other._manifest
    ranks.finish()
    dataset._manifest = own
    assert "the rows handed over are not those of the positions" in found_in(logs)
