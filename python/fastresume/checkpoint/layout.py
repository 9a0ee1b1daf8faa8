"""Which rank had what, where the ranks that saved did not all have the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import fastresume._core as _core
from fastresume.checkpoint.leaves import Leaf

_NAMED = 3
"""An error names no more leaves than these."""

_LETTERS = 200
"""It shows at most this many letters of each of them."""

Ranks = tuple[int, ...]


class Sheet(NamedTuple):
    """A rank's summary of what it has to save.

    Attributes:
        step: as its user counts them.
        cursor: its place in the data, or None.
        parts: the names of its parts.
        terms: what is compared when a job resumes.
        extra: its plain values.
        leaves: by name; none where there is one rank.
    """

    step: int
    cursor: dict[str, Any] | None
    parts: tuple[str, ...]
    terms: dict[str, Any]
    extra: dict[str, Any]
    leaves: dict[str, Leaf]


@dataclass(frozen=True)
class Layout:
    """What differed between ranks.

    Attributes:
        parts: those that some ranks alone had, and which.
        leaves: leaves that some ranks alone had, and which; they had the same.
        own: leaves that differed by rank, and which ranks had one.
        extra: plain values that differed, by name and rank.
        terms: the terms of other ranks, if they differed from those of rank 0.
    """

    parts: dict[str, Ranks] = field(default_factory=dict)
    leaves: dict[str, Ranks] = field(default_factory=dict)
    own: dict[str, Ranks] = field(default_factory=dict)
    extra: dict[str, dict[int, Any]] = field(default_factory=dict)
    terms: dict[int, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, sheets: Sequence[Sheet]) -> Self:
        """What is on some ranks only, and what differs.

        Raises:
            StateError: if one name means tensors that torch divides in different ways, or not everywhere.
        """
        world_size = len(sheets)
        shared, own = {}, {}
        for name, having in _by_name(sheet.leaves for sheet in sheets).items():
            ranks = tuple(having)
            if any(leaf.mesh for leaf in having.values()):
                _check_divided(name, having)
            elif len(set(having.values())) > 1:
                own[name] = ranks
                continue
            if len(ranks) < world_size:
                shared[name] = ranks
        parts = _by_name(dict.fromkeys(sheet.parts) for sheet in sheets)
        extra = _by_name(sheet.extra for sheet in sheets)
        return cls(
            {name: tuple(having) for name, having in parts.items() if len(having) < world_size},
            shared,
            own,
            {name: having for name, having in extra.items() if len(set(map(_text, having.values()))) > 1},
            {rank: one.terms for rank, one in enumerate(sheets) if one.terms != sheets[0].terms},
        )

    def to_plain(self) -> dict[str, Any] | None:
        """Plain values, each set of ranks once; None if all had the same."""
        if self == Layout():
            return None
        numbers: dict[Ranks, int] = {}

        def numbered(found: Mapping[str, Ranks]) -> dict[str, int]:
            return {name: numbers.setdefault(ranks, len(numbers)) for name, ranks in found.items()}

        named = {name: numbered(getattr(self, name)) for name in ("parts", "leaves", "own")}
        return {
            **named,
            "ranks": [list(ranks) for ranks in numbers],
            "extra": {name: [[*one] for one in values.items()] for name, values in self.extra.items()},
            "terms": [[rank, terms] for rank, terms in self.terms.items()],
        }

    @classmethod
    def from_plain(cls, found: Any) -> Self:
        """What `to_plain` gave.

        Raises:
            AttributeError, IndexError, KeyError, TypeError, ValueError: if it is something else.
        """
        if found is None:
            return cls()
        sets = [tuple(map(int, ranks)) for ranks in found["ranks"]]
        parts, leaves, own = (
            {name: sets[number] for name, number in found[key].items()} for key in ("parts", "leaves", "own")
        )
        return cls(
            parts,
            leaves,
            own,
            {name: {int(rank): one for rank, one in values} for name, values in found["extra"].items()},
            {int(rank): terms for rank, terms in found["terms"]},
        )


@dataclass(frozen=True)
class Seat:
    """A rank that restores, seen from the layout of those that saved.

    Attributes:
        layout: of those that saved.
        rank: that restores.
        is_same: whether there are as many ranks as there were.
    """

    layout: Layout
    rank: int
    is_same: bool

    def parts(self, saved: Iterable[str]) -> set[str]:
        """The parts that this rank is to restore; on other numbers of ranks, any of them."""
        return {
            name
            for name in saved
            if not self.is_same or self.rank in self.layout.parts.get(name, (self.rank,))
        }

    def is_mine(self, name: str) -> bool:
        """Whether there is a leaf of that name for this rank."""
        ranks = self.layout.own.get(name) or self.layout.leaves.get(name)
        return ranks is None or not self.is_same or self.rank in ranks

    def is_needed(self, name: str) -> bool:
        """Whether this rank lacks something if it has no leaf of that name, rather than another rank."""
        return self.is_same or name not in self.layout.leaves

    def source(self, name: str) -> int | None:
        """The rank whose own leaf of that name this one takes; None for what ranks had alike."""
        ranks = self.layout.own.get(name)
        return None if ranks is None else self.rank if self.is_same else min(ranks)

    @property
    def sources(self) -> dict[str, int]:
        """The ranks whose own leaves this one takes, by name."""
        return {name: self.source(name) or 0 for name in self.layout.own}

    def plain_values(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """The plain values, with this rank's own."""
        own = {
            name: values.get(self.rank if self.is_same else min(values))
            for name, values in self.layout.extra.items()
            if not self.is_same or self.rank in values
        }
        return {**shared, **own}

    def terms(self, of_rank_0: dict[str, Any]) -> dict[str, Any]:
        """What this rank has to have in common with the one that saved."""
        return self.layout.terms.get(self.rank, of_rank_0) if self.is_same else of_rank_0

    def check(self, is_asked: Callable[[str], bool], extra: bool, step: int, worlds: tuple[int, int]) -> None:
        """Refuses what ranks had of their own where there are other ranks now.

        Args:
            is_asked: of the name of a leaf: whether it is to be restored.
            extra: whether plain values are, too.
            step: that was saved.
            worlds: by how many ranks it was saved, and how many there are.

        Raises:
            StateError: naming what differed.
        """
        names = sorted(filter(is_asked, self.layout.own)) + [
            f"extra[{name!r}]" for name in sorted(self.layout.extra) if extra
        ]
        if self.is_same or not names:
            return
        raise _core.StateError(
            f"the checkpoint of step {step} was saved by {worlds[0]} ranks, and each of them had its own "
            f"{listed(names)}; there are {worlds[1]} now; allow={{'ranks'}} gives all what the lowest had"
        )


