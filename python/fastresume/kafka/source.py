"""The rows of a round as a source of rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

import fastresume._core as _core
from fastresume.buffers import Intervals, of_mask
from fastresume.kafka.buffer import Index
from fastresume.kafka.client import Client
from fastresume.kafka.decoder import Decoder
from fastresume.kafka.place import Part
from fastresume.kafka.round import Round, Stretch
from fastresume.rebuilt import Rebuilt
from fastresume.sources.opened import opened
from fastresume.sources.row_source import Segment
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_AHEAD_BYTES = 4 << 20
"""Of a range of rows, brokers need not send much more than its messages."""

_KEPT = 8
"""The number of ranges of rows that are kept: other columns of them are asked for next."""


class RoundSource(Rebuilt):
    """The rows of a round, a segment for each partition that has some.

    Args:
        round_: which rows they are.
        indices: of each stretch of the round that has rows, which messages have them; None as long as that is
            not known.
        client: the brokers.
        decoder: what makes rows of messages.
        tables: the rows of each stretch, where they were fetched already; else they are fetched when they are
            read.
    """

    def __init__(
        self,
        round_: Round,
        indices: Sequence[Index] | None,
        client: Client,
        decoder: Decoder,
        tables: Sequence[Sequence[pa.Table]] | None,
    ) -> None:
        self._round = round_
        self._stretches = round_.stretches
        self._indices = [] if indices is None else list(indices)
        self._is_sampled = indices is None
        self._client = client
        self._decoder = decoder
        self._rebuild()
        self._tables = None if tables is None else [list(each) for each in tables]

    _REBUILT = ("_tables", "_lock", "_kept", "_firsts")

    def _rebuild(self) -> None:
        self._tables = None
        self._firsts = np.cumsum([0, *(one.rows for one in self._stretches)])
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[int, int, int], pa.Table] = OrderedDict()

    def of_round(self, round_: Round, indices: Sequence[Index]) -> RoundSource:
        """The rows of another round, which are fetched when they are read."""
        return RoundSource(round_, indices, self._client, self._decoder, None)

    def described(self) -> _core.Manifest:
        """Its rows as a manifest. If no messages are known, no row can be read."""
        found = opened(self)
        self._is_sampled = False
        return found

    @property
    def stretches(self) -> list[Stretch]:
        """The stretches that have rows."""
        return self._stretches

    @property
    def indices(self) -> list[Index]:
        """Of each stretch that has rows, which messages have them."""
        return self._indices

    @property
    def tables(self) -> list[list[pa.Table]] | None:
        """The rows of each stretch, where they were fetched already."""
        return self._tables

    @property
    def all_rows(self) -> Intervals:
        """All rows, as one range: int64 `[1, 2]`."""
        return np.array([[0, self._firsts[-1]]], np.int64)

    def snapshot(self) -> str:
        """The topics, as the brokers know them, and how messages are decoded."""
        return f"{self._round.topics} {self._decoder.text()}"

    def segments(self) -> list[Segment]:
        """The stretches that have rows."""
        found = [Segment(one.name, one.rows) for one in self._stretches]
        return found or [Segment("nothing", 0)]

    def schema(self) -> pa.Schema:
        """The columns."""
        return self._decoder.schema

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        """Rows of a stretch."""
        if not self._stretches:
            return self._decoder.schema.empty_table().select(columns)
        if self._is_sampled:  # for their size, when the round is described
            fields = [self._decoder.schema.field(name) for name in columns]
            nulls = [arrow().nulls(stop - start, field.type) for field in fields]
            return arrow().Table.from_arrays(nulls, schema=arrow().schema(fields))
        if self._tables is not None:
            found, before = [], 0
            for table in self._tables[segment]:
                first, last = max(start - before, 0), min(stop - before, table.num_rows)
                if first < last:
                    found.append(table.slice(first, last - first))
                before += table.num_rows
            return arrow().concat_tables(found).select(columns)
        if not self._indices:
            raise _core.StateError("the round of the state that was loaded is not open yet: draw a batch")
        return self._fetched(segment, start, stop).select(columns)

    def _fetched(self, segment: int, start: int, stop: int) -> pa.Table:
        key = segment, start, stop
        with self._lock:  # columns are asked for one after another, of the same rows
            if key not in self._kept:
                self._kept[key] = self._fetch(self._stretches[segment], self._indices[segment], start, stop)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(key)
            return self._kept[key]

    def _fetch(self, of: Stretch, index: Index, start: int, stop: int) -> pa.Table:
        first = int(np.searchsorted(index.starts, start, "right")) - 1
        last = int(np.searchsorted(index.starts, stop, "left"))
        wanted = {of.part: (int(index.offsets[first]), int(index.offsets[last - 1]) + 1)}
        chunks = [self._decoder.chunk(messages) for messages in self._client.fetch(wanted, _AHEAD_BYTES)]
        offsets = np.concatenate([np.zeros(0, np.int64), *(chunk.offsets for chunk in chunks)])
        counts = np.concatenate([np.zeros(0, np.int64), *(chunk.counts for chunk in chunks)])
        skipped = of.begin.row if first == 0 and index.offsets[0] == of.begin.offset else 0
        inside = start - int(index.starts[first]) + skipped
        if not np.array_equal(offsets, index.offsets[first:last]) or counts.sum() < inside + stop - start:
            raise _core.DataError(
                f"the messages of {of.part} at offsets {wanted[of.part]} are not those that were counted: "
                "messages were removed, or value= decodes them in another way"
            )
        return arrow().concat_tables([chunk.table for chunk in chunks]).slice(inside, stop - start)

    def _messages(self, rows: Intervals) -> list[tuple[int, int, int]]:
        """Of rows of the round: the segment, and the range of its messages that have them."""
        found = []
        for first, end in rows.tolist():
            segment = int(np.searchsorted(self._firsts, first, "right")) - 1
            while segment < len(self._indices) and self._firsts[segment] < end:
                base, starts = int(self._firsts[segment]), self._indices[segment].starts
                begin = int(np.searchsorted(starts, max(first - base, 0), "right")) - 1
                last = int(np.searchsorted(starts, min(end - base, int(starts[-1])), "left"))
                found.append((segment, begin, last))
                segment += 1
        return found

    def rows_of_tokens(self, tokens: Sequence[Intervals]) -> Intervals:
        """Of tokens of each stretch, the rows of the messages that have them: sorted, coalesced."""
        found = [np.zeros((0, 2), np.int64)]
        for base, index, own in zip(self._firsts.tolist(), self._indices, tokens, strict=False):
            if index.tokens is None or not len(own):
                continue
            marks = np.zeros(len(index.starts), np.int64)
            np.add.at(marks, np.searchsorted(index.tokens, own[:, 0], "right") - 1, 1)
            np.add.at(marks, np.searchsorted(index.tokens, own[:, 1], "left"), -1)
            found.append(base + index.starts[of_mask(np.cumsum(marks)[:-1] > 0)])
        return np.concatenate(found)

    def first_offsets(self, rows: Intervals) -> dict[Part, int]:
        """Of each partition that has some of these rows, the offset of the first message with one."""
        found: dict[Part, int] = {}
        for segment, begin, _ in self._messages(rows):
            found.setdefault(self._stretches[segment].part, int(self._indices[segment].offsets[begin]))
        return found

    def event_time(self, rows: Intervals) -> tuple[int, int] | None:
        """The least and the greatest time of the messages of rows, in milliseconds since 1970."""
        times = [self._indices[segment].times[begin:end] for segment, begin, end in self._messages(rows)]
        if not any(map(len, times)):
            return None
        return min(int(each.min()) for each in times), max(int(each.max()) for each in times)

    def watermark(self, rows: Intervals) -> int | None:
        """The least over partitions of the greatest time of these rows' messages.

        None as long as a partition with rows in the round has none of them.
        """
        greatest: dict[object, int] = {}
        for segment, begin, end in self._messages(rows):
            part = self._stretches[segment].part
            greatest[part] = max(
                greatest.get(part, 0), int(self._indices[segment].times[begin:end].max(initial=0))
            )
        parts = {one.part for one in self._stretches}
        return min(greatest.values()) if parts and len(greatest) == len(parts) else None
