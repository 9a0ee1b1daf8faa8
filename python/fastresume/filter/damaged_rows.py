"""Rows for which a damaged page hides whether a filter keeps them, or what they cost."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch.damage import Range, among, of_rows

_log = logging.getLogger("fastresume")

_NAMED = 3
"""An error names this many causes."""


class DamagedRows:
    """Counts the rows that are left out since they are damaged, and logs each range of them once.

    Args:
        most: this many may be left out; None if damage is an error.
        by: who reads them, in words.
        of: what they are left out of.

    Attributes:
        count: how many were left out.
    """

    def __init__(self, most: int | None, by: str = "the filter", of: str = "what the filter keeps") -> None:
        self._most = most
        self._by, self._of = by, of
        self._reported: dict[Range, None] = {}
        self.count = 0

    @property
    def are_left_out(self) -> bool:
        """Whether damage is no error."""
        return self._most is not None

    def among(self, damage: Sequence[Range], rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the rows that were read are damaged.

        Raises:
            DataError: if these are more than the bound, with the first causes.
        """
        found = among(damage, rows)
        for one in of_rows(damage, rows):
            if one not in self._reported:
                self._reported[one] = None
                start, end, cause, *_ = one
                _log.warning("left out of %s: rows [%d, %d): %s", self._of, start, end, cause)
        self.count += int(found.sum())
        if self._most is not None and self.count > self._most:
            causes = "; ".join(each[2] for each in list(self._reported)[:_NAMED])
            raise _core.DataError(
                f"bad_rows= allows {plural(self._most, 'row')} to be left out since {self._by} can't read "
                f"them, and there are {self.count} by now: {causes}. Mend the files, or allow more: "
                "bad_rows=fr.MaskBadRows(at_most=n)"
            )
        return found
