"""Offsets of another reader, imported as a cursor."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume import _core
from support import oracle
from support.each_of import each_of
from support.jobs import fields_of, parallel
from support.strategies import Dataset, DatasetSpec, FileSpec, dataset_specs, plain_spec, written


def read(paths: object, batch_size: int = 1, **arguments: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(paths, batch_size=batch_size, **{**parallel(), **arguments})  # type: ignore[arg-type]


def tuples(intervals: np.ndarray) -> list[oracle.Interval]:
    assert intervals.dtype == np.int64
    assert intervals.shape == (len(intervals), 2)
    return [(start, end) for start, end in intervals.tolist()]


def import_offsets(offsets: Mapping[str, Any], dataset: fr.ParquetDataset) -> tuple[int, list[Any]]:
    """The passes done and the consumed intervals of the cursor that is made of offsets."""
    cursor = fr.Cursor.from_offsets(offsets, dataset, files=dataset.files)
    fields = fields_of(cursor.to_state())
    assert fields["cuts"] == []
    assert fields["first_epoch"] == 0
    assert fields["dataset"] == {"fingerprint": dataset.fingerprint, "rows": dataset.num_rows}
    consumed = [tuple(pair) for pair in fields["consumed"]]
    assert tuples(cursor.remaining()) == oracle.remaining(consumed, dataset.num_rows)
    dataset.load_state_dict(cursor)
    assert dataset.state_dict() == cursor.to_state()
    return fields["epoch"], consumed


@given(rows=st.integers(1, 60), data=st.data())
def test_offsets_of_the_whole_dataset_are_what_the_oracle_says(rows: int, data: st.DataObject) -> None:
    with written(plain_spec([rows // 2], [rows - rows // 2])) as files:
        dataset = read(files.directory)
        starts = data.draw(st.lists(st.integers(0, rows), max_size=5))
        offsets: dict[str, Any] = {
            f"{files.directory}:{start}": data.draw(st.integers(start - 1, rows - 1)) for start in starts
        }
        if data.draw(st.booleans()):
            offsets["__epochs_completed__"] = data.draw(st.integers(0, 5))
        offsets["version"] = "of the writer"  # no colon: ignored
        assert import_offsets(offsets, dataset) == oracle.offsets_consumed(offsets, rows)


def test_a_job_goes_on_after_its_imported_offsets(small_dataset: Dataset) -> None:
    path = str(small_dataset.directory)
    offsets = {f"{path}:0": 19, f"{path}:50": 69, "__epochs_completed__": 2}
    left = [*range(20, 50), *range(70, 103)]
    found = []
    for rank in range(3):
        dataset = read(small_dataset.directory, 3, **parallel(rank, 3))
        loader = fr.Loader(dataset, threads=1)
        loader.load_state_dict(fr.Cursor.from_offsets(offsets, dataset, files=dataset.files))
        assert (loader.epoch, loader.batches_left) == (2, 7)
        found += [row for batch in loader for row in batch.rows().tolist()]
    assert sorted(found) == left
    assert loader.epoch == 3


def test_rows_before_the_smallest_key_remain(small_dataset: Dataset) -> None:
    """A slice that had delivered nothing when the state was saved has no key; its rows are not lost."""
    dataset = read(small_dataset.directory)
    path = small_dataset.directory
    assert import_offsets({f"{path}:52": 60, f"{path}:80": 102}, dataset) == (0, [(52, 61), (80, 103)])


def test_a_fully_consumed_state_is_a_finished_pass(small_dataset: Dataset) -> None:
    dataset = read(small_dataset.directory)
    path = small_dataset.directory
    whole = {f"{path}:0": 51, f"{path}:52": 102}
    assert import_offsets(whole, dataset) == (1, [])
    assert import_offsets({**whole, "__epochs_completed__": 4}, dataset) == (5, [])
    assert (dataset.epoch, dataset.batches_left) == (5, 103)


def test_nothing_consumed_is_the_start(small_dataset: Dataset) -> None:
    dataset = read(small_dataset.directory)
    path = small_dataset.directory
    for offsets in ({}, {"__epochs_completed__": 0}, {f"{path}:0": -1}, {f"{path}:40": 39, "x": 1}):
        found = fr.Cursor.from_offsets(offsets, dataset, files=dataset.files)
        assert found.to_state() == read(path).state_dict()


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Files at two depths: a.parquet 10 rows, sub/b.parquet 20, sub/deep/c.parquet 5, z.parquet 3."""
    groups = {"a.parquet": 10, "sub/b.parquet": 20, "sub/deep/c.parquet": 5, "z.parquet": 3}
    spec = DatasetSpec(tuple(FileSpec(name, (rows,)) for name, rows in groups.items()))
    return spec.write(tmp_path_factory.mktemp("tree"))


