"""What a worker process is, beside what it makes: it hears no signals, and outlives nobody."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext

_WATCH_SECONDS = 1.0


IGNORED = (signal.SIGINT, signal.SIGTERM)
"""Signals that a worker leaves to the main process."""


_watched: set[int] = set()


@contextmanager
def signals_held(context: str | BaseContext | None) -> Iterator[None]:
    """A context in which workers start that don't hear the signals that they will ignore; see `begin`.

    Between their start and `begin`, a signal to the whole process group would end them. Not for a fork
    server, which serves others, too.
    """
    chosen = context if isinstance(context, BaseContext) else multiprocessing.get_context(context)
    if chosen.get_start_method() == "forkserver":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin(_worker: int) -> None:
    """What a worker of a `Loader` does first. Signals are for the main process, which ends the workers.

    A job that is told to end by a signal to all its processes has a step to finish, and needs its batch.
    """
    for ignored in IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)  # what came before this was held, and is dropped
    settle()


def settle() -> None:
    """Makes a worker process one that touches no inherited memory without need, and outlives nobody.

    The garbage collector leaves alone what is there already: it would write to pages that a forked worker
    shares with its parent. And the process ends when its parent is dead: torch looks for that only between
    batches, and notes whose child it is only when it is up.
    """
    if os.getpid() in _watched:
        return
    _watched.add(os.getpid())
    gc.freeze()
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel, os.getppid()), daemon=True).start()


def _watch(sentinel: int, parent: int) -> None:
    while os.getppid() == parent and not wait([sentinel], _WATCH_SECONDS):
        pass
    os._exit(1)
