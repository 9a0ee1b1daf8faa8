"""Rows of a batch that a function given to `map` masked, or over which it failed, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

import fastresume._core as _core
from fastresume.messages import bounded
from fastresume.options.checks import quoted
from fastresume.options.masks import in_order, refuse_ones


class Mark(NamedTuple):
    """Rows of one batch that are not valid for one reason.

    Args:
        places: which rows of the batch: int64, ascending, each once.
        cause: why.
    """

    places: npt.NDArray[np.int64]
    cause: str


class OpenMarks(list[Mark]):
    """The marks of a batch that functions are given, which may add others."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[Tensor] = []

    def shown(self, valid: Tensor) -> Tensor:
        """What a function sees as `batch.valid`: to write to it would mask nothing."""
        self._shown.append(valid)
        return valid

    def check_unwritten(self) -> None:
        """Refuses that a function has written to `batch.valid`.

        Raises:
            ValueError: if so; it says what to write.
        """
        if any(not valid.is_inference() and valid._version for valid in self._shown):
            raise ValueError(
                "batch.valid was written to, which masks nothing: write batch.mask(rows, reason), which "
                "counts the rows, too; or batch.valid.clone() for a copy"
            )


def add_mark(marks: Sequence[Mark], rows: object, reason: object, num_rows: int) -> None:
    """Adds what `batch.mask(rows, reason)` masks to the marks of a batch.

    Raises:
        FastresumeError: if they are open no more: the functions are done with the batch.
    """
    if not isinstance(marks, OpenMarks):
        raise _core.FastresumeError(
            "batch.mask(rows, reason) was called outside of a function given to dataset.map(), and what is "
            "masked of this batch is counted already: call it in such a function"
        )
    marks.append(mark_of(rows, reason, num_rows))


def mark_of(rows: object, reason: object, num_rows: int) -> Mark:
    """The mark of rows that are given by their places, or by a truth value for each of `num_rows`.

    Raises:
        TypeError, ValueError, IndexError: if there are no such rows, or the reason is no text.

    Examples:
        >>> mark_of([False, True, True], "too dark", num_rows=3).places
        array([1, 2])
    """
    if not isinstance(reason, str) or not reason:
        raise TypeError(f"batch.mask(rows, reason) takes the reason as a text, found {quoted(reason)}")
    is_tensor, given = isinstance(rows, Tensor), rows
    if isinstance(rows, Tensor):
        given = rows.detach().cpu().numpy()
    given = np.atleast_1d(np.asarray(in_order(given, "batch.mask(rows.to_numpy(), reason)")))
    if given.size == 0 and given.ndim == 1 and given.dtype != np.bool_:
        given = given.astype(np.int64)
    if given.ndim != 1 or given.dtype.kind not in "biu":
        raise TypeError(
            "batch.mask(rows, reason) takes rows as their places in the batch (integers) or as a bool for "
            f"each row, found {quoted(rows)}"
        )
    if given.dtype == np.bool_:
        if len(given) != num_rows:
            raise ValueError(
                f"batch.mask(rows, reason) takes a bool for each row of the batch, {num_rows} in all, found "
                f"{len(given)}"
            )
        return Mark(np.flatnonzero(given), bounded(reason))
    outside = given[(given < 0) | (given >= num_rows)]
    if outside.size:
        raise IndexError(f"row {outside[0]} is not in [0, {num_rows}), the places of the batch's rows")
    as_mask = "rows.bool()" if is_tensor else "numpy.asarray(rows, bool)"
    refuse_ones("batch.mask(rows, reason)", given, num_rows, f"batch.mask({as_mask}, reason)")
    places, counts = np.unique(given, return_counts=True)
    if len(places) < len(given):
        raise ValueError(
            f"batch.mask(rows, reason) has row {places[counts > 1][0]} twice: write "
            f"batch.mask({'rows' if is_tensor else 'numpy'}.unique({'' if is_tensor else 'rows'}), reason)"
        )
    return Mark(places.astype(np.int64), bounded(reason))
