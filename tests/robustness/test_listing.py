"""From paths to files: what can't be asked is an error, tables are refused, names may be any bytes."""

from __future__ import annotations

import errno
import glob
import json
import os
import pickle
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from fastresume.cli import main
from support.each_of import each_of
from support.refusals import refused


def write(path: Path, start: int = 0, rows: int = 10) -> Path:
    """Write a file of one column, `id`, below directories that are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:  # pyarrow takes no names that are no text
        pq.write_table(pa.table({"id": pa.array(range(start, start + rows), pa.int64())}), file)
    return path


def opened(paths: object) -> fr.ParquetDataset:
    return fr.ParquetDataset(paths, batch_size=5, world=(0, 1))  # type: ignore[arg-type]  # some are lists


def ids(dataset: fr.ParquetDataset) -> list[int]:
    return [value for batch in dataset for value in batch["id"].tolist()]


# ------------------------------------------------------------------------- what can't be asked what it is


@pytest.fixture
def days() -> Iterator[Path]:
    """Four directories `day=0` to `day=3`, in each of them `deep/part.parquet`, which every user may read."""
    root = Path(tempfile.mkdtemp(prefix="fastresume-", dir="/tmp"))  # pytest's is closed
    root.chmod(0o755)
    for day in range(4):
        write(root / f"day={day}" / "deep" / "part.parquet", 10 * day)
    yield root
    os.seteuid(os.getuid())
    shutil.rmtree(root)


GLOBS = ["*/deep/*.parquet", "*/deep", "*/*/part.parquet", "day=*/deep/part.parquet", "*/deep/**"]


@pytest.mark.parametrize("pattern", GLOBS)
@pytest.mark.parametrize("target", ["not-mounted", "day=2"])
def test_a_link_that_leads_nowhere_or_in_a_circle_is_named_by_every_glob_that_meets_it(
    days: Path, pattern: str, target: str
) -> None:
    assert len(ids(opened(f"{days}/{pattern}"))) == 40
    shutil.rmtree(days / "day=2")
    (days / "day=2").symlink_to(target)
    code = errno.ELOOP if target == "day=2" else errno.ENOENT
    with pytest.raises(fr.SourceError, match=f"'{days}/day=2.*{os.strerror(code)}"):
        opened(f"{days}/{pattern}")
    assert len(ids(opened([f"{days}/day=[013]/deep/*.parquet"]))) == 30, "what is not met need not be there"


def test_a_link_in_the_middle_of_a_glob_that_leads_nowhere_is_named(days: Path) -> None:
    shutil.rmtree(days / "day=2" / "deep")
    assert len(ids(opened(f"{days}/*/deep/*.parquet"))) == 30, "what is not there was never named"
    (days / "day=2" / "deep").symlink_to("not-mounted")
    with pytest.raises(fr.SourceError, match=f"'{days}/day=2/deep'.*{os.strerror(errno.ENOENT)}"):
        opened(f"{days}/*/deep/*.parquet")


def test_files_beside_directories_that_a_glob_means_do_not_matter(days: Path) -> None:
    (days / "notes.txt").write_text("no directory")
    (days / "day=2" / "deep" / "link").symlink_to(days / "day=2" / "deep" / "part.parquet")
    assert len(ids(opened(f"{days}/*/deep/*.parquet"))) == 40


@pytest.mark.parametrize("named", [*GLOBS, "", "day=2", "day=2/deep/part.parquet", "day=2/deep/*", "list"])
def test_a_directory_that_may_be_listed_and_not_searched_is_named(days: Path, named: str) -> None:
    closed = days / "day=2"
    closed.chmod(stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH)
    paths: object = [days / "day=1/deep/part.parquet", closed / "deep/part.parquet"]
    if os.geteuid() == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(fr.SourceError, match=f"'{closed}.*{os.strerror(errno.EACCES)}"):
            opened(paths if named == "list" else days / named)
    finally:
        os.seteuid(os.getuid())
        closed.chmod(0o755)


UNANSWERED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file system that does not say what one path is. */
int statx(int at, const char *restrict path, int flags, unsigned mask, struct statx *restrict found) {
    static int (*real)(int, const char *, int, unsigned, struct statx *);
    if (!real) real = dlsym(RTLD_NEXT, "statx");
    const char *unanswered = getenv("UNANSWERED");
    if (unanswered && *unanswered && path && strcmp(path, unanswered) == 0) {
        errno = atoi(getenv("UNANSWERED_WITH"));
        return -1;
    }
    return real(at, path, flags, mask, found);
}
"""

