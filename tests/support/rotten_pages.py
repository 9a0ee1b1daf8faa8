"""A dataset of 200 pages of all kinds, which rot one after another, and the rows that each of them has."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from support import thrift_writer as tw

GROUPS, GROUP_ROWS, PAGE_ROWS = 2, 50, 10
FILE_ROWS = GROUPS * GROUP_ROWS
KINDS = list(itertools.product(["1.0", "2.0"], [True, False]))
"""The version of data pages, and whether there is an index."""

ELEMENTS = 3
"""Each list has so many."""

# PageHeader, DataPageHeader, DataPageHeaderV2
TYPE, COMPRESSED, V1, V2 = 1, 3, 5, 8
NUM_VALUES = 1
DICTIONARY_PAGE = 2
DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET, TOTAL_COMPRESSED = 9, 11, 7

COLUMNS = ("x", "code", "text", "list", "texts")


class Page(NamedTuple):
    """A page: where its header and its bytes lie, and which rows can't be read without it.

    Rows are counted within the dataset of one file.
    """

    column: str
    header: int
    start: int
    end: int
    rows: range


def write_file(path: Path, version: str, has_index: bool, first: int = 0) -> Path:
    """One file: numbers, numbers in a dictionary, texts, and lists of both."""
    rows = np.arange(first, first + FILE_ROWS, dtype=np.int64)
    columns = {
        "x": pa.array(rows + 1),
        "code": pa.array(rows % 7 + 1),
        "text": pa.array([f"text {row}" for row in rows]),
        "list": pa.array([[row + 1, row + 2, row + 3] for row in rows], pa.list_(pa.int64())),
        "texts": pa.array([[f"a{row}", "", f"c{row}"] for row in rows]),
    }
    pq.write_table(
        pa.table(columns),
        path,
        row_group_size=GROUP_ROWS,
        use_dictionary=["code"],
        data_page_version=version,
        write_page_index=has_index,
        write_page_checksum=True,
        max_rows_per_page=PAGE_ROWS,
        write_batch_size=1,
    )
    return path


def pages_of(path: Path, version: str, has_index: bool) -> Iterator[Page]:
    """All data pages of such a file, and its dictionaries."""
    data, footer = tw.split(path.read_bytes())
    schema_names = {"list": "list.list.element", "texts": "texts.list.element"}
    for group in range(GROUPS):
        for column in COLUMNS:
            chunk = _chunk(footer, schema_names.get(column, column), group)
            yield from _pages_of_chunk(data, chunk, column, group, version == "1.0" and not has_index)


def _chunk(footer: tw.Struct, name: str, group: int) -> tw.Struct:
    chunks = tw.row_group(footer, group)[tw.COLUMNS].value[1]
    (found,) = (
        chunk for chunk in chunks if b".".join(chunk[tw.META_DATA].value[3].value[1]).decode() == name
    )
    return found[tw.META_DATA].value


def _pages_of_chunk(
    data: bytes, chunk: tw.Struct, column: str, group: int, are_untold: bool
) -> Iterator[Page]:
    first, is_list = group * GROUP_ROWS, column in ("list", "texts")
    start = chunk.get(DICTIONARY_PAGE_OFFSET, chunk[DATA_PAGE_OFFSET]).value
    start = min(start, chunk[DATA_PAGE_OFFSET].value)
    end, values = start + chunk[TOTAL_COMPRESSED].value, 0
    while start < end:
        header, length = tw.decode(data[start:])
        body = start + length
        behind = body + header[COMPRESSED].value
        if header[TYPE].value == DICTIONARY_PAGE:
            yield Page(column, start, body, behind, range(first, first + GROUP_ROWS))
        else:
            count = (header.get(V1) or header[V2]).value[NUM_VALUES].value
            per = ELEMENTS if is_list else 1
            if is_list and are_untold:
                # Nothing tells whether the row before goes on, nor where the next one begins.
                rows = range(max(values - 1, 0) // per, GROUP_ROWS)
            else:
                rows = range(values // per, -(-(values + count) // per))
            yield Page(column, start, body, behind, range(first + rows.start, first + rows.stop))
            values += count
        start = behind


def rot(path: Path, page: Page) -> None:
    """Change the last byte of a page."""
    data = bytearray(path.read_bytes())
    data[page.end - 1] ^= 1
    path.write_bytes(data)


def rot_group(path: Path, group: int) -> None:
    """Damage the last page of a row group's tokens, and nothing that tells of the file."""
    table = pq.read_metadata(path).row_group(group)
    chunk = next(
        chunk
        for chunk in (table.column(number) for number in range(table.num_columns))
        if chunk.path_in_schema.startswith("tokens")
    )
    start = min(filter(None, (chunk.data_page_offset, chunk.dictionary_page_offset)))
    before, data = path.stat(), bytearray(path.read_bytes())
    data[start + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


__all__ = ["COLUMNS", "FILE_ROWS", "KINDS", "Page", "pages_of", "rot", "rot_group", "write_file"]
