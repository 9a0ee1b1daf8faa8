"""Parquet files by hand: Thrift's compact protocol, and a writer that writes what no writer would.

A struct is a dict from field numbers to `Field`s, so that tests can say any nonsense that the bytes of a file
can say. `write_file` makes whole files of one column; `edit_footer` changes what stands in the footer of a
file that a real writer wrote.

Sources: https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md and
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

# --------------------------------------------------------------------------------------- the compact protocol


class Wire(IntEnum):
    """The types that the wire knows."""

    TRUE = 1
    FALSE = 2
    BYTE = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12


class Field(NamedTuple):
    """A value and its type. A list's value is `(type of its elements, values)`; a bool's is its type."""

    wire: Wire
    value: Any


Struct = dict[int, Field]


def i32(value: int) -> Field:
    """Return an i32 (of any size: the wire does not mind)."""
    return Field(Wire.I32, value)


def i64(value: int) -> Field:
    """Return an i64."""
    return Field(Wire.I64, value)


def binary(value: bytes) -> Field:
    """Return bytes or a string."""
    return Field(Wire.BINARY, value)


def structure(fields: Struct) -> Field:
    """Return a struct."""
    return Field(Wire.STRUCT, fields)


def listing(wire: Wire, values: Sequence[Any]) -> Field:
    """Return a list."""
    return Field(Wire.LIST, (wire, list(values)))


def varint(value: int) -> bytes:
    """Return an unsigned number, 7 bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value: int) -> bytes:
    """Return a signed number."""
    return varint(2 * value if value >= 0 else -2 * value - 1)


def encode(fields: Struct) -> bytes:
    """Return the bytes of a struct; its fields come in the dict's order."""
    out = bytearray()
    last = 0
    for number, (wire, value) in fields.items():
        delta = number - last
        out += bytes([delta << 4 | wire]) if 0 < delta < 16 else bytes([wire]) + zigzag(number)
        out += b"" if wire in (Wire.TRUE, Wire.FALSE) else _encode_value(wire, value)
        last = number
    return bytes(out) + b"\0"


def _encode_value(wire: Wire, value: Any) -> bytes:
    match wire:
        case Wire.TRUE | Wire.FALSE | Wire.BYTE:
            return bytes([value & 0xFF])
        case Wire.I16 | Wire.I32 | Wire.I64:
            return zigzag(value)
        case Wire.DOUBLE:
            return struct.pack("<d", value)
        case Wire.BINARY:
            return varint(len(value)) + value
        case Wire.LIST | Wire.SET:
            element, values = value
            head = bytes([len(values) << 4 | element]) if len(values) < 15 else bytes([0xF0 | element])
            head += b"" if len(values) < 15 else varint(len(values))
            return head + b"".join(_encode_value(element, item) for item in values)
        case Wire.STRUCT:
            return encode(value)
        case _:
            raise NotImplementedError(wire)


