"""What torchrec's KeyedJaggedTensor is made of: the rows of several keys, and the weights of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fastresume.amounts import plural
from fastresume.packages import optional

_TORCH = ".".join(torch.__version__.split(".")[:2])
_RELEASES = f"in the release for torch {_TORCH}, with its fbgemm-gpu: 1.9 is for torch 2.14"
"""Each release of torchrec is for one of torch, and pip does not know it."""


class KeyedRows(NamedTuple):
    """The rows of one key: row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Tensor
    offsets: Tensor
    weights: Tensor | None = None

    def without(self, marks: Tensor | None) -> KeyedRows:
        """The same rows without the values whose mark (bool `[n]`) is False; itself if there is none."""
        if marks is None or bool(marks.all()):
            return self
        kept = torch.zeros(len(marks) + 1, dtype=torch.int64, device=marks.device)
        torch.cumsum(marks, dim=0, out=kept[1:])
        weights = None if self.weights is None else self.weights[marks]
        return KeyedRows(self.values[marks], kept[self.offsets], weights)

    def __repr__(self) -> str:
        dtype = str(self.values.dtype).removeprefix("torch.")
        return f"{plural(len(self.offsets) - 1, 'row')} of {dtype}"


def weights_of(key: str, offsets: Tensor, weights: Tensor, own_offsets: Tensor) -> Tensor:
    """The weights of a key's values, in rows like these.

    Raises:
        ValueError: if a row has another number of weights than of values; names the key and the row.
    """
    lengths, own = offsets.diff(), own_offsets.diff()
    if len(lengths) != len(own):
        raise ValueError(f"{key!r} has {plural(len(lengths), 'row')}, and its weights have {len(own)}")
    if not torch.equal(lengths, own):
        row = int((lengths != own).nonzero()[0])
        raise ValueError(
            f"{key!r} has {plural(int(lengths[row]), 'value')} in row {row} of the batch, and "
            f"{plural(int(own[row]), 'weight')}: each value has one"
        )
    return weights


def keyed_jagged_tensor(rows: Mapping[str, KeyedRows]) -> Any:
    """The rows of several keys as torchrec's KeyedJaggedTensor, in the order of the keys.

    Where some keys have weights, those of the others are 1.

    Raises:
        ModuleNotFoundError: if torchrec is not installed.
        ValueError: if there is no key, or if they differ in type or number of rows; names both.
    """
    if not rows:
        raise ValueError("a KeyedJaggedTensor of no keys has no rows")
    made = _keyed_jagged_tensor_class()
    (first, one), *others = rows.items()
    for key, other in others:
        if (other.values.dtype, len(other.offsets)) != (one.values.dtype, len(one.offsets)):
            raise ValueError(
                f"a KeyedJaggedTensor has values of one type, and one number of rows: {first!r} is {one}, "
                f"{key!r} is {other}"
            )
    weights = _weights(rows)
    count = len(one.offsets) - 1
    if not others:
        return made(keys=[first], values=one.values, weights=weights, offsets=one.offsets, stride=count)
    values = torch.cat([found.values for found in rows.values()])
    lengths = torch.cat([found.offsets.diff() for found in rows.values()])
    return made(keys=list(rows), values=values, weights=weights, lengths=lengths, stride=count)


def _keyed_jagged_tensor_class() -> Any:
    """Torchrec's class.

    Raises:
        ImportError: if torchrec is not installed, or is that of another release of torch.
    """
    try:
        return optional("torchrec", "to_keyed_jagged_tensor", f"torchrec, {_RELEASES}").KeyedJaggedTensor
    except OSError as error:  # of its compiled parts
        raise ImportError(f"torchrec does not import. Install {_RELEASES}: {error}") from error


def _weights(rows: Mapping[str, KeyedRows]) -> Tensor | None:
    """The weights of all keys, one after the other; None if no key has any.

    Raises:
        ValueError: if they differ in type; names both.
    """
    named = [(key, found.weights) for key, found in rows.items() if found.weights is not None]
    if not named:
        return None
    first, one = named[0]
    other = next((each for each in named if each[1].dtype != one.dtype), None)
    if other is not None:
        raise ValueError(
            f"a KeyedJaggedTensor has weights of one type: those of {first!r} are {one.dtype}, "
            f"those of {other[0]!r} are {other[1].dtype}"
        )
    if len(rows) == 1:
        return one
    return torch.cat(
        [
            torch.ones(len(found.values), dtype=one.dtype, device=one.device)
            if found.weights is None
            else found.weights
            for found in rows.values()
        ]
    )
