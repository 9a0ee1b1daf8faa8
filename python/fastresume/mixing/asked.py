"""What the arguments of a mixture ask for, checked."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import cast

import torch
from torch import Tensor

from fastresume.messages import MOST_NAMED
from fastresume.mixing.blend import Blend
from fastresume.options.bad_rows import MaskBadRows
from fastresume.options.checks import at_least, quoted, scalar

_MOST_WEIGHT = 1e300
"""A weight is less."""


def limit_of(bad_rows: object) -> int | float | None:
    """How many rows of all sources may be masked, or which share of them; None if it is not named.

    Raises:
        TypeError: if it is no `MaskBadRows`.
    """
    if bad_rows is not None and not isinstance(bad_rows, MaskBadRows):
        raise TypeError(
            f"bad_rows of a Mixture must be fr.MaskBadRows(at_most=n), found {quoted(bad_rows)}: each "
            "source says what happens to its own, as ParquetDataset(paths, bad_rows='mask')"
        )
    return None if bad_rows is None else bad_rows.at_most


def weight_of(name: str, weight: object) -> float:
    """The weight of a source as a number.

    Raises:
        ValueError: if it is none that a source can have.
    """
    if isinstance(weight, Tensor) and weight.ndim == 0 and weight.dtype != torch.bfloat16:
        weight = weight.detach().cpu().numpy()[()]  # whose float32 is the decimal that it was written as
    found = scalar(weight)
    if isinstance(found, Fraction | Decimal):
        try:
            found = float(found)
        except OverflowError:
            found = math.inf
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not is_number or not 0 < cast("float", found) < _MOST_WEIGHT:
        left_out = ": leave it out there, and it keeps its place" if is_number and found == 0 else ""
        raise ValueError(
            f"source {name!r}: a weight must be a number above 0, and below {_MOST_WEIGHT:g}, found "
            f"{quoted(weight)}{left_out}"
        )
    return cast("float", found)


def stages_of(stages: object, names: Collection[str]) -> list[Blend]:
    """The passes before those under the sources' own weights.

    Raises:
        TypeError, ValueError: if they are none.
    """
    form = "stages=[(rows, {name: weight, ...}), ...]"
    if isinstance(stages, str | Mapping) or not isinstance(stages, Sequence):
        raise TypeError(f"write {form}, found {quoted(stages)}")
    found = []
    for stage in stages:
        if not isinstance(stage, tuple | list) or len(stage) != 2 or not isinstance(stage[1], Mapping):
            raise TypeError(f"write {form}, found the stage {quoted(stage)}")
        rows, given = stage
        if unknown := [name for name in given if name not in names]:
            raise ValueError(f"a stage names {unknown[0]!r}; the sources are {', '.join(names)}")
        weights = {name: weight_of(name, given[name]) for name in names if name in given}
        if not weights:
            raise ValueError(f"a stage has no source: write {form}")
        found.append(Blend(weights, at_least(1, "the rows of a stage", rows)))
    return found


def renamed_of(renamed: object, names: Collection[str]) -> tuple[tuple[str, str | None], ...]:
    """The old names of sources with those of now.

    Raises:
        TypeError, ValueError: if they are none.
    """
    form = 'write renamed={"old name": "name of now"}'
    if renamed is None:
        return ()
    if not isinstance(renamed, Mapping):
        raise TypeError(f"renamed must be a mapping: {form}, found {quoted(renamed)}")
    for old, new in renamed.items():
        if not isinstance(old, str) or not isinstance(new, str | None):
            raise TypeError(f"renamed holds names: {form}, found {quoted({old: new})}")
        if new is not None and new not in names:
            hint = f": write {new!r}: {old!r}, the old name first" if old in names else ""
            raise ValueError(
                f"renamed says that {quoted(old)} is {quoted(new)} now, which is no source{hint}; the "
                f"sources are {', '.join(list(names)[:MOST_NAMED])}"
            )
    return tuple(renamed.items())
