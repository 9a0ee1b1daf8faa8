"""One contender at work: its batches, and where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fastresume.bench.task import Task


@dataclass(frozen=True)
class Reading:
    """A pass, or the rest of one.

    Args:
        batches: anything that `delivered` knows the rows of.
        state: tells what to go on from after the last batch, if the contender can.
    """

    batches: Iterator[object]
    state: Callable[[], object] | None = None


@dataclass(frozen=True)
class Contender:
    """One way to read.

    Args:
        name: on the command line.
        title: what it does, for the table.
        open: begins a pass, or goes on from a state.
        needs: what must be installed, as it is imported.
        imports: what of it, and of what else is installed, is imported before the time is taken.
        resumes: whether it goes on from a state, reads up to the place, or is not asked to.
        environment: variables of its process.
        is_default: whether it runs if nobody names it.
    """

    name: str
    title: str
    open: Callable[[Task, object], Reading]
    needs: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    resumes: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    is_default: bool = True


STATE, SKIPPING = "state", "skipping"