@each_of(
    ("path", "first"),
    [
        ("{}", 0),
        ("{}/", 0),
        ("{}/a.parquet", 0),
        ("{}/sub", 10),
        ("{}/sub/", 10),
        ("{}/sub/b.parquet", 10),
        ("{}/sub/*.parquet", 10),
        ("{}/sub/deep", 30),
        ("{}/sub/*/*.parquet", 30),
        ("{}/z.parquet", 35),
        ("{}/sub/../z.parquet", 35),
        ("{}/./sub/b.parquet", 10),
        ("{}/[z].parquet", 35),
        ("{}/su?/b.parquet", 10),
        ("{}/**/*.parquet", 0),
    ],
)
def test_a_key_names_a_file_a_directory_or_a_glob_and_counts_its_rows(
    tree: Dataset, path: str, first: int
) -> None:
    dataset = read(tree.directory)
    name = path.format(tree.directory)
    assert import_offsets({f"{name}:1": 2}, dataset) == (0, [(first + 1, first + 3)])
    end = first + read(name).num_rows  # a key means the files that the path itself means
    with pytest.raises(fr.StateError, match=r"out of range"):
        fr.Cursor.from_offsets({f"{name}:0": end - first}, dataset, files=dataset.files)
    if end - first < 38:
        assert import_offsets({f"{name}:0": end - first - 1}, dataset) == (0, [(first, end)])


def test_a_star_in_a_key_does_not_reach_into_directories(tree: Dataset) -> None:
    """`*.parquet` means a.parquet and z.parquet, 13 rows: never rows of the directory between them."""
    dataset = read(tree.directory)
    assert import_offsets({f"{tree.directory}/*.parquet:0": 11}, dataset) == (0, [(0, 10), (35, 37)])


def test_a_key_may_be_relative_and_hold_colons(
    tree: Dataset, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tree.directory)
    for spelling in ("sub", "./sub", "sub/*.parquet"):
        assert import_offsets({f"{spelling}:3": 4}, read(tree.directory)) == (0, [(13, 15)])
    odd = tmp_path / "h:1" / "x:5.parquet"
    odd.parent.mkdir()
    odd.write_bytes(tree.files[0].read_bytes())
    assert import_offsets({f"{odd}:3": 4}, read(odd)) == (0, [(3, 5)])


def test_keys_name_the_dataset_as_it_was_named(tree: Dataset) -> None:
    pattern = f"{tree.directory}/**/*.parquet"
    assert import_offsets({f"{pattern}:3": 4}, read(pattern)) == (0, [(3, 5)])
    files = [str(file) for file in tree.files[1:3]]
    offsets = {f"{files[1]}:1": 2, f"{files[0]}:1": 2}
    assert import_offsets(offsets, read(files)) == (0, [(1, 3), (21, 23)])


@each_of(
    "key",
    ["{}/no.parquet:0", "{}/*.csv:0", "{}x:0", "/elsewhere:0", "hdfs://host:9000/a:0", ":0", "odps://p/t:0"],
)
def test_a_path_that_names_no_file_of_the_dataset_is_refused(tree: Dataset, key: str) -> None:
    path = key.format(tree.directory)
    with pytest.raises(fr.StateError) as caught:
        fr.Cursor.from_offsets({path: 3}, read(tree.directory))
    assert path.rpartition(":")[0] in str(caught.value)


