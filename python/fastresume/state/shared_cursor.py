"""The cursor as the main process and torch's DataLoader workers share it.

All workers of one DataLoader iterator start where the shared cursor is. It changes at two moments, never
in mid iteration: when a state is loaded, and when the last batch of a pass comes out of the DataLoader in
the main process and every worker has begun, a slow one too. The batches carry tickets, by which the main
process knows what they are when they arrive.
"""

from __future__ import annotations

import itertools
import multiprocessing.context
import os
import struct
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import get_worker_info

import fastresume._core as _core
from fastresume.memory_file import MemoryFile

CAPACITY_BYTES = 1 << 20
"""How long a state may be that reaches workers: some 40,000 imported intervals."""


MAX_WORKERS = 1024
"""For this many workers of one DataLoader it is known whether they have begun."""


_HEADER = struct.Struct("=QQQ")


_TEXT_START = _HEADER.size + 8 * MAX_WORKERS


_BEGIN_SECONDS = 60.0


_READ_SECONDS = 10.0


_TO_THE_LOOP = 6  # frames from here through the DataLoader to who called next()


_iterations = itertools.count()


_shared: weakref.WeakValueDictionary[str, SharedCursor] = weakref.WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the main process must know about a batch that a worker sends.

    `place` is that of the batch among all of the iterator. `warning` is what the worker would warn of:
    warnings in workers are not seen.
    """

    owner: str
    loads: int
    version: int
    worker: int
    iteration: tuple[int, int]
    workers: int
    place: int
    ends_pass: bool
    warning: str | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a worker reads when its iterator begins."""

    loads: int
    version: int
    cursor: _core.Cursor


@dataclass(frozen=True, slots=True)
class Readers:
    """What reads a pass: a number of workers, of a DataLoader or a `Loader`, or this process (1).

    `are_seeded` says that the global generators are seeded for each batch, as in a `Loader`'s workers.
    """

    workers: int
    are_seeded: bool


ALONE = Readers(1, are_seeded=False)
"""This process, without workers."""


KNOWN_PASSES = 64
"""For this many passes it is known what has read them."""