ASK = """
import errno, os, sys
import fastresume as fr

root, forms = sys.argv[1], sys.argv[2:]
for code in (errno.EIO, errno.ESTALE, errno.EACCES, errno.ETIMEDOUT):
    for name in ("", "day=2", "day=2/deep", "day=2/deep/part.parquet", "link"):
        path = os.path.join(root, name) if name else ""
        os.environ.update({"UNANSWERED": path, "UNANSWERED_WITH": str(code)})
        for form in forms:
            named = [f"{root}/{one}" for one in form.split()]
            try:
                found = fr.ParquetDataset(named, batch_size=5).num_rows
            except fr.SourceError as error:
                found = 0 if path and f"'{path}'" in str(error) and os.strerror(code) in str(error) else -1
            print(form, "|", name, "|", found)
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="it replaces statx, which only Linux has")
def test_a_status_that_the_system_does_not_give_is_an_error_or_not_needed(days: Path, tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler, to make a file system that does not answer")
    (tmp_path / "unanswered.c").write_text(UNANSWERED)
    library = tmp_path / "unanswered.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "unanswered.c", "-ldl"], check=True
    )
    (days / "link").symlink_to(days / "day=1" / "deep")
    listed = " ".join(f"day={day}/deep/part.parquet" for day in range(4))
    all_rows = {**dict.fromkeys([*GLOBS, ".", "**/*.parquet", listed], 40), "l*/*.parquet": 10}
    message = subprocess.run(
        [sys.executable, "-c", ASK, str(days), *all_rows],
        env={**os.environ, "LD_PRELOAD": str(library)},
        check=True,
        capture_output=True,
        text=True,
    )
    found = [[part.strip() for part in line.split("|")] for line in message.stdout.splitlines()]
    assert len(found) == 4 * 5 * len(all_rows)
    assert [line for line in found if int(line[2]) not in (0, all_rows[line[0]])] == []
    assert [line for line in found if line[1] == "" and line[2] == "0"] == []
    errors = {(form, name) for form, name, rows in found if rows == "0"}
    assert {
        ("*/deep/*.parquet", "day=2/deep"),
        ("*/deep", "link"),
        (listed, "day=2/deep/part.parquet"),
    } <= errors


# ------------------------------------------------------------------------------------------- tables


def make_delta(root: Path) -> list[Path]:
    """A Delta table of ten rows, five of which were deleted since."""
    write(root / "part-0.parquet")
    part = write(root / "part-1.parquet", 0, 5)
    log = root / "_delta_log"
    log.mkdir()
    (log / f"{0:020}.json").write_text(json.dumps({"add": {"path": "part-0.parquet"}}))
    (log / f"{1:020}.json").write_text(json.dumps({"remove": {"path": "part-0.parquet"}}))
    return [part]


def make_iceberg(root: Path, metadata: str = "v1.metadata.json") -> list[Path]:
    write(root / "data" / "day=1" / "old.parquet")
    part = write(root / "data" / "day=1" / "new.parquet", 0, 5)
    (root / "metadata").mkdir()
    (root / "metadata" / metadata).write_text("{}")
    return [part]


def make_hudi(root: Path) -> list[Path]:
    write(root / "day=1" / "a_0_1.parquet")
    part = write(root / "day=1" / "a_0_2.parquet", 0, 5)
    (root / ".hoodie").mkdir()
    return [part]


TABLES = {
    "Delta": (make_delta, r"ParquetDataset\('delta://{root}', \.\.\.\)"),
    "Iceberg": (make_iceberg, r"ParquetDataset\('iceberg://catalog/namespace\.table', \.\.\.\)"),
    "Hudi": (make_hudi, r"HudiTable\('{root}'\)\.get_file_slices\(\)"),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_tables_files_are_read_where_they_are_listed_and_refused_where_they_are_found(
    tmp_path: Path, kind: str
) -> None:
    make, line = TABLES[kind]
    root = tmp_path / "lake" / "table"
    present = make(root)
    write(tmp_path / "lake" / "plain" / "a.parquet")
    (tmp_path / "link").symlink_to(root)
    (tmp_path / "inside").symlink_to(present[0].parent)
    inside = present[0].parent
    for paths in (
        root,
        f"{root}/",
        [root],
        [tmp_path / "lake" / "plain", root],
        inside,
        f"{inside}/*.parquet",
        f"{root}/**/*.parquet",
        f"{root}/**",
        tmp_path / "lake",
        f"{tmp_path}/lake/**/*.parquet",
        f"{tmp_path}/*/table/**/*.parquet",
        tmp_path / "link",
        tmp_path / "inside",
        f"{tmp_path}/inside/*.parquet",
    ):
        with pytest.raises(fr.DataError) as caught:
            opened(paths)
        message = str(caught.value)
        assert f"is a{'n' * (kind == 'Iceberg')} {kind} table" in message, paths
        named = Path(message.split("'")[1])
        assert named.samefile(root), "by the name that it was found under"
        assert re.search(line.format(root=named), message), message
        assert "\n" not in message
    assert ids(opened(present)) == ids(opened(present[0])) == list(range(5))
    assert len(ids(opened(tmp_path / "lake" / "plain"))) == 10


@each_of("name", ["00000-1f2e.metadata.json", "v3.gz.metadata.json", "v3.metadata.json.gz", "notes.json"])
def test_a_directory_named_metadata_makes_a_table_only_with_an_icebergs_files(
    tmp_path: Path, name: str
) -> None:
    make_iceberg(tmp_path / "table", name)
    if name == "notes.json":
        assert len(ids(opened(tmp_path / "table"))) == 15
    else:
        with pytest.raises(fr.DataError, match="Iceberg"):
            opened(tmp_path / "table")


# ------------------------------------------------------------------------- names that are no text


ODD = b"part-\xff\n\xc3\xa9.parquet"


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A directory with a file whose name is no UTF-8, between two others."""
    write(tmp_path / "data" / "part-0.parquet", 0)
    write(tmp_path / "data" / os.fsdecode(ODD), 10)
    write(tmp_path / "data" / os.fsdecode(b"\xffpart.parquet"), 20)
    return tmp_path / "data"