@each_of(
    ("start", "last"),
    [
        ("0", 38),
        ("0", -2),
        ("5", 3),
        ("38", 38),
        ("39", 38),
        ("-1", 3),
        ("-1", -2),
        ("0", 2**63),
        ("0", -(2**63)),
        (str(2**64), 2**64),
        ("0", "9"),
        ("0", "x"),
        ("0", 9.0),
        ("0", True),
        ("0", None),
        ("0", [9]),
        ("x", 9),
        ("", 9),
        (" 0", 9),
        ("+0", 9),
        ("1_0", 12),
        ("0x1", 9),
        ("1.0", 9),
        ("٣", 9),
    ],
)
def test_offsets_that_are_no_rows_are_refused_by_name(tree: Dataset, start: str, last: object) -> None:
    dataset = read(tree.directory)
    before = dataset.state_dict()
    key = f"{tree.directory}:{start}"
    with pytest.raises(ValueError, match=r"."):
        oracle.offsets_consumed({key: last}, 38)
    with pytest.raises(fr.StateError) as caught:
        fr.Cursor.from_offsets({f"{tree.directory}:7": 9, key: last}, dataset, files=dataset.files)
    assert key in str(caught.value)
    assert dataset.state_dict() == before


@each_of("epochs", [-1, 2.0, "2", True, None, 2**53, 2**70])
def test_a_count_of_passes_that_is_none_is_refused_by_name(tree: Dataset, epochs: object) -> None:
    with pytest.raises(fr.StateError, match="__epochs_completed__"):
        fr.Cursor.from_offsets({"__epochs_completed__": epochs}, read(tree.directory))


def test_whatever_is_imported_can_be_saved_and_loaded(tree: Dataset) -> None:
    """Also the largest count of passes, and one pass more."""
    dataset = read(tree.directory)
    for epochs, last in ((2**53 - 1, 36), (2**53 - 2, 37), (2**53 - 1, 37)):
        try:
            offsets = {f"{tree.directory}:0": last, "__epochs_completed__": epochs}
            cursor = fr.Cursor.from_offsets(offsets, dataset, files=dataset.files)
        except fr.StateError:
            continue  # refused before anything was lost
        assert fr.Cursor.from_state(cursor.to_state()) == cursor


@each_of("nothing", [None, [], "{}", 3])
def test_what_is_no_mapping_is_refused(tree: Dataset, nothing: Any) -> None:
    with pytest.raises(fr.StateError, match="offsets"):
        fr.Cursor.from_offsets(nothing, read(tree.directory))


def test_numpys_integers_are_integers(tree: Dataset) -> None:
    assert import_offsets({f"{tree.directory}:1": np.int64(2)}, read(tree.directory)) == (0, [(1, 3)])


@given(spec=dataset_specs(min_rows=1, max_columns=0), data=st.data())
def test_offsets_of_single_files_count_from_their_first_rows(spec: DatasetSpec, data: st.DataObject) -> None:
    with written(spec) as files:
        dataset = read(files.directory)
        lengths = {file: int(np.sum(groups)) for file, groups in groups_of(files, spec).items()}
        starts = dict(zip(lengths, itertools.accumulate(lengths.values(), initial=0), strict=False))
        offsets, consumed = {}, []
        for file in data.draw(st.lists(st.sampled_from(sorted(lengths)), unique=True)):
            start = data.draw(st.integers(0, lengths[file]))
            last = data.draw(st.integers(start - 1, lengths[file] - 1))
            offsets[f"{file}:{start}"] = last
            consumed.append((starts[file] + start, starts[file] + last + 1))
        found = oracle.intervals_of(oracle.positions_of(consumed))
        whole = found == [(0, spec.num_rows)]
        assert import_offsets(offsets, dataset) == ((1, []) if whole else (0, found))


