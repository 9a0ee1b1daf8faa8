"""What the logs say of a state to which batches lead: the place before them, and how many they are."""

from __future__ import annotations

from typing import NamedTuple

from fastresume.audit.place import Cut, Place
from fastresume.audit.ranges import NOTHING, size, union
from fastresume.buffers import Intervals


class LoggedState(NamedTuple):
    """What the logs say of a state: a number of batches under a cut after a place.

    `dropped` is what the tail policy drops if the last of them ends the pass.
    """

    place: Place
    cut: Cut = ()
    batches: int = 0
    dropped: Intervals | None = None

    def after(self, cut: Cut, batches: int, dropped: Intervals | None) -> LoggedState:
        """The same after more batches."""
        return LoggedState(self.place, cut, self.batches + batches, dropped)

    @property
    def left(self) -> Intervals:
        """The positions of the stage that are left; what is dropped goes back to the sources of a mixture."""
        if self.dropped is not None:
            return union(self.dropped) if self.place.is_mixture else NOTHING
        return self.place.left_after(self.cut, self.batches)

    @property
    def mark(self) -> tuple[int, int]:
        """What states that name the same place have in common, as `Place.mark` has it."""
        if not self.batches:
            return self.place.mark
        if self.dropped is not None and self.place.round is not None:
            return self.place.epoch, 0
        if self.dropped is None:
            lanes, groups, rows = self.cut
            more = self.batches * rows * (lanes // groups)
        else:
            more = size(self.place.left) - size(self.left)
        if self.place.is_mixture:
            return 0, self.place.mark[1] + more
        return self.place.epoch, self.place.positions - size(self.place.left) + more
