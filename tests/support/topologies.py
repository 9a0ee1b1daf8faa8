"""Hypothesis strategies: how jobs read a dataset, in what order, which rows, on which ranks and workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

import fastresume as fr
from support import oracle

PRIMES = (2, 3, 5, 7, 11, 13, 31)

# ----------------------------------------------------------------------------------------------------- orders


@dataclass(frozen=True)
class Shuffle:
    """A shuffled order, as the arguments of a dataset name it."""

    seed: int
    block_rows: int
    window_rows: int

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a ParquetDataset."""
        return {"shuffle": True, **vars(self)}


def seeds() -> st.SearchStrategy[int]:
    """Return a strategy for seeds: small ones, the largest, any."""
    return st.one_of(st.integers(0, 3), st.just(2**53 - 1), st.integers(0, 2**53 - 1))


@st.composite
def shuffles(draw: st.DrawFn, rows: int) -> Shuffle:
    """Draw a shuffled order: windows of one block or many, of a few rows, or of more than there are."""
    block_rows = draw(st.one_of(st.integers(1, max(1, rows // 3)), st.integers(1, 2 * rows + 1)))
    window_rows = block_rows + draw(st.one_of(st.integers(0, rows), st.just(10 * rows)))
    return Shuffle(draw(seeds()), block_rows, window_rows)


def orders(rows: int) -> st.SearchStrategy[Shuffle | None]:
    """Return a strategy for both orders; None is the sequential one."""
    return st.one_of(st.none(), shuffles(rows))


# ------------------------------------------------------------------------------------------------- selections


@dataclass(frozen=True)
class Chosen:
    """A selection of rows, as the arguments of a dataset name it: by a mask, by intervals or by a split.

    And by a filter, where `kept` are all rows of which it is true.
    """

    mask: tuple[bool, ...] | None = None
    intervals: tuple[tuple[int, int], ...] | None = None
    split: tuple[float, float, int] | None = None
    skip: tuple[tuple[int, int], ...] = ()
    filter: fr.Condition | None = None
    kept: frozenset[int] = frozenset()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a ParquetDataset."""
        found: dict[str, Any] = {} if self.filter is None else {"filter": self.filter}
        others = ~fr.Intervals(np.array(self.skip, np.int64).reshape(-1, 2)) if self.skip else None
        if self.mask is not None:
            mask = np.array(self.mask, np.bool_)
            if others is None:
                return {"rows": mask, **found}
            marked = np.flatnonzero(mask)
            return {"rows": fr.Intervals(np.stack([marked, marked + 1], axis=1)) & others, **found}
        own: Any = None
        if self.intervals is not None:
            own = fr.Intervals(np.array(self.intervals, np.int64).reshape(-1, 2))
        elif self.split is not None:
            own = fr.Split(*self.split)
        rows = [some for some in (own, others) if some is not None]
        return {"rows": rows[0] & rows[1] if len(rows) == 2 else rows[0], **found} if rows else found

    def selected(self, rows: int) -> list[int]:
        """The row numbers, of so many rows."""
        found = set(range(rows)) - set(oracle.positions_of(self.skip))
        if self.mask is not None:
            found &= {row for row in range(rows) if self.mask[row]}
        if self.intervals is not None:
            found &= set(oracle.positions_of(self.intervals))
        if self.split is not None:
            found = {row for row in found if oracle.is_in_split(row, *self.split)}
        return sorted(found if self.filter is None else found & self.kept)


def row_intervals(rows: int) -> st.SearchStrategy[tuple[tuple[int, int], ...]]:
    """Return a strategy for some intervals of row numbers, in any order; they may overlap."""
    bounds = st.tuples(st.integers(0, rows), st.integers(0, rows))
    return st.lists(bounds.map(sorted).map(tuple), max_size=6).map(tuple)


@st.composite
def selections(draw: st.DrawFn, rows: int, least: int = 1) -> Chosen | None:
    """Draw a selection of at least so many of the rows; None is that of all of them."""
    kind = draw(st.sampled_from(("all", "all", "mask", "intervals", "split", "skip")))
    skip = draw(st.one_of(st.just(()), row_intervals(rows)))
    if kind == "mask":
        found = Chosen(mask=tuple(draw(st.lists(st.booleans(), min_size=rows, max_size=rows))), skip=skip)
    elif kind == "intervals":
        found = Chosen(intervals=draw(row_intervals(rows)), skip=skip)
    elif kind == "split":
        share = sorted(draw(st.tuples(st.floats(0, 1), st.floats(0, 1))))
        found = Chosen(split=(*share, draw(seeds())), skip=skip)
    else:
        found = Chosen(skip=skip) if kind == "skip" else None
    return found if found is not None and len(found.selected(rows)) >= least else None


# ------------------------------------------------------------------------------------------------- topologies

TAILS = ("drop", "short", "pad")


@dataclass(frozen=True)
class Topology:
    """How a job is spread: the arguments that decide its cut, and what becomes of a rest.

    None means the default.
    """

    world_size: int
    workers: int
    batch_size: int
    lanes: int | None = None
    groups: int | None = None
    tail: str = "drop"

    @property
    def global_batch_size(self) -> int:
        """The rows of one step over all ranks."""
        return self.world_size * self.batch_size

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a ParquetDataset; those that have their default are left out."""
        named: dict[str, Any] = {"batch_size": self.batch_size}
        if self.lanes is not None:
            named["lanes"] = self.lanes
        if self.groups is not None:
            named["groups"] = self.groups
        if self.tail != "drop":
            named["tail"] = self.tail
        return named

    def fits(self, rows: int) -> bool:
        """Whether a dataset of that many rows gives a batch at all."""
        return rows >= {"drop": self.global_batch_size, "short": self.world_size, "pad": 1}[self.tail]


@dataclass(frozen=True)
class Leg:
    """One life of a job: `kept` steps up to the cursor that is resumed from, `lost` more, and the kill."""

    topology: Topology
    kept: int
    lost: int = 0


def batch_sizes(max_rows: int = 64) -> st.SearchStrategy[int]:
    """Return a strategy for batch sizes: 1, primes, anything, and more than there are rows."""
    return st.one_of(st.just(1), st.sampled_from(PRIMES), st.integers(1, max_rows), st.just(2 * max_rows + 1))


RANKS = st.one_of(st.integers(1, 4), st.integers(1, 4), st.integers(1, 16))
"""Mostly few, as many do not change what is tested, but what it costs."""


@st.composite
def topologies(
    draw: st.DrawFn,
    *,
    rows: int | None = None,
    world_sizes: st.SearchStrategy[int] | None = None,
    workers: st.SearchStrategy[int] | None = None,
    named: bool = True,
    tails: Sequence[str] = ("drop",),
    small: bool = False,
) -> Topology:
    """Draw a topology that is valid: whatever has to divide, divides.

    With `rows`, a dataset of that many rows (one at least) gives a batch. Without, the batch may be too large
    for any. `named=False` leaves lanes and groups at their defaults; else they are sometimes named: one to
    four lanes for each rank and group, and `lanes=1` too. `small` keeps batches small, so that a pass has
    many.
    """
    tail = draw(st.sampled_from(tails))
    world_size = draw(st.integers(1, 6) if world_sizes is None else world_sizes)
    worker_count = draw(st.integers(0, 4) if workers is None else workers)
    if rows is not None and tail != "pad":
        world_size = min(world_size, rows)
    if small:
        batch_size = draw(st.sampled_from((1, 2, 3, 4, 5, 6, 7, 8)))
    else:
        batch_size = draw(batch_sizes() if rows is None else batch_sizes(max(rows // world_size, 1)))
    if rows is not None and tail == "drop":
        batch_size = min(batch_size, rows // world_size)
    kind = draw(st.sampled_from(("default", "groups", "lanes", "time order"))) if named else "default"
    if kind == "time order":
        return Topology(world_size, worker_count, batch_size, lanes=1, tail=tail)
    groups = max(worker_count, 1) * (1 if kind == "default" else draw(st.integers(1, 3)))
    if kind == "default":
        return Topology(world_size, worker_count, batch_size, tail=tail)
    if kind == "groups":
        return Topology(world_size, worker_count, batch_size, groups=groups, tail=tail)
    each = draw(st.sampled_from([n for n in (1, 2, 3, 4) if batch_size % n == 0]))
    lanes = world_size * groups * each
    # One lane in all is time order, which is another kind.
    return Topology(world_size, worker_count, batch_size, None if lanes == 1 else lanes, groups, tail)


def chains(
    rows: int,
    *,
    max_legs: int = 4,
    max_steps: int = 12,
    world_sizes: st.SearchStrategy[int] | None = None,
    workers: st.SearchStrategy[int] | None = None,
    named: bool = True,
    tails: Sequence[str] = ("drop",),
    small: bool = False,
) -> st.SearchStrategy[list[Leg]]:
    """Return a strategy for lives of one job over `rows` rows, each killed and resumed as the next."""
    drawn = topologies(
        rows=rows, world_sizes=world_sizes, workers=workers, named=named, tails=tails, small=small
    )
    leg = st.builds(Leg, drawn, kept=st.integers(0, max_steps), lost=st.integers(0, 3))
    return st.lists(leg, min_size=1, max_size=max_legs)


@st.composite
def one_order(draw: st.DrawFn, *, rows: int, tail: str = "drop", max_ranks: int = 6) -> list[Topology]:
    """Draw the topologies that must see one sequence of global batches: all that one cut allows."""
    groups = draw(st.integers(1, 4))
    lanes = groups * draw(st.sampled_from((1, 2, 3, 4, 6, 12)))
    size = draw(st.integers(1, 8)) * lanes // groups
    if lanes == 1 or size > rows:
        groups = lanes = 1
        size = draw(st.integers(1, rows))
    ways = size if lanes == 1 else lanes // groups
    return [
        Topology(world_size, workers, size // world_size, lanes, groups, tail)
        for world_size in range(1, max_ranks + 1)
        for workers in range(5)
        if ways % world_size == 0 and (lanes == 1 or groups % max(workers, 1) == 0)
    ]
