"""Rows of a partition that were fetched and are in no round yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import fastresume._core as _core
from fastresume.kafka.decoder import Chunk, Numbers
from fastresume.kafka.place import Place

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Index:
    """Which messages have which rows of a stretch.

    Attributes:
        offsets: of the messages that have rows in it.
        starts: the first row of each, and the number of rows.
        times: of the messages, in milliseconds since 1970.
        tokens: of packed sequences, the first token of each message, and the number of tokens, in the rows of
            the stretch.
    """

    offsets: Numbers
    starts: Numbers
    times: Numbers
    tokens: Numbers | None = None


@dataclass(frozen=True)
class Taken:
    """Rows that were taken from a buffer: where they end, which messages have them, and the rows."""

    end: Place
    index: Index
    tables: list[pa.Table]


class Buffer:
    """Rows of one partition, from a place on.

    Args:
        begin: where they begin.

    Attributes:
        begin: where the next row is looked for.
        reached: the offset after the last message that was looked at.
        rows: how many rows there are.
        bytes: of the values of their messages, estimated.
    """

    def __init__(self, begin: Place) -> None:
        self.begin = begin
        self.reached = begin.offset
        self.rows = 0
        self.bytes = 0
        self._chunks: list[Chunk] = []
        self._taken = 0  # rows of the first chunk that were taken
        self._to_skip = begin.row
        self._is_inside = begin.row > 0 or begin.tokens > 0  # the first message is one that was read in part

    def add(self, chunk: Chunk, reached: int) -> None:
        """Takes in the rows of messages up to an offset.

        Raises:
            StateError: if the first message has fewer rows than were read of it.
        """
        self.reached = reached
        if not len(chunk.offsets):
            return
        if self._is_inside:
            least = self._to_skip + (self.begin.tokens > 0)
            if chunk.offsets[0] != self.begin.offset or chunk.counts[0] < least:
                raise _core.StateError(
                    f"the message at offset {self.begin.offset} has other rows than before: was value= or "
                    "filter= another one?"
                )
            self._taken, self._to_skip, self._is_inside = self._to_skip, 0, False
            self.rows -= self._taken
        self._chunks.append(chunk)
        self.rows += int(chunk.counts.sum())
        self.bytes += chunk.bytes

    def tables(self, rows: int) -> list[pa.Table]:
        """The first rows. They stay."""
        found, before = list[Any](), self._taken
        for chunk in self._chunks:
            if rows:
                part = chunk.table.slice(before, rows)
                found.append(part)
                rows -= part.num_rows
            before = 0
        return found

    def take(self, rows: int, tokens: int = 0) -> Taken:
        """Takes out the first rows; with the last one also the offsets after it that have no row.

        Of the last row only these first `tokens` are taken, if any are named: it stays for the others.
        """
        offsets, counts, times = [], [], []
        tables, begin = self.tables(rows), self.begin
        left = rows
        for number, chunk in enumerate(self._chunks):
            if not left:
                break
            before = 0 if number else self._taken
            ends = np.cumsum(chunk.counts)
            last = min(before + left, int(ends[-1]))
            some = slice(np.searchsorted(ends, before, "right"), np.searchsorted(ends, last, "left") + 1)
            each = np.minimum(ends, last) - np.maximum(ends - chunk.counts, before)
            offsets.append(chunk.offsets[some])
            counts.append(each[some])
            times.append(chunk.times[some])
            left -= last - before
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(_joined(counts))])
        index = Index(_joined(offsets), starts, _joined(times))
        self._drop(rows - (tokens > 0))
        if tokens:
            offset = int(index.offsets[-1])
            before = begin.row if offset == begin.offset else 0
            self.begin = Place(offset, before + int(starts[-1] - starts[-2]) - 1, tokens)
        return Taken(self.begin, index, tables)

    def _drop(self, rows: int) -> None:
        """Lets the first rows go."""
        self.rows -= rows
        while rows:
            chunk = self._chunks[0]
            ends = np.cumsum(chunk.counts)
            last = min(self._taken + rows, int(ends[-1]))
            rows -= last - self._taken
            if last == ends[-1]:
                del self._chunks[0]
                self._taken = 0
                self.bytes -= chunk.bytes
                self.begin = Place(int(chunk.offsets[-1]) + 1)
            else:
                self._taken = last
                stop = int(np.searchsorted(ends, last, "left"))
                inside = last - int(ends[stop] - chunk.counts[stop])
                is_whole = inside == chunk.counts[stop]
                at = int(chunk.offsets[stop])
                self.begin = Place(at + 1) if is_whole else Place(at, inside)
        if not self.rows and not self._is_inside:
            self.begin = Place(self.reached)


def _joined(arrays: list[Numbers]) -> Numbers:
    return np.concatenate([np.zeros(0, np.int64), *arrays])
