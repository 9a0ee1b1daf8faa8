"""The rows that were masked in this process: counted against the bound, and logged once each.

They are damaged, or a function given to `map` failed over their batch.
"""

from __future__ import annotations

import logging
import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.damage import among, masked_of, of_rows
from fastresume.batch.delivered import Delivered
from fastresume.batch.jagged import Jagged
from fastresume.batch.origin import Failed
from fastresume.buffers import of_buffer, of_runs
from fastresume.reading.row_places import locate

_log = logging.getLogger("fastresume")

_NAMED = 3
"""So many causes are named in an error."""

_MOST_LOGGED = 4096
"""The most ranges of rows that are remembered as logged."""


class MaskedCount(NamedTuple):
    """What was masked of one pass.

    Args:
        place: the pass, and how many states were loaded before it.
        rows: how many rows were masked.
        rows_of_batch: how many of these are of the last batch.
        causes: why, of the first of them.
    """

    place: tuple[int, int] = (0, 0)
    rows: int = 0
    rows_of_batch: int = 0
    causes: tuple[str, ...] = ()


class MaskedRows:
    """Counts and tells what is masked, in this process.

    Args:
        manifest: the files.
        bound: so many rows of a pass may be masked.

    Attributes:
        count: what was masked of the present pass.
    """

    def __init__(self, manifest: _core.Manifest, bound: int) -> None:
        self._manifest = manifest
        self._bound = bound
        self._logged: set[object] = set()
        self._form: dict[str, object] | None = None
        self.count = MaskedCount()

    def counted(self, batch: Delivered, loads: int, failed: Failed | None = None) -> MaskedCount:
        """What will be masked of the pass with this batch, over which a function may have failed.

        Raises:
            DataError: if that is more than the bound; it says how many, where, and the first causes.
        """
        place = batch.epoch, loads
        before = self.count if self.count.place == place else MaskedCount(place)
        if not batch.damage and failed is None:
            return before._replace(rows_of_batch=0)
        rows = of_runs(of_buffer(batch.runs))
        found = of_rows(batch.damage, rows)
        masked = int(among(found, rows).sum()) if failed is None else batch.valid_rows
        texts = [self._text(one) for one in found] + ([] if failed is None else [failed.cause])
        new = [text for text in texts if text not in before.causes]
        after = MaskedCount(place, before.rows + masked, masked, (*before.causes, *new)[:_NAMED])
        if after.rows > self._bound:
            raise _core.DataError(
                f"max_bad_rows allows {self._bound} masked rows of a pass in this process, pass "
                f"{batch.epoch} has {after.rows} by now: {'; '.join(after.causes)}. The state stands before "
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
        return masked_of(batch.damage, of_runs(of_buffer(batch.runs)), failure)

    def tell(self, batch: Delivered, failed: Failed | None = None, is_dropped: bool = False) -> None:
        """Logs what is masked of a batch: each range once, and the failure of a function."""
        if failed is not None and failed not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(failed)
            _log.warning("%s: %s", "dropped whole" if is_dropped else "masked as not valid", failed.cause)
        for one in of_rows(batch.damage, of_runs(of_buffer(batch.runs))):
            if one not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(one)
                _log.warning("masked as not valid: %s", self._text(one))

    def _text(self, one: tuple[int, int, str]) -> str:
        start, end, cause = one
        _, group, first = locate(self._manifest, [start])[0]
        return f"rows [{first}, {first + end - start}) of row group {group}: {cause}"


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

    Example:
        >>> bound_of(7, 1000), bound_of(0.001, 1999)
        (7, 1)
    """
    return most if isinstance(most, int) else math.floor(Fraction(str(most)) * rows)
