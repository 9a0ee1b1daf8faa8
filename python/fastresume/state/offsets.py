"""What another reader consumed, by the offsets that it saved, as row numbers of a dataset."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.buffers import of_words
from fastresume.options.checks import integer, local_path, path_list, quoted

EPOCHS_COMPLETED = "__epochs_completed__"

Words = npt.NDArray[np.int64]


class Files(Protocol):
    """What offsets ask of what a dataset reads: a `FilesSpec` has it."""

    @property
    def paths(self) -> Sequence[str]:
        """What the user named."""

    @property
    def manifest(self) -> _core.Manifest:
        """The files."""


class Listing:
    """The files of a dataset in the order in which the writer of offsets had listed them.

    Args:
        spec: what the dataset reads.
        files: paths in that order; None where every key means one file with rows.
        moved: where directories are now, by where they were.

    Raises:
        TypeError: if these are something else.
        StateError: if a file is not of the dataset, or comes twice.
    """

    def __init__(
        self, spec: Files, files: Sequence[str | os.PathLike[str]] | None, moved: Mapping[str, str] | None
    ) -> None:
        if moved is not None and not isinstance(moved, Mapping):
            raise TypeError(f"paths maps old paths to new ones, found {quoted(moved)}")
        self._moved = sorted(
            (
                (os.fspath(old).rstrip("/"), local_path(os.fspath(new)).rstrip("/"))
                for old, new in (moved or {}).items()
            ),
            key=lambda pair: -len(pair[0]),
        )
        self._spec = spec
        manifest = spec.manifest
        # The first row of each file, and after the last one the number of rows.
        self._starts: Words = of_words(manifest.group_starts)[of_words(manifest.file_groups)]
        self._places: Words | None = None
        if files is not None:
            self._places = self._places_of(path_list(files))

    def _places_of(self, files: list[str]) -> Words:
        """Of each file of the dataset its place in the writer's list; -1 if it is not in it."""
        numbers = {path: number for number, path in enumerate(self._spec.manifest.files)}
        places = np.full(len(numbers), -1, np.int64)
        for place, named in enumerate(files):
            path = self._new_path(named)
            number = numbers.get(path)
            if number is None:
                found = self._named(path, f"files= names {quoted(named)}")
                if len(found) != 1:
                    raise _core.StateError(f"files= names {quoted(named)}, which is {len(found)} files")
                number = found[0]
            if places[number] >= 0:
                raise _core.StateError(f"files= names {quoted(named)} twice")
            places[number] = place
        return places

    def _new_path(self, path: str) -> str:
        for old, new in self._moved:
            if path == old or path.startswith(f"{old}/"):
                return new + path[len(old) :]
        return path

    def _named(self, path: str, what: str) -> list[int]:
        try:
            return self._spec.manifest.files_of(path)
        except (ValueError, OSError) as cause:
            raise _core.StateError(f"{what}: the path names no rows of this dataset: {cause}") from None

    def stretches(self, key: str, path: str) -> Words:
        """The rows of the files that a key's path means, in the writer's order: [first, end) of each file.

        Raises:
            StateError: if there are none, or their order is not known.
        """
        path = self._new_path(path)
        if path == ",".join(self._spec.paths):
            numbers = np.arange(len(self._starts) - 1)
        else:
            numbers = np.array(self._named(path, f"key {quoted(key)}"), np.int64)
        rows = np.stack([self._starts[numbers], self._starts[numbers + 1]], axis=1)
        has_rows = rows[:, 0] < rows[:, 1]
        numbers, rows = numbers[has_rows], rows[has_rows]
        if self._places is None:
            if len(numbers) > 1:
                raise _core.StateError(
                    f"key {quoted(key)} means {len(numbers)} files, and counts rows over them in the order "
                    "in which its writer listed them, not told by it: pass files=[...] in that order. "
                    "TorchEasyRec takes that of glob.glob(), the directory's own: glob.glob() gives it again "
                    "as long as nothing was added, removed or copied there"
                )
            return rows
        places = self._places[numbers]
        if len(places) and places.min() < 0:
            lacking = self._spec.manifest.files[int(numbers[int(places.argmin())])]
            raise _core.StateError(f"key {quoted(key)} means the file {quoted(lacking)}, which files= lacks")
        return rows[np.argsort(places)]


def consumed(offsets: Mapping[str, Any], listing: Listing) -> tuple[int, Words]:
    """The passes completed, and the rows consumed since: int64 `[n, 2]`, in no order.

    Raises:
        StateError: if offsets are none, or out of range; the key is named.
    """
    if not isinstance(offsets, Mapping):
        raise _core.StateError(f"offsets map 'path:start' to the last row, found {quoted(offsets)}")
    epoch = 0
    parts = [np.empty((0, 2), np.int64)]
    known: dict[str, Words] = {}
    for key, value in offsets.items():
        if key == EPOCHS_COMPLETED:
            epoch = _to_integer(key, value)
            if not 0 <= epoch < 2**53 - 1:
                raise _core.StateError(f"key '{key}': {quoted(epoch)} is out of range")
        elif ":" in key:
            path, _, start_text = key.rpartition(":")
            start, last = _to_start(key, start_text), _to_integer(key, value)
            stretches = known[path] if path in known else listing.stretches(key, path)
            known[path] = stretches
            lengths = stretches[:, 1] - stretches[:, 0]
            total = int(lengths.sum())
            if not (0 <= start <= total and start - 1 <= last < total):
                raise _core.StateError(
                    f"key {quoted(key)}: offset {quoted(last)} is out of range; its files have "
                    f"{plural(total, 'row')}"
                )
            # How far each file's rows lie within [start, last + 1), counted over all of them.
            before = np.cumsum(lengths) - lengths
            first = stretches[:, 0] + np.clip(start - before, 0, lengths)
            end = stretches[:, 0] + np.clip(last + 1 - before, 0, lengths)
            parts.append(np.stack([first, end], axis=1)[first < end])
    return epoch, np.concatenate(parts)


def _to_integer(key: str, value: object) -> int:
    try:
        return integer(key, value)
    except TypeError:
        raise _core.StateError(f"key {quoted(key)}: {quoted(value)} is not an integer") from None


def _to_start(key: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise _core.StateError(f"key {quoted(key)}: {quoted(text)} after the colon is not a row number")
    return int(text)
