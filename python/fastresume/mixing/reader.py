"""The batches of a mixture: rows of its sources, each at its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from torch import Tensor

import fastresume._core as _core
from fastresume.audit.log_format import digest, key_of, of_source
from fastresume.batch.damage import of_rows
from fastresume.batch.joining import BATCHES_IN_USE, Chunk, Piece, Words, repeated, row_numbers
from fastresume.batch.origin import Planned, Proof
from fastresume.batch.schema import Tensors
from fastresume.buffers import of_buffer, of_words, runs_of_one
from fastresume.mixing.streams import Stream
from fastresume.packing.content import of_sequences, total
from fastresume.reading.composed_reader import ComposedReader
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.monitor.activity import Idle
from fastresume.reading.spec import Rows

_CHUNK_BATCHES = 8
"""A stream decodes about so many batches' rows of its source in one go."""

_CHUNK_ROWS = (16, 8192)
"""And so many at least and at most."""


class MixtureReader(ComposedReader):
    """The batches of one rank's worker in a stage of a mixture.

    Each lane reads a stretch of each source, by a stream of its own, since the lanes divide the positions,
    and so each source's ordinals, into contiguous parts.

    Args:
        sources: the name of each source that is read, and what it reads, by its number in the mixture.
        planned: the rest of the stage.
        share: who gets which of its batches.
        place: (rank, number of ranks, worker, number of workers).
        threads: how many decode ahead, of all streams together.
        prefetch_bytes: how many bytes they decode ahead.
        is_ahead: whether rows are decoded for later batches, too.
    """

    def __init__(
        self,
        sources: Mapping[int, tuple[str, FilesSpec]],
        planned: _core.Pass,
        share: Planned,
        place: tuple[int, int, int, int],
        threads: int = 0,
        prefetch_bytes: int = 0,
        is_ahead: bool = True,
    ) -> None:
        first = next(iter(sources.values()))[1]
        self._schema = first.schema
        super().__init__(planned, share, place, self._schema.masked)
        self._sources = sources
        self._is_ahead = is_ahead
        self._threads = threads
        self._prefetch_bytes = prefetch_bytes
        # The streams by their source and the ordinal that each gives next.
        self._streams: dict[tuple[int, int], Stream] = {}
        if not planned.batches_left:
            return
        self._axes = _core.Axes(planned.cursor_after(planned.batches - planned.batches_left))
        numbers = {name: number for number, (name, _) in sources.items()}
        # By the state's places of sources, their numbers in the mixture; -1 of those that are not read.
        self._number_at = np.array([numbers.get(name, -1) for name in self._axes.names], dtype=np.int64)
        self._lacks_sources = bool((self._number_at < 0).any())
        places = {name: place for place, name in enumerate(self._axes.names)}
        self._rows = self._axes.rows
        self._place_of = {number: places[name] for number, (name, _) in sources.items()}
        self._chunk_rows = self._rows_of_chunks()
        self._joiner = first.joiner(BATCHES_IN_USE * planned.cut[2] * first.row_bytes)

    @property
    def activity(self) -> StreamsActivity:
        """What the streams are doing."""
        return StreamsActivity(self._streams)

    def rows(self, number: int) -> Rows:
        """The rows of this rank's batch with a number in the cut."""
        try:
            return self._mixed(number)
        except BaseException:
            self.forget()  # some streams have moved, and others have not
            raise

    def _mixed(self, number: int) -> Rows:
        planned, rank = self._planned, self._rank
        found = self._axes.rows_at(of_buffer(planned.positions(number, rank)))
        names, order, stretches = of_words(found[0]), of_words(found[1]), found[2]
        at = self._number_at[names]
        if self._lacks_sources and (at < 0).any():  # a batch of an earlier stage, read again
            lacking = self._axes.names[int(names[at < 0][0])]
            raise _core.StateError(
                f"the batch holds rows of the source {lacking!r}, which the mixture does not read in this "
                "pass: name it with a weight to read that batch again"
            )
        # What comes source after source goes to the places that the sources have in the batch.
        taken = [(place, self._take(place, first, last)) for place, first, last in stretches]
        pieces = [piece for _, found in taken for piece in found]
        whose = [int(self._number_at[place]) for place, found in taken for _ in found]
        count, valid, _ = planned.shape(number, rank)
        chunks = [(chunk.memory, start, end) for chunk, start, end in pieces]
        tensors = self._schema.tensors(self._joiner.joined(chunks, order, count))
        rows, units = row_numbers(pieces, order, count)
        sources = repeated(at, count)
        row_sources = sources if units is None else np.repeat(sources, np.diff(units.offsets))
        marked = zip(pieces, whose, strict=True)
        told = dict.fromkeys((*one[:3], of) for (chunk, _, _), of in marked for one in chunk.damage)
        damage = of_rows(tuple(told), rows, row_sources)
        numbers = [chunk.units[start:end] for chunk, start, end in pieces if chunk.units is not None]
        if units is not None and numbers:
            places = np.concatenate(numbers)
            places[order] = places.copy()
            given = places[:valid], at[:valid], tensors, rows
            units = units._replace(proof=self._proof(*given, units.offsets, is_whole=not damage))
        return Rows(tensors, runs_of_one(rows), damage, sources, units)

    def _proof(
        self, numbers: Words, at: Words, tensors: Tensors, rows: Words, offsets: Words, is_whole: bool
    ) -> Proof:
        """What a delivery log notes of units with these numbers, each of the source that `at` names."""
        document, position = (cast("Tensor", tensors[name])[: len(at)] for name in ("document", "position"))
        contents = of_sequences(document, position, rows, offsets) if is_whole else None
        found = held = 0
        for source in np.unique(at).tolist():
            name, is_own = self._sources[source][0], at == source
            found += digest(numbers[is_own], key_of(name))
            held += 0 if contents is None else of_source(total(contents[is_own]), name)
        return Proof(found % (1 << 64), held % (1 << 64) if is_whole else None)

    def _take(self, place: int, first: int, last: int) -> list[Piece[Chunk]]:
        """The rows of a source at some of its ordinals, which are all of one pass of it."""
        source = int(self._number_at[place])
        _, spec = self._sources[source]
        stream = self._streams.pop((source, first), None)
        if stream is None:
            cursor = self._axes.stretch(place, spec.start(), first)
            if not self._is_ahead:
                return [Piece(spec.chunk_at(cursor, last - first), 0, last - first)]
            each = max(len(self._sources), 1)
            ahead = (1, self._prefetch_bytes // each) if self._threads else (0, 0)
            stream = Stream(spec, cursor, self._chunk_rows[source], *ahead)
        found = stream.take(last - first)
        if last % self._rows[place] == 0:
            stream.close()
        else:
            self._streams[source, last] = stream
        return found

    def _rows_of_chunks(self) -> dict[int, int]:
        weights, rows = self._axes.weights, self._planned.cut[2]
        period, (least, most) = sum(weights), _CHUNK_ROWS
        return {
            source: max(least, min(most, rows * weights[place] * _CHUNK_BATCHES // period))
            for source, place in self._place_of.items()
        }

    def forget(self) -> None:
        """Closes the streams: others are opened where they are needed."""
        while self._streams:
            self._streams.popitem()[1].close()


class StreamsActivity:
    """What all streams of a reader are doing, as a reader of the core tells it."""

    def __init__(self, streams: dict[tuple[int, int], Stream]) -> None:
        self._streams = streams

    @property
    def seconds(self) -> float:
        """The time spent reading and decoding files by the streams that are open."""
        return sum(float(stream.activity.seconds) for stream in list(self._streams.values()))

    def queued(self) -> tuple[int, int]:
        """No batches wait in streams."""
        return 0, 0

    def threads(self) -> list[_core.ThreadActivity | Idle]:
        """What the threads are doing; the caller's comes last."""
        found: list[_core.ThreadActivity | Idle] = []
        for stream in list(self._streams.values()):
            found += [each for each in stream.activity.threads() if each.doing != "waiting"]
        return [*found, Idle()]
