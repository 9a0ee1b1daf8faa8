"""Rows of lists, cut into sequences of one length."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.jagged import Jagged
from fastresume.batch.schema import Tensors
from fastresume.options.units import Packed

Words = npt.NDArray[np.int64]


class Cut(NamedTuple):
    """Units: their tensors, and the row numbers that each is made of.

    Args:
        tensors: values of units (`[n, length]`), or of rows.
        rows: the row numbers of the units' documents, or rows, unit after unit: int64.
        offsets: where those of each unit begin, then their number: int64 `[n + 1]`.
    """

    tensors: Tensors
    rows: Words
    offsets: Words


def cut(packed: Packed, rows: Tensors, numbers: Words, skipped: int, units: int) -> Cut:
    """The sequences that rows are cut into.

    Args:
        packed: how they are cut.
        rows: the lists.
        numbers: the row numbers.
        skipped: so many tokens at the beginning are of the unit before.
        units: how many there are; the last one is filled up where the tokens end.

    Raises:
        DataError: if an element is null, which has no number.
    """
    length = packed.length
    columns = {name: _lists(rows[name], name) for name in packed.names}
    first = next(iter(columns.values()))
    lengths = first.lengths
    there = lengths > 0
    documents = lengths[there] + (packed.separator is not None)
    ends = torch.cumsum(documents, 0)
    begins = ends - documents
    total = units * length
    # The document that each token is of, counted over all rows, and its place in that.
    of = torch.repeat_interleave(torch.arange(len(documents), dtype=torch.int32), documents)
    places = torch.arange(len(of), dtype=torch.int32) - begins.to(torch.int32)[of]
    kept = slice(skipped, min(skipped + total, len(of)))
    filled = total - (kept.stop - kept.start)
    tensors: Tensors = {
        name: _filled(_flat(column.values, packed.separator, lengths[there])[kept], filled, 0).view(
            units, length
        )
        for name, column in columns.items()
    }
    of = _filled(of[kept], filled, -1).view(units, length)
    firsts, lasts = of[:, 0], of.max(dim=1).values
    tensors["document"] = torch.where(of < 0, of, of - firsts[:, None])
    tensors["position"] = _filled(places[kept], filled, 0).view(units, length)
    counts = (lasts - firsts + 1).numpy().astype(np.int64)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    own = np.repeat(firsts.numpy().astype(np.int64), counts) + within
    return Cut(tensors, numbers[there.numpy()][own], offsets)


def _lists(value: Tensor | Jagged, name: str) -> Jagged:
    if not isinstance(value, Jagged) or isinstance(value.values, Jagged):
        raise _core.DataError(f"column '{name}' is no list of values, and can't be packed")
    if value.values_valid is not None and not bool(value.values_valid.all()):
        raise _core.DataError(
            f"column '{name}': an element of a list is null, and has no number in a sequence: "
            f"fr.col('{name}').fill_null(value) says which one it gets"
        )
    return value


def _flat(values: Any, separator: int | None, lengths: Tensor) -> Any:
    """The elements of all lists, one after another, with the separator behind each that is not empty."""
    if separator is None:
        return values
    found = values.new_full((len(values) + len(lengths),), separator)
    shift = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    found[torch.arange(len(values)) + shift] = values
    return found


def _filled(values: Tensor, count: int, value: int) -> Tensor:
    return values if count <= 0 else torch.cat([values, values.new_full((count,), value)])
