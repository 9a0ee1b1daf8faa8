"""Law 11 for pages: what is damaged is one DataError, soon, in little memory.

Each file is opened in a process of its own (`Reader`), so that one which kills its reader, hangs, or takes
all memory fails one test.
"""

from __future__ import annotations

import itertools
import json
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import oracle
from support import thrift_writer as tw
from support.bad_pages import (
    COUNT,
    DICTIONARY,
    GOOD_DEFINITION,
    GOOD_REPETITION,
    PARTS,
    ROWS,
    VALUES,
    WORDS,
    deltas,
    headers,
    indices_page,
    lengths_page,
    levels_of_lists,
    list_file,
    page_of,
    plain,
    prefixes_page,
    strings,
)
from support.child import MIB, Child, Reader, read_whole
from support.each_of import each_of
from support.list_writer import page_v2, sized
from support.refusals import assert_message, open_dataset, refused, rows_of, write
from support.thrift_writer import OneColumn, data_page, dictionary_page, int64s

pytestmark = pytest.mark.law(11)


@pytest.mark.parametrize("part", PARTS)
def test_bad_pages_are_refused_with_what_was_found_and_expected(
    path: Path, reader: Reader, part: str
) -> None:
    has_levels = "levels" in part or "lists" in part
    for bad in PARTS[part]():
        is_large = bad.file.write(path).stat().st_size > MIB
        for nulls, threads in itertools.product(("mask", 0) if has_levels else ("error",), (0, 2)):
            if not (is_large and threads):
                outcome = reader.read(path, bad.file.rows if has_levels else 3, threads, nulls=nulls)
                try:
                    outcome.assert_refused(path, bad.said)
                    assert_message(outcome.message)
                except AssertionError as error:
                    error.add_note(f"{bad.name}, {threads} threads, nulls: {nulls}")
                    raise


# ----------------------------------------------------------------------------------------- how they are read


@pytest.mark.parametrize("what", ["64 MiB of zeros", "2^31 - 1 values", "2 GiB"])
def test_a_bad_page_header_is_refused_where_a_seek_passes_it(path: Path, what: str) -> None:
    file = next(bad.file for bad in headers() if bad.name == what)
    file.rows = 10_000
    file.write(path)
    dataset = fr.ParquetDataset(path, batch_size=1000)
    position = {"cuts": [[1, 1, 1000, 9]]}
    state = oracle.checked({**json.loads(dataset.state_dict()["fastresume"]), **position})
    dataset.load_state_dict({"fastresume": state})
    with refused(fr.DataError, path, "column 'x'", "row group 0"):
        list(dataset)


@each_of("version", ["1.0", "2.0"])
@each_of("kind", [tw.DICTIONARY_PAGE, "data"])
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


def test_what_a_seek_passes_over_is_no_danger(path: Path) -> None:
    """The last row is asked for; what lies before it is passed over, or found to be damaged."""
    for bad in levels_of_lists():
        dataset = fr.ParquetDataset(bad.file.write(path), batch_size=1, columns=fr.col("*").fill_null(0))
        try:
            batch = dataset.read_rows([bad.file.rows - 1])
        except fr.DataError as error:
            message = str(error)
        else:
            message = "column 'x'" if len(batch["x"]) == 1 else "another number of rows"
        assert "column 'x'" in message, bad.name
        assert "gave up" not in message, bad.name


def test_a_decoder_that_panics_prints_nothing(path: Path) -> None:
    # The parquet crate indexes beyond this page, which has room for less than it says.
    OneColumn([data_page(bytes(9), 10, encoding=9)], 10).write(path)
    with Child() as child:
        found = child.call(read_whole, str(path), 3, 0)
        assert found["kind"] == "DataError"
        assert child.stderr() == ""


