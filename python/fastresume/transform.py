"""Transforms: functions of the user's that make another batch of each batch, under the same cursor."""

from __future__ import annotations

import multiprocessing.context
import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fastresume import _core
from fastresume.batch import Batch, of_delivered
from fastresume.origin import Share

if TYPE_CHECKING:
    from fastresume.arrival import Arrival
    from fastresume.dataset import ParquetDataset

Transform = Callable[[Batch], Mapping[str, Any]]
"""A function of a batch that gives a batch, or a mapping of names to values."""

_NAMED_FILES = 3
"""What is said of a batch names no more files than these."""


def make_batch(
    dataset: ParquetDataset, share: Share | None, end_cursor: _core.Cursor | None, delivered: _core.Delivered
) -> Batch:
    """The batch that the core delivered, after the dataset's transforms; see `cursor_after`."""
    batch = of_delivered(dataset.schema, delivered, cursor_after(delivered, end_cursor), share)
    return transformed(batch, dataset) if dataset._transforms else batch


def cursor_after(delivered: _core.Delivered | Arrival, end_cursor: _core.Cursor | None) -> _core.Cursor:
    """The cursor after a batch; `end_cursor` if a pass that starts anew ends with it."""
    return end_cursor if delivered.ends_pass and end_cursor is not None else delivered.cursor


def transformed(batch: Batch, dataset: ParquetDataset) -> Batch:
    """What the dataset's transforms make of a batch, one after another; each result has the batch's origin.

    Raises:
        TypeError: if one returns neither a `Batch` nor a mapping of names to values.
        FastresumeError: if one raises StopIteration, which would end the pass without a word.

    Whatever else one raises is raised as it is. All of these have a note that names transform and batch.
    """
    for number, transform in enumerate(dataset._transforms):
        try:
            batch = _batch_of(transform(batch), batch, transform)
        except StopIteration as error:
            failure = _core.FastresumeError(
                f"{name_of(transform)} raised StopIteration, which would end the pass"
            )
            _add_note(failure, _note(number, batch, dataset))
            raise failure from error
        except Exception as error:
            _add_note(error, _note(number, batch, dataset))
            raise
    return batch


def _batch_of(made: object, batch: Batch, transform: Transform) -> Batch:
    """What a transform returned, with the cursor and the place of the batch that it was given."""
    if isinstance(made, Batch):
        return made if made._origin is batch._origin else Batch(made._tensors, batch._origin)
    if not isinstance(made, Mapping):
        raise TypeError(
            f"{name_of(transform)} returned {type(made).__name__}: a function given to map() must return the "
            "batch, or a mapping of names to values (tensors, Jagged or others)"
        )
    for name in made:
        if not isinstance(name, str):
            raise TypeError(
                f"{name_of(transform)} returned a mapping with the name {name!r}, which is no string"
            )
    return Batch(dict(made), batch._origin)


def name_of(transform: Transform) -> str:
    """The name of a transform, as its users know it."""
    name: str = getattr(transform, "__qualname__", type(transform).__qualname__)
    return name


def check_picklable(transforms: tuple[Transform, ...]) -> None:
    """Says what to write where a worker process that starts anew can't be given a transform.

    Raises:
        PicklingError: if one is a lambda, or a function made within another one.
    """
    if multiprocessing.context.get_spawning_popen() is None:
        return  # a pickle of another kind, which may take anything
    for transform in transforms:
        name = name_of(transform)
        if "<lambda>" in name or "<locals>" in name:
            raise pickle.PicklingError(
                f"{name} can't be sent to a worker process, which Python starts anew here ('spawn' or "
                "'forkserver'): give map() a function of a module's top level, or an object of a class with "
                "__call__, or take multiprocessing_context='fork'"
            )


def _note(number: int, batch: Batch, dataset: ParquetDataset) -> str:
    transforms = dataset._transforms
    place = f", transform {number + 1} of {len(transforms)}," if len(transforms) > 1 else ""
    note = (
        f"raised by {name_of(transforms[number])}{place} on the batch of epoch {batch.epoch}, "
        f"step {batch.step}, rank {dataset.world.rank}: {batch.num_rows} rows"
    )
    places = dataset.locate(batch.rows())
    if not places:
        return note
    path, group, row = places[0]
    others = list(dict.fromkeys(other for other, _, _ in places if other != path))
    note += f", the first is row {row} of row group {group} in {path}"
    if others:
        note += f"; others are in {some_of(others)}"
    return note


def some_of(files: list[str]) -> str:
    """The first files, and how many more there are."""
    more = len(files) - _NAMED_FILES
    return ", ".join(files[:_NAMED_FILES]) + (f" and {more} more files" if more > 0 else "")


def _add_note(error: BaseException, note: str) -> None:
    """Adds a note, but for one that is there: the same exception may be raised again."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
