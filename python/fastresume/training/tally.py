"""Exact sums of floats: independent of the order and the grouping of the numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

_LEAST = 1126
"""Every float64 is an integer multiple of 2^-1126, if its 53 bits are read as an integer."""

_CHUNK = 1 << 24
_LOW = 26


@dataclass(frozen=True, slots=True)
class Tally:
    """The exact sum of float64 numbers: a value of some hundred bytes.

    Args:
        units: the sum of the finite numbers, in units of 2^-1126.
        rest: the sum of the others: 0, infinite, or NaN.

    Examples:
        >>> whole = Tally.of(torch.tensor([1e300, 1.0, -1e300], dtype=torch.float64))
        >>> parts = Tally.of(torch.tensor([1.0])) + Tally.of(torch.tensor([1e300, -1e300]).double())
        >>> whole.over(Tally.of(torch.ones(3))) == 1 / 3
        True
    """

    units: int = 0
    rest: float = 0.0

    @classmethod
    def of(cls, values: Tensor) -> Tally:
        """The sum of the values of a tensor of real numbers, each as a float64."""
        numbers: npt.NDArray[np.float64] = values.detach().reshape(-1).to("cpu", torch.float64).numpy()
        finite = np.isfinite(numbers)
        with np.errstate(invalid="ignore"):  # infinities of both signs give NaN, as they should
            rest = 0.0 if finite.all() else float(numbers[~finite].sum())
        numbers = numbers[finite]
        units = sum(_units(numbers[begin : begin + _CHUNK]) for begin in range(0, len(numbers), _CHUNK))
        return cls(units, rest)

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.units + other.units, self.rest + other.rest)

    def over(self, other: Tally) -> float | None:
        """This sum divided by one of finite numbers above 0, rounded once; None if that is zero."""
        if not other.units:
            return None
        if self.rest:  # NaN is true; weights are at least 0, so an infinity keeps its sign
            return self.rest
        try:
            return self.units / other.units
        except OverflowError:
            return math.inf if self.units > 0 else -math.inf


def _units(numbers: npt.NDArray[np.float64]) -> int:
    if not len(numbers):
        return 0
    fractions, exponents = np.frexp(numbers)
    wholes = np.ldexp(fractions, 53).astype(np.int64)
    places, which = np.unique(exponents, return_inverse=True)
    # In halves: a chunk of 2^24 of them sums up to an integer that a float64 holds exactly.
    high = np.bincount(which, wholes >> _LOW, len(places))
    low = np.bincount(which, wholes & ((1 << _LOW) - 1), len(places))
    return sum(
        ((int(one) << _LOW) + int(other)) << (int(place) - 53 + _LEAST)
        for place, one, other in zip(places, high, low, strict=True)
    )
