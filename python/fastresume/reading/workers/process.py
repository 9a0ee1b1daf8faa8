"""What a worker process is, beside what it makes: it hears no signals, and never outlives its parent."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import wait
from typing import NamedTuple, Self

_WATCH_SECONDS = 1.0
_PR_SET_PDEATHSIG = 1

IGNORED = (signal.SIGINT, signal.SIGTERM)
"""Signals that a worker leaves to the main process."""


_watched: set[int] = set()


class ProcessOrigin(NamedTuple):
    """What a worker knows about its origin: the main process, the start method, which signals to block."""

    main: int
    method: str
    mask: set[int]


_FIRST = """
import ctypes, os, select, signal, threading
signal.pthread_sigmask(signal.SIG_BLOCK, {ignored})
name = "fastresume-parent"
if {method!r} == "forkserver" and all(thread.name != name for thread in threading.enumerate()):
    try:
        main = os.pidfd_open({main})
        end = select.poll()
        end.register(main, select.POLLIN)
        threading.Thread(target=lambda: (end.poll(), os._exit(1)), name=name, daemon=True).start()
    except ProcessLookupError:
        os._exit(1)
    except (AttributeError, OSError):
        pass
    try:
        from multiprocessing.forkserver import _forkserver as server
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None
    except (AttributeError, ImportError, OSError, TypeError):
        pass
try:
    ctypes.CDLL(None).prctl({death_signal}, int(signal.SIGKILL), 0, 0, 0)
except (AttributeError, OSError):
    pass
if {method!r} == "spawn" and os.getppid() != {main}:
    os._exit(1)
"""


class Name(str):
    """The name of a worker process, with which a new worker gets what it runs first.

    Such a process reads its name before it imports anything: the user's script, and torch, take seconds, in
    which it would learn nothing of its parent's end. So pickled, the name is a call that gives it. What that
    runs needs Python's own modules alone, since no path is set yet.

    Under a fork server the main process is no parent: a thread waits for its end. And the server ends when
    the last process closes a pipe to it, so a worker closes its own end. Then the system kills the worker,
    also in a call of C that holds Python's lock.
    """

    __slots__ = ("_first",)

    _first: str

    def __new__(cls, name: str, origin: ProcessOrigin) -> Self:
        """The name; `origin` is what `begin` gets."""
        made = super().__new__(cls, name)
        made._first = _FIRST.format(
            main=origin.main,
            method=origin.method,
            ignored=[int(number) for number in IGNORED],
            death_signal=_PR_SET_PDEATHSIG,
        )
        return made

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return eval, (f"[exec({self._first!r}, {{}}), {str(self)!r}][1]",)


def begin(origin: ProcessOrigin) -> None:
    """What a worker of a `Loader` does first. Signals are for the main process, which ends the workers.

    A job that a signal to all its processes asks to end has a step to finish, and needs its batch.
    """
    _die_with_parent(None if origin.method == "forkserver" else origin.main)
    for ignored in IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    # What of these came before was held, and is dropped.
    signal.pthread_sigmask(signal.SIG_SETMASK, origin.mask - set(IGNORED))
    settle()


def _die_with_parent(parent: int | None) -> None:
    """Has the system kill this process when the thread that started it ends, whatever happens here.

    A thread that watches the parent can't do that while a call of C holds Python's lock.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if parent is not None and os.getppid() != parent:  # it died before
        os._exit(1)


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
        ends.append(os.pidfd_open(parent.pid or 0))
    except ProcessLookupError:
        os._exit(1)
    except (AttributeError, OSError):  # old kernels have none, and some sandboxes
        pass
    threading.Thread(target=_watch, args=(ends, os.getppid()), daemon=True).start()


def _watch(ends: list[int], parent: int) -> None:
    while os.getppid() == parent and not wait(ends, _WATCH_SECONDS):
        pass
    os._exit(1)
