"""Law 11 for values of so many bytes, structs and maps: damage is one DataError, soon, in little memory.

Each file is opened in a process of its own (`Reader`), so that one which kills its reader, hangs, or takes
all memory fails one test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from test_bad_strings import deltas, indices, prefixes_page

import fastresume as fr
from support import thrift_writer as tw
from support.child import MIB, Reader
from support.each_of import each_of
from support.list_writer import sized
from support.thrift_writer import OneColumn, Struct, binary, data_page, dictionary_page, i32, i64

pytestmark = pytest.mark.law(11)

SPLIT = 9
LENGTH, CONVERTED, SCALE, PRECISION = 2, 6, 7, 8
DECIMAL, MAP, LIST = 5, 1, 3


def fixed(*pages: bytes, rows: int = 3, length: int = 4, **element: object) -> OneColumn:
    """A file of one column of values of so many bytes."""
    more: Struct = {LENGTH: i32(length), **{int(key[1:]): value for key, value in element.items()}}  # type: ignore[dict-item]
    return OneColumn(pages, rows, type=tw.FIXED, element=more)


WORDS = dictionary_page(b"aaaabbbb", 2)

BAD_VALUES: dict[str, Callable[[], OneColumn]] = {
    "no bytes": lambda: fixed(data_page(b"", 3)),
    "a byte too few": lambda: fixed(data_page(b"abcdabcdabc", 3)),
    "fewer values than it says": lambda: fixed(data_page(b"abcdabcd", 3)),
    "2^31 - 1 values": lambda: fixed(data_page(b"abcd" * 3, 2**31 - 1)),
    "a longer length than there are bytes": lambda: fixed(data_page(b"abcd" * 3, 3), length=1 << 20),
    "split: a byte too few": lambda: fixed(data_page(b"abcdabcdabc", 3, encoding=SPLIT)),
    "split: no bytes": lambda: fixed(data_page(b"", 3, encoding=SPLIT)),
    "a dictionary of fewer values than it says": lambda: fixed(
        dictionary_page(b"aaaabbb", 2), data_page(indices(0, 3), 3, encoding=tw.RLE_DICTIONARY)
    ),
    "a dictionary of 2^31 - 1 values": lambda: fixed(
        dictionary_page(b"aaaabbbb", 2**31 - 1), data_page(indices(0, 3), 3, encoding=tw.RLE_DICTIONARY)
    ),
    "an index beyond the dictionary": lambda: fixed(
        WORDS, data_page(indices(2, 3), 3, encoding=tw.RLE_DICTIONARY)
    ),
    "fewer indices than values": lambda: fixed(
        WORDS, data_page(indices(1, 2), 3, encoding=tw.RLE_DICTIONARY)
    ),
    "no dictionary": lambda: fixed(data_page(indices(0, 3), 3, encoding=tw.RLE_DICTIONARY)),
    "prefixes: of another length": lambda: fixed(
        prefixes_page(deltas(0, 0, 0), deltas(4, 3, 5), b"abcd" * 3)
    ),
    "prefixes: fewer than values": lambda: fixed(prefixes_page(deltas(0, 0), deltas(4, 4), b"abcd" * 2)),
    "prefixes: longer than the value before": lambda: fixed(
        prefixes_page(deltas(0, 5, 0), deltas(4, 4, 4), b"abcd" * 3)
    ),
    "deltas of what is no integer": lambda: fixed(
        data_page(deltas(1, 2, 3), 3, encoding=tw.DELTA_BINARY_PACKED)
    ),
    "int96: a byte too few": lambda: OneColumn([data_page(bytes(35), 3)], 3, type=tw.INT96),
    "int96: a dictionary of a byte too few": lambda: OneColumn(
        [dictionary_page(bytes(23), 2), data_page(indices(0, 3), 3, encoding=tw.RLE_DICTIONARY)],
        3,
        type=tw.INT96,
    ),
    "int96: deltas": lambda: OneColumn(
        [data_page(deltas(1, 2, 3), 3, encoding=tw.DELTA_BINARY_PACKED)], 3, type=tw.INT96
    ),
    "int96: beyond 64 bits": lambda: OneColumn(
        [data_page(struct.pack("<qi", 2**63 - 1, 2**31 - 1) * 3, 3)], 3, type=tw.INT96
    ),
    "decimal: a text beyond the page": lambda: OneColumn(
        [data_page(sized(b"\1") * 2 + struct.pack("<I", 77), 3)],
        3,
        type=tw.BYTE_ARRAY,
        element={CONVERTED: i32(DECIMAL), SCALE: i32(2), PRECISION: i32(9)},
    ),
    "decimal: too long for its digits": lambda: OneColumn(
        [data_page(sized(b"\1" + bytes(8)) * 3, 3)],
        3,
        type=tw.BYTE_ARRAY,
        element={CONVERTED: i32(DECIMAL), SCALE: i32(2), PRECISION: i32(9)},
    ),
}


@each_of("what", BAD_VALUES)
@each_of("threads", [0, 2])
def test_a_bad_page_is_refused(path: Path, reader: Reader, what: str, threads: int) -> None:
    BAD_VALUES[what]().write(path)
    reader.read(path, threads=threads).assert_refused(path)


BAD_TYPES: dict[str, Callable[[], OneColumn]] = {
    "a length of 0": lambda: fixed(data_page(b"", 3), length=0),
    "a negative length": lambda: fixed(data_page(b"", 3), length=-4),
    "a length of 2^31 - 1": lambda: fixed(data_page(b"", 3), length=2**31 - 1),
}


@pytest.mark.parametrize("what", BAD_TYPES)
def test_a_type_that_can_not_be_is_refused(path: Path, reader: Reader, what: str) -> None:
    outcome = reader.read(BAD_TYPES[what]().write(path))
    assert outcome.kind == "DataError"
    assert str(path) in outcome.message
    assert outcome.grown < 500 * MIB


@each_of(
    ("scale", "precision"),
    [(1, -9), (-1, 9), (1, 2**31 - 1), (2**31 - 1, 2**31 - 1)],
)
def test_a_decimal_that_can_not_be_is_its_bytes(path: Path, scale: int, precision: int) -> None:
    fixed(data_page(b"abcd" * 3, 3), _6=i32(DECIMAL), _7=i32(scale), _8=i32(precision)).write(path)
    (batch,) = fr.ParquetDataset(path, batch_size=3)
    assert batch["x"].tolist() == [list(b"abcd")] * 3
    with pytest.raises(fr.DataError, match=r"\.decimal\(\) takes no column of type fixed_size_binary\[4\]"):
        fr.ParquetDataset(path, batch_size=3, columns=fr.col("x").decimal("float64"))


# ---------------------------------------------------------------------------------------------------- schemas


def of_schema(*elements: Struct) -> bytes:
    """A footer of these elements below the root, and no row group."""
    footer = OneColumn([], 0).footer()
    footer[tw.SCHEMA] = tw.listing(tw.Wire.STRUCT, list(elements))
    footer[tw.NUM_ROWS] = i64(0)
    footer[tw.ROW_GROUPS] = tw.listing(tw.Wire.STRUCT, [])
    return tw.encode(footer)


def group(name: bytes, children: int, repetition: int = 1, converted: int | None = None) -> Struct:
    """A group of the schema."""
    more = {} if converted is None else {CONVERTED: i32(converted)}
    made = {tw.REPETITION: i32(repetition), tw.NAME: binary(name), tw.NUM_CHILDREN: i32(children), **more}
    return dict(sorted(made.items()))


def leaf(name: bytes, repetition: int = 1) -> Struct:
    """A column of int64."""
    return {tw.TYPE: i32(tw.INT64), tw.REPETITION: i32(repetition), tw.NAME: binary(name)}


def root(children: int) -> Struct:
    """The root of a schema."""
    return {tw.NAME: binary(b"schema"), tw.NUM_CHILDREN: i32(children)}


ODD = {
    "a map of one leaf": [root(1), group(b"x", 1, 1, MAP), leaf(b"k", 2)],
    "a map of keys alone": [root(1), group(b"x", 1, 1, MAP), group(b"e", 1, 2), leaf(b"k", 0)],
    "a map of three": [
        root(1),
        group(b"x", 1, 1, MAP),
        group(b"e", 3, 2),
        leaf(b"k"),
        leaf(b"v"),
        leaf(b"w"),
    ],
    "a map that is repeated": [root(1), group(b"x", 1, 2, MAP), group(b"e", 2, 2), leaf(b"k"), leaf(b"v")],
    "a map of nothing repeated": [root(1), group(b"x", 1, 1, MAP), group(b"e", 2, 1), leaf(b"k"), leaf(b"v")],
    "a list of two": [root(1), group(b"x", 2, 1, LIST), leaf(b"k", 2), leaf(b"v", 2)],
    "a list of a list": [root(1), group(b"x", 1, 1, LIST), group(b"l", 1, 2), leaf(b"e", 2)],
    "a struct that is repeated": [root(1), group(b"x", 2, 2), leaf(b"a"), leaf(b"b", 2)],
    "a struct of structs": [root(1), *(group(b"x", 1) for _ in range(90)), leaf(b"a")],
    "names with dots": [root(2), leaf(b"x.y"), group(b"x", 1), leaf(b"y")],
    "names of nothing": [root(2), leaf(b""), group(b"", 1), leaf(b"")],
}


@each_of("what", ODD)
def test_odd_schemas_are_read_or_refused(path: Path, reader: Reader, what: str) -> None:
    outcome = reader.read(OneColumn([], 0).write(path, of_schema(*ODD[what])))
    assert outcome.kind in ("DataError", "ValueError"), outcome
    assert "gave up" not in outcome.message
    assert outcome.grown < 500 * MIB


def test_names_that_are_repeated_for_each_column_are_bounded(path: Path, reader: Reader) -> None:
    leaves = [leaf(b"%d" % number) for number in range(10_000)]
    file = OneColumn([], 0).write(path, of_schema(root(1), group(b"x" * MIB, 10_000), *leaves))
    outcome = reader.read(file)
    assert outcome.kind == "DataError"
    assert "names of the columns and of their groups take more than 67108864 bytes" in outcome.message
    assert outcome.grown < 500 * MIB


def test_two_columns_of_one_name_are_refused_where_they_are_read(path: Path) -> None:
    OneColumn([], 0).write(path, of_schema(*ODD["names with dots"]))
    with pytest.raises(fr.DataError, match="two columns have this name") as caught:
        fr.ParquetDataset(path, batch_size=1)
    assert "column 'x.y'" in str(caught.value)