def test_the_levels_that_the_others_are_made_of_are_good(path: Path, reader: Reader) -> None:
    for page in (
        page_of(GOOD_REPETITION, GOOD_DEFINITION),
        page_v2(GOOD_REPETITION, GOOD_DEFINITION, VALUES, values=COUNT, rows=5, nulls=3),
    ):
        list_file(page).write(path)
        outcome = reader.read(path, 5, nulls=0)
        assert (outcome.kind, outcome.batches) == ("NoneType", 1), outcome
        assert pq.read_table(path)["x"].to_pylist() == ROWS


@each_of(
    ("pages", "words"),
    [
        ([data_page(plain(*WORDS), 3)], list(WORDS)),
        ([DICTIONARY, indices_page(1, 3)], [b"bc"] * 3),
        ([lengths_page(deltas(1, 2, 0), b"abc")], list(WORDS)),
        ([prefixes_page(deltas(0, 1, 2), deltas(1, 1, 0), b"ab")], [b"a", b"ab", b"ab"]),
    ],
)
def test_the_strings_that_the_others_are_made_of_are_good(
    path: Path, pages: list[bytes], words: list[bytes]
) -> None:
    (batch,) = fr.ParquetDataset(strings(*pages).write(path), batch_size=3)
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
            indices_page(0, ROWS_OF_A_BOMB),
        ]
    else:
        prefixes = deltas(0, MIB, values=ROWS_OF_A_BOMB)
        lengths = deltas(MIB, 0, values=ROWS_OF_A_BOMB)
        pages = [prefixes_page(prefixes, lengths, long, ROWS_OF_A_BOMB)]
    strings(*pages, rows=ROWS_OF_A_BOMB).write(path)
    outcome = reader.read(path, 3, threads)
    assert outcome.kind in ("NoneType", "DataError"), outcome
    assert outcome.grown < 500 * MIB, f"{outcome.grown / MIB:.0f} MiB"


def test_strings_that_no_memory_holds_are_an_error_and_not_the_end(path: Path) -> None:
    """A terabyte in one batch, of a file of one megabyte."""
    rows = 1 << 20
    pages = [
        dictionary_page(plain(bytes(MIB)), 1),
        indices_page(0, rows),
    ]
    strings(*pages, rows=rows).write(path)
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


ELEMENTS = 1 << 20


def long_row() -> bytes:
    """A page of one list of 8 MiB, in a few bytes: runs of levels, and one run of an index."""
    many = tw.varint(ELEMENTS << 1)
    repetition = tw.varint(1 << 1) + b"\0" + tw.varint((ELEMENTS - 1) << 1) + b"\1"
    levels = sized(repetition) + sized(many + b"\3")
    return data_page(levels + b"\1" + many + b"\0", ELEMENTS, encoding=tw.RLE_DICTIONARY)


@each_of("is_honest", [True, False])
@each_of("threads", [0, 2])
def test_lists_of_few_bytes_that_become_many_take_the_memory_of_a_few_rows(
    path: Path, reader: Reader, is_honest: bool, threads: int
) -> None:
    """Gigabytes of elements out of 5 KiB: to hold all of them at once would be our fault."""
    rows = 200
    pages = [tw.dictionary_page(int64s(1), 1), *[long_row() for _ in range(rows)]]
    list_file(*pages, rows=rows, values=rows * ELEMENTS if is_honest else rows).write(path)
    outcome = reader.read(path, 1, threads)
    assert outcome.kind == ("NoneType" if is_honest else outcome.kind), outcome
    assert outcome.kind in ("NoneType", "DataError"), outcome
    assert outcome.grown < 500 * MIB, f"{outcome.grown / MIB:.0f} MiB"


def test_lists_that_no_memory_holds_are_an_error_and_not_the_end(path: Path) -> None:
    rows = 200
    pages = [tw.dictionary_page(int64s(1), 1), *[long_row() for _ in range(rows)]]
    list_file(*pages, rows=rows, values=rows * ELEMENTS).write(path)
    reader = Reader(address_space=1 << 30)
    outcome = reader.read(path, rows)
    reader.close()
    assert outcome.kind in ("DataError", "ValueError"), outcome
