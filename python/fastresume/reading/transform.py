"""Transforms: the user's functions that make another batch of each batch, with the same cursor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.delivered import cursor_after
from fastresume.batch.jagged import Jagged
from fastresume.batch.origin import Failed, Share
from fastresume.messages import bounded
from fastresume.reading.draws import Draws
from fastresume.reading.map_function import Transform, name_of
from fastresume.reading.spec import ReadSpec

_NAMED_FILES = 3
"""The most files that a note about a batch names."""


def make_batch(
    spec: ReadSpec,
    share: Share | None,
    end_cursor: _core.Cursor | None,
    delivered: Any,
    draws: Draws | None = None,
) -> Batch:
    """The batch that the core delivered, after the dataset's transforms; see `cursor_after`.

    `draws` is given where nothing that a global generator gives comes again.
    """
    batch = spec.batch(delivered, cursor_after(delivered, end_cursor), share)
    return transformed(batch, spec, draws) if spec.transforms else batch


def transformed(batch: Batch, spec: ReadSpec, draws: Draws | None = None) -> Batch:
    """What the dataset's transforms make of a batch, one after another; each result has the batch's origin.

    Raises:
        TypeError: if one returns neither a `Batch` nor a mapping of names to values.
        FastresumeError: if one raises StopIteration, which would end the pass without a word.

    Other exceptions are raised unchanged. All of them have a note that names transform and batch. Where they
    are to be masked, the batch goes on as it was before the transform, with the failure in its origin.
    """
    for number, transform in enumerate(spec.transforms):
        masks = number in spec.masking
        before = _copy(batch) if masks else batch
        try:
            made = transform(batch) if draws is None else draws.call(number, batch)
            batch = _batch_of(made, batch, transform)
        except MemoryError:  # no fault of the batch
            raise
        except Exception as error:
            failed = before._origin.failed
            if masks or failed is not None:
                cause = f"{_note(number, before, spec)}: {type(error).__name__}: {error}"
                failed = Failed(bounded(cause)) if failed is None else failed._replace(is_whole=False)
                batch = Batch(before._tensors, before._origin._replace(failed=failed))
                continue
            if not isinstance(error, StopIteration):
                _add_note(error, _note(number, batch, spec))
                raise
            failure = _core.FastresumeError(
                f"{name_of(transform)} raised StopIteration, which would end the pass"
            )
            _add_note(failure, _note(number, batch, spec))
            raise failure from error
    return batch


def _copy(batch: Batch) -> Batch:
    """The batch with tensors of its own, which a transform that fails does not write to."""
    values: dict[str, Any] = batch._tensors
    copied = {
        name: value.clone() if isinstance(value, Tensor | Jagged) else value for name, value in values.items()
    }
    return Batch(copied, batch._origin)


def _batch_of(made: object, batch: Batch, transform: Transform) -> Batch:
    """A transform's result, with the cursor and the origin of the batch that it was given."""
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


def _note(number: int, batch: Batch, spec: ReadSpec) -> str:
    transforms = spec.transforms
    place = f", transform {number + 1} of {len(transforms)}," if len(transforms) > 1 else ""
    note = (
        f"raised by {name_of(transforms[number])}{place} on the batch of epoch {batch.epoch}, "
        f"step {batch.step}, rank {spec.world.rank}: {batch.num_rows} rows"
    )
    places = spec.locate(batch)
    if not places:
        return note
    path, group, row = places[0]
    others = list(dict.fromkeys(other for other, _, _ in places if other != path))
    note += f", the first is row {row} of row group {group} in {path}"
    if others:
        note += f"; others are in {some_of(others)}"
    return note


def some_of(files: list[str]) -> str:
    """The first few files, and the number of the others."""
    more = len(files) - _NAMED_FILES
    return ", ".join(files[:_NAMED_FILES]) + (f" and {more} more files" if more > 0 else "")


def _add_note(error: BaseException, note: str) -> None:
    """Adds a note unless it is there already: the same exception may be raised again."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
