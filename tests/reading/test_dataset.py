"""What a dataset is and gives: its files, its schema, and every batch, against the oracle."""

from __future__ import annotations

import copy
import fnmatch
import itertools
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.jobs import Job, assert_batch_values, assert_same_batch, parallel
from support.strategies import (
    ROW_NUMBERS,
    TYPES,
    ColumnSpec,
    Dataset,
    DatasetSpec,
    dataset_specs,
    plain_spec,
    topologies,
    written,
)

Write = Callable[[DatasetSpec], Dataset]


def one_rank(paths: object, batch_size: int = 1, **arguments: object) -> fr.ParquetDataset:
    return fr.ParquetDataset(paths, batch_size=batch_size, **parallel(), **arguments)  # type: ignore[arg-type]


def write_rows(path: Path, rows: int = 1, *, start: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({ROW_NUMBERS: pa.array(range(start, start + rows), pa.int64())}), path)
    return path


def rows_of(dataset: fr.ParquetDataset) -> list[int]:
    return [row for batch in dataset for row in batch[ROW_NUMBERS].tolist()]


# ------------------------------------------------------------------------------------------------ every batch


@pytest.mark.law(1)
@pytest.mark.law(8)
@given(dataset_specs(min_rows=1), st.data())
def test_every_batch_of_every_rank_is_the_oracles(spec: DatasetSpec, data: st.DataObject) -> None:
    workers = st.sampled_from((0, 0, 1, 2, 3))
    topology = data.draw(topologies(rows=spec.num_rows, named=False, workers=workers))
    with written(spec) as dataset:
        job = Job(dataset, topology)
        steps = job.run_pass()
        delivered = [row for step in steps for batch in step for row in batch]
        assert sorted(delivered + job.oracle.dropped[0]) == list(range(spec.num_rows))
        assert len(steps) == len(job.ranks[0].dataset)
        for _ in range(2):  # and the next pass begins at its start
            job.step()


@pytest.mark.parametrize("fill", ["count", "bits", "extremes"])
def test_every_type_comes_out_bit_for_bit(write_dataset: Write, fill: str) -> None:
    columns = [ColumnSpec(f"c{i}", type_, fill=fill, seed=i) for i, type_ in enumerate(TYPES)]
    dataset = write_dataset(plain_spec([30, 0, 12], [25], columns=columns))
    table = oracle.read_table(dataset.directory)
    batches = list(one_rank(dataset.directory, batch_size=67))
    assert len(batches) == 1
    assert_batch_values(batches[0], table)


def test_each_type_has_torchs_dtype_of_that_name_and_times_are_int64(write_dataset: Write) -> None:
    columns = [ColumnSpec(type_, type_) for type_ in TYPES]
    schema = one_rank(write_dataset(plain_spec([1], columns=columns)).directory).schema
    for type_ in TYPES:
        is_time = type_.startswith(("date", "time"))
        assert schema[type_].dtype == (torch.int64 if is_time else getattr(torch, type_)), type_


def test_columns_that_can_hold_nulls_but_hold_none_are_read(write_dataset: Write) -> None:
    columns = [ColumnSpec("a", nullable=True), ColumnSpec("b", nullable=False)]
    (batch,) = one_rank(write_dataset(plain_spec([9], columns=columns)).directory, batch_size=9)
    assert batch["a"].tolist() == batch["b"].tolist() == list(range(9))


def test_files_and_groups_without_rows_move_no_row_number(write_dataset: Write) -> None:
    dataset = write_dataset(plain_spec([], [0], [3, 0, 0, 2], [0, 0], [], [4], [0]))
    read = one_rank(dataset.directory, batch_size=2)
    assert read.num_rows == 9
    assert len(read.files) == 7
    assert [batch.rows().tolist() for batch in read] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_a_batch_spans_files_and_groups(write_dataset: Write) -> None:
    dataset = write_dataset(plain_spec(*[[1, 1, 1]] * 5))
    (batch,) = one_rank(dataset.directory, batch_size=15)
    assert batch[ROW_NUMBERS].tolist() == batch.rows().tolist() == list(range(15))


