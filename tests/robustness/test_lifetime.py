"""Law 11 for whole lives: nothing of a dataset, a loader or an iterator is left behind.

What needs a process of its own runs in a child: functions below that tests call by `child.call(function)`.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.child import Child, children, open_files, threads
from support.lives import HOW, slow_dataset, source_of
from support.watching import in_time

pytestmark = [pytest.mark.law(11), pytest.mark.processes]

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (nothing is made there)


def counts() -> dict[str, int]:
    """Return what a process could leave behind."""
    return {
        "threads": threads(),
        "open files": open_files(),
        "children": len(children()),
        "shared memory": sum(1 for _ in SHARED_MEMORY.glob(f"*_{os.getpid()}_*")),
    }


def to_the_end(source: Any) -> None:
    """Read it all."""
    assert len(list(source)) == 20


def broken_off(source: Any) -> None:
    """Leave the loop."""
    for _ in source:
        break


def kept_but_closed(source: Any) -> None:
    """End the iteration by `close()`, where there is one."""
    iterator = iter(source)
    next(iterator)
    if hasattr(source, "close"):
        source.close()
        with pytest.raises(fr.FastresumeError, match="before the pass was over"):
            next(iterator)


def left_with_an_exception(source: Any) -> None:
    """Leave the loop by an exception."""

    def train() -> None:
        for batch in source:
            raise ZeroDivisionError(batch.num_rows)

    with pytest.raises(ZeroDivisionError):
        train()


def as_a_context(source: Any) -> None:
    """Leave a `with` block, where there is one."""
    if hasattr(source, "__exit__"):
        with source as loader:
            next(iter(loader))


def superseded(source: Any) -> None:
    """Have one iterator take over from another."""
    old, new = iter(source), iter(source)
    next(new)
    with pytest.raises(fr.FastresumeError):
        next(old)


def loaded_over(source: Any) -> None:
    """Load a state under a live iterator."""
    iterator = iter(source)
    state = next(iterator).state_dict()
    source.load_state_dict(state)
    with pytest.raises(fr.StateError):
        next(iterator)
    next(iter(source))


def started_only(source: Any) -> None:
    """Start threads, and ask for nothing."""
    if hasattr(source, "start"):
        source.start()
        source.peek()


def made_only(source: Any) -> None:
    """Make iterators that nobody draws from."""
    iter(source)
    iter(source)


def many_at_once(source: Any) -> None:
    """Have many datasets and loaders."""
    paths = [source.dataset.paths if hasattr(source, "dataset") else source.paths][0]
    iterators = [iter(fr.Loader(fr.ParquetDataset(paths, batch_size=10), threads=2)) for _ in range(10)]
    for iterator in iterators:
        next(iterator)


def failed(source: Any) -> None:
    """Be refused a column, and meet a file that is gone."""
    dataset = source.dataset if hasattr(source, "dataset") else source
    with pytest.raises(fr.DataError):
        fr.ParquetDataset(dataset.paths, batch_size=10, columns="nope")
    path = Path(dataset.files[2])
    aside = path.with_suffix(".aside")
    path.rename(aside)
    try:
        with pytest.raises(fr.SourceError):
            list(source)
    finally:
        aside.rename(path)


ENDS: dict[str, Callable[[Any], None]] = {
    function.__name__: function
    for function in (
        to_the_end,
        broken_off,
        kept_but_closed,
        left_with_an_exception,
        as_a_context,
        superseded,
        loaded_over,
        started_only,
        made_only,
        many_at_once,
        failed,
    )
}


def lived(directory: str, threads: int, mapped: bool, end: str) -> tuple[dict[str, int], dict[str, int]]:
    """Return what there was before and after lives of a dataset that end in this way."""

    def live() -> None:
        source = source_of(fr.ParquetDataset(directory, batch_size=10), threads, mapped)
        ENDS[end](source)

    at_first = counts()["threads"]
    live()  # what is made once and kept
    in_time(lambda: counts()["threads"] == at_first, 1)
    gc.collect()
    gc.disable()  # what refers to itself would stay
    try:
        before = counts()
        for _ in range(5):
            live()
        in_time(lambda: counts() == before)  # a thread that was joined may be seen a moment longer
        return before, counts()
    finally:
        gc.enable()


@HOW
@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_when_a_dataset_is_gone(
    child: Child, small: Path, threads: int, mapped: bool, end: str
) -> None:
    before, after = child.call(lived, str(small), threads, mapped, end)
    assert after == before


def closed_at_the_end(directory: str, threads: int, mapped: bool) -> tuple[dict[str, int], dict[str, int]]:
    """Return what there was before and after a pass, the dataset and the exhausted iterator still alive."""
    at_first = counts()["threads"]
    dataset = fr.ParquetDataset(directory, batch_size=10)
    source = source_of(dataset, threads, mapped)
    list(source)
    in_time(lambda: counts()["threads"] == at_first, 1)
    before = counts()
    iterator = iter(source)
    batches = list(iterator)
    in_time(lambda: counts() == before)
    after = counts()
    assert len(batches) == len(dataset)
    return before, after


@HOW
def test_an_exhausted_iterator_holds_nothing(child: Child, small: Path, threads: int, mapped: bool) -> None:
    before, after = child.call(closed_at_the_end, str(small), threads, mapped)
    assert after == before


def dropped_in_mid_decode(directory: str, how: str, mapped: bool) -> float:
    """Return how long processors take to end threads that have much to do."""
    before = threads()
    loader = source_of(slow_dataset(directory), 2, mapped)
    iterator = iter(loader)
    loader.start()
    assert in_time(lambda: threads() == before + (4 if mapped else 2))
    worked = time.process_time()
    assert in_time(lambda: time.process_time() > worked + 0.05), "no thread decodes"
    began = time.process_time()
    if how == "close":
        loader.close()
    else:
        del loader, iterator
    assert threads() == before or (mapped and in_time(lambda: threads() == before))
    return time.process_time() - began


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("how", "mapped"),
    [
        ("del", True),
        pytest.param("del", False, marks=SLOW),
        pytest.param("close", False, marks=SLOW),
        pytest.param("close", True, marks=SLOW),
    ],
)
def test_threads_end_at_once_in_the_midst_of_work(child: Child, slow: Path, how: str, mapped: bool) -> None:
    assert child.call(dropped_in_mid_decode, str(slow), how, mapped) < 2


KEPT: list[object] = []


def keep(directory: str) -> None:
    """Keep a loader with threads to the end of the process."""
    loader = fr.Loader(slow_dataset(directory), threads=2)
    iterator = iter(loader)
    loader.start()
    KEPT.extend([loader, iterator])


def test_a_process_with_live_threads_ends_by_itself(slow: Path) -> None:
    with Child(anew=True) as child:
        child.call(keep, str(slow))
        assert child.end() == 0
        assert child.stderr() == ""


@pytest.mark.parametrize("mapped", [False, True], ids=["plain", "mapped"])
def test_a_batch_that_was_let_go_of_gives_its_memory_to_the_next_one(tmp_path: Path, mapped: bool) -> None:
    """What the batch before was written to is still in the processor's caches."""
    rows = np.arange(8000)
    pq.write_table(pa.table({"a": rows, "b": -rows}), tmp_path / "0.parquet")
    dataset = fr.ParquetDataset(
        tmp_path, batch_size=1000, columns=["*", "!a", "!b", fr.stack("a", "b", name="both")]
    )
    batches = iter(dataset.map(lambda batch: batch) if mapped else dataset)
    begun = next(batches)["both"].data_ptr()
    assert [next(batches)["both"].data_ptr() for _ in range(7)] == [begun] * 7
    dataset.reset()
    held = list(dataset)
    assert len({batch["both"].data_ptr() for batch in held}) == 8
    np.testing.assert_array_equal(np.concatenate([batch["both"] for batch in held])[:, 0], rows)


def test_tensors_outlive_their_loader_and_dataset(small: Path) -> None:
    loader = fr.Loader(fr.ParquetDataset(small, batch_size=10), threads=2)
    iterator = iter(loader)
    batches = [next(iterator) for _ in range(5)]
    tensors = [batch["row"] for batch in batches]
    del loader, iterator, batches
    gc.collect()
    [np.full(10, -1) for _ in range(10_000)]  # whoever freed the tensors' memory sees it written to
    assert [int(row) for tensor in tensors for row in tensor] == list(range(50))
    tensors[0][0] = -7
    assert [int(row) for tensor in tensors[1:] for row in tensor] == list(range(10, 50))
