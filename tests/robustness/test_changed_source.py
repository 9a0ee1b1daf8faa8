"""Law 11 while reading: what goes bad after construction is told, and nothing before it is lost."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import fastresume as fr
from support import thrift_writer as tw
from support.refusals import open_dataset, refused, rows_of, write

pytestmark = pytest.mark.law(11)

MAKERS: dict[str, Callable[[fr.ParquetDataset], Any]] = {
    "dataset": lambda dataset: dataset,
    "loader of 1 thread": lambda dataset: fr.Loader(dataset, threads=1),
    "loader of 3 threads": lambda dataset: fr.Loader(dataset, threads=3),
    "loader that waits for room": lambda dataset: fr.Loader(dataset, threads=2, prefetch_bytes=1),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[fr.ParquetDataset], Any]:
    return MAKERS[request.param]


PLAINLY = {"compression": "none", "use_dictionary": False}
"""How files are written whose size says nothing about their values."""


def write_three(directory: Path) -> list[Path]:
    """Write three files of 30 rows in row groups of 10."""
    return [write(directory / f"{index}.parquet", start=30 * index, **PLAINLY) for index in range(3)]


def damage_group(path: Path, group: int) -> Path:
    """Overwrite the first page header of a row group's first column."""
    data = bytearray(path.read_bytes())
    metadata = tw.chunk(tw.split(bytes(data))[1], group, 0)
    start = min(
        metadata[key].value for key in (tw.DATA_PAGE_OFFSET, tw.DICTIONARY_PAGE_OFFSET) if key in metadata
    )
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    return path


def test_all_before_a_bad_place_is_delivered_and_after_a_repair_all_after_it(
    tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]
) -> None:
    path = write_three(tmp_path)[1]
    dataset = open_dataset(tmp_path, batch_size=4)
    good = path.read_bytes()
    damage_group(path, 1)

    # Rows 40 to 49 are bad. Batch 10 holds rows 40 to 43.
    loader = make(dataset)
    iterator = iter(loader)
    delivered = [next(iterator) for _ in range(10)]
    for _ in range(3):
        with refused(fr.DataError, path, "row group 1", "column 'row'"):
            next(iterator)
        assert dataset.state_dict() == delivered[-1].state_dict()
    with refused(fr.DataError, path, "row group 1"):
        next(iter(loader))
    assert dataset.state_dict() == delivered[-1].state_dict()
    assert dataset.batches_left == 12

    path.write_bytes(good)
    assert rows_of([*delivered, *loader]) == list(range(88))
    assert rows_of(loader) == list(range(88))


@contextmanager
def broken(path: Path, how: str) -> Iterator[None]:
    """Break a file in one of the ways that happen, and mend it afterwards."""
    whole = path.read_bytes()
    aside = path.with_suffix(".aside")
    path.rename(aside)
    match how:
        case "deleted":
            pass
        case "emptied":
            path.write_bytes(b"")
        case "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        case "longer":
            path.write_bytes(whole + whole)
        case "another file of the same size":
            assert len(write(path, start=1000, **PLAINLY).read_bytes()) == len(whole)
        case "a directory":
            path.mkdir()
        case "a dangling link":
            path.symlink_to("gone")
        case "a pipe":
            os.mkfifo(path)
    try:
        yield
    finally:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        aside.rename(path)


BROKEN = {
    "deleted": fr.SourceError,
    "emptied": fr.DataError,
    "truncated": fr.DataError,
    "longer": fr.DataError,
    "another file of the same size": fr.DataError,
    "a directory": fr.SourceError,
    "a dangling link": fr.SourceError,
    "a pipe": fr.SourceError,
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_changes_after_construction_is_noticed(
    tmp_path: Path, make: Callable[[fr.ParquetDataset], Any], how: str
) -> None:
    paths = write_three(tmp_path)
    dataset = open_dataset(tmp_path)
    sizes = {"emptied": [paths[1].stat().st_size, 0], "longer": [paths[1].stat().st_size]}
    with broken(paths[1], how):
        iterator = iter(make(dataset))
        delivered = [next(iterator) for _ in range(3)]
        with refused(BROKEN[how], paths[1], *sizes.get(how, [])):
            next(iterator)
        assert dataset.state_dict() == delivered[-1].state_dict()
    assert rows_of([*delivered, *make(dataset)]) == list(range(90))


def test_an_iterator_goes_on_once_the_file_is_back(
    tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]
) -> None:
    paths = write_three(tmp_path)
    dataset = open_dataset(tmp_path)
    with broken(paths[1], "deleted"):
        iterator = iter(make(dataset))
        delivered = [next(iterator) for _ in range(3)]
        for _ in range(2):
            with refused(fr.SourceError, paths[1], os.strerror(errno.ENOENT)):
                next(iterator)
    assert rows_of([*delivered, *iterator]) == list(range(90))


def test_a_file_cut_short_while_it_is_open_is_noticed(path: Path) -> None:
    # Pages are read ahead up to 1 MiB, so the second row group must lie beyond that.
    write(path, rows=400_000, group=200_000, use_dictionary=False, compression="none")
    whole = path.read_bytes()
    dataset = open_dataset(path, batch_size=200_000)
    iterator = iter(dataset)
    first = next(iterator)
    os.truncate(path, len(whole) // 2 + 1000)
    with refused(fr.SourceError, path, f"it had {len(whole)} bytes, it has {len(whole) // 2 + 1000}"):
        next(iterator)
    path.write_bytes(whole)
    assert rows_of([first, *iterator]) == list(range(400_000))


@pytest.mark.processes
def test_a_bad_file_is_the_same_exception_out_of_a_torch_dataloader(tmp_path: Path) -> None:
    path = damage_group(write_three(tmp_path)[1], 1)
    dataset = open_dataset(tmp_path)
    # One worker: torch waits 5 seconds for each one that raised.
    loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="fork")
    iterator = iter(loader)
    assert rows_of(next(iterator) for _ in range(4)) == list(range(40))
    with pytest.raises(fr.DataError, match="row group 1") as caught:
        next(iterator)
    assert str(path) in str(caught.value)


def test_the_process_lives_on(tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]) -> None:
    bad = damage_group(write(tmp_path / "bad.parquet"), 0)
    good = open_dataset(write(tmp_path / "good.parquet"))
    iterator = iter(make(good))
    rows = rows_of([next(iterator)])
    for _ in range(20):
        with refused(fr.DataError, bad):
            list(make(open_dataset(bad)))
    assert rows + rows_of(iterator) == list(range(30))


def test_errors_leave_no_file_open(tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]) -> None:
    bad = damage_group(write(tmp_path / "bad.parquet"), 0)
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(10):
        with pytest.raises(fr.DataError):
            list(make(open_dataset(bad)))
        bad.rename(tmp_path / "aside")
        with pytest.raises(fr.SourceError):
            open_dataset(bad)
        (tmp_path / "aside").rename(bad)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before


def test_running_out_of_file_descriptors_is_an_error_to_recover_from(tmp_path: Path) -> None:
    paths = write_three(tmp_path)
    dataset = open_dataset(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with refused(fr.SourceError, paths[0], os.strerror(errno.EMFILE)):
            next(iter(dataset))
        with refused(fr.SourceError, paths[0].parent, os.strerror(errno.EMFILE)):
            open_dataset(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(lowest)
    assert rows_of(dataset) == list(range(90))
