"""A shift: worker processes from one start to their end.

A thread of its own starts them and sees them off, since a signal handler (Ctrl-C) may raise between any two
steps of the main thread. So each process is known from the moment on at which it exists. The thread lives as
long as they do: the system kills a worker when the thread that started it is gone (see `process.settle`).
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import select
import signal
import socket
import threading
import time
import weakref
from _thread import allocate_lock, start_new_thread
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import process as mp_process
from multiprocessing import resource_tracker
from multiprocessing.context import BaseContext
from queue import Empty, SimpleQueue
from typing import Any

import fastresume._core as _core
from fastresume.memory_file import Memory
from fastresume.platform import end_of, kill, kills_for_memory
from fastresume.reading import exiting
from fastresume.reading.workers.channel import Channel
from fastresume.reading.workers.process import Name, ProcessOrigin

GRACE_SECONDS = 2.0
"""How long a worker may continue its task after it was asked to end. Then it is killed."""

_DYING_SECONDS = 5.0
_LOOK_SECONDS = 1.0


class WorkerProcess:
    """A worker process, as the main process sees it.

    Attributes:
        number: its number in its shift.
        channel: what it is asked, and answers.
        blocks: the shared memory that it sends in, as far as it is mapped here.
        pid: its process; None until it is there.
    """

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self.channel = channel
        self.blocks: dict[int, Memory] = {}
        self.pid: int | None = None
        self._process: Any = None
        self._end: int | None = None

    def begin(self, process: Any) -> None:
        """Takes note of its process, which was started just now."""
        self._process, self.pid = process, process.pid
        with suppress(ProcessLookupError):
            self._end = end_of(process.pid)

    def exit_code(self) -> int | None:
        """What it ended with, as `subprocess` has it; None if it runs, or if no one can tell."""
        code: int | None = None if self._process is None else self._process.exitcode
        return code

    def is_dead(self) -> bool:
        """Whether it has ended."""
        return self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        end = time.monotonic() + seconds
        if self._end is not None:
            poll = select.poll()
            poll.register(self._end, select.POLLIN)
            if not poll.poll(max(seconds, 0) * 1000):
                return False
            self.exit_code()  # reaps it, unless somebody else did
            return True
        while self._process is not None and self.exit_code() is None:
            if (left := end - time.monotonic()) <= 0:
                return False
            time.sleep(min(left, 0.01))
        return True

    def kill(self) -> None:
        """Ends it, whatever it does."""
        with suppress(OSError):
            if self._end is not None:
                kill(self._end)
            elif self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Closes what this process holds of it."""
        _python_children().discard(self._process)
        self.channel.close()
        handle, self._end = self._end, None
        if handle is not None:
            os.close(handle)


