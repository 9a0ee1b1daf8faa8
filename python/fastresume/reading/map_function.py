"""The functions that `map` is given: what they take and give, their names, and how they reach a worker."""

from __future__ import annotations

import multiprocessing.context
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from fastresume.batch.batch import Batch

Transform = Callable[[Batch], Mapping[str, Any]]
"""A function of a batch that gives a batch, or a mapping of names to values."""


def name_of(transform: Transform) -> str:
    """The name of a transform, as its users know it."""
    name: str = getattr(transform, "__qualname__", type(transform).__qualname__)
    return name


def check_picklable(transforms: tuple[Transform, ...]) -> None:
    """Says what to write where a worker process that starts anew can't be given a transform.

    Raises:
        PicklingError: if one is a lambda, or a function made within another one.
    """
    if multiprocessing.context.get_spawning_popen() is None:
        return  # a pickle of another kind, which may take anything
    for transform in transforms:
        name = name_of(transform)
        if "<lambda>" in name or "<locals>" in name:
            raise pickle.PicklingError(
                f"{name} can't be sent to a worker process, which Python starts anew here ('spawn' or "
                "'forkserver'): give map() a function of a module's top level, or an object of a class with "
                "__call__, or take multiprocessing_context='fork'"
            )
