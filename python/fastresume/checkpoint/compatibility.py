"""What a job that resumes must have in common with the one that saved."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import fastresume._core as _core
from fastresume.checkpoint.job import JobParts
from fastresume.checkpoint.layout import Seat, listed
from fastresume.checkpoint.manifest import Manifest
from fastresume.messages import some_of
from fastresume.options.checks import quoted

KINDS = ("model", "optimizer", "scheduler", "accumulation", "global_batch", "dataset", "order", "ranks")
"""What may differ where its user says so."""

CONFIG = "config"
"""What was asked of the dataset: where it differs, a warning says so."""

_OF_PLACE = {"global_batch_size", "paths", "version", "rows", "on_iter", "lanes", "groups"}
"""What may well differ, or is compared with the place in the data."""


def allowed(names: Iterable[str]) -> frozenset[str]:
    """The names of what may differ.

    Raises:
        TypeError: if it is no set of names.
        ValueError: if one is none of them.
    """
    if not isinstance(names, Iterable):
        raise TypeError(f"allow must be a set of names, as {{'model'}}, found {quoted(names)}")
    found = frozenset([names] if isinstance(names, str) else names)
    if not found <= set(KINDS):
        raise ValueError(f"allow takes {', '.join(KINDS)}; found {', '.join(sorted(found - set(KINDS)))}")
    return found


def of(parts: JobParts, accumulation: int) -> dict[str, Any]:
    """What is compared, by name: plain values."""
    kinds, batch = parts.kinds, parts.global_batch
    return {**kinds, "accumulation": accumulation, "global_batch": batch, CONFIG: parts.config}


def compare(
    saved: Manifest,
    parts: JobParts,
    accumulation: int,
    partial: bool,
    allow: frozenset[str],
    seat: Seat,
    asked_of_all: Collection[str],
) -> tuple[frozenset[str], str | None]:
    """The parts that are not restored, because they are others now, and may be; and what to warn of.

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
            f"{listed(sorted(there), 10) or 'nothing'}; leave what is new out of restore"
        )
    missing = there - (asked if seat.is_same else set(asked_of_all))
    if missing and not partial:
        raise _core.StateError(
            f"the checkpoint has {listed(sorted(missing), 10)}, which restore was not given; "
            "partial=True restores the rest alone"
        )
    present = of(parts, accumulation)
    differing = []
    terms, warning = dict(seat.terms(saved.terms)), None
    if texts := _changes(terms.pop(CONFIG, None), present[CONFIG]):
        warning = f"the job resumes from step {saved.step} with another dataset: {some_of(texts)}"
    for name, was in terms.items():
        now = present.get(name)
        # What is not asked for, or not known by the loader, can't differ.
        if was is None or now is None or was == now or (name == "accumulation" and partial):
            continue
        differing.append((name, f"{name} was {_in_words(was)}, and is {_in_words(now)}"))
    refused = {name: text for name, text in differing if name not in allow}
    if refused:
        keeps = ""
        if "global_batch" in refused:
            keeps = f"global_batch_size={terms['global_batch']} of the dataset keeps it, and "
        raise _core.StateError(
            f"the checkpoint of step {saved.step} is of another job: {'; '.join(refused.values())}; "
            f"{keeps}allow={{{', '.join(map(repr, refused))}}} resumes anyway"
        )
    return frozenset(name for name, _ in differing) & {"optimizer", "scheduler"}, warning


def _changes(was: Any, now: Any, within: str = "") -> list[str]:
    """In what two configs differ, in words; nothing where one is not known."""
    if not (isinstance(was, dict) and isinstance(now, dict)):
        return []
    found = []
    for key in dict.fromkeys((*was, *now)):
        old: Any = was.get(key)
        new: Any = now.get(key)
        if key in _OF_PLACE or old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += _changes(old, new, f"{within}{key}.")
        elif key == "transforms" and _names(old) == _names(new):
            changed = [one["name"] for one, other in zip(old, new, strict=True) if one != other]
            found.append(f"the source of {', '.join(changed)} is another one")
        elif key == "transforms":
            found.append(f"transforms were {_names(old)}, and are {_names(new)}")
        else:
            past, present = (_argument(key, value) for value in (old, new))
            found.append(f"{within}{key} was {past}, and is {present}")
    return found


def _argument(key: str, value: Any) -> str:
    """A setting as its user wrote it."""
    if key == "shuffle" and (value is None or isinstance(value, dict)):
        sizes = [f"{name}={size}" for name, size in (value or {}).items() if size is not None]
        return f"Shuffle({', '.join(sizes)})" if sizes else str(value is not None)
    return quoted(value)


def _names(transforms: Any) -> list[str]:
    return [one["name"] for one in transforms or ()]


def _in_words(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