class Shift:
    """The workers of one start.

    Args:
        work: what a worker does, of a module's top level: `work(origin, number, socket, *arguments)`.
        arguments: what else it is given.
        count: how many workers there are.
        context: how they are started.
        owner: whose workers they are: they end when it is gone.
    """

    def __init__(
        self,
        work: Callable[..., None],
        arguments: tuple[Any, ...],
        count: int,
        context: BaseContext,
        owner: object,
    ) -> None:
        self.workers: list[WorkerProcess] = []
        self.error: BaseException | None = None
        self.kills_before = kills_for_memory()
        self._work = work
        self._arguments = arguments
        self._count = count
        self._context: Any = context
        self._wakeups: SimpleQueue[object] = SimpleQueue()
        self._owner = weakref.ref(owner, self._wakeups.put)  # no line of Python runs, in which one may raise
        self._process = os.getpid()
        self._mask: set[int] = set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        self._is_begun = self._is_ending = False
        self._is_up, self._is_gone = allocate_lock(), allocate_lock()
        self._is_up.acquire()
        self._is_gone.acquire()

    def start(self) -> None:
        """Starts the workers, and waits until all are there. May be interrupted: then `end` it.

        Raises:
            BaseException: what starting them raised: that a transform can't be pickled, for one.
        """
        start_new_thread(_keep, (self,))
        self._is_up.acquire()
        if self.error is not None:
            exiting.stay_if_exiting()
            raise self.error

    def end(self) -> None:
        """Has the workers ended; returns at once. For any thread, a garbage collection, and a forked copy."""
        if self._process != os.getpid():
            return  # they are its parent's
        self._is_ending = True
        self._wakeups.put(None)

    def wait(self, seconds: float) -> bool:
        """Whether none of them is left after this time at most; `end` comes before."""
        if self._process != os.getpid() or not self._is_begun:  # its thread starts nothing any more
            return True
        is_gone = self._is_gone.acquire(timeout=seconds)
        if is_gone:
            self._is_gone.release()
        return is_gone

    # ------------------------------------------------------------------------------------- in its own thread

    def _keep(self) -> None:
        try:
            self._start_all()
        except BaseException as error:  # noqa: BLE001  (who waits for the workers gets it)
            self.error = error.with_traceback(None)
            self._is_ending = True
        self._work, self._arguments = _nothing, ()
        self._is_up.release()
        while not self._is_ending and self._owner() is not None:
            with suppress(Empty):
                self._wakeups.get(timeout=_LOOK_SECONDS)
        self._end_all()

    def _start_all(self) -> None:
        method = self._context.get_start_method()
        if method != "fork":
            resource_tracker.ensure_running()  # with the signals that it should hear
        with _starting:
            if method != "forkserver":  # which serves others, too
                # Workers inherit this: until they are set up, none may raise there, or end them.
                signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())
            for number in range(self._count):
                if exiting.has_begun() or self._is_ending:
                    raise _core.FastresumeError("the workers were ended while they were started")
                self._start(number, ProcessOrigin(self._process, method, self._mask))

    def _start(self, number: int, origin: ProcessOrigin) -> None:
        ours, theirs = socket.socketpair()
        worker = WorkerProcess(number, Channel(ours))
        self.workers.append(worker)  # first: a forked worker closes what it finds here
        process = self._context.Process(
            target=self._work,
            args=(origin, number, theirs, *self._arguments),
            name=Name(f"fastresume-worker-{number}", origin),
            daemon=True,
        )
        try:
            process.start()
        finally:
            theirs.close()
        # Python's exit would ask it to end by a signal that it doesn't hear, and wait for ever.
        process._popen.terminate = process._popen.kill
        worker.begin(process)

    def _end_all(self) -> None:
        try:
            for worker in self.workers:
                worker.channel.hang_up()
            end = time.monotonic() + GRACE_SECONDS
            late = [worker for worker in self.workers if not worker.wait(max(end - time.monotonic(), 0))]
            for worker in late:
                worker.kill()
            for worker in late:
                worker.wait(_DYING_SECONDS)
            for worker in self.workers:
                worker.close()
        finally:
            _shifts.discard(self)
            self._is_gone.release()


def _keep(shift: Shift) -> None:
    shift._is_begun = True
    _shifts.add(shift)
    shift._keep()


def _nothing(*_arguments: object) -> None:
    return


def _python_children() -> set[Any]:
    """Those that Python waits for at its exit."""
    children: set[Any] = getattr(mp_process, "_children", set())
    return children


_shifts: set[Shift] = set()
_starting = threading.Lock()
"""Held while processes are started, which none is once the interpreter has begun to end."""


@atexit.register
def _end_shifts() -> None:
    """At the end of the process: no worker is left, and nothing is said about it."""
    exiting.begin()
    is_held = _starting.acquire(timeout=GRACE_SECONDS)
    shifts = list(_shifts)
    for shift in shifts:
        shift.end()
    end = time.monotonic() + 2 * GRACE_SECONDS
    for shift in shifts:
        if not shift.wait(max(end - time.monotonic(), 0)):
            for worker in list(shift.workers):
                worker.kill()
    if is_held:
        _starting.release()


def _leave_shifts() -> None:
    """In a forked child: what it holds of its parent's workers would keep them from noticing an end."""
    global _starting  # noqa: PLW0603  (of this process)
    _starting = threading.Lock()
    shifts = list(_shifts)
    _shifts.clear()
    for shift in shifts:
        for worker in list(shift.workers):
            worker.close()


os.register_at_fork(after_in_child=_leave_shifts)


def context_of(chosen: str | BaseContext | None) -> BaseContext:
    """How processes are started: the context with this name, the one that was given, or Python's default."""
    return chosen if isinstance(chosen, BaseContext) else multiprocessing.get_context(chosen)
