"""The list of contenders: the readers that can take part."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from fastresume.bench.own import OWN
from fastresume.bench.reading import Contender, Reading
from fastresume.bench.rivals import RIVALS
from fastresume.bench.task import Task

CONTENDERS = {contender.name: contender for contender in (*OWN, *RIVALS)}
REFERENCE = "pyarrow"
"""The contender whose rows are taken as correct."""


def named(name: str) -> Contender:
    """The contender of this name, or the user's own reader: `module:function`.

    Raises:
        ValueError: if there is none.
    """
    if name in CONTENDERS:
        return CONTENDERS[name]
    module, _, function = name.partition(":")
    if not module or not function:
        there = ", ".join(CONTENDERS)
        raise ValueError(
            f"no contender is called {name!r}; there are {there}, and readers of your own as MODULE:FUNCTION"
        )

    def begin(task: Task, _: object) -> Reading:
        read: Callable[[Task], Any] = getattr(importlib.import_module(module), function)
        return Reading(iter(read(task)))

    return Contender(name, f"{name}, your own", begin, (module,), (module,))


def missing(contender: Contender) -> list[str]:
    """The packages that the contender needs and that are not installed."""
    packages = [module.partition(".")[0] for module in contender.needs]
    return [package for package in packages if importlib.util.find_spec(package) is None]


def rival_of(names: list[str]) -> str | None:
    """The contender that all are compared with by default: the best reader that only decodes."""
    return next((name for name in ("polars", REFERENCE) if name in names), None)
