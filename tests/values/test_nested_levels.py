"""Levels of lists of lists: rows that go on in other pages, wrong levels, few bytes that state much."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.bad_pages import grid_file, grid_of
from support.child import Reader
from support.list_writer import LIST, REPEATED, Form, ListColumn, group, sized
from support.thrift_writer import binary, data_page, i32

GRID: list[Any] = [[[1, 2], []], [], None, [None, [3]], [[], [4, 5, 6], None]]
TRIPLES = [(0, 5, 1), (2, 5, 2), (1, 3, None), (0, 1, None), (0, 0, None), (0, 2, None), (1, 5, 3)]
TRIPLES += [(0, 3, None), (1, 5, 4), (2, 5, 5), (2, 5, 6), (1, 2, None)]


def test_a_row_and_a_list_in_it_may_go_on_in_any_page(path: Path) -> None:
    assert pq.read_table(grid_file(TRIPLES).write(path))["x"].to_pylist() == GRID
    for first in range(1, len(TRIPLES)):
        for second in range(first, len(TRIPLES)):
            grid_file(TRIPLES[:first], TRIPLES[first:second], TRIPLES[second:]).write(path)
            for batch_size in (5, 1):
                batches = list(fr.ParquetDataset(path, batch_size=batch_size, nulls="mask"))
                assert [row for batch in batches for row in batch["x"].to_list()] == GRID
            assert fr.ParquetDataset(path, batch_size=1, nulls="mask").read_rows([4, 3])["x"].to_list() == [
                GRID[4],
                GRID[3],
            ]


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
    file = grid_of([one] * rows, rows, rows * count)
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
                grid_file(triples[:cut], triples[cut:], version=version).write(path)
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
