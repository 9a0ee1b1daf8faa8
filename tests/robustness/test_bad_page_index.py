"""Law 11 for page indexes: damage is one DataError that names the index."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.conditions import kept_rows
from support.pages import COLUMN_INDEX, HIGHS, LOWS, chunk_of, number, rewrite, text, write

pytestmark = pytest.mark.law(11)


def fewer(index: Any) -> None:
    for field, wire in ((LOWS, tw.Wire.BINARY), (HIGHS, tw.Wire.BINARY)):
        index[field] = tw.listing(wire, index[field].value[1][:-1])


def of_other_types(index: Any) -> None:
    index[LOWS] = tw.listing(tw.Wire.I64, [1] * 10)


def without_lists(index: Any) -> None:
    index.clear()


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (fewer, "the page index bounds 9 pages, and places 10 of them"),
        (of_other_types, "field 2 is a list of I64"),
        (without_lists, "the page index bounds 0 pages, and places 10 of them"),
    ],
)
def test_a_damaged_index_is_an_error_that_names_it(tmp_path: Path, edit: Any, named: str) -> None:
    path = write(tmp_path / "x.parquet")
    rewrite(path, edit)
    with pytest.raises(fr.DataError, match=named) as caught:
        kept_rows(path, filter=number == 55)
    assert "(column 'x', row group 0, file " in str(caught.value)
    assert kept_rows(path, filter=text == "00055") == [55]


@pytest.mark.parametrize("place", [(2**40, 9), (4, 2**31 - 1), (4, 0)])
def test_an_index_that_lies_elsewhere_is_an_error(tmp_path: Path, place: tuple[int, int]) -> None:
    path = write(tmp_path / "x.parquet")

    def edit(footer: Any) -> None:
        chunk = chunk_of(footer, "x")
        chunk[COLUMN_INDEX[0]], chunk[COLUMN_INDEX[1]] = tw.i64(place[0]), tw.i32(place[1])

    tw.edit_footer(path, edit)
    with pytest.raises(fr.DataError, match="column 'x', row group 0"):
        kept_rows(path, filter=number == 55)


def test_no_damage_of_an_index_does_more_than_raise(tmp_path: Path) -> None:
    """Whatever byte of the bounds is another one: an error, or rows; never a crash."""
    path = write(tmp_path / "x.parquet", rows=30)
    _, footer = tw.split(path.read_bytes())
    place = chunk_of(footer, "x")[COLUMN_INDEX[0]].value
    length = chunk_of(footer, "x")[COLUMN_INDEX[1]].value
    whole = path.read_bytes()
    random = np.random.default_rng(3)
    raised = 0
    for at in range(place, place + length):
        data = bytearray(whole)
        data[at] ^= int(random.integers(1, 256))
        path.write_bytes(data)
        try:
            kept_rows(path, filter=number == 15)
        except fr.DataError as cause:
            raised += "column 'x', row group 0" in str(cause)
    assert raised > 5
