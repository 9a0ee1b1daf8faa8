"""Where the pages and chunks of a file lie, and damage to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import fastresume as fr
from support import thrift_writer as tw

# ColumnChunk
OFFSET_INDEX, COLUMN_INDEX = (4, 5), (6, 7)

# ColumnIndex
NULL_PAGES, LOWS, HIGHS, ORDER, NULL_COUNTS = 1, 2, 3, 4, 5

BLOOM_FILTER_OFFSET = 14

number, text = fr.col("x"), fr.col("s")


def chunk_of(footer: Any, name: str, group: int = 0) -> Any:
    """The struct of a column chunk, by the column's name."""
    chunks = tw.row_group(footer, group)[tw.COLUMNS].value[1]
    (found,) = (chunk for chunk in chunks if chunk[tw.META_DATA].value[3].value[1] == [name.encode()])
    return found


def pages_of(path: Path, name: str, group: int = 0) -> list[tuple[int, int, int]]:
    """The offset, the size and the first row of each page of a column, as the index says."""
    before, footer = tw.split(path.read_bytes())
    chunk = chunk_of(footer, name, group)
    index, _ = tw.decode(before[chunk[OFFSET_INDEX[0]].value :])
    return [(place[1].value, place[2].value, place[3].value) for place in index[1].value[1]]


def damage_pages(path: Path, name: str, but: set[int], group: int = 0) -> int:
    """Change the last byte of each page of a column but for some, as checksums notice; give how many."""
    data, damaged = bytearray(path.read_bytes()), 0
    for number, (offset, size, _) in enumerate(pages_of(path, name, group)):
        if number not in but:
            data[offset + size - 1] ^= 1
            damaged += 1
    path.write_bytes(data)
    return damaged


def write(path: Path, rows: int = 100, page_rows: int = 10, **how: Any) -> Path:
    """Rows of ascending numbers, of text that ascends as well, and of what is read: pages of so many rows."""
    x = pa.array(range(rows), pa.int64())
    s = pa.array([f"{row:05}" for row in range(rows)])
    table = pa.table({"x": x, "s": s, "y": range(rows)})
    options = {"use_dictionary": False, "write_page_checksum": True, "write_page_index": True, **how}
    pq.write_table(table, path, max_rows_per_page=page_rows, write_batch_size=1, **options)
    return path


# ----------------------------------------------------------------------------------------------- page indexes


def rewrite(path: Path, edit: Callable[[Any], object], name: str = "x") -> None:
    """Put an edited copy of a column's bounds of pages behind the data, and have the footer name it."""
    before, footer = tw.split(path.read_bytes())
    chunk = chunk_of(footer, name)
    index, _ = tw.decode(before[chunk[COLUMN_INDEX[0]].value :])
    edit(index)
    data = tw.encode(index)
    chunk[COLUMN_INDEX[0]] = tw.i64(len(before))
    chunk[COLUMN_INDEX[1]] = tw.i32(len(data))
    path.write_bytes(tw.join(before + data, footer))


# ---------------------------------------------------------------------------------------------- bloom filters


def damage_chunks(path: Path, name: str, but: set[int]) -> None:
    """Overwrite the pages of a column in all row groups but for some."""
    data = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    for group in set(range(metadata.num_row_groups)) - but:
        chunks = [metadata.row_group(group).column(place) for place in range(metadata.num_columns)]
        (chunk,) = (chunk for chunk in chunks if chunk.path_in_schema == name)
        start, size = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size
        data[start : start + size] = b"\xff" * size
    path.write_bytes(data)


def damage(path: Path, group: int, name: str) -> None:
    """Overwrite the pages of a column of a row group."""
    chunks = pq.read_metadata(path).row_group(group)
    places = [chunks.column(i) for i in range(chunks.num_columns) if chunks.column(i).path_in_schema == name]
    (chunk,) = places
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