class _Bytes:
    """Bytes that are read from the front."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= count <= len(self.data) - self.position:
            raise ValueError(f"{count} bytes of {len(self.data) - self.position}")
        self.position += count
        return self.data[self.position - count : self.position]

    def varint(self) -> int:
        """Return an unsigned number."""
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def zigzag(self) -> int:
        """Return a signed number."""
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def struct(self) -> Struct:
        """Return a struct."""
        fields: Struct = {}
        number = 0
        while (head := self.take(1)[0]) != 0:
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            wire = Wire(head & 0x0F)
            is_bool = wire in (Wire.TRUE, Wire.FALSE)
            fields[number] = Field(wire, wire is Wire.TRUE if is_bool else self.value(wire))
        return fields

    def value(self, wire: Wire) -> Any:
        """Return a value."""
        match wire:
            case Wire.TRUE | Wire.FALSE | Wire.BYTE:
                return int.from_bytes(self.take(1), signed=True)
            case Wire.I16 | Wire.I32 | Wire.I64:
                return self.zigzag()
            case Wire.DOUBLE:
                return struct.unpack("<d", self.take(8))[0]
            case Wire.BINARY:
                return self.take(self.varint())
            case Wire.LIST | Wire.SET:
                head = self.take(1)[0]
                count = head >> 4 if head >> 4 < 15 else self.varint()
                element = Wire(head & 0x0F)
                return element, [self.value(element) for _ in range(count)]
            case Wire.STRUCT:
                return self.struct()
            case _:
                raise ValueError(wire)


def decode(data: bytes) -> tuple[Struct, int]:
    """Return the struct at the start of the bytes (ValueError if there is none), and its length."""
    source = _Bytes(data)
    return source.struct(), source.position


# ---------------------------------------------------------------------------------- the footer of a real file

# FileMetaData
SCHEMA, NUM_ROWS, ROW_GROUPS = 2, 3, 4
# SchemaElement
TYPE, REPETITION, NAME, NUM_CHILDREN = 1, 3, 4, 5
# RowGroup
COLUMNS, GROUP_ROWS = 1, 3
# ColumnChunk
META_DATA = 3
# ColumnMetaData
CODEC, NUM_VALUES, COMPRESSED_BYTES, DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET = 4, 5, 7, 9, 11

# The field of the statistics in ColumnMetaData, and theirs; that of the orders of columns in FileMetaData.
STATISTICS, COLUMN_ORDERS = 12, 7
OLD_MAX, OLD_MIN, NULL_COUNT, MAX, MIN = 1, 2, 3, 5, 6

MAGIC = b"PAR1"


def split(data: bytes) -> tuple[bytes, Struct]:
    """Return what stands before the footer of a file, and the footer."""
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], decode(data[-8 - length : -8])[0]


def join(before: bytes, footer: Struct | bytes) -> bytes:
    """Return the bytes of a file that ends in this footer."""
    text = footer if isinstance(footer, bytes) else encode(footer)
    return before + text + len(text).to_bytes(4, "little") + MAGIC


def edit_footer(path: Path, edit: Callable[[Struct], object]) -> None:
    """Change the footer of a file in place."""
    before, footer = split(path.read_bytes())
    edit(footer)
    path.write_bytes(join(before, footer))


def row_group(footer: Struct, index: int) -> Struct:
    """Return a row group of a footer."""
    return footer[ROW_GROUPS].value[1][index]


def chunk(footer: Struct, group: int, column: int) -> Struct:
    """Return the metadata of a column chunk."""
    return row_group(footer, group)[COLUMNS].value[1][column][META_DATA].value


def statistics_of(footer: Struct, column: int) -> Struct:
    """Return the statistics of a column of the first row group."""
    return chunk(footer, 0, column)[STATISTICS].value


# ----------------------------------------------------------------------------------------- files from nothing

INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = 1, 2, 3, 4, 5, 6, 7
REQUIRED, OPTIONAL = 0, 1
PLAIN, RLE, DELTA_BINARY_PACKED, DELTA_BYTE_ARRAY, RLE_DICTIONARY, BYTE_STREAM_SPLIT = 0, 3, 5, 7, 8, 9
UNCOMPRESSED, SNAPPY, GZIP, BROTLI, LZ4, ZSTD, LZ4_RAW = 0, 1, 2, 4, 5, 6, 7
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3


def page(
    kind: int,
    body: bytes,
    details: dict[int, Field],
    *,
    uncompressed: int | None = None,
    compressed: int | None = None,
    checksum: bool = False,
) -> bytes:
    """Return a page: its header, which may lie about the sizes, and its body."""
    header = {
        1: i32(kind),
        2: i32(len(body) if uncompressed is None else uncompressed),
        3: i32(len(body) if compressed is None else compressed),
    }
    if checksum:
        header[4] = i32(struct.unpack("<i", struct.pack("<I", zlib.crc32(body)))[0])
    number = {DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}.get(kind)
    if number is not None:
        header[number] = structure(details)
    return encode(header) + body


def data_page(body: bytes, values: int, *, encoding: int = PLAIN, **sizes: Any) -> bytes:
    """Return a data page of the first version."""
    details = {1: i32(values), 2: i32(encoding), 3: i32(RLE), 4: i32(RLE)}
    return page(DATA_PAGE, body, details, **sizes)


def data_page_v2(
    body: bytes,
    values: int,
    *,
    rows: int | None = None,
    nulls: int = 0,
    encoding: int = PLAIN,
    definition_bytes: int = 0,
    **sizes: Any,
) -> bytes:
    """Return a data page of the second version, not compressed."""
    details = {
        1: i32(values),
        2: i32(nulls),
        3: i32(values if rows is None else rows),
        4: i32(encoding),
        5: i32(definition_bytes),
        6: i32(0),
        7: Field(Wire.FALSE, False),
    }
    return page(DATA_PAGE_V2, body, details, **sizes)


def dictionary_page(body: bytes, values: int, **sizes: Any) -> bytes:
    """Return a dictionary page."""
    return page(DICTIONARY_PAGE, body, {1: i32(values), 2: i32(PLAIN)}, **sizes)


@dataclass
class OneColumn:
    """A file with one row group of one column, whose parts are all in the test's hands."""

    pages: Sequence[bytes]
    rows: int
    type: int = INT64
    codec: int = UNCOMPRESSED
    element: Struct = field(default_factory=dict)
    """What is added to, or changed in, the column's schema element."""

    def footer(self) -> Struct:
        """Return the footer, for the test to change."""
        size = sum(map(len, self.pages))
        metadata: Struct = {
            TYPE: i32(self.type),
            2: listing(Wire.I32, [PLAIN, RLE, *range(DELTA_BINARY_PACKED, BYTE_STREAM_SPLIT + 1)]),
            3: listing(Wire.BINARY, [b"x"]),
            CODEC: i32(self.codec),
            NUM_VALUES: i64(self.rows),
            6: i64(size),
            COMPRESSED_BYTES: i64(size),
            DATA_PAGE_OFFSET: i64(len(MAGIC)),
        }
        group: Struct = {
            COLUMNS: listing(Wire.STRUCT, [{2: i64(0), META_DATA: structure(metadata)}]),
            2: i64(size),
            GROUP_ROWS: i64(self.rows),
        }
        return {
            1: i32(2),
            SCHEMA: listing(Wire.STRUCT, [self.root(), self.leaf()]),
            NUM_ROWS: i64(self.rows),
            ROW_GROUPS: listing(Wire.STRUCT, [group]),
        }

    def root(self) -> Struct:
        """Return the schema's root."""
        return {NAME: binary(b"schema"), NUM_CHILDREN: i32(1)}

    def leaf(self) -> Struct:
        """Return the schema's element of the column."""
        leaf = {TYPE: i32(self.type), REPETITION: i32(REQUIRED), NAME: binary(b"x"), **self.element}
        return dict(sorted(leaf.items()))

    def write(self, path: Path, footer: Struct | bytes | None = None) -> Path:
        """Write the file, with its own footer or another one."""
        before = MAGIC + b"".join(self.pages)
        path.write_bytes(join(before, self.footer() if footer is None else footer))
        return path


def int64s(count: int, start: int = 0) -> bytes:
    """Return consecutive numbers as a plain page holds them."""
    return struct.pack(f"<{count}q", *range(start, start + count))
