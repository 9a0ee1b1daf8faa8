"""The watchdog: a thread that logs what all threads and workers are doing when `next()` waits for long."""

from __future__ import annotations

import logging
import os
import time
import weakref
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable

_log = logging.getLogger("fastresume")

_LOOKS = 8
"""The thread looks this many times within the time limit: it is at most that fraction late."""

_MAX_PAUSE_SECONDS = 5.0

Report = Callable[[float], str]
"""A function that returns the text about a wait of some seconds."""


class Watchdog:
    """Logs a warning under "fastresume" when a wait takes this long; again after twice the time, and so on.

    Its thread starts with the first wait, and ends with `close()`, or with this object. A forked child has no
    such thread: there, the next wait starts another one.

    Args:
        seconds: how long a wait may take.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._process: int | None = None
        self._watch = _Watch(seconds)

    def begin(self, report: Report) -> None:
        """A wait begins; the thread calls `report` for the warning."""
        if self._process != os.getpid():
            self._process, self._watch = os.getpid(), _Watch(self.seconds)
            weakref.finalize(self, self._watch.end).atexit = False
            start_new_thread(self._watch.run, ())
        self._watch.wait = time.perf_counter(), report

    def end(self) -> None:
        """The wait is over."""
        self._watch.wait = None

    def close(self) -> None:
        """Ends the thread; the next wait starts another one."""
        self._watch.end()
        self._process = None


class _Watch:
    """The state of the thread: it keeps nothing alive but the report of a wait, while that lasts."""

    def __init__(self, seconds: float) -> None:
        self.wait: tuple[float, Report] | None = None
        self._seconds = seconds
        self._is_over = allocate_lock()
        self._is_over.acquire()

    def end(self) -> None:
        if self._is_over.locked():
            self._is_over.release()

    def run(self) -> None:
        pause = min(self._seconds / _LOOKS, _MAX_PAUSE_SECONDS)
        reported, due = 0.0, self._seconds
        while not self._is_over.acquire(timeout=pause):
            wait = self.wait
            if wait is None:
                continue
            began, report = wait
            if began != reported:
                reported, due = began, self._seconds
            waited = time.perf_counter() - began
            if waited >= due:
                due *= 2
                try:
                    _log.warning("%s", report(waited))
                except Exception:  # noqa: BLE001  (what it reports on changes meanwhile)
                    _log.exception("next() has waited %.1f s; what for is not known", waited)
            del wait, report
