"""The base class of readers whose batches are put together here, of what the core has decoded."""

from __future__ import annotations

from abc import ABC, abstractmethod

import fastresume._core as _core
from fastresume.batch.joining import num_bytes
from fastresume.batch.origin import Planned
from fastresume.reading.spec import Rows
from fastresume.reading.workers.messages import Arrival


class ComposedReader(ABC):
    """The batches of one rank's worker.

    Args:
        planned: the rest of the pass.
        share: who gets which of its batches.
        place: (rank, number of ranks, worker, number of workers).
        masked: the tensors whose nulls are marked by a mask.
    """

    def __init__(
        self,
        planned: _core.Pass,
        share: Planned,
        place: tuple[int, int, int, int],
        masked: frozenset[str],
    ) -> None:
        self._rank, _, worker, self._workers = place
        self._planned = planned
        self._share = share
        self._masked = masked
        self._number = planned.batches - planned.batches_left + worker
        self._front: Arrival | None = None
        self._is_closed = False

    @abstractmethod
    def rows(self, number: int) -> Rows:
        """The rows of this rank's batch with a number in the cut."""

    @abstractmethod
    def forget(self) -> None:
        """Gives back what is kept for the next batches."""

    def start(self) -> None:  # noqa: B027  (it is no hook)
        """Does nothing: decoding begins with the first batch."""

    def front(self) -> Arrival | None:
        """The front batch: the same until `advance` is called; None at the end."""
        if self._is_closed:
            raise _core.StateError("the reader is closed")
        if self._front is None and self._number < self._planned.batches:
            self._front = self._made(self._number)
        return self._front

    def batch(self, number: int) -> Arrival:
        """The batch with a number in the cut, read by itself."""
        return self._made(number)

    def advance(self) -> None:
        """Releases the front batch."""
        if self._front is not None:
            self._front, self._number = None, self._number + self._workers

    def close(self) -> None:
        """Ends the threads, and closes the files."""
        self._is_closed = True
        self.forget()

    def _made(self, number: int) -> Arrival:
        planned, rows = self._planned, self.rows(number)
        cursor = planned.cursor_after(number + 1)
        batch = rows.batch(planned, number, self._share, self._masked, cursor)
        size = sum(map(num_bytes, rows.tensors.values()))
        return Arrival(batch, planned, number, self._rank, size, cursor)
