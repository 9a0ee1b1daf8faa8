"""What reading a pass will take, told before it runs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch

import fastresume._core as _core
from fastresume.buffers import of_words, row_count
from fastresume.reading.spec import ReadSpec
from fastresume.state.cursor import Cursor

SEGMENT_BYTES = 32 << 20
"""In a sequential order, a lane decodes parts of row groups of at most so many bytes."""

DIVIDED_BYTES = 64 << 20
"""Of lists and strings that take more than expected, what is decoded in one go ends at so many bytes."""

DICTIONARY_BYTES = 32 << 20
"""Dictionaries of a row group that is decoded in parts are kept, up to so many bytes."""

LARGE_WINDOW_BYTES = 1 << 30
"""Of more than these in a window, as padding makes of short lists, advice is given."""

PAGE_BYTES, PAGE_VALUES = 1 << 20, 1024
"""Writers end a page when it has so many bytes, and look at its size after so many values."""

PLACE_BYTES = 32
"""What a row of a shuffled segment takes beside its values: where it goes, and its number."""

PIECES = 16
"""The shuffled rows of a row group lie in so many pieces of memory, at least."""

GAP_BYTES = 576
"""Before a matrix is made of columns, an eighth of one lies between two, but so much at most."""

TURNED_LAST_BYTES, STRIPS = 4 << 20, 8
"""Matrices of up to so many bytes are made of columns when their batch is ended; these lie in so many
strips."""

READ_AHEAD_BYTES = 4 << 20
"""Read ahead of a page, and what else a thread has that does not depend on the data: what codecs keep, among
them a window of Brotli for a page that is not large."""

BROTLI_WINDOW_BYTES = 16 << 20
"""Brotli expands a page to a window of its own first: of less than twice its bytes, and so many at most."""

WARN_ABOVE = 1.5
"""More rows decoded per row delivered than this are worth a warning."""


@dataclass(frozen=True)
class Plan:
    """What is left of the present pass, for all ranks unless it says 'per rank'; prints as a table.

    Args:
        epoch: the number of the pass.
        order: the order, as the cursor records it.
        remaining_rows: rows of the pass that were not delivered yet.
        world_size, workers: ranks, and loader workers of each (0 without any).
        batch_size, global_batch_size: rows per rank and step, and over all ranks.
        lanes, groups, lane_rows: the cut; `lane_rows` is what a lane gives to a batch.
        steps: batches that every rank still gets, a last one of the tail included.
        tail: the tail policy.
        tail_rows: rows after the last whole global batch.
        dropped_rows: of these, how many no rank gets.
        padded_rows: rows that repeat others to fill the last global batch.
        blocks, windows: of the whole pass; 0 of a sequential order.
        window_rows: rows of the largest window; 0 of a sequential order.
        row_bytes: bytes of one row over all tensors; of lists and strings, what the footers lead to expect.
        bytes_per_rank: what a rank holds in decoded rows, at most: one window (or one segment of a row group)
            per lane of it, and the batch that is being made. The rows of a window lie in pieces of memory,
            which adds an eighth. Columns that matrices are made of when a batch is ended lie in strips of a
            segment, which adds a quarter of them at most, and the rows of a batch. Of a row group that is
            decoded in parts, dictionaries of up to 32 MiB are kept; and of footers, what they tell of the
            columns that are read: of 8 files, and of others up to 16 MiB. A `Loader` adds its
            `prefetch_bytes`, and, where it copies batches to a device, three of them there and three here.
        bytes_per_thread: what each thread that decodes adds to that (the caller's own, where there is no
            `Loader`): one matrix that is not made last, or, of a shuffled order, one of any size or single
            columns that are put together (128 bytes of each row at most, and their masks), or the lists and
            strings of a segment, before they are in batches; what of these a batch takes apart; a page
            and a dictionary, stored and decompressed, and of a large page what Brotli would have of it
            besides (16 MiB at most); and a footer, as a file that is opened holds it.
            Where the pages of a row group have more bytes than writers give to pages, its cells are large,
            and any batch is taken to have all of them. What strings take that are stored once in a dictionary
            and used many times, some writers' footers do not tell (those of polars, DuckDB and older ones of
            pyarrow): each is taken to have as many bytes as entries of the file's first dictionary have on
            average, and if long ones are used far more often than short ones, they take more than this.
        rows_decoded: rows that all ranks decode together.
        rows_decoded_per_row: the same, per row delivered: 1.0 is best.
        advice: what could be better, and which setting helps.
    """

    epoch: int
    order: Mapping[str, Any]
    remaining_rows: int
    world_size: int
    workers: int
    batch_size: int
    global_batch_size: int
    lanes: int
    groups: int
    lane_rows: int
    steps: int
    tail: str
    tail_rows: int
    dropped_rows: int
    padded_rows: int
    blocks: int
    windows: int
    window_rows: int
    row_bytes: int
    bytes_per_rank: int
    bytes_per_thread: int
    rows_decoded: int
    rows_decoded_per_row: float
    advice: tuple[str, ...]

    def __repr__(self) -> str:
        order = ", ".join(f"{name} {value}" for name, value in self.order.items() if name != "kind")
        workers = f" x {self.workers} workers" if self.workers else ""
        lines = [
            f"Plan of epoch {self.epoch}: {self.remaining_rows:,} rows left",
            f"  order    {self.order['kind']}" + (f": {order}" if order else ""),
        ]
        if self.windows:
            lines.append(
                f"           {self.blocks:,} blocks in {self.windows:,} windows of at most "
                f"{self.window_rows:,} rows ({_in_units(self.window_rows * self.row_bytes)})"
            )
        rest = f"{self.tail_rows:,} left over, {self.dropped_rows:,} dropped, {self.padded_rows:,} padded"
        steps = f"{self.steps:,} of {self.batch_size:,} rows per rank, {self.global_batch_size:,} over all"
        memory = (
            f"{_in_units(self.bytes_per_rank)} of decoded rows per rank ({self.row_bytes:,} bytes each), "
            f"{_in_units(self.bytes_per_thread)} per decoding thread"
        )
        lines += [
            f"  lanes    {self.lanes:,} in {self.groups} groups, {self.lane_rows:,} rows per lane and batch",
            f"  ranks    {self.world_size:,}{workers}",
            f"  steps    {steps}",
            f"  tail     {self.tail}: {rest}",
            f"  memory   {memory}",
            f"  decoded  {self.rows_decoded_per_row:.2f} rows per row delivered",
        ]
        return "\n".join(lines + [f"  advice   {line}" for line in self.advice])


def make_plan(spec: ReadSpec, cursor: _core.Cursor, workers: int) -> Plan:
    """The plan of what is left of the present pass under so many loader workers (0 without any)."""
    world_size, processes = spec.world.world_size, max(workers, 1)
    planned = spec.pass_from(cursor, processes)
    order = _core.Order(cursor, spec.manifest)
    blocks, windows, window_rows = order.sizes or (0, 0, 0)
    lanes, groups, lane_rows = planned.cut
    remaining = spec.num_rows - cursor.consumed_rows()
    dropped = row_count(planned.dropped())
    row_bytes = spec.layout.row_bytes
    most = _Most.of(spec)
    if windows:
        of_reader = max(lanes // (world_size * processes), 1)
        open_windows = processes * _open_windows(of_reader, remaining // lanes, windows, window_rows)
        # Each block may be of another row group. A shuffled row is held with its number. Of the pieces, the
        # last one may not be full, and the first one stays until its last row is delivered.
        held_bytes = most.bytes_of(window_rows, -(-blocks // windows)) * (PIECES + 2) // PIECES
        held_bytes = open_windows * (held_bytes + window_rows * 8) + spec.batch_size * 8
    else:
        each = lanes // world_size if lanes > 1 else processes
        held_bytes = min(most.segment_bytes(spec.batch_size), spec.num_rows * row_bytes)
        held_bytes = each * (held_bytes + _strip_bytes(spec, most))
    held_bytes += processes * (most.dictionary_bytes + most.footer_bytes)
    decoded = planned.rows_decoded(order, world_size, processes) if planned.batches_left else 0
    per_row = decoded / max(remaining - dropped, 1)
    advice = _advice(spec, per_row, lanes, processes, windows, window_rows)
    if per_row > WARN_ABOVE:
        warnings.warn(advice[0], stacklevel=3)
    return Plan(
        epoch=cursor.epoch,
        order=Cursor(cursor).order,
        remaining_rows=remaining,
        world_size=world_size,
        workers=workers,
        batch_size=spec.batch_size,
        global_batch_size=spec.global_batch_size,
        lanes=lanes,
        groups=groups,
        lane_rows=lane_rows,
        steps=planned.batches_left,
        tail=spec.tail,
        tail_rows=planned.rest,
        dropped_rows=dropped,
        padded_rows=planned.padded_rows,
        blocks=blocks,
        windows=windows,
        window_rows=window_rows,
        row_bytes=row_bytes,
        bytes_per_rank=held_bytes + most.batch_bytes(spec.batch_size),
        bytes_per_thread=_thread_bytes(spec, most, is_shuffled=windows > 0),
        rows_decoded=decoded,
        rows_decoded_per_row=per_row,
        advice=advice,
    )


def _open_windows(lanes: int, lane_rows: int, windows: int, window_rows: int) -> int:
    """How many windows one reader has open: one for each of its lanes.

    A window that two lanes share is opened for both when the later lane begins. If lanes are as short as two
    windows, the earlier one has most of its first window open then, too.
    """
    return lanes if lane_rows > 2 * window_rows else min(2 * lanes - 1, windows)


@dataclass(frozen=True)
class _Most:
    """What rows take where they are most, as near as footers tell.

    Args:
        total_bytes: of all rows of the dataset.
        row_bytes: of a row on the average.
        densest_bytes: of a row without large cells, in the row groups where rows are longest.
        large_bytes: what large cells add: any few rows of a row group may have all of them.
        large_page_bytes: what the large pages of a column have beyond those that writers make.
        footer_bytes: what is kept of footers.
        opening_bytes: what a thread has beside that while it opens a file.
        group_rows: rows of the largest row group.
    """

    total_bytes: int
    row_bytes: int
    densest_bytes: int
    large_bytes: int
    large_page_bytes: int
    footer_bytes: int
    opening_bytes: int
    group_rows: int

    @classmethod
    def of(cls, spec: ReadSpec) -> _Most:
        row_bytes = spec.layout.row_bytes
        footprint = spec.layout.footprint(spec.manifest)
        group_rows = int(np.diff(of_words(spec.manifest.group_starts)).max(initial=0))
        return cls(spec.num_rows * row_bytes, row_bytes, *footprint, group_rows)

    @property
    def segment_rows(self) -> int:
        """Rows of a row group that are decoded in one go."""
        return min(self.group_rows, SEGMENT_BYTES // max(self.row_bytes, 1) + 1)

    def bytes_of(self, rows: int, groups: int = 1) -> int:
        """Of so many rows of so many row groups."""
        return min(rows * self.densest_bytes + groups * self.large_bytes, max(self.total_bytes, 1))

    @property
    def dictionary_bytes(self) -> int:
        """Of dictionaries that parts of a row group share: no more are kept than its rows take."""
        # Memory that was used before may have an eighth more than was asked for.
        return min(DICTIONARY_BYTES, self.bytes_of(self.group_rows)) // 8 * 9

    def batch_bytes(self, rows: int) -> int:
        """Of a batch, which may be filled up with rows that are there twice."""
        return rows * self.densest_bytes + self.large_bytes

    def segment_bytes(self, batch_rows: int) -> int:
        """Of what is decoded in one go in a sequential order."""
        # At least a row, whatever its size; lists and strings that take more than expected to a batch's end.
        whole = max(SEGMENT_BYTES, self.segment_rows * self.densest_bytes) + self.large_bytes
        return min(whole, DIVIDED_BYTES + self.bytes_of(batch_rows))


class _Flat(NamedTuple):
    """A tensor of numbers: the bytes of a row, without its mask and with it, and its columns."""

    bytes: int
    whole_bytes: int
    columns: int


def _flat(spec: ReadSpec) -> list[_Flat]:
    found = []
    for _, dtype, columns, _, kind, is_masked, shape, _ in spec.layout.fields:
        if kind in ("scalar", "mask", "length"):
            row_bytes = len(columns) * getattr(torch, dtype).itemsize * prod(shape)
            found.append(_Flat(row_bytes, row_bytes + len(columns) * is_masked, len(columns)))
    return found


def _matrices(spec: ReadSpec) -> tuple[list[_Flat], list[_Flat]]:
    """What is put together from several columns: when a batch is ended, and when it is decoded."""
    last: list[_Flat] = []
    at_once: list[_Flat] = []
    for flat in _flat(spec):
        if flat.columns > 1:
            is_small = spec.batch_size * flat.bytes <= TURNED_LAST_BYTES
            (last if is_small else at_once).append(flat)
    return last, at_once


def _strip_bytes(spec: ReadSpec, most: _Most) -> int:
    """What columns take beside their values until matrices are made of them.

    A strip stays until the last of its batches is ended, and between columns there are gaps.
    """
    matrices, _ = _matrices(spec)
    width, columns = sum(flat.whole_bytes for flat in matrices), sum(flat.columns for flat in matrices)
    rows = -(-most.segment_rows // STRIPS)
    gaps = STRIPS * min(2 * columns * GAP_BYTES, rows * width // 8)
    return (rows + spec.batch_size) * width + gaps


def _thread_bytes(spec: ReadSpec, most: _Most, is_shuffled: bool) -> int:
    rows, flat = most.segment_rows, _flat(spec)
    # Lists and strings of a row.
    flat_bytes = sum(one.whole_bytes for one in flat)
    jagged, densest = most.row_bytes - flat_bytes, most.densest_bytes - flat_bytes
    # Single columns are put together for rows to be moved once, where these come in any order.
    bundle = _Flat(0, *(spec.layout.widest_bundle if is_shuffled else (0, 0)))
    # What is put together from several columns, or from rows in any order. (Others are decoded where they
    # stay, or until their batch is ended.)
    at_once = [*flat, bundle] if is_shuffled else _matrices(spec)[1]
    widest = max((one.whole_bytes for one in at_once), default=0)
    # Memory that grows has room for as much again.
    if is_shuffled:
        decoded = rows * (2 * densest + 2 * widest + PLACE_BYTES) + 2 * most.large_bytes
    else:
        decoded = rows * (2 * jagged + 2 * widest) + most.large_bytes
    # Lists, strings and a bundle of a batch are held as they came, and in their order, while it is ended.
    decoded += spec.batch_size * (densest + bundle.whole_bytes) + most.large_bytes
    decoded += 2 * GAP_BYTES * max((one.columns for one in at_once if one.columns > 1), default=0)
    # A page, as it is stored and decompressed, and a dictionary, as it is stored and delivered.
    beyond = min(PAGE_VALUES, most.group_rows) * max(8, jagged) + most.large_page_bytes
    pages = 2 * (PAGE_BYTES + beyond) + PAGE_BYTES
    # Footers tell the codecs, and manifests don't keep them: it may be Brotli.
    pages += min(2 * beyond, BROTLI_WINDOW_BYTES)
    return decoded + pages + READ_AHEAD_BYTES + most.opening_bytes


def _advice(
    spec: ReadSpec, per_row: float, lanes: int, processes: int, windows: int, window_rows: int
) -> tuple[str, ...]:
    advice = []
    if per_row > WARN_ABOVE:
        advice.append(_remedy(spec, per_row, lanes, processes, windows, window_rows))
    window_bytes = window_rows * spec.layout.row_bytes
    if window_bytes > LARGE_WINDOW_BYTES:
        large = _in_units(window_bytes)
        advice.append(f"a window of {window_rows:,} rows takes {large}: name a smaller window_rows")
    return tuple(advice)


def _remedy(
    spec: ReadSpec, per_row: float, lanes: int, processes: int, windows: int, window_rows: int
) -> str:
    """What helps where many more rows are decoded than are delivered."""
    said = f"{per_row:.1f} rows are decoded per row delivered"
    ways = spec.world.world_size * processes
    if lanes == 1 and ways > 1:
        remedy = (
            "with lanes=1 every rank and worker decodes what all of them need; take fewer workers, or name "
            f"more lanes (a multiple of {ways}), if the order in time need not be kept"
        )
    elif windows:
        remedy = (
            f"{lanes} lanes share {windows} windows, and each rank or worker decodes whole ones; name a "
            f"smaller window_rows (now {window_rows}, where a lane has {spec.num_rows // lanes})"
            + (" or fewer lanes" if lanes > ways else "")
        )
    else:
        return said
    return f"{said}: {remedy}"


def _in_units(count: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
