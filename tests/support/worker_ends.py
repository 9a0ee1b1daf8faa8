"""Jobs with worker processes that end in every way, and what is left of them.

`python -m support.worker_ends DIRECTORY START SEED FORM=TIMES ...` imports all once, and forks a job after
the other, each of which goes through a whole life and end of the interpreter. Orphans become children of this
process, so that none escapes. What it prints is JSON: what went wrong.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import fastresume as fr
from support.watching import in_time

END_SECONDS = 30
"""A job that was told to end is gone within this time, and its workers with it."""

_PR_SET_CHILD_SUBREAPER = 36

KEPT: dict[str, Any] = {}


def same(batch: fr.Batch) -> fr.Batch:
    """A transform that changes nothing."""
    return batch


def hang(batch: fr.Batch) -> fr.Batch:
    """A transform that never returns."""
    threading.Event().wait()
    return batch


def seize(batch: fr.Batch) -> fr.Batch:
    """A transform that never returns, in C, with Python's lock."""
    ctypes.PyDLL(None).sleep(1000)
    return batch


def loader_of(directory: str, start: str, transform: Any = same) -> fr.Loader:
    """A loader with two workers."""
    dataset = fr.ParquetDataset(directory, batch_size=10).map(transform)
    return fr.Loader(dataset, num_workers=2, multiprocessing_context=start)


def again_and_again(directory: str, start: str) -> None:
    """Start workers, read with them, end them, for ever."""
    while True:
        with loader_of(directory, start) as loader:
            loader.start()
            for batch in loader:
                KEPT["batch"] = batch
                if batch.step == 5:
                    break


def told_to_leave(directory: str, start: str) -> None:
    """The same, with a handler that raises SystemExit."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
    again_and_again(directory, start)


def unclosed(directory: str, start: str) -> None:
    """Come to the end of a script with workers, and with a batch of theirs."""
    KEPT["loader"] = loader_of(directory, start)
    KEPT["iterator"] = iter(KEPT["loader"])
    KEPT["batch"] = next(KEPT["iterator"])
    globals()["BATCH"] = next(KEPT["iterator"])


def whole(directory: str, start: str) -> None:
    """Read a pass to its end, and leave the loader to the interpreter."""
    for batch in loader_of(directory, start):
        KEPT["batch"] = batch


def in_a_daemon_thread(directory: str, start: str) -> None:
    """End while a thread that nobody waits for starts workers, reads with them, and ends them."""
    threading.Thread(target=again_and_again, args=(directory, start), daemon=True).start()
    time.sleep(random.random() * (0.3 if start == "fork" else 5))


def for_ever(batches: Iterable[fr.Batch]) -> None:
    """Read pass after pass."""
    while True:
        for batch in batches:
            KEPT["batch"] = batch


def while_it_reads(batches: Iterable[fr.Batch], seconds: float = 0.1) -> None:
    """End while a thread that nobody waits for reads pass after pass."""
    KEPT["batches"] = batches
    threading.Thread(target=for_ever, args=(batches,), daemon=True).start()
    time.sleep(random.random() * seconds)


def while_a_daemon_reads_of_workers(directory: str, start: str) -> None:
    """End while it reads what workers made."""
    while_it_reads(loader_of(directory, start), 0.3 if start == "fork" else 5)


def while_a_daemon_reads_of_threads(directory: str, _start: str) -> None:
    """End while it reads what threads decoded, and others transformed."""
    while_it_reads(fr.Loader(fr.ParquetDataset(directory, batch_size=10).map(same), threads=2))


def while_a_daemon_reads_alone(directory: str, _start: str) -> None:
    """End while it decodes by itself."""
    dataset = fr.ParquetDataset(directory, batch_size=10)
    while_it_reads(random.choice([dataset, dataset.map(same), fr.Loader(dataset, threads=2)]))


def hung(directory: str, start: str) -> None:
    """Wait for a worker that never answers."""
    next(iter(loader_of(directory, start, hang)))


def hung_in_a_thread(directory: str, start: str) -> None:
    """Wait for a thread of this process that never answers, and close."""
    loader = fr.Loader(fr.ParquetDataset(directory, batch_size=10).map(hang), threads=2)
    KEPT["iterator"] = iter(loader)
    try:
        next(KEPT["iterator"])
    finally:
        loader.close()


def seized(directory: str, start: str) -> None:
    """Wait for a worker that holds Python's lock for ever."""
    next(iter(loader_of(directory, start, seize)))


