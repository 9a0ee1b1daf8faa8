"""Random access: any batch of a pass, or any rows, read again."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.batch.origin import Origin
from fastresume.buffers import Intervals, of_buffer, of_words
from fastresume.options.checks import at_least
from fastresume.options.world import World
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.row_places import SomeRows, checked_numbers, groups_of
from fastresume.reading.spec import ReadSpec
from fastresume.reading.transform import of_batch, transformed
from fastresume.rng import untouched
from fastresume.state.cursor import Cursor
from fastresume.state.shared_cursor import ALONE, Readers, SharedCursor

MAX_EPOCH = 2**53 - 1


def batch_at(
    spec: ReadSpec,
    shared: SharedCursor,
    epoch: int,
    step: int,
    state: Mapping[str, Any] | Cursor | None,
    readers: Readers = ALONE,
) -> Batch:
    """The batch of this rank at a step of a pass; see `ParquetDataset.batch_at`.

    `readers` read the passes that were not read yet.
    """
    step = at_least(0, "step", step)
    known = _known_pass(spec, shared, epoch, state, readers)
    planned = known.planned
    batch = step - planned.step_of(0)
    if batch < 0:
        planned, batch = known.at_step(spec, step)
    if batch >= planned.batches:
        raise IndexError(
            f"step {step} is beyond the pass, which has {plural(planned.step_of(planned.batches), 'step')}"
            + ("" if state is None else " by this state")
        )
    _check_shared(spec, planned, step)
    return made_again(spec, planned, batch, known.readers.are_seeded)


def batch_of_row(
    spec: ReadSpec,
    shared: SharedCursor,
    epoch: int,
    row_number: int,
    state: Mapping[str, Any] | Cursor | None,
    readers: Readers = ALONE,
) -> tuple[Batch, int]:
    """The batch that a row is delivered with in a pass, and which one it is of its rows.

    See `FilesDataset.batch_of_row`.
    """
    if not isinstance(spec, FilesSpec) or spec.units_text is not None:
        raise TypeError(
            "batch_of_row finds rows of one ParquetDataset. In a Mixture a row may come several times in a "
            "pass, and of units several may have a part of it: go over batch_at(epoch, step), whose rows() "
            "and source tell what it has"
        )
    row = int(checked_numbers(spec.manifest, [row_number])[0])
    known = _known_pass(spec, shared, epoch, state, readers)
    position = spec.row_order(known.cursor).position_of(row)
    if position is None:
        raise IndexError(f"row {row} is not among the {spec.row_text()} that are selected")
    planned, (batch, rank, place) = _slot_of(spec, known, position, row)
    if rank != spec.world.rank:
        spec = dataclasses.replace(spec, world=World(rank, spec.world.world_size))
    return made_again(spec, planned, batch, known.readers.are_seeded), place


class _KnownPass(NamedTuple):
    """What is known of a pass: a cursor in it, how it continues from there, and who reads it."""

    cursor: _core.Cursor
    planned: _core.Pass
    readers: Readers

    def at_step(self, spec: ReadSpec, step: int) -> tuple[_core.Pass, int]:
        """The pass at the cut that holds a step, whose last one continues; and the batch's number in it."""
        cut = spec.cut(self.readers.workers)
        return _core.Pass.at_step(self.cursor, step, cut, spec.tail, spec.world.world_size)


def _known_pass(
    spec: ReadSpec,
    shared: SharedCursor,
    epoch: int,
    state: Mapping[str, Any] | Cursor | None,
    readers: Readers,
) -> _KnownPass:
    """What a state says about its pass, or this process of one that it has read; else these read it."""
    epoch = at_least(0, "epoch", epoch)
    if epoch >= MAX_EPOCH:
        raise IndexError(f"epoch {epoch} is not below {MAX_EPOCH}, the last that a state can hold")
    if state is None:
        begun = shared.begun(epoch)
        cursor, readers = begun or (spec.at_epoch(shared.cursor, epoch, readers.workers), readers)
        return _KnownPass(cursor, spec.pass_from(cursor, readers.workers), readers)
    cursor = spec.fitted(Cursor.from_state(state)._core)
    if cursor.epoch != epoch:
        raise _core.StateError(f"the state is of epoch {cursor.epoch}, asked for was epoch {epoch}")
    known = _KnownPass(cursor, spec.pass_from(cursor, readers.workers), readers)
    return known._replace(planned=known.at_step(spec, _steps_done(known.planned))[0])


