"""Law 11 for every kind of bad input: one exception that says what is wrong, soon, in little memory.

The worst files are opened in a process of its own (`Reader`), so that one which kills its reader, hangs, or
takes all memory fails one test.
"""

from __future__ import annotations

import datetime as dt
import decimal
import errno
import gzip
import json
import os
import resource
import shutil
import socket
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
import oracle
import thrift_writer as tw
from child import MIB, SECONDS, Child, Reader, read_whole
from thrift_writer import OneColumn, Wire, binary, data_page, data_page_v2, dictionary_page, i32, i64, int64s

pytestmark = pytest.mark.law(11)


# ------------------------------------------------------------------------------------------- what is asserted


@contextmanager
def refused(kind: type[Exception], *words: object) -> Iterator[None]:
    """Expect one exception of exactly this class, in time, whose message holds all the words."""
    began = time.monotonic()
    with pytest.raises(kind) as caught:
        yield
    assert time.monotonic() - began < SECONDS
    error = caught.value
    assert type(error) is kind
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__, "a second exception"
    assert_message(str(error), *words)


def assert_message(message: str, *words: object) -> None:
    """Assert that a message begins in lower case, is one line, and holds all the words."""
    first = message.split(maxsplit=1)[0]
    assert first[0].islower() or first.isupper(), message  # RANK is how a variable is written
    assert "\n" not in message
    missing = [word for word in map(str, words) if word not in message]
    assert not missing, f"not in the message: {missing}; the message: {message}"


def assert_refused(reader: Reader, path: Path, *words: object) -> None:
    """Assert that to read the file is a DataError, in time and in little memory."""
    outcome = reader.read(path)
    assert outcome.kind == "DataError", outcome
    assert_message(outcome.message, *words, path)
    assert outcome.grown < 500 * MIB, f"{outcome.grown / MIB:.0f} MiB: {outcome.message}"


# -------------------------------------------------------------------------------------------- small data sets


def write(path: Path, rows: int = 30, start: int = 0, group: int = 10, **how: Any) -> Path:
    """Write a file of the columns `row` (int64) and `half` (float32), and return its path."""
    numbers = np.arange(start, start + rows)
    table = pa.table({"row": numbers, "half": (numbers / 2).astype(np.float32)})
    pq.write_table(table, path, row_group_size=group, **how)
    return path


def open_dataset(paths: Any, **arguments: Any) -> fr.ParquetDataset:
    """Return the dataset of these paths, of batches of 10 rows."""
    return fr.ParquetDataset(paths, **{"batch_size": 10, **arguments})


def rows_of(batches: Any) -> list[int]:
    """Return the row numbers that batches hold."""
    return [int(row) for batch in batches for row in batch["row"]]


# --------------------------------------------------------------------------------------- no file, or too many


def test_a_pattern_that_no_file_matches_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    with refused(fr.SourceError, tmp_path / "b*.parquet"):
        open_dataset(tmp_path / "b*.parquet")


def test_a_file_that_is_not_there_is_named(path: Path) -> None:
    with refused(fr.SourceError, path, "no such file"):
        open_dataset(path)


