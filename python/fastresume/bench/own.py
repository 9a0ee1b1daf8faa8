"""The contenders of this project."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastresume.arrow_dataset import ArrowDataset
from fastresume.batch.batch import Batch
from fastresume.bench.reading import STATE, Contender, Reading
from fastresume.bench.task import Task
from fastresume.columns.column import Column, col
from fastresume.columns.stack import Stack, stack
from fastresume.dataset import ParquetDataset
from fastresume.loader import Loader


def dataset_of(task: Task, is_stacked: bool = False, shuffle: bool = False) -> ParquetDataset | ArrowDataset:
    """The dataset, with all rows: the last batch may be short."""
    by_name = {column.name: column for column in task.columns}

    def made(*names: str) -> Column:
        some = [by_name[name] for name in names]
        # A mask marks whole lists: a null in one is a zero, as all that is compared has it.
        if any(column.has_null_elements for column in some):
            return col(*names).fill_null(0)
        return col(*names).mask_null() if any(column.may_be_null for column in some) else col(*names)

    stacks = task.stacks if is_stacked else {}
    stacked = {name for members in stacks.values() for name in members}
    columns: list[Column | Stack] = [made(name) for name in task.names if name not in stacked]
    columns += [stack(made(*members), name=name) for name, members in stacks.items()]
    return (ArrowDataset if task.is_of_arrow else ParquetDataset)(
        task.files,
        batch_size=task.batch_size,
        columns=columns,
        shuffle=shuffle,
        tail="short",
        storage_options=task.storage_options or None,
        world=(0, 1),
    )


def one_thread(task: Task, state: Any) -> Reading:
    """One tensor per column, decoded in the caller's thread."""
    return _reading(dataset_of(task), state)


def stacked(task: Task, state: Any) -> Reading:
    """One matrix per type."""
    return _reading(dataset_of(task, is_stacked=True), state)


def shuffled(task: Task, state: Any) -> Reading:
    """One matrix per type, in a shuffled order."""
    return _reading(dataset_of(task, is_stacked=True, shuffle=True), state)


def shuffled_columns(task: Task, state: Any) -> Reading:
    """One tensor per column, in a shuffled order."""
    return _reading(dataset_of(task, shuffle=True), state)


def threads(task: Task, state: Any) -> Reading:
    """One matrix per type, decoded ahead by threads."""
    return _reading(dataset_of(task, is_stacked=True), state, task.threads)


def thread_ahead(task: Task, state: Any) -> Reading:
    """The same with a single thread."""
    return _reading(dataset_of(task, is_stacked=True), state, 1)


def _reading(dataset: ParquetDataset | ArrowDataset, state: Any, ahead: int | None = None) -> Reading:
    if state is not None:
        dataset.load_state_dict(state)

    def batches() -> Iterator[Batch]:
        yield from dataset if ahead is None else Loader(dataset, threads=ahead)

    return Reading(batches(), dataset.state_dict)


OWN = (
    Contender("fastresume", "fastresume, a tensor per column", one_thread, resumes=STATE),
    Contender("fastresume-stacked", "fastresume, stacked", stacked, resumes=STATE),
    Contender("fastresume-shuffled", "fastresume, stacked, shuffled", shuffled, resumes=STATE),
    Contender(
        "fastresume-shuffled-columns",
        "fastresume, a tensor per column, shuffled",
        shuffled_columns,
        resumes=STATE,
        is_default=False,
    ),
    Contender("fastresume-threads", "fastresume, stacked, Loader with threads", threads, resumes=STATE),
    Contender(
        "fastresume-thread",
        "fastresume, stacked, Loader with one thread",
        thread_ahead,
        resumes=STATE,
        is_default=False,
    ),
)
