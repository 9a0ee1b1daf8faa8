"""What keeps sessions from ending as long as somebody reads them."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

_LEAST_SECONDS, _MOST_SECONDS = 1.0, 3600.0


def wait_seconds(expires: float | None, now: float) -> float:
    """How long to wait before a session is refreshed: half of the time that remains.

    Examples:
        >>> wait_seconds(expires=1000.0, now=400.0)
        300.0
    """
    left = 2 * _MOST_SECONDS if expires is None else expires - now
    return min(max(left / 2, _LEAST_SECONDS), _MOST_SECONDS)


class Keeper:
    """Refreshes the sessions of an owner until it is gone, in a thread of its own.

    Args:
        owner: the owner; the thread does not hold on to it.
        expires: tells when the first of its sessions ends, in seconds since 1970; None if that is not known.
        refresh: refreshes them.
    """

    def __init__(
        self, owner: Any, expires: Callable[[Any], float | None], refresh: Callable[[Any], None]
    ) -> None:
        self._is_over = threading.Event()
        weakref.finalize(owner, self._is_over.set).atexit = False
        arguments = (weakref.ref(owner), expires, refresh, self._is_over)
        threading.Thread(target=_keep, args=arguments, name="fastresume sessions", daemon=True).start()


def _keep(
    owner: Callable[[], Any],
    expires: Callable[[Any], float | None],
    refresh: Callable[[Any], None],
    is_over: threading.Event,
) -> None:
    while (held := owner()) is not None:
        seconds = wait_seconds(expires(held), time.time())
        del held
        if is_over.wait(seconds):
            return
        if (held := owner()) is not None:
            refresh(held)
        del held
