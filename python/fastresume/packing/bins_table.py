"""Which rows each bin, or other unit of whole rows, consists of."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.audit.log_format import mix
from fastresume.audit.ranges import chunks
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, of_buffer, of_runs, of_words

Words = npt.NDArray[np.int64]
Digests = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class BinsTable:
    """The bins of all row groups; or other units, which hold whole rows as these do.

    Args:
        core: which rows each consists of.

    Attributes:
        starts: the first bin of each row group, then their number: int64 `[groups + 1]`.
        first_ordinals: the first selected row of each bin, then the number of rows: int64 `[bins + 1]`.
    """

    core: _core.UnitTable
    starts: Words = field(init=False, compare=False, repr=False)
    first_ordinals: Words = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        for name, words in zip(("starts", "first_ordinals"), self.core.arrays(), strict=True):
            object.__setattr__(self, name, of_words(words))

    def __reduce__(self) -> tuple[type[BinsTable], tuple[_core.UnitTable]]:
        return BinsTable, (self.core,)

    @property
    def dropped_tokens(self) -> int:
        """Nothing is dropped."""
        return 0

    @property
    def num_bytes(self) -> int:
        """The bytes of the table."""
        return self.core.num_bytes()

    def warn_of_drops(self) -> None:
        """Nothing is dropped."""

    def packing(self, _rows: Schema) -> None:
        """Nothing is packed."""

    def ordinals(self, units: Intervals, _manifest: _core.Manifest, _columns: list[str]) -> Intervals:
        """The selected rows that are in these units."""
        ordinals: Intervals = self.first_ordinals[units]
        return ordinals

    def contents(self, manifest: _core.Manifest, _columns: list[str]) -> Digests:
        """The digest of the rows of each bin: that of all of them adds up to that of the selected rows."""
        selected = manifest.selected
        runs = np.array([[0, manifest.num_rows]]) if selected is None else of_buffer(selected)
        contents, done = np.zeros(len(self.first_ordinals) - 1, np.uint64), 0
        for part in chunks(runs):
            words = mix(of_runs(part).astype(np.uint64) + np.uint64(1))
            ordinals = np.arange(done, done + len(words))
            np.add.at(contents, np.searchsorted(self.first_ordinals, ordinals, "right") - 1, words)
            done += len(words)
        return contents
