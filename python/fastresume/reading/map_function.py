"""The functions given to `map`: their type, their names, and whether they can be pickled."""

from __future__ import annotations

import multiprocessing.context
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from fastresume.batch.batch import Batch

Transform = Callable[[Batch], Mapping[str, Any]]
"""A function of a batch that returns a batch, or a mapping of names to values."""


def name_of(function: Callable[..., Any]) -> str:
    """The name of a user's function, as its users know it."""
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    return name


def check_picklable(transforms: tuple[Transform, ...]) -> None:
    """Refuses transforms that can't be pickled for a newly started worker process.

    Raises:
        PicklingError: if one is a lambda, or a function defined within another one; it says what to write.
    """
    if multiprocessing.context.get_spawning_popen() is None:
        return  # another use of pickle, with other rules
    for transform in transforms:
        name = name_of(transform)
        if "<lambda>" in name or "<locals>" in name:
            raise pickle.PicklingError(
                f"{name} can't be sent to a worker process, which Python starts from scratch here "
                "('spawn' or 'forkserver'): give map() a function of a module's top level, or an object of a "
                "class with __call__, or take multiprocessing_context='fork'"
            )
