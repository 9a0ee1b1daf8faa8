"""What a job that goes on has to have in common with the one that saved."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import fastresume._core as _core
from fastresume.checkpoint.job import Parts
from fastresume.checkpoint.layout import Seat, listed
from fastresume.checkpoint.manifest import Manifest

KINDS = ("model", "optimizer", "scheduler", "accumulation", "global_batch", "dataset", "order", "ranks")
"""What may differ where its user says so."""


def allowed(names: Iterable[str]) -> frozenset[str]:
    """The names of what may differ.

    Raises:
        ValueError: if one is none of them.
    """
    found = frozenset([names] if isinstance(names, str) else names)
    if not found <= set(KINDS):
        raise ValueError(f"allow takes {', '.join(KINDS)}; found {', '.join(sorted(found - set(KINDS)))}")
    return found


def of(parts: Parts, accumulation: int) -> dict[str, Any]:
    """What is compared, by name: plain values."""
    return {**parts.kinds, "accumulation": accumulation, "global_batch": parts.global_batch}


def compare(
    saved: Manifest,
    parts: Parts,
    accumulation: int,
    partial: bool,
    allow: frozenset[str],
    seat: Seat,
    asked_of_all: Collection[str],
) -> frozenset[str]:
    """The parts that are not restored, because they are others now, and may be.

    Args:
        saved: what was saved.
        parts: what this rank has now.
        accumulation: of the job.
        partial: whether what there is besides may be missing.
        allow: what may differ.
        seat: of this rank, among those that saved.
        asked_of_all: the names of what the ranks have now between them.

    Raises:
        StateError: for what differs and may not; both values are named.
    """
    there, asked = seat.parts(saved.parts), set(parts.names)
    if asked - there:
        raise _core.StateError(
            f"the checkpoint has no {listed(sorted(asked - there))}; it has "
            f"{listed(sorted(there), 10) or 'nothing'}"
        )
    missing = there - (asked if seat.is_same else set(asked_of_all))
    if missing and not partial:
        raise _core.StateError(
            f"the checkpoint has {listed(sorted(missing), 10)}, which restore was not given; "
            "partial=True restores the rest alone"
        )
    present = of(parts, accumulation)
    differing = []
    for name, was in seat.terms(saved.terms).items():
        now = present.get(name)
        # What is not asked for, or not told by the loader, can't differ.
        if was is None or now is None or was == now or (name == "accumulation" and partial):
            continue
        differing.append((name, f"{name} was {_told(was)}, and is {_told(now)}"))
    refused = [text for name, text in differing if name not in allow]
    if refused:
        names = ", ".join(repr(name) for name, _ in differing if name not in allow)
        raise _core.StateError(
            f"the checkpoint of step {saved.step} is of another job: {'; '.join(refused)}; "
            f"allow={{{names}}} goes on nevertheless"
        )
    return frozenset(name for name, _ in differing) & {"optimizer", "scheduler"}


def _told(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
