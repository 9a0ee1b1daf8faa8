"""What threads of Python's own do for the core: they call sources, and tell what these gave."""

from __future__ import annotations

import os
import traceback
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

import fastresume._core as _core

IDLE_SECONDS = 0.05
"""A thread waits so long for the next call: to start one costs as much as a small read."""

Call = tuple[
    Callable[[int, int, list[int], int], Any],
    tuple[int, int, list[int], int],
    Callable[[Any, str | None, BaseException | None], None],
]
"""A function, its arguments (part, row group, columns, the fewest rows), and what takes the rows."""


class Askers:
    """Threads that call sources, as many as calls are under way.

    Threads and forks: any thread may ask. A forked child starts threads of its own.
    """

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets all threads: a fork takes none along."""
        self._lock = allocate_lock()
        self._calls: SimpleQueue[Call] = SimpleQueue()
        self._idle = 0

    def ask(self, *call: Any) -> None:
        """Lets a thread do a `Call`."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                self._calls.put(call)
                return
        start_new_thread(self._serve, (call,))

    def _serve(self, call: Call | None) -> None:
        while call is not None:
            _ask(*call)
            call = None  # it keeps a source alive
            call = self._next()

    def _next(self) -> Call | None:
        """The next call; None if none comes for a while."""
        with self._lock:
            self._idle += 1
        try:
            return self._calls.get(timeout=IDLE_SECONDS)
        except Empty:
            pass
        with self._lock:
            try:
                return self._calls.get_nowait()  # of who counted on this thread meanwhile
            except Empty:
                self._idle -= 1
                return None


def _ask(
    read: Callable[[int, int, list[int], int], Any],
    asked: tuple[int, int, list[int], int],
    take: Callable[[Any, str | None, BaseException | None], None],
) -> None:
    """Tells `take` the rows of (part, row group, columns, how many at least), or why they don't come."""
    try:
        given = read(*asked)
    except _core.DataError as error:
        take(None, str(error), None)
    except BaseException as error:  # noqa: BLE001  (raised by the batch that needs the rows)
        names_rows = isinstance(error, _core.SourceError)
        text = str(error) if names_rows else f"read() failed: {type(error).__name__}: {error}"
        cause = error.__cause__ or error
        traceback.clear_frames(cause.__traceback__)  # what its functions held is let go
        take(None, text, cause)
    else:
        take(given, None, None)


ASKERS = Askers()
"""Those of the process."""

os.register_at_fork(after_in_child=ASKERS.begin_anew)
