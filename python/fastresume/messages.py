"""Messages of errors stay short, no matter what a user passes, and hold no password of an address."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

import fastresume._core as _core

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

MOST_NAMED = 8
"""A message names up to this many of what there may be any number of."""


def bounded(message: str) -> str:
    """The message as the core's errors have it: long words lose their middle, then the whole does."""
    return _core.bounded(message.encode(errors="backslashreplace").decode())  # names of files need be no text


def some_of(texts: Sequence[str]) -> str:
    """The first few of them, and the number of the others."""
    more = f"; and {len(texts) - MOST_NAMED} more" if len(texts) > MOST_NAMED else ""
    return "; ".join(texts[:MOST_NAMED]) + more


def in_words(error: BaseException) -> str:
    """The message of an error; of the system's the file and what is wrong with it, without the number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return bounded(f"{os.fsdecode(error.filename)}: {error.strerror.lower()}")
    return bounded(str(error))


def warn(message: str, category: type[Warning] = UserWarning, frame: FrameType | None = None) -> None:
    """Warns where the user's code called the package, however deep inside of it the reason was noticed.

    Args:
        message: what to say.
        category: of the warning.
        frame: where another thread is, if this one only watches it.
    """
    while frame is not None and not _is_inside(frame):
        frame = frame.f_back
    frame = frame or sys._getframe()
    while frame.f_back is not None and _is_inside(frame):
        frame = frame.f_back
    names = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__"),
        names.setdefault("__warningregistry__", {}),
    )


def bounds_messages(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, whose errors have bounded messages. Errors of functions that the user passes stay."""

    @functools.wraps(function)
    def call(*args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return function(*args, **options)
        except Exception as error:
            if _is_ours(error.__traceback__):
                error.args = tuple(bounded(part) if isinstance(part, str) else part for part in error.args)
            raise

    return call


def _is_inside(frame: FrameType) -> bool:
    """Whether it runs code of this package."""
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "fastresume"


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether code of this package raised it."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and _is_inside(trace.tb_frame)
