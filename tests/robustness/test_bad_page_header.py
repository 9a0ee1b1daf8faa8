"""Law 11 for page headers: what is absurd is one DataError, soon, in little memory."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

import fastresume as fr
from support import oracle
from support import thrift_writer as tw
from support.child import MIB, Reader
from support.each_of import each_of
from support.refusals import assert_refused, deflated, open_dataset, refused, rows_of, write
from support.thrift_writer import OneColumn, data_page, data_page_v2, i32, int64s

pytestmark = pytest.mark.law(11)

SNAPPY_TEN_BYTES = b"\x0a\x24" + bytes(10)

BAD_HEADERS: dict[str, Callable[[], tuple[OneColumn, list[object]]]] = {
    "a page of 2 GiB": lambda: (
        OneColumn([data_page(int64s(10), 10, compressed=2**31 - 1)], 10),
        [2**31 - 1],
    ),
    "a page of 2 GiB when expanded": lambda: (
        OneColumn([data_page(deflated(MIB), 10, uncompressed=2**31 - 1)], 10, codec=tw.GZIP),
        [2**31 - 1],
    ),
    "a page of a negative size": lambda: (OneColumn([data_page(int64s(10), 10, compressed=-1)], 10), [-1]),
    "a page of a negative size when expanded": lambda: (
        OneColumn([data_page(SNAPPY_TEN_BYTES, 10, uncompressed=-1)], 10, codec=tw.SNAPPY),
        [-1],
    ),
    "a page larger than its chunk": lambda: (
        OneColumn([data_page(int64s(10), 10, compressed=81)], 10),
        [81, 80],
    ),
    "a page of a negative number of values": lambda: (OneColumn([data_page(int64s(10), -10)], 10), [-10]),
    "a page of more values than it has": lambda: (OneColumn([data_page(int64s(5), 10)], 10), []),
    "a page of 2^31 - 1 values": lambda: (OneColumn([data_page(int64s(10), 2**31 - 1)], 20), []),
    "a page of a kind that does not exist": lambda: (
        OneColumn([tw.page(77, int64s(10), {})], 10),
        ["0 values"],
    ),
    "a page of an encoding that does not exist": lambda: (
        OneColumn([data_page(int64s(10), 10, encoding=99)], 10),
        [99],
    ),
    "a page of an encoding that does not fit": lambda: (
        OneColumn([data_page(int64s(10), 10, encoding=tw.DELTA_BYTE_ARRAY)], 10),
        [],
    ),
    "pages that end too soon": lambda: (OneColumn([data_page(int64s(5), 5)], 10), ["5 values"]),
    "garbage for pages": lambda: (OneColumn([b"\xff" * 500], 10), []),
    "64 MiB of zeros for pages": lambda: (OneColumn([bytes(64 * MIB)], 10), []),
    "a header without end": lambda: (
        OneColumn([b"\x18" + tw.varint(64 * MIB) + bytes(32 * MIB)], 10),
        ["a page header has more than 16 MiB"],
    ),
    "headers nested in each other": lambda: (OneColumn([b"\x1c" * 100_000], 10), []),
    "a page v2 of more levels than bytes": lambda: (
        OneColumn(
            [data_page_v2(int64s(10), 10, definition_bytes=81)],
            10,
            element={tw.REPETITION: i32(tw.OPTIONAL)},
        ),
        [81, 80],
    ),
    "a page v2 of levels that its type has not": lambda: (
        OneColumn([data_page_v2(bytes(2) + int64s(10), 10, definition_bytes=2)], 10),
        ["2 bytes of levels"],
    ),
    "a page v2 of other rows than values": lambda: (
        OneColumn([data_page_v2(int64s(10), 10, rows=9)], 10),
        [9, 10],
    ),
    "a page v2 of more nulls than values": lambda: (
        OneColumn([data_page_v2(int64s(10), 10, nulls=11)], 10),
        [11, 10],
    ),
}


@each_of("what", BAD_HEADERS)
def test_a_bad_page_header_is_refused(path: Path, reader: Reader, what: str) -> None:
    file, words = BAD_HEADERS[what]()
    assert_refused(reader, file.write(path), *words, "column 'x'", "row group 0")


@pytest.mark.parametrize(
    "what", ["64 MiB of zeros for pages", "a page of 2^31 - 1 values", "a page of 2 GiB"]
)
def test_a_bad_page_header_is_refused_where_a_seek_passes_it(path: Path, what: str) -> None:
    file, _ = BAD_HEADERS[what]()
    file.rows = 10_000
    file.write(path)
    dataset = fr.ParquetDataset(path, batch_size=1000)
    position = {"cuts": [[1, 1, 1000, 9]]}
    state = oracle.checked({**json.loads(dataset.state_dict()["fastresume"]), **position})
    dataset.load_state_dict({"fastresume": state})
    with refused(fr.DataError, path, "column 'x'", "row group 0"):
        list(dataset)


@each_of("version", ["1.0", "2.0"])
@each_of("kind", [tw.DICTIONARY_PAGE, "data"])
def test_a_page_whose_checksum_is_wrong_is_refused(path: Path, version: str, kind: int | str) -> None:
    write(path, data_page_version=version, write_page_checksum=True, compression="none")
    damaged = bytearray(path.read_bytes())
    metadata = tw.chunk(tw.split(bytes(damaged))[1], 2, 0)
    start = metadata[tw.DICTIONARY_PAGE_OFFSET if kind == tw.DICTIONARY_PAGE else tw.DATA_PAGE_OFFSET].value
    header, length = tw.decode(bytes(damaged[start:]))
    stated = header[4].value & 0xFFFFFFFF
    damaged[start + length + 1] ^= 1
    found = zlib.crc32(bytes(damaged[start + length : start + length + header[3].value]))
    path.write_bytes(damaged)
    dataset = open_dataset(path)
    iterator = iter(dataset)
    assert rows_of([next(iterator), next(iterator)]) == list(range(20))
    with refused(fr.DataError, f"{found:08x}", f"{stated:08x}", "column 'row'", "row group 2", path):
        next(iterator)
