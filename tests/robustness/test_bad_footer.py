"""Law 11 for footers: what is absurd is one DataError, soon, in little memory.

The worst files are opened in a process of its own (`Reader`), so that one which kills its reader, hangs, or
takes all memory fails one test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.child import MIB, SECONDS, Child, Reader, forget_peak, peak, resident
from support.each_of import each_of
from support.profile import one_in
from support.refusals import assert_refused, open_dataset, refused, rows_of, write
from support.thrift_writer import OneColumn, Wire, binary, data_page, i32, i64, int64s

pytestmark = pytest.mark.law(11)

NOT_PARQUET = {
    "zero bytes": b"",
    "one byte": b"P",
    "the magic alone": b"PAR1",
    "the magic twice": b"PAR1PAR1",
    "11 bytes": b"PAR1\0\0\0PAR1",
    "12 bytes, the shortest that could be": b"PAR1\0\0\0\0PAR1",
    "23 bytes": b"this is not Parquet at ",
    "text": b"row,half\n" * 10_000,
    "no magic at the end": b"PAR1" + bytes(100),
    "an encrypted footer": b"PARE" + bytes(100) + (50).to_bytes(4, "little") + b"PARE",
    "a footer longer than the file": b"PAR1" + bytes(100) + (101).to_bytes(4, "little") + b"PAR1",
    "a footer of 4 GiB": b"PAR1" + bytes(100) + (2**32 - 1).to_bytes(4, "little") + b"PAR1",
    "a footer of nothing": b"PAR1" + bytes(100) + (0).to_bytes(4, "little") + b"PAR1",
    "a footer of zeros": b"PAR1" + bytes(100) + (100).to_bytes(4, "little") + b"PAR1",
    "a footer of ones": b"PAR1" + b"\xff" * 100 + (100).to_bytes(4, "little") + b"PAR1",
}


@each_of("what", NOT_PARQUET)
def test_a_file_that_is_not_parquet_is_named(path: Path, what: str) -> None:
    path.write_bytes(NOT_PARQUET[what])
    with refused(fr.DataError, path):
        open_dataset(path)


def test_a_footer_too_long_is_told_with_both_sizes(path: Path) -> None:
    path.write_bytes(NOT_PARQUET["a footer longer than the file"])
    with refused(fr.DataError, "101", "100", path):
        open_dataset(path)


def test_an_empty_file_is_told_with_both_sizes(path: Path) -> None:
    path.write_bytes(b"")
    with refused(fr.DataError, "0 bytes", "12"):
        open_dataset(path)


def test_what_ends_a_file_without_footer_is_told(path: Path) -> None:
    path.write_bytes(b"PAR1" + bytes(100) + b"GAR1")
    with refused(fr.DataError, "GAR1", "PAR1", path):
        open_dataset(path)


def test_a_file_truncated_anywhere_is_refused(path: Path) -> None:
    whole = write(path).read_bytes()
    for length in range(0, len(whole), one_in(3)):
        path.write_bytes(whole[:length])
        with refused(fr.DataError, path):
            open_dataset(path)
    path.write_bytes(whole)
    assert rows_of(open_dataset(path)) == list(range(30))


def test_of_many_bad_files_the_first_one_is_named_each_time(tmp_path: Path) -> None:
    for index in range(64):
        write(tmp_path / f"{index:03}.parquet", rows=1)
    for index in (20, 21, 60):
        (tmp_path / f"{index:03}.parquet").write_bytes(b"")
    for _ in range(20):
        with refused(fr.DataError, "020.parquet"):
            open_dataset(tmp_path)


GROUP = {tw.REPETITION: i32(tw.REQUIRED), tw.NAME: binary(b"g"), tw.NUM_CHILDREN: i32(1)}

ONE = OneColumn([data_page(int64s(10), 10)], 10)


def with_schema(elements: Sequence[tw.Struct], wire: Wire = Wire.LIST) -> tw.Struct:
    """Return a footer with these schema elements and no row group."""
    footer = ONE.footer()
    footer[tw.SCHEMA] = tw.Field(wire, (Wire.STRUCT, list(elements)))
    footer[tw.NUM_ROWS] = i64(0)
    footer[tw.ROW_GROUPS] = tw.listing(Wire.STRUCT, [])
    return footer


def nested(depth: int, children: tw.Field = tw.i32(1)) -> list[tw.Struct]:  # noqa: B008  (a constant)
    """Return a schema of one column below so many groups."""
    return [ONE.root(), *([{**GROUP, tw.NUM_CHILDREN: children}] * depth), ONE.leaf()]


def hidden(footer: tw.Struct) -> bytes:
    """Return a footer inside a list of booleans, for which parsers skip one byte each, or none."""
    text = [byte - 256 if byte > 127 else byte for byte in _absolute(footer)]
    return tw.encode({1: i32(2), 20: tw.listing(Wire.TRUE, text)})


def _absolute(footer: tw.Struct) -> bytes:
    """Return the footer's bytes as they read after a field of number 20."""
    first = next(iter(footer))
    return bytes([footer[first].wire]) + tw.zigzag(first) + tw.encode(footer)[1:]


