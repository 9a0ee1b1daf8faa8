"""Whether an evaluation is better than all before it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastresume.checkpoint.manifest import Record


@dataclass(frozen=True)
class Best:
    """What makes an evaluation the best: a metric that is larger, or smaller, by more than a delta.

    Example:
        >>> Best("eval/auc", "max", 0.001).is_better({"eval/auc": 0.8}, None)
        True
    """

    metric: str
    mode: str = "max"
    min_delta: float = 0.0

    def __post_init__(self) -> None:
        if self.mode not in ("max", "min"):
            raise ValueError(
                f"best must be (metric, 'max' or 'min', min_delta), found ({self.metric!r}, {self.mode!r})"
            )
        if not 0 <= self.min_delta < math.inf:
            raise ValueError(f"min_delta of best must be at least 0, found {self.min_delta}")

    @classmethod
    def of(cls, given: object) -> Best | None:
        """What users pass as `best`: None, a name, or a tuple (metric, mode, min_delta).

        Raises:
            TypeError, ValueError: if it is something else.
        """
        if given is None or isinstance(given, Best):
            return given
        if isinstance(given, str):
            return cls(given)
        if isinstance(given, tuple | list) and 1 <= len(given) <= 3:
            return cls(*given)
        raise TypeError(f"best must be a tuple (metric, 'max' or 'min', min_delta), found {given!r}")

    def is_better(self, metrics: Mapping[str, float], record: Record | None) -> bool:
        """Whether the metric is there, finite, and better than the record by more than `min_delta`.

        The record of another metric or mode says nothing of this one.
        """
        value = metrics.get(self.metric)
        if value is None or not math.isfinite(value):
            return False
        if record is None or (record.metric, record.mode) != (self.metric, self.mode):
            return True
        gain = value - record.value if self.mode == "max" else record.value - value
        return gain > self.min_delta


def numbers(metrics: Mapping[str, Any] | None) -> dict[str, float]:
    """Metrics as floats by name; tensors of one element, too.

    Raises:
        TypeError, ValueError: if one is no number; it is named.
    """
    found = {}
    for name, value in (metrics or {}).items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(f"metrics[{name!r}] must be a number, found {type(value).__name__}") from None
    return found
