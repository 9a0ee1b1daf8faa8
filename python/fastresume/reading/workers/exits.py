"""Deaths of worker processes: told to who waits for their batches, and to nobody else.

torch's handler of SIGCHLD raises wherever the main thread is when a worker of any DataLoader dies: while a
checkpoint is written, say. Where it is a worker of ours for which nobody waits, it is told to who waits next.
"""

from __future__ import annotations

import re
import signal
import threading
import time
import weakref
from collections.abc import Iterable
from types import FrameType
from typing import Any

_DYING_SECONDS = 1.0

_NAMED = re.compile(r"\(pid (\d+)\)")
"""How torch names a worker that died."""


class Ward:
    """The workers of one crew, and whether one of them died while nobody waited for them."""

    def __init__(self) -> None:
        self.waits = False
        """Whether the main thread waits for them."""
        self.has_death = False

    def watch(self, processes: Iterable[int]) -> None:
        """Takes these processes for its workers, and torch's handler for what is to be heard."""
        self.has_death = False
        for process in processes:
            _wards[process] = self
        if threading.current_thread() is not threading.main_thread():
            return
        present = signal.getsignal(signal.SIGCHLD)
        if callable(present) and not isinstance(present, _Handler):
            signal.signal(signal.SIGCHLD, _Handler(present))


class _Handler:
    """What is done when a child has died: what was done before, but that it raises only to who waits."""

    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        while True:
            try:
                self._before(number, frame)
            except RuntimeError as error:
                named = _NAMED.search(str(error))
                ward = None if named is None else _wards.get(int(named[1]))
                if ward is None or ward.waits:
                    raise
                ward.has_death = True  # torch tells each worker once: another one may have died, too
            else:
                return


def dead(workers: list[Any]) -> list[tuple[int, int, int]]:
    """Number, process and exit code of workers that are dead, or die just now: a pipe may know it sooner."""
    end = time.monotonic() + _DYING_SECONDS
    while True:
        try:
            codes = [(number, worker.pid, worker.exitcode) for number, worker in enumerate(workers)]
            found = [each for each in codes if each[2] is not None]
            if found or time.monotonic() > end:
                return found
            time.sleep(0.01)
        except RuntimeError:  # torch's handler of the signal that a child died, in whose midst we are
            continue


def cause(exit_code: int) -> str:
    """Of what a process died, in words."""
    if exit_code >= 0:
        return f"ended with status {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"was killed by {name}" + (", perhaps for want of memory" if name == "SIGKILL" else "")


_wards: weakref.WeakValueDictionary[int, Ward] = weakref.WeakValueDictionary()
