"""Which rows of the files a dataset consists of, and in which order they come."""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import Intervals, of_buffer, to_array
from fastresume.messages import bounds_messages
from fastresume.options.checks import at_least, truth

PARTS = 2**53
"""Hashes of rows are counted in so many parts of the whole."""


@dataclass(frozen=True)
class Split:
    """A share of the rows by a hash of their numbers: those whose hash lies in `[start, stop)`.

    Every row number has a hash from 0 to below 1, which the seed alone chooses: the same on every machine, in
    every release, whatever the order, the ranks and the number of rows. Splits of one seed that lie side by
    side have no row in common, and those that cover `[0, 1)` have all rows.

    Args:
        start, stop: the share, from 0 to 1.
        seed: another one, other rows.

    Raises:
        ValueError: if they are no share: `0 <= start <= stop <= 1`.

    Example:
        >>> train, validation = Split(0.0, 0.9, seed=1), Split(0.9, 1.0, seed=1)
        >>> validation.rows(30).tolist()
        [[0, 2], [17, 18], [20, 21]]
    """

    start: float
    stop: float
    seed: int = 0

    @bounds_messages
    def __post_init__(self) -> None:
        for name in ("start", "stop"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float, Fraction, np.floating)):
                raise TypeError(f"{name} must be a number, found {value!r}")
            if isinstance(value, np.floating):
                object.__setattr__(self, name, float(value))
        if not 0 <= self.start <= self.stop <= 1:
            raise ValueError(f"a split is a share of [0, 1), found [{self.start!r}, {self.stop!r})")
        object.__setattr__(self, "seed", at_least(0, "seed", self.seed))

    def rows(self, num_rows: int) -> Intervals:
        """The split's rows among so many, as intervals: int64 `[n, 2]`, half open, sorted, coalesced."""
        # Exact: a float is a fraction, and a whole number of parts is at least it or not.
        start, stop = (math.ceil(Fraction(bound) * PARTS) for bound in (self.start, self.stop))
        return of_buffer(_core.split_rows(at_least(0, "num_rows", num_rows), start, stop, self.seed))


Rows = Split | npt.ArrayLike
"""A split, a boolean mask, or intervals."""


def select(manifest: _core.Manifest, rows: Rows | None, skip: npt.ArrayLike | None) -> _core.Manifest:
    """The manifest with its selection: what `rows` says (all of them if None), but for what `skip` says.

    Raises:
        ValueError: if a mask is not of all rows, or intervals go beyond them.
        TypeError: if `rows` is something else.
    """
    if rows is None and skip is None:
        return manifest
    total = manifest.num_rows
    selected = np.array([[0, total]]) if rows is None else _rows(rows, total)
    if skip is not None:
        kept = of_buffer(_core.remaining(_intervals("skip", skip, total), total))
        selected = of_buffer(_core.intersection(selected, kept))
    return manifest.select(selected)


def _rows(rows: Rows, total: int) -> Intervals:
    if isinstance(rows, Split):
        return rows.rows(total)
    array = np.asarray(rows)
    if array.dtype != np.bool_:
        return _intervals("rows", rows, total)
    if array.shape != (total,):
        raise ValueError(
            f"a mask of rows must have the shape [{total}], one value for each row of the files, found "
            f"{list(array.shape)}"
        )
    return of_buffer(_core.marked(np.ascontiguousarray(array).view(np.uint8)))


def _intervals(name: str, given: npt.ArrayLike, total: int) -> Intervals:
    try:
        array = to_array(given)
    except (TypeError, ValueError) as cause:
        if name != "rows":
            raise ValueError(f"{name} must be intervals: {cause}") from None
        raise ValueError(
            f"rows must be intervals, a boolean mask or a Split, found {reprlib.repr(given)}: write "
            f"[[start, stop], ...], a bool for each of the {total} rows, or fr.Split(0.0, 0.9); {cause}"
        ) from None
    if array.max(initial=0) > total:
        raise ValueError(f"{name} must lie in the {total} rows of the files, found one up to {array.max()}")
    return array


OrderChoice = tuple[int | None, int | None, int | None] | None
"""Seed, rows of a block and rows of a window, as far as they were named; None of a sequential order."""


def order_choice(
    shuffle: bool, seed: int | None, block_rows: int | None, window_rows: int | None
) -> OrderChoice:
    """What is named of the order; None of a sequential one."""
    named_seed = None if seed is None else at_least(0, "seed", seed)
    block = None if block_rows is None else at_least(1, "block_rows", block_rows)
    window = None if window_rows is None else at_least(1, "window_rows", window_rows)
    if truth("shuffle", shuffle):
        return named_seed, block, window
    if block is not None or window is not None:
        raise ValueError(
            "block_rows and window_rows are sizes of the shuffled order: pass shuffle=True with them"
        )
    return None
