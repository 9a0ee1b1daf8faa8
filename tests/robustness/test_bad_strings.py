"""Law 11 for strings: damaged lengths, prefixes and dictionaries are one DataError, soon, in little memory.

Each file is opened in a process of its own (`Reader`), so that one which kills its reader, hangs, or takes
all memory fails one test.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.child import MIB, Reader
from support.each_of import each_of
from support.list_writer import sized
from support.thrift_writer import OneColumn, data_page, dictionary_page, i32

pytestmark = pytest.mark.law(11)

GROWTH = 500 * MIB


# ---------------------------------------------------------------------------------------------------- strings


def plain(*words: bytes) -> bytes:
    """Strings as a plain page holds them."""
    return b"".join(sized(word) for word in words)


def deltas(*numbers: int, values: int | None = None) -> bytes:
    """Numbers as DELTA_BINARY_PACKED holds them; then the last one again, `values` in all."""
    count = len(numbers) if values is None else values
    head = tw.varint(128) + tw.varint(4) + tw.varint(count) + tw.zigzag(numbers[0] if numbers else 0)
    if count < 2:
        return head
    needed = -(-min(count - 1, 128) // 32)  # of the four miniblocks
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    steps += [0] * (32 * needed - len(steps))
    least = min(steps)
    width = 32 if max(steps) - least < 2**32 else 64
    block = tw.zigzag(least) + bytes([width] * needed + [0] * (4 - needed))
    block += b"".join((step - least).to_bytes(width // 8, "little") for step in steps)
    return head + block + (tw.zigzag(0) + bytes(4)) * (-(-(count - 1) // 128) - 1)


LENGTHS, PREFIXES = 6, 7  # DELTA_LENGTH_BYTE_ARRAY and DELTA_BYTE_ARRAY


def lengths_page(lengths: bytes, data: bytes, values: int = 3) -> bytes:
    """A page of lengths, and all bytes behind them."""
    return data_page(lengths + data, values, encoding=LENGTHS)


def prefixes_page(prefixes: bytes, lengths: bytes, data: bytes, values: int = 3) -> bytes:
    """A page of prefixes that are taken from the string before, and of what follows them."""
    return data_page(prefixes + lengths + data, values, encoding=PREFIXES)


def indices(index: int, count: int) -> bytes:
    """So many times one index of a dictionary."""
    return bytes([8]) + tw.varint(count << 1) + bytes([index])


WORDS = (b"a", b"bc", b"")
DICTIONARY = dictionary_page(plain(*WORDS), 3)

BAD_STRINGS: dict[str, Callable[[], list[bytes]]] = {
    "no bytes": lambda: [data_page(b"", 3)],
    "half a length": lambda: [data_page(plain(b"a", b"bc") + b"\0\0", 3)],
    "a length beyond the page": lambda: [data_page(plain(b"a", b"bc") + struct.pack("<I", 1), 3)],
    "a length of 2^32 - 1": lambda: [data_page(plain(b"a", b"bc") + struct.pack("<I", 2**32 - 1) + b"x", 3)],
    "a length of 2^31": lambda: [data_page(struct.pack("<I", 2**31) + plain(b"a", b"bc"), 3)],
    "fewer strings than values": lambda: [data_page(plain(b"a", b"bc"), 3)],
    "a dictionary with a length beyond it": lambda: [
        dictionary_page(plain(b"a") + struct.pack("<I", 77) + b"x", 2),
        data_page(indices(0, 3), 3, encoding=tw.RLE_DICTIONARY),
    ],
    "a dictionary of fewer strings than it says": lambda: [
        dictionary_page(plain(*WORDS), 4),
        data_page(indices(3, 3), 3, encoding=tw.RLE_DICTIONARY),
    ],
    "a dictionary of 2^31 - 1 strings": lambda: [
        dictionary_page(plain(*WORDS), 2**31 - 1),
        data_page(indices(0, 3), 3, encoding=tw.RLE_DICTIONARY),
    ],
    "an index beyond the dictionary": lambda: [
        DICTIONARY,
        data_page(indices(3, 3), 3, encoding=tw.RLE_DICTIONARY),
    ],
    "no dictionary": lambda: [data_page(indices(0, 3), 3, encoding=tw.RLE_DICTIONARY)],
    "lengths: none": lambda: [lengths_page(b"", b"abc")],
    "lengths: fewer than values": lambda: [lengths_page(deltas(1, 2), b"abc")],
    "lengths: beyond the page": lambda: [lengths_page(deltas(1, 2, 1), b"abc")],
    "lengths: negative": lambda: [lengths_page(deltas(1, -1, 3), b"abc")],
    "lengths: of which the sum overflows": lambda: [lengths_page(deltas(2**62, 2**62, 2**62), b"abc")],
    "lengths: 2^31 - 1 each": lambda: [lengths_page(deltas(2**31 - 1, 2**31 - 1, 2**31 - 1), b"abc")],
    "lengths: 2^31 - 1 of them": lambda: [
        lengths_page(tw.varint(128) + tw.varint(4) + tw.varint(2**31 - 1) + tw.zigzag(0), b"")
    ],
    "lengths: in miniblocks of 255 bits": lambda: [
        lengths_page(deltas(1, 2, 0).replace(b"\x20\0\0\0", b"\xff\0\0\0"), b"abc")
    ],
    "lengths: in no miniblocks": lambda: [
        lengths_page(tw.varint(128) + tw.varint(0) + tw.varint(3) + tw.zigzag(1) + bytes(20), b"abc")
    ],
    "lengths: in a page of 2^31 - 1 values": lambda: [lengths_page(deltas(1, 1, 1), b"abc", 2**31 - 1)],
    "prefixes: in a page of 2^31 - 1 values": lambda: [
        prefixes_page(deltas(0, 0, 0), deltas(1, 1, 1), b"abc", 2**31 - 1)
    ],
    "plain: a page of 2^31 - 1 values": lambda: [data_page(plain(*WORDS), 2**31 - 1)],
    "an index 2^31 - 1 times": lambda: [
        DICTIONARY,
        data_page(indices(0, 2**31 - 1), 2**31 - 1, encoding=tw.RLE_DICTIONARY),
    ],
    "prefixes: longer than the string before": lambda: [
        prefixes_page(deltas(0, 2, 0), deltas(1, 1, 1), b"abc")
    ],
    "prefixes: of the first string": lambda: [prefixes_page(deltas(1, 0, 0), deltas(1, 1, 1), b"abc")],
    "prefixes: negative": lambda: [prefixes_page(deltas(0, -1, 0), deltas(1, 1, 1), b"abc")],
    "prefixes: fewer than values": lambda: [prefixes_page(deltas(0, 1), deltas(1, 1, 1), b"abc")],
    "prefixes: fewer suffixes": lambda: [prefixes_page(deltas(0, 1, 0), deltas(1, 1), b"ab")],
    "prefixes: suffixes beyond the page": lambda: [prefixes_page(deltas(0, 1, 0), deltas(1, 1, 2), b"abc")],
    "prefixes: of 2^62 bytes": lambda: [prefixes_page(deltas(0, 2**62, 2**62), deltas(1, 1, 1), b"abc")],
    "prefixes: nothing behind them": lambda: [prefixes_page(deltas(0, 0, 0), b"", b"")],
}


def write_strings(path: Path, pages: list[bytes], rows: int = 3) -> Path:
    """Write a file of one column of strings, whose footer says where a dictionary is."""
    file = OneColumn(pages, rows, type=tw.BYTE_ARRAY, element={6: i32(0)})
    return file.write(path)


@each_of("what", BAD_STRINGS)
def test_bad_strings_are_refused(path: Path, reader: Reader, what: str) -> None:
    reader.read(write_strings(path, BAD_STRINGS[what]())).assert_refused(path)


@each_of(
    ("pages", "words"),
    [
        ([data_page(plain(*WORDS), 3)], list(WORDS)),
        ([DICTIONARY, data_page(indices(1, 3), 3, encoding=tw.RLE_DICTIONARY)], [b"bc"] * 3),
        ([lengths_page(deltas(1, 2, 0), b"abc")], list(WORDS)),
        ([prefixes_page(deltas(0, 1, 2), deltas(1, 1, 0), b"ab")], [b"a", b"ab", b"ab"]),
    ],
)
def test_the_strings_that_the_others_are_made_of_are_good(
    path: Path, pages: list[bytes], words: list[bytes]
) -> None:
    (batch,) = fr.ParquetDataset(write_strings(path, pages), batch_size=3)
    assert batch["x"].to_bytes() == words
    assert [word.encode() for word in pq.read_table(path)["x"].to_pylist()] == words


# -------------------------------------------------------------------------------------------- few bytes, much

ROWS_OF_A_BOMB = 3000


@each_of("what", ["a dictionary of one long string", "prefixes that are the whole string before"])
@each_of("threads", [0, 2])
def test_a_file_of_few_bytes_that_become_many_takes_the_memory_of_a_few_batches(
    path: Path, reader: Reader, what: str, threads: int
) -> None:
    """Gigabytes of strings out of one megabyte: to hold all of them at once would be our fault."""
    long = bytes(MIB)
    if what.startswith("a dictionary"):
        pages = [
            dictionary_page(plain(long), 1),
            data_page(indices(0, ROWS_OF_A_BOMB), ROWS_OF_A_BOMB, encoding=tw.RLE_DICTIONARY),
        ]
    else:
        prefixes = deltas(0, MIB, values=ROWS_OF_A_BOMB)
        lengths = deltas(MIB, 0, values=ROWS_OF_A_BOMB)
        pages = [prefixes_page(prefixes, lengths, long, ROWS_OF_A_BOMB)]
    write_strings(path, pages, ROWS_OF_A_BOMB)
    outcome = reader.read(path, 3, threads)
    assert outcome.kind in ("NoneType", "DataError"), outcome
    assert outcome.grown < GROWTH, f"{outcome.grown / MIB:.0f} MiB"


def test_strings_that_no_memory_holds_are_an_error_and_not_the_end(path: Path) -> None:
    """A terabyte in one batch, of a file of one megabyte."""
    rows = 1 << 20
    pages = [
        dictionary_page(plain(bytes(MIB)), 1),
        data_page(indices(0, rows), rows, encoding=tw.RLE_DICTIONARY),
    ]
    write_strings(path, pages, rows)
    reader = Reader(address_space=1 << 30)
    outcome = reader.read(path, rows)
    reader.close()
    assert outcome.kind in ("DataError", "ValueError"), outcome


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_what_lies_before_a_damaged_row_group_is_delivered_though_it_is_decoded_in_parts(
    path: Path, threads: int
) -> None:
    """The first row group expands to 100 MB and is divided; a thread may meet the damage before the rest."""
    rows, batch_size = 100_000, 1000
    schema = pa.schema([("text", pa.string()), ("number", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="none", write_page_checksum=True) as writer:
        # By the mean over all rows, the first row group is decoded in one go.
        for count, word in ((rows, "x" * 1000), (batch_size, "b"), (20 * rows, "")):
            writer.write_table(pa.table([[word] * count, range(count)], schema=schema), row_group_size=count)
    chunk = pq.read_metadata(path).row_group(1).column(1)
    content = bytearray(path.read_bytes())
    content[chunk.dictionary_page_offset + 200] ^= 0xFF
    path.write_bytes(content)
    dataset = fr.ParquetDataset(path, batch_size=batch_size, world=(0, 1))
    with fr.Loader(dataset, threads=threads, prefetch_bytes=1 << 30) as loader:
        batches = iter(loader)
        delivered = list(itertools.islice(batches, rows // batch_size))
        with pytest.raises(fr.DataError, match="checksum"):
            next(batches)
    assert [batch.rows()[0] for batch in delivered] == list(range(0, rows, batch_size))
