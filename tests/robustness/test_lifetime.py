"""Law 11 for whole lives: Ctrl-C is heard, nothing loses a batch, and nothing is left behind.

What needs a process of its own runs in a child: functions below that tests call by `child.call(function)`.
"""

from __future__ import annotations

import ast
import gc
import itertools
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.child import MIB, Child, children, forget_peak, open_files, peak, resident, say, threads
from support.watching import in_time

pytestmark = [pytest.mark.law(11), pytest.mark.processes]

ROWS = 200


@pytest.fixture(scope="module")
def shared_child() -> Iterator[Child]:
    """A process for all tests here that leave it as they find it."""
    with Child() as found:
        yield found


@pytest.fixture
def child(shared_child: Child) -> Child:
    assert shared_child.process.poll() is None, "an earlier test ended the process"
    return shared_child


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 rows in four files, two row groups each."""
    directory = tmp_path_factory.mktemp("small")
    for start in range(0, ROWS, 50):
        table = pa.table({"row": np.arange(start, start + 50)})
        pq.write_table(table, directory / f"{start:03}.parquet", row_group_size=25)
    return directory


SLOW_FILES = 7500


@pytest.fixture(scope="module")
def slow(slow_files: Callable[[int], Path]) -> Path:
    """Files that take seconds to read."""
    return slow_files(SLOW_FILES)


def slow_dataset(directory: str) -> fr.ParquetDataset:
    """Return the dataset of these, a fourth of them in each batch; footers are read once for all tests."""
    cache = Path(directory).with_suffix(".cache")
    return fr.ParquetDataset(directory, batch_size=SLOW_FILES, manifest_cache=cache)  # four rows a file


def rows_of(batches: Any) -> list[int]:
    """Return the numbers of the rows in batches."""
    return [int(row) for batch in batches for row in batch.rows()]


def same(batch: fr.Batch) -> fr.Batch:
    """A transform that changes nothing, which runs in threads of its own under a loader."""
    return batch


def source_of(dataset: fr.ParquetDataset, threads: int, mapped: bool = False) -> Any:
    """Return what to iterate over: the dataset itself, or a loader; with a transform if `mapped`."""
    chosen = dataset.map(same) if mapped else dataset
    return fr.Loader(chosen, threads=threads) if threads else chosen


HOW = pytest.mark.parametrize(("threads", "mapped"), [(0, False), (2, False), (0, True), (2, True)])


# ----------------------------------------------------------------------------------------------------- Ctrl-C


def interrupted_next(directory: str, threads: int) -> dict[str, Any]:
    """Be interrupted in `next()`, and go on."""
    dataset = slow_dataset(directory)
    iterator = iter(source_of(dataset, threads))
    before = dataset.state_dict()
    say("inside")
    try:
        next(iterator)
        heard = None
    except KeyboardInterrupt:
        heard = time.monotonic()
    is_unmoved = dataset.state_dict() == before
    first = next(iterator)
    return {
        "heard": heard,
        "is_unmoved": is_unmoved,
        "rows": rows_of([first]) == list(range(SLOW_FILES)),
        "state": first.state_dict() == dataset.state_dict(),
    }


@pytest.mark.parametrize("threads", [0, pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_in_next_is_heard_within_a_second_and_loses_nothing(
    child: Child, slow: Path, threads: int
) -> None:
    child.start(interrupted_next, str(slow), threads)
    assert child.heard() == "inside"
    time.sleep(0.05)
    pressed = time.monotonic()
    child.interrupt()
    found = child.result()
    assert found["heard"] is not None, "next() was over too soon for this test"
    assert found["heard"] - pressed < 1
    assert found["is_unmoved"]
    assert found["rows"]
    assert found["state"]


def interrupted_construction(directory: str) -> dict[str, Any]:
    """Be interrupted while the footers are read, and try again."""
    before = threads(), open_files()
    say("inside")
    try:
        fr.ParquetDataset(directory, batch_size=1)
        heard = None
    except KeyboardInterrupt:
        heard = time.monotonic()
    in_time(lambda: threads() == before[0], 1)
    after = threads(), open_files()
    rows = fr.ParquetDataset(directory, batch_size=1).num_rows
    return {"heard": heard, "before": before, "after": after, "rows": rows}


def test_ctrl_c_while_footers_are_read_is_heard_within_a_second(child: Child, slow: Path) -> None:
    child.start(interrupted_construction, str(slow))
    assert child.heard() == "inside"
    time.sleep(0.05)
    pressed = time.monotonic()
    child.interrupt()
    found = child.result()
    assert found["heard"] is not None, "the footers were read too soon for this test"
    assert found["heard"] - pressed < 1
    assert found["after"] == found["before"]
    assert found["rows"] == 4 * SLOW_FILES


class AlarmError(Exception):
    """What the signal handler raises."""


def interrupted_at_any_moment(directory: str, threads: int, mapped: bool) -> dict[str, Any]:
    """Draw one batch after the other, interrupted most of the time; return what went wrong how often."""
    is_armed = False

    def sound(*_: object) -> None:
        if is_armed:
            raise AlarmError

    dataset = fr.ParquetDataset(directory, batch_size=1)
    iterator = iter(source_of(dataset, threads, mapped))
    signal.signal(signal.SIGALRM, sound)
    found = {"interrupts": 0, "batches": 0, "not where the cursor was": 0, "lost": 0}
    batch = previous = None
    is_over = False
    stuck = 0
    while not is_over:
        done = len(dataset) - dataset.batches_left
        try:
            # In 1 to 60 microseconds; a `next()` takes some 20, and one that opens the files again (after an
            # alarm within a transform) several hundred.
            is_armed = True
            # The last one of a pass also ends threads: the longer a batch does not come, the later the alarm.
            most = 1000 if mapped else 60
            swept = (found["interrupts"] + found["batches"]) % most
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + swept + stuck // 10))
            for batch in iterator:  # noqa: B007  (it is looked at below)
                break
            else:
                is_over = True
            is_armed = False
        except AlarmError:
            is_armed = False
            found["interrupts"] += 1
            stuck += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        # From here on there is no alarm. What the loop was given stands in `batch`, whenever the alarm came.
        if batch is not None and batch is not previous:
            found["batches"] += 1
            found["not where the cursor was"] += batch.step != done
            found["lost"] += batch.step - (0 if previous is None else previous.step + 1)
            previous = batch
            stuck = 0
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    found["lost"] += len(dataset) - 1 - previous.step if previous is not None else len(dataset)
    return found


@pytest.mark.parametrize(("threads", "mapped"), [(0, False), (1, False), (0, True), (1, True)])
def test_an_interrupt_at_any_moment_leaves_the_iterator_where_the_cursor_is(
    child: Child, many_rows: Path, threads: int, mapped: bool
) -> None:
    found = child.call(interrupted_at_any_moment, str(many_rows), threads, mapped)
    assert found["interrupts"] > 100
    assert found["not where the cursor was"] == 0, found
    # Python lets a signal handler raise also between the move of the cursor and the caller's variable: such a
    # batch counts as delivered. Nothing else is lost.
    assert found["lost"] <= found["interrupts"] / 100, found


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """10,000 rows in one file."""
    path = tmp_path_factory.mktemp("many-rows") / "a.parquet"
    pq.write_table(pa.table({"row": np.arange(10_000)}), path)
    return path


# -------------------------------------------------------------------------------------------- nothing is left


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
        with pytest.raises(StopIteration):
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
        in_time(lambda: counts() == before, 1)  # a thread that was joined may be seen a moment longer
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
    in_time(lambda: counts() == before, 1)
    after = counts()
    assert len(batches) == len(dataset)
    return before, after


@HOW
def test_an_exhausted_iterator_holds_nothing(child: Child, small: Path, threads: int, mapped: bool) -> None:
    before, after = child.call(closed_at_the_end, str(small), threads, mapped)
    assert after == before


def dropped_in_mid_decode(directory: str, how: str, mapped: bool) -> float:
    """Return how long it takes to end threads that have much to do."""
    before = threads()
    loader = source_of(slow_dataset(directory), 2, mapped)
    iterator = iter(loader)
    loader.start()
    time.sleep(0.1)
    assert threads() == before + (4 if mapped else 2)
    began = time.monotonic()
    if how == "close":
        loader.close()
    else:
        del loader, iterator
    assert threads() == before or (mapped and in_time(lambda: threads() == before, 0.4))
    return time.monotonic() - began


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("how", ["close", "del"])
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
    with Child() as child:
        child.call(keep, str(slow))
        began = time.monotonic()
        assert child.end() == 0
        assert time.monotonic() - began < 5
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


# ------------------------------------------------------------------------------------------------------- fork


def in_a_fork(work: Callable[[], object], seconds: float = 10, at_once: bool = False) -> dict[str, Any]:
    """Return what `work` returns, or how it fails, in a forked process, and how that ends.

    It ends as any process does, objects and all, which takes torch a second; or else `at_once`.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        began = time.monotonic()
        try:
            text = repr(work())
        except Exception as error:  # noqa: BLE001  (the test looks at it)
            text = f"{type(error).__name__}: {error}"
        os.write(write, f"{time.monotonic() - began:.3f} {text}".encode())
        if at_once:
            os._exit(0)
        sys.exit(0)
    os.close(write)
    status: list[int] = []

    def has_ended() -> bool:
        found, code = os.waitpid(pid, os.WNOHANG)
        status.extend([code] if found else [])
        return bool(found)

    ended = in_time(has_ended, seconds)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    took, _, said = os.read(read, 1 << 16).decode().partition(" ")
    os.close(read)
    return {"said": said, "seconds": took, "ended": ended and status == [0]}


