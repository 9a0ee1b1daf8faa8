"""Page headers stand outside of checksums: a damaged one gives the right values or an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.each_of import each_of
from support.jobs import parallel
from support.profile import one_in

pytestmark = pytest.mark.law(11)

EVERY = one_in(23)
"""One of so many damages is tried."""

ROWS = 60
RANDOM = np.random.default_rng(5)
NUMBERS = RANDOM.integers(0, 2**40, ROWS)
FEW = RANDOM.integers(0, 5, ROWS)
HAS_NONE = [None if row % 7 == 3 else int(FEW[row]) for row in range(ROWS)]
LISTS = [[int(FEW[row])] * int(FEW[row]) for row in range(ROWS)]

FLAT = {"use_dictionary": False, "compression": "none"}
CASES: dict[str, tuple[list[Any] | pa.Array, dict[str, Any]]] = {
    "plain": (pa.array(NUMBERS), FLAT),
    "plain, required": (pa.array(NUMBERS), {**FLAT, "required": True}),
    "plain, required, version 2": (pa.array(NUMBERS), {**FLAT, "required": True, "data_page_version": "2.0"}),
    "split": (pa.array(NUMBERS / 7), {**FLAT, "column_encoding": "BYTE_STREAM_SPLIT"}),
    "deltas": (
        pa.array(NUMBERS),
        {**FLAT, "column_encoding": "DELTA_BINARY_PACKED", "data_page_version": "2.0"},
    ),
    "dictionary": (pa.array(FEW), {"compression": "snappy"}),
    "dictionary and plain": (pa.array(NUMBERS), {"compression": "none", "dictionary_pagesize_limit": 160}),
    "nulls": (pa.array(HAS_NONE, pa.int64()), FLAT),
    "nulls, version 2": (pa.array(HAS_NONE, pa.int64()), {"data_page_version": "2.0", "compression": "zstd"}),
    "truth": (pa.array(FEW > 2), {**FLAT, "data_page_version": "2.0"}),
    "text": (pa.array([f"{number:x}" for number in NUMBERS]), FLAT),
    "text, dictionary": (pa.array([f"city {number}" for number in FEW]), {"compression": "none"}),
    "lists": (pa.array(LISTS, pa.list_(pa.int64())), FLAT),
    "lists, version 2": (pa.array(LISTS, pa.list_(pa.int64())), {**FLAT, "data_page_version": "2.0"}),
}


def write(path: Path, case: str) -> bytes:
    """A column `x` of small pages, and its bytes."""
    column, how = CASES[case]
    how = {"write_statistics": False, "write_page_checksum": True, **how}
    field = pa.field("x", column.type, nullable=not how.pop("required", False))  # type: ignore[union-attr]
    table = pa.table([column], schema=pa.schema([field]))
    pq.write_table(table, path, data_page_size=40, write_batch_size=16, max_rows_per_page=16, **how)
    return path.read_bytes()


def headers(data: bytes) -> Iterator[tuple[int, int]]:
    """Where the headers of the pages begin and end."""
    _, footer = tw.split(data)
    metadata = tw.chunk(footer, 0, 0)
    starts = [
        metadata[field].value
        for field in (tw.DATA_PAGE_OFFSET, tw.DICTIONARY_PAGE_OFFSET)
        if field in metadata
    ]
    start = min(starts)
    end = start + metadata[tw.COMPRESSED_BYTES].value
    while start < end:
        header, length = tw.decode(data[start:])
        yield start, start + length
        start += length + header[3].value


def as_list(batch: fr.Batch) -> list[Any]:
    """The cells of a batch, masked ones as None."""
    found: Any = batch["x"]
    if isinstance(found, fr.Jagged):
        cells = [bytes(cell) if found.kind == "string" else cell for cell in found.to_list()]
        valid = None if found.valid is None else found.valid.tolist()
    else:
        cells, valid = found.tolist(), batch["x_valid"].tolist() if "x_valid" in batch else None
    valid = [True] * len(cells) if valid is None else valid
    return [cell if is_valid else None for cell, is_valid in zip(cells, valid, strict=True)]


def read(path: Path, **how: Any) -> list[Any] | None:
    """All cells; nothing where an error is raised."""
    how = {"batch_size": ROWS, "tail": "short", "nulls": "mask", **parallel(), **how}
    try:
        return [cell for batch in fr.ParquetDataset(path, **how) for cell in as_list(batch)]
    except fr.DataError:
        return None


def changed_numbers(header: bytes) -> Iterator[bytes]:
    """The header with each of its numbers as another one, in as many bytes."""

    def changes(fields: tw.Struct) -> Iterator[tw.Struct]:
        for number, (wire, value) in fields.items():
            if wire == tw.Wire.STRUCT:
                yield from ({**fields, number: tw.structure(inner)} for inner in changes(value))
            elif wire == tw.Wire.I32:
                others = {*range(11), value - 1, value + 1, value + 2, value - 2} - {value}
                yield from ({**fields, number: tw.i32(other)} for other in others)
            elif wire in (tw.Wire.TRUE, tw.Wire.FALSE):
                yield {
                    **fields,
                    number: tw.Field(tw.Wire.TRUE if wire is tw.Wire.FALSE else tw.Wire.FALSE, None),
                }

    found = (tw.encode(fields) for fields in changes(tw.decode(header)[0]))
    return (changed for changed in found if len(changed) == len(header))


def turned_bits(header: bytes) -> Iterator[bytes]:
    """The header with each of its bits turned."""
    for bit in range(8 * len(header)):
        changed = bytearray(header)
        changed[bit // 8] ^= 1 << bit % 8
        yield bytes(changed)


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_header_gives_the_right_values_or_an_error(path: Path, case: str) -> None:
    """Read from row 0 on, and from the middle of a page on, where the last row is asked for."""
    data = write(path, case)
    whole = read(path)
    assert whole is not None
    assert len(whole) == ROWS
    places = list(headers(data))
    assert len(places) > 2
    refused = 0
    for start, end in [places[0], places[-1]]:
        for changed in [*turned_bits(data[start:end]), *changed_numbers(data[start:end])][::EVERY]:
            path.write_bytes(data[:start] + changed + data[end:])
            found = read(path)
            assert found is None or found == whole, changed.hex()
            last = read(path, rows=[[21, 23], [ROWS - 1, ROWS]])
            assert last is None or last == [*whole[21:23], whole[-1]], changed.hex()
            refused += found is None
    assert refused > 100 // EVERY


def numbers_by(
    path: Path, program: str | None, body: bytes, uncompressed: int, **how: Any
) -> list[int] | None:
    """What is read of numbers under Snappy, on a page of version 2 that says that it is not compressed."""
    column = tw.OneColumn([tw.data_page_v2(body, 10, uncompressed=uncompressed, **how)], 10, codec=tw.SNAPPY)
    footer = column.footer()
    if program is not None:
        footer[6] = tw.binary(program.encode())
    column.write(path, footer)
    return read(path)


def test_pages_of_old_arrow_are_compressed_whatever_they_say(path: Path) -> None:
    """As long as Arrow C++ had the version of Parquet C++ (ARROW-10353)."""
    numbers = tw.int64s(10)
    body = pa.compress(numbers, codec="snappy", asbytes=True)
    assert numbers_by(path, "parquet-cpp version 1.5.1-SNAPSHOT", body, len(numbers)) == list(range(10))
    for program in (None, "parquet-cpp-arrow version 21.0.0"):
        assert numbers_by(path, program, body, len(numbers)) is None
        assert numbers_by(path, program, numbers, len(numbers)) == list(range(10))


def test_nulls_that_were_not_counted_are_no_damage(path: Path) -> None:
    """As parquet-java has it where statistics are off (apache/parquet-java#3585)."""
    numbers = tw.int64s(10)
    assert numbers_by(path, None, numbers, len(numbers), nulls=-1) == list(range(10))
    for nulls in (-2, 11):
        assert numbers_by(path, None, numbers, len(numbers), nulls=nulls) is None


@pytest.mark.parametrize("levels", [tw.varint(10 << 1), tw.varint(2 << 1 | 1)], ids=["a run", "two groups"])
def test_levels_of_no_bits_may_stand_where_there_are_none(path: Path, levels: bytes) -> None:
    """Some writers put them into pages of version 2 of required columns; other bytes are none."""
    column = tw.OneColumn([tw.data_page_v2(levels + tw.int64s(10), 10, definition_bytes=1)], 10)
    column.write(path)
    assert read(path) == list(range(10))
    for damaged in (tw.varint(9 << 1), b"\0", tw.varint(1 << 1 | 1)):
        pages = [tw.data_page_v2(damaged + tw.int64s(10), 10, definition_bytes=1)]
        tw.OneColumn(pages, 10).write(path)
        assert read(path) is None


@each_of("case", ["deltas", "dictionary", "nulls", "text, dictionary", "truth", "split"])
def test_encodings_that_tell_themselves_need_not_be_listed(path: Path, case: str) -> None:
    """Parquet.Net lists the same for all columns; numbers split by byte are as long as plain ones."""
    write(path, case)
    whole = read(path)
    assert whole is not None

    def edit(footer: tw.Struct) -> None:
        metadata = tw.chunk(footer, 0, 0)
        metadata[2] = tw.listing(tw.Wire.I32, [tw.RLE, 4, tw.PLAIN])
        metadata.pop(13, None)  # encoding_stats

    tw.edit_footer(path, edit)
    assert read(path) == (None if case == "split" else whole)
