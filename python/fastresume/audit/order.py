"""The order of a pass for the audit: its own arithmetic, slow and independent of the core's.

The results of both are compared wherever the audit translates positions to rows.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from fastresume.audit.log_format import (
    Integers,
    Words,
    contents_file,
    dataset_file,
    mix,
    selection_file,
    units_file,
)
from fastresume.buffers import Intervals, of_runs

GAMMA = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
ROUNDS = 6


CUT_FROM_LISTS = {"sequences": True, "bins": False}
"""What positions may count instead of rows: tokens cut from a file's lists, or rows of a row group."""


@dataclass(frozen=True)
class Units:
    """What is counted instead of rows.

    Args:
        counted: a word of `CUT_FROM_LISTS`.
        text: how they are made.
        contents: the digest of what each one holds, tokens or rows; None if it is not known.
        dropped_tokens: how many tokens are in none.
        of_rows: the rows that they are made of.
    """

    counted: str
    text: str
    contents: Words | None
    dropped_tokens: int
    of_rows: Dataset

    @property
    def hold_whole_rows(self) -> bool:
        """Whether each selected row is in one of them."""
        return not CUT_FROM_LISTS[self.counted]

    @property
    def what(self) -> str:
        """What is in them, in words."""
        if self.hold_whole_rows:
            return "every selected row"
        but = f" but {self.dropped_tokens} after the last sequences" if self.dropped_tokens else ""
        return f"every token of every document{but}"


@dataclass(frozen=True)
class Dataset:
    """The files of a dataset and the rows of their row groups, as described in a log's directory.

    In a dataset of units, the units of a file or row group replace the rows of a row group.

    Args:
        files: their paths, without the common part.
        groups: the row groups of file i are `groups[i]` to `groups[i + 1]`.
        starts: the first row of each row group, and the number of rows.
        selected: the selected rows.
        units: what is counted instead of rows; None if rows are.
    """

    files: tuple[str, ...]
    groups: Integers
    starts: Integers
    selected: Intervals
    units: Units | None = None

    @classmethod
    def load(cls, directory: Path, fingerprint: str, selection: str | None, count: int) -> Self | None:
        """The dataset; None if its description is missing, damaged, or belongs to another dataset.

        `count` is how many rows, or units, a pass has.
        """
        try:
            path = directory / units_file(fingerprint, selection or "")
            described = json.loads(path.read_text()) if path.exists() else None
            found = cls._of_rows(
                directory, fingerprint, selection if described is None else described["selection"]
            )
            if described is not None:
                path = directory / contents_file(fingerprint, selection or "")
                found = found.of_units(described, path.read_bytes() if path.exists() else b"")
                if (described["fingerprint"], described["hash"]) != (fingerprint, selection):
                    raise ValueError(f"the description is not that of {fingerprint} and {selection}")
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if (found.selected[:, 1] - found.selected[:, 0]).sum() == count else None

    @classmethod
    def _of_rows(cls, directory: Path, fingerprint: str, selection: str | None) -> Self:
        described = json.loads((directory / dataset_file(fingerprint)).read_text())
        names = tuple(str(name) for name, _ in described["files"])
        groups = np.cumsum([0, *(len(counts) for _, counts in described["files"])])
        starts = np.cumsum([0, *(count for _, counts in described["files"] for count in counts)])
        selected = np.array([[0, starts[-1]]], np.int64)
        if selection is not None:
            selected = _selected(directory / selection_file(selection), selection)
        if described["fingerprint"] != fingerprint or (starts[1:] < starts[:-1]).any():
            raise ValueError(f"the description is not that of {fingerprint}")
        if selected.max(initial=0) > starts[-1]:
            raise ValueError("rows are selected that there are not")
        return cls(names, groups.astype(np.int64), starts.astype(np.int64), selected)

    def of_units(self, description: Mapping[str, Any], contents: bytes) -> Self:
        """The units of these rows by their description, and by the digest of what each one holds, as bytes.

        Raises:
            ValueError, KeyError, TypeError: if it describes none.
        """
        starts = np.array(description["starts"], np.int64)
        groups = np.arange(len(self.files) + 1) if CUT_FROM_LISTS[description["counted"]] else self.groups
        if len(starts) != groups[-1] + 1 or starts[0] or (starts[1:] < starts[:-1]).any():
            raise ValueError("units have no such numbers")
        selected = np.array([[0, starts[-1]]], np.int64)
        content = None if description["content"] is None else int(description["content"])
        each = _contents(contents, content, int(starts[-1]))
        how = str(description["counted"]), str(description["unit"])
        units = Units(*how, each, int(description["dropped_tokens"]), self)
        return replace(self, groups=groups, starts=starts, selected=selected, units=units)

    @property
    def counted(self) -> str:
        """What is counted, in a word."""
        return "rows" if self.units is None else self.units.counted

    def ordinals(self, rows: Integers) -> Integers:
        """The number of selected rows before each row."""
        before = np.cumsum([0, *(self.selected[:, 1] - self.selected[:, 0])])
        place = np.searchsorted(self.selected[:, 0], rows, "right") - 1
        inside = np.minimum(rows, self.selected[place, 1]) - self.selected[place, 0]
        ordinals: Integers = np.where(place < 0, 0, before[place] + inside)
        return ordinals

    def rows(self, ordinals: Integers) -> Integers:
        """The selected rows with these ordinals (numbers among the selected rows)."""
        before = np.cumsum([0, *(self.selected[:, 1] - self.selected[:, 0])])
        place = np.searchsorted(before, ordinals, "right") - 1
        rows: Integers = self.selected[place, 0] + ordinals - before[place]
        return rows

    def begins(self, newer: Dataset) -> bool:
        """Whether these are the first files of another dataset that selects the same rows of them."""
        files, starts = len(self.files), len(self.starts)
        names = zip(self.files, newer.files, strict=False)
        if files >= len(newer.files) or not all(f"/{later}".endswith(f"/{name}") for name, later in names):
            return False
        selected = np.minimum(newer.selected, self.starts[-1])
        return (
            np.array_equal(self.groups, newer.groups[: files + 1])
            and np.array_equal(self.starts, newer.starts[:starts])
            and np.array_equal(self.selected, selected[selected[:, 0] < selected[:, 1]])
        )

    def name(self, rows: Integers) -> Iterator[str]:
        """Where the rows (or units) are: "file: row group 3: rows 100-131" for adjacent ones."""
        rows = np.sort(rows)
        group = np.searchsorted(self.starts, rows, "right") - 1
        breaks = np.flatnonzero((np.diff(rows) != 1) | (np.diff(group) != 0)) + 1
        for stretch in np.split(rows, breaks) if len(rows) else []:
            of_group = int(np.searchsorted(self.starts, stretch[0], "right")) - 1
            file = int(np.searchsorted(self.groups, of_group, "right")) - 1
            first, last = (int(row - self.starts[of_group]) for row in (stretch[0], stretch[-1]))
            counted = self.counted
            span = f"{counted[:-1]} {first}" if first == last else f"{counted} {first}-{last}"
            yield f"{self._place(file, of_group)}{span}"

    def _place(self, file: int, group: int) -> str:
        of_file = (
            ""
            if self.units is not None and not self.units.hold_whole_rows
            else f"row group {group - int(self.groups[file])}: "
        )
        return f"{self.files[file]}: {of_file}"


