"""The functions given to `map`: their type, their names, and whether they can be pickled."""

from __future__ import annotations

import functools
import multiprocessing.context
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fastresume.batch.batch import Batch

Transform = Callable[[Batch], Mapping[str, Any]]
"""A function of a batch that returns a batch, or a mapping of names to values."""

_STDIN = "<stdin>"
"""What Python calls the file of a program that it reads from standard input."""


def name_of(function: Callable[..., Any]) -> str:
    """The name of a user's function, as its users know it."""
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name


def check_picklable(transforms: tuple[Transform, ...]) -> None:
    """Refuses transforms that a newly started worker process can't get, before one is started.

    Raises:
        PicklingError: if one is a lambda, a function defined within another one, or one of a notebook; it
            says what to write.
    """
    if multiprocessing.context.get_spawning_popen() is None:
        return  # another use of pickle, with other rules
    is_without_file = getattr(sys.modules["__main__"], "__file__", None) in (None, _STDIN)
    for part in (part for transform in transforms for part in _parts(transform)):
        name = name_of(part)
        if "<lambda>" in name or "<locals>" in name:
            way = (
                "give map() a function of a module's top level, or an object of a class with __call__, or "
                "take"
            )
        elif is_without_file and getattr(part, "__module__", None) == "__main__":
            way = "it is of a notebook, or of another program without a file; put it into a module, or write"
        else:
            continue
        raise pickle.PicklingError(
            f"{name} can't be sent to a worker process, which Python starts from scratch here "
            f"('spawn' or 'forkserver'): {way} multiprocessing_context='fork'"
        )


def _parts(function: Callable[..., Any]) -> Iterator[Callable[..., Any]]:
    """The function, and those that a partial of it holds."""
    yield function
    if isinstance(function, functools.partial):
        for held in (function.func, *function.args, *function.keywords.values()):
            if callable(held):
                yield from _parts(held)
