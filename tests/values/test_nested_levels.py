"""Levels of lists of lists: rows that go on in other pages, wrong levels, few bytes that state much."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.child import Reader
from support.each_of import each_of
from support.list_writer import LIST, REPEATED, Form, ListColumn, element, group, page, sized
from support.thrift_writer import binary, data_page, i32, int64s

GRID: list[Any] = [[[1, 2], []], [], None, [None, [3]], [[], [4, 5, 6], None]]
FORM = Form(
    1,
    4,
    5,
    (
        group("x", 1, LIST),
        group("list", REPEATED),
        group("element", 1, LIST),
        group("list", REPEATED),
        element("element", 1),
    ),
)
# The definition level of a null row is 0, of an empty one 1, of a null list in it 2, of an empty one 3, of a
# null number 4, of a number 5.
TRIPLES = [(0, 5, 1), (2, 5, 2), (1, 3, None), (0, 1, None), (0, 0, None), (0, 2, None), (1, 5, 3)]
TRIPLES += [(0, 3, None), (1, 5, 4), (2, 5, 5), (2, 5, 6), (1, 2, None)]


def file_of(*pages: list[tuple[int, int, int | None]], version: int = 1) -> ListColumn:
    """A file of these levels and values, page by page."""
    triples = [triple for part in pages for triple in part]
    rows = sum(triple[0] == 0 for triple in triples)
    return ListColumn([page(part, FORM, version) for part in pages], rows, form=FORM, values=len(triples))


def test_a_row_and_a_list_in_it_may_go_on_in_any_page(path: Path) -> None:
    assert pq.read_table(file_of(TRIPLES).write(path))["x"].to_pylist() == GRID
    for first in range(1, len(TRIPLES)):
        for second in range(first, len(TRIPLES)):
            file_of(TRIPLES[:first], TRIPLES[first:second], TRIPLES[second:]).write(path)
            for batch_size in (5, 1):
                batches = list(fr.ParquetDataset(path, batch_size=batch_size, nulls="mask"))
                assert [row for batch in batches for row in batch["x"].to_list()] == GRID
            assert fr.ParquetDataset(path, batch_size=1, nulls="mask").read_rows([4, 3])["x"].to_list() == [
                GRID[4],
                GRID[3],
            ]


BAD = {
    "a list that goes on behind an empty one": [[(0, 3, None), (2, 5, 1)]],
    "a list that goes on behind a null one": [[(0, 2, None), (2, 5, 1)]],
    "a list that goes on in an empty row": [[(0, 1, None), (2, 5, 1)]],
    "a list that goes on as an empty one": [[(0, 5, 1), (2, 3, None)]],
    "a list that goes on as an empty row": [[(0, 5, 1), (2, 1, None)]],
    "a row that goes on behind an empty one": [[(0, 1, None), (1, 5, 1)]],
    "a row that goes on behind a null one": [[(0, 0, None), (1, 5, 1)]],
    "a row that goes on as a null one": [[(0, 5, 1), (1, 0, None)]],
    "the next page goes on with a list behind an empty one": [[(0, 3, None)], [(2, 5, 1)]],
    "the next page goes on with a list in an empty row": [[(0, 1, None)], [(2, 5, 1)]],
    "the next page goes on with a null row": [[(0, 5, 1), (0, 0, None)], [(1, 5, 1)]],
    "a repetition level that is too high": [[(0, 5, 1), (3, 5, 1)]],
    "a definition level that is too high": [[(0, 5, 1), (1, 6, 1)]],
    "a chunk that begins within a list": [[(2, 5, 1), (0, 5, 1)]],
    "a chunk that begins within a row": [[(1, 5, 1), (0, 5, 1)]],
}


@pytest.mark.law(11)
@each_of("what", BAD)
@each_of("nulls", ["mask", 0])
def test_bad_levels_of_lists_of_lists_are_refused(path: Path, reader: Reader, what: str, nulls: Any) -> None:
    file = file_of(*BAD[what])
    file.rows = max(file.rows, 1)
    reader.read(file.write(path), file.rows, nulls=nulls).assert_refused(path)


@pytest.mark.law(11)
@pytest.mark.parametrize("version", [1, 2])
def test_a_page_of_few_bytes_is_bounded_in_the_lists_that_it_states(
    path: Path, reader: Reader, version: int
) -> None:
    """A billion empty lists in one row: each would need 8 bytes."""
    count = 10**9
    many = tw.varint((count - 1) << 1)
    repetition = tw.varint(1 << 1) + b"\0" + many + b"\1"
    definition = tw.varint(count << 1) + b"\3"
    made = data_page(sized(repetition) + sized(definition) + int64s(0), count)
    file = ListColumn([made], 1, form=FORM, values=count)
    outcome = reader.read(file.write(path), 1, nulls="mask")
    outcome.assert_refused(path)
    assert outcome.grown < 500 << 20


@pytest.mark.law(11)
def test_a_dictionary_of_one_long_text_is_bounded_in_what_it_expands_to(path: Path, reader: Reader) -> None:
    """200 times one text of 1 MiB, in a list of few bytes."""
    count, text = 200, b"a" * (1 << 20)
    leaf = {tw.TYPE: i32(tw.BYTE_ARRAY), tw.REPETITION: i32(1), tw.NAME: binary(b"element")}
    form = Form(1, 2, 3, (group("x", 1, LIST), group("list", REPEATED), leaf))
    repetition = tw.varint(1 << 1) + b"\0" + tw.varint((count - 1) << 1) + b"\1"
    levels = sized(repetition) + sized(tw.varint(count << 1) + b"\3")
    indices = b"\1" + tw.varint(count << 1) + b"\0"
    pages = [
        tw.dictionary_page(struct.pack("<I", len(text)) + text, 1),
        data_page(levels + indices, count, encoding=tw.RLE_DICTIONARY),
    ]
    file = ListColumn(pages, 1, form=form, values=count, element=leaf)
    outcome = reader.read(file.write(path), 1)
    outcome.assert_refused(path)
    assert "expand to more than" in outcome.message


@pytest.mark.parametrize("threads", [0, 2])
def test_lists_of_few_bytes_take_the_memory_of_a_few_rows(path: Path, reader: Reader, threads: int) -> None:
    """Gigabytes of lengths of empty lists out of few bytes: to hold them all would be our fault."""
    rows, count = 40, 1 << 20
    many = tw.varint((count - 1) << 1)
    repetition = tw.varint(1 << 1) + b"\0" + many + b"\1"
    one = data_page(sized(repetition) + sized(tw.varint(count << 1) + b"\3"), count)
    file = ListColumn([one] * rows, rows, form=FORM, values=rows * count)
    outcome = reader.read(file.write(path), 1, threads, nulls="mask")
    assert (outcome.kind, outcome.batches) == ("NoneType", rows), outcome
    assert outcome.grown < 200 << 20, outcome


# [[[1], [2]], [], None, [[3], [4, 5], [6]], [[7]]]
WHOLE: list[tuple[int, int, int | None]] = [(0, 5, 1), (1, 5, 2), (0, 1, None), (0, 0, None), (0, 5, 3)]
WHOLE += [(1, 5, 4), (2, 5, 5), (1, 5, 6), (0, 5, 7)]
IN_ROW_3 = range(4, 8)


@pytest.mark.law(11)
@pytest.mark.parametrize("version", [1, 2])
def test_the_row_of_a_null_inside_is_named_in_whatever_page_it_is(path: Path, version: int) -> None:
    """Of a list or a number: also where the row began in another page, and where rows are passed over."""
    for place in IN_ROW_3:
        for level in (2, 4):
            repetition = WHOLE[place][0]
            if level == 2 and (repetition == 2 or WHOLE[place + 1][0] == 2):
                continue  # a list that goes on is there
            triples = [*WHOLE[:place], (repetition, level, None), *WHOLE[place + 1 :]]
            cuts = range(1, len(triples)) if version == 1 else (2, 4, 8)
            for cut in cuts:
                file_of(triples[:cut], triples[cut:], version=version).write(path)
                dataset = fr.ParquetDataset(path, batch_size=1, rows=[[0, 2], [3, 5]])
                for read in (lambda: list(dataset), lambda: dataset.read_rows([3])):  # noqa: B023  (called at once)
                    with pytest.raises(fr.DataError, match="row 3 of the row group is null"):
                        read()
                assert dataset.read_rows([4, 0])["x"].to_list() == [[[7]], [[1], [2]]]
                marked = fr.ParquetDataset(path, batch_size=1, nulls="mask", rows=[[0, 2], [3, 5]])
                expected: list[Any] = [[3], [4, 5], [6]]
                inner, number = ((0, 0), (1, 0), (1, 1), (2, 0))[place - IN_ROW_3[0]]
                if level == 2:
                    expected[inner] = None
                else:
                    expected[inner][number] = None
                for row in (list(marked)[2]["x"], marked.read_rows([3])["x"]):
                    assert row.to_list() == [expected]
