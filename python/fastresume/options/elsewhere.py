"""Where a name is that was asked of another object: it is looked up in the public classes themselves."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

_KINDS = {
    "Mixture": "mixture",
    "ResumableDataset": "dataset",
    "Loader": "loader",
    "BatchIterator": "iterator",
    "Batch": "batch",
    "Cursor": "cursor",
    "Plan": "plan",
    "Stats": "stats",
    **dict.fromkeys(("Schema", "Field", "World", "FilterReport", "Evaluator", "Checkpointer"), "other"),
}
"""By the name of a class, what a program calls an object of it."""

_CLASSES = {**{kind: name for name, kind in _KINDS.items()}, "dataset": "ParquetDataset"}
"""By what a program calls an object, its public class."""

_ANY = (("dataset", "dataset"), ("batch", "batch"), ("loader", "loader"), ("mixture", "mixture"))

_STEPS = {
    "dataset": (
        ("fr.Loader({})", "loader"),
        ("batch", "batch"),
        ("{}.plan()", "plan"),
        ("mixture", "mixture"),
    ),
    "mixture": (
        ("fr.Loader({})", "loader"),
        ("batch", "batch"),
        ("{}.plan()", "plan"),
        ("{}.datasets[name]", "dataset"),
    ),
    "loader": (
        ("{}.dataset", "dataset"),
        ("batch", "batch"),
        ("{}.stats()", "stats"),
        ("mixture", "mixture"),
    ),
    "batch": (("{}.cursor", "cursor"), *_ANY),
    "cursor": _ANY,
    "iterator": _ANY,
    "plan": _ANY,
    "stats": (("loader", "loader"), *_ANY),
    "other": _ANY,
}
"""From each kind, how a program comes to others: what is nearest first."""

_WHICH = {"batch": ", of the last batch", "mixture": ", of a fr.Mixture"}
"""What is said of objects that a program may have several of, or none."""


def elsewhere(of: object, name: str) -> str | None:
    """What to write for a public name that another class has: by the shortest way from this object.

    None if no class has it.
    """
    kind = _kind(type(of))
    if kind is None or name.startswith("_"):
        return None
    package: Any = import_module("fastresume")  # its classes are of later rooms
    read = vars(of).get("dataset") if kind == "loader" else None
    held = {} if read is None else {_kind(type(read)): type(read)}
    ways, seen = [(kind, kind, "")], {kind}
    for way, here, which in ways:
        for step, to in _STEPS[here]:
            there = next(iter(held), to) if step == "{}.dataset" else to
            if there is None or there in seen:
                continue
            seen.add(there)
            ways.append((step.format(way), there, which if "{}" in step else _WHICH.get(step, "")))
            of_class = held.get(there) or getattr(package, _CLASSES[there])
            if name in _names(of_class):
                return _written(*ways[-1][::2], of_class, name)
    return None


def _kind(of_class: type) -> str | None:
    return next((_KINDS[one.__name__] for one in of_class.__mro__ if one.__name__ in _KINDS), None)


def _names(of_class: type) -> set[str]:
    """The names that this package gives to the objects of a class."""
    own = [one for one in of_class.__mro__ if one.__module__.startswith("fastresume.")]
    return {name for one in own for name in (*vars(one), *inspect.get_annotations(one))}


def _written(way: str, which: str, of_class: type, name: str) -> str:
    """A name as it is written, with the arguments that it needs."""
    member = inspect.getattr_static(of_class, name, None)
    is_of_class = isinstance(member, classmethod | staticmethod)
    called = f"fr.{of_class.__name__}.{name}" if is_of_class else f"{way}.{name}"
    if is_of_class or inspect.isfunction(member):
        arguments = inspect.signature(getattr(of_class, name)).parameters.values()
        needed = [one.name for one in arguments if one.default is one.empty and one.kind != one.VAR_KEYWORD]
        called += f"({', '.join(name for name in needed if name != 'self')})"
    return called if is_of_class else called + which
