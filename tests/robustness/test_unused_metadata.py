"""What a reader does not use refuses nothing: it is skipped within bounds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.each_of import each_of
from support.thrift_writer import (
    Field,
    OneColumn,
    Struct,
    Wire,
    binary,
    data_page,
    i32,
    i64,
    listing,
    structure,
)

pytestmark = pytest.mark.law(11)

ROWS = [3, 1, 2]
LOGICAL, CONVERTED, LENGTH = 10, 6, 2
KEY_VALUES, CREATED_BY = 5, 6


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of the columns `x` and `y`."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": ROWS, "y": [b"a", b"b", b"c"]}), path, compression="none")
    return path


def read(path: Path, columns: Any = "x") -> list[Any]:
    (batch,) = fr.ParquetDataset(path, batch_size=3, world=(0, 1), columns=columns)
    values = batch["x"]
    return values.tolist() if hasattr(values, "tolist") else values.to_list()


def element(footer: Struct, number: int) -> Struct:
    """An element of the schema: the root, `x` or `y`."""
    found: Struct = footer[tw.SCHEMA].value[1][number]
    return found


def put(fields: Struct, **changes: Field) -> None:
    """Set fields, named by `_` and their numbers."""
    found = {**fields, **{int(number[1:]): field for number, field in changes.items()}}
    fields.clear()
    fields.update(sorted(found.items()))


def odd_list(footer: Struct) -> None:
    encodings = tw.chunk(footer, 0, 1)[2]
    encodings.value[1].extend([99, -1])


TIME_OF_A_NEW_UNIT = structure({8: structure({1: Field(Wire.TRUE, None), 2: structure({9: structure({})})})})

UNUSED: dict[str, Callable[[Struct], object]] = {
    "a string that is a number": lambda f: put(
        element(f, 2), _1=i32(tw.INT32), _10=structure({1: structure({})})
    ),
    "a logical type of the future": lambda f: put(element(f, 2), _10=structure({99: structure({1: i32(7)})})),
    "a time in a unit of the future": lambda f: put(element(f, 2), _10=TIME_OF_A_NEW_UNIT),
    "an integer of 24 bits": lambda f: put(
        element(f, 2), _10=structure({10: structure({1: Field(Wire.BYTE, 24), 2: Field(Wire.TRUE, None)})})
    ),
    "a converted type of the future": lambda f: put(element(f, 2), _6=i32(99)),
    "two types that contradict each other": lambda f: put(
        element(f, 2), _6=i32(1), _10=structure({1: structure({})})
    ),
    "a decimal of no digits": lambda f: put(element(f, 2), _6=i32(5)),
    "a codec of the future": lambda f: put(tw.chunk(f, 0, 1), _4=i32(99)),
    "a physical type of the future": lambda f: (
        put(element(f, 2), _1=i32(99)),
        put(tw.chunk(f, 0, 1), _1=i32(99)),
    ),
    "a physical type that is negative": lambda f: put(element(f, 2), _1=i32(-1)),
    "encodings of the future": odd_list,
    "pages of an encoding of the future": lambda f: put(
        tw.chunk(f, 0, 1),
        _13=listing(Wire.STRUCT, [{1: i32(0), 2: i32(99), 3: i32(1)}, {1: i32(9), 2: i32(0), 3: i32(1)}]),
    ),
    "a field of another type": lambda f: put(f, _6=i32(7)),
    "statistics of another type": lambda f: put(tw.chunk(f, 0, 0), _12=i64(7)),
    "statistics with a negative null count": lambda f: put(tw.chunk(f, 0, 0)[12].value, _3=i64(-1)),
    "a list of another type": lambda f: put(f, _7=listing(Wire.I32, [1])),
    "fields that are not known": lambda f: put(
        f, _99=structure({1: listing(Wire.STRUCT, [{3: i64(1)}])}), _100=listing(Wire.TRUE, [1, 0])
    ),
    "a name of the writer that is no text": lambda f: put(f, _6=binary(b"\xff\xfe")),
    "metadata that is no text": lambda f: put(
        f, _5=listing(Wire.STRUCT, [{1: binary(b"\xff"), 2: binary(b"\xfe")}, {2: binary(b"no key")}])
    ),
    "a name of another column that is no text": lambda f: put(element(f, 2), _4=binary(b"\xe9t\xe9")),
    "a missing repetition": lambda f: [element(f, number).pop(3) for number in (2,)],
    "no offset of the file": lambda f: tw.row_group(f, 0)[tw.COLUMNS].value[1][1].pop(2),
    "an encrypted column": lambda f: put(
        tw.row_group(f, 0)[tw.COLUMNS].value[1][1], _8=structure({1: structure({})})
    ),
    "an encrypted column whose metadata is, too": lambda f: (
        tw.row_group(f, 0)[tw.COLUMNS].value[1][1].pop(3),
        put(tw.row_group(f, 0)[tw.COLUMNS].value[1][1], _9=binary(b"secret")),
    ),
    "an order of the future": lambda f: put(
        f, _7=listing(Wire.STRUCT, [{1: structure({})}, {99: structure({})}])
    ),
    "sorting of another type": lambda f: put(tw.row_group(f, 0), _4=listing(Wire.I32, [1])),
    "no version": lambda f: f.pop(1),
    "no rows in the footer": lambda f: put(f, _3=i64(0)),
    "an index at -1": lambda f: put(tw.row_group(f, 0)[tw.COLUMNS].value[1][0], _4=i64(-1), _5=i32(-1)),
}


@pytest.mark.parametrize("what", UNUSED)
def test_what_is_not_used_refuses_nothing(path: Path, what: str) -> None:
    tw.edit_footer(path, UNUSED[what])
    assert read(path) == ROWS
    (batch,) = fr.ParquetDataset(path, batch_size=1, columns="x", filter=fr.col("x") == 1)
    assert batch["x"].tolist() == [1]


def test_what_can_not_be_read_is_refused_by_its_name_where_it_is_read(path: Path) -> None:
    whole = path.read_bytes()
    for what, said in (
        ("an encrypted column", "the column is encrypted"),
        ("an encrypted column whose metadata is, too", "the column is encrypted"),
        ("a codec of the future", "by the codec 99"),
        ("a physical type of the future", "the physical type 99"),
    ):
        path.write_bytes(whole)
        tw.edit_footer(path, UNUSED[what])
        with pytest.raises(fr.DataError, match=said) as caught:
            read(path, ["x", "y"])
        assert "column 'y'" in str(caught.value)
        assert str(path) in str(caught.value)


def fixed(length: int, **element: Field) -> OneColumn:
    """Three values of so many bytes."""
    body = b"".join(bytes([value]) * length for value in ROWS)
    fields = {int(number[1:]): field for number, field in element.items()}
    return OneColumn([data_page(body, 3)], 3, type=tw.FIXED, element={LENGTH: i32(length), **fields})


@each_of(
    "element",
    [
        {"_10": structure({8: structure({1: Field(Wire.TRUE, None), 2: structure({2: structure({})})})})},
        {"_10": structure({14: structure({})})},
        {"_10": structure({99: structure({})})},
        {"_6": i32(21)},
    ],
)
def test_a_type_that_is_not_one_of_its_values_leaves_them_as_bytes(tmp_path: Path, element: Any) -> None:
    path = fixed(10, **element).write(tmp_path / "x.parquet")
    assert read(path) == [[value] * 10 for value in ROWS]
    assert fr.ParquetDataset(path, batch_size=3).schema["x"].dtype is not None


@pytest.mark.parametrize("member", [17, 18])
def test_a_geometry_is_its_bytes(path: Path, member: int) -> None:
    tw.edit_footer(path, lambda f: put(element(f, 2), _10=structure({member: structure({})})))
    (batch,) = fr.ParquetDataset(path, batch_size=3, world=(0, 1), columns="y")
    assert batch["y"].to_bytes() == [b"a", b"b", b"c"]


def test_statistics_of_many_mebibytes_in_a_page_header_are_skipped(tmp_path: Path) -> None:
    body = tw.int64s(3)
    header = {
        1: i32(tw.DATA_PAGE),
        2: i32(len(body)),
        3: i32(len(body)),
        5: structure(
            {1: i32(3), 2: i32(0), 3: i32(3), 4: i32(3), 5: structure({5: binary(b"z" * (5 << 20))})}
        ),
    }
    path = OneColumn([tw.encode(header) + body], 3).write(tmp_path / "x.parquet")
    assert read(path) == [0, 1, 2]


def test_a_file_without_row_groups_stands_among_others(path: Path, tmp_path: Path) -> None:
    def empty(footer: Struct) -> None:
        footer.pop(tw.ROW_GROUPS)
        put(footer, _3=i64(0))

    other = tmp_path / "y.parquet"
    other.write_bytes(path.read_bytes())
    tw.edit_footer(other, empty)
    (batch,) = fr.ParquetDataset([other, path], batch_size=3, world=(0, 1), columns="x")
    assert batch["x"].tolist() == ROWS


@pytest.mark.parametrize("number", [17, 18, 99], ids=["geometry", "geography", "of the future"])
def test_a_logical_type_that_is_not_known_is_read_as_its_physical_type(path: Path, number: int) -> None:
    logical = structure({number: structure({})})
    tw.edit_footer(path, lambda footer: put(element(footer, 2), _10=logical))
    (batch,) = fr.ParquetDataset(path, batch_size=3, world=(0, 1))
    assert batch["x"].tolist() == ROWS
    assert batch["y"].to_bytes() == [b"a", b"b", b"c"]
