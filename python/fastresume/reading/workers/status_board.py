"""What the worker processes of a `Loader` write about themselves, in memory that the main process reads.

Every word has one writer: the first one the main process, a worker's row that worker.
"""

from __future__ import annotations

import os
import time
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
import numpy.typing as npt

from fastresume.memory_file import Memory, mapped_file
from fastresume.platform import Descriptor, is_alive, unnamed_file
from fastresume.reading.store_counts import StoreCounts

WAITING, READING, TRANSFORMING, SENDING = range(4)
"""What a worker is at."""

_PROCESS, _DOING, _SINCE, _NUMBER, _SERVING, _BATCHES, _BYTES, _READ, _TRANSFORMED, _STORES = range(10)
"""The words of a row: times in nanoseconds; batches and bytes are those made in the serving."""

_WORDS = _STORES + len(StoreCounts._fields)
"""After them comes what the worker asked of stores; waits in nanoseconds, too."""

_DOES = ("has had nothing to do", "has been reading", "has been transforming", "has been sending")


class StatusBoard:
    """The shared memory: which serving is wanted, and a row for each worker.

    Args:
        workers: how many workers write to it.
        file: the memory of another process, which this takes over; None for new memory.
    """

    def __init__(self, workers: int, file: int | None = None) -> None:
        size = 8 * (1 + workers * _WORDS)
        self._workers = workers
        self._file = Descriptor(unnamed_file(size) if file is None else file)
        memory: Memory = mapped_file(self._file.fileno(), size)
        words: npt.NDArray[np.int64] = memory.view(np.int64)
        self._wanted = words[:1]
        self._rows = words[1:].reshape(workers, _WORDS)
        self._received = self._received_bytes = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _board_over, (self._workers, DupFd(self._file.fileno()))

    @property
    def serving(self) -> int:
        """Tasks of other servings are not wanted any more."""
        return int(self._wanted[0])

    def serve(self, serving: int) -> None:
        """Tells the workers of a new serving."""
        self._received = self._received_bytes = 0
        self._wanted[0] = serving

    def receive(self, num_bytes: int) -> None:
        """Takes note that the main process got a batch of the present serving."""
        self._received += 1
        self._received_bytes += num_bytes

    def note(self, worker: int, doing: int, number: int, serving: int) -> None:
        """What a worker is at from now on, and over which batch; it writes this itself."""
        row, now = self._rows[worker], time.monotonic_ns()
        before, since = int(row[_DOING]), int(row[_SINCE])
        if before == READING:
            row[_READ] += now - since
        elif before == TRANSFORMING:
            row[_TRANSFORMED] += now - since
        if row[_SERVING] != serving:
            row[_BATCHES] = row[_BYTES] = 0
        row[: _SERVING + 1] = os.getpid(), doing, now, number, serving

    def sent(self, worker: int, num_bytes: int, asked: StoreCounts) -> None:
        """Takes note that a worker made a batch, and what it asked of stores; it writes this itself."""
        row = self._rows[worker]
        row[_BATCHES] += 1
        row[_BYTES] += num_bytes
        row[_STORES:] = [*asked[:-1], round(asked.wait_for_bytes_seconds * 1e9)]

    @property
    def asked(self) -> StoreCounts:
        """What all workers asked of stores."""
        *counts, waited = self._rows[:, _STORES:].sum(0).tolist()
        return StoreCounts._make([*counts, waited / 1e9])

    @property
    def seconds(self) -> float:
        """How long all workers have read and decoded."""
        return float(self._rows[:, _READ].sum()) / 1e9

    @property
    def transform_seconds(self) -> float:
        """How long their transforms ran."""
        return float(self._rows[:, _TRANSFORMED].sum()) / 1e9

    def queued(self) -> tuple[int, int]:
        """How many batches of the present serving were made and not received, and their bytes."""
        rows = self._rows[self._rows[:, _SERVING] == self.serving]
        batches = int(rows[:, _BATCHES].sum()) - self._received
        return max(batches, 0), max(int(rows[:, _BYTES].sum()) - self._received_bytes, 0)

    def lines(self) -> list[tuple[str, int | None]]:
        """What each worker is at, in words, and the number of the batch that it is at."""
        found: list[tuple[str, int | None]] = []
        now = time.monotonic_ns()
        for worker, row in enumerate(self._rows):
            process, doing, since, number = (int(word) for word in row[: _NUMBER + 1])
            name = f"worker {worker}"
            if not process:
                found.append((f"{name} has not begun", None))
            elif not is_alive(process):
                found.append((f"{name} (process {process}) is dead", None))
            else:
                at = "" if doing == WAITING else f" batch {number}"
                seconds = (now - since) / 1e9
                line = f"{name} (process {process}) {_DOES[doing]}{at} for {seconds:.1f} s"
                found.append((line, None if doing == WAITING else number))
        return found


def _board_over(workers: int, handle: Any) -> StatusBoard:
    return StatusBoard(workers, handle.detach())
