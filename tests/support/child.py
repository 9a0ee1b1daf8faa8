"""A Python process of its own that tests call functions in: interrupted, measured, dead or alive.

`child.call(function, ...)` runs a function of a test module over there. What the function passes to `say`
reaches the test while it runs, by `child.heard()`.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import re
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

MIB = 1 << 20

multiprocessing.set_forkserver_preload(["fastresume", "pytest", "support.strategies", "support.lives"])

SECONDS = 10
"""What "within seconds" means for a damaged file, of the processor; most errors take milliseconds."""
WAIT_SECONDS = 100
"""For how long a test waits for another process: others may have the processor in the meantime."""


class Child:
    """The process; a context manager that ends it."""

    def __init__(self, address_space: int | None = None, anew: bool = False) -> None:
        """Start it: as a fork of a process that has imported what tests need and done nothing else.

        Args:
            address_space: what it may map beyond what its imports took, in bytes.
            anew: whether it is a new interpreter, which takes seconds: it has the environment as it is now,
                and lets go of all objects at its end.
        """
        context = multiprocessing.get_context("spawn" if anew else "forkserver")
        self._stderr = tempfile.NamedTemporaryFile()  # noqa: SIM115  (closed in close)
        self._pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, self._stderr.name, address_space))
        self.process.start()
        theirs.close()
        assert self.heard(120) == "ready"  # to import torch takes seconds, and more of them under load

    def start(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Begin a call."""
        self._pipe.send((function.__module__, function.__name__, arguments))

    def heard(self, seconds: float = 60) -> Any:
        """Return what the function says next."""
        message = self.message(seconds)
        assert "said" in message, f"the call ended: {message}"
        return message["said"]

    def result(self, seconds: float = 60) -> Any:
        """Return what the function returns."""
        message = self.message(seconds)
        assert "returned" in message, message.get("raised", message)
        return message["returned"]

    def call(self, function: Callable[..., Any], *arguments: Any, seconds: float = 60) -> Any:
        """Return what the function returns for these arguments."""
        self.start(function, *arguments)
        return self.result(seconds)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        os.kill(self.process.pid or 0, signal.SIGINT)

    def message(self, seconds: float) -> dict[str, Any]:
        """Return what it sends next: {"said": ...}, {"returned": ...} or {"raised": ...}."""
        try:
            if not self._pipe.poll(seconds):
                self.process.kill()
                raise AssertionError(f"no answer within {seconds} s")
            message: dict[str, Any] = self._pipe.recv()
        except (EOFError, ConnectionError):
            self.process.join()
            died = f"the process died: {self.process.exitcode}\n{self.stderr()[-2000:]}"
            raise AssertionError(died) from None
        return message

    def stderr(self) -> str:
        """Return what the process has written to its standard error."""
        return Path(self._stderr.name).read_text(errors="replace")

    def end(self, seconds: float = 20) -> int | None:
        """Let it end by itself, and return its exit status."""
        self._pipe.close()
        self.process.join(seconds)
        return self.process.exitcode

    def close(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.join()
        self._pipe.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Outcome:
    """What came of reading a file in another process."""

    kind: str
    message: str
    batches: int
    cpu_seconds: float
    grown: int

    def assert_refused(self, path: Path, *words: object) -> None:
        """Assert that it is a DataError that names the column `x` of the file, in little memory."""
        assert self.kind == "DataError", self
        assert self.cpu_seconds < SECONDS, self
        missing = [
            word for word in map(str, (path, "column 'x'", "row group 0", *words)) if word not in self.message
        ]
        assert not missing, f"not in the message: {missing}; the message: {self.message}"
        assert "gave up" not in self.message, f"a panic: {self.message}"
        assert self.grown < 500 * MIB, f"{self.grown / MIB:.0f} MiB: {self.message}"


class Reader:
    """Another process that reads files; a new one whenever a file has killed it."""

    def __init__(self, address_space: int = 8 << 30, seconds: float = WAIT_SECONDS) -> None:
        """`address_space` is how much memory one file may take, `seconds` for how long it is waited for."""
        self._seconds = seconds
        self._address_space = address_space
        self._child: Child | None = None

    def read(
        self,
        path: Path,
        batch_size: int = 3,
        threads: int = 0,
        nulls: str | float = "error",
        width: int = 0,
    ) -> Outcome:
        """Read all of a file; rows of any length padded to a width, if one is given."""
        # Where memory is limited, a request for far too much ends a process, even if it would never be used.
        self._child = self._child or Child(self._address_space)
        child, self._child = self._child, None
        try:
            arguments = (str(path), batch_size, threads, nulls, width)
            found = child.call(read_whole, *arguments, seconds=self._seconds)
        except BaseException:
            child.close()
            raise
        self._child = child
        return Outcome(**found)

    def close(self) -> None:
        """End it."""
        if self._child is not None:
            self._child.close()


# ----------------------------------------------------------------------------------------------- in the child


_pipe: Connection


def serve(pipe: Connection, output: str, address_space: int | None) -> None:
    """Do what the test asks for, until it closes its end of the pipe."""
    global _pipe
    import fastresume  # noqa: F401  (what imports take is no growth)

    _pipe, said = pipe, os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.close(said)
    if address_space is not None:
        limit = _status("VmSize") + address_space
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    say("ready")
    with contextlib.suppress(EOFError):
        while True:
            module, name, arguments = pipe.recv()
            try:
                returned = getattr(importlib.import_module(module), name)(*arguments)
            except Exception:  # noqa: BLE001  (the test is told)
                pipe.send({"raised": traceback.format_exc()})
            else:
                pipe.send({"returned": returned})


def opened(path: str, batch_size: int, nulls: str | float, width: int) -> Any:
    """The dataset of a path; with a width, all that would be a `Jagged` is padded to it."""
    import fastresume as fr

    def ruled(*names: str) -> Any:
        column = fr.col(*names)
        if isinstance(nulls, str):
            return column.mask_null() if nulls == "mask" else column
        return column.fill_null(nulls)

    dataset = fr.ParquetDataset(path, batch_size=batch_size, columns=ruled("*"))
    names = [field.name for field in dataset.schema.values() if field.is_jagged and width]
    if not names:
        return dataset
    others = ruled("*", *(f"!{name}" for name in names))
    padded = ruled(*names).pad(width, truncate="tail")
    return fr.ParquetDataset(path, batch_size=batch_size, columns=[others, padded])


def forked(measure: Callable[..., tuple[int, int]], *arguments: Any) -> tuple[int, int]:
    """The result in a fork of a process that has done nothing: freed memory would be used again."""
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    process = context.Process(target=lambda: queue.put(measure(*arguments)))
    process.start()
    process.join(100)
    assert process.exitcode == 0
    found: tuple[int, int] = queue.get()
    return found


def read_whole(
    path: str, batch_size: int, threads: int, nulls: str | float = "error", width: int = 0
) -> dict[str, Any]:
    """Read all files that a path means, and say what came of it."""
    import fastresume

    forget_peak()
    before, began = peak(), time.process_time()
    batches, error = 0, None
    try:
        dataset = opened(path, batch_size, nulls, width)
        for _ in fastresume.Loader(dataset, threads=threads) if threads else dataset:
            batches += 1
    except Exception as raised:  # noqa: BLE001  (the test looks at it)
        error = raised
    return {
        "kind": type(error).__name__,
        "message": str(error),
        "batches": batches,
        "cpu_seconds": time.process_time() - began,
        "grown": peak() - before,
    }


def say(value: Any) -> None:
    """Tell the test something in the middle of a call."""
    _pipe.send({"said": value})


def _status(key: str) -> int:
    """Return a size of this process in bytes, as the kernel counts it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:"))


def shared_memory_files() -> set[str]:
    """Return the names in shared memory, without those that tests which run beside this one made.

    A name of torch's has its maker's process in it; a dead maker may have been one of this process's.
    """
    directory, mine = Path("/dev/shm"), {os.getpid(), *children()}  # noqa: S108  (looked at, not written to)
    found = set()
    for name in os.listdir(directory) if directory.exists() else ():  # noqa: PTH208  (names that come and go)
        maker = re.search(r"_(\d+)_", name)
        is_others = maker is not None and int(maker[1]) not in mine and Path(f"/proc/{maker[1]}").exists()
        if not (is_others or name.startswith("sem.")):  # a semaphore loses its name when it is made
            found.add(name)
    return found


def resident() -> int:
    """Return the bytes of memory that this process has now."""
    return _status("VmRSS")


def forget_peak() -> None:
    """Let `peak` count from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def peak() -> int:
    """Return the most bytes of memory that this process had since `forget_peak`."""
    return _status("VmHWM")


def threads() -> int:
    """Return how many threads this process has."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def open_files() -> int:
    """Return how many file descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children() -> list[int]:
    """Return the processes that this one has started and that are still there."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended meanwhile
            found += map(int, (task / "children").read_text().split())
    return found
