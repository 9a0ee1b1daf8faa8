"""The steps that a loader has delivered last, so that they can be read again: numbers, not batches."""

from __future__ import annotations

from typing import NamedTuple

import fastresume._core as _core
from fastresume.amounts import plural

MAX_STRETCHES = 64
"""The most ranges that are kept: a pass is one, and so are the batches after a state was loaded."""


class Stretch(NamedTuple):
    """Batches of one pass that were delivered one after another: the numbers [start, end) of a cut."""

    planned: _core.Pass
    start: int
    end: int

    def goes_on_with(self, planned: _core.Pass, number: int) -> bool:
        """Whether a batch is the next one of the same cut."""
        if number != self.end or number == 0:
            return False
        if planned is self.planned:
            return True
        one, other = self.planned, planned
        return one.cut == other.cut and one.cursor_after(number) == other.cursor_after(number)


class ReplayTrail(tuple[Stretch, ...]):
    """The ranges of batches that a loader has delivered, the latest last: a value.

    Examples:
        >>> ReplayTrail().num_steps
        0
    """

    __slots__ = ()

    @property
    def num_steps(self) -> int:
        """The number of last steps that it covers."""
        return sum(stretch.end - stretch.start for stretch in self)

    def after(self, planned: _core.Pass, number: int) -> ReplayTrail:
        """The trail after the delivery of batch `number` of a pass's cut."""
        if self and self[-1].goes_on_with(planned, number):
            last = self[-1]
            return ReplayTrail((*self[:-1], Stretch(last.planned, last.start, number + 1)))
        return ReplayTrail((*self, Stretch(planned, number, number + 1))[-MAX_STRETCHES:])

    def last(self, steps: int) -> list[tuple[_core.Pass, int]]:
        """The last steps in the order of their delivery: for each a pass, and the number of a batch.

        Raises:
            IndexError: if it does not cover that many; says how many it covers.
        """
        if steps > self.num_steps:
            raise IndexError(
                f"the last {plural(steps, 'step')} can't be read again: this loader has handed over "
                f"{self.num_steps} that it knows of; what came before it was made, "
                "dataset.batch_at(epoch, step, state=) reads"
            )
        found: list[tuple[_core.Pass, int]] = []
        for stretch in reversed(self):
            first = max(stretch.start, stretch.end - (steps - len(found)))
            found += [(stretch.planned, number) for number in range(stretch.end - 1, first - 1, -1)]
        return found[::-1]
