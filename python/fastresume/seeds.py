"""Seeds of random transforms: functions of the seed, the epoch and a place in the pass, of nothing else.

What these give is promised as the cursor's format is: a job that resumes under a later release draws the same
numbers. Another hash would be another tag.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ROWS = int.from_bytes(b"rowseed1", "big")
"""The first word of what is hashed for a row: nothing else that is hashed begins with it."""

BATCHES = int.from_bytes(b"genseed1", "big")
"""The first word of what is hashed for a batch."""

_MASK = 2**64 - 1
_GAMMA = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB


def row_seeds(
    positions: npt.NDArray[np.int64], seed: int, epoch: int, draw: int = 0
) -> npt.NDArray[np.int64]:
    """The seeds of rows at positions of a pass: int64 `[n]`, `key(ROWS, seed, epoch, draw, position)`.

    Different positions of one pass have different seeds.

    Example:
        >>> import numpy as np
        >>> row_seeds(np.array([0, 1]), seed=17, epoch=2)
        array([-5766202083799210713, -8205792591636687174])
    """
    word = key(ROWS, seed, epoch, draw)
    words = (positions.view(np.uint64) ^ np.uint64(word)) + np.uint64(_GAMMA)
    words ^= words >> np.uint64(30)
    words *= np.uint64(_FIRST)
    words ^= words >> np.uint64(27)
    words *= np.uint64(_SECOND)
    words ^= words >> np.uint64(31)
    return words.view(np.int64)


def batch_seed(seed: int, epoch: int, step: int, rank: int, draw: int = 0) -> int:
    """The seed of a rank's batch: a 64-bit word, `key(BATCHES, seed, epoch, draw, step, rank)`."""
    return key(BATCHES, seed, epoch, draw, step, rank)


def key(*words: int) -> int:
    """A 64-bit hash of 64-bit words: `h = 0; for w in words: h = mix((h ^ w) + gamma)`, as SplitMix64."""
    result = 0
    for word in words:
        result = _mix(((result ^ word) + _GAMMA) & _MASK)
    return result


def _mix(word: int) -> int:
    word = (word ^ word >> 30) * _FIRST & _MASK
    word = (word ^ word >> 27) * _SECOND & _MASK
    return word ^ word >> 31
