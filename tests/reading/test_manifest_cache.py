"""The manifest's cache: the same manifest with it and without, no footer read twice, no trust in damage."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import re
import shutil
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.jobs import parallel

NAME = b"fastresume manifest cache "
LONG_AGO_NS = 1_600_000_000_123_456_789


def write(path: Path, rows: int, mark: str = "a", columns: tuple[str, ...] = ("row",)) -> Path:
    """Write a file that was last modified long ago; files of other marks have other footers, and one size."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({name: pa.array(range(rows), pa.int64()) for name in columns})
    pq.write_table(table.replace_schema_metadata({"mark": mark}), path, row_group_size=4)
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return path


def replace_unseen(path: Path, content: bytes) -> None:
    """Replace what is in a file, but for its size and time."""
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size


def hide_footer(path: Path) -> None:
    """Make a file's footer unreadable, and let nothing of it be seen from outside."""
    replace_unseen(path, bytes(path.stat().st_size))


def dataset(paths: object, cache: object = None, **arguments: object) -> fr.ParquetDataset:
    return fr.ParquetDataset(
        paths,  # type: ignore[arg-type]  # some are wrong on purpose
        batch_size=1,
        columns="row",
        cache=None if cache is None else fr.Cache(manifest=cache),  # type: ignore[arg-type]
        **parallel(),
        **arguments,  # type: ignore[arg-type]
    )


