"""What each selected row costs: the length of its list, or its number."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.batch.schema import Schema
from fastresume.buffers import of_buffer, of_runs, of_words
from fastresume.columns.request import column_request
from fastresume.options.topology import default_threads
from fastresume.packing.unreadable import Unreadable

_log = logging.getLogger("fastresume")

Costs = npt.NDArray[np.int64]

_READ_ROWS = 1 << 16
_READ_BYTES = 64 << 20
"""A column of numbers is read in batches of so many rows, so many bytes ahead."""

_SECONDS = 10.0
"""So often the log tells how far it is."""

_AT_ONCE = 64
"""Costs of so many row groups are in memory at a time."""


def list_lengths(
    manifest: _core.Manifest,
    names: Sequence[str],
    groups: Sequence[int] | None = None,
    unreadable: Unreadable | None = None,
) -> Iterator[Costs]:
    """The lengths of the selected rows' lists, a row group after another; several threads read levels alone.

    Args:
        manifest: the files, and which of their rows are selected.
        names: the columns; in each row their lists have the same lengths.
        groups: the row groups, by their numbers over all files; all if None.
        unreadable: what notes the rows that can't be read, and are left out; None if one is an error.

    Raises:
        DataError, SourceError: if a column is no list of values, the lists of a row have different lengths,
            or a file can't be read.
    """
    starts = of_words(manifest.group_starts)
    chosen = None if manifest.selected is None else of_buffer(manifest.selected)
    groups, columns = range(len(starts) - 1) if groups is None else groups, list(names)

    def lengths(group: int) -> tuple[Costs, Sequence[tuple[int, int, str]]]:
        try:
            return of_words(_core.lengths_of_lists(manifest, group, columns)), ()
        except (_core.DataError, _core.SourceError) as error:
            if unreadable is None:
                raise
            first, end = starts[group : group + 2].tolist()
            return unreadable.lengths(first, end - first, error)

    told, done = time.monotonic(), 0
    with ThreadPoolExecutor(default_threads()) as threads:
        for first in range(0, len(groups), _AT_ONCE):
            some = groups[first : first + _AT_ONCE]
            for group, (found, damage) in zip(some, threads.map(lengths, some), strict=True):
                rows = np.arange(starts[group], starts[group + 1])
                if chosen is not None:
                    mask = _selected(chosen, starts[group], len(found))
                    rows, found = rows[mask], found[mask]  # noqa: PLW2901  (those that are selected)
                if damage and unreadable is not None:
                    found = found[~unreadable.among(damage, rows)]  # noqa: PLW2901  (those that are left)
                if time.monotonic() - told > _SECONDS:
                    told = time.monotonic()
                    _log.info("read the lengths of %d of %d row groups", done, len(groups))
                done += 1
                yield found


def costs_of(manifest: _core.Manifest, name: str, unreadable: Unreadable | None = None) -> Iterator[Costs]:
    """What each selected row costs by a column, a row group after another: see `Bins`.

    Raises:
        DataError: if the column is neither one of lists of values nor one of integers without nulls.
    """
    field = Schema(column_request([name], "mask").layout(manifest))[name]
    if field.kind == "list":
        return list_lengths(manifest, [name], None, unreadable)
    if field.kind != "scalar" or field.size is not None or field.dtype.is_floating_point:
        raise _core.DataError(
            f"column '{name}': a row costs the length of a list or an integer, found {field.dtype} of shape "
            f"{list(field.shape)}"
        )
    return _numbers(manifest, column_request([name], "error").layout(manifest), unreadable)


def _numbers(
    manifest: _core.Manifest, layout: _core.Layout, unreadable: Unreadable | None
) -> Iterator[Costs]:
    """The numbers of a column in the selected rows, a row group after another."""
    cursor = _core.Cursor.start(manifest, None)
    planned = _core.Pass(cursor, (1, 1, _READ_ROWS), "short", 1)
    own = layout.masking_damage(unreadable is not None)
    reader = _core.Reader(manifest, own, cursor, planned, (0, 1, 0, 1), default_threads(), _READ_BYTES)
    schema, left, kept = Schema(layout), np.empty(0, np.int64), np.empty(0, np.bool_)
    try:
        for rows in _selected_rows(manifest):
            while len(left) < rows:
                delivered: Any = reader.front()
                numbers: Any = next(iter(schema.tensors(delivered.memory).values()))
                left = np.concatenate([left, numbers.to(torch.int64).numpy()])
                are_kept = np.ones(len(numbers), np.bool_)
                if delivered.damage and unreadable is not None:
                    are_kept = ~unreadable.among(delivered.damage, of_runs(of_buffer(delivered.runs)))
                kept = np.concatenate([kept, are_kept])
                reader.advance()
            yield left[:rows][kept[:rows]]
            left, kept = left[rows:], kept[rows:]
    finally:
        reader.close()


def _selected_rows(manifest: _core.Manifest) -> list[int]:
    """How many rows of each row group are selected."""
    starts = of_words(manifest.group_starts)
    if manifest.selected is None:
        return [int(rows) for rows in np.diff(starts)]
    chosen, each = of_buffer(manifest.selected), itertools.pairwise(starts.tolist())
    return [int(_selected(chosen, start, end - start).sum()) for start, end in each]


def _selected(chosen: npt.NDArray[np.int64], start: int, rows: int) -> npt.NDArray[np.bool_]:
    """Which rows of a row group that begins at `start` are selected."""
    first = int(np.searchsorted(chosen[:, 1], start, side="right"))
    last = int(np.searchsorted(chosen[:, 0], start + rows, side="left"))
    mask = np.zeros(rows, np.bool_)
    for begin, end in chosen[first:last].tolist():
        mask[max(begin - start, 0) : max(end - start, 0)] = True
    return mask
