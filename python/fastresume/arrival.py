"""The batches that worker processes make, one after another, as if a reader of this process had made them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fastresume import _core
from fastresume.batch import Batch
from fastresume.origin import Origin, Share
from fastresume.station import Failure, Made

if TYPE_CHECKING:
    from fastresume.activity import Activity
    from fastresume.crew import Crew


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch that a worker made: what the iterator asks of one that the core delivered."""

    batch: Batch
    planned: _core.Pass
    number: int
    rank: int
    num_bytes: int
    cursor: _core.Cursor

    @property
    def num_rows(self) -> int:
        """Rows of the batch."""
        return self.batch.num_rows

    @property
    def valid_rows(self) -> int:
        """Those that do not only fill it up."""
        return self.batch._origin.valid_rows

    @property
    def runs(self) -> Any:
        """Their numbers, int64 `[n, 2]`."""
        return self.batch._origin.runs

    @property
    def positions(self) -> _core.Buffer:
        """Their positions in the order of the pass."""
        return self.planned.positions(self.number, self.rank)

    @property
    def dropped(self) -> _core.Buffer:
        """The positions of the pass that no rank gets."""
        return self.planned.dropped()

    @property
    def epoch(self) -> int:
        """The number of the pass."""
        return self.planned.epoch

    @property
    def step(self) -> int:
        """Batches of the pass before this one."""
        return self.planned.step_of(self.number)

    @property
    def ends_pass(self) -> bool:
        """Whether it is the last one of the pass."""
        return self.number + 1 == self.planned.batches


class Run:
    """The batches of one pass in order: has the methods of a reader. It may be left at any moment."""

    def __init__(
        self, crew: Crew, planned: _core.Pass, share: Share, end_cursor: _core.Cursor | None
    ) -> None:
        self._crew = crew
        self._planned = planned
        self._share = share
        self._end_cursor = end_cursor
        self._process = os.getpid()
        self._number = planned.batches - planned.batches_left
        self._arrival: Arrival | None = None

    @property
    def activity(self) -> Activity:
        """What the workers are at."""
        return self._crew.activity

    def start(self) -> None:
        """Starts the workers, and lets them make the first batches."""
        if self._number < self._planned.batches:
            self._crew.serve(self._planned, self._number)

    def front(self) -> Arrival | None:
        """The first batch that was not let go of; None at the end.

        Raises:
            FastresumeError: if a worker died. The next call starts new ones.
            Exception: what a worker raised over the batch. The next call lets them try again.
        """
        if self._process != os.getpid():
            raise _core.StateError(
                f"this iterator was made in process {self._process}, before it forked: make a new one in "
                f"process {os.getpid()}"
            )
        if self._number >= self._planned.batches:
            return None
        if self._arrival is None or self._arrival.number != self._number:
            self._arrival = None
            found, num_bytes = self._crew.fetch(self._planned, self._number)
            if isinstance(found, Failure):
                raise found.exception()
            self._arrival = self._arrived(found, num_bytes)
        return self._arrival

    def advance(self) -> None:
        """Lets go of the front batch."""
        self._number += 1

    def close(self) -> None:
        """Lets go of the front batch; the workers are the crew's."""
        self._arrival = None

    def _arrived(self, made: Made, num_bytes: int) -> Arrival:
        planned, share, number = self._planned, self._share, made.number
        count, valid, _ = planned.shape(number, share.rank)
        ends_pass = number + 1 == planned.batches
        cursor = planned.cursor_after(number + 1)
        after = self._end_cursor if ends_pass and self._end_cursor is not None else cursor
        masked = self._crew.dataset.schema.masked
        runs = made.runs.copy()  # not to hold on to the memory of all tensors, which may go to a device
        origin = Origin(after, planned.epoch, planned.step_of(number), count, valid, runs, masked, share)
        values: Any = made.values
        num_bytes -= made.runs.nbytes
        return Arrival(Batch(values, origin), planned, number, share.rank, num_bytes, cursor)
