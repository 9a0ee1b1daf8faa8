"""Law 11 for paths: what is not there, can't be read or is no file is one SourceError that names it."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import fastresume as fr
from support.child import SECONDS, Reader
from support.refusals import open_dataset, refused, rows_of, write

pytestmark = pytest.mark.law(11)


def test_a_pattern_that_no_file_matches_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    with refused(fr.SourceError, tmp_path / "b*.parquet"):
        open_dataset(tmp_path / "b*.parquet")


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with refused(fr.SourceError, path, "no such file"):
        open_dataset(path)


def test_of_several_paths_the_one_that_gives_no_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    with refused(fr.SourceError, tmp_path / "b*"):
        open_dataset([tmp_path / "a.parquet", tmp_path / "b*"])


def leave_what_writers_leave(directory: Path) -> None:
    """Make the things that lie around in datasets and are no data."""
    for name in (
        "_SUCCESS",
        "_metadata",
        "_temporary.parquet",
        ".a.parquet.crc",
        ".hidden.parquet",
        "notes.txt",
    ):
        (directory / name).write_bytes(b"not Parquet")
    (directory / "x.parquet").mkdir()
    (directory / "_temporary").mkdir()
    (directory / "_temporary/part-0.parquet").write_bytes(b"half a file")


def test_a_directory_without_data_is_named(tmp_path: Path) -> None:
    leave_what_writers_leave(tmp_path)
    with refused(fr.SourceError, tmp_path):
        open_dataset(tmp_path)


@pytest.mark.parametrize("named", ["", "*", "**/*.parquet"])
def test_files_that_no_author_meant_do_not_matter(tmp_path: Path, named: str) -> None:
    path = write(tmp_path / "a.parquet")
    expected = open_dataset(path)
    leave_what_writers_leave(tmp_path)
    (tmp_path / "notes.txt").unlink()  # a pattern may well mean it
    dataset = open_dataset(tmp_path / named)
    assert dataset.files == (str(path),)
    assert dataset.fingerprint == expected.fingerprint


def test_no_path_at_all_is_an_argument_error() -> None:
    with refused(ValueError, "path"):
        open_dataset([])
    with refused(ValueError, "path"):
        open_dataset([""])


def test_an_address_is_refused_by_name() -> None:
    with refused(ValueError, "ftp://host/data"):
        open_dataset("ftp://host/data")


def test_a_malformed_pattern_is_named(tmp_path: Path) -> None:
    with refused(ValueError, "a[b.parquet"):
        open_dataset(tmp_path / "a[b.parquet")


def test_the_same_file_twice_is_refused_under_both_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    link = tmp_path / "b.parquet"
    link.symlink_to("a.parquet")
    with refused(ValueError, path, link):
        open_dataset([path, link])
    with refused(ValueError, path):
        open_dataset([path, path])


@pytest.mark.parametrize("named", ["", "**/*.parquet"])
def test_links_in_a_circle_end_the_search(tmp_path: Path, reader: Reader, named: str) -> None:
    # Two links that lead back: 2^n paths of length n, up to the kernel's limit of 40 links.
    path = write(tmp_path / "a.parquet")
    for name in ("again", "once-more"):
        (tmp_path / name).symlink_to(".")
    outcome = reader.read(tmp_path / named)
    assert outcome.kind in ("NoneType", "ValueError"), outcome
    assert outcome.kind == "NoneType" or str(path) in outcome.message
    assert outcome.cpu_seconds < SECONDS


@pytest.fixture
def readable_by_all() -> Iterator[Path]:
    """A directory that every user may enter, with this process as a user who is not root."""
    directory = Path(tempfile.mkdtemp(prefix="fastresume-", dir="/tmp"))  # pytest's is closed
    directory.chmod(0o777)
    yield directory
    os.seteuid(os.getuid())
    shutil.rmtree(directory)


def become_nobody() -> None:
    """Give up what root may do, if we are root, for the rest of the test."""
    if os.geteuid() == 0:
        try:
            os.seteuid(65534)
        except OSError:
            pytest.skip("root reads everything, and can't become another user here")


def test_a_file_without_permission_is_named(readable_by_all: Path) -> None:
    write(readable_by_all / "a.parquet")
    path = write(readable_by_all / "b.parquet")
    path.chmod(0)
    become_nobody()
    with refused(fr.SourceError, path, os.strerror(errno.EACCES)):
        open_dataset(readable_by_all)
    assert rows_of(open_dataset(readable_by_all / "a.parquet")) == list(range(30))


def test_a_directory_without_permission_is_named(readable_by_all: Path) -> None:
    directory = readable_by_all / "closed"
    directory.mkdir()
    path = write(directory / "a.parquet")
    directory.chmod(0)
    become_nobody()
    try:
        for named in (readable_by_all, directory, directory / "*.parquet", path):
            with refused(fr.SourceError, directory, os.strerror(errno.EACCES)):
                open_dataset(named)
    finally:
        os.seteuid(os.getuid())
        directory.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("named", ["b.parquet", "", "*.parquet"])
def test_a_dangling_link_is_named(tmp_path: Path, named: str) -> None:
    write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to("gone.parquet")
    with refused(fr.SourceError, tmp_path / "b.parquet", os.strerror(errno.ENOENT)):
        open_dataset(tmp_path / named)


@pytest.mark.parametrize("named", ["b.parquet", "", "*.parquet"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, named: str) -> None:
    write(tmp_path / "a.parquet")
    os.mkfifo(tmp_path / "b.parquet")
    with refused(fr.SourceError, tmp_path / "b.parquet", "not a regular file"):
        open_dataset(tmp_path / named)


def test_a_device_and_a_socket_are_no_files(tmp_path: Path) -> None:
    with refused(fr.SourceError, "/dev/zero", "not a regular file"):
        open_dataset("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server, refused(fr.SourceError, "not a regular file"):
        server.bind(str(tmp_path / "a.parquet"))
        open_dataset(tmp_path)
