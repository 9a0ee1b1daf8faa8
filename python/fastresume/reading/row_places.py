"""The places of rows: file, row group, and row in the row group."""

from __future__ import annotations

import reprlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import of_runs, of_words
from fastresume.options.masks import in_order, is_series
from fastresume.options.rows import RowSet

RowNumbers = npt.NDArray[np.int64]

SomeRows = Sequence[int] | RowNumbers | RowSet
"""Rows by their numbers, or a set of them."""


def locate(manifest: _core.Manifest, row_numbers: SomeRows) -> list[tuple[str, int, int]]:
    """The place of each row; see `ParquetDataset.locate`."""
    numbers = checked_numbers(manifest, row_numbers)
    paths, groups, first_rows = groups_of(manifest, numbers)
    return [
        (path, int(group), int(number - first))
        for path, group, first, number in zip(paths, groups, first_rows, numbers, strict=True)
    ]


def checked_numbers(manifest: _core.Manifest, given: SomeRows) -> RowNumbers:
    """The row numbers as int64 `[n]`.

    Raises:
        TypeError: if they are not integers.
        IndexError: if a row number is not in the files.
    """
    if isinstance(given, RowSet):
        numbers = of_runs(given.rows(manifest.num_rows))
    else:
        numbers = np.asarray(in_order(given, "numpy.flatnonzero(mask.to_numpy())"))
    if numbers.size == 0 and numbers.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
        mask = "mask.sort_index()" if is_series(given) else "mask"
        way = f": write numpy.flatnonzero({mask})" if numbers.ndim == 1 and numbers.dtype.kind == "b" else ""
        found = f"{numbers.dtype} {list(numbers.shape)}, {reprlib.repr(given)}"
        raise TypeError(f"row numbers must be a list or an array [n] of integers, found {found}{way}")
    total = manifest.num_rows
    outside = numbers[(numbers < 0) | (numbers >= total)]
    if outside.size:
        raise IndexError(f"row {outside[0]} is not in [0, {total}), the rows of the dataset's files")
    return numbers.astype(np.int64)


def groups_of(manifest: _core.Manifest, rows: RowNumbers) -> tuple[list[str], RowNumbers, RowNumbers]:
    """For each row: its file, its row group within that, and the group's first row."""
    starts, file_groups = of_words(manifest.group_starts), of_words(manifest.file_groups)
    groups = np.searchsorted(starts, rows, side="right") - 1
    files = np.searchsorted(file_groups, groups, side="right") - 1
    paths = manifest.files
    return [paths[file] for file in files], groups - file_groups[files], starts[groups]
