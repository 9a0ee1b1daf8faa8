"""The log of a Delta table: which commit added each file, and which one removed any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

READERS = 16
"""So many commits are asked for at once."""

Fetch = Callable[[str], bytes | None]
"""Reads a file of the table by its path in it; None if it is not there."""


class _OpenFile(Protocol):
    def read(self) -> bytes: ...


class _Storage(Protocol):
    def open_input_file(self, path: str) -> _OpenFile: ...


def local(root: str) -> Fetch:
    """Reads files of a table on a local disk."""

    def fetch(path: str) -> bytes | None:
        try:
            return (Path(root) / path).read_bytes()
        except FileNotFoundError:
            return None

    return fetch


def stored(storage: _Storage) -> Fetch:
    """Reads files of a table in a store."""

    def fetch(path: str) -> bytes | None:
        try:
            return storage.open_input_file(path).read()
        except FileNotFoundError:
            return None

    return fetch


class DeltaLog:
    """The commits of a table up to a version, as far back as the log still has them.

    Attributes:
        added_by: of files that are there, by their paths in the log, the version that added them.
        rewritten_by: the last commit that removed or rewrote rows, in words; None if none did.
        is_empty: whether it has not even the commit of that version.
        first: the number of the first commit that it has.
    """

    def __init__(self, fetch: Fetch, version: int) -> None:
        self.added_by: dict[str, int] = {}
        self.rewritten_by: str | None = None
        commits = list(_backwards(fetch, version))
        self.is_empty = not commits
        self.first = commits[-1][0] if commits else version + 1
        for number, actions in reversed(commits):
            self._replay(number, actions)

    def _replay(self, number: int, actions: list[dict[str, Any]]) -> None:
        added = [action["add"]["path"] for action in actions if "add" in action]
        removed = {action["remove"]["path"] for action in actions if "remove" in action}
        # A file that is removed and added at once has got a deletion vector: it stays in its place.
        again = removed.intersection(added)
        for path in removed - again:
            self.added_by.pop(path, None)
        for path in added:
            if path not in again:
                self.added_by.setdefault(path, number)
        if removed:
            told: dict[str, Any] = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
            self.rewritten_by = f"commit {number} ({told.get('operation', 'of which it tells no operation')})"


def _backwards(fetch: Fetch, version: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The commits from a version on, back to the last one that is there."""
    with ThreadPoolExecutor(READERS) as readers:
        for last in range(version, -1, -READERS):
            numbers = range(last, max(last - READERS, -1), -1)
            paths = [f"_delta_log/{number:020}.json" for number in numbers]
            for number, content in zip(numbers, readers.map(fetch, paths), strict=True):
                if content is None:
                    return
                yield number, [json.loads(line) for line in content.splitlines() if line.strip()]