def listed(names: Sequence[str], shown: int = _NAMED) -> str:
    """Some of the names, and how many more there are."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return (
        ", ".join(name if len(name) <= _LETTERS else f"{name[:_LETTERS]}..." for name in names[:shown]) + more
    )


def _by_name(found: Iterable[Mapping[str, Any]]) -> dict[str, dict[int, Any]]:
    """What ranks have, by name and rank."""
    made: dict[str, dict[int, Any]] = {}
    for rank, one in enumerate(found):
        for name, value in one.items():
            made.setdefault(name, {})[rank] = value
    return made


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _check_divided(name: str, having: Mapping[int, Leaf]) -> None:
    """Refuses ranks that have different tensors in mind."""
    first, one = next(iter(having.items()))
    places: dict[str, tuple[int, bytes]] = {}
    for rank, leaf in having.items():
        if (leaf.form, leaf.mesh) != (one.form, one.mesh):
            raise _core.StateError(
                f"{name!r} is {one.form} over {one.mesh or 'no mesh'} on rank {first}, and {leaf.form} over "
                f"{leaf.mesh or 'no mesh'} on rank {rank}: what is sharded is the same on all ranks"
            )
        other, digest = places.setdefault(leaf.place, (rank, leaf.digest))
        if digest != leaf.digest:
            raise _core.StateError(
                f"{name!r} is sharded over several groups of ranks, and ranks {other} and {rank} have other "
                "values at the same place: what is not the same needs a name of its own"
            )
