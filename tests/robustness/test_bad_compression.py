"""Law 11 for compression: pages that expand to too much or too little are one DataError, in little memory."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from support import thrift_writer as tw
from support.child import MIB, Reader
from support.each_of import each_of
from support.refusals import assert_refused, deflated
from support.thrift_writer import OneColumn, data_page, int64s

pytestmark = pytest.mark.law(11)


def packed(codec: str, size: int) -> bytes:
    """Return so many zeros, by a codec that pyarrow knows."""
    return pa.compress(bytes(size), codec=codec, asbytes=True)


GOOD = data_page(int64s(10), 10)

BAD_COMPRESSION: dict[str, Callable[[], tuple[OneColumn, list[object]]]] = {
    "a gzip bomb": lambda: (
        OneColumn([data_page(deflated(1024 * MIB), 10, uncompressed=80)], 10, codec=tw.GZIP),
        [80],
    ),
    "a zstd bomb": lambda: (
        OneColumn([data_page(packed("zstd", 256 * MIB), 10, uncompressed=80)], 10, codec=6),
        [],
    ),
    "a brotli bomb": lambda: (
        OneColumn([data_page(packed("brotli", 256 * MIB), 10, uncompressed=80)], 10, codec=4),
        [80],
    ),
    "a snappy bomb": lambda: (
        OneColumn([data_page(packed("snappy", 64 * MIB), 10, uncompressed=80)], 10, codec=1),
        [],
    ),
    "a lz4 bomb": lambda: (
        OneColumn([data_page(packed("lz4_raw", 64 * MIB), 10, uncompressed=80)], 10, codec=7),
        [],
    ),
    "a lz4 bomb, framed": lambda: (
        OneColumn([data_page(packed("lz4", 64 * MIB), 10, uncompressed=80)], 10, codec=5),
        [],
    ),
    "a page that expands to too little": lambda: (
        OneColumn([data_page(gzip.compress(int64s(5)), 10, uncompressed=80)], 10, codec=tw.GZIP),
        [40, 80],
    ),
    "a page that is not compressed": lambda: (OneColumn([GOOD], 10, codec=tw.ZSTD), []),
    "a page of 1 GiB of which 80 bytes are values": lambda: (
        OneColumn([data_page(deflated(1024 * MIB), 10, uncompressed=1024 * MIB)], 10, codec=tw.GZIP),
        [],
    ),
}


@each_of("what", BAD_COMPRESSION)
def test_bad_compression_is_refused(path: Path, reader: Reader, what: str) -> None:
    file, words = BAD_COMPRESSION[what]()
    assert_refused(reader, file.write(path), *words, "column 'x'", "row group 0")
