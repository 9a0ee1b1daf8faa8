"""What the threads and workers that make batches are doing: for statistics and the watchdog only."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any, Protocol

import fastresume._core as _core
from fastresume.reading.store_counts import StoreCounts


class Activity(Protocol):
    """What a source of batches is doing.

    It answers at any time and in any thread, and when the source is gone, too.
    """

    @property
    def seconds(self) -> float:
        """The time spent reading and decoding files, summed over all threads or workers."""

    @property
    def transform_seconds(self) -> float:
        """The time that transforms ran ahead, summed over all threads or workers."""

    @property
    def asked(self) -> StoreCounts:
        """What worker processes asked of stores."""

    def queued(self) -> tuple[int, int]:
        """The number of batches that are ready, and their bytes."""

    def lines(self) -> list[str]:
        """What each thread or worker is doing, in words."""


class ReaderActivity:
    """The threads of a reader, and the one that calls `next()`, if that reads by itself."""

    transform_seconds = 0.0
    asked = StoreCounts()

    def __init__(self, core: _core.Activity) -> None:
        self._core = core

    @property
    def seconds(self) -> float:
        """The time spent reading and decoding files, summed over all threads."""
        return self._core.seconds

    def queued(self) -> tuple[int, int]:
        """The number of batches that are ready, and their bytes."""
        return self._core.queued()

    def lines(self) -> list[str]:
        """What each thread is doing, in words."""
        found = []
        *threads, caller = self._core.threads()
        named = [(f"thread {number}", activity) for number, activity in enumerate(threads)]
        if caller.doing != "waiting":
            named.append(("next() itself", caller))
        for name, activity in named:
            if activity.doing == "decoding":
                what = f"has been at row group {activity.number} of {activity.file}"
            elif activity.doing == "ending":
                what = f"has been putting batch {activity.number} together"
            else:
                what = "has had nothing to do"
            found.append(f"{name} {what} for {activity.seconds:.1f} s")
        return found


class Stage(Protocol):
    """A place where batches wait on their way."""

    def queued(self) -> tuple[int, int]:
        """The number of waiting batches, and their bytes."""


class Making:
    """Makes batches of what a source delivers, and records which thread makes which.

    It is called in several threads at once.

    Args:
        source: the activity of what the batches come from.
        make: makes a batch by transforms; its time is counted.
    """

    def __init__(self, source: Activity, make: Callable[[Any], Any]) -> None:
        self._source = source
        self._make = make
        self._at: dict[int, tuple[int, float]] = {}
        """For each thread: the step whose batch it makes, and since when."""
        self._spent: dict[int, float] = {}
        """For each thread: the seconds that it has spent so."""
        self._stages: list[weakref.ref[Stage]] = []

    def __call__(self, delivered: Any) -> Any:
        """The batch made of what was delivered."""
        thread, began = get_ident(), time.perf_counter()
        self._at[thread] = delivered.step, began
        try:
            return self._make(delivered)
        finally:
            self._spent[thread] = self._spent.get(thread, 0.0) + time.perf_counter() - began
            self._at.pop(thread, None)

    def passes(self, stage: Stage) -> None:
        """Counts what waits in a stage as ready, too; does not keep the stage alive."""
        self._stages.append(weakref.ref(stage))

    @property
    def seconds(self) -> float:
        """The time spent reading and decoding files, summed over all threads."""
        return self._source.seconds

    @property
    def transform_seconds(self) -> float:
        """The time that transforms ran, summed over all threads."""
        return self._source.transform_seconds + sum(self._spent.copy().values())

    @property
    def asked(self) -> StoreCounts:
        """What worker processes asked of stores."""
        return self._source.asked

    def queued(self) -> tuple[int, int]:
        """The number of batches that are ready, transformed or not, and their bytes as they were read."""
        batches, size = self._source.queued()
        for stage in [found() for found in self._stages]:
            if stage is not None:
                more = stage.queued()
                batches, size = batches + more[0], size + more[1]
        return batches, size

    def lines(self) -> list[str]:
        """What each thread is doing, in words; for a transform, with the line of its file that it is at."""
        found, now, frames = self._source.lines(), time.perf_counter(), sys._current_frames()
        for thread, (step, began) in self._at.copy().items():
            frame = frames.get(thread)
            place = "" if frame is None else f", now at {frame.f_code.co_filename}:{frame.f_lineno}"
            found.append(f"a transform has been at the batch of step {step} for {now - began:.1f} s{place}")
        return found
