"""What a round delivers: the spec of its rows, whose batches know the times of their messages."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

import fastresume._core as _core
from fastresume.audit.logged import Description
from fastresume.batch.origin import Planned, Share
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, of_buffer
from fastresume.kafka.place import Part
from fastresume.kafka.round import Round
from fastresume.kafka.source import RoundSource
from fastresume.reading.files_spec import Door, FilesSpec
from fastresume.sources.opened import opened

OF_PARTITIONS = Door("KafkaDataset", "address", "partition")


@dataclass(frozen=True, slots=True)
class OfRound(Planned):
    """The share of a rank's batches in a round.

    Args:
        source: what knows the times of messages.
    """

    source: RoundSource

    def event_time(self, rows: Intervals) -> tuple[int, int] | None:
        """The least and the greatest time of the messages that rows are of."""
        return self.source.event_time(rows)


@dataclass(frozen=True, kw_only=True)
class RoundSpec(FilesSpec):
    """What a round of a stream delivers.

    Args:
        round: which rows it has.
        source: its rows.
        lag_then: how many offsets each partition has after the round, as it was when the round was counted.
    """

    round: Round
    source: RoundSource
    lag_then: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, spec: FilesSpec, round_: Round, source: RoundSource, lag: Mapping[str, int]) -> Self:
        """The spec of a round's rows."""
        given = {each.name: getattr(spec, each.name) for each in dataclasses.fields(spec) if each.init}
        return cls(**{**given, "tail": "carry"}, round=round_, source=source, lag_then=lag)

    @property
    def lag(self) -> dict[str, int]:
        """How many offsets each partition has after the round, as it was when the round was counted."""
        return dict(self.lag_then)

    @property
    def skipped(self) -> dict[str, int]:
        """How many offsets of each partition were gone before they were read, before this round or in it."""
        found: dict[str, int] = {}
        for gap in self.round.gaps:
            found[str(gap.part)] = found.get(str(gap.part), 0) + gap.end - gap.first
        return found

    def start(self) -> _core.Cursor:
        """The cursor before the round's first batch, in a job that begins with it."""
        return super().start().with_round(self.round.text())

    def fitted(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of the round, or of its beginning where rows were added after it."""
        return self.fitted_to_files(cursor).with_round(self.round.text())

    def bounds(self, cursor: _core.Cursor) -> tuple[_core.Cursor, _core.Cursor | None]:
        """Where an iterator begins, and where it ends if that is not the next pass.

        Raises:
            StateError: if the cursor is in another round.
        """
        if cursor.round != self.round.text() and Round.parse(cursor.round or "null") != self.round:
            raise _core.StateError(
                f"this worker reads round {self.round.number}, and a state of another one was loaded "
                "before it began: call iter() on the DataLoader again"
            )
        return super().bounds(cursor)

    def share(self, planned: _core.Pass, cursor: _core.Cursor) -> Share:  # type: ignore[override]
        """The share of this rank's batches in the round."""
        return OfRound(self.world.rank, self.seed_at(cursor), planned, self.source)

    def descriptions(self, _rank: int) -> Iterator[Description]:
        """None: states describe their rounds."""
        return iter(())

    def watermark(self, cursor: _core.Cursor) -> int | None:
        """The event time up to which rows were delivered at a cursor, in milliseconds since 1970."""
        before, after = self.round.watermarks
        if cursor.epoch > self.round.number:
            return after
        if not self.num_rows:
            return before
        left = self._left(cursor)
        ends = np.concatenate([left.ravel(), [self.num_rows]])
        done = np.concatenate([[0], ends]).reshape(-1, 2)
        found = self.source.watermark(done[done[:, 0] < done[:, 1]])
        told = [one for one in (before, found) if one is not None]
        return max(told) if told else None

    def _left(self, cursor: _core.Cursor) -> Intervals:
        """The rows that are left of the round at a cursor in it."""
        return of_buffer(self.row_order(cursor).row_set(of_buffer(cursor.remaining())))

    def offsets(self, cursor: _core.Cursor) -> dict[Part, int]:
        """Of each partition, the offset before which all rows were delivered at a cursor in the round."""
        ends = {part: place.offset for part, place in self.round.ends.items()}
        return {**ends, **self.source.first_offsets(self._left(cursor))}

    def told(self) -> bytes:
        """What a worker that has the spec of an earlier round of a stream needs to make this one of it."""
        return pickle.dumps((self.round, self.source.indices, self.lag_then, self.tail))

    def of_told(self, told: bytes) -> Self:
        """The spec of the round that `told` describes. Its messages are fetched here."""
        round_, indices, lag, tail = pickle.loads(told)  # noqa: S301  (of the main process)
        source = self.source.of_round(round_, indices)
        manifest = opened(source)
        layout = self.columns.layout(manifest).masking_damage(self.masks_damage)
        made = dataclasses.replace(self, round=round_, source=source, lag_then=lag, tail=tail)
        return dataclasses.replace(made, manifest=manifest, layout=layout, schema=Schema(layout))

    def at_epoch(self, present: _core.Cursor, epoch: int, workers: int) -> _core.Cursor:
        """The beginning of the present round.

        Raises:
            StateError: for another one.
        """
        if epoch != present.epoch:
            raise _core.StateError(
                f"round {epoch} can't be read again in round {present.epoch}: load a state of it first"
            )
        return super().at_epoch(present, epoch, workers)

    def read_by_all(self, cursor: _core.Cursor, workers: int) -> dict[str, object]:
        """What has to be the same on all ranks."""
        told = super().read_by_all(cursor, workers)
        return {**told, "round": self.round.text()}

    def config(self) -> dict[str, Any]:
        """What was asked for, as plain values."""
        return {**super().config(), "topics": [name for name, _ in self.round.topics]}
