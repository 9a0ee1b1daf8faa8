"""The order of files whose commits a Delta log has no more, as their names, directories and times tell it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

WRITER = re.compile(r"part-\d+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""In the names of files: who wrote them. Spark has one for each commit, deltalake one for each directory."""

CLOSE_MS = 1000
"""What one commit wrote into several directories is closed within this time, unless times tell more."""


MOST_PAUSES = 64
"""This many pauses are tried; each may be the shortest one between commits."""


@dataclass
class _Written:
    """Files that one commit wrote.

    Attributes:
        paths: of these files.
        directories: where they lie.
        first: when the first one was written, in milliseconds since 1970.
        last: when the last one was.
    """

    paths: list[str]
    directories: set[str]
    first: int
    last: int


def orders(files: Sequence[tuple[str, int]]) -> Iterator[list[str]]:
    """Orders of the commits that may have added paths, within a commit by path; the most likely one first.

    Args:
        files: their paths in the log, and when they were written, in milliseconds.

    Examples:
        >>> next(orders([("p=b/x", 20), ("p=a/y", 21), ("p=b/z", 900), ("p=a/w", 901)]))
        ['p=a/y', 'p=b/x', 'p=a/w', 'p=b/z']
    """
    written = _written(files)
    pauses = [later.first - earlier.last for earlier, later in pairwise(written)]
    likely = _shortest(written, pauses)
    seen: set[tuple[str, ...]] = set()
    for shortest in [likely, *_some(sorted(set(pauses)))]:
        for parts_directories in (True, False):
            commits = _commits(written, pauses, shortest, parts_directories=parts_directories)
            order = [path for commit in commits for path in sorted(commit)]
            if tuple(order) not in seen:
                seen.add(tuple(order))
                yield order
    # As they were before times showed what was written together.
    yield [path for path, _ in sorted(files, key=lambda file: (file[1], file[0]))]


def _some(pauses: Sequence[int]) -> Sequence[int]:
    """At most this many of some pauses, the shortest and longest among them."""
    step = max(len(pauses) // MOST_PAUSES, 1)
    return [*pauses[::step], *pauses[-1:]]


def _written(files: Sequence[tuple[str, int]]) -> list[_Written]:
    """What was written together for certain, in the order of times."""
    found: dict[str, _Written] = {}
    for path, time in files:
        directory, _, name = path.rpartition("/")
        match = WRITER.search(name)
        one = found.setdefault(match.group(1) if match else path, _Written([], set(), time, time))
        one.paths.append(path)
        one.directories.add(directory)
        one.first, one.last = min(one.first, time), max(one.last, time)
    return sorted(found.values(), key=lambda one: (one.first, one.last, min(one.paths)))


def _commits(
    written: Sequence[_Written], pauses: Sequence[int], shortest: int, *, parts_directories: bool
) -> Iterator[list[str]]:
    """What was written commit by commit: there is a pause that is not shorter between two.

    A commit writes into a directory once, so that what goes into the same one again is of another commit.
    """
    if not written:
        return
    paths, directories = [*written[0].paths], set(written[0].directories)
    for one, pause in zip(written[1:], pauses, strict=True):
        if pause >= shortest or (parts_directories and directories & one.directories):
            yield paths
            paths, directories = [], set()
        paths += one.paths
        directories |= one.directories
    yield paths


def _shortest(written: Sequence[_Written], pauses: Sequence[int]) -> int:
    """The shortest pause, in milliseconds, that parts commits."""
    found, since, seen = CLOSE_MS, 0, set(written[0].directories) if written else set()
    for place, one in enumerate(written[1:], 1):
        if seen & one.directories:
            # Somewhere between the two there is another commit: most likely where the longest pause is.
            longest = max(pauses[since:place])
            found = min(found, max(longest, 1))
            since, seen = place, set()
        seen |= one.directories
    return found