def groups_of(files: Dataset, spec: DatasetSpec) -> dict[Path, tuple[int, ...]]:
    by_path = {file.path: file.groups for file in spec.files}
    return {file: by_path[str(file.relative_to(files.directory))] for file in files.files}


def test_many_offsets_are_imported(tree: Dataset) -> None:
    """By the core; each key costs Python a look at its path."""
    offsets = {str(i): (i % 38, i % 38) for i in range(0, 400_000, 2)}
    cursor = _core.Cursor.from_offsets(read(tree.directory)._spec.manifest, 0, offsets)
    assert cursor.consumed_rows() == 19
    assert len(cursor.to_json()) < 1024


@pytest.mark.law(9)
def test_offsets_are_of_the_sequential_order_alone(small_dataset: Dataset) -> None:
    """They say nothing of positions in a shuffled order: nothing is silently skipped there."""
    offsets = {f"{small_dataset.directory}:0": 19}
    shuffled = read(small_dataset.directory, 10, shuffle=True, seed=3)
    before = shuffled.state_dict()
    with pytest.raises(fr.StateError, match=r"rows=Cursor\.rows_after_offsets\(offsets, dataset\)"):
        shuffled.load_state_dict(fr.Cursor.from_offsets(offsets, shuffled))
    plain = read(small_dataset.directory)
    with pytest.raises(fr.StateError, match="order"):
        shuffled.load_state_dict(fr.Cursor.from_offsets(offsets, plain, files=plain.files))
    assert shuffled.state_dict() == before


# ------------------------------------------------------------------- the writer's order, and files that moved


