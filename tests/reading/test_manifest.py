"""Which files a dataset has, in which order, and the fingerprint of them."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import oracle
from support.each_of import each_of
from support.row_files import Write, one_rank, rows_of, write_rows
from support.strategies import ColumnSpec, Dataset, DatasetSpec, dataset_specs, plain_spec, written


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


@each_of("pattern", ["**", "**/*", "*", "**/*.parquet", "../data/**/*"])
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


OTHERS: dict[str, tuple[dict[str, bytes], str]] = {
    "CSV": (
        {"1.csv": b"a,b\n1,2\n", "2.csv": b"", "x.lock": b""},
        "2 .csv files, 1 .lock file; '1.csv' look",
    ),
    "CSV below": ({"day=1/1.csv": b"a,b\n1,2\n"}, "'day=1/1.csv' looks like CSV text: write it as Parquet f"),
    "a lock": ({"a.lock": b""}, "it has 1 .lock file$"),
    "packed": ({"a.gz": b"\x1f\x8b"}, "'a.gz' looks like a gzip file: unpack it first"),
    "nothing": ({}, ", which has no file at all"),
    "a mark": ({"_SUCCESS": b""}, "it has no file but '_SUCCESS': the job that wrote it left no rows here"),
    "a job that runs": (
        {"_temporary/0/a.parquet": b"PAR1", "_temporary/0/b.parquet": b"PAR1"},
        "_temporary' has 2 such files: the job that writes them is not done, or failed",
    ),
    "many kinds": (
        {f"{kind}.{kind}": b"" for kind in "abcde"},
        "1 .b file, 1 .c file, and 2 more$",
    ),
}


@each_of("what", OTHERS)
def test_what_a_directory_without_parquet_has_is_counted_by_kind(tmp_path: Path, what: str) -> None:
    files, words = OTHERS[what]
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    with pytest.raises(fr.SourceError, match=words) as caught:
        one_rank(tmp_path)
    assert " Write '" not in str(caught.value), "nothing there can be read"


@each_of("name", ["part-00000", "a.pq", "day=1/b.parq", "_a.parquet", "day=1/.a.parquet", "_old/a.parquet"])
def test_what_is_advised_for_parquet_under_another_name_reads_it(tmp_path: Path, name: str) -> None:
    write_rows(tmp_path / "data" / name, 3)
    with pytest.raises(fr.SourceError) as caught:
        one_rank(tmp_path / "data")
    (pattern,) = re.findall(r"[wW]rite '(.*?)' to read", str(caught.value))
    assert rows_of(one_rank(pattern)) == [0, 1, 2]


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
