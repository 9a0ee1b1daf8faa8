"""`every_pair`: few cases in which each pair of values comes that can, of any two axes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

Case = dict[str, str]
Axes = Mapping[str, Sequence[str]]
Rules = Mapping[tuple[str, ...], Callable[..., bool]]
"""Of some axes: whether these values of theirs go together."""


def every_pair(axes: Axes, rules: Rules, size: int = 2) -> list[Case]:
    """Cases that keep all rules, in which every pair of values comes that can; of size 3, every three.

    They are the same in each run. An axis comes after those that decide what it may be.
    """
    search = Search(axes, rules, size)
    cases = []
    while search.left:
        wanted, _ = search.left.popitem()
        case = search.completed(dict(wanted)) if search.is_kept(dict(wanted)) else None
        if case is not None:
            cases.append(case)
            search.uses.update(case.items())
            for some in itertools.combinations(case.items(), size):
                search.left.pop(some, None)
    return cases


class Search:
    """What no case has yet, and how often cases have each value."""

    def __init__(self, axes: Axes, rules: Rules, size: int) -> None:
        self.axes, self.size = axes, size
        self.rules = {name: [(of, rule) for of, rule in rules.items() if name in of] for name in axes}
        groups = itertools.combinations(axes, size)
        products = ((of, itertools.product(*(axes[name] for name in of))) for of in groups)
        self.left = dict.fromkeys(
            tuple(zip(of, values, strict=True)) for of, every in products for values in every
        )
        self.uses: Counter[tuple[str, str]] = Counter()

    def completed(self, case: Case) -> Case | None:
        """The case with a value of each axis, those first that bring most; None if rules leave none."""
        missing = next((name for name in self.axes if name not in case), None)
        if missing is None:
            return {name: case[name] for name in self.axes}
        names = list(self.axes)
        place = names.index(missing)
        known = [(name, case[name]) for name in names if name in case]
        others = [
            (tuple(one for one in of if names.index(one[0]) < place), of)
            for of in itertools.combinations(known, self.size - 1)
        ]

        def order_of(value: str) -> tuple[int, int]:
            new = (missing, value)
            brings = sum((*before, new, *of[len(before) :]) in self.left for before, of in others)
            return -brings, self.uses[new]

        fitting = sorted(self.fitting(missing, case, self.axes[missing]), key=order_of)
        completions = (self.completed({**case, missing: value}) for value in fitting)
        return next((found for found in completions if found is not None), None)

    def is_kept(self, case: Case) -> bool:
        """Whether values go together."""
        return all(self.fitting(name, case, [case[name]]) for name in case)

    def fitting(self, name: str, case: Case, values: Sequence[str]) -> list[str]:
        """Those values of an axis that go together with what a case has so far of others."""
        found = list(values)
        for of, rule in self.rules[name]:
            if all(other == name or other in case for other in of):
                before, after = of[: of.index(name)], of[of.index(name) + 1 :]
                left, right = [case[other] for other in before], [case[other] for other in after]
                found = [value for value in found if rule(*left, value, *right)]
        return found