def edited(edit: Callable[[tw.Struct], object]) -> tw.Struct:
    """Return the footer of a good file, changed."""
    footer = ONE.footer()
    edit(footer)
    return footer


def edited_chunk(**changes: tw.Field) -> tw.Struct:
    """Return the footer of a good file with changes to the metadata of its column chunk."""
    return edited(
        lambda footer: tw.chunk(footer, 0, 0).update({NUMBERS[key]: changes[key] for key in changes})
    )


NUMBERS = {
    "codec": tw.CODEC,
    "num_values": tw.NUM_VALUES,
    "size": tw.COMPRESSED_BYTES,
    "offset": tw.DATA_PAGE_OFFSET,
    "dictionary_offset": tw.DICTIONARY_PAGE_OFFSET,
}


def edited_group(**changes: tw.Field) -> tw.Struct:
    """Return the footer of a good file with changes to its row group."""
    numbers = {"rows": tw.GROUP_ROWS, "columns": tw.COLUMNS}
    return edited(
        lambda footer: tw.row_group(footer, 0).update({numbers[key]: changes[key] for key in changes})
    )


def edited_leaf(**changes: tw.Field) -> tw.Struct:
    """Return the footer of a good file with changes to the schema element of its column."""
    numbers = {"type": tw.TYPE, "repetition": tw.REPETITION, "name": tw.NAME, "children": tw.NUM_CHILDREN}
    return with_schema([ONE.root(), {**ONE.leaf(), **{numbers[key]: changes[key] for key in changes}}])


NESTING: dict[str, Callable[[], bytes]] = {
    "5000 deep": lambda: tw.encode(with_schema(nested(5000))),
    "50,000 deep": lambda: tw.encode(with_schema(nested(50_000))),
    "50,000 deep, counted in 64 bits": lambda: tw.encode(with_schema(nested(50_000, i64(1)))),
    "50,000 deep, counted in 16 bits": lambda: tw.encode(with_schema(nested(50_000, tw.Field(Wire.I16, 1)))),
    "50,000 deep, in a set": lambda: tw.encode(with_schema(nested(50_000), Wire.SET)),
    "50,000 deep, hidden in a list": lambda: hidden(with_schema(nested(50_000))),
    "structs in structs": lambda: b"\x1c" * 50_000 + b"\0" * 50_001,
    "lists in lists": lambda: b"\x19" + b"\x19" * 50_000,
}


@each_of("what", NESTING)
def test_absurd_nesting_is_refused(path: Path, reader: Reader, what: str) -> None:
    assert_refused(reader, ONE.write(path, NESTING[what]()))


def test_nesting_names_its_limit(path: Path) -> None:
    with refused(fr.DataError, "nested", "100", path):
        open_dataset(ONE.write(path, NESTING["5000 deep"]()))


def many_columns(count: int) -> bytes:
    """Return a footer of so many columns."""
    leaves = [{**ONE.leaf(), tw.NAME: binary(f"c{index}".encode())} for index in range(count)]
    return tw.encode(with_schema([{**ONE.root(), tw.NUM_CHILDREN: i32(count)}, *leaves]))


