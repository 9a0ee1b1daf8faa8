"""The keys of a batch: names of tensors, and what to write instead of others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from fastresume.messages import bounded
from fastresume.options.checks import quoted


def no_tensor(key: object, there: Iterable[str]) -> KeyError | TypeError:
    """The error for a key that a batch does not have."""
    if isinstance(key, list | tuple) and all(isinstance(name, str) for name in key):
        return TypeError(
            f"the keys of a batch are single names, found {quoted(key)}: write {{name: batch[name] for name "
            "in names}, or columns= of the dataset"
        )
    if isinstance(key, str):
        return KeyError(bounded(f"no tensor {key!r} in the batch; there are: {', '.join(there)}"))
    way = "slice its tensors, as batch['name'][:3]"
    if isinstance(key, Tensor | np.ndarray):
        way = (
            "write {name: batch[name][rows] for name in batch} for some rows, filter= of the dataset, or "
            "batch.mask(rows, reason) in dataset.map(function)"
        )
    message = f"the keys of a batch are names, found {quoted(key)}: {way}"
    return TypeError(message) if isinstance(key, slice | Tensor | np.ndarray) else KeyError(message)
