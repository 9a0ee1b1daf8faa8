"""The sessions that a state names: a source is asked for them again, so that its rows have their order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

import fastresume._core as _core

_ONE, _EACH = "session", "sessions"


def text_of(session: object) -> str:
    """What the state of a dataset has of its source's session.

    Raises:
        TypeError: if it is no JSON of ASCII texts.
    """
    text = json.dumps({_ONE: session}, sort_keys=True)
    if "\\u" in text:
        raise TypeError("session() must return JSON of ASCII texts")
    return text


def text_of_each(sessions: Mapping[str, str]) -> str:
    """What the state of a mixture has of the sessions of its sources, by their names."""
    return json.dumps({_EACH: {quote(name): json.loads(text)[_ONE] for name, text in sessions.items()}})


def session_of(cursor: _core.Cursor) -> Any:
    """The session that a dataset's state names; None if it names none."""
    return _named(cursor).get(_ONE)


def sessions_of(cursor: _core.Cursor) -> dict[str, Any]:
    """The sessions that a mixture's state names, by the names of the sources."""
    return {unquote(name): session for name, session in _named(cursor).get(_EACH, {}).items()}


def _named(cursor: _core.Cursor) -> dict[str, Any]:
    found = json.loads(cursor.round or "{}")
    return found if isinstance(found, dict) else {}  # it may be the round of a stream


def in_session(cursor: _core.Cursor, text: str | None) -> _core.Cursor:
    """The same place, in a state that names a session."""
    return cursor if text is None else cursor.with_round(text)
