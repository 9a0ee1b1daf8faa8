"""One contender at work: its batches, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fastresume.bench.task import Task


@dataclass(frozen=True)
class Reading:
    """A pass, or the rest of one.

    Args:
        batches: any batches that the module `delivered` can read.
        state: returns the state after the last batch, if the contender can save one.
    """

    batches: Iterator[object]
    state: Callable[[], object] | None = None


@dataclass(frozen=True)
class Contender:
    """One reader that takes part.

    Args:
        name: its name on the command line.
        title: what it does, for the table.
        open: begins a pass, or resumes from a state.
        needs: the packages that must be installed, by import name.
        imports: the installed modules that are imported before the time is taken.
        resumes: whether it resumes from a state, reads up to the place, or is not asked to.
        environment: environment variables of its process.
        is_default: whether it runs if the user names no contenders.
        reads_stores: whether it reads files that lie in a store of objects.
        reads_arrow: whether it reads Arrow's files, too.
    """

    name: str
    title: str
    open: Callable[[Task, object], Reading]
    needs: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    resumes: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    is_default: bool = True
    reads_stores: bool = True
    reads_arrow: bool = True


STATE, SKIPPING = "state", "skipping"
