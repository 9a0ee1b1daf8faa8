"""A file that becomes another one while it is read: an error that names it, never rows of two versions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.each_of import each_of

ROWS, GROUP = 400_000, 20_000  # row groups lie further apart than is read ahead


def write(path: Path, version: int = 0, mark: str = "a", rows: int = ROWS) -> bytes:
    """Write a version of a file; all have one size, those of one mark one footer, too."""
    numbers = np.arange(rows, dtype=np.int64) + 10_000_000 * version
    table = pa.table({"id": numbers}).replace_schema_metadata({"mark": mark})
    plainly: dict[str, Any] = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with path.open("wb") as file:
        pq.write_table(table, file, row_group_size=GROUP, **plainly)
    return path.read_bytes()


def overwrite(path: Path, content: bytes) -> None:
    """Put other content in a file that others may have open."""
    with path.open("r+b") as file:
        file.write(content)


def replace(path: Path, content: bytes) -> None:
    """Put a file of other content in the place of a file."""
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.rename(path)


def replace_unseen(path: Path, content: bytes) -> None:
    """The same, with the time of the old one."""
    status = path.stat()
    replace(path, content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


CHANGES: dict[str, tuple[Callable[[Path, bytes], None], str]] = {
    "overwritten": (overwrite, "it was modified"),
    "replaced": (replace, "another file has taken its place"),
    "replaced unseen": (replace_unseen, "another file has taken its place"),
    "touched": (lambda path, _: path.touch(), "it was modified"),
    "longer": (lambda path, content: overwrite(path, content + b"PAR1"), "it had .* bytes, it has"),
    "shorter": (lambda path, content: os.truncate(path, len(content) // 2), "it had .* bytes, it has"),
    "removed": (lambda path, _: path.unlink(), "No such file"),
    "a link to another": (
        lambda path, content: (
            (path.with_suffix(".b").write_bytes(content), path.unlink())
            and path.symlink_to(path.with_suffix(".b"))
        ),
        "another file has taken its place",
    ),
}

READERS: dict[str, Callable[[fr.ParquetDataset], Any]] = {
    "dataset": lambda dataset: dataset,
    "one thread": lambda dataset: fr.Loader(dataset, threads=1, prefetch_bytes=1),
    "two threads": lambda dataset: fr.Loader(dataset, threads=2, prefetch_bytes=1),
    "a worker": lambda dataset: fr.Loader(dataset, num_workers=1, prefetch_bytes=1),
}


def opened(path: Path, **options: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(path, batch_size=1000, world=(0, 1), **options)


def read_on(batches: Iterator[fr.Batch], first: list[int]) -> list[int]:
    for batch in batches:
        first += batch["id"].tolist()
    return first


@pytest.mark.law(11)
@each_of("mark", ["a", "b"])
@each_of("how", CHANGES)
def test_a_file_that_changes_while_it_is_open_is_named_with_what_changed(
    path: Path, how: str, mark: str
) -> None:
    other = write(path, version=1, mark=mark)
    good = write(path)
    assert len(other) == len(good)
    dataset = opened(path)
    batches = iter(dataset)
    found = next(batches)["id"].tolist()
    change, what = CHANGES[how]
    change(path, other)
    with pytest.raises(fr.SourceError, match=f"changed while it was read: '{path}': {what}"):
        read_on(batches, found)
    assert found == list(range(len(found))), "all that was delivered is of the old version"
    assert len(found) <= 2 * GROUP
    state = dataset.state_dict()
    replace(path, good)
    assert read_on(batches, found) == list(range(ROWS)), "it goes on once the file is what it was"
    fresh = opened(path)
    fresh.load_state_dict(state)
    assert next(iter(fresh))["id"].tolist()[0] <= 2 * GROUP, "an atomic copy is the same dataset"


@pytest.mark.law(11)
@pytest.mark.processes
@each_of("shuffle", [False, True])
@each_of("reader", READERS)
def test_no_reader_delivers_rows_of_two_versions(path: Path, reader: str, shuffle: bool) -> None:
    other = write(path, version=1, mark="b")
    write(path)
    dataset = opened(path, shuffle=shuffle, **({"block_rows": 8192, "window_rows": 65536} if shuffle else {}))
    loader = READERS[reader](dataset)
    batches = iter(loader)
    found = next(batches)["id"].tolist()
    overwrite(path, other)
    with pytest.raises(fr.SourceError, match=f"changed while it was read: '{path}'"):
        read_on(batches, found)
    assert max(found) < ROWS
    assert len(found) == len(set(found))
    if isinstance(loader, fr.Loader):
        loader.close()


def test_a_file_that_was_closed_in_between_is_compared_with_what_it_was(tmp_path: Path) -> None:
    paths = [tmp_path / f"{index:02}.parquet" for index in range(12)]
    for index, path in enumerate(paths):
        write(path, version=index, rows=100)
    dataset = fr.ParquetDataset(
        tmp_path, batch_size=4, shuffle=fr.Shuffle(block_rows=10, window_rows=40), world=(0, 1)
    )
    batches = iter(dataset)
    assert len([next(batches) for _ in range(100)]) == 100, "of each file something was read"
    for index, path in enumerate(paths):
        write(path, version=100 + index, rows=100)
    with pytest.raises(fr.SourceError, match=r"changed while it was read: .* it was modified"):
        read_on(batches, [])


def test_rows_read_by_their_numbers_are_of_the_file_as_it_is(path: Path) -> None:
    write(path, rows=100)
    dataset = opened(path, tail="short")
    assert dataset.read_rows([7])["id"].tolist() == [7]
    path.touch()
    assert dataset.read_rows([7])["id"].tolist() == [7], "a file that was only touched is the same dataset"
    assert len(read_on(iter(dataset), [])) == 100
