"""How long a source that fails is asked again: as long, and as often, as a store."""

from __future__ import annotations

import logging
import os
from time import monotonic, sleep

import fastresume._core as _core
from fastresume.messages import bounded

_log = logging.getLogger("fastresume")

FINAL = (TypeError, AttributeError, NameError, NotImplementedError, _core.DataError, _core.SourceError)
"""What no second try makes better."""

_OF_FILES = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)
"""The same of a path, which a connection never raises."""


class Patience:
    """How long to keep asking after a fault, since the last rows that came. The core says it."""

    def __init__(self) -> None:
        self._core = _core.Patience()
        self._first = self._began = monotonic()
        self._has_waited = False

    def waits(self, fault: Exception | None) -> bool:
        """Waits before the next try; False if there is to be none."""
        if isinstance(fault, _OF_FILES):
            return False
        # Ranks should not ask all at once.
        share = int.from_bytes(os.urandom(2), "little") / 2**16
        began, now = self._began - self._first, monotonic() - self._first
        wait = self._core.wait(isinstance(fault, OSError), began, now, share)
        if wait is None:
            return False
        if not self._has_waited:
            self._has_waited = True
            why = "it ended early" if fault is None else bounded(f"{type(fault).__name__}: {fault}")
            _log.warning("a source failed, and is asked again, at most for two minutes: %s", why)
        sleep(wait)
        self._began = monotonic()
        return True
