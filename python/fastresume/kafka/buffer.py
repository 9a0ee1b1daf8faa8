"""Rows of a partition that were fetched and are in no round yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """

    offsets: Numbers
    starts: Numbers
    times: Numbers


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

    def add(self, chunk: Chunk, reached: int) -> None:
        """Takes in the rows of messages up to an offset.

        Raises:
            StateError: if the first message has fewer rows than were read of it.
        """
        self.reached = reached
        if not len(chunk.offsets):
            return
        if self._to_skip:
            if chunk.offsets[0] != self.begin.offset or chunk.counts[0] < self._to_skip:
                raise _core.StateError(
                    f"the message at offset {self.begin.offset} has other rows than before: was value= or "
                    "filter= another one?"
                )
            self._taken, self._to_skip = self._to_skip, 0
            self.rows -= self._taken
        self._chunks.append(chunk)
        self.rows += int(chunk.counts.sum())
        self.bytes += chunk.bytes

    def take(self, rows: int) -> Taken:
        """Takes out the first rows; with the last one also the offsets after it that have no row."""
        offsets, counts, times, tables = [], [], [], []
        left = rows
        end = self.begin
        while left:
            chunk = self._chunks[0]
            ends = np.cumsum(chunk.counts)
            first, last = self._taken, min(self._taken + left, int(ends[-1]))
            begin = int(np.searchsorted(ends, first, "right"))
            stop = int(np.searchsorted(ends, last, "left"))
            each = np.minimum(ends, last) - np.maximum(ends - chunk.counts, first)
            offsets.append(chunk.offsets[begin : stop + 1])
            counts.append(each[begin : stop + 1])
            times.append(chunk.times[begin : stop + 1])
            tables.append(chunk.table.slice(first, last - first))
            left -= last - first
            if last == ends[-1]:
                del self._chunks[0]
                self._taken = 0
                self.bytes -= chunk.bytes
                end = Place(int(chunk.offsets[-1]) + 1)
            else:
                self._taken = last
                inside = last - int(ends[stop] - chunk.counts[stop])
                is_whole = inside == chunk.counts[stop]
                at = int(chunk.offsets[stop])
                end = Place(at + 1) if is_whole else Place(at, inside)
        self.rows -= rows
        if not self.rows and not self._to_skip:
            end = Place(self.reached)
        self.begin = end
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(_joined(counts))])
        return Taken(end, Index(_joined(offsets), starts, _joined(times)), tables)


def _joined(arrays: list[Numbers]) -> Numbers:
    return np.concatenate([np.zeros(0, np.int64), *arrays])
