"""The list of contenders: the readers that can take part."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from fastresume.bench.mixers import MIXERS
from fastresume.bench.own import OWN
from fastresume.bench.packers import PACKERS
from fastresume.bench.reading import Contender, Reading
from fastresume.bench.rivals import RIVALS
from fastresume.bench.task import Job, Task

CONTENDERS = {contender.name: contender for contender in (*OWN, *RIVALS)}
OF_JOBS: dict[Job, dict[str, Contender]] = {
    "read": CONTENDERS,
    "pack": {contender.name: contender for contender in PACKERS},
    "mix": {contender.name: contender for contender in MIXERS},
}
REFERENCE = "pyarrow"
"""The contender whose rows are taken as correct."""
AGAINST: dict[Job, tuple[str, ...]] = {
    "read": ("polars", REFERENCE),
    "pack": ("datasets", REFERENCE),
    "mix": ("datasets", REFERENCE),
}
"""Whom all are compared with by default, the first that takes part: of those that read as they are the best
reader that only decodes, else what most would take."""
OF_ARROW = ("datasets", REFERENCE)
"""The same of Arrow's files: those that only decode map one and look at no value, which costs nothing."""


def named(name: str, job: Job = "read") -> Contender:
    """The contender of this name, or the user's own reader: `module:function`.

    Raises:
        ValueError: if there is none.
    """
    if name in OF_JOBS[job]:
        return OF_JOBS[job][name]
    module, _, function = name.partition(":")
    if not module or not function:
        there = ", ".join(OF_JOBS[job])
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


def rival_of(names: list[str], task: Task) -> str | None:
    """The contender that all are compared with by default."""
    against = OF_ARROW if task.is_of_arrow else AGAINST[task.job]
    return next((name for name in against if name in names), None)
