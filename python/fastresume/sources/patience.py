"""How long a source that fails is asked again."""

from __future__ import annotations

import os
import time

import fastresume._core as _core

OUTAGE_SECONDS = 120.0
"""A source that is away for this long is waited for: the last try begins no earlier."""

FEW_TRIES = 5
"""What seldom gets better is tried this often in all."""

FIRST_WAIT_SECONDS, LONGEST_WAIT_SECONDS = 0.1, 5.0

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
    """How long to keep asking after a fault, since the last rows that came."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._tries = 0
        self._seldom = 0

    def waits(self, fault: Exception | None) -> bool:
        """Waits before the next try; False if there is to be none."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        self._seldom += not isinstance(fault, OSError)
        if now - self._since > OUTAGE_SECONDS or self._seldom >= FEW_TRIES:
            return False
        longest = min(FIRST_WAIT_SECONDS * 2**self._tries, LONGEST_WAIT_SECONDS)
        self._tries += 1
        # Ranks should not ask all at once.
        time.sleep(longest * (0.5 + int.from_bytes(os.urandom(2), "little") / 2**17))
        return True
