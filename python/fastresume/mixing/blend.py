"""The weights of the sources in a pass of a mixture, and the shares that whole weights make of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from fastresume.messages import some_of

_MUCH = 0.01
"""A share that is off by such a part of itself was rounded much."""


class RoundOf(NamedTuple):
    """Where a pass ends that is a round of a stream: with the round of this source."""

    source: str


class Blend(NamedTuple):
    """The sources of one stage with their weights, and where it ends."""

    weights: Mapping[str, float]
    stop: Literal["first", "all"] | int | RoundOf

    @property
    def plain_stop(self) -> str | int:
        """Where it ends, as a plain value."""
        return f"round of {self.stop.source}" if isinstance(self.stop, RoundOf) else self.stop

    @property
    def are_integers(self) -> bool:
        """Whether all weights are integers."""
        return all(isinstance(weight, int) for weight in self.weights.values())

    def core_weights(self) -> list[float]:
        """The weights as the core takes them; integers without their common divisor."""
        weights = list(self.weights.values())
        if self.are_integers:
            divisor = math.gcd(*map(int, weights))
            return [float(int(weight) // divisor) for weight in weights]
        return [float(weight) for weight in weights]

    def shares(self, whole: Sequence[int]) -> dict[str, float]:
        """The share of each source by these whole weights."""
        places = sum(whole)
        return {name: weight / places for name, weight in zip(self.weights, whole, strict=True)}

    def rounded(self, whole: Sequence[int]) -> dict[str, float]:
        """The shares that were asked for, of the sources that have another one by these whole weights."""
        asked = [Fraction(str(weight)) for weight in self.weights.values()]
        places, total = sum(whole), sum(asked, Fraction())
        each = zip(self.weights, asked, whole, strict=True)
        return {name: float(own / total) for name, own, weight in each if own * places != weight * total}

    def rounded_text(self, whole: Sequence[int]) -> tuple[str, bool]:
        """What the whole weights have rounded, those that are off most first; "" for nothing.

        And whether the user should know: integers are rounded, or a share is off by a hundredth of itself.
        """
        asked, shares = self.rounded(whole), self.shares(whole)
        off = {name: abs(shares[name] / share - 1) for name, share in asked.items()}
        if not off:
            return "", False
        most = sorted(off, key=lambda name: -off[name])
        each = [f"{name!r} has {shares[name]:.6%} for {asked[name]:.6%}" for name in most]
        text = f"the weights are rounded to parts of {sum(whole)}: {some_of(each)}"
        return text, self.are_integers or off[most[0]] > _MUCH
