"""What a mixture reads while a stream is one of its sources: a pass of it is a round of the stream."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self, cast

import numpy as np

import fastresume._core as _core
from fastresume.batch.origin import Planned, RowSources
from fastresume.buffers import Intervals, of_buffer, of_runs, row_count
from fastresume.kafka.even import Even
from fastresume.kafka.round import Round
from fastresume.kafka.source import RoundSource
from fastresume.kafka.spec import RoundSpec
from fastresume.kafka.stream import Stream
from fastresume.mixing.spec import MixtureSpec
from fastresume.state.session import in_session, sessions_of


@dataclass(frozen=True, slots=True)
class OfMixedRound(Planned):
    """The share of a rank's batches in a pass of a mixture with a stream.

    Args:
        source: what knows the times of the stream's messages.
        place: of it among the mixture's sources.
    """

    source: RoundSource
    place: int

    def event_time(self, rows: Intervals, sources: RowSources) -> tuple[int, int] | None:
        """The least and the greatest time of the messages of the rows that are the stream's."""
        own = np.unique(of_runs(rows)[sources == self.place])
        if not len(own):
            return None
        ends = np.flatnonzero(np.append(np.diff(own) != 1, True))
        starts = np.append(0, ends[:-1] + 1)
        return self.source.event_time(np.column_stack([own[starts], own[ends] + 1]))


@dataclass(frozen=True, kw_only=True)
class MixedRound(MixtureSpec):
    """What a mixture with a stream reads in one of its passes.

    Args:
        stream: the name of the source that is a stream.
    """

    stream: str

    @property
    def round_spec(self) -> RoundSpec:
        """The round of the stream."""
        return cast("RoundSpec", dict(self.sources)[self.stream])

    @classmethod
    def of(cls, spec: MixtureSpec, stream: str) -> Self:
        """The same with a source that is a stream, before its first round."""
        given = {each.name: getattr(spec, each.name) for each in fields(spec) if each.init}
        return cls(**given, stream=stream)

    def with_round(self, found: RoundSpec) -> Self:
        """The same beside another round."""
        if found is self.round_spec:
            return self
        each = ((name, found if name == self.stream else spec) for name, spec in self.sources)
        return replace(self, sources=tuple(each))

    def left(self, cursor: _core.Cursor) -> int:
        """How many rows of the round are left at a cursor of this mixture: all of them are in its pass."""
        axes = _core.Axes(cursor)
        place = axes.names.index(self.stream)
        ranges = of_buffer(cursor.remaining()).tolist()
        return sum(row_count(axes.points(place, first, end)) for first, end in ranges)

    def even(self, cursor: _core.Cursor) -> Even:
        """Which numbers of rows of the stream make whole global batches."""
        axes = _core.Axes(cursor)
        return Even(self.global_batch_size, tuple(axes.weights), axes.names.index(self.stream))

    def next_round(self, stream: Stream, cursor: _core.Cursor) -> tuple[Self, _core.Cursor] | None:
        """What has the next batch after a cursor, and the cursor in it; None if the stream has ended.

        It waits. All ranks call it together.

        Raises:
            SourceError, DataError, StateError: on all ranks.
        """
        here = self.fitted(cursor)
        planned = self.pass_from(here, 1)
        if here.steps and not planned.batches_left:
            here = planned.next_pass()  # what is left goes back to the sources, and comes first
        left, even = self.left(here), self.even(here)
        found: RoundSpec | None = self.round_spec
        if left or not here.steps:
            needs_more = not here.steps and not even.rows(left)
            found = stream.beside(self.round_spec, left, even, needs_more=needs_more)
        if found is None:
            return None
        spec = self.with_round(found)
        if left or here.steps:
            here = spec.fitted(here)
        else:
            next_round = spec.last[1].with_next_round(here, self.stream)
            here = in_session(next_round, spec.named_session)
        after = spec.pass_from(here, 1).next_pass()
        stream.look_ahead(found, spec.left(after), spec.even(after))
        return spec, here

    def check_present(self, cursor: _core.Cursor) -> None:
        """Refuses a cursor whose round is another one, or not open.

        Raises:
            StateError: it says what to do.
        """
        named = sessions_of(cursor).get(self.stream)
        is_here = named is not None and Round.of(named) == self.round_spec.round
        if not is_here or (self.left(cursor) and not self.round_spec.is_open):
            raise _core.StateError(
                "the round of the state that was loaded is not open yet: draw a batch, or call iter() again"
            )

    def bounds(self, cursor: _core.Cursor) -> tuple[_core.Cursor, _core.Cursor | None]:
        """Where an iterator begins, and where it ends if that is not the next pass.

        Raises:
            StateError: if the cursor is in another round.
        """
        self.check_present(cursor)
        return super().bounds(cursor)

    def share(self, planned: _core.Pass, cursor: _core.Cursor) -> Planned:
        """The share of this rank's batches in the pass that a cursor is in."""
        place = [name for name, _ in self.sources].index(self.stream)
        source = self.round_spec.source
        return OfMixedRound(self.world.rank, self.seed_at(cursor), planned, source, place)

    @property
    def lag(self) -> dict[str, int]:
        """How many offsets each partition has after the round, as it was when the round was counted."""
        return self.round_spec.lag

    @property
    def skipped(self) -> dict[str, int]:
        """How many offsets of each partition were gone before they were read, before this round or in it."""
        return self.round_spec.skipped

    def packed_round(self) -> bytes:
        """What a worker that has the spec of an earlier round needs to make this one of it."""
        return self.round_spec.packed_round()

    def of_packed_round(self, packed: bytes) -> Self:
        """The spec of the round that `packed` describes. Its messages are fetched here."""
        return self.with_round(self.round_spec.of_packed_round(packed))

    def at_epoch(self, present: _core.Cursor, epoch: int, workers: int) -> _core.Cursor:
        """The beginning of the present pass.

        Raises:
            StateError: for another one.
        """
        if epoch != present.epoch:
            raise _core.StateError(
                f"pass {epoch} has another round of {self.stream!r} than pass {present.epoch}: load a state "
                "of it first"
            )
        return super().at_epoch(present, epoch, workers)


def check_stream(name: str, spec: MixtureSpec, stop: str | int) -> None:
    """Refuses what has no meaning where a pass is a round of a stream.

    Raises:
        ValueError: it says what to write.
    """
    own = dict(spec.sources)[name]
    each = f"source {name!r} is a stream, and a pass of the Mixture is a round of it"
    if len(spec.blends) > 1:
        raise ValueError(
            f"{each}: leave out stages=. For other weights later, save, make the Mixture with them, and load "
            "the state"
        )
    if stop != "first":
        raise ValueError(
            f"{each}: leave out stop={stop!r}, and name round_rows= and stop= of the KafkaDataset"
        )
    if spec.tail != "drop":
        raise ValueError(
            f"{each}: leave out tail={spec.tail!r}. What makes no global batch comes first in the next"
        )
    if spec.on_iter != "continue":
        raise ValueError(f"{each}: leave out on_iter={spec.on_iter!r}, since it can't start over")
    if own.counted != "rows":
        raise ValueError(f"source {name!r} is a stream of {own.counted}: in a Mixture, leave out unit=")
    if own.world != spec.world:
        raise ValueError(
            f"source {name!r} was made for {own.world}, and the Mixture for {spec.world}: pass the same "
            "world= to both"
        )
