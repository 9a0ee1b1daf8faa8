"""The damaged rows that were masked in this process: counted against the bound, and logged once each."""

from __future__ import annotations

import logging
import math
from fractions import Fraction
from typing import NamedTuple

import fastresume._core as _core
from fastresume.batch.damage import Damage, among, of_rows
from fastresume.batch.delivered import Delivered
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
        damage: the first ranges that they are of.
    """

    place: tuple[int, int] = (0, 0)
    rows: int = 0
    rows_of_batch: int = 0
    damage: Damage = ()


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
        self._logged: set[tuple[int, int, str]] = set()
        self.count = MaskedCount()

    def counted(self, batch: Delivered, loads: int) -> MaskedCount:
        """What will be masked of the pass with this batch.

        Raises:
            DataError: if that is more than the bound; it says how many, where, and the first causes.
        """
        place = batch.epoch, loads
        before = self.count if self.count.place == place else MaskedCount(place)
        if not batch.damage:
            return before._replace(rows_of_batch=0)
        rows = of_runs(of_buffer(batch.runs))
        found = of_rows(batch.damage, rows)
        masked = int(among(found, rows).sum())
        new = [one for one in found if one not in before.damage]
        after = MaskedCount(place, before.rows + masked, masked, (*before.damage, *new)[:_NAMED])
        if after.rows > self._bound:
            causes = "; ".join(self._text(one) for one in after.damage)
            raise _core.DataError(
                f"max_bad_rows allows {self._bound} damaged rows of a pass in this process, pass "
                f"{batch.epoch} has {after.rows} by now: {causes}. The state stands before this batch: mend "
                "the files and go on, or name a larger max_bad_rows"
            )
        return after

    def tell(self, batch: Delivered) -> None:
        """Logs the damage of a batch, each range once."""
        for one in of_rows(batch.damage, of_runs(of_buffer(batch.runs))):
            if one not in self._logged and len(self._logged) < _MOST_LOGGED:
                self._logged.add(one)
                _log.warning("masked as not valid: %s", self._text(one))

    def _text(self, one: tuple[int, int, str]) -> str:
        start, end, cause = one
        _, group, first = locate(self._manifest, [start])[0]
        return f"rows [{first}, {first + end - start}) of row group {group}: {cause}"


def bound_of(most: float, rows: int) -> int:
    """How many rows may be masked, of so many: a count as it is, a share of them rounded down.

    Example:
        >>> bound_of(7, 1000), bound_of(0.001, 1999)
        (7, 1)
    """
    return most if isinstance(most, int) else math.floor(Fraction(str(most)) * rows)