class SharedCursor:
    """The cursor of a dataset: that of the last delivered batch, in memory that workers share.

    The process that made it writes, its DataLoader workers read. Any other process that got a copy (by fork,
    or by pickle) continues from there on its own.
    """

    is_kept = False
    """Whether a `ResumeState` was made, which tracks the batch that was trained last."""

    has_failed = False
    """Whether the newest iterator raised: this rank alone may begin again."""

    has_warned_of_rest = False
    """Whether a warning said that an evaluation lacks rows."""

    is_watched = False
    """Whether Accelerate warns where it saves, and nothing keeps the place."""

    def __init__(
        self, cursor: _core.Cursor, check_ranks: Callable[[_core.Cursor, int, bool], None] | None = None
    ) -> None:
        self._check_ranks = check_ranks
        self.latest: object = None
        """Whose turn it is: the newest iterator's, over this dataset and what `map` made of it."""
        self.in_next_of_workers: dict[int, int] = {}
        """By process, the thread that is in `next()` of an iterator with workers of a `Loader`."""
        self._passes: dict[int, tuple[_core.Cursor, Readers]] = {}
        self.loaded = cursor
        """The cursor that was loaded last, or where the pass was reset to; else that of the start."""
        self._follows = 0
        self._begin(cursor, loads=0)

    def _begin(self, cursor: _core.Cursor, loads: int) -> None:
        self._owner = os.urandom(16).hex()
        self._process = os.getpid()
        self._moving = threading.RLock()  # a signal handler may ask again, in the same thread
        self._memory = MemoryFile(CAPACITY_BYTES)
        self._bytes = self._memory.bytes
        # Whose intervals lie in it, and from where to where.
        self._laid: tuple[_core.Cursor, int, int] | None = None
        self._loads = loads
        self._version = 0
        self._seen: dict[int, tuple[int, int]] = {}
        _shared[self._owner] = self
        self._write(cursor)

    @property
    def cursor(self) -> _core.Cursor:
        """The present cursor."""
        self._own()
        return self._cursor

    @property
    def moving(self) -> threading.RLock:
        """Held while an iterator begins, a batch is handed over, or a state is loaded."""
        self._own()
        return self._moving

    @property
    def loads(self) -> int:
        """How often a state was loaded, or the pass reset, or other rows followed."""
        self._own()
        return self._loads

    @property
    def given(self) -> int:
        """How often a state was loaded, or the pass reset."""
        return self.loads - self._follows

    @property
    def is_behind(self) -> bool:
        """Whether batches of workers came out that the cursor does not count; never in a worker."""
        if get_worker_info() is not None:
            return False
        self._own()
        return bool(self._seen)

    def compare_by(self, check_ranks: Callable[[_core.Cursor, int, bool], None]) -> None:
        """Compares with the other ranks by this from now on."""
        self._check_ranks = check_ranks

    def compare_ranks(self, workers: int, begins: bool = False) -> None:
        """Refuses to read with this many workers what other ranks do not read; called before each batch.

        Args:
            workers: how many read.
            begins: whether an iterator begins with this batch in the middle of a pass, and none failed there.

        Raises:
            FastresumeError: if the ranks differ.
        """
        if self._check_ranks is not None:
            self._check_ranks(self.cursor, workers, begins)

    def check_process(self) -> None:
        """Refuses to load a state in a worker of a DataLoader: the other workers would not know of it.

        Raises:
            FastresumeError: it says what to write.
        """
        if get_worker_info() is not None:
            raise _core.FastresumeError(
                "a state was loaded in a DataLoader worker (torchdata's StatefulDataLoader does that with "
                "its own state): load batch.state_dict() into the dataset in the main process, from where it "
                "reaches all workers"
            )

    def load(self, cursor: _core.Cursor) -> None:
        """Takes a loaded cursor: for the iterators made from now on, those of running workers too."""
        self.check_process()
        with self.moving:
            self._loads += 1
            self.loaded = cursor
            self._passes.pop(cursor.epoch, None)
            self._write(cursor)

    def follow(self, cursor: _core.Cursor) -> None:
        """Takes the cursor of other rows that follow: of passes before, nothing can be read again."""
        with self.moving:
            self._passes.clear()
            loaded = self.loaded
            self.load(cursor)
            self.loaded, self._follows = loaded, self._follows + 1

    def begin(self, cursor: _core.Cursor, readers: Readers) -> None:
        """Records what reads a pass from a cursor on; it knows of the pass before."""
        self._passes.pop(cursor.epoch, None)
        self._passes[cursor.epoch] = cursor, readers
        if len(self._passes) > KNOWN_PASSES:
            del self._passes[min(self._passes)]

    def begun(self, epoch: int) -> tuple[_core.Cursor, Readers] | None:
        """The cursor where reading of a pass began, and what reads or read it; None if it has not begun."""
        self._own()
        return self._passes.get(epoch)

    def deliver(self, cursor: _core.Cursor) -> None:
        """Takes the cursor of a batch that was handed over in this process."""
        self._own()
        self._write(cursor)

    def read(self) -> Reading:
        """What a worker starts from."""
        end = time.monotonic() + _READ_SECONDS
        while True:
            loads, version, length = _HEADER.unpack(bytes(self._bytes[: _HEADER.size]))
            if length > CAPACITY_BYTES - _TEXT_START:
                raise _core.StateError(
                    f"a state of {length} bytes does not reach DataLoader workers, which share "
                    f"{CAPACITY_BYTES}: use fastresume.Loader"
                )
            text = bytes(self._bytes[_TEXT_START : _TEXT_START + length])
            try:
                return Reading(loads, version, _core.Cursor.parse(text.decode("utf-8")))
            except ValueError:  # the main process is writing: its checksum tells
                if time.monotonic() > end:
                    raise
                time.sleep(0.001)

    def read_as_worker(self, worker: int, iteration: int) -> Reading:
        """What a worker starts from; the main process then knows that it has begun."""
        reading = self.read()
        if worker < MAX_WORKERS:
            self._begun()[worker] = _mark(os.getpid(), iteration, reading.version)
        return reading

    def _begun(self) -> npt.NDArray[np.uint64]:
        """The mark of what each worker has begun last; see `_mark`."""
        return np.frombuffer(self._bytes[_HEADER.size : _TEXT_START], np.uint64)

    def _wait_for_late_workers(self, ticket: Ticket, processes: list[int]) -> None:
        """Waits until no worker of the iterator can take what comes next for where it begins."""
        end = time.monotonic() + _BEGIN_SECONDS
        begun = self._begun()[: ticket.workers]
        # Those of an earlier iterator may have begun at the same version: they are other processes.
        marks = [_mark(process, ticket.iteration[1], ticket.version) for process in processes]
        due = np.array(marks[: len(begun)], np.uint64)
        while (late := np.flatnonzero(begun[: len(due)] != due)).size:
            if time.monotonic() > end:
                raise _core.FastresumeError(
                    f"worker {late[0]} of {ticket.workers} has not begun after {_BEGIN_SECONDS:.0f} s, "
                    "in which the others finished the pass"
                )
            time.sleep(0.001)

    def hand_over(self, ticket: Ticket, cursor: _core.Cursor, processes: list[int]) -> None:
        """Records a batch that the DataLoader delivers whose workers are these processes."""
        if ticket.loads != self._loads:
            self._seen = {}
            raise _core.StateError(
                "a state was loaded after this DataLoader iterator was made: call iter() on it again"
            )
        if ticket.version != self._version:
            return
        self.compare_ranks(ticket.workers)
        if ticket.warning is not None:
            warnings.warn(ticket.warning, stacklevel=_TO_THE_LOOP)
        if not self._seen:
            self.begin(self._cursor, Readers(ticket.workers, are_seeded=False))
        seen = self._seen.get(ticket.worker, ticket.iteration)
        self._seen[ticket.worker] = ticket.iteration
        if seen != ticket.iteration:
            self._seen = {ticket.worker: ticket.iteration}
            warnings.warn(
                "a pass that was broken off starts again where it was loaded; to continue after the last "
                "batch, call dataset.load_state_dict(batch.state_dict()) before iter(), or use "
                "fastresume.Loader",
                stacklevel=_TO_THE_LOOP,
            )
        if ticket.ends_pass:
            self._wait_for_late_workers(ticket, processes)
            self._write(cursor)

    def _own(self) -> None:
        if self._process != os.getpid() and get_worker_info() is None:
            # What was copied by the fork: in the memory the parent may be further on already.
            self._begin(self._cursor, self._loads)

    def _write(self, cursor: _core.Cursor) -> None:
        self._version += 1
        self._seen = {}
        before, after = (part.encode("utf-8") for part in cursor.json_around_consumed())
        length = self._lay_consumed(cursor, len(before)) + len(after)
        if _TEXT_START + length <= CAPACITY_BYTES:
            self._bytes[_TEXT_START : _TEXT_START + len(before)] = before
            self._bytes[_TEXT_START + length - len(after) : _TEXT_START + length] = after
        self._bytes[: _HEADER.size] = _HEADER.pack(self._loads, self._version, length)
        # Last, and next to the return: what a signal handler interrupts before this was not delivered.
        self._cursor = cursor

    def _lay_consumed(self, cursor: _core.Cursor, start: int) -> int:
        """Writes the cursor's intervals at `start`, if there is room; returns where they end.

        There may be millions, and they are the same for all batches of a pass.
        """
        if self._laid is not None:
            laid, first, end = self._laid
            if first == start and cursor.shares_consumed(laid):
                return end
        self._laid = None  # should a signal handler interrupt this
        text = cursor.json_of_consumed().encode("utf-8")
        end = start + len(text)
        if _TEXT_START + end <= CAPACITY_BYTES:
            self._bytes[_TEXT_START + start : _TEXT_START + end] = text
        self._laid = cursor, start, end
        return end

    def __reduce__(self) -> tuple[Any, ...]:
        if multiprocessing.context.get_spawning_popen() is None:
            return SharedCursor, (self.read().cursor,)
        # A starting worker process: the memory itself goes along.
        return _attach, (self._owner, self._process, self._memory)


