"""Law 11 for forks: a forked process goes on by itself, and nothing hangs.

What needs a process of its own runs in a child: functions below that tests call by `child.call(function)`.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from support.child import Child
from support.lives import ROWS, SLOW_FILES, in_a_fork, rows_of, slow_dataset, source_of
from support.watching import in_time

pytestmark = [pytest.mark.law(11), pytest.mark.processes]


KEPT: list[object] = []


@pytest.fixture(scope="module")
def shared_child() -> Iterator[Child]:
    """One whose forks let go of all objects when they end."""
    with Child(anew=True) as found:
        yield found


def forked(directory: str, threads: int, mapped: bool) -> dict[str, Any]:
    """Fork with a live iterator, and use the old one and a new one there."""
    dataset = fr.ParquetDataset(directory, batch_size=10)
    source = source_of(dataset, threads, mapped)
    iterator = iter(source)
    batches = [next(iterator) for _ in range(3)]
    found: dict[str, Any] = {
        "old": in_a_fork(lambda: rows_of([next(iterator)])),
        "new": in_a_fork(lambda: rows_of(source), at_once=True),
        "again": in_a_fork(lambda: rows_of([*itertools.islice(iter(source), 2), *source]), at_once=True),
        "close": in_a_fork(lambda: source.close() if threads else None, at_once=mapped),
        "nothing": in_a_fork(lambda: None),
    }
    found["here"] = rows_of([*batches, *iterator])
    return found


@pytest.mark.parametrize(
    ("threads", "mapped"),
    [(0, False), (2, True), *(pytest.param(*how, marks=pytest.mark.slow) for how in ((2, False), (0, True)))],
)
def test_a_forked_process_goes_on_by_itself(child: Child, small: Path, threads: int, mapped: bool) -> None:
    found = child.call(forked, str(small), threads, mapped)
    old = found["old"]
    if threads:
        assert old["said"].startswith("StateError: "), old
        assert "fork" in old["said"]
        assert float(old["seconds"]) < 30, "it waits for threads that are not there"
    else:
        assert old["said"] == repr(list(range(30, 40)))
    assert found["new"]["said"] == repr(list(range(30, ROWS)))
    assert found["again"]["said"] == repr(list(range(30, ROWS)))
    assert all(found[name]["ended"] for name in ("old", "new", "again", "close", "nothing")), found
    assert found["here"] == list(range(ROWS))


def is_in_next(thread: threading.Thread) -> bool:
    """Whether a thread asks an iterator of ours for a batch."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != "__next__":
        frame = frame.f_back
    return frame is not None


def forked_in_next(directory: str, call: str) -> dict[str, Any]:
    """Fork while another thread is in `next()`, and touch the iterator there."""
    loader = fr.Loader(slow_dataset(directory), threads=1)
    iterator = iter(loader)
    batches: list[fr.Batch] = []
    thread = threading.Thread(target=lambda: batches.append(next(iterator)))
    thread.start()
    assert in_time(lambda: is_in_next(thread))
    work = {"next": lambda: next(iterator), "close": loader.close, "drop": KEPT.clear}[call]
    found = in_a_fork(work)
    thread.join()
    return {**found, "here": rows_of(batches) == list(range(SLOW_FILES))}


@pytest.mark.slow
@pytest.mark.parametrize("call", ["next", "close", "drop"])
def test_a_fork_while_another_thread_is_in_next_does_not_hang(child: Child, slow: Path, call: str) -> None:
    found = child.call(forked_in_next, str(slow), call)
    assert found["ended"], "it hangs"
    assert call != "next" or found["said"].startswith("StateError: ")
    assert found["here"]
