"""What was asked of stores, as a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import fastresume._core as _core


class StoreCounts(NamedTuple):
    """Counts of `_core.StoreCounts`, which are summed over stores and processes."""

    requests: int = 0
    retries: int = 0
    bytes_asked: int = 0
    bytes_needed: int = 0
    bytes_from_cache: int = 0
    wait_for_bytes_seconds: float = 0.0

    @classmethod
    def of(cls, stores: Iterable[_core.Stores]) -> StoreCounts:
        """What this process asked of stores."""
        found = cls()
        for store in stores:
            counts = store.counts()
            found = found.plus(cls(*(getattr(counts, name) for name in cls._fields)))
        return found

    def plus(self, other: StoreCounts) -> StoreCounts:
        """The sum of both."""
        return StoreCounts._make(one + its for one, its in zip(self, other, strict=True))

    def minus(self, before: StoreCounts) -> StoreCounts:
        """What was asked since."""
        return StoreCounts._make(now - its for now, its in zip(self, before, strict=True))