def _attach(owner: str, process: int, memory: MemoryFile) -> SharedCursor:
    shared = SharedCursor.__new__(SharedCursor)
    shared.latest, shared.in_next_of_workers, shared._moving = None, {}, threading.RLock()
    shared._passes, shared._check_ranks = {}, None
    shared._owner, shared._process, shared._memory = owner, process, memory
    shared._bytes = memory.bytes
    reading = shared.read()
    shared._cursor, shared._loads, shared.loaded = reading.cursor, reading.loads, reading.cursor
    return shared


def _mark(process: int, iteration: int, version: int) -> int:
    """What a worker's process notes down when its n-th iterator begins at a version of the cursor."""
    return (process & 0xFFFFFFFF) << 32 | (iteration & 0xFFFF) << 16 | version & 0xFFFF


def shared_cursor_of(owner: str) -> SharedCursor | None:
    """The shared cursor of this process that a ticket names, if there is one still."""
    return _shared.get(owner)


def new_iteration() -> int:
    """The number of a worker's new iterator: the same in all workers of a DataLoader."""
    return next(_iterations)


def new_ticket(shared: SharedCursor, reading: Reading, worker: int, workers: int, iteration: int) -> Ticket:
    """The ticket of most batches of a worker's new iterator."""
    begun = (os.getpid(), iteration)
    of_cursor = (shared._owner, reading.loads, reading.version)
    return Ticket(*of_cursor, worker, begun, workers, place=worker, ends_pass=False, warning=None)
