"""What each selected row costs: the length of its list, or its number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.batch.schema import Schema
from fastresume.buffers import of_words
from fastresume.columns.request import column_request
from fastresume.options.world import default_threads

Costs = npt.NDArray[np.int64]

TEXTS = "texts: tokenize them first, as docs/how-to/tokenize.md does"
"""What is said of a column that has no tokens yet."""

_AT_ONCE = 64
"""Costs of this many row groups are in memory at a time."""


def list_lengths(
    manifest: _core.Manifest, names: Sequence[str], groups: range | None = None
) -> Iterator[Costs]:
    """The lengths of the selected rows' lists, a row group after another; several threads read levels alone.

    Args:
        manifest: the files, and which of their rows are selected.
        names: the columns; in each row their lists have the same lengths.
        groups: the row groups, by their numbers over all files; all if None.

    Raises:
        DataError, SourceError: if a column is no list of values, the lists of a row have different lengths,
            or a file can't be read.
    """
    groups = range(manifest.num_row_groups) if groups is None else groups
    for first in range(groups.start, groups.stop, _AT_ONCE):
        some = first, min(first + _AT_ONCE, groups.stop)
        lengths, counts = _core.list_lengths(manifest, list(names), some, default_threads())
        yield from np.split(of_words(lengths), np.cumsum(of_words(counts))[:-1])


def numbers_of(manifest: _core.Manifest, name: str) -> _core.Layout | None:
    """What reads the numbers that rows cost by a column; None if they cost the lengths of its lists.

    Raises:
        DataError: if the column is neither one of lists of values nor one of integers.
    """
    layout = column_request([name], "mask").layout(manifest)
    schema = Schema(layout)
    if name not in schema:
        parts = ", ".join(f"fr.Bins({key!r}, cost=...)" for key in schema if not key.endswith("_valid"))
        raise _core.DataError(
            f"column '{name}' is a struct, and costs nothing by itself: write one of {parts}"
        )
    field = schema[name]
    if field.kind == "list":
        return None
    is_number = field.kind == "scalar" and field.size is None
    if not is_number or field.dtype.is_floating_point:
        way = f"frame['length'] = frame[{name!r}].map(len), and fr.Bins('length', cost=...)"
        if is_number:
            way = f"frame[{name!r}] = frame[{name!r}].round().astype('Int64'): a cast comes later"
        shape = f"{field.dtype} of shape {list(field.shape)}"
        found = TEXTS if field.kind == "string" else f"{shape}; write integers to the file, as {way}"
        raise _core.DataError(
            f"column '{name}': a row costs the length of a list or an integer, found {found}"
        )
    return layout
