"""Law 11 for dictionaries and the indices into them: damage is one DataError, soon, in little memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support import thrift_writer as tw
from support.child import Reader
from support.each_of import each_of
from support.refusals import assert_refused
from support.thrift_writer import OneColumn, data_page, dictionary_page, int64s

pytestmark = pytest.mark.law(11)

INDICES = bytes([3]) + tw.varint(10 << 1) + b"\x07"
"""Ten times the index 7, as a dictionary-encoded page holds them: 3 bits each, one run."""

BAD_DICTIONARIES: dict[str, Callable[[], tuple[OneColumn, list[object]]]] = {
    "a dictionary of 2^31 - 1 values": lambda: (
        OneColumn([dictionary_page(int64s(10), 2**31 - 1), data_page(INDICES, 10, encoding=8)], 10),
        [2**31 - 1, 80],
    ),
    "a dictionary that is not there": lambda: (
        OneColumn([data_page(INDICES, 10, encoding=8)], 10),
        ["dictionary"],
    ),
    "an index beyond the dictionary": lambda: (
        OneColumn([dictionary_page(int64s(5), 5), data_page(INDICES, 10, encoding=8)], 10),
        ["7", "5"],
    ),
    "indices of 255 bits": lambda: (
        OneColumn([dictionary_page(int64s(10), 10), data_page(b"\xff" * 50, 10, encoding=8)], 10),
        [],
    ),
}


@each_of("what", BAD_DICTIONARIES)
def test_a_bad_dictionary_is_refused(path: Path, reader: Reader, what: str) -> None:
    file, words = BAD_DICTIONARIES[what]()
    assert_refused(reader, file.write(path), *words, "column 'x'", "row group 0")