def rows_of(dataset: fr.ParquetDataset) -> tuple[list[int], tuple[str, ...], str]:
    return ids(dataset), dataset.files, dataset.fingerprint


def test_files_and_locate_give_names_that_exist(odd: Path) -> None:
    for paths in (odd, f"{odd}/*.parquet", f"{odd}/**/*", sorted(odd.iterdir())):
        dataset = opened(paths)
        assert list(map(os.fsencode, dataset.files)) == sorted(map(os.fsencode, odd.iterdir()))
        assert all(map(os.path.exists, dataset.files))
        assert ids(dataset) == list(range(30))
        assert [dataset.locate([row])[0][0] for row in (0, 10, 20)] == list(dataset.files)
    assert ids(opened(f"{odd}/part-??é.parquet")) == list(range(10, 20)), (
        "a byte that is no text is one character"
    )
    assert ids(opened(os.fsdecode(os.fsencode(odd) + b"/*\xff*.parquet"))) == list(range(10, 30))
    assert ids(opened(dataset.files[1])) == list(range(10, 20))
    assert dataset.locate(range(30)) == [(path, 0, row) for path in dataset.files for row in range(10)]


@pytest.mark.processes
def test_a_dataset_of_such_names_pickles_and_spawns(odd: Path) -> None:
    dataset = opened(odd)
    assert rows_of(pickle.loads(pickle.dumps(dataset))) == rows_of(dataset)
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        assert pool.submit(rows_of, dataset).result() == rows_of(dataset)


def test_a_filter_reads_files_of_such_names(odd: Path) -> None:
    for condition in (fr.col("id") >= 15, pc.field("id") >= 15):
        dataset = fr.ParquetDataset(odd, batch_size=5, filter=condition, world=(0, 1))
        assert ids(dataset) == list(range(15, 30))


