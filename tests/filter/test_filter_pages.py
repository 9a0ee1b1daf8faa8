"""What a filter need not read: pages that page indexes decide."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support import thrift_writer as tw
from support.conditions import kept_rows
from support.each_of import each_of
from support.jobs import parallel
from support.pages import (
    HIGHS,
    LOWS,
    NULL_COUNTS,
    chunk_of,
    damage_pages,
    number,
    pages_of,
    rewrite,
    text,
    write,
)

DECIDED = {
    "equal": (number == 55, {5}, set()),
    "between": ((number >= 20) & (number < 40), set(), set()),
    "between, within pages": ((number >= 25) & (number < 41), {2, 4}, set()),
    "in": (number.isin([3, 77, 1000]), {0, 7}, set()),
    "not in": (~number.isin([3, 77]), {0, 7}, set()),
    "text": (text < "00015", set(), {1}),
    "both": ((number >= 35) & (text <= "00062"), {3, 6}, {3, 6}),
    "either": ((number == 12) | (text == "00047"), {1, 4}, {1, 4}),
    "both, of which one decides": ((number == 12) & (text < "00010"), set(), set()),
}


@each_of("version", ["1.0", "2.0"])
@each_of("case", DECIDED)
def test_only_pages_that_are_not_decided_are_read(tmp_path: Path, case: str, version: str) -> None:
    """Every other page of the filter's columns is damaged; and what is left is needed."""
    filter_, of_x, of_s = DECIDED[case]
    path = write(tmp_path / "x.parquet", data_page_version=version)
    whole = path.read_bytes()
    expected = kept_rows(path, filter=filter_)
    assert damage_pages(path, "x", of_x) + damage_pages(path, "s", of_s) == 20 - len(of_x) - len(of_s)
    dataset = (
        fr.ParquetDataset(path, batch_size=1, columns="y", filter=filter_, **parallel()) if expected else []
    )
    assert [row for batch in dataset for row in batch["y"].tolist()] == expected
    assert kept_rows(path, columns="y", filter=filter_) == expected
    for page in of_x:
        path.write_bytes(whole)
        damage_pages(path, "x", set(range(10)) - {page})
        with pytest.raises(fr.DataError, match=r"checksum.*column 'x', row group 0"):
            kept_rows(path, columns="y", filter=filter_)


def test_pages_whose_boundaries_differ_are_decided_stretch_by_stretch(tmp_path: Path) -> None:
    """Of wide text there are more pages than of numbers."""
    path = tmp_path / "x.parquet"
    rows = 1000
    table = {"x": range(rows), "s": [f"{row:050}" for row in range(rows)], "y": range(rows)}
    how = {"write_batch_size": 1, "data_page_size": 500, "use_dictionary": False, "write_page_checksum": True}
    pq.write_table(pa.table(table), path, write_page_index=True, compression="none", **how)
    of_x, of_s = pages_of(path, "x"), pages_of(path, "s")
    assert len(of_s) > 2 * len(of_x) > 4
    filter_ = (number >= 100) & (text < f"{300:050}") & (number != 200)
    expected = [row for row in range(100, 300) if row != 200]

    def page(pages: list[tuple[int, int, int]], row: int) -> int:
        return sum(first <= row for _, _, first in pages) - 1

    needed = {page(of_x, row) for row in (100, 200, 299)} | {page(of_x, 300)}
    damage_pages(path, "x", needed)
    # Those in which the number is not decided, and where the text itself is not.
    open_rows = {row for row in range(rows) if page(of_x, row) in needed}
    damage_pages(path, "s", {page(of_s, row) for row in open_rows} | {page(of_s, 299), page(of_s, 300)})
    assert kept_rows(path, columns="y", filter=filter_) == expected


def test_pages_of_nulls_are_decided(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    x = [None] * 10 + [1] * 10 + [None, 2] * 5
    how = {"use_dictionary": False, "write_page_checksum": True, "write_page_index": True}
    table = pa.table({"x": pa.array(x, pa.int64()), "y": range(30)})
    pq.write_table(table, path, max_rows_per_page=10, write_batch_size=1, **how)
    damage_pages(path, "x", {2})
    odd, even = list(range(21, 30, 2)), list(range(20, 30, 2))
    assert kept_rows(path, columns="y", filter=number.is_null()) == [*range(10), *even]
    assert kept_rows(path, columns="y", filter=number.is_valid()) == [*range(10, 20), *odd]
    assert kept_rows(path, columns="y", filter=number == 1) == [*range(10, 20)]
    assert kept_rows(path, columns="y", filter=~(number == 1)) == odd
    assert kept_rows(path, columns="y", filter=(number == 1) | number.is_null()) == [*range(20), *even]


def test_rows_that_are_not_selected_are_not_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path / "x.parquet", row_group_size=50)
    damage_pages(path, "x", set())
    damage_pages(path, "x", {1}, group=1)
    some = [[55, 56], [61, 67], [80, 90]]
    assert kept_rows(path, columns="y", filter=number != 65, rows=some) == [
        55,
        61,
        62,
        63,
        64,
        66,
        *range(80, 90),
    ]


