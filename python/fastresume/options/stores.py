"""How stores of objects are reached, as users name it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import fastresume._core as _core
from fastresume.options.cache import Cache
from fastresume.options.checks import at_least, quoted

Credentials = Callable[[], Mapping[str, str]]


def stores_of(
    storage_options: Mapping[Any, object] | None,
    credentials: Credentials | None,
    read_bytes: int,
    cache: Cache | None,
) -> _core.Stores:
    """The stores that addresses among the paths name; none is asked yet.

    Raises:
        TypeError: if the options are no mapping of names and plain values, or what gives credentials can't be
            called.
        ValueError: if fewer bytes than one may be on their way.
    """
    if not isinstance(storage_options, Mapping | None):
        raise TypeError(f"storage_options must be a dict of names and values, found {type(storage_options)}")
    # A value may be a secret: no message has one.
    if unnamed := [name for name in storage_options or {} if not isinstance(name, str)]:
        raise TypeError(f"storage_options must have names that are strings, found {quoted(unnamed[0])}")
    if not (credentials is None or callable(credentials)):
        raise TypeError(
            "credentials must be a function that returns a dict, such as {'aws_access_key_id': ..., "
            f"'aws_secret_access_key': ...}}, found {type(credentials)}: what does not expire goes into "
            "storage_options"
        )
    options = {
        name: _text(f"storage_options[{quoted(name)}]", value)
        for name, value in (storage_options or {}).items()
        if value is not None
    }
    blocks = None if cache is None else cache._blocks
    return _core.Stores(options, credentials, at_least(1, "read_bytes", read_bytes), blocks)


def ask(credentials: Credentials, answer: Callable[[object, BaseException | None], None]) -> None:
    """Tells `answer` what a function gave, or what it failed with; a thread of its own calls this."""
    try:
        given = credentials()
    except BaseException as error:  # noqa: BLE001  (raised by the request that needs them)
        answer(None, error)
    else:
        answer(given, None)


def options_of(
    storage_options: Mapping[Any, object] | None, credentials: Credentials | None
) -> dict[str, str] | None:
    """The same for code that reads a table's log: credentials as they are now. None if nothing is named."""
    if not isinstance(storage_options, Mapping) and not callable(credentials):
        return None
    named = dict(storage_options or {}) | (dict(credentials()) if callable(credentials) else {})
    return {
        str(name): _text(f"option {quoted(name)}", value)
        for name, value in named.items()
        if value is not None
    }


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    # It may be a secret: its kind says enough.
    instead = "; write value.decode()" if isinstance(value, bytes) else ""
    if isinstance(value, Mapping):
        instead = "; write what it holds beside the other options, as 'endpoint_url': 'http://...'"
    raise TypeError(f"{name} must be a string, a number or a bool, found {type(value)}{instead}")
