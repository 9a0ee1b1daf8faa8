"""What a file states of its values is believed as far as nothing contradicts it; a report tells it."""

from __future__ import annotations

import struct
from collections.abc import Callable
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
from support.pages import BLOOM_FILTER_OFFSET, OFFSET_INDEX, chunk_of, number, rewrite
from support.thrift_writer import MAX, MIN, NULL_COUNT, statistics_of

BLOOM_FILTER_LENGTH = 15
CREATED_BY = 6
EVEN = list(range(0, 200, 2))


def written_by(path: Path, program: str) -> None:
    """Have a file say that another program wrote it."""
    tw.edit_footer(path, lambda footer: footer.update({CREATED_BY: tw.binary(program.encode())}))


# ---------------------------------------------------------------------------------------------- bloom filters


def write_hashed(path: Path, values: Any = EVEN, **how: Any) -> None:
    """A column `x` with a bloom filter, and one of all rows."""
    bloom = {"x": {"ndv": 1000, "fpp": 0.01}}
    how = {"bloom_filter_options": bloom, "use_dictionary": False, **how}
    pq.write_table(pa.table({"x": values, "y": range(len(values))}), path, **how)


def shorten(path: Path) -> None:
    """Have the header of the bloom filter state half of its bytes."""
    data = bytearray(path.read_bytes())
    metadata = chunk_of(tw.split(bytes(data))[1], "x")[tw.META_DATA].value
    start = metadata[BLOOM_FILTER_OFFSET].value
    header, length = tw.decode(bytes(data[start:]))
    header[1] = tw.i32(header[1].value // 2)
    for choice in (2, 3, 4):  # unions of empty structs
        header[choice] = tw.structure({1: tw.structure({})})
    changed = tw.encode(header)
    assert len(changed) == length
    data[start : start + length] = changed
    path.write_bytes(data)


@each_of("has_bounds", [True, False])
@each_of("has_length", [True, False])
def test_a_bloom_filter_of_another_length_is_not_believed(
    tmp_path: Path, has_bounds: bool, has_length: bool
) -> None:
    path = tmp_path / "x.parquet"
    write_hashed(path, write_statistics=has_bounds)
    asked = number.isin([4, 44, 144, 45, 47])
    assert kept_rows(path, filter=asked) == [2, 22, 72]
    shorten(path)
    if not has_length:
        tw.edit_footer(
            path, lambda footer: chunk_of(footer, "x")[tw.META_DATA].value.pop(BLOOM_FILTER_LENGTH)
        )
    if has_length or has_bounds:
        assert kept_rows(path, filter=asked) == [2, 22, 72]


def test_a_bloom_filter_that_lacks_the_bounds_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_hashed(path)
    data = path.read_bytes()
    metadata = chunk_of(tw.split(data)[1], "x")[tw.META_DATA].value
    start = metadata[BLOOM_FILTER_OFFSET].value
    length = metadata[BLOOM_FILTER_LENGTH].value
    _, header = tw.decode(data[start:])
    path.write_bytes(data[: start + header] + bytes(length - header) + data[start + length :])
    assert kept_rows(path, filter=number == 44) == [22]


# -------------------------------------------------------------------------------------------------- nulls


@pytest.mark.parametrize(
    "program",
    [
        "parquet-cpp-arrow version 4.0.1",
        "parquet-cpp-arrow version 6.0.1",
        "parquet-cpp version 1.5.1-SNAPSHOT",
    ],
)
def test_a_null_count_of_0_by_old_arrow_is_none(tmp_path: Path, program: str) -> None:
    """It did not count the nulls of what it was given as a dictionary (ARROW-12513)."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": ["a", None, "b", None], "y": range(4)}), path)

    def edit(footer: Any) -> None:
        statistics_of(footer, 0)[NULL_COUNT] = tw.i64(0)

    tw.edit_footer(path, edit)
    assert kept_rows(path, filter=number.is_null()) == [], "another writer is believed"
    written_by(path, program)
    assert kept_rows(path, filter=number.is_null()) == [1, 3]
    assert kept_rows(path, filter=number.is_valid()) == [0, 2]
    assert kept_rows(path, filter=number < "c") == [0, 2]


def test_nulls_that_can_not_be_are_counted(tmp_path: Path) -> None:
    """As many nulls as values, beside bounds; and more than there are."""
    for nulls in (4, 5, 2**40):
        path = tmp_path / "x.parquet"
        pq.write_table(pa.table({"x": [1, None, 2, None], "y": range(4)}), path)

        def edit(footer: Any, nulls: int = nulls) -> None:
            statistics_of(footer, 0)[NULL_COUNT] = tw.i64(nulls)

        tw.edit_footer(path, edit)
        assert kept_rows(path, filter=number.is_null()) == [1, 3]
        assert kept_rows(path, filter=number == 2) == [2]


# ------------------------------------------------------------------------------------------------- bounds


@pytest.mark.parametrize("program", ["parquet-mr version 1.9.0 (build 1)", "parquet-cpp version 1.2.0"])
def test_bounds_of_text_by_writers_that_compared_signed_bytes_are_none(tmp_path: Path, program: str) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": ["a", "é", "z"], "y": range(3)}), path)

    def edit(footer: Any) -> None:
        found = statistics_of(footer, 0)
        found[MIN] = found[MAX] = tw.binary(b"a")

    tw.edit_footer(path, edit)
    assert kept_rows(path, filter=number > "b") == [], "another writer is believed"
    written_by(path, program)
    assert kept_rows(path, filter=number > "b") == [1, 2]


# ------------------------------------------------------------------------------------------- page indexes


def write_indexed(path: Path) -> None:
    """Ten pages of ten ascending numbers, of which the last one of each page is null."""
    x = [None if row % 10 == 9 else row for row in range(100)]
    table = pa.table({"x": pa.array(x, pa.int64()), "y": range(100)})
    how = {"write_page_index": True, "max_rows_per_page": 10, "write_batch_size": 1, "use_dictionary": False}
    pq.write_table(table, path, **how)


def with_other_nulls(index: Any) -> None:
    index[5] = tw.listing(tw.Wire.I64, [0] * 10)


def with_bounds_elsewhere(index: Any) -> None:
    for field in (2, 3):
        index[field] = tw.listing(tw.Wire.BINARY, [struct.pack("<q", 1000 + page) for page in range(10)])


@pytest.mark.parametrize("edit", [with_other_nulls, with_bounds_elsewhere])
def test_an_index_that_contradicts_its_row_group_is_not_believed(
    tmp_path: Path, edit: Callable[[Any], object]
) -> None:
    path = tmp_path / "x.parquet"
    write_indexed(path)
    rewrite(path, edit)
    assert kept_rows(path, filter=number.is_null()) == list(range(9, 100, 10))
    assert kept_rows(path, filter=number == 55) == [55]
    assert kept_rows(path, filter=(number > 93) | number.is_null()) == [*range(9, 90, 10), *range(94, 100)]


@pytest.mark.parametrize("shift", [1, 7, -5])
def test_an_index_of_other_rows_than_the_headers_of_pages_is_not_believed(tmp_path: Path, shift: int) -> None:
    path = tmp_path / "x.parquet"
    write_indexed(path)
    before, footer = tw.split(path.read_bytes())
    chunk = chunk_of(footer, "x")
    index, _ = tw.decode(before[chunk[OFFSET_INDEX[0]].value :])
    for place in index[1].value[1][3:8]:
        place[3] = tw.i64(place[3].value + shift)
    data = tw.encode(index)
    chunk[OFFSET_INDEX[0]], chunk[OFFSET_INDEX[1]] = tw.i64(len(before)), tw.i32(len(data))
    path.write_bytes(tw.join(before + data, footer))
    for row in range(100):
        if row % 10 != 9:
            assert kept_rows(path, filter=number == row) == [row]
    assert kept_rows(path, filter=number.is_null()) == list(range(9, 100, 10))
    assert fr.ParquetDataset(
        path, batch_size=1, filter=number == 55, **parallel()
    ).filter_report() == fr.FilterReport(rows=100, kept=1, scanned=100, left_out_by_scan=99)


# --------------------------------------------------------------------------------------------- the report


def report(path: Path, **how: Any) -> fr.FilterReport:
    found = fr.ParquetDataset(path, batch_size=1, **how, **parallel()).filter_report()
    assert found is not None
    return found


def test_a_report_tells_by_what_rows_were_left_out(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"day={day}").mkdir()
        write_indexed(tmp_path / f"day={day}" / "x.parquet")
    day = fr.col("day")
    asked = {"filter": (day == 1) & (number >= 53), "columns": ["*", day.from_path()]}
    expected = fr.FilterReport(
        rows=200, kept=42, scanned=50, left_out_by_paths=100, left_out_by_page_indexes=50, left_out_by_scan=8
    )
    assert report(tmp_path, **asked) == expected
    few = report(
        tmp_path, filter=(day == 1) & (number == 1000) | (number == 2), columns=["*", day.from_path()]
    )
    assert (few.kept, few.left_out_by_page_indexes, few.scanned, few.left_out_by_scan) == (2, 180, 20, 18)
    none = fr.ParquetDataset(tmp_path, batch_size=1, nulls="mask", **parallel())
    assert none.filter_report() is None
    some = report(tmp_path, filter=number >= 53, rows=[[0, 60]])
    assert (some.rows, some.kept, some.left_out_by_page_indexes) == (60, 6, 50)


def test_a_report_tells_of_statistics_bloom_filters_and_caches(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_hashed(path, row_group_size=50)
    cache = tmp_path / "kept.rows"
    asked = {"filter": number.isin([44, 151]), "cache": fr.Cache(manifest=cache)}
    expected = fr.FilterReport(
        rows=100, kept=1, scanned=50, left_out_by_bloom_filters=50, left_out_by_scan=49
    )
    assert report(path, **asked) == expected
    assert report(path, **asked) == fr.FilterReport(rows=100, kept=1, left_out_by_cache=99, is_cached=True)
    whole = report(path, filter=number >= 100)
    assert whole == fr.FilterReport(rows=100, kept=50, left_out_by_statistics=50)


def test_a_report_of_an_expression_of_pyarrow_says_that_all_was_asked_of_it(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_hashed(path)
    import pyarrow.compute as pc

    found = report(path, filter=pc.field("x") > 100)
    assert found == fr.FilterReport(rows=100, kept=49, scanned=100, left_out_by_scan=51)