def plain(value: float, form: str = "<q") -> bytes:
    return struct.pack(form, value)


def test_bounds_that_are_cut_short_are_bounds(tmp_path: Path) -> None:
    """`ab` is below all that begins with it, and `ac` above."""
    path = tmp_path / "x.parquet"
    words = ["abc", "abd", "abe", "b"]
    table = pa.table({"x": words, "y": range(4)})
    how = {"use_dictionary": False, "write_page_checksum": True, "write_page_index": True}
    pq.write_table(table, path, max_rows_per_page=2, write_batch_size=1, **how)

    def cut(index: Any) -> None:
        index[LOWS] = tw.listing(tw.Wire.BINARY, [b"ab", b"ab"])
        index[HIGHS] = tw.listing(tw.Wire.BINARY, [b"ac", b"c"])

    rewrite(path, cut)
    assert kept_rows(path, filter=number == "abd") == [1]
    assert kept_rows(path, filter=number > "abc") == [1, 2, 3]
    assert kept_rows(path, filter=number <= "abd") == [0, 1]
    assert kept_rows(path, filter=number != "ac") == [0, 1, 2, 3]
    damage_pages(path, "x", {1})
    assert kept_rows(path, columns="y", filter=number >= "ad") == [3]
    with pytest.raises(fr.DataError, match="checksum"):
        kept_rows(path, columns="y", filter=number == "abc")


def without_null_counts(index: Any) -> None:
    del index[NULL_COUNTS]


def with_counts_that_are_none(index: Any) -> None:
    index[NULL_COUNTS] = tw.listing(tw.Wire.I64, [-1, -1])


def turned_round(index: Any) -> None:
    index[LOWS], index[HIGHS] = index[HIGHS], index[LOWS]


def of_other_bytes(index: Any) -> None:
    index[LOWS] = index[HIGHS] = tw.listing(tw.Wire.BINARY, [b"\x01" * 7, b""])


@each_of("edit", [without_null_counts, with_counts_that_are_none, turned_round, of_other_bytes])
def test_what_an_index_does_not_tell_for_certain_is_read(tmp_path: Path, edit: Any) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"x": pa.array([0, 2**64 - 1, None, 7], pa.uint64())})
    how = {"write_page_index": True, "max_rows_per_page": 2, "write_batch_size": 1}
    pq.write_table(table, path, use_dictionary=False, **how)
    rewrite(path, edit)
    tw.edit_footer(path, lambda footer: chunk_of(footer, "x")[tw.META_DATA].value.pop(tw.STATISTICS))
    assert kept_rows(path, filter=number > 7) == [1]
    assert kept_rows(path, filter=number <= 7) == [0, 3]
    assert kept_rows(path, filter=number == 7) == [3]
    assert kept_rows(path, filter=number.is_null()) == [2]
    assert kept_rows(path, filter=number.is_valid()) == [0, 1, 3]


def test_without_an_order_bounds_of_pages_mean_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    how = {"write_page_index": True, "max_rows_per_page": 2, "write_batch_size": 1, "use_dictionary": False}
    pq.write_table(pa.table({"x": ["a", "é", "z", None]}), path, **how)

    def lie(index: Any) -> None:
        index[LOWS] = index[HIGHS] = tw.listing(tw.Wire.BINARY, [b"a", b"a"])

    rewrite(path, lie)
    assert kept_rows(path, filter=number > "b") == []
    tw.edit_footer(path, lambda footer: footer.pop(tw.COLUMN_ORDERS))
    assert kept_rows(path, filter=number > "b") == [1, 2]
    assert kept_rows(path, filter=number == "a") == [0]


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_a_nan_is_in_no_bounds_of_a_page_and_zeros_are_one(tmp_path: Path, type_: pa.DataType) -> None:
    path = tmp_path / "x.parquet"
    values = [1.0, math.nan, 1.0, 1.0, -0.0, 0.0, -0.0, -0.0, math.nan, math.nan]
    how = {"write_page_index": True, "max_rows_per_page": 2, "write_batch_size": 1, "use_dictionary": False}
    bloom = {"bloom_filter_options": {"x": {"ndv": 100, "fpp": 0.001}}}
    for more in ({}, bloom, {**bloom, "write_statistics": False}):
        pq.write_table(pa.table({"x": pa.array(values, type_)}), path, **{**how, **more})
        assert kept_rows(path, filter=number == 1) == [0, 2, 3]
        assert kept_rows(path, filter=number != 1) == [1, *range(4, 10)]
        assert kept_rows(path, filter=~(number <= 1)) == [1, 8, 9]
        for zero in (0, 0.0, -0.0):
            assert kept_rows(path, filter=number == zero) == [4, 5, 6, 7]
            assert kept_rows(path, filter=number < zero) == []
            assert kept_rows(path, filter=number.isin([zero, math.nan])) == [4, 5, 6, 7]
        assert kept_rows(path, filter=[("x", "=", math.nan)]) == []
        assert kept_rows(path, filter=number == 0.1) == []