def test_tensors_are_the_users_own(small_dataset: Dataset) -> None:
    dataset = one_rank(small_dataset.directory, batch_size=50)
    first, second = list(dataset)
    for tensor in first.values():
        tensor.zero_()
    again, _ = list(dataset)
    assert again.rows().tolist() == first.rows().tolist()
    assert again[ROW_NUMBERS].tolist() == list(range(50))
    assert second[ROW_NUMBERS].tolist() == list(range(50, 100))


def test_row_numbers_are_int64(small_dataset: Dataset) -> None:
    batch = next(iter(one_rank(small_dataset.directory, batch_size=7)))
    assert batch.rows().dtype == np.int64
    assert batch.rows().shape == (7,)


def test_a_batch_size_over_all_ranks_is_shared_by_them(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, global_batch_size=12, **parallel(1, 4))
    assert (dataset.batch_size, dataset.global_batch_size, len(dataset)) == (3, 12, 103 // 12)
    with pytest.raises(ValueError, match=r"global_batch_size 13 can't be shared .* 4 ranks.* 12 and 16"):
        fr.ParquetDataset(small_dataset.directory, global_batch_size=13, **parallel(1, 4))


# ------------------------------------------------------------------------------------------------- projection

NAMES = ("i_1", "i_2", "i_10", "c_1", "c_2", "label", "x[0]", "I_1")


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Columns of one type with telling names."""
    columns = [ColumnSpec(name, "int32", fill="bits", seed=i) for i, name in enumerate(NAMES)]
    return plain_spec([10, 4], [9], columns=columns).write(tmp_path_factory.mktemp("wide"))


def expand(patterns: list[str], among: list[str]) -> list[str]:
    """The columns that names and globs mean: in the order of the patterns, each once."""
    found = []
    for pattern in patterns:
        found += [pattern] if pattern in among else [n for n in among if fnmatch.fnmatchcase(n, pattern)]
    return list(dict.fromkeys(found))


patterns_of_wide = st.lists(
    st.sampled_from((*NAMES, "i_*", "c_?", "*_1", "[il]*", "*", "row", "i_1*")), min_size=1, max_size=4
)


@given(patterns=patterns_of_wide)
def test_columns_are_projected_by_names_and_globs_in_the_order_asked(
    wide: Dataset, patterns: list[str]
) -> None:
    table = oracle.read_table(wide.directory)
    wanted = expand(patterns, list(table))
    dataset = one_rank(wide.directory, batch_size=11, columns=patterns)
    assert list(dataset.schema) == wanted
    for number, batch in enumerate(dataset):
        rows = slice(11 * number, 11 * number + 11)
        assert_batch_values(batch, {name: table[name][rows] for name in wanted})


@given(
    columns=st.none() | patterns_of_wide,
    stacks=st.dictionaries(st.sampled_from(("dense", "s")), st.permutations(NAMES)),
    data=st.data(),
)
def test_stacked_columns_are_one_matrix_behind_the_others(
    wide: Dataset, columns: list[str] | None, stacks: dict[str, list[str]], data: st.DataObject
) -> None:
    table = oracle.read_table(wide.directory)
    wanted = list(table) if columns is None else expand(columns, list(table))
    free = [name for name in wanted if name != ROW_NUMBERS]
    stack = {}
    for name in stacks:
        if free:
            count = data.draw(st.integers(1, len(free)))
            stack[name] = data.draw(st.permutations(free))[:count]
            free = [column for column in free if column not in stack[name]]
    taken = {column for members in stack.values() for column in members}
    expected = {name: table[name] for name in wanted if name not in taken}
    for name, members in stack.items():
        expected[name] = np.stack([table[column] for column in members], axis=1)
    dataset = one_rank(wide.directory, batch_size=23, columns=columns, stack=stack)
    for name, members in stack.items():
        field = dataset.schema[name]
        assert (field.shape, field.columns, field.is_stacked) == (("B", len(members)), tuple(members), True)
    (batch,) = dataset
    assert_batch_values(batch, expected)
    assert all(tensor.is_contiguous() for tensor in batch.values())


@pytest.mark.parametrize("type_", TYPES)
def test_any_type_can_be_stacked(write_dataset: Write, type_: str) -> None:
    columns = [ColumnSpec(f"c{i}", type_, fill="bits", seed=i) for i in range(3)]
    dataset = write_dataset(plain_spec([5, 2], [6], columns=columns))
    table = oracle.read_table(dataset.directory)
    (batch,) = one_rank(dataset.directory, 13, columns=["c2", "c*"], stack={"all": "c*"})
    assert_batch_values(batch, {"all": np.stack([table[f"c{i}"] for i in (2, 0, 1)], axis=1)})


def test_columns_that_are_one_dtype_in_a_tensor_can_be_stacked(write_dataset: Write) -> None:
    columns = [ColumnSpec("day", "date32"), ColumnSpec("at", "timestamp[us]"), ColumnSpec("n", "int64")]
    dataset = write_dataset(plain_spec([6], columns=columns))
    (batch,) = one_rank(dataset.directory, 6, stack={"times": ["n", "at", "day"]})
    assert batch["times"].tolist() == [[i, i, i] for i in range(6)]
    assert list(batch) == [ROW_NUMBERS, "times"]


def test_one_stacked_column_is_a_matrix(wide: Dataset) -> None:
    batch = next(iter(one_rank(wide.directory, 4, columns="label", stack={"dense": "label"})))
    assert batch["dense"].shape == (4, 1)
    assert list(batch) == ["dense"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"columns": ["label", "lable"]}, fr.DataError, "no column matches 'lable'; there are: row, i_1"),
        ({"columns": "z_*"}, fr.DataError, "no column matches 'z_\\*'"),
        ({"columns": []}, ValueError, "no column is selected"),
        ({"columns": "i_*", "stack": {"s": "c_*"}}, fr.DataError, "in the stack 's': no column matches 'c_"),
        ({"stack": {"s": []}}, ValueError, "the stack 's' names no column"),
        ({"stack": {"s": ["row", "i_1"]}}, fr.DataError, "stack 's' .*'row' is int64, 'i_1' is int32"),
        ({"stack": {"a": "i_1", "b": "i_*"}}, ValueError, "'i_1' is in the stacks 'a' and 'b'"),
        ({"stack": {"label": "i_*"}}, ValueError, "'label' stands for two tensors"),
        ({"columns": 5}, TypeError, "columns"),
        ({"columns": [5]}, TypeError, "columns must hold strings, found 5"),
        ({"stack": ["i_*"]}, TypeError, "stack must be a mapping"),
        ({"stack": {1: "i_*"}}, TypeError, "stack must hold strings, found 1"),
        ({"on_iter": "again"}, ValueError, "on_iter must be 'continue' or 'restart', found 'again'"),
        ({"shuffle": 1}, TypeError, "shuffle must be True or False, found 1"),
        ({"shuffle": True, "seed": -1}, ValueError, "seed must be at least 0, found -1"),
        ({"shuffle": True, "seed": 2**53}, ValueError, "seed must be below"),
        ({"shuffle": True, "seed": 1.0}, TypeError, "seed must be an integer, found 1.0"),
        ({"shuffle": True, "block_rows": 0}, ValueError, "block_rows must be at least 1, found 0"),
        ({"shuffle": True, "block_rows": 9, "window_rows": 8}, ValueError, "block_rows 9, window_rows 8"),
        ({"window_rows": 8}, ValueError, "pass shuffle=True"),
        ({"tail": "keep"}, ValueError, "tail must be 'drop' or 'short' or 'pad', found 'keep'"),
        ({"tail": ["drop"]}, ValueError, "tail must be"),
        ({"lanes": 0}, ValueError, "lanes must be at least 1, found 0"),
        ({"lanes": 4}, ValueError, "batch_size 2 is not a multiple of 4, .*the nearest: 4"),
        ({"lanes": 3, "groups": 2}, ValueError, "lanes 3 is not a multiple of 2.*the nearest: 2 and 4"),
        ({"lanes": 1, "groups": 2}, ValueError, "groups must be 1, found 2"),
        ({"groups": 2.0}, TypeError, "groups must be an integer, found 2.0"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, found 0"),
        ({"batch_size": -1}, ValueError, "batch_size must be at least 1, found -1"),
        ({"batch_size": 2.0}, TypeError, "batch_size must be an integer, found 2.0"),
        ({"batch_size": True}, TypeError, "batch_size must be an integer, found True"),
        ({"batch_size": "2"}, TypeError, "batch_size must be an integer, found '2'"),
        (
            {"batch_size": None},
            TypeError,
            "one of batch_size and global_batch_size must be given, found neither",
        ),
        ({"global_batch_size": 4}, TypeError, "one of batch_size .* must be given, found both, 2 and 4"),
        ({"batch_size": 24}, ValueError, "no batch would come from 23 rows: a global batch has 24"),
        ({"batch_size": 2**60}, ValueError, "batch_size"),
        ({"rank": 1, "world_size": 1}, ValueError, "rank 1 is not in \\[0, 1\\)"),
        ({"rank": -1, "world_size": 1}, ValueError, "rank -1 is not in \\[0, 1\\)"),
        ({"rank": 0, "world_size": 0}, ValueError, "world_size must be at least 1, found 0"),
        ({"rank": 0}, TypeError, "rank and world_size come together"),
        ({"world_size": 2}, TypeError, "rank and world_size come together"),
        ({"rank": 0, "world_size": 1, "world": fr.World(0, 1)}, TypeError, "not both"),
        ({"world": 3}, TypeError, "world must be a World"),
        ({"rank": 0.5, "world_size": 2}, TypeError, "rank"),
        ({"rank": 0, "world_size": 2.0}, TypeError, "world_size"),
    ],
)
def test_what_is_asked_wrongly_is_refused_by_name(
    wide: Dataset, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        fr.ParquetDataset(wide.directory, **{"batch_size": 2, **arguments})  # type: ignore[arg-type]


def test_arguments_after_the_first_are_given_by_name(wide: Dataset) -> None:
    with pytest.raises(TypeError):
        fr.ParquetDataset(wide.directory, 4)  # type: ignore[misc]


def test_columns_may_stand_in_another_order_in_another_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": [1.5, 2.5]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"b": [3.5], "a": [3]}), tmp_path / "1.parquet")
    (batch,) = one_rank(tmp_path, 3)
    assert batch["a"].tolist() == [1, 2, 3]
    assert batch["b"].tolist() == [1.5, 2.5, 3.5]
    assert list(batch) == ["a", "b"]


def test_columns_that_nobody_asked_for_may_differ_between_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2], "b": ["x", "y"]}), tmp_path / "0.parquet")
    pq.write_table(pa.table({"c": [[1]], "a": [3]}), tmp_path / "1.parquet")
    (batch,) = one_rank(tmp_path, 3, columns="a")
    assert batch["a"].tolist() == [1, 2, 3]


# ----------------------------------------------------------------------------------------------- the manifest


def test_a_directory_means_the_parquet_files_below_it_that_somebody_meant(tmp_path: Path) -> None:
    meant = ["Z.parquet", "a-b/x.parquet", "a.parquet", "a/b/c.parquet", "a/x.parquet", "day=1/é ü.parquet"]
    for start, name in enumerate(meant):
        write_rows(tmp_path / name, start=start)
    for name in ("_SUCCESS", "a.parquet.crc", ".a.parquet.crc", "notes.txt", "a/_metadata", "b.parquet.tmp"):
        (tmp_path / name).write_bytes(b"not Parquet")
    for name in (".hidden.parquet", "_tmp.parquet", "_temporary/0/p.parquet", ".cache/p.parquet"):
        write_rows(tmp_path / name)
    (tmp_path / "x.parquet").mkdir()
    dataset = one_rank(tmp_path)
    assert list(dataset.files) == [str(tmp_path / name) for name in meant]
    assert rows_of(dataset) == list(range(len(meant)))


@given(spec=dataset_specs(min_rows=1, max_columns=0, max_files=8))
def test_files_come_in_canonical_order(spec: DatasetSpec) -> None:
    with written(spec) as dataset:
        read = one_rank(dataset.directory)
        assert list(read.files) == [str(file) for file in oracle.canonical_files(dataset.directory)]
        assert rows_of(read) == list(range(spec.num_rows))


@given(spec=dataset_specs(min_rows=1, max_columns=0, max_files=6), data=st.data())
def test_the_order_of_the_arguments_means_nothing(spec: DatasetSpec, data: st.DataObject) -> None:
    with written(spec) as dataset:
        named = one_rank(data.draw(st.permutations(dataset.files)))
        whole = one_rank(dataset.directory)
        assert named.files == whole.files
        assert named.fingerprint == whole.fingerprint
        assert named.state_dict() == whole.state_dict()


def test_paths_may_be_strings_paths_lists_globs_and_relative(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, files = small_dataset.directory, small_dataset.files
    monkeypatch.chdir(directory.parent)
    spellings = [
        directory,
        str(directory),
        f"{directory}/",
        [directory],
        (directory,),
        list(files),
        [str(file) for file in files],
        [files[1], directory / "part-00[02].parquet"],
        f"{directory}/*.parquet",
        f"{directory}/*",
        f"{directory}/part-???.parquet",
        f"{directory}/**/*.parquet",
        directory / "*.parquet",
        directory.name,
        f"./{directory.name}/../{directory.name}",
        f"{directory.name}/*.parquet",
        f"{directory.name[:-1]}[0-9]/part-*",
    ]
    for spelling in spellings:
        dataset = one_rank(spelling)
        assert dataset.files == tuple(map(str, files)), spelling
        assert dataset.fingerprint == one_rank(directory).fingerprint


@pytest.mark.parametrize("pattern", ["**", "**/*", "*", "**/*.parquet", "../data/**/*"])
def test_a_glob_that_meets_directories_and_their_files_names_each_file_once(
    tmp_path: Path, pattern: str
) -> None:
    for start, name in enumerate(["a.parquet", "sub/b.parquet", "sub/deep/c.parquet", "z.parquet"]):
        write_rows(tmp_path / "data" / name, start=start)
    assert rows_of(one_rank(tmp_path / "data" / pattern)) == [0, 1, 2, 3]


def test_a_named_file_means_itself_whatever_its_name(tmp_path: Path) -> None:
    names = ["_hidden", ".dot", "data.bin", "part*0", "x.parquet"]
    files = [write_rows(tmp_path / name, 1, start=i) for i, name in enumerate(sorted(names))]
    for row, file in enumerate(files):
        assert rows_of(one_rank(file)) == [row]
    assert rows_of(one_rank(files)) == list(range(5))


def test_a_glob_leaves_out_what_nobody_meant_unless_it_is_spelled_out(tmp_path: Path) -> None:
    write_rows(tmp_path / "a.parquet", start=0)
    write_rows(tmp_path / "_b.parquet", start=1)
    write_rows(tmp_path / "_c" / "c.parquet", start=2)
    (tmp_path / ".a.parquet.crc").write_bytes(b"crc")
    (tmp_path / "a.parquet.crc").write_bytes(b"crc")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "x.parquet").mkdir()
    assert rows_of(one_rank(tmp_path / "*")) == [0]
    assert rows_of(one_rank(tmp_path / "**" / "*.parquet")) == [0]
    assert rows_of(one_rank(tmp_path / "_*.parquet")) == [1]
    assert rows_of(one_rank(tmp_path / "_c" / "*.parquet")) == [2]


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    real = write_rows(tmp_path / "elsewhere" / "blob-77", 3)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.parquet").symlink_to(real)
    write_rows(tmp_path / "data" / "b.parquet", 2, start=3)
    dataset = one_rank(tmp_path / "data")
    assert [Path(file).name for file in dataset.files] == ["a.parquet", "b.parquet"]
    assert rows_of(dataset) == [0, 1, 2, 3, 4]


def test_the_same_file_twice_is_an_error_that_names_it(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "a.parquet")
    other = write_rows(tmp_path / "b.parquet")
    link = tmp_path / "link.parquet"
    link.symlink_to(file)
    for paths in ([file, file], [file, tmp_path / "." / "a.parquet"], [file, link], tmp_path):
        with pytest.raises(ValueError, match=r"the same file twice: .*a\.parquet"):
            one_rank(paths)
    link.unlink()
    for paths in ([tmp_path, other], [f"{tmp_path}/*.parquet", tmp_path]):
        with pytest.raises(ValueError, match="the same file twice"):
            one_rank(paths)
    assert rows_of(one_rank(tmp_path)) == [0, 0]


def test_a_directory_with_nothing_meant_and_a_glob_without_match_are_errors(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "x.parquet").mkdir()
    for paths in (tmp_path, tmp_path / "x.parquet", tmp_path / "*.parquet", tmp_path / "no.parquet"):
        with pytest.raises(fr.SourceError, match=str(paths).replace("*", r"\*")):
            one_rank(paths)
    with pytest.raises(ValueError, match="no path is given"):
        one_rank([])
    with pytest.raises(TypeError, match="paths must hold strings, found 3"):
        one_rank([3])


def test_the_fingerprint_moves_with_the_dataset_and_so_does_a_state(
    tmp_path: Path, write_dataset: Write
) -> None:
    spec = DatasetSpec(plain_spec([4], [0, 5]).files)
    here = write_dataset(spec)
    dataset = one_rank(here.directory, 2)
    first = next(iter(dataset))
    moved = tmp_path / "far" / "away"
    shutil.copytree(here.directory, moved)
    os.utime(moved / "part-000.parquet", (1, 1))
    there = one_rank(moved, 2)
    assert there.fingerprint == dataset.fingerprint
    there.load_state_dict(first.state_dict())
    assert [batch.rows().tolist() for batch in there] == [[2, 3], [4, 5], [6, 7]]


def test_the_fingerprint_tells_datasets_apart(tmp_path: Path, write_dataset: Write) -> None:
    one = plain_spec([4], [5])
    variants = {
        "as it is": one,
        "rows split in another way": plain_spec([5], [4]),
        "another split into groups": plain_spec([2, 2], [5]),
        "an empty file more": plain_spec([4], [5], []),
        "one file less": plain_spec([4]),
        "another codec": plain_spec([4], [5], codec="zstd"),
        "a column more": plain_spec([4], [5], columns=[ColumnSpec("a")]),
    }
    prints = {name: one_rank(write_dataset(spec).directory).fingerprint for name, spec in variants.items()}
    renamed = write_dataset(one).directory
    (renamed / "part-001.parquet").rename(renamed / "part-1.parquet")
    prints["another name"] = one_rank(renamed).fingerprint
    swapped = write_dataset(one).directory
    for old, new in (("part-000", "x"), ("part-001", "part-000"), ("x", "part-001")):
        (swapped / f"{old}.parquet").rename(swapped / f"{new}.parquet")
    prints["files that changed places"] = one_rank(swapped).fingerprint
    longer = write_dataset(one).directory / "part-001.parquet"
    footer = longer.read_bytes()
    longer.write_bytes(footer[:4] + b"\0" + footer[4:])  # another size, the same footer
    prints["another size"] = one_rank(longer.parent).fingerprint
    assert len(set(prints.values())) == len(prints)
    assert one_rank(write_dataset(one).directory).fingerprint == prints["as it is"]
    assert all(len(text) == 32 and int(text, 16) >= 0 for text in prints.values())


def test_a_state_does_not_care_what_is_written_beside_the_files(write_dataset: Write) -> None:
    directory = write_dataset(plain_spec([20, 13])).directory
    state = next(iter(one_rank(directory, 10))).state_dict()
    (directory / "_SUCCESS").touch()
    (directory / "part-000.parquet.crc").touch()
    again = one_rank(directory, 10)
    again.load_state_dict(state)
    assert next(iter(again)).rows()[0] == 10


# ------------------------------------------------------------------------------------- what it says of itself


def test_the_schema_prints_as_a_table(small_dataset: Dataset) -> None:
    schema = one_rank(small_dataset.directory, columns=["label", "at", "i_*"], stack={"dense": "i_*"}).schema
    assert repr(schema) == "label: bool [B]\nat: int64 [B] timestamp[us]\ndense: float32 [B, 2] i_1, i_2"
    assert list(schema) == ["label", "at", "dense"]
    assert len(schema) == 3
    assert "dense" in schema
    assert "i_1" not in schema


def test_the_schema_is_what_the_batches_are(small_dataset: Dataset) -> None:
    dataset = one_rank(small_dataset.directory, 20, stack={"dense": "i_*", "sparse": ["c_2", "c_1"]})
    for batch in dataset:
        assert list(batch) == list(dataset.schema)
        for name, field in dataset.schema.items():
            assert batch[name].dtype == field.dtype
            assert tuple(batch[name].shape) == tuple(20 if size == "B" else size for size in field.shape)


def test_lengths_and_counts(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10, **parallel(1, 2))
    loader = fr.Loader(dataset, threads=1)
    assert dataset.num_rows == 103
    assert len(dataset) == len(loader) == 5
    for epoch in range(2):
        for done, _ in enumerate(loader, start=1):
            left = 5 - done or 5  # after the last batch the next pass is the present one
            assert dataset.batches_left == loader.batches_left == left
            assert dataset.epoch == loader.epoch == epoch + (done == 5)
            assert len(dataset) == len(loader) == 5
    assert loader.epoch == 2


def test_the_reprs_say_what_it_is(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=10, **parallel(1, 2))
    next(iter(dataset))
    text = (
        "ParquetDataset(3 files, 103 rows, 7 tensors, sequential, batch_size=10, rank 1 of 2, epoch 0, "
        "4 batches left)"
    )
    assert repr(dataset) == text
    loader = fr.Loader(dataset, threads=2, prefetch_bytes=5)
    assert repr(loader) == f"Loader({text}, threads=2, prefetch_bytes=5; {loader.stats()!r})"


def test_the_files_are_opened_when_batches_are_wanted(small_dataset: Dataset) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    datasets = [one_rank(small_dataset.directory, 10) for _ in range(8)]
    iterators = [iter(dataset) for dataset in datasets]
    # One shared cursor each, and no file.
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 8
    del datasets, iterators


def test_a_pickled_or_copied_dataset_goes_on_alone_from_the_cursor_of_the_moment(
    small_dataset: Dataset,
) -> None:
    dataset = one_rank(small_dataset.directory, 10, columns=["row", "i_*"], stack={"dense": "i_*"})
    rest = iter(dataset)
    next(rest)
    copies = [pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)]
    expected = list(rest)
    for other in copies:
        assert repr(other).startswith("ParquetDataset(3 files, 103 rows")
        assert repr(other.schema) == repr(dataset.schema)
        for one, two in zip(expected, other, strict=True):
            assert_same_batch(one, two)
    assert dataset.epoch == 1


@settings(max_examples=20)
@given(data=st.data())
def test_a_batch_keeps_its_cursor_through_what_is_done_to_it(
    small_dataset: Dataset, data: st.DataObject
) -> None:
    dataset = one_rank(small_dataset.directory, 13, stack={"dense": "i_*"})
    batch = next(itertools.islice(dataset, data.draw(st.integers(0, 6)), None))
    changed = batch
    changes = {
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
        "pickle": lambda batch: pickle.loads(pickle.dumps(batch)),
        "to": lambda batch: batch.to("cpu"),
        "convert": torch.utils.data.default_convert,
    }
    for name in data.draw(st.lists(st.sampled_from(sorted(changes)), min_size=1, max_size=4)):
        changed = changes[name](changed)
    assert type(changed) is fr.Batch
    assert_same_batch(changed, batch)
    changed["more"] = torch.ones(13)
    del changed["dense"]
    assert changed.state_dict() == batch.state_dict()


def test_a_copied_batch_is_another_mapping(small_dataset: Dataset) -> None:
    batch = next(iter(one_rank(small_dataset.directory, 5)))
    other = copy.copy(batch)
    other["weight"] = torch.ones(5)
    del other["label"]
    assert "weight" not in batch
    assert "label" in batch
    assert other["row"] is batch["row"]
    with pytest.raises(
        TypeError, match=r"keys of a batch are names, found slice\(None, 3, None\): slice its tensors"
    ):
        batch[:3]  # type: ignore[index]
    assert 3 not in batch
    with pytest.raises(KeyError, match="no tensor 'labl' in the batch; there are: row, label"):
        batch["labl"]
