"""Any batch or row of a dataset again: which rows made it, and where they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastresume import _core
from fastresume.arguments import at_least
from fastresume.batch import Batch, Tensors
from fastresume.cursor import Cursor
from fastresume.intervals import Intervals, of_buffer, of_words
from fastresume.origin import Origin
from fastresume.transform import transformed

if TYPE_CHECKING:
    from fastresume.dataset import ParquetDataset

RowNumbers = npt.NDArray[np.int64]

MAX_EPOCH = 2**53 - 1


def batch_at(
    dataset: ParquetDataset, epoch: int, step: int, state: Mapping[str, Any] | Cursor | None
) -> Batch:
    """The batch of this rank at a step of a pass; see `ParquetDataset.batch_at`."""
    epoch, step = at_least(0, "epoch", epoch), at_least(0, "step", step)
    if epoch >= MAX_EPOCH:
        raise IndexError(f"epoch {epoch} is not below {MAX_EPOCH}, the last that a state can hold")
    cut, world = dataset._cut(1), dataset.world
    if state is None:
        cursor = dataset._shared.cursor.at_epoch(epoch)
    else:
        cursor = Cursor.from_state(state)._core
        cursor.check_dataset(dataset._manifest, dataset._choice)
        if cursor.epoch != epoch:
            raise _core.StateError(f"the state is of epoch {cursor.epoch}, asked for was epoch {epoch}")
    planned, batch = _core.Pass.at_step(cursor, step, cut, dataset.tail, world.world_size)
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
    return planned_batch(dataset, planned, batch)


def planned_batch(dataset: ParquetDataset, planned: _core.Pass, number: int) -> Batch:
    """The batch of this rank with a number in the cut of a pass, read again and transformed."""
    rank, cursor = dataset.world.rank, planned.cursor_after(number)
    order = _core.Order(cursor, dataset._manifest)
    count, valid, _ = planned.shape(number, rank)
    runs = of_buffer(order.rows(of_buffer(planned.positions(number, rank))))
    tensors, rows = _read(dataset, runs, count)
    after = planned.cursor_after(number + 1)
    if dataset.on_iter == "restart" and after.epoch != planned.epoch:
        after = cursor.restarted()
    share = dataset._share(planned, cursor)
    place = (planned.epoch, planned.step_of(number))
    origin = Origin(after, *place, count, valid, rows, dataset.schema.masked, share)
    return transformed(Batch(tensors, origin), dataset)


def read_rows(dataset: ParquetDataset, row_numbers: Sequence[int] | RowNumbers) -> Batch:
    """The rows with these numbers, in this order; see `ParquetDataset.read_rows`."""
    numbers = _row_numbers(dataset, row_numbers)
    count = len(numbers)
    tensors, rows = _read(dataset, np.stack([numbers, numbers + 1], axis=1), count)
    origin = Origin(None, None, None, count, count, rows, dataset.schema.masked, None)
    return Batch(tensors, origin)


def locate(dataset: ParquetDataset, row_numbers: Sequence[int] | RowNumbers) -> list[tuple[str, int, int]]:
    """Where rows are; see `ParquetDataset.locate`."""
    numbers = _row_numbers(dataset, row_numbers)
    paths, groups, first_rows = _groups_of(dataset, numbers)
    return [
        (path, int(group), int(number - first))
        for path, group, first, number in zip(paths, groups, first_rows, numbers, strict=True)
    ]


def remaining_rows(dataset: ParquetDataset, cursor: _core.Cursor) -> list[tuple[str, int, Intervals]]:
    """The rows of the present pass that were not delivered, by file and row group; see `Cursor.remaining`."""
    cursor.check_dataset(dataset._manifest, dataset._choice)
    order = _core.Order(cursor, dataset._manifest)
    rows = of_buffer(order.row_set(of_buffer(cursor.remaining())))
    starts = of_words(dataset._manifest.group_starts)
    # Every range is cut at the row groups' bounds, so that each piece lies in one.
    bounds = np.unique(np.concatenate([rows.ravel(), starts]))
    pieces = np.stack([bounds[:-1], bounds[1:]], axis=1)
    held = np.searchsorted(rows[:, 0], pieces[:, 0], side="right") - 1
    inside = held >= 0
    inside[inside] = pieces[inside, 0] < rows[held[inside], 1]
    pieces = pieces[inside]
    paths, groups, first_rows = _groups_of(dataset, pieces[:, 0])
    found: list[tuple[str, int, Intervals]] = []
    begins = np.flatnonzero(np.r_[True, np.diff(first_rows) != 0]) if len(pieces) else np.empty(0, np.int64)
    for begin, end in zip(begins, np.r_[begins[1:], len(pieces)], strict=True):
        found.append((paths[begin], int(groups[begin]), pieces[begin:end] - first_rows[begin]))
    return found


def _read(dataset: ParquetDataset, runs: Intervals, count: int) -> tuple[Tensors, _core.Written]:
    """The tensors of the rows of these runs, over and over up to `count` rows, and what tells these."""
    memory, written = dataset._layout.read_rows(dataset._manifest, runs, count)
    return dataset.schema.tensors(memory), written


def _row_numbers(dataset: ParquetDataset, given: Sequence[int] | RowNumbers) -> RowNumbers:
    numbers = np.asarray(given)
    if numbers.size == 0 and numbers.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        raise TypeError(f"row numbers must be a list or an array [n] of integers, found {given!r}")
    total = dataset.num_file_rows
    outside = numbers[(numbers < 0) | (numbers >= total)]
    if outside.size:
        raise IndexError(f"row {outside[0]} is not in [0, {total}), the rows of the dataset's files")
    return numbers.astype(np.int64)


def _groups_of(dataset: ParquetDataset, rows: RowNumbers) -> tuple[list[str], RowNumbers, RowNumbers]:
    """Of each row the file, the row group within it, and the group's first row."""
    starts, file_groups = of_words(dataset._manifest.group_starts), of_words(dataset._manifest.file_groups)
    groups = np.searchsorted(starts, rows, side="right") - 1
    files = np.searchsorted(file_groups, groups, side="right") - 1
    paths = dataset.files
    return [paths[file] for file in files], groups - file_groups[files], starts[groups]