JOBS: dict[str, Callable[[str, str], None]] = {
    function.__name__: function
    for function in (
        again_and_again,
        told_to_leave,
        unclosed,
        whole,
        in_a_daemon_thread,
        while_a_daemon_reads_of_workers,
        while_a_daemon_reads_of_threads,
        while_a_daemon_reads_alone,
        hung,
        hung_in_a_thread,
        seized,
    )
}
SIGNALS = {
    "again_and_again": [signal.SIGINT, signal.SIGTERM, signal.SIGKILL],
    "told_to_leave": [signal.SIGTERM],
    "hung": [signal.SIGINT, signal.SIGTERM, signal.SIGKILL],
    "hung_in_a_thread": [signal.SIGINT],
    "seized": [signal.SIGINT, signal.SIGKILL],
}
"""Forms that end when they are told to, and by which signals; the others end by themselves."""


WORDS = ("Error:", "terminate called", "Exception ignored", "is killed")
"""What a job never says when it is told to end; else it says nothing at all."""


def children() -> list[int]:
    """Processes that this one would have to wait for, without those that have ended."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(child) for child in found if _state(int(child)) not in ("", "Z")]


def _state(process: int) -> str:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _reap(process: int, seconds: float) -> int | None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(process, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")[:200]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def faults(directory: str, form: str, start: str, times: int, seed: int) -> list[str]:
    """What went wrong in so many jobs of a form."""
    chance = random.Random(seed)
    found: list[str] = []
    waits = 0.4 if start == "fork" else 12.0
    for number in range(times):
        with tempfile.TemporaryFile() as message:
            job = os.fork()
            if job == 0:
                os.dup2(message.fileno(), 1)
                os.dup2(message.fileno(), 2)
                random.seed(chance.random())
                faulthandler.enable()
                JOBS[form](directory, start)
                raise SystemExit
            sent = None
            if form in SIGNALS:
                sent = chance.choice(SIGNALS[form])
                least = 0.3 if form.startswith(("hung", "seized")) else 0
                time.sleep(least + chance.random() * waits)
                os.kill(job, sent)
            limit = END_SECONDS if form in SIGNALS else END_SECONDS + 20 * waits
            code = _reap(job, limit)
            what = f"{form}, {start}, number {number}, {sent and sent.name}"
            if code is None:
                os.kill(job, signal.SIGABRT)  # it tells where it is
                if _reap(job, END_SECONDS) is None:
                    os.kill(job, signal.SIGKILL)
                    os.waitpid(job, 0)
                message.seek(0)
                text = message.read().decode(errors="replace")
                found.append(f"{what}: the job has not ended: {text[-3000:]}")
            elif sent is None and code != 0:
                found.append(f"{what}: exit code {code}")
            in_time(lambda: not children(), END_SECONDS)
            if left := children():
                found.append(f"{what}: left {[(child, _command(child)) for child in left]}")
                for child in left:
                    os.kill(child, signal.SIGKILL)
            _reap_all()
            message.seek(0)
            text = message.read().decode(errors="replace")
            is_silent = not text if sent is None else not any(word in text for word in WORDS)
            is_told = sent is not signal.SIGINT or text.rstrip().endswith("KeyboardInterrupt")
            if code is not None and not (is_silent and is_told):
                found.append(f"{what}: it said {text[-1500:]}")
    return found


def _reap_all() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    multiprocessing.set_start_method("fork")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
    gc.freeze()  # what all jobs share is not theirs to collect at their end: that takes seconds
    _directory, _start, _seed, *_jobs = sys.argv[1:]
    _found: list[str] = []
    for _job in _jobs:
        _form, _, _times = _job.partition("=")
        _found += faults(_directory, _form, _start, int(_times), int(_seed))
    print(json.dumps(_found))
