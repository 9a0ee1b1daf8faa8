"""Transforms: the user's functions that make another batch of each batch, with the same cursor."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import get_worker_info

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch.batch import Batch
from fastresume.batch.delivered import cursor_after
from fastresume.batch.jagged import Jagged
from fastresume.batch.marks import Mark, OpenMarks
from fastresume.batch.origin import Planned, Share, of_a_pass
from fastresume.batch.seeds import batch_seed
from fastresume.messages import bounded, warn
from fastresume.options.world import World
from fastresume.reading.draws import Draws
from fastresume.reading.map_function import Transform, name_of
from fastresume.reading.spec import ReadSpec
from fastresume.reading.stand_in import StandIn
from fastresume.rng import seeded

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

    `draws` is given where no global generator gives the same again.
    """
    batch = spec.batch(delivered, cursor_after(delivered, end_cursor), share)
    return transformed(batch, spec, draws) if spec.transforms else batch


def transformed(batch: Batch, spec: ReadSpec, draws: Draws | None = None) -> Batch:
    """What the dataset's transforms make of a batch, one after another; each result has the batch's origin.

    Raises:
        TypeError: if one returns neither a `Batch` nor a mapping of names to values.
        FastresumeError: if one raises StopIteration, which would end the pass without a word.
        DataError: if one fails over its batch, and over all that could tell what it makes.

    Other exceptions are raised unchanged. All of them have a note that names transform and batch. Where they
    are to be masked, the batch has the form that the transform makes of others, and no valid row.
    """
    marks = OpenMarks()
    batch = Batch(batch._tensors, batch._origin._replace(marks=marks))
    has_failed = False
    for number, transform in enumerate(spec.transforms):
        masks = has_failed or number in spec.masking
        before, marked = _copy(batch) if masks else batch, len(marks)
        try:
            made = transform(batch) if draws is None else draws.call(number, batch)
            marks.check_unwritten()
            batch = _batch_of(made, batch, transform)
            _warn_of_fewer(batch, transform)
            named = (mark._replace(cause=f"{name_of(transform)}: {mark.cause}") for mark in marks[marked:])
            marks[marked:] = named
        except MemoryError:  # no fault of the batch
            raise
        except Exception as error:
            if masks:
                cause = bounded(f"{_note(number, before, spec)}: {type(error).__name__}: {error}")
                failure = Mark(np.arange(batch.num_rows), cause)
                marks[marked:] = [] if has_failed else [failure]
                has_failed = True
                # A thread must leave the generators alone; a worker process has them for itself.
                is_seeded = draws is None or get_worker_info() is not None
                batch = _stand_in(before, number, cause, spec, is_seeded).instead_of(before)
                continue
            if not isinstance(error, StopIteration):
                _add_note(error, _note(number, batch, spec))
                raise
            ended = _core.FastresumeError(
                f"{name_of(transform)} raised StopIteration, which would end the pass"
            )
            _add_note(ended, _note(number, batch, spec))
            raise ended from error
    return Batch(batch._tensors, batch._origin._replace(marks=tuple(marks)))


def of_batch(batch: Batch) -> AbstractContextManager[None]:
    """A context in which the global generators give what they give in a `Loader`'s worker for this batch."""
    share = of_a_pass(batch._origin.share)
    return seeded(batch_seed(share.seed, batch.epoch, batch.step, share.rank))


