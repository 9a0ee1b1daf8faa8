"""What the footer says of Arrow's schema, damaged or endless."""

from __future__ import annotations

import base64
import contextlib
import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support import thrift_writer as tw
from support.each_of import each_of

KEY_VALUES = 5


def numbers(*sizes: int) -> pa.Array:
    """Four rows of lists that have one length each, the outermost first."""
    array = pa.array(range(4 * math.prod(sizes)))
    for size in reversed(sizes):
        array = pa.FixedSizeListArray.from_arrays(array, size)
    return array


def edit_schema(path: Path, edit: Callable[[bytes], bytes]) -> None:
    """Change the text of the Arrow schema in a file's footer."""

    def change(footer: tw.Struct) -> None:
        (pair,) = footer[KEY_VALUES].value[1]
        assert pair[1].value == b"ARROW:schema"
        pair[2] = tw.binary(edit(pair[2].value))

    tw.edit_footer(path, change)


@pytest.mark.law(11)
@each_of(
    "text",
    [b"", b"A", b"AAAA", b"!!!!", b"/////wAAAAA=", b"/////xAAAAAAAAAA", b"////" * 100, b"\xff" * 8],
)
def test_an_arrow_schema_that_is_none_is_refused(path: Path, text: bytes) -> None:
    pq.write_table(pa.table({"x": numbers(2)}), path)
    edit_schema(path, lambda _: text)
    with pytest.raises(fr.DataError, match=r"damaged|UTF-8|utf-8") as caught:
        fr.ParquetDataset(path, batch_size=1)
    assert str(path) in str(caught.value)


@pytest.mark.law(11)
@given(st.data())
def test_a_damaged_arrow_schema_is_read_or_refused(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("damaged") / "x.parquet"
    structs = pa.StructArray.from_arrays([numbers(2, 2), numbers(2)], ["a", "b"])
    pq.write_table(pa.table({"x": numbers(2), "s": structs}), path)

    def edit(text: bytes) -> bytes:
        message = bytearray(base64.b64decode(text))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(message) - 1))
            message[at : at + 1] = data.draw(
                st.sampled_from(
                    [b"", b"\0", b"\1", b"\x04", b"\x10", b"\x7f", b"\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0"]
                )
            )
        return base64.b64encode(bytes(message))

    edit_schema(path, edit)
    with contextlib.suppress(
        fr.DataError, ValueError
    ):  # the second where there is no memory for what it says
        list(fr.ParquetDataset(path, batch_size=4))


def shared_fields(levels: int) -> bytes:
    """The text of a schema whose one field has two children, which are one: and so on, each in one place."""
    # What a table of each kind begins with: its length, that of its fields, and where each of them stands.
    message, schema, field = (10, 9, 0, 8, 4), (8, 8, 0, 4), (16, 8, 0, 0, 0, 0, 0, 4)
    kinds = b"".join(struct.pack(f"<{len(kind)}H", *kind) for kind in (message, schema, field))
    at_message, at_schema, at_field = 4, 4 + 10, 4 + 10 + 8
    found = struct.pack("<I", 4 + len(kinds)) + kinds
    found += struct.pack("<iIB", len(found) - at_message, 5, 1)
    found += struct.pack("<iI", len(found) - at_schema, 4)
    for _ in range(levels):
        found += struct.pack("<III", 2, 8, 4)  # a vector of two, both of which begin behind it
        found += struct.pack("<iI", len(found) - at_field, 4)
    found += struct.pack("<I", 0)
    return base64.b64encode(struct.pack("<II", 2**32 - 1, len(found)) + found)


@pytest.mark.law(11)
@each_of(("levels", "is_read"), [(1, True), (10, True), (40, False), (99, False), (5000, False)])
def test_fields_that_are_shared_are_not_read_without_end(path: Path, levels: int, is_read: bool) -> None:
    pq.write_table(pa.table({"x": numbers(2)}), path)
    edit_schema(path, lambda _: shared_fields(levels))
    if is_read:
        assert fr.ParquetDataset(path, batch_size=1).schema["x"].shape == ("B", "*")
    else:
        with pytest.raises(fr.DataError, match="the footer's ARROW:schema is damaged"):
            fr.ParquetDataset(path, batch_size=1)
