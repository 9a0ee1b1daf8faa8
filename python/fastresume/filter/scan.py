"""Evaluates a condition on rows by reading its columns."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.batch.jagged import Jagged
from fastresume.batch.schema import Field, Schema, Tensors
from fastresume.buffers import Intervals, numbers_at, of_buffer, of_runs
from fastresume.filter.condition import Condition
from fastresume.filter.damaged_rows import DamagedRows
from fastresume.filter.truth import Text, Values
from fastresume.options.world import default_threads

SCANNED_ROWS = 1 << 16
SCANNED_BYTES = 16 << 20
PREFETCH_BYTES = 64 << 20
QUIET_SECONDS = 1.0
AGAIN_SECONDS = 0.2


def scan(
    manifest: _core.Manifest, layout: _core.Layout, wanted: Condition, damaged: DamagedRows
) -> Iterator[Intervals]:
    """The rows that a condition keeps of the selected ones, part by part, as intervals.

    Raises:
        DataError, SourceError: if a file can't be read, or more rows than may be left out.
    """
    layout = layout.masking_damage(damaged.are_left_out)
    schema = Schema(layout)
    for delivered, tensors in selected_batches(manifest, layout, schema, "filter"):
        truth = wanted.of_rows({field.name: _values(tensors, field) for field in schema.fields})
        is_kept, runs = truth.yes, of_buffer(delivered.runs)
        if delivered.damage:
            is_kept = is_kept & ~damaged.among(delivered.damage, of_runs(runs))
        yield intervals_of(numbers_at(runs, np.flatnonzero(is_kept)))


def selected_batches(
    manifest: _core.Manifest, layout: _core.Layout, schema: Schema, reads_for: str
) -> Iterator[tuple[_core.Delivered, Tensors]]:
    """The selected rows in their order, in batches, and their tensors; a terminal shows how far it is.

    Raises:
        DataError, SourceError: if a file can't be read.
    """
    cursor = _core.Cursor.start(manifest, None)
    rows = max(min(SCANNED_ROWS, manifest.num_selected, SCANNED_BYTES // max(layout.row_bytes, 1)), 1)
    planned = _core.Pass(cursor, (1, 1, rows), "short", 1)
    place = (0, 1, 0, 1)
    reader = _core.Reader(manifest, layout, cursor, planned, place, (default_threads(), PREFETCH_BYTES, None))
    progress = Progress(manifest.num_selected, reads_for)
    try:
        while (delivered := reader.front()) is not None:
            reader.advance()
            yield delivered, schema._tensors(delivered.memory)
            progress.add(delivered.num_rows)
    finally:
        reader.close()
        progress.end()


def _values(tensors: Any, field: Field) -> Values:
    found = tensors[field.name]
    if isinstance(found, Jagged):
        valid = torch.ones(len(found), dtype=torch.bool) if found.valid is None else found.valid
        return Values(Text(found.values.numpy(), found.offsets.numpy()), valid.numpy())
    marks = tensors[field.name if field.kind == "mask" else f"{field.name}_valid"]
    return Values(found.numpy(), marks.numpy())


def intervals_of(numbers: npt.NDArray[np.int64]) -> Intervals:
    """Ascending numbers as intervals."""
    is_first = np.ones(len(numbers) + 1, np.bool_)
    np.not_equal(numbers[1:], numbers[:-1] + 1, out=is_first[1:-1])
    found = np.empty((np.count_nonzero(is_first[:-1]), 2), np.int64)
    found[:, 0] = numbers[is_first[:-1]]
    found[:, 1] = numbers[is_first[1:]] + 1
    return found


class Progress:
    """Shows how far a scan is, on a terminal, and only if it takes long.

    Args:
        total: the rows to read.
        reads_for: what reads them.
    """

    def __init__(self, total: int, reads_for: str) -> None:
        self._total, self._done, self._reads_for = total, 0, reads_for
        self._said = time.monotonic() + QUIET_SECONDS
        self._has_spoken = False

    def add(self, rows: int) -> None:
        """Counts rows that were read."""
        self._done += rows
        if time.monotonic() >= self._said and sys.stderr.isatty():
            self._has_spoken, self._said = True, time.monotonic() + AGAIN_SECONDS
            share = self._done / self._total
            sys.stderr.write(f"\r{self._reads_for}: {self._done} of {self._total} rows read ({share:.0%})")

    def end(self) -> None:
        """Ends the line on the terminal."""
        if self._has_spoken:
            sys.stderr.write("\n")