def _stand_in(batch: Batch, number: int, cause: str, spec: ReadSpec, is_seeded: bool) -> StandIn:
    """What the transforms up to one that failed over a batch make of the first batch that they take.

    The batches of the cut are tried in their order. So any process finds the same, at any time.

    Raises:
        DataError: if they take none, or fail over more rows than may be masked.
    """
    share, name, masked_rows = batch._origin.share, name_of(spec.transforms[number]), spec.masked_rows
    if not isinstance(share, Planned):
        raise _core.FastresumeError("a batch that another process made can't be transformed")
    planned, known = share.planned, masked_rows.stand_ins.get(number)
    if known is not None and known.is_of(planned):
        return known
    failed, own = batch._origin.valid_rows, share.number(batch.step)
    for reads, cut, at in _places(spec, planned):
        rank = reads.world.rank
        is_own = cut is planned and rank == share.rank
        if is_own and at == own:
            continue
        made = _tried(reads, cut, at, number, is_seeded)
        if made is not None:
            found = StandIn(planned.cut, planned.cursor_after(0), made)
            masked_rows.stand_ins[number] = found
            return found
        failed += cut.shape(at, rank)[1] if is_own else 0
        if failed > masked_rows.most_failed:
            raise _core.DataError(
                f"bad_rows= allows {plural(int(masked_rows.most_failed), 'masked row')} of a pass in this "
                f"process, and {name} fails over each of the {failed} rows that it was tried with: {cause}"
            ) from None
    raise _core.DataError(
        f"{name} fails over every batch of pass {batch.epoch}, so that nothing tells what it makes: {cause}"
    ) from None


def _places(spec: ReadSpec, planned: _core.Pass) -> Iterator[tuple[ReadSpec, _core.Pass, int]]:
    """The batches of a cut: this rank's, then those of the others, then this rank's of the next pass."""
    rank, ranks = spec.world.rank, spec.world.world_size
    for other in [rank, *(one for one in range(ranks) if one != rank)]:
        reads = spec if other == rank else dataclasses.replace(spec, world=World(other, ranks))
        yield from ((reads, planned, number) for number in range(planned.batches))
    following = spec.pass_from(planned.next_pass(), 1)
    yield from ((spec, following, number) for number in range(following.batches))


def _tried(spec: ReadSpec, planned: _core.Pass, number: int, last: int, is_seeded: bool) -> Batch | None:
    """What the transforms up to the last one make of a batch; None if they fail, or it can't be read."""
    try:
        batch = spec.planned_batch(planned, number)
        batch = Batch(batch._tensors, batch._origin._replace(marks=OpenMarks()))
        with of_batch(batch) if is_seeded else nullcontext():
            for transform in spec.transforms[: last + 1]:
                batch = _batch_of(transform(batch), batch, transform)
    except (MemoryError, _core.SourceError):
        raise
    except Exception:  # noqa: BLE001  (what it raises is raised for the batch that is due)
        return None
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
    if isinstance(made, Mapping) and not len(made):
        raise ValueError(
            f"{name_of(transform)} returned an empty {type(made).__name__}: a function given to map() "
            "must return the batch, or a mapping of names to values. Write filter= to leave rows out"
        )
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


def _warn_of_fewer(batch: Batch, transform: Transform) -> None:
    """Warns where all values have fewer rows than the batch: an audit counts the others as delivered."""
    values: dict[str, Any] = batch._tensors
    sizes = set[int]()
    for value in values.values():  # most often the first one has all rows
        has_rows = isinstance(value, Jagged) or (isinstance(value, Tensor | np.ndarray) and value.ndim > 0)
        if not has_rows or len(value) >= batch.num_rows:
            return
        sizes.add(len(value))
    if len(sizes) == 1:
        # Without a number, so that Python's filter of warnings shows it once for each function.
        warn(
            f"{name_of(transform)} returned fewer rows than its batch has; the others count as delivered. "
            "Write filter= of the dataset to leave rows out, or batch.mask(rows, reason)"
        )


def _note(number: int, batch: Batch, spec: ReadSpec) -> str:
    transforms = spec.transforms
    place = f", transform {number + 1} of {len(transforms)}," if len(transforms) > 1 else ""
    note = (
        f"raised by {name_of(transforms[number])}{place} on the batch of epoch {batch.epoch}, "
        f"step {batch.step}, rank {spec.world.rank}: {plural(batch.num_rows, 'row')}"
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
    return ", ".join(files[:_NAMED_FILES]) + (f" and {plural(more, 'more file')}" if more > 0 else "")


def _add_note(error: BaseException, note: str) -> None:
    """Adds a note unless it is there already: the same exception may be raised again."""
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
