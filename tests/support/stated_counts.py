"""Files of one list or flat column beside the numbers of their rows, in which every count may lie.

A `Column` holds the rows as they are, cut into pages anywhere; what headers and the index state of them is
what a test says. `write` makes the file. `ways` reads it in every way that seeks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import fastresume as fr
from support import list_writer as lw
from support import thrift_writer as tw
from support.thrift_writer import Struct, Wire, binary, i32, i64, listing, structure

LISTS = lw.FORMS["three levels"]
FLAT_OPTIONAL = lw.Form(1, 1, 1, (lw.element("x", tw.OPTIONAL),))
FLAT = lw.Form(0, 0, 0, (lw.element("x", tw.REQUIRED),))

Row = list[int] | int | None


@dataclass
class Stated:
    """What is stated of a page, where it is not what there is."""

    rows: int | None = None
    values: int | None = None
    first_row: int | None = None


@dataclass
class Column:
    """The rows of a column `x`, and how they are written."""

    rows: Sequence[Row]
    cuts: Sequence[int]
    """Where pages begin but the first, in levels."""
    version: int = 1
    is_indexed: bool = False
    created_by: bytes | None = None
    stated: dict[int, Stated] = field(default_factory=dict)
    """By the number of the page."""

    @property
    def form(self) -> lw.Form:
        """The form of its schema."""
        if any(isinstance(row, list) for row in self.rows):
            return LISTS
        return FLAT_OPTIONAL if None in self.rows else FLAT

    def triples(self) -> list[lw.Triple]:
        """The levels and values of all rows."""
        if self.form is LISTS:
            return lw.shred(self.rows, LISTS)  # type: ignore[arg-type]
        return [(0, 0 if row is None else self.form.value, row) for row in self.rows]  # type: ignore[misc]

    def pages(self) -> list[list[lw.Triple]]:
        """The levels and values of each page."""
        triples = self.triples()
        bounds = [0, *self.cuts, len(triples)]
        return [triples[start:end] for start, end in itertools.pairwise(bounds)]

    def page(self, triples: list[lw.Triple], stated: Stated) -> bytes:
        """The bytes of a page."""
        form = self.form
        repetition = lw.runs([triple[0] for triple in triples], 1) if form is LISTS else b""
        definition = (
            lw.runs([triple[1] for triple in triples], form.value.bit_length()) if form.value else b""
        )
        body = lw.values_of(triples)
        values = len(triples) if stated.values is None else stated.values
        if self.version == 1:
            levels = b"".join(lw.sized(levels) for levels in (repetition, definition) if levels)
            return tw.data_page(levels + body, values)
        rows = sum(triple[0] == 0 for triple in triples) if stated.rows is None else stated.rows
        nulls = sum(triple[2] is None for triple in triples)
        return lw.page_v2(repetition, definition, body, values=values, rows=rows, nulls=nulls)

    def first_rows(self) -> list[int]:
        """The first row that begins in each page."""
        begun, found = 0, []
        for triples in self.pages():
            found.append(begun)
            begun += sum(triple[0] == 0 for triple in triples)
        return found

    def write(self, path: Path) -> Path:
        """Write the file."""
        count = len(self.rows)
        numbers = [tw.data_page(tw.int64s(end - start, start), end - start) for start, end in [(0, count)]]
        pages = [
            self.page(triples, self.stated.get(number, Stated()))
            for number, triples in enumerate(self.pages())
        ]
        start = len(tw.MAGIC) + sum(map(len, numbers))
        before = tw.MAGIC + b"".join([*numbers, *pages])
        index: Struct = {}
        if self.is_indexed:
            places = []
            for number, (page, first_row) in enumerate(zip(pages, self.first_rows(), strict=True)):
                lie = self.stated.get(number, Stated()).first_row
                first = first_row if lie is None else lie
                offset = start + sum(map(len, pages[:number]))
                places.append({1: i64(offset), 2: i32(len(page)), 3: i64(first)})
            text = tw.encode({1: listing(Wire.STRUCT, places)})
            index = {4: i64(len(before)), 5: i32(len(text))}
            before += text
        path_of_x = [element[tw.NAME].value for element in self.form.schema]
        chunks = [
            _chunk([b"row"], count, len(tw.MAGIC), sum(map(len, numbers)), {}),
            _chunk(path_of_x, len(self.triples()), start, sum(map(len, pages)), index),
        ]
        group: Struct = {
            tw.COLUMNS: listing(Wire.STRUCT, chunks),
            2: i64(len(before)),
            tw.GROUP_ROWS: i64(count),
        }
        schema = [
            {tw.NAME: binary(b"schema"), tw.NUM_CHILDREN: i32(2)},
            lw.element("row", tw.REQUIRED),
            *self.form.schema,
        ]
        footer: Struct = {
            1: i32(2),
            tw.SCHEMA: listing(Wire.STRUCT, schema),
            tw.NUM_ROWS: i64(count),
            tw.ROW_GROUPS: listing(Wire.STRUCT, [group]),
        }
        if self.created_by is not None:
            footer[6] = binary(self.created_by)
        path.write_bytes(tw.join(before, footer))
        return path


def _chunk(path: Sequence[bytes], values: int, start: int, size: int, index: Struct) -> Struct:
    metadata: Struct = {
        tw.TYPE: i32(tw.INT64),
        2: listing(Wire.I32, [tw.PLAIN, tw.RLE]),
        3: listing(Wire.BINARY, path),
        tw.CODEC: i32(tw.UNCOMPRESSED),
        tw.NUM_VALUES: i64(values),
        6: i64(size),
        tw.COMPRESSED_BYTES: i64(size),
        tw.DATA_PAGE_OFFSET: i64(start),
    }
    return {2: i64(0), tw.META_DATA: structure(metadata), **index}


def rows_of(batch: fr.Batch) -> list[tuple[int, Row]]:
    """The rows of a batch: what its column `row` says, and what stands beside it."""
    found: Any = batch["x"]
    cells = found.to_list() if isinstance(found, fr.Jagged) else found.tolist()
    valid = batch["x_valid"].tolist() if "x_valid" in batch else [True] * len(cells)
    if isinstance(found, fr.Jagged) and found.valid is not None:
        valid = found.valid.tolist()
    return [
        (row, cell if is_valid else None)
        for row, cell, is_valid in zip(batch["row"].tolist(), cells, valid, strict=True)
    ]


def ways(path: Path, count: int) -> Iterator[tuple[str, Callable[[], list[tuple[int, Row]]]]]:
    """Every way to read rows that seeks, by its name."""

    def read(batch_size: int = 3, **how: Any) -> list[tuple[int, Row]]:
        how = {"rank": 0, "world_size": 1, "tail": "short", **how}
        dataset = fr.ParquetDataset(path, batch_size=batch_size, nulls="mask", **how)
        return [row for batch in dataset for row in rows_of(batch)]

    def resumed() -> list[tuple[int, Row]]:
        found, state = [], None
        for _ in range(count):
            dataset = fr.ParquetDataset(path, batch_size=2, nulls="mask", world=(0, 1), tail="short")
            if state is not None:
                dataset.load_state_dict(state)
            if dataset.epoch > 0:
                break
            batch = next(iter(dataset))
            state = batch.state_dict()
            found += rows_of(batch)
        return found

    def at_random() -> list[tuple[int, Row]]:
        dataset = fr.ParquetDataset(path, batch_size=1, nulls="mask", world=(0, 1))
        some = np.random.default_rng(count).permutation(count)[: count // 2]
        return [
            row
            for first in range(0, len(some), 3)
            for row in rows_of(dataset.read_rows(some[first : first + 3]))
        ]

    middle, end = count // 3, count - count // 5
    yield "rank 1 of 2", lambda: read(rank=1, world_size=2)
    yield "rank 1 of 2, lanes", lambda: read(batch_size=1, rank=1, world_size=2, lanes=2)
    yield "rows", lambda: read(rows=[[middle, middle + 2], [end, count]])
    yield "the last row", lambda: read(rows=[[count - 1, count]])
    yield "filter", lambda: read(filter=fr.col("row") >= middle)
    yield (
        "shuffled",
        lambda: read(shuffle=True, block_rows=max(count // 4, 1), window_rows=max(count // 4, 1)),
    )
    yield "read_rows", at_random
    yield "resumed", resumed
