"""The origin of a batch: its place in the pass, the cursor after it, its rows and their positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.batch.damage import Damage, among
from fastresume.batch.marks import Mark
from fastresume.buffers import Intervals, of_buffer, of_runs, of_words

Value = TypeVar("Value")

RowSources = npt.NDArray[np.int64] | None
"""The source of a mixture of each row; None for one dataset."""


class NoPassError(_core.FastresumeError, AttributeError):
    """Rows that were read by their numbers have no place in a pass: `hasattr(batch, "step")` is False."""


@dataclass(frozen=True, slots=True)
class Share(ABC):
    """The rank of a batch, and the positions of its rows in the pass.

    Args:
        rank: the rank that gets the batch.
        seed: the seed of its random numbers.
        restarts: whether each `iter()` starts the pass over, so that no place in it is resumed.
    """

    rank: int
    seed: int
    restarts: bool = field(default=False, kw_only=True)

    @abstractmethod
    def spans(self, step: int) -> Intervals:
        """The positions of the rows that are read for a step's batch, in its order, as ranges."""

    @abstractmethod
    def left(self, step: int) -> int:
        """The number of batches that the rank gets in the pass after a step's."""

    @abstractmethod
    def global_step(self, step: int) -> int:
        """The number of batches of the job before a step's, over all its passes."""

    @abstractmethod
    def before(self, step: int) -> _core.Cursor:
        """The cursor before a step's batch."""

    def event_time(self, rows: Intervals, sources: RowSources) -> tuple[int, int] | None:  # noqa: ARG002
        """The least and the greatest event time of rows, in milliseconds since 1970; None without any.

        `sources` are those of the rows, of a mixture.
        """
        return None


@dataclass(frozen=True, slots=True)
class Planned(Share):
    """The share of all batches of one rank in a pass; it is cheap to keep.

    Args:
        planned: the pass, under the cut of these batches.
    """

    planned: _core.Pass

    def spans(self, step: int) -> Intervals:
        """The positions of the rows that are read for a step's batch, in its order, as ranges."""
        return of_buffer(self.planned.positions(self.number(step), self.rank))

    def left(self, step: int) -> int:
        """The number of batches that the rank gets in the pass after a step's."""
        return self.planned.batches - self.number(step) - 1

    def global_step(self, step: int) -> int:
        """The number of batches of the job before a step's, over all its passes."""
        return self.planned.global_step_of(self.number(step))

    def before(self, step: int) -> _core.Cursor:
        """The cursor before a step's batch."""
        return self.planned.cursor_after(self.number(step))

    def number(self, step: int) -> int:
        """The number of a step's batch within the cut."""
        return step - self.planned.step_of(0)


@dataclass(frozen=True, slots=True)
class Sent(Share):
    """The share of one batch that was sent to another process, with its positions."""

    positions: Intervals
    batches_left: int
    batches_of_job: int
    cursor_before: _core.Cursor
    times: tuple[int, int] | None

    def spans(self, _step: int) -> Intervals:
        """The positions of the rows that were read for the batch, in its order, as ranges."""
        return self.positions

    def left(self, _step: int) -> int:
        """The number of batches that the rank gets in the pass after this one."""
        return self.batches_left

    def global_step(self, _step: int) -> int:
        """The number of batches of the job before this one, over all its passes."""
        return self.batches_of_job

    def before(self, _step: int) -> _core.Cursor:
        """The cursor before this batch."""
        return self.cursor_before

    def event_time(self, _rows: Intervals, _sources: RowSources) -> tuple[int, int] | None:
        """The least and the greatest event time of its rows, in milliseconds since 1970."""
        return self.times


class Proof(NamedTuple):
    """What a delivery log notes of the units of a batch that are no padding.

    Args:
        units: the digest of their numbers.
        content: that of what they hold; None if it is not known.
    """

    units: int
    content: int | None


class UnitRows(NamedTuple):
    """The rows that the units of a batch are made of.

    Args:
        offsets: where those of each unit begin among the batch's row numbers, then their number: int64
            `[units + 1]`.
        are_documents: whether a unit is a sequence of parts of these rows, rather than the rows themselves.
        proof: what a delivery log notes; None where there is no log.
    """

    offsets: npt.NDArray[np.int64]
    are_documents: bool
    proof: Proof | None = None


