"""Whether an evaluation is better than all before it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from fastresume.checkpoint.manifest import Record
from fastresume.messages import bounds_messages
from fastresume.options.checks import quoted


@dataclass(frozen=True)
class Best:
    """What makes an evaluation the best: a metric that is larger, or smaller, by more than a delta.

    Examples:
        >>> Best("eval/auc", "max", 0.001).is_better({"eval/auc": 0.8}, None)
        True
    """

    metric: str
    mode: str
    min_delta: float = 0.0

    @bounds_messages
    def __post_init__(self) -> None:
        if not isinstance(self.metric, str):
            raise TypeError(f"the metric of best must be a name, found {quoted(self.metric)}")
        if self.mode not in ("max", "min"):
            raise ValueError(
                f"best must be (metric, 'max' or 'min', min_delta), found ({self.metric!r}, {self.mode!r})"
            )
        if isinstance(self.min_delta, bool) or not isinstance(self.min_delta, int | float):
            raise TypeError(f"min_delta of best must be a number, found {quoted(self.min_delta)}")
        if not 0 <= self.min_delta < math.inf:
            raise ValueError(f"min_delta of best must be at least 0, found {self.min_delta}")

    @classmethod
    def of(cls, given: object) -> Best | None:
        """What users pass as `best`: None, or a tuple (metric, mode, min_delta) or (metric, mode).

        A name alone is refused: whether more or less of it is better, nothing but its user knows.

        Raises:
            TypeError, ValueError: if it is something else.
        """
        if given is None or isinstance(given, Best):
            return given
        name = given[0] if isinstance(given, tuple | list) and len(given) == 1 else given
        if isinstance(name, str):
            raise ValueError(
                f"best must say which values are better: ({name!r}, 'min') or ({name!r}, 'max'), "
                f"found {quoted(given)}"
            )
        if isinstance(given, tuple | list) and 2 <= len(given) <= 3:
            return cls(*given)
        raise TypeError(f"best must be a tuple (metric, 'max' or 'min', min_delta), found {quoted(given)}")

    def check(self, metrics: Mapping[str, float]) -> None:
        """Refuses an evaluation of other metrics alone; one of nothing is none.

        Raises:
            ValueError: if there are metrics, and none has the name; those that are there are listed.
        """
        if metrics and self.metric not in metrics:
            names = ", ".join(sorted(map(repr, metrics)))
            raise ValueError(f"metrics have no {self.metric!r}, by which best is chosen; they have {names}")

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
    if not isinstance(metrics, Mapping | None):
        raise TypeError(
            f"metrics must be a dict of numbers by name, found {quoted(metrics)}: write "
            "metrics={'loss': 0.5}"
        )
    found = {}
    for name, value in (metrics or {}).items():
        try:
            if isinstance(value, str | bytes | bytearray):
                raise TypeError  # which float() would read
            found[str(name)] = float(value.detach() if isinstance(value, Tensor) else value)
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"metrics[{name!r}] must be a number, found {type(value).__name__}: write "
                f"metrics={{{name!r}: float(value)}}"
            ) from None
    return found
