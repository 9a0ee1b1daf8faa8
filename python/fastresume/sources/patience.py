"""How long a source that fails is asked again: as long, and as often, as a store."""

from __future__ import annotations

import os
from time import monotonic, sleep

import fastresume._core as _core

FINAL = (
    TypeError,
    AttributeError,
    NameError,
    NotImplementedError,
    _core.DataError,
    _core.SourceError,
)
"""What no second try makes better."""


class Patience:
    """How long to keep asking after a fault, since the last rows that came. The core says it."""

    def __init__(self) -> None:
        self._core = _core.Patience()
        self._first = self._began = monotonic()

    def waits(self, fault: Exception | None) -> bool:
        """Waits before the next try; False if there is to be none."""
        # Ranks should not ask all at once.
        share = int.from_bytes(os.urandom(2), "little") / 2**16
        began, now = self._began - self._first, monotonic() - self._first
        wait = self._core.wait(isinstance(fault, OSError), began, now, share)
        if wait is None:
            return False
        sleep(wait)
        self._began = monotonic()
        return True
