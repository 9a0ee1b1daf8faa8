"""A path through a pass, and what was delivered on it."""

from __future__ import annotations

from dataclasses import dataclass

from fastresume.audit.log_format import Integers
from fastresume.buffers import Intervals


@dataclass(frozen=True)
class Turn:
    """One pass: its number, and where the generations of its rows end, but for the last one."""

    epoch: int
    ends: tuple[int, ...] = ()


@dataclass(frozen=True)
class Passage:
    """What was delivered on a path: its records and positions, and what counts as delivered before it.

    `own` are the records of this dataset, `index` those before it grew too. `dropped` are the positions that
    the tail policy dropped, where passes ended on the path.
    """

    way: list[int]
    state: int
    own: Integers
    index: Integers
    delivered: Intervals
    dropped: Intervals
    trusted: Intervals