class Origin(NamedTuple):
    """The origin of a batch, which stays with it when its tensors are moved, copied or transformed.

    For rows that were read by their numbers, `cursor`, `epoch`, `step` and `share` are None. `rows` are the
    row numbers as runs, or an object that computes them. `masked` names the tensors whose nulls are marked by
    the tensor `name + "_valid"`. `damage` has the rows that could not be decoded, and maybe others. `sources`
    says which source of a mixture each row is of, or is an object that computes it. `units` says which rows
    belong to which unit. `marks` are the rows that functions masked: a list as long as one may add.
    """

    cursor: _core.Cursor | None
    epoch: int | None
    step: int | None
    num_rows: int
    valid_rows: int
    rows: Intervals | _core.Written
    masked: frozenset[str]
    share: Share | None
    damage: Damage = ()
    sources: RowSources | _core.Written = None
    units: UnitRows | None = None
    marks: Sequence[Mark] = ()

    @property
    def valid(self) -> npt.NDArray[np.bool_]:
        """Which rows are neither padding nor masked: bool `[B]`."""
        valid = np.arange(self.num_rows) < self.valid_rows
        for mark in self.marks:
            valid[mark.places] = False
        if not self.damage:
            return valid
        damaged = among(self.damage, of_runs(self.runs), self.row_sources)
        if self.units is not None and self.units.are_documents:
            damaged = np.diff(np.cumsum(np.append(0, damaged))[self.units.offsets]) > 0
        return valid & ~damaged

    @property
    def runs(self) -> Intervals:
        """The row numbers in the batch's order, as runs: int64 `[n, 2]`."""
        rows = self.rows
        return of_buffer(rows.runs()) if isinstance(rows, _core.Written) else rows

    @property
    def place_sources(self) -> RowSources:
        """Which source of a mixture each row, or unit, is of: int64 `[B]`; None for one dataset."""
        if not isinstance(self.sources, _core.Written):
            return self.sources
        found = self.sources.row_sources()
        if found is None:
            return None
        each = of_words(found)
        return each if self.units is None else each[self.units.offsets[:-1]]

    @property
    def row_sources(self) -> RowSources:
        """The source of a mixture of each of the row numbers: int64, one each; None for one dataset."""
        sources = self.place_sources
        if sources is None or self.units is None:
            return sources
        return np.repeat(sources, np.diff(self.units.offsets))

    def positions(self) -> npt.NDArray[np.int64]:
        """The positions of the rows in the order of the pass: int64 `[B]`.

        A padding row has that of its original.

        Raises:
            FastresumeError: if the rows were read by their numbers.
        """
        if self.units is not None and not self.units.are_documents:
            raise _core.FastresumeError(
                "rows of bins have no positions of their own: take batch.generator(), or draw by batch.rows()"
            )
        distinct = of_runs(of_a_pass(self.share).spans(of_a_pass(self.step)))
        if len(distinct) == self.num_rows:
            return distinct
        # Padding repeats the batch's rows in turn; or the batch has no rows at all.
        return distinct[np.arange(self.num_rows) % max(len(distinct), 1)]

    def __reduce__(self) -> tuple[Any, ...]:
        share, runs, sources, units = self.share, self.runs, self.place_sources, self.units
        proof = None if units is None or units.proof is None else tuple(units.proof)
        sent = None
        if share is not None and self.step is not None:
            step = self.step
            place = (share.spans(step).tobytes(), share.left(step), share.global_step(step))
            times = share.event_time(runs, self.row_sources)
            sent = (share.rank, share.seed, *place, share.before(step).to_json(), times)
        return origin_of_values, (
            None if self.cursor is None else self.cursor.to_json(),
            (self.epoch, self.step, self.num_rows, self.valid_rows),
            runs.tobytes(),
            sorted(self.masked),
            sent,
            self.damage,
            None if sources is None else sources.tobytes(),
            None if units is None else (units.offsets.tobytes(), units.are_documents, proof),
            [(mark.places.tobytes(), mark.cause) for mark in self.marks],
        )


def origin_of_values(
    cursor: str | None,
    counts: tuple[int | None, int | None, int, int],
    runs: bytes,
    masked: Sequence[str],
    sent: tuple[Any, ...] | None,
    damage: Damage,
    sources: bytes | None,
    units: tuple[Any, ...] | None,
    marks: Sequence[tuple[bytes, str]],
) -> Origin:
    """The origin that was pickled as these plain values, which `torch.load` may call."""
    share = None
    if sent is not None:
        rank, seed, spans, left, of_job, before, times = sent
        share = Sent(rank, seed, _pairs(spans), left, of_job, _core.Cursor.parse(before), times)
    of_units = None
    if units is not None:
        offsets, are_documents, proof = units
        of_units = UnitRows(_numbers(offsets), are_documents, None if proof is None else Proof(*proof))
    return Origin(
        None if cursor is None else _core.Cursor.parse(cursor),
        *counts,
        _pairs(runs),
        frozenset(masked),
        share,
        damage,
        None if sources is None else _numbers(sources),
        of_units,
        tuple(Mark(_numbers(places), cause) for places, cause in marks),
    )


def _numbers(data: bytes) -> npt.NDArray[np.int64]:
    return np.frombuffer(data, np.int64).copy()


def _pairs(data: bytes) -> Intervals:
    return _numbers(data).reshape(-1, 2)


def of_a_pass(value: Value | None) -> Value:
    """The value, which rows that were read by their numbers do not have.

    Raises:
        NoPassError: if there is no value.
    """
    if value is None:
        raise NoPassError("these rows were read by their numbers: they are no batch of a pass")
    return value
