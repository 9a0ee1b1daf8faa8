"""The offsets that are committed to a consumer group, for dashboards: nothing here reads them back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from fastresume.kafka.client import Client
from fastresume.kafka.place import Part

_log = logging.getLogger("fastresume")

_CLOSE_SECONDS = 5.0
"""How long `close` waits for a commit that is under way."""


class Commits:
    """Commits offsets to a group, in a thread of its own. The latest ones win; a failure is logged.

    Args:
        client: the brokers.
        group: the name of the group.
    """

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._lock = threading.Lock()
        self._wanted: Mapping[Part, int] | None = None
        self._thread: threading.Thread | None = None

    def add(self, offsets: Mapping[Part, int]) -> None:
        """Commits these soon."""
        with self._lock:
            self._wanted = offsets
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fastresume-commits", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                offsets, self._wanted = self._wanted, None
                if offsets is None:
                    self._thread = None
                    return
            try:
                self._client.commit(offsets, self._group)
            except Exception as error:  # noqa: BLE001  (training does not depend on it)
                _log.warning("the offsets of the group '%s' were not committed: %s", self._group, error)

    def close(self) -> None:
        """Waits for what is under way, for some seconds."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(_CLOSE_SECONDS)