def _steps_done(planned: _core.Pass) -> int:
    """The number of steps of a pass before the batch that comes next."""
    return planned.step_of(planned.batches - planned.batches_left)


def _slot_of(
    spec: ReadSpec, known: _KnownPass, position: int, row: int
) -> tuple[_core.Pass, tuple[int, int, int]]:
    """The cut of a pass that delivers a position, and there the batch, the rank, and the row in it."""
    step = 0
    while step <= known.planned.step_of(0):
        is_last = step == known.planned.step_of(0)
        planned = known.planned if is_last else known.at_step(spec, step)[0]
        _check_shared(spec, planned, step)
        slot = planned.slot_of(position)
        step = _steps_done(planned)
        if slot is not None and (is_last or planned.step_of(slot[0]) < step):
            return planned, slot
        if is_last:
            break
    raise IndexError(
        f"row {row} is in no batch of pass {known.planned.epoch}: it was consumed before the steps that are "
        f"known, or is among the last {plural(known.planned.rest, 'row')}, which tail={spec.tail!r} drops"
    )


def _check_shared(spec: ReadSpec, planned: _core.Pass, step: int) -> None:
    lanes, groups, rows = planned.cut
    ways = rows if lanes == 1 else lanes // groups
    if ways % spec.world.world_size:
        raise ValueError(
            f"step {step} was made under the cut {list(planned.cut)}, which {spec.world.world_size} ranks "
            "can't share: open the dataset with world=(0, 1) to get the whole global batch"
        )


def made_again(spec: ReadSpec, planned: _core.Pass, number: int, is_seeded: bool) -> Batch:
    """The batch of this rank with a number in the cut of a pass, whose transforms move no generator here.

    `is_seeded` says that they draw what a worker of a `Loader` drew, which is seeded for each batch.
    """
    batch = spec.planned_batch(planned, number)
    if not spec.transforms:
        return batch
    with of_batch(batch) if is_seeded else untouched():
        return transformed(batch, spec)


def read_rows(spec: FilesSpec, row_numbers: SomeRows) -> Batch:
    """The rows with these numbers, in this order; see `ParquetDataset.read_rows`."""
    numbers = checked_numbers(spec.manifest, row_numbers)
    (tensors, rows), count = spec.read_rows(numbers), len(numbers)
    return Batch(tensors, Origin(None, None, None, count, count, rows, spec.schema.masked, None))


def next_batch(spec: ReadSpec, cursor: _core.Cursor) -> Batch:
    """The batch of this rank that comes after a cursor, if need be in the next pass."""
    begun, _ = spec.bounds(cursor)
    planned = spec.pass_from(begun, 1)
    if not planned.batches_left:
        planned = spec.pass_from(planned.next_pass(), 1)
    return made_again(spec, planned, planned.batches - planned.batches_left, False)


def remaining_rows(spec: FilesSpec, cursor: _core.Cursor) -> Intervals:
    """The numbers of the rows of the current pass that are not delivered."""
    fitted = spec.fitted(cursor)
    return spec.rows_at(fitted, of_buffer(fitted.remaining()))


def by_group(spec: FilesSpec, rows: Intervals) -> list[tuple[str, int, Intervals]]:
    """A set of rows by file and row group, counted in it; see `Cursor.remaining`."""
    starts = of_words(spec.manifest.group_starts)
    # Every range is cut at the bounds of row groups, so that each piece is in one.
    bounds = np.unique(np.concatenate([rows.ravel(), starts]))
    pieces = np.stack([bounds[:-1], bounds[1:]], axis=1)
    held = np.searchsorted(rows[:, 0], pieces[:, 0], side="right") - 1
    inside = held >= 0
    inside[inside] = pieces[inside, 0] < rows[held[inside], 1]
    pieces = pieces[inside]
    paths, groups, first_rows = groups_of(spec.manifest, pieces[:, 0])
    begins = np.flatnonzero(np.diff(first_rows, prepend=-1))
    ends = [*begins[1:], len(pieces)]
    return [
        (paths[begin], int(groups[begin]), pieces[begin:end] - first_rows[begin])
        for begin, end in zip(begins, ends, strict=False)  # of no rows there is an end alone
    ]