def test_of_several_paths_the_one_that_gives_no_file_is_named(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    with refused(fr.SourceError, tmp_path / "b*"):
        open_dataset([tmp_path / "a.parquet", tmp_path / "b*"])


def leave_what_writers_leave(directory: Path) -> None:
    """Make the things that lie around in datasets and are no data."""
    for name in (
        "_SUCCESS",
        "_metadata",
        "_temporary.parquet",
        ".a.parquet.crc",
        ".hidden.parquet",
        "notes.txt",
    ):
        (directory / name).write_bytes(b"not Parquet")
    (directory / "x.parquet").mkdir()
    (directory / "_temporary").mkdir()
    (directory / "_temporary/part-0.parquet").write_bytes(b"half a file")


def test_a_directory_without_data_is_named(tmp_path: Path) -> None:
    leave_what_writers_leave(tmp_path)
    with refused(fr.SourceError, tmp_path):
        open_dataset(tmp_path)


@pytest.mark.parametrize("named", ["", "*", "**/*.parquet"])
def test_files_that_no_author_meant_do_not_matter(tmp_path: Path, named: str) -> None:
    path = write(tmp_path / "a.parquet")
    expected = open_dataset(path)
    leave_what_writers_leave(tmp_path)
    (tmp_path / "notes.txt").unlink()  # a pattern may well mean it
    dataset = open_dataset(tmp_path / named)
    assert dataset.files == (str(path),)
    assert dataset.fingerprint == expected.fingerprint


def test_no_path_at_all_is_an_argument_error() -> None:
    with refused(ValueError, "path"):
        open_dataset([])
    with refused(ValueError, "path"):
        open_dataset([""])


def test_an_address_is_refused_by_name() -> None:
    with refused(ValueError, "s3://bucket/data"):
        open_dataset("s3://bucket/data")


def test_a_malformed_pattern_is_named(tmp_path: Path) -> None:
    with refused(ValueError, "a[b.parquet"):
        open_dataset(tmp_path / "a[b.parquet")


def test_the_same_file_twice_is_refused_under_both_names(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    link = tmp_path / "b.parquet"
    link.symlink_to("a.parquet")
    with refused(ValueError, path, link):
        open_dataset([path, link])
    with refused(ValueError, path):
        open_dataset([path, path])


@pytest.mark.parametrize("named", ["", "**/*.parquet"])
def test_links_in_a_circle_end_the_search(tmp_path: Path, reader: Reader, named: str) -> None:
    # Two links that lead back: 2^n paths of length n, up to the kernel's limit of 40 links.
    path = write(tmp_path / "a.parquet")
    for name in ("again", "once-more"):
        (tmp_path / name).symlink_to(".")
    outcome = reader.read(tmp_path / named)
    assert outcome.kind in ("NoneType", "ValueError"), outcome
    assert outcome.kind == "NoneType" or str(path) in outcome.message
    assert outcome.seconds < SECONDS


# ---------------------------------------------------------------------------------------------- can't be read


@pytest.fixture
def readable_by_all() -> Iterator[Path]:
    """A directory that every user may enter, with this process as a user who is not root."""
    directory = Path(tempfile.mkdtemp(prefix="fastresume-", dir="/tmp"))  # pytest's is closed
    directory.chmod(0o777)
    yield directory
    os.seteuid(os.getuid())
    shutil.rmtree(directory)


def become_nobody() -> None:
    """Give up what root may do, if we are root, for the rest of the test."""
    if os.geteuid() == 0:
        try:
            os.seteuid(65534)
        except OSError:
            pytest.skip("root reads everything, and can't become another user here")


def test_a_file_without_permission_is_named(readable_by_all: Path) -> None:
    write(readable_by_all / "a.parquet")
    path = write(readable_by_all / "b.parquet")
    path.chmod(0)
    become_nobody()
    with refused(fr.SourceError, path, os.strerror(errno.EACCES)):
        open_dataset(readable_by_all)
    assert rows_of(open_dataset(readable_by_all / "a.parquet")) == list(range(30))


def test_a_directory_without_permission_is_named(readable_by_all: Path) -> None:
    directory = readable_by_all / "closed"
    directory.mkdir()
    path = write(directory / "a.parquet")
    directory.chmod(0)
    become_nobody()
    try:
        for named in (readable_by_all, directory, directory / "*.parquet", path):
            with refused(fr.SourceError, directory, os.strerror(errno.EACCES)):
                open_dataset(named)
    finally:
        os.seteuid(os.getuid())
        directory.chmod(stat.S_IRWXU)


@pytest.mark.parametrize("named", ["b.parquet", "", "*.parquet"])
def test_a_dangling_link_is_named(tmp_path: Path, named: str) -> None:
    write(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").symlink_to("gone.parquet")
    with refused(fr.SourceError, tmp_path / "b.parquet", os.strerror(errno.ENOENT)):
        open_dataset(tmp_path / named)


@pytest.mark.parametrize("named", ["b.parquet", "", "*.parquet"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, named: str) -> None:
    write(tmp_path / "a.parquet")
    os.mkfifo(tmp_path / "b.parquet")
    with refused(fr.SourceError, tmp_path / "b.parquet", "not a regular file"):
        open_dataset(tmp_path / named)


def test_a_device_and_a_socket_are_no_files(tmp_path: Path) -> None:
    with refused(fr.SourceError, "/dev/zero", "not a regular file"):
        open_dataset("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server, refused(fr.SourceError, "not a regular file"):
        server.bind(str(tmp_path / "a.parquet"))
        open_dataset(tmp_path)


# ------------------------------------------------------------------------------------------------ not Parquet

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


@pytest.mark.parametrize("what", NOT_PARQUET)
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
    for length in range(len(whole)):
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


# -------------------------------------------------------------------------------- absurd footers (§3, law 11)

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


@pytest.mark.parametrize("what", NESTING)
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
        ["10 rows", "column 'x'"],
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
    "a name that is no text": lambda: (edited_leaf(name=binary(b"\xff\xfe")), []),
    "a type that does not exist": lambda: (edited_leaf(type=i32(99)), []),
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
    "a chunk of no bytes": lambda: (edited_chunk(size=i64(0)), ["0 rows", "column 'x'", "row group 0"]),
    "a chunk of a codec that does not exist": lambda: (edited_chunk(codec=i32(99)), []),
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


@pytest.mark.parametrize("what", ABSURD)
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


def test_a_hundred_thousand_columns_take_no_quadratic_time(path: Path, reader: Reader) -> None:
    outcome = reader.read(ONE.write(path, many_columns(100_000)))
    assert "no batch would come from 0 rows" in outcome.message
    assert outcome.seconds < SECONDS
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


# -------------------------------------------------------------------------------------------------- bad pages

FLOAT16 = {2: i32(2), 10: tw.structure({15: tw.structure({})})}
SNAPPY_TEN_BYTES = b"\x0a\x24" + bytes(10)


def deflated(size: int) -> bytes:
    """Return so many zeros, by gzip: in members of 16 MiB, which count as one stream."""
    return gzip.compress(bytes(min(size, 16 * MIB)), 1) * max(1, size // (16 * MIB))


def packed(codec: str, size: int) -> bytes:
    """Return so many zeros, by a codec that pyarrow knows."""
    return pa.compress(bytes(size), codec=codec, asbytes=True)


def delta(values: int) -> bytes:
    """Return a page of DELTA_BINARY_PACKED that claims so many values."""
    return tw.varint(128) + tw.varint(4) + tw.varint(values) + tw.zigzag(0) + bytes(200)


INDICES = bytes([3]) + tw.varint(10 << 1) + b"\x07"
"""Ten times the index 7, as a dictionary-encoded page holds them: 3 bits each, one run."""

GOOD = data_page(int64s(10), 10)
BAD_PAGES: dict[str, Callable[[], tuple[OneColumn, list[object]]]] = {
    # headers
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
        ["0 rows"],
    ),
    "a page of an encoding that does not exist": lambda: (
        OneColumn([data_page(int64s(10), 10, encoding=99)], 10),
        [99],
    ),
    "a page of an encoding that does not fit": lambda: (
        OneColumn([data_page(int64s(10), 10, encoding=tw.DELTA_BYTE_ARRAY)], 10),
        [],
    ),
    "pages that end too soon": lambda: (OneColumn([data_page(int64s(5), 5)], 10), ["5 rows"]),
    "garbage for pages": lambda: (OneColumn([b"\xff" * 500], 10), []),
    "64 MiB of zeros for pages": lambda: (OneColumn([bytes(64 * MIB)], 10), []),
    "a header without end": lambda: (OneColumn([b"\x18" + tw.varint(64 * MIB) + bytes(32 * MIB)], 10), []),
    "headers nested in each other": lambda: (OneColumn([b"\x1c" * 100_000], 10), []),
    "a page v2 of more levels than bytes": lambda: (
        OneColumn([data_page_v2(int64s(10), 10, definition_bytes=81)], 10),
        [81, 80],
    ),
    "a page v2 of other rows than values": lambda: (
        OneColumn([data_page_v2(int64s(10), 10, rows=9)], 10),
        [9, 10],
    ),
    "a page v2 of more nulls than values": lambda: (
        OneColumn([data_page_v2(int64s(10), 10, nulls=11)], 10),
        [11, 10],
    ),
    # dictionaries
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
    # codecs
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
    # encodings
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


@pytest.mark.parametrize("what", BAD_PAGES)
def test_a_bad_page_is_refused(path: Path, reader: Reader, what: str) -> None:
    file, words = BAD_PAGES[what]()
    assert_refused(reader, file.write(path), *words, "column 'x'", "row group 0")


def test_a_decoder_that_panics_prints_nothing(path: Path) -> None:
    # The parquet crate indexes beyond this page, which has room for less than it says.
    OneColumn([data_page(bytes(9), 10, encoding=9)], 10).write(path)
    with Child() as child:
        found = child.call(read_whole, str(path), 3, 0)
        assert found["kind"] == "DataError"
        assert child.stderr() == ""


@pytest.mark.parametrize(
    "what", ["64 MiB of zeros for pages", "a page of 2^31 - 1 values", "a page of 2 GiB"]
)
def test_a_bad_page_is_refused_where_a_seek_passes_it(path: Path, what: str) -> None:
    file, _ = BAD_PAGES[what]()
    file.rows = 10_000
    file.write(path)
    dataset = fr.ParquetDataset(path, batch_size=1000)
    position = {"cuts": [[1, 1, 1000, 9]]}
    state = oracle.checked({**json.loads(dataset.state_dict()["fastresume"]), **position})
    dataset.load_state_dict({"fastresume": state})
    with refused(fr.DataError, path, "column 'x'", "row group 0"):
        list(dataset)


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("kind", [tw.DICTIONARY_PAGE, "data"])
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


# -------------------------------------------------------------------------------------- schemas, types, nulls


def two_files(tmp_path: Path, **other: Any) -> list[Path]:
    """Write a file of the columns a (int32) and b (float32), and one of other columns."""
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": pa.array([1.0], pa.float32())}), paths[0])
    pq.write_table(pa.table(other), paths[1])
    return paths


def test_a_column_that_a_later_file_lacks_is_named_with_both_files(tmp_path: Path) -> None:
    paths = two_files(tmp_path, a=pa.array([1], pa.int32()))
    with refused(fr.DataError, "column 'b'", "missing", *paths):
        open_dataset(tmp_path, batch_size=1)
    assert len(open_dataset(tmp_path, batch_size=1, columns="a")) == 2


@pytest.mark.parametrize(
    ("type_", "name"),
    [
        (pa.uint64(), "uint64"),
        (pa.float64(), "float64"),
        (pa.bool_(), "bool"),
        (pa.date32(), "date[day]"),
        (pa.string(), "string"),
        (pa.list_(pa.int32()), "list"),
    ],
)
def test_a_column_of_another_type_is_named_with_both_types(
    tmp_path: Path, type_: pa.DataType, name: str
) -> None:
    paths = two_files(tmp_path, a=pa.array([None], type_), b=pa.array([1.0], pa.float32()))
    with refused(fr.DataError, "column 'a'", "int32", name, *paths):
        open_dataset(tmp_path, batch_size=1)
    assert len(open_dataset(tmp_path, batch_size=1, columns="b")) == 2


def test_timestamps_of_two_units_do_not_mix(tmp_path: Path) -> None:
    for unit in ("ms", "us"):
        table = pa.table({"at": pa.array([dt.datetime(2026, 1, 1)], pa.timestamp(unit))})
        pq.write_table(table, tmp_path / f"{unit}.parquet")
    with refused(fr.DataError, "column 'at'", "timestamp[ms]", "timestamp[us]", tmp_path / "us.parquet"):
        open_dataset(tmp_path, batch_size=1)


def test_a_column_that_only_a_later_file_has_is_named_with_both_files(tmp_path: Path) -> None:
    one, numbers = pa.array([1.0], pa.float32()), pa.array([1], pa.int32())
    paths = two_files(tmp_path, a=numbers, b=one, c=one)
    for columns in (None, "*"):
        with refused(fr.DataError, "column 'c'", *paths):
            open_dataset(tmp_path, batch_size=1, columns=columns)
    assert len(open_dataset(tmp_path, batch_size=1, columns=["a", "b"])) == 2


def test_the_order_of_columns_is_each_files_own(tmp_path: Path) -> None:
    two_files(tmp_path, b=pa.array([2.0], pa.float32()), a=pa.array([2], pa.int32()))
    assert [batch["a"].item() for batch in open_dataset(tmp_path, batch_size=1)] == [1, 2]


def test_two_columns_of_one_name_are_refused(path: Path) -> None:
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    pq.write_table(table, path)
    with refused(fr.DataError, "two columns", "column 'a'", path):
        open_dataset(path, batch_size=1)
    assert len(open_dataset(path, batch_size=1, columns="b")) == 1


UNSUPPORTED = {
    "list<list<string>>": pa.array([[["a"]]]),
    "list<list<binary>>": pa.array([[[b"a"]]], pa.list_(pa.list_(pa.binary()))),
    "list<list<list<int64>>>": pa.array([[[[1]]]]),
    "list<list<fixed_size_binary[2]>>": pa.array([[[b"ab"]]], pa.list_(pa.list_(pa.binary(2)))),
    "list<fixed_size_binary[2]>": pa.array([[b"ab"]], pa.list_(pa.binary(2))),
    "list of decimals": (
        pa.array([[decimal.Decimal("1.25")]], pa.list_(pa.decimal128(5, 2))),
        "list<decimal(5, 2)>",
    ),
    "decimal(19, 2)": pa.array([decimal.Decimal("1.25")], pa.decimal128(19, 2)),
    "null": pa.array([None]),
}


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_type_that_is_not_supported_is_named_with_column_and_file(path: Path, name: str) -> None:
    made = UNSUPPORTED[name]
    array, named = made if isinstance(made, tuple) else (made, name)
    pq.write_table(pa.table({"a": pa.array([7]), "odd": array}), path)
    with refused(fr.DataError, f"type {named} ", "column 'odd'", path):
        open_dataset(path, batch_size=1)
    for columns in ("odd", ["a", "odd"]):
        with refused(fr.DataError, f"type {named} ", "column 'odd'", path):
            open_dataset(path, batch_size=1, columns=columns)
    assert [batch["a"].item() for batch in open_dataset(path, batch_size=1, columns="a")] == [7]


@pytest.mark.parametrize(
    ("array", "named", "type_"),
    [
        (pa.array([{"a": {"b": [["x"]]}}]), "odd.a.b", "list<list<string>>"),
        (
            pa.array([[("a", [[1]])]], pa.map_(pa.string(), pa.list_(pa.list_(pa.int64())))),
            "odd.value",
            "list<list<list<int64>>>",
        ),
        (pa.array([[{"a": 1, "b": ["x"]}]]), "odd.b", "list<list<string>>"),
        (
            pa.array([[[(1, [1])]]], pa.list_(pa.map_(pa.int8(), pa.list_(pa.int8())))),
            "odd.value",
            "list<list<list<int8>>>",
        ),
    ],
    ids=["struct", "map", "list of structs", "list of maps of lists"],
)
def test_what_is_not_supported_inside_of_others_is_named_by_its_own_name(
    path: Path, array: pa.Array, named: str, type_: str
) -> None:
    pq.write_table(pa.table({"a": pa.array([7]), "odd": array}), path)
    for columns in (None, "odd", "odd.*", ["a", named]):
        with refused(fr.DataError, f"type {type_} ", f"column '{named}'", path):
            open_dataset(path, batch_size=1, columns=columns)
    assert [batch["a"].item() for batch in open_dataset(path, batch_size=1, columns="a")] == [7]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("row", [0, 13, 29])
def test_a_null_is_named_with_column_row_group_row_and_file(
    path: Path, version: str, threads: int, row: int
) -> None:
    values = [None if index == row else index for index in range(30)]
    table = pa.table({"row": np.arange(30), "odd": pa.array(values, pa.int32())})
    pq.write_table(table, path, row_group_size=10, data_page_version=version)
    dataset = open_dataset(path)
    iterator = iter(fr.Loader(dataset, threads=threads) if threads else dataset)
    assert rows_of(next(iterator) for _ in range(row // 10)) == list(range(row // 10 * 10))
    with refused(fr.DataError, "null", f"row {row % 10} ", f"row group {row // 10}", "column 'odd'", path):
        next(iterator)
    assert rows_of(open_dataset(path, columns="row")) == list(range(30))


def test_a_column_of_nulls_alone_is_refused(path: Path) -> None:
    pq.write_table(pa.table({"odd": pa.array([None] * 10, pa.int64())}), path)
    with refused(fr.DataError, "null", "row 0 ", "column 'odd'", path):
        list(open_dataset(path))


# -------------------------------------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize("size", [0, -1, np.int64(0), -(2**70)])
@pytest.mark.parametrize("name", ["batch_size", "global_batch_size"])
def test_a_batch_of_no_rows_is_refused(path: Path, name: str, size: int) -> None:
    with refused(ValueError, f"{name} must be at least 1", size):
        fr.ParquetDataset(write(path), **{name: size})


@pytest.mark.parametrize("size", [True, False, 2.0, "10", [10], np.float64(10), np.True_, torch.tensor(1.5)])
def test_a_batch_size_that_is_no_integer_is_refused(path: Path, size: Any) -> None:
    with refused(TypeError, "batch_size", size):
        open_dataset(write(path), batch_size=size)


@pytest.mark.parametrize("size", [2**53, 2**70])
def test_a_batch_size_that_is_too_large_is_refused_as_that(path: Path, size: int) -> None:
    with pytest.raises(ValueError, match=str(size)) as caught:
        open_dataset(write(path), batch_size=size)
    assert "at least" not in str(caught.value)


@pytest.mark.parametrize("size", [np.int64(10), np.uint8(10), np.array(10), torch.tensor(10)])
def test_a_batch_size_may_be_any_kind_of_integer(path: Path, size: Any) -> None:
    dataset = open_dataset(write(path), batch_size=size)
    assert type(dataset.batch_size) is int
    assert len(list(dataset)) == 3


def test_the_batch_size_must_be_given_once(path: Path) -> None:
    write(path)
    with refused(TypeError, "batch_size", "global_batch_size"):
        fr.ParquetDataset(path)
    with refused(TypeError, "batch_size", "global_batch_size"):
        fr.ParquetDataset(path, batch_size=10, global_batch_size=10)


def test_a_dataset_that_gives_no_batch_is_refused(path: Path) -> None:
    with refused(ValueError, "30 rows", "31"):
        open_dataset(write(path), batch_size=31)
    with refused(ValueError, "30 rows", "32"):
        open_dataset(write(path), batch_size=16, rank=0, world_size=2)
    with refused(ValueError, "0 rows"):
        open_dataset(write(path, rows=0), batch_size=1)


@pytest.mark.parametrize("columns", ["nope", ["row", "nope"], "nope*"])
def test_a_column_that_does_not_exist_is_named_with_those_that_do(path: Path, columns: Any) -> None:
    with refused(fr.DataError, "'nope", "row, half", path):
        open_dataset(write(path), columns=columns)


def test_no_column_at_all_is_refused(path: Path) -> None:
    with refused(ValueError, "column"):
        open_dataset(write(path), columns=[])


@pytest.mark.parametrize(
    ("stack", "words"),
    [
        ({"matrix": []}, ["'matrix'"]),
        ({"matrix": ["row", "half"]}, ["'matrix'", "'row' is int64", "'half' is float32"]),
        ({"matrix": "nope"}, ["'matrix'", "'nope'", "row, half"]),
        ({"one": "row", "two": ["half", "ro?"]}, ["'row'", "'one'", "'two'"]),
        ({"half": "row"}, ["'half'", "two tensors"]),
    ],
)
def test_a_stack_that_can_not_be_is_refused(path: Path, stack: Any, words: list[str]) -> None:
    with pytest.raises(ValueError, match=r"stack|tensors") as caught:
        open_dataset(write(path), stack=stack)
    assert_message(str(caught.value), *words)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("paths", 5),
        ("paths", None),
        ("paths", b"x.parquet"),
        ("paths", [5]),
        ("columns", 5),
        ("columns", [5]),
        ("stack", ["half"]),
        ("stack", {"matrix": 5}),
        ("stack", {5: "half"}),
        ("rank", "0"),
        ("rank", 0.0),
        ("rank", True),
        ("world_size", "1"),
        ("world_size", 1.0),
        ("world", 5),
    ],
)
def test_an_argument_of_another_type_is_named(path: Path, name: str, value: Any) -> None:
    arguments = {"paths": write(path), name: value}
    if name in ("rank", "world_size"):
        arguments = {"rank": 0, "world_size": 1, **arguments}
    with refused(TypeError, name):
        open_dataset(**arguments)


@pytest.mark.parametrize("name", ["transform"])
def test_arguments_that_later_releases_bring_do_not_exist_yet(path: Path, name: str) -> None:
    with pytest.raises(TypeError, match=name):
        open_dataset(write(path), **{name: None})


def test_loader_arguments_are_checked(path: Path) -> None:
    dataset = open_dataset(write(path))
    for name in ("threads", "prefetch_bytes"):
        with refused(ValueError, name, -1):
            fr.Loader(dataset, **{name: -1})
        with refused(TypeError, name, 1.5):
            fr.Loader(dataset, **{name: 1.5})
    with pytest.raises(TypeError, match="num_workers"):
        fr.Loader(dataset, num_workers=None)  # type: ignore[arg-type]
    with refused(TypeError, "ParquetDataset", "list"):
        fr.Loader([dataset])  # type: ignore[arg-type]


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (5, 2), (-1, 2), (0, 0), (0, -1)])
def test_a_rank_outside_of_its_world_is_refused(path: Path, rank: int, world_size: int) -> None:
    words = (world_size,) if world_size < 1 else (rank, world_size)
    with refused(ValueError, *words):
        open_dataset(write(path), rank=rank, world_size=world_size)


@pytest.mark.parametrize(
    ("rank", "world_size", "words"),
    [
        ("2", "2", ["2"]),
        ("-1", "2", ["-1", "2"]),
        ("0", "0", ["0"]),
        ("one", "2", ["RANK", "'one'"]),
        ("0", "two", ["WORLD_SIZE", "'two'"]),
        ("0", "", ["WORLD_SIZE", "''"]),
        ("0.0", "2", ["RANK", "'0.0'"]),
        ("1", None, ["RANK", "1", "WORLD_SIZE"]),
        (None, "2", ["RANK", "2", "WORLD_SIZE"]),
    ],
)
def test_a_wrong_rank_in_the_environment_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, rank: str | None, world_size: str | None, words: list[str]
) -> None:
    write(path)
    for name, value in (("RANK", rank), ("WORLD_SIZE", world_size)):
        if value is not None:
            monkeypatch.setenv(name, value)
    with refused(ValueError, *words):
        open_dataset(path)


def test_rank_and_world_size_come_together(path: Path) -> None:
    write(path)
    for arguments in ({"rank": 0}, {"world_size": 1}):
        with refused(TypeError, "rank", "world_size"):
            open_dataset(path, **arguments)
    with refused(TypeError, "world"):
        open_dataset(path, rank=0, world_size=1, world=fr.World(0, 1))


# ---------------------------------------------------------------------------------- foreign and damaged state


@pytest.fixture
def half_read(path: Path) -> fr.ParquetDataset:
    """A dataset of three batches, of which one was delivered."""
    dataset = open_dataset(write(path))
    next(iter(dataset))
    return dataset


def parsed(dataset: fr.ParquetDataset) -> dict[str, Any]:
    """Return the state of a dataset as a dict, to be changed."""
    return json.loads(dataset.state_dict()["fastresume"])


@contextmanager
def refused_state(dataset: fr.ParquetDataset, *words: object) -> Iterator[None]:
    """Expect a StateError that leaves the dataset as it was."""
    before = dataset.state_dict()
    with refused(fr.StateError, *words):
        yield
    assert dataset.state_dict() == before
    assert dataset.batches_left == 2


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        [],
        "",
        "{}",
        5,
        {"data": "x"},
        {1: 2},
        {"fastresume": None},
        {"fastresume": ""},
        {"fastresume": "not JSON"},
        {"fastresume": "[]"},
        {"fastresume": "{}"},
        {"fastresume": 1},
        {"fastresume": b"bytes"},
        {"fastresume": float("nan")},
        {"fastresume": "\ud800"},
        {"fastresume": "[" * 100_000},
        {"fastresume": 1, "consumed": [set()]},
        {"fastresume": "{}", "more": 1},
    ],
    ids=lambda state: repr(state)[:30].encode("ascii", "replace").decode(),
)
def test_what_is_no_state_is_refused(half_read: fr.ParquetDataset, state: Any) -> None:
    with refused_state(half_read):
        half_read.load_state_dict(state)


def test_a_state_nested_too_deep_is_refused(half_read: fr.ParquetDataset) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with refused_state(half_read):
        half_read.load_state_dict({"fastresume": 1, "consumed": deep})


def test_a_state_of_another_dataset_is_refused_with_both_fingerprints(
    half_read: fr.ParquetDataset, tmp_path: Path
) -> None:
    other = open_dataset(write(tmp_path / "other.parquet", rows=40))
    with refused_state(half_read, half_read.fingerprint, other.fingerprint, "30 rows", "40 rows"):
        half_read.load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("fastresume", 2, ["version 2", "version 1"]),
        ("order", {"kind": "shuffled", "seed": 17}, ["order", "shuffled"]),
        ("order", {"kind": "sequential", "seed": 17}, ["order", "17"]),
        ("selection", {"column": "x"}, []),
        ("epoch", -1, []),
        ("epoch", 2**53, [2**53]),
        ("epoch", 0.5, []),
        ("first_epoch", 7, [7]),
        ("consumed", [[5, 3]], []),
        ("consumed", [[0, 31]], []),
        ("consumed", [[0, 5], [3, 8]], []),
        ("cuts", [[1, 1, 10, 4]], ["4", "3"]),
        ("cuts", [[0, 1, 10, 1]], ["0 lanes"]),
        ("cuts", [[3, 2, 10, 1]], ["3 lanes", "2 groups"]),
        ("cuts", [[2**52, 1, 2**52, 1]], [2**52]),
        ("cuts", [[1, 1, 10, 0]], []),
        ("cuts", [[1, 1, 10]], []),
        ("news", 1, ["news"]),
    ],
)
def test_a_state_of_nonsense_is_refused_even_if_its_checksum_is_right(
    half_read: fr.ParquetDataset, key: str, value: Any, words: list[object]
) -> None:
    text = oracle.checked({**parsed(half_read), key: value})
    with refused_state(half_read, *words):
        half_read.load_state_dict({"fastresume": text})
    with refused_state(half_read, *words):
        half_read.load_state_dict(json.loads(text))