def manifest(paths: object, cache: object = None) -> bytes:
    """All that a manifest holds."""
    return pickle.dumps(dataset(paths, cache)._spec.manifest)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A directory of four files, of two schemas, one of them without rows."""
    write(tmp_path / "data/a.parquet", 10)
    write(tmp_path / "data/b.parquet", 0)
    write(tmp_path / "data/c/d.parquet", 3, columns=("row", "other"))
    write(tmp_path / "data/é.parquet", 5)
    return tmp_path / "data"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "manifest.cache"


def test_the_manifest_is_the_same_with_and_without_a_cache(files: Path, cache: Path) -> None:
    expected = manifest(files)
    assert manifest(files, cache) == expected, "cold"
    assert manifest(files, cache) == expected, "warm"
    assert manifest(str(files), os.fspath(cache)) == expected
    opened = dataset(files, cache)
    assert (opened.num_rows, len(opened.files)) == (18, 4)
    assert [batch["row"].item() for batch in opened][:11] == [*range(10), 0]


def test_a_warm_start_reads_no_footer(files: Path, cache: Path) -> None:
    expected = manifest(files, cache)
    for path in files.rglob("*.parquet"):
        hide_footer(path)
    assert manifest(files, cache) == expected
    with pytest.raises(fr.DataError, match="no parquet footer"):
        dataset(files)


def test_a_warm_start_writes_nothing(files: Path, cache: Path) -> None:
    dataset(files, cache)
    before = cache.stat()
    cache.parent.chmod(0o500)
    try:
        dataset(files, cache)  # a warning would be an error
    finally:
        cache.parent.chmod(0o700)
    after = cache.stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_what_the_cache_can_not_see_is_seen_when_the_file_is_read(files: Path, cache: Path) -> None:
    dataset(files, cache)
    other = write(files.parent / "other.parquet", 10, mark="b")
    replace_unseen(files / "a.parquet", other.read_bytes())
    stale = r"changed since .*: its footer differs.*cache=fr\.Cache.* is stale: remove it.*a\.parquet"
    with pytest.raises(fr.DataError, match=stale):
        next(iter(dataset(files, cache)))
    cache.unlink()
    assert next(iter(dataset(files, cache)))["row"].tolist() == [0], "that helps"


def test_files_that_changed_came_or_went_are_read_again_and_no_others(files: Path, cache: Path) -> None:
    dataset(files, cache)
    hide_footer(files / "é.parquet")

    write(files / "a.parquet", 12)  # another size
    assert dataset(files, cache).num_rows == 20

    other = write(files.parent / "other.parquet", 12, mark="b").read_bytes()
    (files / "a.parquet").write_bytes(other)  # the same size, another time
    os.utime(files / "a.parquet", ns=(LONG_AGO_NS, LONG_AGO_NS + 1))
    assert dataset(files, cache).num_rows == 20
    assert next(iter(dataset(files, cache)))["row"].tolist() == [0], "its footer is that of now"

    write(files / "z.parquet", 7)
    assert dataset(files, cache).num_rows == 27

    (files / "b.parquet").unlink()
    assert dataset(files, cache).num_rows == 27
    assert b"b.parquet" not in cache.read_bytes(), "what is gone is dropped"
    assert b"z.parquet" in cache.read_bytes()

    hide_footer(files / "z.parquet")
    assert dataset(files, cache).num_rows == 27


def test_a_file_that_was_modified_just_now_is_not_cached(files: Path, cache: Path) -> None:
    """Clocks of file systems tick slowly: a second change within a tick would go unseen for ever."""
    os.utime(files / "a.parquet")
    dataset(files, cache)
    assert b"a.parquet" not in cache.read_bytes()
    assert b"d.parquet" in cache.read_bytes()
    write(files / "a.parquet", 10)
    dataset(files, cache)
    assert b"a.parquet" in cache.read_bytes()
    in_a_century = LONG_AGO_NS + 100 * 365 * 86_400 * 10**9
    os.utime(files / "a.parquet", ns=(in_a_century, in_a_century))
    dataset(files, cache)
    assert b"a.parquet" not in cache.read_bytes()


def test_damage_at_any_byte_is_noticed_and_mended(tmp_path: Path, cache: Path) -> None:
    data = write(tmp_path / "data/a.parquet", 3)
    expected = manifest(data, cache)
    whole = cache.read_bytes()
    for index in range(len(whole)):
        for bit in (0, 7):
            damaged = bytearray(whole)
            damaged[index] ^= 1 << bit
            cache.write_bytes(damaged)
            if index < len(NAME):
                with pytest.warns(UserWarning, match="it is a file of something else"):
                    assert manifest(data, cache) == expected
                continue
            assert manifest(data, cache) == expected
            assert cache.read_bytes() == whole, f"byte {index}"


def test_a_truncated_cache_and_one_of_another_version_are_replaced(tmp_path: Path, cache: Path) -> None:
    data = write(tmp_path / "data/a.parquet", 3)
    expected = manifest(data, cache)
    whole = cache.read_bytes()
    others = [whole + b"\0", re.sub(rb"cache \d+\n", b"cache 0\n", whole)]
    assert others[1] != whole
    for content in [*others, *(whole[:length] for length in range(0, len(whole), 7))]:
        cache.write_bytes(content)
        assert manifest(data, cache) == expected
        assert cache.read_bytes() == whole


@pytest.mark.parametrize("content", [b"{}", b"fastresume is fast", b"\0" * 10_000, b"notes\n"])
def test_a_file_of_something_else_is_left_as_it_is(tmp_path: Path, cache: Path, content: bytes) -> None:
    data = write(tmp_path / "data/a.parquet", 3)
    cache.write_bytes(content)
    with pytest.warns(UserWarning, match="it is a file of something else; remove it, or name another"):
        assert manifest(data, cache) == manifest(data)
    assert cache.read_bytes() == content


def test_a_large_file_takes_no_memory(tmp_path: Path, cache: Path) -> None:
    data = write(tmp_path / "data/a.parquet", 3)
    with cache.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.warns(UserWarning, match="it is a file of something else"):
        assert dataset(data, cache).num_rows == 3
    cache.unlink()
    assert dataset(data, cache).num_rows == 3
    whole = cache.read_bytes()
    with cache.open("r+b") as file:
        file.truncate(1 << 40)  # begins as ours do
    assert dataset(data, cache).num_rows == 3
    assert cache.read_bytes() == whole


def test_relative_and_absolute_paths_are_one(
    files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = manifest(files, cache)
    for path in files.rglob("*.parquet"):
        hide_footer(path)
    monkeypatch.chdir(files.parent)
    for name in ("data", "./data", "data/../data/", "data/**/*.parquet"):
        assert manifest(name, cache.name) == expected, name


def test_a_dataset_that_moved_is_read_again_and_is_the_same(files: Path, cache: Path) -> None:
    before = dataset(files, cache)
    moved = files.rename(files.parent / "moved")
    after = dataset(moved, cache)
    assert after.fingerprint == before.fingerprint
    after.load_state_dict(before.state_dict())
    assert b"data/a.parquet" not in cache.read_bytes()
    assert b"moved/a.parquet" in cache.read_bytes()


def test_a_file_reached_by_a_link_is_the_one_that_the_link_means_now(tmp_path: Path, cache: Path) -> None:
    write(tmp_path / "first.parquet", 3)
    write(tmp_path / "second.parquet", 5)
    (tmp_path / "data").mkdir()
    link = tmp_path / "data/link.parquet"
    for name, rows in (("first", 3), ("second", 5), ("second", 5)):
        link.unlink(missing_ok=True)
        link.symlink_to(tmp_path / f"{name}.parquet")
        assert dataset(link, cache).num_rows == rows


def test_the_same_file_twice_is_refused_on_a_warm_start_too(files: Path, cache: Path) -> None:
    dataset(files, cache)
    (files / "link.parquet").symlink_to(files / "a.parquet")
    for _ in range(2):
        with pytest.raises(ValueError, match="the same file twice"):
            dataset(files, cache)
    (files / "link.parquet").unlink()
    os.link(files / "a.parquet", files / "hard.parquet")
    for _ in range(2):
        assert dataset(files, cache).num_rows == 28, "a hard link is a file of its own"


def test_what_is_gone_or_damaged_is_an_error_with_a_cache_too(files: Path, cache: Path) -> None:
    named = [files / "a.parquet", files / "é.parquet"]
    dataset(named, cache)
    (files / "é.parquet").unlink()
    with pytest.raises(fr.SourceError, match=r"é\.parquet"):
        dataset(named, cache)
    (files / "é.parquet").mkdir()
    with pytest.raises(fr.SourceError, match=r"é\.parquet"):
        dataset(named, cache)
    (files / "é.parquet").rmdir()
    (files / "é.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(fr.DataError, match=r"é\.parquet"):
        dataset(named, cache)


# ---------------------------------------------------------------------------------- where it can't be written


def unwritable(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    yield tmp_path / "nowhere/manifest.cache", "No such file or directory"
    yield Path("/dev/null"), "not a regular file"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    yield pipe, "not a regular file"
    yield write(tmp_path / "other.parquet", 3), "it is a parquet file"
    yield tmp_path / ("n" * 255), "name too long"
    (tmp_path / "file").write_bytes(b"")
    yield tmp_path / "file/manifest.cache", "Not a directory"
    if os.geteuid() != 0:  # root may write everywhere
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        yield locked / "manifest.cache", "Permission denied"


def test_a_cache_that_can_not_be_written_is_one_warning_and_nothing_else(files: Path, tmp_path: Path) -> None:
    expected = manifest(files)
    for path, reason in unwritable(tmp_path):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            assert manifest(files, path) == expected
        (warning,) = caught
        assert warning.category is UserWarning
        assert f"can't write the manifest cache '{path}'" in str(warning.message)
        assert reason.lower() in str(warning.message).lower()
        assert warning.filename == __file__, "it points at the caller"
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    assert pq.read_metadata(tmp_path / "other.parquet").num_rows == 3


def test_a_data_file_is_never_taken_for_the_cache(files: Path) -> None:
    before = (files / "a.parquet").read_bytes()
    with pytest.warns(UserWarning, match="it is a parquet file"):
        dataset(files, files / "a.parquet")
    assert (files / "a.parquet").read_bytes() == before


def test_a_path_that_is_none_is_refused(files: Path) -> None:
    for wrong in (3, b"bytes", True, ["list"]):
        with pytest.raises(TypeError, match=r"manifest of fr\.Cache must be a path"):
            dataset(files, wrong)
    with pytest.raises(ValueError, match=r"manifest of fr\.Cache is an empty path"):
        dataset(files, "")
    for directory in (files, "s3://bucket/cache/"):
        with pytest.raises(ValueError, match=r"found the directory '.*': write manifest='.*[^/]/manifest'$"):
            fr.Cache(manifest=directory)


def test_nothing_is_left_beside_the_cache(files: Path, cache: Path) -> None:
    folder = cache.parent / "caches"
    folder.mkdir()
    dataset(files, folder / "manifest.cache")
    os.mkfifo(folder / "taken")
    with pytest.warns(UserWarning, match="not a regular file"):
        dataset(files, folder / "taken")
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.cache", "taken"]


# --------------------------------------------------------------------------------------------- many at a time


def open_often(files: str, caches: list[str], expected: bytes) -> None:
    for turn in range(40):
        cache = caches[turn % len(caches)]
        if turn % 5 == 0:
            Path(cache).unlink(missing_ok=True)
        assert manifest(files, cache) == expected


def test_processes_share_a_cache(files: Path, cache: Path) -> None:
    for number in range(50):
        write(files / f"more-{number}.parquet", 1)
    expected = manifest(files)
    context = multiprocessing.get_context("fork")
    arguments = (str(files), [str(cache)], expected)
    processes = [context.Process(target=open_often, args=arguments) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    shutil.copytree(files, files.parent / "copy", copy_function=shutil.copy2)
    dataset(files, cache)
    for path in files.rglob("*.parquet"):
        hide_footer(path)
    assert manifest(files, cache) == expected, "what the last one wrote is whole"
    assert [path.name for path in files.parent.iterdir() if "tmp" in path.name] == []


def test_a_cache_of_another_dataset_gives_nothing_to_this_one(files: Path, cache: Path) -> None:
    other = write(files.parent / "elsewhere/a.parquet", 10)
    dataset(other, cache)
    assert manifest(files, cache) == manifest(files)
    assert b"elsewhere" not in cache.read_bytes()
