"""Law 11 for encodings: values that are not there, or that a type can't hold, are one DataError."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from support import thrift_writer as tw
from support.child import Child, Reader, read_whole
from support.refusals import assert_refused
from support.thrift_writer import OneColumn, data_page, i32

pytestmark = pytest.mark.law(11)

FLOAT16 = {2: i32(2), 10: tw.structure({15: tw.structure({})})}


def delta(values: int) -> bytes:
    """Return a page of DELTA_BINARY_PACKED that claims so many values."""
    return tw.varint(128) + tw.varint(4) + tw.varint(values) + tw.zigzag(0) + bytes(200)


BAD_ENCODINGS: dict[str, Callable[[], tuple[OneColumn, list[object]]]] = {
    "2^28 prefixes": lambda: (
        OneColumn([data_page(delta(2**28), 10, encoding=7)], 10, type=tw.FIXED, element=FLOAT16),
        [],
    ),
    "2^40 prefixes": lambda: (
        OneColumn([data_page(delta(2**40), 10, encoding=7)], 10, type=tw.FIXED, element=FLOAT16),
        [],
    ),
    "a number that its type can't hold": lambda: (
        OneColumn([data_page(struct.pack("<10i", *range(291, 301)), 10)], 10, tw.INT32, element={6: i32(15)}),
        ["row 0", 291],
    ),
}


@pytest.mark.parametrize("what", BAD_ENCODINGS)
def test_a_bad_encoding_is_refused(path: Path, reader: Reader, what: str) -> None:
    file, words = BAD_ENCODINGS[what]()
    assert_refused(reader, file.write(path), *words, "column 'x'", "row group 0")


def test_a_decoder_that_panics_prints_nothing(path: Path) -> None:
    # The parquet crate indexes beyond this page, which has room for less than it says.
    OneColumn([data_page(bytes(9), 10, encoding=9)], 10).write(path)
    with Child() as child:
        found = child.call(read_whole, str(path), 3, 0)
        assert found["kind"] == "DataError"
        assert child.stderr() == ""