def test_an_error_shows_such_a_name_on_one_line_as_text(odd: Path) -> None:
    name = os.fsdecode(os.fsencode(odd) + b"/" + ODD)
    Path(name).write_bytes(b"no parquet file at all")
    with pytest.raises(fr.DataError) as caught:
        opened(odd)
    assert r"part-\xff\né.parquet" in str(caught.value)
    str(caught.value).encode()
    Path(name).unlink()
    with pytest.raises(fr.SourceError, match=r"part-\\xff\\né\.parquet"):
        opened(name)


def test_a_cache_and_an_audit_take_such_names(odd: Path, tmp_path: Path) -> None:
    for _ in range(2):
        dataset = fr.ParquetDataset(
            odd, batch_size=5, cache=fr.Cache(manifest=tmp_path / "cache"), world=(0, 1)
        )
    loader = fr.Loader(dataset, threads=1, audit=tmp_path / "log")
    assert len([*loader]) == 6
    loader.close()
    assert main(["audit", str(tmp_path / "log")]) == 0


# ------------------------------------------------------------------------------ one file under two names


def test_a_name_of_the_hub_is_told_its_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for path, address in (("lab/texts", "'hf://datasets/lab/texts'"), ("a/b/c", ""), ("a/b.parquet", "")):
        with pytest.raises(fr.SourceError, match="no such file") as refused:
            fr.ParquetDataset(path, batch_size=1)
        assert str(refused.value).partition("; on the hub it is ")[2] == address


def test_a_file_under_two_names_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet")
    for name in ("c.parquet", "d.parquet"):
        os.link(first, tmp_path / name)
    for _ in range(2):
        caplog.clear()
        dataset = fr.ParquetDataset(
            tmp_path, batch_size=5, cache=fr.Cache(manifest=tmp_path / "cache"), world=(0, 1)
        )
        (said,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert f"'{first}' and '{tmp_path}/c.parquet' are one file under two names" in said
        assert "1 other name" in said
    assert len(ids(dataset)) == 40
    (tmp_path / "d.parquet").unlink()
    (tmp_path / "d.parquet").symlink_to(first)
    with pytest.raises(ValueError, match="the same file twice"):
        opened(tmp_path)
    for name in ("c.parquet", "d.parquet"):
        (tmp_path / name).unlink()
    caplog.clear()
    opened(tmp_path)
    assert caplog.records == []


# ---------------------------------------------------------------------------------------- names with brackets


@each_of("name", ["[old]", "run [1]", "a[0-9]b", "[!x]"])
def test_a_pattern_below_a_directory_with_brackets_in_its_name_means_that_directory(
    tmp_path: Path, name: str
) -> None:
    inner = tmp_path / name / "x"
    inner.mkdir(parents=True)
    other = tmp_path / "o" / "x"
    other.mkdir(parents=True)
    write(inner / "0.parquet")
    write(other / "1.parquet")
    for pattern in (tmp_path / name / "*" / "*.parquet", inner / "*.parquet", tmp_path / name / "**" / "0*"):
        assert fr.ParquetDataset(pattern, batch_size=10).files == (str(inner / "0.parquet"),)
    escaped = glob.escape(str(inner)) + "/*.parquet"
    assert fr.ParquetDataset(escaped, batch_size=10).files == (str(inner / "0.parquet"),)


def test_brackets_stand_for_a_character_where_nothing_has_that_very_name(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).mkdir()
        write(tmp_path / name / "0.parquet")
    found = fr.ParquetDataset(tmp_path / "[ab]" / "*.parquet", batch_size=10).files
    assert found == (str(tmp_path / "a/0.parquet"), str(tmp_path / "b/0.parquet"))


def test_a_pattern_with_brackets_that_matches_nothing_is_told_with_what_to_write(tmp_path: Path) -> None:
    (tmp_path / "run [1] of 3").mkdir()
    write(tmp_path / "run [1] of 3" / "0.parquet")
    with refused(fr.SourceError, "no file matches", "glob.escape(directory) + '/*.parquet'"):
        fr.ParquetDataset(tmp_path / "run [1]*" / "*.parquet", batch_size=10)
    with pytest.raises(fr.SourceError) as caught:
        fr.ParquetDataset(tmp_path / "nothing*.parquet", batch_size=10)
    assert "glob.escape" not in str(caught.value)