# What the footer says, and what the message must name beside the file.
ABSURD: dict[str, Callable[[], tuple[tw.Struct | bytes, list[object]]]] = {
    # counts
    "a row number of 2^62": lambda: (edited(lambda f: f.update({tw.NUM_ROWS: i64(2**62)})), [2**62, 10]),
    "a negative number of rows": lambda: (edited(lambda f: f.update({tw.NUM_ROWS: i64(-10)})), [-10, 10]),
    "row groups that hold another number of rows": lambda: (
        edited(lambda f: f.update({tw.NUM_ROWS: i64(11)})),
        ["11 rows", "10"],
    ),
    "a row group of a negative number of rows": lambda: (edited_group(rows=i64(-5)), [-5, "row group 0"]),
    "a row group of 2^62 rows": lambda: (OneColumn(ONE.pages, 2**62).footer(), [2**53]),
    "a row group of 2^53 - 1 rows": lambda: (
        OneColumn(ONE.pages, 2**53 - 1).footer(),
        ["10 values", "column 'x'"],
    ),
    "rows that do not fit 63 bits": lambda: (
        edited(
            lambda f: f.update(
                {tw.ROW_GROUPS: tw.listing(Wire.STRUCT, [{**tw.row_group(f, 0), 3: i64(2**62)}] * 3)}
            )
        ),
        ["63 bits"],
    ),
    # the schema
    "no schema": lambda: (edited(lambda f: f.pop(tw.SCHEMA)), []),
    "a schema of nothing": lambda: (with_schema([]), []),
    "a schema with two roots": lambda: (with_schema([ONE.root(), ONE.leaf(), ONE.root(), ONE.leaf()]), []),
    "a root of more children than there are": lambda: (
        with_schema([{**ONE.root(), 5: i32(7)}, ONE.leaf()]),
        [],
    ),
    "a root of 2^31 - 1 children": lambda: (with_schema([{**ONE.root(), 5: i32(2**31 - 1)}, ONE.leaf()]), []),
    "groups of 2^31 - 1 children in each other": lambda: (with_schema(nested(90, i32(2**31 - 1))), []),
    "a root of -1 children": lambda: (with_schema([{**ONE.root(), 5: i32(-1)}, ONE.leaf()]), []),
    "a name of 2^60 bytes": lambda: (b"\x15\x04\x19\x2c\x48" + tw.varint(2**60), []),
    "a repetition that does not exist": lambda: (edited_leaf(repetition=i32(99)), []),
    "a schema of 2^31 elements": lambda: (b"\x15\x04\x19\xfc" + tw.varint(2**31 - 1), []),
    "2^31 row groups": lambda: (
        tw.encode(with_schema([ONE.root(), ONE.leaf()])).replace(b"\x19\x0c", b"\x19\xfc" + tw.varint(2**31)),
        [],
    ),
    "2^31 booleans that take no room": lambda: (
        tw.encode({1: i32(2), 20: tw.listing(Wire.TRUE, [])})[:-2] + b"\xf1" + tw.varint(2**31 - 1),
        [],
    ),
    # column chunks
    "a row group without columns": lambda: (edited_group(columns=tw.listing(Wire.STRUCT, [])), []),
    "a row group of one column too many": lambda: (
        edited(lambda f: tw.row_group(f, 0)[tw.COLUMNS].value[1].append({2: i64(0)})),
        [],
    ),
    "a chunk without metadata": lambda: (edited_group(columns=tw.listing(Wire.STRUCT, [{2: i64(0)}])), []),
    "a chunk of another number of values": lambda: (
        edited_chunk(num_values=i64(9)),
        ["9", "10", "column 'x'"],
    ),
    "a chunk of a negative number of values": lambda: (
        edited_chunk(num_values=i64(-1)),
        ["-1", "10", "column 'x'"],
    ),
    "a chunk beyond the file": lambda: (
        edited_chunk(offset=i64(10**12)),
        [10**12, "column 'x'", "row group 0"],
    ),
    "a chunk before the file": lambda: (edited_chunk(offset=i64(-1)), [-1, "column 'x'", "row group 0"]),
    "a chunk at the end of 63 bits": lambda: (edited_chunk(offset=i64(2**63 - 1)), [2**63 - 1, "column 'x'"]),
    "a chunk larger than the file": lambda: (edited_chunk(size=i64(10**12)), ["column 'x'", "row group 0"]),
    "a chunk of a negative size": lambda: (edited_chunk(size=i64(-1)), ["column 'x'", "row group 0"]),
    "a chunk of no bytes": lambda: (edited_chunk(size=i64(0)), ["0 values", "column 'x'", "row group 0"]),
    "a chunk of a codec that does not exist": lambda: (
        edited_chunk(codec=i32(99)),
        ["codec 99", "column 'x'"],
    ),
    "a chunk of a codec that is not supported": lambda: (edited_chunk(codec=i32(3)), ["LZO", "column 'x'"]),
    "a chunk that points into the footer": lambda: (
        edited_chunk(offset=i64(100)),
        ["column 'x'", "row group 0"],
    ),
    "a dictionary far before its chunk": lambda: (
        edited_chunk(dictionary_offset=i64(1), size=i64(2**62)),
        ["column 'x'", "row group 0"],
    ),
}


