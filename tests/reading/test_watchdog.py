"""A `next()` that waits for long says what everybody is at; and nothing is said to nobody."""

from __future__ import annotations

import logging
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from support.each_of import each_of
from support.jobs import make
from support.strategies import Dataset
from support.watching import in_time

pytestmark = pytest.mark.processes

FILES = 400


@pytest.fixture(scope="module")
def slow(slow_files: Callable[[int], Path]) -> Path:
    """Files of which one batch takes long to read."""
    return slow_files(FILES)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="fastresume")
    return caplog


def warnings_in(logged: pytest.LogCaptureFixture) -> list[str]:
    found = [record for record in logged.records if record.levelno == logging.WARNING]
    assert {record.name for record in found} <= {"fastresume"}
    return [record.getMessage() for record in found]


def wait_for(logged: pytest.LogCaptureFixture, warnings: int) -> list[str]:
    assert in_time(lambda: len(warnings_in(logged)) >= warnings)
    return warnings_in(logged)


class Blocked:
    """A transform that waits over one step until it is let go."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.may_go = threading.Event()

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        if batch.step == self.step:
            assert self.may_go.wait(60)
        return batch


def test_a_wait_is_told_at_growing_distances_with_the_line_of_the_transform(
    small_dataset: Dataset, logged: pytest.LogCaptureFixture
) -> None:
    blocked = Blocked(2)
    loader = fr.Loader(make(small_dataset).map(blocked), threads=1, watchdog_seconds=0.05)
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.extend(batch.step for batch in loader))
    thread.start()
    messages = wait_for(logged, 3)
    blocked.may_go.set()
    thread.join(60)
    assert found == list(range(10))
    seconds = [float(re.findall(r"next\(\) has waited (\S+) s", message)[0]) for message in messages]
    assert all(late >= 2**number * 0.05 - 0.05 for number, late in enumerate(seconds))
    message = messages[0].split("\n  ")
    assert "s for the batch of step 2 of pass 0, on rank 0 of 1; ready: " in message[0]
    assert "thread 0 has had nothing to do for" in message[1]
    line = r"a transform has been at the batch of step 2 for \S+ s, now at .*threading.py:\d+"
    assert re.search(line, message[2])
    loader.close()


@pytest.mark.parametrize("threads", [0, 1])
def test_a_slow_file_is_named_with_who_reads_it(
    slow: Path, logged: pytest.LogCaptureFixture, threads: int
) -> None:
    dataset = fr.ParquetDataset(slow, batch_size=4 * FILES)
    who = "thread 0" if threads else r"next\(\) itself"
    pattern = (
        r"for the batch of step 0 of pass \d+, on rank 0 of 1; ready: 0 batches of 0 bytes\n"
        rf"  {who} has been at row group [01] of {slow}/\d{{4}}\.parquet for \S+ s"
    )
    end = time.monotonic() + 60
    with fr.Loader(dataset, threads=threads, watchdog_seconds=0.02) as loader:
        while not re.search(pattern, logged.text) and time.monotonic() < end:
            list(loader)  # a thread may be seen between two files
    assert re.search(pattern, logged.text), logged.text


class Sleeps:
    """A transform that waits in its process until a file is there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        assert batch.step != 1 or in_time(self.path.exists, 60)
        return batch


