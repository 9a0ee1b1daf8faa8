"""What a round delivers: the spec of its rows, whose batches know the times of their messages."""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

import fastresume._core as _core
from fastresume.audit.logged import Description
from fastresume.batch.origin import Planned, RowSources, Share
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, of_buffer
from fastresume.kafka.place import Part
from fastresume.kafka.round import Round
from fastresume.kafka.source import RoundSource
from fastresume.options.rows import OrderChoice
from fastresume.options.tail import TailOfPass
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.packed_table import PackedTable
from fastresume.packing.spec import UnitsSpec, schema_of
from fastresume.reading.files_spec import Door, FilesSpec
from fastresume.state.session import text_of

OF_PARTITIONS = Door("KafkaDataset", "address", "partition")


@dataclass(frozen=True, slots=True)
class OfRound(Planned):
    """The share of a rank's batches in a round.

    Args:
        source: what knows the times of messages.
    """

    source: RoundSource

    def event_time(self, rows: Intervals, _sources: RowSources) -> tuple[int, int] | None:
        """The least and the greatest time of the messages that rows are of."""
        return self.source.event_time(rows)


@dataclass(frozen=True, kw_only=True)
class RoundSpec(FilesSpec):
    """What a round of a stream delivers.

    Args:
        round: which rows it has.
        source: its rows.
        choice_then: the order of a new round. Ranks do not know alike how large rows are, and agree on it so.
        lag_then: how many offsets each partition has after the round, as it was when the round was counted.
    """

    round: Round
    source: RoundSource
    choice_then: OrderChoice = None
    lag_then: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it is known which messages have its rows; else a state alone describes it."""
        return len(self.source.indices) == len(self.round.stretches)

    @property
    def session_text(self) -> str:
        """What the state of a mixture has of it: the round."""
        return text_of(json.loads(self.round.text()))

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

    @property
    def cost_columns(self) -> list[str]:
        """The names of the columns that tell what rows cost; none of rows."""
        return []

    def start(self) -> _core.Cursor:
        """The cursor before the round's first batch, in a job that begins with it."""
        return self.started(self.choice_then or self.order_choice).with_round(self.round.text())

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

    def left_at(self, cursor: _core.Cursor) -> Intervals:
        """The rows of the round that are left at a cursor in it, or after it."""
        if cursor.epoch > self.round.number or not self.num_rows:
            return np.empty((0, 2), np.int64)
        return self._left(cursor)

    def _left(self, cursor: _core.Cursor) -> Intervals:
        return of_buffer(self.row_order(cursor).row_set(of_buffer(cursor.remaining())))

    def watermark(self, left: Intervals) -> int | None:
        """The event time up to which rows were delivered if these are left, in milliseconds since 1970."""
        before, after = self.round.watermarks
        if not len(left):
            return after if self.num_rows else before
        ends = np.concatenate([left.ravel(), [self.round.rows]])
        done = np.concatenate([[0], ends]).reshape(-1, 2)
        found = self.source.watermark(done[done[:, 0] < done[:, 1]])
        known = [one for one in (before, found) if one is not None]
        return max(known) if known else None

    def offsets(self, left: Intervals) -> dict[Part, int]:
        """Of each partition, the offset before which all rows were delivered if these are left."""
        ends = {part: place.offset for part, place in self.round.ends.items()}
        return {**ends, **self.source.first_offsets(left)}

    def packed_round(self) -> bytes:
        """What a worker that has the spec of an earlier round of a stream needs to make this one of it."""
        return pickle.dumps((self.round, self.source.indices, self.lag_then, self.tail))

    def of_packed_round(self, packed: bytes) -> Self:
        """The spec of the round that `packed` describes. Its messages are fetched here."""
        round_, indices, *others = pickle.loads(packed)  # noqa: S301  (of the main process)
        source = self.source.of_round(round_, indices)
        manifest = source.described()
        layout = self.columns.layout(manifest).masking_damage(self.masks_damage)
        return dataclasses.replace(
            self,
            round=round_,
            source=source,
            manifest=manifest,
            layout=layout,
            **self._others(layout, *others),
        )

    def _others(self, layout: _core.Layout, lag: Mapping[str, int], tail: TailOfPass) -> dict[str, Any]:
        """What else a worker hears of a round."""
        return {"schema": Schema(layout), "lag_then": lag, "tail": tail}

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
        same = super().read_by_all(cursor, workers)
        return {**same, "round": self.round.text()}

    def config(self) -> dict[str, Any]:
        """What was asked for, as plain values."""
        return {**super().config(), "topics": [name for name, _ in self.round.topics]}


@dataclass(frozen=True, kw_only=True)
class UnitRoundSpec(RoundSpec, UnitsSpec):
    """What a round of a stream delivers whose units are counted."""

    @property
    def cost_columns(self) -> list[str]:
        """The names of the columns that tell what rows cost."""
        return self._columns

    def _left(self, cursor: _core.Cursor) -> Intervals:
        """The rows of the units that are left; of sequences, those of their messages."""
        table = self.units_table
        units = of_buffer(self.order(cursor).row_set(of_buffer(cursor.remaining())))
        if isinstance(table, PackedTable):
            return self.source.rows_of_tokens(table.tokens_in(units))
        return table.ordinals(units, self.manifest, [])

    def stage_at(self, _before: _core.Cursor) -> Mapping[str, Any]:
        """How the units of the round are made, and what each one holds, on rank 0."""
        if self.world.rank:
            return {}
        contents = self.contents()
        each = base64.b64encode(contents.astype("<u8").tobytes()).decode()
        return {"units": {**self.described(contents), "contents": each}}

    def packed_round(self) -> bytes:
        """What a worker that has the spec of an earlier round of a stream needs to make this one of it."""
        parts = self.round, self.source.indices, self.lag_then, self.tail, self.units_table, self.is_audited
        return pickle.dumps(parts)

    def _others(  # type: ignore[override]
        self,
        layout: _core.Layout,
        lag: Mapping[str, int],
        tail: TailOfPass,
        table: PackedTable | BinsTable,
        is_audited: bool,
    ) -> dict[str, Any]:
        rows = Schema(layout)
        others = {
            **super()._others(layout, lag, tail),
            "schema": schema_of(self.unit, rows),
            "row_schema": rows,
        }
        return {**others, "units_table": table, "is_audited": is_audited}


def round_spec(
    spec: FilesSpec, round_: Round, source: RoundSource, choice: OrderChoice, lag: Mapping[str, int]
) -> RoundSpec:
    """The spec of a round's rows, or of its units."""
    made = UnitRoundSpec if isinstance(spec, UnitsSpec) else RoundSpec
    given = {each.name: getattr(spec, each.name) for each in dataclasses.fields(spec) if each.init}
    given |= {"tail": "carry", "choice_then": choice, "lag_then": lag}
    return made(**given, round=round_, source=source)
