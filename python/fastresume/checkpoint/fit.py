"""What of a part of the job has the names and shapes of what was saved of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.checkpoint import leaves
from fastresume.checkpoint.dcp_storage import Reading
from fastresume.checkpoint.layout import listed

_NAMED = 3
"""An error names no more shapes than these."""


@dataclass(frozen=True)
class Fit:
    """A part of the job beside what was saved of it.

    Attributes:
        part: its name.
        present: its state as it is now.
        saved: torch's metadata of what was saved, by key; None for what is nested.
        lost: the keys that were saved, and that it has not now.
    """

    part: str
    present: Mapping[str, Any]
    saved: Mapping[Any, Any]
    lost: frozenset[Any]

    @classmethod
    def of(cls, part: str, present: Mapping[str, Any], reading: Reading) -> Fit:
        """A part beside what a checkpoint has of it."""
        shapes = reading.shapes(part)
        needed = {path[0] for path in shapes if reading.is_needed((part, *path))}
        saved = {path[0]: found if len(path) == 1 else None for path, found in shapes.items()}
        return cls(part, present, saved, frozenset(needed - present.keys()))

    @cached_property
    def common(self) -> dict[str, Any]:
        """What of the present state has a saved name and shape."""
        return {
            key: value
            for key, value in self.present.items()
            if (key in self.saved and key not in self.other_shapes) or _is_empty(value)
        }

    def check(self) -> None:
        """Refuses a part that has other keys or shapes than were saved.

        Raises:
            StateError: naming them, and how to resume all the same.
        """
        if self._differences:
            message = f"the checkpoint's {self.part} is another one: {self._differences}"
            raise _core.StateError(message + self._way())

    def left(self) -> list[str]:
        """What to warn of if only a part of it is restored: one text, or none."""
        if not self._differences:
            return []
        message = f"allow={{'{self.part}'}} restored {self._count()}, and left the others as they were: "
        return ["; ".join([message + self._differences, *filter(None, [self._prefix])])]

    def rounded(self) -> list[str]:
        """What to warn of if values are rounded, which torch does without a word: one text, or none."""
        narrower = []
        for key, value in self.common.items():
            was = getattr(getattr(self.saved.get(key), "properties", None), "dtype", None)
            if not isinstance(value, Tensor) or was is None:
                continue
            if was != value.dtype and not _holds(value.dtype, was):
                narrower.append(f"{key!r} was {was}, and is {value.dtype}")
        if not narrower:
            return []
        warning = (
            f"{len(narrower)} of {len(self.common)} tensors of the {self.part} have another dtype than in "
            f"the checkpoint, and their values are rounded: {listed(narrower)}. To keep them, restore into a "
            f"{self.part} of the saved dtypes, as before {self.part}.half()"
        )
        return [warning]

    def _way(self) -> str:
        """How to resume all the same; nothing for parts that must fit."""
        if self.part != "model":
            return ""
        if self._prefix:
            return f"; {self._prefix}"
        if not self.common:
            return "; nothing of it fits: partial=True without model= restores the rest alone"
        return f"; allow={{'model'}} takes what fits, {self._count()}"

    def _count(self) -> str:
        return f"{len(self.common)} of {plural(len(self.present), 'tensor')} of the {self.part}"

    @cached_property
    def other_shapes(self) -> dict[str, str]:
        """The keys that were saved with another shape, with both shapes in words."""
        found = {}
        for key, value in self.present.items():
            was = getattr(self.saved.get(key), "size", None)
            if isinstance(value, Tensor) and was not in (None, value.shape):
                found[key] = f"{key!r} had the shape {list(was)}, and has {list(value.shape)}"
        return found

    @cached_property
    def _differences(self) -> str:
        """In what it differs, in words; empty if in nothing."""
        new = {key for key in self.present.keys() - self.saved.keys() if not _is_empty(self.present[key])}
        found = [f"it had no {_listed(new)}"] if new else []
        found += [f"it had {_listed(self.lost)}, which is not there now"] if self.lost else []
        return "; ".join([*found, *list(self.other_shapes.values())[:_NAMED]])

    @cached_property
    def _prefix(self) -> str:
        """What to pass if the names differ by a wrapper's prefix; empty if not so."""
        if self.common or not self.present or not self.saved:
            return ""
        names = {str(key) for key in self.saved}
        if prefix := _prefix_of(self.present, names):
            return f"the names now begin with {prefix!r}: pass {self.part}={self.part}.{prefix[:-1]}"
        if prefix := _prefix_of(names, self.present):
            wrapper = "optim.swa_utils.AveragedModel" if "n_averaged" in names else "nn.DataParallel"
            wrapped = f", as torch.{wrapper}({self.part})" if prefix == "module." else ""
            return (
                f"the saved names begin with {prefix!r}: pass the module whose .{prefix[:-1]} is this "
                f"{self.part}{wrapped}"
            )
        return ""


def _prefix_of(longer: Collection[str], shorter: Collection[str]) -> str:
    """What names of others have before them, up to a dot; empty if they have no such thing in common."""
    last = min(shorter)
    for name in longer:
        prefix = name.removesuffix(last)
        if name.endswith(f".{last}") and all(f"{prefix}{one}" in longer for one in shorter):
            return prefix
    return ""


def _is_empty(value: object) -> bool:
    """Whether it is a mapping without a leaf: torch saves nothing of it."""
    return isinstance(value, Mapping) and next(leaves.leaves(value), None) is None


def _listed(keys: Collection[Any]) -> str:
    return listed([repr(key) for key in sorted(map(str, keys))])


def _holds(dtype: torch.dtype, other: torch.dtype) -> bool:
    """Whether a dtype has all values of another one."""
    try:
        return torch.promote_types(other, dtype) == dtype
    except RuntimeError:  # torch promotes not all of them
        return False
