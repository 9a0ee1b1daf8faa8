"""Law 11 for the levels of lists and nulls: what is damaged is one DataError, soon, in little memory.

Each file is opened in a process of its own (`Reader`), so that one which kills its reader, hangs, or takes
all memory fails one test.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.child import MIB, Reader
from support.each_of import each_of
from support.list_writer import FORMS, ListColumn, page_v2, runs, shred, sized, values_of
from support.thrift_writer import OneColumn, data_page, i32, int64s

pytestmark = pytest.mark.law(11)


# ----------------------------------------------------------------------------------------------------- levels

FORM = FORMS["three levels"]
ROWS = [[1, 2], [], None, [3, None], [4]]
TRIPLES = shred(ROWS, FORM)
REPETITION = [triple[0] for triple in TRIPLES]
DEFINITION = [triple[1] for triple in TRIPLES]
VALUES = values_of(TRIPLES)
COUNT = len(TRIPLES)


def list_file(*pages: bytes, rows: int = len(ROWS), values: int = COUNT) -> ListColumn:
    """A file of one list column."""
    return ListColumn(pages, rows, form=FORM, values=values)


def page_of(repetition: bytes, definition: bytes, body: bytes = VALUES, values: int = COUNT) -> bytes:
    """A page of the first version."""
    return data_page(sized(repetition) + sized(definition) + body, values)


GOOD_REPETITION, GOOD_DEFINITION = runs(REPETITION, 1), runs(DEFINITION, 2)
EMPTY_RUNS = b"\0\0" * MIB
PACKED_OF_NOTHING = b"\1" * MIB
ENDLESS = tw.varint((2**62) << 1) + b"\0"
A_BILLION = tw.varint(10**9 << 1)

BAD_LEVELS: dict[str, Callable[[], ListColumn]] = {
    "no levels at all": lambda: list_file(data_page(b"", COUNT)),
    "half a size of the levels": lambda: list_file(data_page(b"\1\0", COUNT)),
    "levels of more bytes than the page": lambda: list_file(
        data_page(struct.pack("<I", 2**32 - 1) + VALUES, COUNT)
    ),
    "repetition levels and no others": lambda: list_file(data_page(sized(GOOD_REPETITION), COUNT)),
    "fewer repetition levels than values": lambda: list_file(
        page_of(runs(REPETITION[:-1], 1), GOOD_DEFINITION)
    ),
    "fewer definition levels than values": lambda: list_file(
        page_of(GOOD_REPETITION, runs(DEFINITION[:-1], 2))
    ),
    "runs of no levels": lambda: list_file(page_of(EMPTY_RUNS, GOOD_DEFINITION)),
    "packed runs of no levels": lambda: list_file(page_of(PACKED_OF_NOTHING, GOOD_DEFINITION)),
    "a repetition level that is too high": lambda: list_file(
        page_of(runs([0, 1, 2, 0, 0, 1, 0], 1), GOOD_DEFINITION)
    ),
    "a definition level that is too high": lambda: list_file(
        page_of(GOOD_REPETITION, runs([3, 3, 1, 0, 3, 4, 3], 3))
    ),
    "a run that says its value in no byte": lambda: list_file(
        page_of(tw.varint(COUNT << 1), GOOD_DEFINITION)
    ),
    "a number that does not end": lambda: list_file(page_of(b"\xff" * 100, GOOD_DEFINITION)),
    "a chunk that begins within a row": lambda: list_file(
        page_of(runs([1, *REPETITION[1:]], 1), GOOD_DEFINITION)
    ),
    "more rows than the row group": lambda: list_file(page_of(runs([0] * COUNT, 1), GOOD_DEFINITION)),
    "fewer rows than the row group": lambda: list_file(
        page_of(runs([0] + [1] * (COUNT - 1), 1), GOOD_DEFINITION)
    ),
    "fewer values than levels say": lambda: list_file(page_of(GOOD_REPETITION, GOOD_DEFINITION, VALUES[:-8])),
    "a page of no values at the end": lambda: list_file(
        page_of(runs(REPETITION[:-1], 1), runs(DEFINITION[:-1], 2), VALUES[:-8], COUNT - 1),
        page_of(b"", b"", b"", 0),
    ),
    "a billion empty lists": lambda: list_file(
        page_of(A_BILLION + b"\0", A_BILLION + b"\1", b"", 10**9), values=10**9
    ),
    "a billion null elements of one list": lambda: list_file(
        page_of(
            tw.varint(1 << 1) + b"\0" + A_BILLION + b"\1", tw.varint((10**9 + 1) << 1) + b"\2", b"", 10**9 + 1
        ),
        values=10**9 + 1,
    ),
    "2^31 - 1 values in one list": lambda: list_file(
        page_of(b"\2\0" + ENDLESS[:-1] + b"\1", ENDLESS[:-1] + b"\3", VALUES, 2**31 - 1),
        values=2**31 - 1,
        rows=1,
    ),
    "a negative number of values": lambda: list_file(
        page_of(GOOD_REPETITION, GOOD_DEFINITION, VALUES, -COUNT)
    ),
    "version 2: more levels than bytes": lambda: list_file(
        page_v2(b"", b"", VALUES, values=COUNT, rows=5, nulls=3, repetition_bytes=30, definition_bytes=30)
    ),
    "version 2: levels of negative sizes": lambda: list_file(
        page_v2(b"", b"", VALUES, values=COUNT, rows=5, nulls=3, repetition_bytes=-1, definition_bytes=-1)
    ),
    "version 2: levels of 2^31 - 1 bytes each": lambda: list_file(
        page_v2(
            b"",
            b"",
            VALUES,
            values=COUNT,
            rows=5,
            nulls=3,
            repetition_bytes=2**31 - 1,
            definition_bytes=2**31 - 1,
        )
    ),
    "version 2: no repetition levels": lambda: list_file(
        page_v2(b"", GOOD_DEFINITION, VALUES, values=COUNT, rows=5, nulls=3)
    ),
    "version 2: other rows than levels say": lambda: list_file(
        page_v2(GOOD_REPETITION, GOOD_DEFINITION, VALUES, values=COUNT, rows=4, nulls=3)
    ),
    "version 2: a page that begins within a row": lambda: list_file(
        page_v2(runs([0, 1], 1), runs([3, 3], 2), int64s(2), values=2, rows=1, nulls=0),
        page_v2(runs([1, 0, 0, 0, 0], 1), runs([3] * 5, 2), int64s(5), values=5, rows=5, nulls=0),
    ),
}


@each_of("what", BAD_LEVELS)
def test_bad_levels_of_a_list_are_refused(path: Path, reader: Reader, what: str) -> None:
    file = BAD_LEVELS[what]()
    reader.read(file.write(path), file.rows, nulls=0).assert_refused(path)


@each_of("what", [what for what in BAD_LEVELS if "billion" not in what and "2^31" not in what])
def test_what_a_seek_passes_over_is_no_danger(path: Path, what: str) -> None:
    """The last row is asked for; what lies before it is passed over, or found to be damaged."""
    file = BAD_LEVELS[what]()
    dataset = fr.ParquetDataset(file.write(path), batch_size=1, columns=fr.col("*").fill_null(0))
    try:
        batch = dataset.read_rows([file.rows - 1])
    except fr.DataError as error:
        message = str(error)
    else:
        message = "column 'x'" if len(batch["x"]) == 1 else "another number of rows"
    assert "column 'x'" in message
    assert "gave up" not in message


def test_the_levels_that_the_others_are_made_of_are_good(path: Path, reader: Reader) -> None:
    for page in (
        page_of(GOOD_REPETITION, GOOD_DEFINITION),
        page_v2(GOOD_REPETITION, GOOD_DEFINITION, VALUES, values=COUNT, rows=5, nulls=3),
    ):
        list_file(page).write(path)
        outcome = reader.read(path, 5, nulls=0)
        assert (outcome.kind, outcome.batches) == ("NoneType", 1), outcome
        assert pq.read_table(path)["x"].to_pylist() == ROWS


OPTIONAL = {3: i32(tw.OPTIONAL)}


def optional_page(definition: bytes, body: bytes, values: int = 10) -> bytes:
    """A page of a flat column that may hold nulls."""
    return data_page(sized(definition) + body, values)


BAD_NULLS: dict[str, Callable[[], bytes]] = {
    "no levels": lambda: data_page(b"", 10),
    "fewer levels than values": lambda: optional_page(runs([1] * 9, 1), int64s(10)),
    "a level that is too high": lambda: optional_page(runs([1] * 9 + [2], 1), int64s(10)),
    "more values than there are": lambda: optional_page(runs([0] + [1] * 9, 1), int64s(8)),
    "runs of no levels": lambda: optional_page(EMPTY_RUNS, int64s(10)),
    "packed runs of no levels": lambda: optional_page(PACKED_OF_NOTHING, int64s(10)),
    "a run without its value": lambda: optional_page(tw.varint(10 << 1), b""),
    "a packed run that is cut off": lambda: optional_page(tw.varint(2 << 1 | 1) + b"\xff", b""),
    "a billion nulls": lambda: optional_page(A_BILLION + b"\0", b"", 10**9),
    "levels longer than the page": lambda: data_page(struct.pack("<I", 1000) + int64s(10), 10),
    "version 2: all null, and values": lambda: tw.data_page_v2(
        runs([1] * 10, 1) + int64s(9), 10, nulls=10, definition_bytes=2
    ),
}


@each_of("what", BAD_NULLS)
@each_of("nulls", ["mask", 0])
def test_bad_levels_of_a_flat_column_are_refused(path: Path, reader: Reader, what: str, nulls: Any) -> None:
    OneColumn([BAD_NULLS[what]()], 10, element=OPTIONAL).write(path)
    reader.read(path, 10, nulls=nulls).assert_refused(path)


# -------------------------------------------------------------------------------------------- few bytes, much

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
