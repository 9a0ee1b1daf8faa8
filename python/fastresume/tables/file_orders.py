"""Orders that a table's files may have had before a part of its history was cleaned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

import fastresume._core as _core
from fastresume.tables.snapshot import Snapshot

Found = TypeVar("Found")


class FileOrders(Generic[Found]):
    """Orders of a snapshot's files, and what is read in each.

    Args:
        table: the snapshot.
        opened: its files, in the order that is most likely.
        found: tells what is read of files in an order.
    """

    def __init__(
        self, table: Snapshot, opened: _core.Manifest, found: Callable[[_core.Manifest, Snapshot], Found]
    ) -> None:
        self._table, self._opened, self._found = table, opened, found

    def of(self, fingerprint: str) -> Found | None:
        """What is read in the first order that begins with the files of a state; None if none does."""
        for order in self._table.other_orders:
            if (found := self._opened.beginning_with(fingerprint, order)) is not None:
                return self._found(found, self._table.reordered(order))
        return None

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A pickle is for workers, which load no states."""
        return type(None), ()
