"""What the audit finds: lines for people, and problems counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

MAX_LINES = 20


@dataclass
class Report:
    """The findings: lines for people, how many of them are problems, and what was proven.

    `finished` holds, per job and source, how many passes were proven to be finished, and `names` those of
    the sources, or "" of a dataset alone. `counted` is what
    positions are: rows, or units. `masked` is how many of the rows that were delivered were masked as not
    valid, over all passes. `reopened` is how many finished passes continued with files that were added.
    """

    lines: list[str] = field(default_factory=list)
    problems: int = 0
    finished: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)
    logs: int = 0
    masked: int = 0
    reopened: int = 0

    def problem(self, what: str, details: Iterable[str] = ()) -> None:
        """Adds a problem, and details below it: a readable number of them."""
        self.problems += 1
        self.lines.append(f"  problem: {what}")
        self.tell(details)

    def note(self, what: str) -> None:
        """Adds what is no problem, but can't be proven."""
        self.lines.append(f"  note: {what}")

    def tell(self, details: Iterable[str]) -> None:
        """Adds details: a readable number of them."""
        lines = list(islice(details, MAX_LINES + 1))
        self.lines += [f"    {line}" for line in lines[:MAX_LINES]]
        if len(lines) > MAX_LINES:
            self.lines.append("    ... and more")

    def add(self, other: Self) -> None:
        """Adds what was found of one job."""
        self.lines += other.lines
        self.problems += other.problems
        self.finished += other.finished
        self.names += other.names
        self.counted |= other.counted
        self.masked += other.masked
        self.reopened += other.reopened