def test_workers_are_named_with_what_they_are_at(
    small_dataset: Dataset, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    may_go = tmp_path / "go"
    loader = fr.Loader(
        make(small_dataset).map(Sleeps(may_go)),
        num_workers=2,
        multiprocessing_context="fork",
        watchdog_seconds=0.05,
    )
    busy = rf"worker 1 \(process \d+\) has been transforming batch 1 for \S+ s, of {small_dataset.files[0]}"
    idle = r"worker 0 \(process \d+\) has had nothing to do for \S+ s"

    wanted = rf"for the batch of step 1 of pass 0, .* ready: \d batches of \d+ bytes\n  {idle}\n  {busy}"

    def let_go_when_told() -> None:
        in_time(lambda: re.search(wanted, logged.text) is not None, 30)
        may_go.touch()

    thread = threading.Thread(target=let_go_when_told)
    thread.start()
    assert [batch.step for batch in loader] == list(range(10))
    thread.join(40)
    assert re.search(wanted, logged.text), logged.text
    loader.close()
    assert any("started 2 workers: processes [" in record.getMessage() for record in logged.records)


def test_a_worker_that_is_killed_is_an_error_in_the_log(
    small_dataset: Dataset, logged: pytest.LogCaptureFixture
) -> None:
    loader = fr.Loader(make(small_dataset), num_workers=1, multiprocessing_context="fork")
    iterator = iter(loader)
    next(iterator)
    process = int(re.findall(r"processes \[(\d+)\]", logged.text)[0])
    os.kill(process, signal.SIGKILL)
    with pytest.raises(fr.FastresumeError):
        list(iterator)
    (error,) = [record.getMessage() for record in logged.records if record.levelno == logging.ERROR]
    assert error.startswith(f"worker 0 of 1 (process {process}) was killed by SIGKILL")
    loader.close()


def test_a_quick_wait_is_not_told_and_no_thread_is_left(
    small_dataset: Dataset, logged: pytest.LogCaptureFixture
) -> None:
    def watching() -> int:
        frames = [frame.f_code for frame in sys._current_frames().values()]
        return sum(Path(code.co_filename).stem == "watchdog" for code in frames)

    def are(count: int) -> bool:
        return in_time(lambda: watching() == count)

    assert are(0)
    dataset = make(small_dataset)
    for how in ("close", "del"):
        loader = fr.Loader(dataset, threads=0, watchdog_seconds=30)
        assert are(0)
        assert len(list(loader)) == 10
        assert are(1)
        if how == "close":
            loader.close()
            assert are(0)
            assert len(list(loader)) == 10
            assert are(1)
        del loader
        assert are(0)
    assert warnings_in(logged) == []


def test_what_happens_is_logged_where_somebody_listens(
    small_dataset: Dataset, logged: pytest.LogCaptureFixture
) -> None:
    dataset = make(small_dataset)
    loader = fr.Loader(dataset, threads=1)
    batch = next(iter(loader))
    loader.load_state_dict(batch.state_dict())
    list(loader)
    said = [(record.levelname, record.getMessage()) for record in logged.records]
    wanted: list[tuple[str, str]] = [
        (
            "INFO",
            r"opened 3 files: 103 rows, \d+ row groups, fingerprint \w{16}; rank 0 of 1, 10 batches of 10",
        ),
        ("DEBUG", r"reads pass 0 from step 0: 10 batches left, cut \(1, 1, 10\), 1 thread"),
        ("INFO", r"resumes from a loaded state: Cursor\(epoch=0, consumed_rows=10 of 103 \(9\.7%\), step=1"),
        ("DEBUG", r"reads pass 0 from step 1: 9 batches left"),
        ("INFO", r"pass 0 ended: Stats\(batches=10, rows=100, "),
    ]
    assert [level for level, _ in said] == [level for level, _ in wanted]
    for (_, found), (_, pattern) in zip(said, wanted, strict=True):
        assert re.match(pattern, found), found


def test_nobody_hears_who_does_not_listen(capfd: pytest.CaptureFixture[str]) -> None:
    """Without a handler Python prints warnings; ours has one that does nothing."""
    logger = logging.getLogger("fastresume")
    assert any(isinstance(handler, logging.NullHandler) for handler in logger.handlers)
    logger.propagate = False  # pytest listens above
    try:
        logger.warning("to nobody")
    finally:
        logger.propagate = True
    assert capfd.readouterr().err == ""


@each_of(
    ("seconds", "error", "words"),
    [
        (0, ValueError, "watchdog_seconds must be above 0 and finite, found 0"),
        (float("inf"), ValueError, "above 0 and finite"),
        (float("nan"), ValueError, "above 0 and finite"),
        ("1", TypeError, "watchdog_seconds must be a number, found '1'"),
        (True, TypeError, "watchdog_seconds must be a number, found True"),
    ],
)
def test_a_time_that_is_none_is_refused(
    small_dataset: Dataset, seconds: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        fr.Loader(make(small_dataset), watchdog_seconds=seconds)