def other_reader(files: list[Path], slices: int, done: int) -> list[list[int]]:
    """The rows, by our numbers, that each slice of a reader has consumed which lists files in this order."""
    rows, first = {}, 0
    for file in sorted(files):
        count = pq.read_metadata(file).num_rows
        rows[file] = range(first, first + count)
        first += count
    theirs = [row for file in files for row in rows[file]]
    size = -(-len(theirs) // slices)
    return [theirs[start : start + size][:done] for start in range(0, len(theirs), size)]


@pytest.mark.law(1)
@given(data=st.data())
def test_rows_are_those_of_the_writers_order_of_files(tree: Dataset, data: st.DataObject) -> None:
    """Whatever order glob.glob() gave it: counted in our own, some rows came twice, and some never."""
    order = data.draw(st.permutations(tree.files))
    slices, done = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 12))
    found, size = other_reader(list(order), slices, done), -(-38 // slices)
    pattern = f"{tree.directory}/**/*.parquet"
    offsets = {f"{pattern}:{n * size}": n * size + len(rows) - 1 for n, rows in enumerate(found)}
    dataset = read(tree.directory)
    consumed = [row for rows in found for row in rows]
    cursor = fr.Cursor.from_offsets(offsets, dataset, files=order)
    left = oracle.remaining(oracle.intervals_of(consumed), 38)
    assert tuples(fr.Cursor.rows_after_offsets(offsets, dataset, files=order)) == left
    assert cursor.epoch == (0 if left else 1)
    if left:
        assert tuples(cursor.remaining()) == left
        dataset.load_state_dict(cursor)
        assert [row for batch in dataset for row in batch.rows().tolist()] == oracle.positions_of(left)


@pytest.mark.law(9)
def test_a_key_of_several_files_is_refused_without_their_order(tree: Dataset) -> None:
    dataset = read(tree.directory)
    for name in (str(tree.directory), f"{tree.directory}/*.parquet", f"{tree.directory}/sub"):
        for find in (fr.Cursor.from_offsets, fr.Cursor.rows_after_offsets):
            with pytest.raises(fr.StateError, match=r"means \d files, .* pass files=\[\.\.\.\] in that"):
                find({f"{name}:0": 3}, dataset)
    one = fr.Cursor.from_offsets({f"{tree.directory}/sub/deep:0": 3}, dataset)
    assert one.remaining().tolist() == [[0, 30], [34, 38]]


def test_files_without_rows_do_not_matter_to_the_order(small_dataset: Dataset) -> None:
    first, empty, _ = small_dataset.files
    dataset = read([first, empty])
    assert fr.Cursor.from_offsets({f"{first},{empty}:0": 3}, dataset).remaining().tolist() == [[4, 53]]


@pytest.mark.law(9)
def test_a_list_of_files_that_is_not_that_of_the_dataset_is_refused(tree: Dataset, tmp_path: Path) -> None:
    dataset = read(tree.directory)
    files = [str(file) for file in tree.files]
    other = tmp_path / "other.parquet"
    other.write_bytes(tree.files[0].read_bytes())
    for listed, words in (
        (files[:-1], r"means the file .*z\.parquet.*, which files= lacks"),
        ([*files, files[1]], r"files= names .*b\.parquet' twice"),
        ([*files, f"{tree.directory}/sub/./b.parquet"], "twice"),
        ([*files[:-1], str(other)], r"files= names .*other\.parquet.* names no rows of this dataset"),
        ([str(tree.directory)], r"files= names .* which is 4 files"),
        ([], "which files= lacks"),
    ):
        with pytest.raises(fr.StateError, match=words) as caught:
            fr.Cursor.from_offsets({f"{tree.directory}:0": 3}, dataset, files=listed)
        assert len(str(caught.value)) < 1000
    with pytest.raises(TypeError, match="paths must"):
        fr.Cursor.from_offsets({}, dataset, files=3)  # type: ignore[arg-type]


def test_paths_tell_where_directories_have_moved(tree: Dataset) -> None:
    dataset = read(tree.directory)
    old = "/mnt/old/day"
    files = [file.replace(str(tree.directory), old) for file in reversed(dataset.files)]
    for key in (old, f"{old}/", f"{old}/**/*.parquet"):
        moved = {old: str(tree.directory), "/mnt": "/elsewhere"}
        cursor = fr.Cursor.from_offsets({f"{key}:0": 4}, dataset, files=files, paths=moved)
        assert cursor.remaining().tolist() == [[0, 30], [32, 35]]  # z.parquet, and two rows of c.parquet
    moved = {f"{old}/a.parquet": dataset.files[0], "/mnt/ol": "/elsewhere"}
    assert fr.Cursor.from_offsets({f"{old}/a.parquet:0": 4}, dataset, paths=moved).consumed_rows == 5
    with pytest.raises(fr.StateError, match="/mnt/old/day"):
        fr.Cursor.from_offsets({f"{old}/a.parquet:0": 4}, dataset, paths={"/mnt/old/da": "/elsewhere"})
    with pytest.raises(TypeError, match="paths maps old paths to new ones"):
        fr.Cursor.from_offsets({}, dataset, paths=["/a"])  # type: ignore[arg-type]


@pytest.mark.law(1)
def test_a_shuffled_job_goes_on_with_the_rows_that_are_left(tree: Dataset) -> None:
    # In the writer's order z.parquet (rows 35 to 37), c (30 to 34), b (10 to 29), a (0 to 9).
    files = list(reversed(tree.files))
    offsets = {f"{tree.directory}:0": 14, f"{tree.directory}:30": 33}
    gone = {35, 36, 37, 30, 31, 32, 33, 34, *range(10, 17), *range(2, 6)}
    how = {"shuffle": True, "seed": 3, "tail": "pad"}
    rows = fr.Cursor.rows_after_offsets(offsets, read(tree.directory, **how), files=files)
    left = read(tree.directory, 3, rows=rows, **how)
    found = [row for batch in left for row in batch.rows()[batch.valid.numpy()].tolist()]
    assert sorted(found) == sorted({*range(38)} - gone)
    # Of a selection, what it holds of the rest.
    part = read(tree.directory, rows=[[0, 12]])
    of_part = fr.Cursor.rows_after_offsets(offsets, part, files=files)
    assert set(oracle.positions_of(of_part.tolist())) == set(found) & {*range(12)}
