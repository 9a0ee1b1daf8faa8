"""A checksum over all rows: it depends on every value, but not on the order, nor on batches."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fastresume.bench.cells import Array, Cells

Words = npt.NDArray[np.uint64]
NULL = np.uint64(0x9E3779B97F4A7C15)
MAX_VALUES = 1 << 20
"""The number of values that are hashed in one go: lists are long, and each value takes eight bytes here."""


class Checksum:
    """Counts rows and bytes, and sums up 64-bit hashes of each cell and of each row as a whole.

    If the sums of the columns are equal, each column has the same cells. If the sums of the rows are equal,
    the cells of a row came together.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.num_rows = 0
        self.num_bytes = 0
        self._sums = dict.fromkeys(names, 0)
        self._row_sum = 0

    def add(self, num_rows: int, batch: Mapping[str, Cells]) -> None:
        """Add the rows of a batch, which has every column."""
        rows = np.zeros(num_rows, np.uint64)
        for name in self._sums:
            hashes = column_hashes(num_rows, batch, name)
            self._sums[name] = (self._sums[name] + int(hashes.sum(dtype=np.uint64))) % 2**64
            rows += mixed(hashes ^ key_of(name))
            self.num_bytes += batch[name].values.nbytes
        self._row_sum = (self._row_sum + int(mixed(rows).sum(dtype=np.uint64))) % 2**64
        self.num_rows += num_rows

    def to_json(self) -> dict[str, Any]:
        """The whole checksum; equal for equal rows."""
        columns = {name: f"{value:016x}" for name, value in self._sums.items()}
        return {
            "rows": self.num_rows,
            "bytes": self.num_bytes,
            "columns": columns,
            "whole_rows": f"{self._row_sum:016x}",
        }


def difference(found: Mapping[str, Any], expected: Mapping[str, Any], unit: str = "row") -> str | None:
    """The difference between two checksums, in words; None if there is none."""
    if found["rows"] != expected["rows"]:
        return f"it delivered {found['rows']} {unit}s, expected {expected['rows']}"
    others = [name for name, value in expected["columns"].items() if found["columns"][name] != value]
    if others:
        more = f" and {len(others) - 4} more" if len(others) > 4 else ""
        return f"other values in {', '.join(map(repr, others[:4]))}{more}"
    if found["whole_rows"] != expected["whole_rows"]:
        return "the columns have the right values, but not in the same rows"
    return None


def row_hashes(num_rows: int, batch: Mapping[str, Cells], names: Iterable[str]) -> Words:
    """Per row, a 64-bit hash of all its cells together."""
    rows = np.zeros(num_rows, np.uint64)
    for name in names:
        rows += mixed(column_hashes(num_rows, batch, name) ^ key_of(name))
    return mixed(rows)


def column_hashes(num_rows: int, batch: Mapping[str, Cells], name: str) -> Words:
    """Per row, a 64-bit hash of its cell in a column.

    Raises:
        ValueError: if the column has another number of rows.
    """
    hashes = hashes_of(batch[name])
    if len(hashes) != num_rows:
        raise ValueError(f"the column {name!r} has {len(hashes)} rows in a batch of {num_rows}")
    return hashes


def hashes_of(cells: Cells) -> Words:
    """Per row, a 64-bit hash of its value or of its list of values."""
    values, offsets, valid = cells
    if offsets is None:
        hashes = mixed(bits_of(values))
    else:
        hashes = np.empty(len(offsets) - 1, np.uint64)
        start = 0
        while start < len(hashes):
            end = int(np.searchsorted(offsets, offsets[start] + MAX_VALUES, side="right")) - 1
            end = min(max(end, start + 1), len(hashes))
            hashes[start:end] = _hashes_of_lists(values, offsets[start : end + 1])
            start = end
    if valid is not None:
        hashes[~valid] = NULL
    return hashes


def _hashes_of_lists(values: Array, offsets: Array) -> Words:
    first, lengths = int(offsets[0]), np.diff(offsets)
    places = np.arange(int(offsets[-1]) - first) - np.repeat(offsets[:-1] - first, lengths)
    elements = mixed(bits_of(values[first : int(offsets[-1])]) ^ mixed(places.astype(np.uint64)))
    ends = np.zeros(len(elements) + 1, np.uint64)
    np.cumsum(elements, out=ends[1:])
    sums = ends[offsets[1:] - first] - ends[offsets[:-1] - first]
    return mixed(sums)


def bits_of(values: Array) -> Words:
    """Each value's bits as a word; an integer is the same in every width."""
    if values.dtype.kind == "f":
        return values.view(f"u{values.dtype.itemsize}").astype(np.uint64)
    if values.dtype.kind == "i":
        return values.astype(np.int64).view(np.uint64)
    return values.astype(np.uint64)


def mixed(words: Words) -> Words:
    """Words in which every bit depends on all bits of the given ones, as in splitmix64."""
    words = words + NULL
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def key_of(name: str) -> np.uint64:
    """A key that separates a column's cells from those of other columns in the row."""
    return np.uint64(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
