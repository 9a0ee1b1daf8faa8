"""Random access: any batch of a pass, or any rows, read again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.origin import Origin
from fastresume.buffers import Intervals, of_buffer, of_words
from fastresume.options.checks import at_least
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.row_places import RowNumbers, groups_of
from fastresume.reading.spec import ReadSpec
from fastresume.reading.transform import transformed
from fastresume.reading.workers.worker import seeded_for
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

    `readers` read the passes of which nobody has read a batch yet.
    """
    epoch, step = at_least(0, "epoch", epoch), at_least(0, "step", step)
    if epoch >= MAX_EPOCH:
        raise IndexError(f"epoch {epoch} is not below {MAX_EPOCH}, the last that a state can hold")
    world = spec.world
    if state is None:
        cursor, readers = shared.begun(epoch, readers)
    else:
        cursor = spec.fitted(Cursor.from_state(state)._core)
        if cursor.epoch != epoch:
            raise _core.StateError(f"the state is of epoch {cursor.epoch}, asked for was epoch {epoch}")
    planned = spec.pass_from(cursor, readers.workers)
    batch = step - planned.step_of(0)
    if state is not None or batch < 0:
        cut = spec.cut(readers.workers)
        planned, batch = _core.Pass.at_step(cursor, step, cut, spec.tail, world.world_size)
    if batch >= planned.batches:
        raise IndexError(
            f"step {step} is beyond the pass, which has {planned.step_of(planned.batches)} steps"
            + ("" if state is None else " by this state")
        )
    lanes, groups, rows = planned.cut
    ways = rows if lanes == 1 else lanes // groups
    if ways % world.world_size:
        raise ValueError(
            f"step {step} was made under the cut {list(planned.cut)}, which {world.world_size} ranks can't "
            "share: open the dataset with rank=0, world_size=1 to get the whole global batch"
        )
    return made_again(spec, planned, batch, readers.are_seeded)


def made_again(spec: ReadSpec, planned: _core.Pass, number: int, is_seeded: bool) -> Batch:
    """The batch of this rank with a number in the cut of a pass, whose transforms move no generator here.

    `is_seeded` says that they draw what a worker of a `Loader` drew, which is seeded for each batch.
    """
    if not spec.transforms:
        return planned_batch(spec, planned, number)
    if not is_seeded:
        with untouched():
            return planned_batch(spec, planned, number)
    seed = spec.share(planned, planned.cursor_after(number)).seed
    with seeded_for(seed, planned.epoch, planned.step_of(number), spec.world.rank):
        return planned_batch(spec, planned, number)


def planned_batch(spec: ReadSpec, planned: _core.Pass, number: int) -> Batch:
    """The batch of this rank with a number in the cut of a pass, read again and transformed."""
    cursor = planned.cursor_after(number)
    after = planned.cursor_after(number + 1)
    if spec.on_iter == "restart" and after.epoch != planned.epoch:
        after = cursor.restarted()
    rows, share = spec.planned_rows(planned, number), spec.share(planned, cursor)
    return transformed(rows.batch(planned, number, share, spec.schema.masked, after), spec)


def read_rows(spec: FilesSpec, row_numbers: Sequence[int] | RowNumbers) -> Batch:
    """The rows with these numbers, in this order; see `ParquetDataset.read_rows`."""
    rows, count = spec.read_rows(row_numbers), len(row_numbers)
    origin = Origin(None, None, None, count, count, rows.numbers, spec.schema.masked, None)
    return Batch(rows.tensors, origin)


def next_batch(spec: ReadSpec, cursor: _core.Cursor) -> Batch:
    """The batch of this rank that comes after a cursor, if need be in the next pass."""
    begun, _ = spec.bounds(cursor)
    planned = spec.pass_from(begun, 1)
    if not planned.batches_left:
        planned = spec.pass_from(begun.next_pass(), 1)
    return made_again(spec, planned, planned.batches - planned.batches_left, False)


def remaining_rows(spec: FilesSpec, cursor: _core.Cursor) -> Intervals:
    """The numbers of the rows of the current pass that are not delivered."""
    fitted = spec.fitted(cursor)
    order = spec.row_order(fitted)
    return of_buffer(order.row_set(of_buffer(fitted.remaining())))


def remaining_by_group(spec: FilesSpec, cursor: _core.Cursor) -> list[tuple[str, int, Intervals]]:
    """The rows of the current pass that are not delivered, by file and row group; see `Cursor.remaining`."""
    rows = remaining_rows(spec, cursor)
    starts = of_words(spec.manifest.group_starts)
    # Every range is cut at the bounds of row groups, so that each piece lies in one.
    bounds = np.unique(np.concatenate([rows.ravel(), starts]))
    pieces = np.stack([bounds[:-1], bounds[1:]], axis=1)
    held = np.searchsorted(rows[:, 0], pieces[:, 0], side="right") - 1
    inside = held >= 0
    inside[inside] = pieces[inside, 0] < rows[held[inside], 1]
    pieces = pieces[inside]
    paths, groups, first_rows = groups_of(spec.manifest, pieces[:, 0])
    found: list[tuple[str, int, Intervals]] = []
    begins = np.flatnonzero(np.r_[True, np.diff(first_rows) != 0]) if len(pieces) else np.empty(0, np.int64)
    for begin, end in zip(begins, np.r_[begins[1:], len(pieces)], strict=True):
        found.append((paths[begin], int(groups[begin]), pieces[begin:end] - first_rows[begin]))
    return found
