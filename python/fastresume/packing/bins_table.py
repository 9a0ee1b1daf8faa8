"""Which rows each bin consists of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import Intervals, of_words
from fastresume.options.units import Bins

Words = npt.NDArray[np.int64]

CHUNK_COST = 1 << 20
"""About so much cost is decoded in one go."""


@dataclass(frozen=True)
class BinsTable:
    """The units of all row groups.

    Args:
        bins: how they are made.
        starts: the first bin of each row group, then the number of bins: int64 `[groups + 1]`.
        first_ordinals: the first selected row of each bin, then the number of rows: int64 `[bins + 1]`.
    """

    bins: Bins
    starts: Words
    first_ordinals: Words

    @classmethod
    def of(cls, bins: Bins, costs: Iterator[Words]) -> BinsTable:
        """The table of selected rows with these costs, a row group after another.

        Raises:
            DataError: if a row costs more than a bin may, where that is an error, or less than 0.
        """
        starts, firsts, rows = [0], [], 0
        for group, found in enumerate(costs):
            begun = _begins(bins, found, group)
            firsts.append(begun + rows)
            rows += len(found)
            starts.append(starts[-1] + len(begun))
        first_ordinals = np.concatenate([np.empty(0, np.int64), *firsts, [rows]])
        return cls(bins, np.array(starts, np.int64), first_ordinals.astype(np.int64))

    @classmethod
    def of_arrays(cls, bins: Bins, arrays: list[Words]) -> BinsTable:
        """The table of which these are the `arrays`."""
        starts, first_ordinals = arrays
        return cls(bins, starts, first_ordinals)

    @property
    def arrays(self) -> list[Words]:
        """All of it but how units are made, to be kept."""
        return [self.starts, self.first_ordinals]

    def file_starts(self, manifest: _core.Manifest) -> Words:
        """The first unit of each file, then the number of units."""
        starts: Words = self.starts[of_words(manifest.file_groups)]
        return starts

    @property
    def dropped_tokens(self) -> int:
        """Nothing is dropped."""
        return 0

    @property
    def num_bytes(self) -> int:
        """The bytes of the table."""
        return self.starts.nbytes + self.first_ordinals.nbytes

    @property
    def told(self) -> str:
        """How units are made, as a state's hash has it."""
        return f"bins {self.bins.name} {self.bins.cost} {self.bins.rows}"

    @property
    def chunk_units(self) -> int:
        """How many units are decoded in one go."""
        return max(1, CHUNK_COST // self.bins.cost)

    def stretch(self, group: int, start: int, end: int) -> tuple[int, int]:
        """The rows of the bins `[start, end)` of a row group: which of the selected ones, `[start, end)`."""
        first = int(self.starts[group])
        return int(self.first_ordinals[first + start]), int(self.first_ordinals[first + end])

    def ordinals(self, units: Intervals, _manifest: _core.Manifest, _columns: list[str]) -> Intervals:
        """The selected rows that are in these units."""
        ordinals: Intervals = self.first_ordinals[units]
        return ordinals

    def offsets(self, group: int, start: int, end: int) -> Words:
        """Where each of these bins begins among their rows, then the number of these."""
        first = int(self.starts[group])
        found = self.first_ordinals[first + start : first + end + 1]
        begins: Words = found - found[0]
        return begins


def _begins(bins: Bins, costs: Words, group: int) -> Words:
    """The first rows of the bins of a row group."""
    if len(costs) and int(costs.min()) < 0:
        raise _core.DataError(
            f"column '{bins.name}', row group {group}: a row costs {int(costs.min())}, a cost is at least 0"
        )
    if bins.oversized == "error" and len(costs) and int(costs.max()) > bins.cost:
        row = int((costs > bins.cost).argmax())
        raise _core.DataError(
            f"column '{bins.name}', row group {group}: selected row {row} of it costs {int(costs[row])}, "
            f"and a bin at most {bins.cost}: write oversized='alone', or a larger cost="
        )
    ends = np.cumsum(costs)
    begins, row, most = [], 0, bins.rows or len(costs)
    while row < len(costs):
        begins.append(row)
        before = int(ends[row] - costs[row])
        fits = int(np.searchsorted(ends, before + bins.cost, side="right"))
        row = min(max(fits, row + 1), row + most)
    return np.array(begins, np.int64)
