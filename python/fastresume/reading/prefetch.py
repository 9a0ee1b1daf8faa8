"""Threads that make batches ahead of the training loop: they run transforms, and copy batches to a device.

A signal handler (Ctrl-C) may raise in the main thread between any two steps of Python code, also within the
standard library's. A thread that was half started, or a lock that no one released, would be left. So the
main thread's work here is made of single calls, in an order in which any of them may be the last.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from _thread import allocate_lock, get_ident, start_new_thread
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

import fastresume._core as _core
from fastresume.reading import exiting

_log = logging.getLogger("fastresume")

_END_SECONDS = 2.0

MAX_THREADS = 4
"""More threads would wait for each other: Python code runs in one at a time."""


class Reader(Protocol):
    """A source of what batches are made of, in order: a reader, or one of the classes below."""

    def start(self) -> None:
        """Begins to read."""

    def front(self) -> Any:
        """What the front batch is made of: the same until `advance` is called; None at the end."""

    def advance(self) -> None:
        """Releases the front batch."""

    def close(self) -> None:
        """Ends the threads, and closes the files."""


class Slot:
    """The place of one batch in the order; without `delivered`, the end of the pass or an error."""

    __slots__ = ("batch", "delivered", "error", "is_done")

    def __init__(self, delivered: Any, error: BaseException | None = None) -> None:
        self.delivered = delivered
        self.error = error
        self.batch: Any = None
        self.is_done = allocate_lock()
        self.is_done.acquire()

    def make(self, make: Callable[[], Any]) -> None:
        """Keeps what a function returns or raises, for the thread that waits."""
        try:
            self.batch = make()
        except BaseException as error:  # noqa: BLE001  (raised where the batch is asked for)
            self.error = error
        is_done = self.is_done
        del self, make  # else the error's traceback would keep the error alive
        is_done.release()

    def wait(self) -> Any:
        """Returns the batch, or raises what making it raised."""
        while self.batch is None and self.error is None:
            self.is_done.acquire()
        if self.batch is not None:
            return self.batch
        try:
            raise self.error or _core.FastresumeError("no batch was made")
        finally:
            del self  # else the error's traceback would keep the error alive


class Prefetch:
    """A reader's batches, made in threads ahead of the consumer, in the reader's order.

    It has the methods of a reader: a batch stays in front until `advance` is called.

    Args:
        reader: the source; it may be another `Prefetch`, whose batches are made into others.
        make: makes a batch of what the reader delivers; called in several threads at once.
        threads: how many threads make batches.
        depth: how many batches are made ahead of the one in front, at least 1.
    """

    def __init__(
        self, reader: Reader | Prefetch, make: Callable[[Any], Any], threads: int, depth: int
    ) -> None:
        self._reader = reader
        self._make = make
        self._threads = threads
        self._depth = depth
        self._process = os.getpid()
        self._slots: deque[Slot] = deque()
        self._changed = allocate_lock()  # released when a slot is added, or when there will be none
        self._changed.acquire()
        self._drawing = threading.Lock()  # taken by the threads only
        self._orders: SimpleQueue[Prefetch | Beside | None] = SimpleQueue()
        self._running: dict[int, threading.Lock] = {}
        self._started = self._ordered = self._drawn = 0
        self._is_closed = False
        _alive.add(self)

    def start(self) -> None:
        """Begins to make batches."""
        if self._process != os.getpid():
            raise _core.StateError(
                f"this iterator was made in process {self._process}, before it forked: make a new one in "
                f"process {os.getpid()}"
            )
        # A count is raised after the fact: so at worst something is done once too often, never too seldom.
        while len(self._slots) + self._ordered - self._drawn <= self._depth:
            if self._started < self._threads:
                start_new_thread(_work, (self._orders, self._running))
                self._started += 1
            self._orders.put(self)
            self._ordered += 1

    def front(self) -> Any:
        """What the front batch is made of: the same until `advance` is called; None at the end."""
        self.start()
        while not self._slots and not self._is_closed:
            self._changed.acquire()
        if self._is_closed:
            exiting.stay_if_exiting()
            raise _core.FastresumeError("the reader is closed")
        if self._slots[0].delivered is None and self._slots[0].error is not None:
            self._slots.popleft().wait()  # raises it; the reader may recover
        return self._slots[0].delivered

    def batch(self) -> Any:
        """The front batch; raises what making it raised."""
        return self._slots[0].wait()

    def slot(self) -> Slot:
        """The place of the front batch."""
        return self._slots[0]

    def queued(self) -> tuple[int, int]:
        """How many batches are made or being made, and their bytes as read. For any thread."""
        delivered = [slot.delivered for slot in self._slots.copy()]
        sizes = [each.num_bytes for each in delivered if each is not None]
        return len(sizes), sum(sizes)

    def advance(self) -> None:
        """Releases the front batch."""
        self._slots.popleft()

    def close(self, wait: bool = True) -> None:
        """Ends the threads, and closes the files. A garbage collection may call it, in any thread.

        Args:
            wait: for what the threads are at, for some seconds.
        """
        self._is_closed = True
        self._reader.close()
        self._orders.put(None)
        self._slots.clear()
        self._wake()
        if wait:
            _wait_for(self._running, self._process)

    def draw(self) -> None:
        """Takes the reader's next batch, and makes a batch of it: in a thread of this object."""
        sources: list[Callable[[], Any]] = []
        with self._drawing:
            slot = self._next_slot()
            if slot.delivered is not None:
                reader = self._reader
                sources.append(reader.slot().wait if isinstance(reader, Prefetch) else partial(_itself, slot))
            self._slots.append(slot)
            self._drawn += 1
            if slot.delivered is not None:
                self._reader.advance()
        self._wake()
        if sources:
            slot.make(partial(_made_of, self._make, sources))
        del slot  # else an error in it would keep itself alive, and the error that it followed

    def _next_slot(self) -> Slot:
        try:
            return Slot(self._reader.front())
        except BaseException as error:  # noqa: BLE001  (raised where the batch is asked for)
            return Slot(None, error.with_traceback(None))  # the traceback's frames would keep the error alive

    def _wake(self) -> None:
        try:
            self._changed.release()
        except RuntimeError:  # no thread has seen the last change yet
            return