def test_a_state_of_absurdly_many_lanes_is_refused_in_time(half_read: fr.ParquetDataset) -> None:
    lanes = 2**28
    rows = {"dataset": {"fingerprint": half_read.fingerprint, "rows": 2**52}}
    text = oracle.checked({**parsed(half_read), **rows, "cuts": [[lanes, lanes, 1, 1]]})
    began = time.monotonic()
    with refused_state(half_read):
        half_read.load_state_dict({"fastresume": text})
    assert time.monotonic() - began < 1


def test_any_damaged_character_is_noticed(half_read: fr.ParquetDataset) -> None:
    text = half_read.state_dict()["fastresume"]
    for index, character in enumerate(text):
        damaged = text[:index] + ("1" if character != "1" else "2") + text[index + 1 :]
        with refused_state(half_read):
            half_read.load_state_dict({"fastresume": damaged})
    for length in range(len(text)):
        with refused_state(half_read):
            half_read.load_state_dict({"fastresume": text[:length]})


def test_a_refused_state_leaves_a_live_iterator_alone(path: Path) -> None:
    loader = fr.Loader(open_dataset(write(path)), threads=1)
    iterator = iter(loader)
    batches = [next(iterator)]
    with pytest.raises(fr.StateError):
        loader.load_state_dict({"fastresume": "{}"})
    assert rows_of([*batches, *iterator]) == list(range(30))


