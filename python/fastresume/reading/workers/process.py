"""What a worker process is, beside what it makes: it hears no signals, and never outlives its parent."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import NamedTuple, Self

from fastresume.platform import die_with_parent, end_of, first_steps

_WATCH_SECONDS = 1.0

IGNORED = (signal.SIGINT, signal.SIGTERM)
"""Signals that a worker leaves to the main process."""


_watched: set[int] = set()


class ProcessOrigin(NamedTuple):
    """What a worker knows about its origin: the main process, the start method, which signals to block."""

    main: int
    method: str
    mask: set[int]


class Name(str):
    """The name of a worker process, with which a new worker gets what it runs first.

    Such a process reads its name before it imports anything. So pickled, the name is a call that gives it,
    after `platform.first_steps`: these need Python's own modules alone, since no path is set yet.
    """

    __slots__ = ("_first",)

    _first: str

    def __new__(cls, name: str, origin: ProcessOrigin) -> Self:
        """The name; `origin` is what `begin` gets."""
        made = super().__new__(cls, name)
        made._first = first_steps(origin.main, origin.method, [int(number) for number in IGNORED])
        return made

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return eval, (f"[exec({self._first!r}, {{}}), {str(self)!r}][1]",)


def begin(origin: ProcessOrigin) -> None:
    """What a worker of a `Loader` does first. Signals are for the main process, which ends the workers.

    A job that a signal to all its processes asks to end has a step to finish, and needs its batch.
    """
    die_with_parent()
    if origin.method != "forkserver" and os.getppid() != origin.main:  # it died before
        os._exit(1)
    for ignored in IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    # What of these came before was held, and is dropped.
    signal.pthread_sigmask(signal.SIG_SETMASK, origin.mask - set(IGNORED))
    settle()


def settle() -> None:
    """Makes a worker process one that touches no inherited memory without need, and outlives no parent.

    The garbage collector leaves alone what is there already: it would write to pages that a forked worker
    shares with its parent. And the process ends when its parent is dead: torch looks for that only between
    batches, and notes whose child it is only when it is up.
    """
    if os.getpid() in _watched:
        return
    _watched.add(os.getpid())
    gc.freeze()
    parent = parent_process()
    if parent is None:
        return
    ends = [parent.sentinel]
    try:
        # The sentinel is a pipe, which another process may hold open, too.
        if (end := end_of(parent.pid or 0)) is not None:
            ends.append(end)
    except ProcessLookupError:
        os._exit(1)
    threading.Thread(target=_watch, args=(ends, os.getppid()), daemon=True).start()


def _watch(ends: list[int], parent: int) -> None:
    while os.getppid() == parent and not wait(ends, _WATCH_SECONDS):
        pass
    os._exit(1)