def _contents(given: bytes, content: int | None, count: int) -> Words | None:
    """What each of the `count` units holds; None if that does not add up to `content`."""
    if content is None or len(given) != 8 * count:
        return None
    contents = np.frombuffer(given, "<u8").astype(np.uint64)
    return contents if int(contents.sum(dtype=np.uint64)) == content else None


def _selected(path: Path, selection: str) -> Intervals:
    """The selected intervals in a file.

    Raises:
        ValueError: if `selection` is not the hash of the file's intervals.
    """
    selected = np.frombuffer(path.read_bytes(), "<i8").astype(np.int64).reshape(-1, 2)
    halves = []
    for half in range(2):
        words = np.full(len(selected), _key(half), np.uint64)
        for ends in selected.astype(np.uint64).T:
            words = mix((words ^ ends) + np.uint64(GAMMA))
        halves.append(int(words.sum(dtype=np.uint64)))
    if f"{halves[0]:016x}{halves[1]:016x}" != selection:
        raise ValueError(f"{path} does not hold what {selection} is the hash of")
    return selected


class Order:
    """The rows at the positions of one pass, whose generations of rows end before these ordinals."""

    def __init__(
        self, order: Mapping[str, Any], epoch: int, dataset: Dataset, ends: tuple[int, ...] = ()
    ) -> None:
        self._dataset = dataset
        self._shuffles: list[_Shuffle] = []
        if order["kind"] != "shuffled":
            return
        starts = dataset.ordinals(dataset.starts)
        bounds = [0, *ends, int(starts[-1])]
        for generation, (first, end) in enumerate(itertools.pairwise(bounds)):
            words = (order["seed"], epoch)
            of_generation = (generation,) if generation else ()
            groups = starts[(starts >= first) & (starts <= end)] - first
            sizes = order["block_rows"], order["window_rows"]
            self._shuffles.append(_Shuffle(words, of_generation, first, groups, sizes))

    def rows(self, positions: Intervals) -> Integers:
        """The rows at the positions, one by one, in no particular order."""
        places = of_runs(positions)
        if not self._shuffles:
            return self._dataset.rows(places)
        parts = [shuffle.ordinals(places) for shuffle in self._shuffles]
        return self._dataset.rows(np.concatenate([np.empty(0, np.int64), *parts]))