class Beside:
    """A reader's batches, made in a thread of this object while the consumer waits.

    It is for work that must not run where a signal handler may raise. It has the methods of a reader.

    Args:
        reader: the source.
        prepare: called first, in the consumer's thread, with what the reader delivers.
        make: makes the batch of the result.
    """

    def __init__(self, reader: Reader, prepare: Callable[[Any], Any], make: Callable[[Any], Any]) -> None:
        self._reader = reader
        self._prepare = prepare
        self._make = make
        self._process = os.getpid()
        self._slot: Slot | None = None
        self._due: SimpleQueue[tuple[Slot, Any]] = SimpleQueue()
        self._orders: SimpleQueue[Prefetch | Beside | None] = SimpleQueue()
        self._running: dict[int, threading.Lock] = {}
        self._is_started = False
        _alive.add(self)

    def start(self) -> None:
        """Begins to read."""
        self._reader.start()

    def front(self) -> Any:
        """What the front batch is made of: the same until `advance` is called; None at the end."""
        return self._reader.front()

    def batch(self) -> Any:
        """The front batch; raises what making it raised."""
        front = self._reader.front()
        if self._slot is None or self._slot.delivered is not front:
            slot, prepared = Slot(front), self._prepare(front)
            if not self._is_started:
                start_new_thread(_work, (self._orders, self._running))
                self._is_started = True
            self._slot = slot
            self._due.put((slot, prepared))
            self._orders.put(self)
            del slot, prepared  # else an error in it would keep itself alive
        return self._slot.wait()

    def draw(self) -> None:
        """Makes the next batch that is due: in the thread of this object."""
        slot, prepared = self._due.get()
        slot.make(partial(self._make, prepared))
        del slot, prepared

    def advance(self) -> None:
        """Releases the front batch."""
        self._reader.advance()
        self._slot = None

    def close(self, wait: bool = True) -> None:
        """Ends the thread, and closes the files. May be called by a garbage collection, in any thread.

        Args:
            wait: for what the thread is at, for some seconds.
        """
        self._reader.close()
        self._orders.put(None)
        self._slot = None
        if wait:
            _wait_for(self._running, self._process)


def _itself(slot: Slot) -> Any:
    return slot.delivered


def _made_of(make: Callable[[Any], Any], sources: list[Callable[[], Any]]) -> Any:
    """What is made of the result of the only source; no frame keeps it alive."""
    return make(sources.pop()())


def _wait_for(running: dict[int, threading.Lock], process: int) -> None:
    """Waits until the threads have ended, but not for ever: what they call is the user's, and may hang."""
    # A fork takes no threads along; and two of these threads that close it would wait for each other.
    if process != os.getpid() or get_ident() in running:
        return
    end = time.monotonic() + _END_SECONDS
    for thread, is_running in running.copy().items():
        if not is_running.acquire(timeout=max(end - time.monotonic(), 0)):
            running.pop(thread, None)  # it ends by itself when it can; no one waits for it again
            _log.warning(
                "a transform has not come to its end within %g s after its loader was closed: its thread is "
                "left to itself",
                _END_SECONDS,
            )


def _work(orders: SimpleQueue[Prefetch | Beside | None], running: dict[int, threading.Lock]) -> None:
    """The loop of a thread: it keeps nothing alive while it waits."""
    thread, is_running = get_ident(), allocate_lock()
    is_running.acquire()
    running[thread] = is_running
    try:
        while (waiting := orders.get()) is not None:
            waiting.draw()
            del waiting
    finally:
        orders.put(None)  # for the next thread
        running.pop(thread, None)
        is_running.release()


_alive: weakref.WeakSet[Prefetch | Beside] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Waits for the threads before the interpreter exits."""
    exiting.begin()
    for ahead in list(_alive):
        ahead.close()
