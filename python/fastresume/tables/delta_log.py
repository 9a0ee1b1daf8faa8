"""The log of a Delta table: which commit added each file, and which one removed any."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import fastresume._core as _core

LOG = "_delta_log"

AT_A_TIME = 1024
"""This many commits are asked for together: as many names as a store lists at once."""

READERS = 16
"""This many files of a disk are read at once: it may be that of another machine."""

Contents = Callable[[list[str]], Iterable[bytes | None]]
"""Reads files of a log by their names, one after the other; None of one that is not there."""


def local(root: str) -> Contents:
    """Reads the log of a table on a local disk."""

    def content(name: str) -> bytes | None:
        try:
            return (Path(root) / LOG / name).read_bytes()
        except FileNotFoundError:
            return None

    def contents(names: list[str]) -> Iterator[bytes | None]:
        with ThreadPoolExecutor(READERS) as readers:
            for first in range(0, len(names), READERS):
                yield from readers.map(content, names[first : first + READERS])

    return contents


def stored(root: str, stores: _core.Stores) -> Contents:
    """Reads the log of a table in a store: all that is asked for at once, and once."""
    return lambda names: stores.contents(f"{root}/{LOG}", names)


class DeltaLog:
    """The commits of a table up to a version, as far back as the log still has them.

    Attributes:
        added_by: of files that are there, by their paths in the log, the version that added them.
        rewritten_by: the last commit that removed or rewrote rows, in words; None if none did.
        before: the version before that commit; None if there is none.
        is_empty: whether it has not even the commit of that version.
        first: the number of the first commit that it has.
    """

    def __init__(self, contents: Contents, version: int) -> None:
        self.added_by: dict[str, int] = {}
        self.rewritten_by: str | None = None
        self.before: int | None = None
        commits = list(_backwards(contents, version))
        self.is_empty = not commits
        self.first = commits[-1][0] if commits else version + 1
        for number, actions in reversed(commits):
            self._replay(number, actions)

    def _replay(self, number: int, actions: list[dict[str, Any]]) -> None:
        added = [action["add"]["path"] for action in actions if "add" in action]
        removed = {action["remove"]["path"] for action in actions if "remove" in action}
        # A file that is removed and added at once has got a deletion vector: it stays where it is.
        again = removed.intersection(added)
        for path in removed - again:
            self.added_by.pop(path, None)
        for path in added:
            if path not in again:
                self.added_by.setdefault(path, number)
        if removed:
            info: dict[str, Any] = next((one["commitInfo"] for one in actions if "commitInfo" in one), {})
            self.rewritten_by = (
                f"commit {number} ({info.get('operation', 'for which it names no operation')})"
            )
            self.before = number - 1 if number else None


def _backwards(contents: Contents, version: int) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """The commits from a version on, back to the last one that is there."""
    for last in range(version, -1, -AT_A_TIME):
        numbers = range(last, max(last - AT_A_TIME, -1), -1)
        found = contents([f"{number:020}.json" for number in numbers])
        for number, content in zip(numbers, found, strict=True):
            if content is None:
                return
            yield number, [json.loads(line) for line in content.splitlines() if line.strip()]
