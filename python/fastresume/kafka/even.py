"""How many rows of a stream make whole global batches: alone, or beside the other sources of a mixture."""

from __future__ import annotations

from dataclasses import dataclass, field

import fastresume._core as _core


@dataclass(frozen=True)
class Even:
    """Which numbers of rows make whole global batches.

    Args:
        of_batch: the rows of a global batch.
        weights: of the sources that share the batches, as integers.
        source: which of them the stream is.

    Examples:
        >>> Even(8).rows(30), Even(8, (3, 1), 1).rows(30)
        (24, 30)
    """

    of_batch: int
    weights: tuple[int, ...] = (1,)
    source: int = 0
    _period: _core.Period = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_period", _core.Period(self.weights))

    def rows(self, most: int) -> int:
        """The greatest number of rows up to `most` after which a batch ends."""
        return self._period.rows_in_batches(self.source, most, self.of_batch)

    def enough(self, rest: int) -> int:
        """A number of rows with which a batch ends after `rest` rows of them."""
        return self.of_batch if sum(self.weights) == 1 else rest + self.of_batch