# ---------------------------------------------------------------------------- what happens after construction

MAKERS: dict[str, Callable[[fr.ParquetDataset], Any]] = {
    "dataset": lambda dataset: dataset,
    "loader of 1 thread": lambda dataset: fr.Loader(dataset, threads=1),
    "loader of 3 threads": lambda dataset: fr.Loader(dataset, threads=3),
    "loader that waits for room": lambda dataset: fr.Loader(dataset, threads=2, prefetch_bytes=1),
}


@pytest.fixture(params=MAKERS)
def make(request: pytest.FixtureRequest) -> Callable[[fr.ParquetDataset], Any]:
    return MAKERS[request.param]


PLAINLY = {"compression": "none", "use_dictionary": False}
"""How files are written whose size says nothing about their values."""


def write_three(directory: Path) -> list[Path]:
    """Write three files of 30 rows in row groups of 10."""
    return [write(directory / f"{index}.parquet", start=30 * index, **PLAINLY) for index in range(3)]


def damage_group(path: Path, group: int) -> Path:
    """Overwrite the first page header of a row group's first column."""
    data = bytearray(path.read_bytes())
    metadata = tw.chunk(tw.split(bytes(data))[1], group, 0)
    start = min(
        metadata[key].value for key in (tw.DATA_PAGE_OFFSET, tw.DICTIONARY_PAGE_OFFSET) if key in metadata
    )
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    return path


