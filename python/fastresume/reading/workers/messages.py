"""What the main process and the workers of a `Loader` say to each other, and the batch that they make."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.damage import Damage
from fastresume.batch.marks import Mark
from fastresume.batch.origin import Share, UnitRows
from fastresume.buffers import Intervals
from fastresume.reading.workers.parcels import Parcel


@dataclass(frozen=True, slots=True)
class Arrival:
    """A batch that a worker process made: a `Delivered`."""

    batch: Batch
    planned: _core.Pass
    number: int
    rank: int
    num_bytes: int
    cursor: _core.Cursor

    def with_cursor(self, cursor: _core.Cursor, share: Share | None) -> Batch:
        """The batch with the cursor after it, for who has the share."""
        origin = self.batch._origin._replace(cursor=cursor, share=share)
        return Batch(dict(self.batch._tensors), origin)

    @property
    def num_rows(self) -> int:
        """Rows of the batch."""
        return self.batch.num_rows

    @property
    def valid_rows(self) -> int:
        """Those that do not only fill it up."""
        return self.batch._origin.valid_rows

    @property
    def runs(self) -> _core.Buffer:
        """The numbers of the valid rows, in their order, as ranges; of units, those that they are made of."""
        origin, (_, valid, _) = self.batch._origin, self.planned.shape(self.number, self.rank)
        if origin.units is None:
            return self.planned.valid_runs(self.number, self.rank, origin.runs)
        runs: Any = origin.runs[: origin.units.offsets[valid]]
        return cast("_core.Buffer", runs)  # an array is taken like one

    @property
    def damage(self) -> Damage:
        """The rows that could not be decoded, and others beside them."""
        return self.batch._origin.damage

    @property
    def positions(self) -> _core.Buffer:
        """The positions of the valid rows in the order of the pass, as ranges."""
        return self.planned.valid_positions(self.number, self.rank)

    @property
    def dropped(self) -> _core.Buffer:
        """The positions that no rank gets, if it is the last batch of the pass; else none."""
        return self.planned.dropped_with(self.number)

    @property
    def epoch(self) -> int:
        """The number of the pass."""
        return self.planned.epoch

    @property
    def step(self) -> int:
        """Batches of the pass before this one."""
        return self.planned.step_of(self.number)

    @property
    def ends_pass(self) -> bool:
        """Whether it is the last one of the pass."""
        return self.number + 1 == self.planned.batches


class Task(NamedTuple):
    """A batch to make: the number-th of the cut that the pass has from a cursor on.

    `start` is the cursor's text; None for that of the task that the worker had before. With it comes
    `packed_round`: what `ReadSpec.packed_round` returns, of a stream.
    """

    serving: int
    start: str | None
    number: int
    packed_round: bytes = b""


class Answer(NamedTuple):
    """What a worker sends for a task: a `Made` or a `Failure`, as a parcel."""

    serving: int
    number: int
    parcel: Parcel


class Made(NamedTuple):
    """What a worker made of a task: values by name, and what the origin of the batch says about its rows."""

    values: dict[str, object]
    runs: Intervals
    damage: Damage
    sources: npt.NDArray[np.int64] | None
    units: UnitRows | None
    num_rows: int
    valid_rows: int
    marks: Sequence[Mark] = ()


class Failure(NamedTuple):
    """What a worker raised over a task."""

    worker: int
    process: int
    error: bytes | None
    trace: str

    def exception(self) -> BaseException:
        """What is raised in the main process: the same, with where it came from as a note."""
        error: BaseException | None = None
        try:
            error = pickle.loads(self.error or b"")  # noqa: S301  (of our workers)
        except Exception:  # noqa: BLE001  (what a user's exception does when it is made again)
            error = None
        if not isinstance(error, BaseException):
            error = _core.FastresumeError(
                "a worker process raised what can't be sent; its traceback is below"
            )
        notes = "".join(f"{note}\n" for note in getattr(error, "__notes__", ()))
        trace = self.trace.removesuffix(notes)  # they are shown once
        error.add_note(f"in worker {self.worker} (process {self.process}):\n{trace}")
        return error
