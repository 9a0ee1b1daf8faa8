"""The batches of a mixture: rows of its sources, each at its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np
from torch import Tensor

import fastresume._core as _core
from fastresume.audit.log_format import digest, key_of, of_source
from fastresume.batch.damage import of_rows
from fastresume.batch.joining import BATCHES_IN_USE, Chunk, Words
from fastresume.batch.origin import Planned, Proof, UnitRows
from fastresume.batch.schema import Tensors
from fastresume.buffers import of_buffer, of_words
from fastresume.mixing.streams import Stream
from fastresume.packing.content import of_sequences, total
from fastresume.reading.composed_reader import ComposedReader
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.monitor.activity import Idle
from fastresume.reading.spec import Rows
from fastresume.reading.workers.messages import Arrival

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
    """

    def __init__(
        self,
        sources: Mapping[int, tuple[str, FilesSpec]],
        planned: _core.Pass,
        share: Planned,
        place: tuple[int, int, int, int],
        threads: int = 0,
        prefetch_bytes: int = 0,
    ) -> None:
        first = next(iter(sources.values()))[1]
        self._schema = first.schema
        super().__init__(planned, share, place, self._schema.masked)
        self._sources = sources
        self._is_ahead = True
        self._threads = threads
        self._prefetch_bytes = prefetch_bytes
        # The streams by the state's place of their source, and the ordinal that each gives next.
        self._streams: dict[tuple[int, int], Stream] = {}
        if not planned.batches_left:
            return
        self._axes = _core.Axes(planned.cursor_after(planned.batches - planned.batches_left))
        numbers = {name: number for number, (name, _) in sources.items()}
        # By the state's places of sources, their numbers in the mixture; -1 of those that are not read.
        self._number_at = [numbers.get(name, -1) for name in self._axes.names]
        self._mixer = _core.Mixer(self._axes, self._number_at)
        self._rows = self._axes.rows
        self._chunk_rows = self._rows_of_chunks()
        self._joiner = first.joiner(BATCHES_IN_USE * planned.cut[2] * first.row_bytes)

    def batch(self, number: int) -> Arrival:
        """The batch with a number in the cut, read by itself: no rows are decoded for later ones."""
        self._is_ahead = False
        return super().batch(number)

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
        while (lacking := self._mixer.lacking(planned, number, rank)) is not None:
            place, first, last = lacking
            self._mixer.put(place, first, self._decoded(place, first, last))
        memory, runs, whose, offsets, numbers, found = self._mixer.batch(planned, number, rank, self._joiner)
        tensors, rows, sources = self._schema.tensors(memory), of_buffer(runs), of_words(whose)
        if offsets is None:
            return Rows(tensors, rows, of_rows(tuple(found), rows[:, 0], sources), sources)
        units = UnitRows(of_words(offsets), True)
        damage = of_rows(tuple(found), rows[:, 0], np.repeat(sources, np.diff(units.offsets)))
        if numbers is not None:
            _, valid, _ = planned.shape(number, rank)
            given = of_words(numbers)[:valid], sources[:valid], tensors, rows[:, 0]
            units = units._replace(proof=self._proof(*given, units.offsets, is_whole=not damage))
        return Rows(tensors, rows, damage, sources, units)

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

    def _decoded(self, place: int, first: int, last: int) -> Chunk:
        """Rows of a source from an ordinal on: up to another one, where none are decoded ahead."""
        if self._number_at[place] < 0:  # a batch of an earlier stage, read again
            raise _core.StateError(
                f"the batch holds rows of the source {self._axes.names[place]!r}, which the mixture does not "
                "read in this pass: name it with a weight to read that batch again"
            )
        _, spec = self._sources[self._number_at[place]]
        stream = self._streams.pop((place, first), None)
        if stream is None:
            cursor = self._axes.stretch(place, spec.start(), first)
            if not self._is_ahead:
                return spec.chunk_at(cursor, last - first)
            each = max(len(self._sources), 1)
            ahead = (1, self._prefetch_bytes // each) if self._threads else (0, 0)
            stream = Stream(spec, cursor, self._chunk_rows[place], *ahead)
        chunk = stream.next_chunk()
        after = first + chunk.size
        if after % self._rows[place] == 0:
            stream.close()
        else:
            self._streams[place, after] = stream
        return chunk

    def _rows_of_chunks(self) -> list[int]:
        weights, rows = self._axes.weights, self._planned.cut[2]
        period, (least, most) = sum(weights), _CHUNK_ROWS
        return [max(least, min(most, rows * weight * _CHUNK_BATCHES // period)) for weight in weights]

    def forget(self) -> None:
        """Closes the streams: others are opened where they are needed."""
        while self._streams:
            self._streams.popitem()[1].close()
        if self._planned.batches_left:
            self._mixer.forget()


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
