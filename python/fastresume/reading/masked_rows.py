"""The rows that were masked in this process: counted against the bound, and logged once each.

They are damaged, or a function given to `map` failed over their batch.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.damage import Range, among, masked_of, of_rows
from fastresume.batch.delivered import Delivered
from fastresume.batch.jagged import Jagged
from fastresume.batch.origin import Failed
from fastresume.buffers import of_buffer, of_runs, of_words
from fastresume.reading.row_places import locate

_log = logging.getLogger("fastresume")

_NAMED = 3
"""So many causes are named in an error."""

_MOST_LOGGED = 4096
"""The most ranges of rows that are remembered as logged."""


class MaskedCount(NamedTuple):
    """What was masked of one pass.

    Args:
        rows: how many rows were masked, under each bound.
        place: the pass, and how many states were loaded before it.
        rows_of_batch: how many of these are of the last batch.
        causes: why, of the first of them.
    """

    rows: tuple[int, ...]
    place: tuple[int, int] = (0, 0)
    rows_of_batch: int = 0
    causes: tuple[str, ...] = ()


class Bound(NamedTuple):
    """How many rows of a pass may be masked.

    Args:
        rows: so many.
        manifest: the files whose rows they are.
        source: of a mixture, the name of the source.
    """

    rows: int
    manifest: _core.Manifest
    source: str | None = None


class MaskedRows:
    """Counts and tells what is masked, in this process.

    Args:
        bounds: of a mixture, that of each source; rows of batches over which a function failed count under
            the last one.

    Attributes:
        count: what was masked of the present pass.
    """

    def __init__(self, bounds: Sequence[Bound]) -> None:
        self._bounds = tuple(bounds)
        self._logged: set[object] = set()
        self._form: dict[str, object] | None = None
        self.count = MaskedCount((0,) * len(bounds))

    @classmethod
    def of_files(cls, manifest: _core.Manifest, bound: int) -> Self:
        """That of one dataset, of which so many rows of a pass may be masked."""
        return cls([Bound(bound, manifest)])

    def counted(self, batch: Delivered, loads: int, failed: Failed | None = None) -> MaskedCount:
        """What will be masked of the pass with this batch, over which a function may have failed.

        Raises:
            DataError: if that is more than the bound; it says how many, where, and the first causes.
        """
        place = batch.epoch, loads
        nothing = MaskedCount((0,) * len(self._bounds), place)
        before = self.count if self.count.place == place else nothing
        if not batch.damage and failed is None:
            return before._replace(rows_of_batch=0)
        rows, sources = _numbers(batch)
        found = of_rows(batch.damage, rows, sources)
        counts = list(before.rows)
        if failed is not None:
            masked = batch.valid_rows
            counts[-1] += masked
        else:
            is_masked = among(found, rows, sources)
            masked = int(is_masked.sum())
            own = np.zeros(masked, np.int64) if sources is None else sources[is_masked]
            for number, count in zip(*np.unique(own, return_counts=True), strict=True):
                counts[int(number)] += int(count)
        texts = [self._text(one) for one in found] + ([] if failed is None else [failed.cause])
        new = [text for text in texts if text not in before.causes]
        after = MaskedCount(tuple(counts), place, masked, (*before.causes, *new)[:_NAMED])
        for bound, count in zip(self._bounds, counts, strict=True):
            if count > bound.rows:
                of = "" if bound.source is None else f"of source {bound.source!r} "
                raise _core.DataError(
                    f"max_bad_rows {of}allows {bound.rows} masked rows of a pass in this process, pass "
                    f"{batch.epoch} has {count} by now: {'; '.join(after.causes)}. The state stands before "
                    "this batch: mend what is wrong and go on, or name a larger max_bad_rows"
                )
        return after

    def drops(self, batch: Batch) -> bool:
        """Whether a batch is to be dropped: a function failed over it, and it is none that the loop knows.

        It knows the names, types and shapes of the batch before, of which no function failed.
        """
        failed = batch._origin.failed
        if failed is None:
            self._form = _form(batch)
            return False
        return not failed.is_whole or _form(batch) != self._form

    @staticmethod
    def by_cause(
        batch: Delivered, failed: Failed | None, is_dropped: bool
    ) -> list[tuple[str, npt.NDArray[np.int64]]]:
        """The numbers of the rows that are masked of a batch, by cause."""
        if not batch.damage and failed is None:
            return []
        dropped = "dropped whole: " if is_dropped else ""
        failure = None if failed is None else f"{dropped}{failed.cause}"
        rows, sources = _numbers(batch)
        return masked_of(batch.damage, rows, failure, sources)

    def tell(self, batch: Delivered, failed: Failed | None = None, is_dropped: bool = False) -> None:
        """Logs what is masked of a batch: each range once, and the failure of a function."""
        if failed is not None and failed not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(failed)
            _log.warning("%s: %s", "dropped whole" if is_dropped else "masked as not valid", failed.cause)
        for one in of_rows(batch.damage, *_numbers(batch)):
            if one not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(one)
                _log.warning("masked as not valid: %s", self._text(one))

    def _text(self, one: Range) -> str:
        start, end, cause, *source = one
        bound = self._bounds[int(source[0]) if source else 0]
        of = "" if bound.source is None else f"source {bound.source!r}: "
        _, group, first = locate(bound.manifest, [start])[0]
        return f"{of}rows [{first}, {first + end - start}) of row group {group}: {cause}"


def _numbers(batch: Delivered) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64] | None]:
    """The numbers of the valid rows of a batch; of a mixture, also which source each is of."""
    rows = of_runs(of_buffer(batch.runs))
    if isinstance(batch, _core.Delivered):
        told = batch.written.row_sources()
        sources = None if told is None else of_words(told)
    else:
        made: Any = batch
        sources = made.batch._origin.row_sources
    return rows, None if sources is None else sources[: len(rows)]


def _form(batch: Batch) -> dict[str, object]:
    """The names of a batch's values, with their types and shapes; lengths of rows are not among them."""
    values: dict[str, Any] = batch._tensors
    return {name: _form_of(value, batch.num_rows) for name, value in values.items()}


def _form_of(value: object, rows: int) -> object:
    if isinstance(value, Jagged):
        marks = value.valid is not None, value.values_valid is not None
        return value.kind, value.depth, value.dtype, *marks, len(value) == rows
    if isinstance(value, Tensor):
        shape = tuple(value.shape)
        return value.dtype, ("B", *shape[1:]) if shape[:1] == (rows,) else shape
    return type(value)


def bound_of(most: float, rows: int) -> int:
    """How many rows may be masked, of so many: a count as it is, a share of them rounded down.

    Examples:
        >>> bound_of(7, 1000), bound_of(0.001, 1999)
        (7, 1)
    """
    return most if isinstance(most, int) else math.floor(Fraction(str(most)) * rows)
