"""The end of the interpreter: no thread is in the middle of a batch when Python exits."""

from __future__ import annotations

import os
import threading
import time
from _thread import allocate_lock, get_ident

_MOST_SECONDS = 2.0
"""So long the end waits for batches that daemon threads have asked for."""

_is_over = False
_inside: list[int] = []
"""The daemon threads that are in `next()`: once for each call."""


def enter() -> None:
    """Notes that this thread asks for a batch: a daemon thread that does so at the end stays here."""
    if threading.current_thread().daemon:
        _inside.append(get_ident())
        stay_if_exiting()


def leave() -> None:
    """Notes that this thread has its batch, or none."""
    if (thread := get_ident()) in _inside:
        _inside.remove(thread)


def stay_if_exiting() -> None:
    """Keeps a daemon thread from telling of what the end of the interpreter has ended."""
    if _is_over and threading.current_thread().daemon:
        leave()
        forever = allocate_lock()
        forever.acquire()
        forever.acquire()


def has_begun() -> bool:
    """Whether the interpreter has begun to end."""
    return _is_over


def begin() -> None:
    """Begins the end: lets no daemon thread ask for a batch, and those that have asked have theirs."""
    global _is_over  # noqa: PLW0603  (of this process)
    _is_over = True
    end = time.monotonic() + _MOST_SECONDS
    while _inside and time.monotonic() < end:
        time.sleep(0.001)


def _begin_anew() -> None:
    """In a forked child, which has none of its parent's threads."""
    global _is_over  # noqa: PLW0603  (of this process)
    _is_over = False
    _inside.clear()


os.register_at_fork(after_in_child=_begin_anew)