def test_all_before_a_bad_place_is_delivered_and_after_a_repair_all_after_it(
    tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]
) -> None:
    path = write_three(tmp_path)[1]
    dataset = open_dataset(tmp_path, batch_size=4)
    good = path.read_bytes()
    damage_group(path, 1)

    # Rows 40 to 49 are bad. Batch 10 holds rows 40 to 43.
    loader = make(dataset)
    iterator = iter(loader)
    delivered = [next(iterator) for _ in range(10)]
    for _ in range(3):
        with refused(fr.DataError, path, "row group 1", "column 'row'"):
            next(iterator)
        assert dataset.state_dict() == delivered[-1].state_dict()
    with refused(fr.DataError, path, "row group 1"):
        next(iter(loader))
    assert dataset.state_dict() == delivered[-1].state_dict()
    assert dataset.batches_left == 12

    path.write_bytes(good)
    assert rows_of([*delivered, *loader]) == list(range(88))
    assert rows_of(loader) == list(range(88))


@contextmanager
def broken(path: Path, how: str) -> Iterator[None]:
    """Break a file in one of the ways that happen, and mend it afterwards."""
    whole = path.read_bytes()
    aside = path.with_suffix(".aside")
    path.rename(aside)
    match how:
        case "deleted":
            pass
        case "emptied":
            path.write_bytes(b"")
        case "truncated":
            path.write_bytes(whole[: len(whole) // 2])
        case "longer":
            path.write_bytes(whole + whole)
        case "another file of the same size":
            assert len(write(path, start=1000, **PLAINLY).read_bytes()) == len(whole)
        case "a directory":
            path.mkdir()
        case "a dangling link":
            path.symlink_to("gone")
        case "a pipe":
            os.mkfifo(path)
    try:
        yield
    finally:
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink(missing_ok=True)
        aside.rename(path)


BROKEN = {
    "deleted": fr.SourceError,
    "emptied": fr.DataError,
    "truncated": fr.DataError,
    "longer": fr.DataError,
    "another file of the same size": fr.DataError,
    "a directory": fr.SourceError,
    "a dangling link": fr.SourceError,
    "a pipe": fr.SourceError,
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_file_that_changes_after_construction_is_noticed(
    tmp_path: Path, make: Callable[[fr.ParquetDataset], Any], how: str
) -> None:
    paths = write_three(tmp_path)
    dataset = open_dataset(tmp_path)
    sizes = {"emptied": [paths[1].stat().st_size, 0], "longer": [paths[1].stat().st_size]}
    with broken(paths[1], how):
        iterator = iter(make(dataset))
        delivered = [next(iterator) for _ in range(3)]
        with refused(BROKEN[how], paths[1], *sizes.get(how, [])):
            next(iterator)
        assert dataset.state_dict() == delivered[-1].state_dict()
    assert rows_of([*delivered, *make(dataset)]) == list(range(90))


def test_an_iterator_goes_on_once_the_file_is_back(
    tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]
) -> None:
    paths = write_three(tmp_path)
    dataset = open_dataset(tmp_path)
    with broken(paths[1], "deleted"):
        iterator = iter(make(dataset))
        delivered = [next(iterator) for _ in range(3)]
        for _ in range(2):
            with refused(fr.SourceError, paths[1], os.strerror(errno.ENOENT)):
                next(iterator)
    assert rows_of([*delivered, *iterator]) == list(range(90))


def test_a_file_cut_short_while_it_is_open_is_noticed(path: Path) -> None:
    # Pages are read ahead up to 1 MiB, so the second row group must lie beyond that.
    write(path, rows=400_000, group=200_000, use_dictionary=False, compression="none")
    whole = path.read_bytes()
    dataset = open_dataset(path, batch_size=200_000)
    iterator = iter(dataset)
    first = next(iterator)
    os.truncate(path, len(whole) // 2 + 1000)
    with refused(fr.SourceError, path, f"it had {len(whole)} bytes, it has {len(whole) // 2 + 1000}"):
        next(iterator)
    path.write_bytes(whole)
    assert rows_of([first, *iterator]) == list(range(400_000))


@pytest.mark.processes
def test_a_bad_file_is_the_same_exception_out_of_a_torch_dataloader(tmp_path: Path) -> None:
    path = damage_group(write_three(tmp_path)[1], 1)
    dataset = open_dataset(tmp_path)
    # One worker: torch waits 5 seconds for each one that raised.
    loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="fork")
    iterator = iter(loader)
    assert rows_of(next(iterator) for _ in range(4)) == list(range(40))
    with pytest.raises(fr.DataError, match="row group 1") as caught:
        next(iterator)
    assert str(path) in str(caught.value)


def test_the_process_lives_on(tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]) -> None:
    bad = damage_group(write(tmp_path / "bad.parquet"), 0)
    good = open_dataset(write(tmp_path / "good.parquet"))
    iterator = iter(make(good))
    rows = rows_of([next(iterator)])
    for _ in range(20):
        with refused(fr.DataError, bad):
            list(make(open_dataset(bad)))
    assert rows + rows_of(iterator) == list(range(30))


def test_errors_leave_no_file_open(tmp_path: Path, make: Callable[[fr.ParquetDataset], Any]) -> None:
    bad = damage_group(write(tmp_path / "bad.parquet"), 0)
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())
    for _ in range(10):
        with pytest.raises(fr.DataError):
            list(make(open_dataset(bad)))
        bad.rename(tmp_path / "aside")
        with pytest.raises(fr.SourceError):
            open_dataset(bad)
        (tmp_path / "aside").rename(bad)
    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) <= before


def test_running_out_of_file_descriptors_is_an_error_to_recover_from(tmp_path: Path) -> None:
    paths = write_three(tmp_path)
    dataset = open_dataset(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.dup(0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        with refused(fr.SourceError, paths[0], os.strerror(errno.EMFILE)):
            next(iter(dataset))
        with refused(fr.SourceError, paths[0].parent, os.strerror(errno.EMFILE)):
            open_dataset(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(lowest)
    assert rows_of(dataset) == list(range(90))
