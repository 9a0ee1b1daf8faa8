"""What sources raised in other threads: the causes of errors that the core makes."""

from __future__ import annotations

import traceback
from collections import deque
from typing import Any

import fastresume._core as _core

_MOST = 8
"""As many reads are under way at once."""

_LINE_CHARACTERS = 100
"""An error has at least this beginning of what is said of it."""

_raised: deque[tuple[str, BaseException]] = deque(maxlen=_MOST)


def note(text: str, error: BaseException) -> None:
    """Notes what a source raised, for the error that has this text. What its functions held is let go."""
    traceback.clear_frames(error.__traceback__)
    _raised.append((_line(text), error))


def _cause_of(message: str) -> BaseException | None:
    """What a source raised, if this is the error that says so. It is given away once."""
    for noted in reversed([*_raised]):
        if noted[0] in message:
            try:
                _raised.remove(noted)
            except ValueError:  # another thread has it
                continue
            return noted[1]
    return None


def _line(text: str) -> str:
    return text.partition("\n")[0][:_LINE_CHARACTERS]


_plain_init = _core.SourceError.__init__


def _init(self: _core.SourceError, *args: Any) -> None:
    _plain_init(self, *args)
    if _raised and args and isinstance(args[0], str):
        self.__cause__ = _cause_of(args[0])


# The core makes the error wherever rows are needed: all these places have nothing else in common.
_core.SourceError.__init__ = _init  # type: ignore[method-assign, assignment]
