"""Waits for a source that fails, which take no time."""

from __future__ import annotations

import threading

import pytest

from fastresume.sources import patience


def wait_in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each thread's clock go on by what it would sleep: an outage of two minutes is over at once."""
    slept = threading.local()

    def clock() -> float:
        return float(getattr(slept, "seconds", 0.0))

    def sleep(seconds: float) -> None:
        slept.seconds = clock() + seconds

    monkeypatch.setattr(patience, "monotonic", clock)
    monkeypatch.setattr(patience, "sleep", sleep)
