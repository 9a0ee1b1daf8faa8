"""What a job that goes on has to have in common with the one that saved."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import fastresume._core as _core
from fastresume.checkpoint.job import Parts
from fastresume.checkpoint.manifest import Manifest

KINDS = ("model", "optimizer", "scheduler", "accumulation", "global_batch", "dataset", "order")
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
    saved: Manifest, parts: Parts, accumulation: int, partial: bool, allow: frozenset[str]
) -> frozenset[str]:
    """The parts that are not restored, because they are others now, and may be.

    Raises:
        StateError: for what differs and may not; both values are named.
    """
    there, asked = set(saved.parts), set(parts.names)
    if asked - there:
        raise _core.StateError(
            f"the checkpoint has no {', '.join(sorted(asked - there))}; it has "
            f"{', '.join(sorted(there)) or 'nothing'}"
        )
    if there - asked and not partial:
        raise _core.StateError(
            f"the checkpoint has {', '.join(sorted(there - asked))}, which restore was not given; "
            "partial=True restores the rest alone"
        )
    present = of(parts, accumulation)
    differing = []
    for name, was in saved.terms.items():
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
