"""Which ranks have not come to a call that all ranks make together: said after some seconds."""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import torch.distributed

import fastresume._core as _core
from fastresume.messages import MOST_NAMED, bounded, warn

_log = logging.getLogger("fastresume")

WAIT_SECONDS = 10.0
"""How long ranks are waited for until it is said who is missing."""

_POLLS = 10
"""How often a wait is looked at in this time."""


class Attendance:
    """The calls that some ranks make together, in the same order on each.

    A rank that is in such a call for a moment says so in the process group's store. After `WAIT_SECONDS` the
    first of the ranks that are there warns of those that are not. It is no collective, and a call that is
    over soon asks the store nothing.

    Args:
        name: of these calls, the same on all ranks.
        members: the ranks, by their numbers in the default process group.
    """

    def __init__(self, name: str, members: Sequence[int]) -> None:
        self.members = members
        text = f"{name} {list(members)}"
        key = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        self.place = f"fastresume/attendance/{key}/{next(_made[key])}/"
        self._calls = 0

    @contextmanager
    def at(self, call: str, way: str = "") -> Iterator[None]:
        """Where this rank is, and waits for the others.

        Args:
            call: what all ranks call, for the warning.
            way: what else to write, for a job that means one rank alone.
        """
        self._calls += 1
        wait = _Wait(self, self._calls, call, way)
        try:
            _watch.add(wait)
            yield
        finally:
            _watch.remove(wait)


class _Wait:
    """A call that this rank is in."""

    def __init__(self, attendance: Attendance, number: int, call: str, way: str) -> None:
        self._place, self._members = attendance.place, attendance.members
        self._number, self._call, self._way = number, call, way
        self._thread = threading.get_ident()
        self._began = time.monotonic()
        self._is_written = self._is_over = False
        self._store: Any = None

    def look(self) -> None:
        """Says in the store that this rank is here, and who is not once they are late."""
        waited, poll = time.monotonic() - self._began, WAIT_SECONDS / _POLLS
        if self._is_over or waited < poll:
            return
        try:
            if not self._is_written:
                self._store = _own_store()
                self._store.set(f"{self._place}{torch.distributed.get_rank()}", str(self._number))
                self._is_written = True
            if waited < WAIT_SECONDS + 2 * poll:  # who came in time has said so by then
                return
            self._is_over = True
            present = next(filter(self._has_come, self._members), None)
            if present != torch.distributed.get_rank():
                return  # that one says it
            late = [rank for rank in self._members if not self._has_come(rank)]
        except (RuntimeError, ValueError) as error:
            self._is_over = True
            _log.warning("the process group's store can't tell which ranks are here: %s", error)
            return
        if late:
            self._warn(late)

    def _has_come(self, rank: int) -> bool:
        key = f"{self._place}{rank}"
        return self._store.check([key]) and int(self._store.get(key)) >= self._number

    def _warn(self, late: list[int]) -> None:
        text = (
            f"{named(late)} did not come to {self._call} in {WAIT_SECONDS:.0f} s, and the others wait there: "
            f"all ranks call it together, so write it outside of `if rank == 0:`{self._way}"
        )
        try:
            warn(text, frame=sys._current_frames().get(self._thread))
        except Warning:  # a filter makes errors of warnings, and no caller is here
            _log.warning(text)


@contextmanager
def in_call(call: str, group: Any, way: str = "") -> Iterator[None]:
    """A call that is one collective of a group, which all its ranks make; None for the default group.

    Args:
        call: its name.
        group: the process group.
        way: what else to write, for a job that means one rank alone.

    Raises:
        FastresumeError: if the collective fails, as when a rank is lost or late.
    """
    members = sorted(torch.distributed.get_process_group_ranks(group))
    try:
        with Attendance(call, members).at(call, way):
            yield
    except _core.FastresumeError:
        raise
    except Exception as error:
        raise _core.FastresumeError(lost(call, described(error))) from error


def lost(call: str, reason: str) -> str:
    """What an error says of a collective that failed.

    Args:
        call: what this rank had called.
        reason: why it failed.
    """
    return f"{call}: another rank is lost or late: {reason}; all of them call it together"


def described(error: BaseException) -> str:
    """The kind of an error and its text, for other ranks."""
    return bounded(f"{type(error).__name__}: {error}")


def named(ranks: list[int]) -> str:
    """Ranks in words, a few of them at most."""
    more = ", ..." if len(ranks) > MOST_NAMED else ""
    return f"rank{'s' if len(ranks) > 1 else ''} " + ", ".join(map(str, ranks[:MOST_NAMED])) + more


_made: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
"""How many there are for each name and ranks, as other ranks count them, too."""


class _Watch:
    """The calls that this process is in, and the thread that looks at them now and then."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may call what the thread that it stopped called
        self._waits: set[_Wait] = set()
        self._has_thread = False

    def add(self, wait: _Wait) -> None:
        with self._lock:
            self._waits.add(wait)
            if not self._has_thread:
                with suppress(RuntimeError):  # none starts while the interpreter ends: no call fails of it
                    threading.Thread(target=self._look, name="fastresume-attendance", daemon=True).start()
                    self._has_thread = True

    def remove(self, wait: _Wait) -> None:
        with self._lock:
            self._waits.discard(wait)

    def _look(self) -> None:
        """Looks at the calls; ends when there is none."""
        while True:
            time.sleep(WAIT_SECONDS / _POLLS)
            with self._lock:
                waits = list(self._waits)
                self._has_thread = bool(waits)
            if not waits:
                return
            for wait in waits:
                wait.look()


def _own_store() -> Any:
    """The process group's store by a connection of its own: the other one may wait in a call."""
    store: Any = torch.distributed.distributed_c10d._get_default_store()
    clone = getattr(store, "clone", None)  # torch 2.6 has none
    return store if clone is None else clone()


_watch = _Watch()

os.register_at_fork(after_in_child=_watch.__init__)  # type: ignore[misc]  # the thread is not in a fork