class _Shuffle:
    """The order of one generation of rows, whose row groups begin at `starts`, counted from its first row."""

    def __init__(
        self,
        words: tuple[int, ...],
        of_generation: tuple[int, ...],
        first: int,
        starts: Integers,
        sizes: tuple[int, int],
    ) -> None:
        self._words, self._of_generation = words, of_generation
        self._first, self._rows = first, int(starts[-1])
        block_rows, window_rows = sizes
        blocks = _blocks(starts, block_rows)
        count = len(blocks)
        blocks = blocks[_permute(np.arange(count), count, self._key(0))]
        self._first_of_block, of_blocks = blocks[:, 0], blocks[:, 1] - blocks[:, 0]
        self._block_at = np.concatenate([[0], np.cumsum(of_blocks)])
        windows = max(1, -(-count // (window_rows // block_rows)))
        self._first_blocks = np.arange(windows + 1) * count // windows
        self._window_at = self._block_at[self._first_blocks]

    def _key(self, number: int) -> int:
        return _key(*self._words, number, *self._of_generation)

    def ordinals(self, places: Integers) -> Integers:
        """The ordinals at those of the positions that are its own."""
        places = np.sort(places[(places >= self._first) & (places < self._first + self._rows)]) - self._first
        window_of = np.searchsorted(self._window_at, places, "right") - 1
        parts = [self._in_window(int(of), places[first:end]) for of, first, end in _stretches(window_of)]
        return self._first + np.concatenate([np.empty(0, np.int64), *parts])

    def _in_window(self, window: int, places: Integers) -> Integers:
        start, end = int(self._window_at[window]), int(self._window_at[window + 1])
        slots = start + _permute(places - start, end - start, self._key(window + 1))
        block = np.searchsorted(self._block_at, slots, "right") - 1
        ordinals: Integers = self._first_of_block[block] + slots - self._block_at[block]
        return ordinals


def _stretches(values: Integers) -> Iterator[tuple[int, int, int]]:
    """Each value of a sorted array, and where its run begins and ends."""
    bounds = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), len(values)]
    for first, end in itertools.pairwise(bounds):
        if first < end:
            yield int(values[first]), first, end


def _blocks(starts: Integers, block_rows: int) -> Intervals:
    """The blocks as ranges of selected rows: large row groups are divided evenly, small neighbours joined."""
    ends: list[int] = [0]
    joined = 0  # rows of the last block, if more may be joined to it
    for start, size in zip(starts.tolist(), np.diff(starts).tolist(), strict=False):
        if size > block_rows:
            parts = -(-size // block_rows)
            ends += [start + size * part // parts for part in range(1, parts + 1)]
            joined = 0
        elif size and joined and joined + size <= block_rows:
            ends[-1] += size
            joined += size
        elif size:
            ends.append(start + size)
            joined = size
    return np.column_stack([ends[:-1], ends[1:]]).astype(np.int64)


def _key(*words: int) -> int:
    state = 0
    for word in words:
        state = _mix(((state ^ word) + GAMMA) & MASK)
    return state


def _mix(word: int) -> int:
    return int(mix(np.array([word], np.uint64))[0])


def _permute(values: Integers, size: int, key: int) -> Integers:
    """The permutation of `[0, size)` under a key: a Feistel network, walked until it is inside."""
    a = max(16, math.isqrt(max(size, 1) - 1) + 1)
    b = max(16, -(-size // a))
    keys = [np.uint64(_mix((key + (turn + 1) * GAMMA) & MASK)) for turn in range(ROUNDS)]
    result = values.astype(np.uint64)
    outside = np.arange(len(result))
    while len(outside):
        left, right = np.divmod(result[outside], np.uint64(b))
        for turn, of_turn in enumerate(keys):
            if turn % 2 == 0:
                left = (left + _scaled(_scramble(right ^ of_turn), a)) % np.uint64(a)
            else:
                right = (right + _scaled(_scramble(left ^ of_turn), b)) % np.uint64(b)
        result[outside] = left * np.uint64(b) + right
        outside = outside[result[outside] >= np.uint64(size)]
    return result.astype(np.int64)


def _scramble(words: Words) -> Words:
    words = words * np.uint64(0xBF58476D1CE4E5B9)
    return (words ^ words >> np.uint64(32)) * np.uint64(0x94D049BB133111EB)


def _scaled(words: Words, below: int) -> Words:
    """floor(word * below / 2**64) of each word, for `below` up to 2**32."""
    half, factor = np.uint64(32), np.uint64(below)
    low = (words & np.uint64(0xFFFFFFFF)) * factor >> half
    return (words >> half) * factor + low >> half
