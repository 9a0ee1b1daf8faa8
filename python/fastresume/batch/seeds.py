"""Seeds of random transforms: functions of the seed, the epoch and a place in the pass only.

The numbers are promised like the cursor's format: a job that resumes under a later release draws the same
ones. Another hash would have another tag.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import of_words

ROWS = int.from_bytes(b"rowseed1", "big")
"""The first word of a row's hash: no other hash begins with it."""

BATCHES = int.from_bytes(b"genseed1", "big")
"""The first word of a batch's hash."""

_MASK = 2**64 - 1


def row_seeds(
    positions: npt.NDArray[np.int64], seed: int, epoch: int, draw: int = 0
) -> npt.NDArray[np.int64]:
    """The seeds of rows at positions of a pass: int64 `[n]`, `key(ROWS, seed, epoch, draw, position)`.

    Different positions of one pass have different seeds.

    Examples:
        >>> import numpy as np
        >>> row_seeds(np.array([0, 1]), seed=17, epoch=2)
        array([-5766202083799210713, -8205792591636687174])
    """
    return _keys((ROWS, seed, epoch, draw), positions)


def batch_seed(seed: int, epoch: int, step: int, rank: int, draw: int = 0) -> int:
    """The seed of a rank's batch: a 64-bit word, `key(BATCHES, seed, epoch, draw, step, rank)`."""
    (found,) = _keys((BATCHES, seed, epoch, draw, step), np.array([rank], np.int64))
    return int(found) & _MASK


def _keys(words: tuple[int, ...], numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The core's hash of the words followed by each number; of a longer word, its lowest 64 bits."""
    return of_words(_core.keys([word & _MASK for word in words], np.ascontiguousarray(numbers)))