def forked(directory: str, threads: int, mapped: bool) -> dict[str, Any]:
    """Fork with a live iterator, and use the old one and a new one there."""
    dataset = fr.ParquetDataset(directory, batch_size=10)
    source = source_of(dataset, threads, mapped)
    iterator = iter(source)
    batches = [next(iterator) for _ in range(3)]
    found: dict[str, Any] = {
        "old": in_a_fork(lambda: rows_of([next(iterator)])),
        "new": in_a_fork(lambda: rows_of(source)),
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
        assert float(old["seconds"]) < 5
    else:
        assert old["said"] == repr(list(range(30, 40)))
    assert found["new"]["said"] == repr(list(range(30, ROWS)))
    assert found["again"]["said"] == repr(list(range(30, ROWS)))
    assert all(found[name]["ended"] for name in ("old", "new", "again", "close", "nothing")), found
    assert found["here"] == list(range(ROWS))


def forked_in_next(directory: str, call: str) -> dict[str, Any]:
    """Fork while another thread is in `next()`, and touch the iterator there."""
    loader = fr.Loader(slow_dataset(directory), threads=1)
    iterator = iter(loader)
    batches: list[fr.Batch] = []
    thread = threading.Thread(target=lambda: batches.append(next(iterator)))
    thread.start()
    time.sleep(0.1)
    work = {"next": lambda: next(iterator), "close": loader.close, "drop": KEPT.clear}[call]
    found = in_a_fork(work, seconds=5)
    thread.join()
    return {**found, "here": rows_of(batches) == list(range(SLOW_FILES))}


@pytest.mark.parametrize("call", ["next", "close", pytest.param("drop", marks=pytest.mark.slow)])
def test_a_fork_while_another_thread_is_in_next_does_not_hang(child: Child, slow: Path, call: str) -> None:
    found = child.call(forked_in_next, str(slow), call)
    assert found["ended"], "it hangs"
    assert call != "next" or found["said"].startswith("StateError: ")
    assert found["here"]


# ----------------------------------------------------------------------------------------------------- memory


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 GiB in 64 files that are links to one of 16 MiB."""
    directory = tmp_path_factory.mktemp("large")
    first = directory / "00.parquet"
    bits = np.random.default_rng(0).integers(0, 2**62, 2 * MIB)
    table = pa.table({"bits": bits})
    pq.write_table(table, first, row_group_size=MIB, use_dictionary=False, compression="none")
    for index in range(1, 64):
        (directory / f"{index:02}.parquet").hardlink_to(first)
    return directory


def busy_seconds() -> float:
    """Return how long this process has computed."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def wait_for_threads() -> None:
    """Return when this process has stopped computing: all that is decoded ahead is there."""
    last = -1.0
    while busy_seconds() - last > 0.02:
        last = busy_seconds()
        time.sleep(0.3)


def slowly_consumed(directory: str, batch_size: int, prefetch_bytes: int) -> tuple[int, int]:
    """Return what decoding ahead takes, in bytes, while nobody wants a batch and while all are read."""
    loader = fr.Loader(
        fr.ParquetDataset(directory, batch_size=batch_size), threads=2, prefetch_bytes=prefetch_bytes
    )
    forget_peak()
    before = resident()
    iterator = iter(loader)
    next(iterator)
    wait_for_threads()
    waiting = resident() - before
    for _ in itertools.islice(iterator, 200):
        time.sleep(0.001)
    return waiting, peak() - before


def measured(name: str, *arguments: Any) -> Any:
    """Return what a function here returns in a fork, whose memory nothing else has touched."""
    found = in_a_fork(lambda: globals()[name](*arguments), seconds=40, at_once=True)
    return ast.literal_eval(found["said"])


@pytest.mark.parametrize(
    ("batch_size", "prefetch"),
    [(10_000, 64 * MIB), (1_000_000, 64 * MIB), (100_000, 1), (100_000, 256 * MIB), (1, MIB)],
)
def test_decoding_ahead_takes_the_memory_that_was_stated(
    child: Child, large: Path, batch_size: int, prefetch: int
) -> None:
    waiting, most = child.call(measured, "slowly_consumed", str(large), batch_size, prefetch)
    # One segment a thread comes on top, here a row group of 8 MiB, with the bytes it is decoded from.
    stated = prefetch + 2 * 2 * 8 * MIB + 8 * batch_size
    assert waiting < stated + 64 * MIB
    assert most < stated + 96 * MIB


def all_consumed(directory: str, threads: int) -> int:
    """Return by how much memory grows over a whole pass whose batches are not kept."""
    source = source_of(fr.ParquetDataset(directory, batch_size=100_000), threads)
    for _ in itertools.islice(iter(source), 100):
        pass
    forget_peak()
    before = peak()
    for _ in source:
        pass
    return peak() - before


@pytest.mark.parametrize("threads", [0, 2])
def test_memory_does_not_grow_over_a_pass(child: Child, large: Path, threads: int) -> None:
    assert child.call(measured, "all_consumed", str(large), threads) < 300 * MIB


def consumed_and_closed(directory: str) -> tuple[int, int]:
    """Return what a process keeps after many batches, and what of it after `close()`."""
    loader = fr.Loader(fr.ParquetDataset(directory, batch_size=100_000), threads=2)
    before = resident()
    iterator = iter(loader)
    for _ in itertools.islice(iterator, 100):
        pass
    wait_for_threads()
    kept = resident() - before
    loader.close()
    return kept, resident() - before


def test_a_closed_loader_gives_the_memory_of_its_batches_back(child: Child, large: Path) -> None:
    kept, after = child.call(measured, "consumed_and_closed", str(large))
    assert kept > 40 * MIB, "there is nothing to give back"
    assert after < kept / 2