@each_of("what", ABSURD)
def test_an_absurd_footer_is_refused(path: Path, reader: Reader, what: str) -> None:
    footer, words = ABSURD[what]()
    assert_refused(reader, ONE.write(path, footer), *words)


def test_a_file_without_columns_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="no column"):
        open_dataset(ONE.write(path, with_schema([{**ONE.root(), tw.NUM_CHILDREN: i32(0)}])))


def test_a_million_columns_are_refused_or_take_little(path: Path, reader: Reader) -> None:
    # Fourteen bytes each in the footer; what is made of them in memory may be a hundred times that.
    leaves = (b"\x15\x04\x25\x00\x18\x06" + b"%06x" % index + b"\x00" for index in range(1_000_000))
    root = tw.encode({**ONE.root(), tw.NUM_CHILDREN: i32(1_000_000)})
    schema = b"\x19\xfc" + tw.varint(1_000_001) + root + b"".join(leaves)
    ONE.write(path, b"\x15\x04" + schema + b"\x16\x00\x19\x0c\x00")
    outcome = reader.read(path)
    assert outcome.kind in ("DataError", "ValueError")
    assert outcome.grown < 500 * MIB


@pytest.mark.slow
def test_a_hundred_thousand_columns_take_no_quadratic_time(path: Path) -> None:
    patient = Reader(seconds=300)  # the machine may be busy: what counts is the processor's time
    with contextlib.closing(patient):
        outcome = patient.read(ONE.write(path, many_columns(100_000)))
    assert "no batch would come from 0 rows" in outcome.message
    assert outcome.cpu_seconds < SECONDS
    assert outcome.grown < 500 * MIB


@pytest.mark.parametrize("threads", [0, 2])
def test_batches_that_no_memory_could_hold_are_refused(path: Path, reader: Reader, threads: int) -> None:
    # The file is what lies: in one that holds 2^52 rows, batches of 2^40 rows would be the user's own fault.
    OneColumn(ONE.pages, 2**52).write(path)
    outcome = reader.read(path, batch_size=2**40, threads=threads)
    assert outcome.kind in ("DataError", "ValueError", "MemoryError"), outcome
    assert outcome.grown < 500 * MIB


def test_a_footer_of_a_gigabyte_is_not_read(path: Path, reader: Reader) -> None:
    with path.open("wb") as file:  # the file is sparse: it takes no room
        file.write(b"PAR1")
        file.seek(1 << 30)
        file.write(((1 << 30) - 4).to_bytes(4, "little") + b"PAR1")
    assert_refused(reader, path)


def first_rows(path: str) -> tuple[list[int], int]:
    """The rows of the first batch, and the bytes that it takes to have it."""
    forget_peak()
    before = resident()
    batch = next(iter(fr.ParquetDataset(path, batch_size=10, world=(0, 1))))
    return batch["x"].tolist(), peak() - before


@pytest.mark.slow
def test_a_row_group_takes_a_few_hundred_bytes(path: Path) -> None:
    """There may be a million of them: what is kept of each is what reading needs."""
    count, footer = 200_000, ONE.footer()
    group = tw.encode(tw.row_group(footer, 0))
    footer |= {tw.NUM_ROWS: i64(10 * count), tw.ROW_GROUPS: tw.listing(Wire.STRUCT, [])}
    listed = b"\x19\xfc" + tw.varint(count) + group * count
    ONE.write(path, tw.encode(footer).replace(b"\x19\x0c", listed))
    with Child() as child:
        rows, taken = child.call(first_rows, str(path))
    assert rows == list(range(10))
    assert taken < count * 400 + 10 * MIB, f"{taken / count:.0f} bytes for each"
