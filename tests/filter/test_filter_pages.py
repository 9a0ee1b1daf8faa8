"""What a filter need not read: pages and row groups that page indexes and bloom filters decide."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_filter import kept_rows

import fastresume as fr
from support import thrift_writer as tw
from support.jobs import parallel

# ColumnChunk
OFFSET_INDEX, COLUMN_INDEX = (4, 5), (6, 7)
# ColumnIndex
NULL_PAGES, LOWS, HIGHS, ORDER, NULL_COUNTS = 1, 2, 3, 4, 5
BLOOM_FILTER_OFFSET = 14
COLUMN_ORDERS, STATISTICS = 7, 12

number, text = fr.column("x"), fr.column("s")


def chunk_of(footer: Any, name: str, group: int = 0) -> Any:
    """The struct of a column chunk, by the column's name."""
    chunks = tw.row_group(footer, group)[tw.COLUMNS].value[1]
    (found,) = (chunk for chunk in chunks if chunk[tw.META_DATA].value[3].value[1] == [name.encode()])
    return found


def pages_of(path: Path, name: str, group: int = 0) -> list[tuple[int, int, int]]:
    """The offset, the size and the first row of each page of a column, as the index says."""
    before, footer = tw.split(path.read_bytes())
    chunk = chunk_of(footer, name, group)
    index, _ = tw.decode(before[chunk[OFFSET_INDEX[0]].value :])
    return [(place[1].value, place[2].value, place[3].value) for place in index[1].value[1]]


def damage_pages(path: Path, name: str, but: set[int], group: int = 0) -> int:
    """Change the last byte of each page of a column but for some, as checksums notice; give how many."""
    data, damaged = bytearray(path.read_bytes()), 0
    for number, (offset, size, _) in enumerate(pages_of(path, name, group)):
        if number not in but:
            data[offset + size - 1] ^= 1
            damaged += 1
    path.write_bytes(data)
    return damaged


def write(path: Path, rows: int = 100, page_rows: int = 10, **how: Any) -> Path:
    """Rows of ascending numbers, of text that ascends as well, and of what is read: pages of so many rows."""
    x = pa.array(range(rows), pa.int64())
    s = pa.array([f"{row:05}" for row in range(rows)])
    table = pa.table({"x": x, "s": s, "y": range(rows)})
    options = {"use_dictionary": False, "write_page_checksum": True, "write_page_index": True, **how}
    pq.write_table(table, path, max_rows_per_page=page_rows, write_batch_size=1, **options)
    return path


# ----------------------------------------------------------------------------------------------- page indexes

DECIDED = {
    "equal": (number == 55, {5}, set()),
    "between": ((number >= 20) & (number < 40), set(), set()),
    "between, within pages": ((number >= 25) & (number < 41), {2, 4}, set()),
    "in": (number.is_in([3, 77, 1000]), {0, 7}, set()),
    "not in": (~number.is_in([3, 77]), {0, 7}, set()),
    "text": (text < "00015", set(), {1}),
    "both": ((number >= 35) & (text <= "00062"), {3, 6}, {3, 6}),
    "either": ((number == 12) | (text == "00047"), {1, 4}, {1, 4}),
    "both, of which one decides": ((number == 12) & (text < "00010"), set(), set()),
}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("case", DECIDED)
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


def rewrite(path: Path, edit: Callable[[Any], object], name: str = "x") -> None:
    """Put an edited copy of a column's bounds of pages behind the data, and have the footer name it."""
    before, footer = tw.split(path.read_bytes())
    chunk = chunk_of(footer, name)
    index, _ = tw.decode(before[chunk[COLUMN_INDEX[0]].value :])
    edit(index)
    data = tw.encode(index)
    chunk[COLUMN_INDEX[0]] = tw.i64(len(before))
    chunk[COLUMN_INDEX[1]] = tw.i32(len(data))
    path.write_bytes(tw.join(before + data, footer))


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


@pytest.mark.parametrize(
    "edit", [without_null_counts, with_counts_that_are_none, turned_round, of_other_bytes]
)
def test_what_an_index_does_not_tell_for_certain_is_read(tmp_path: Path, edit: Any) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table({"x": pa.array([0, 2**64 - 1, None, 7], pa.uint64())})
    how = {"write_page_index": True, "max_rows_per_page": 2, "write_batch_size": 1}
    pq.write_table(table, path, use_dictionary=False, **how)
    rewrite(path, edit)
    tw.edit_footer(path, lambda footer: chunk_of(footer, "x")[tw.META_DATA].value.pop(STATISTICS))
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
    tw.edit_footer(path, lambda footer: footer.pop(COLUMN_ORDERS))
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
            assert kept_rows(path, filter=number.is_in([zero, math.nan])) == [4, 5, 6, 7]
        assert kept_rows(path, filter=[("x", "=", math.nan)]) == []
        assert kept_rows(path, filter=number == 0.1) == []


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


@pytest.mark.parametrize("place", [(-1, 9), (2**40, 9), (4, -3), (4, 2**31 - 1), (4, 0)])
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


# ---------------------------------------------------------------------------------------------- bloom filters


def write_hashed(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    """Write columns with bloom filters, and without bounds."""
    table = pa.table(columns)
    schema = pa.schema([field.with_nullable(False) for field in table.schema])
    options = {name: {"ndv": 1000, "fpp": 0.0001} for name in columns if name != "y"}
    how = {"write_statistics": False, "bloom_filter_options": options, "row_group_size": 10, **how}
    pq.write_table(table.cast(schema), path, write_page_checksum=True, **how)
    return path


def damage_chunks(path: Path, name: str, but: set[int]) -> None:
    """Overwrite the pages of a column in all row groups but for some."""
    data = bytearray(path.read_bytes())
    metadata = pq.read_metadata(path)
    for group in set(range(metadata.num_row_groups)) - but:
        chunks = [metadata.row_group(group).column(place) for place in range(metadata.num_columns)]
        (chunk,) = (chunk for chunk in chunks if chunk.path_in_schema == name)
        start, size = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size
        data[start : start + size] = b"\xff" * size
    path.write_bytes(data)


VALUES: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "int8": (pa.int8(), [-128, -1, 0, 5], [128, -129, 1.5, 77, 10**30]),
    "uint8": (pa.uint8(), [0, 255, 7], [-1, 256, 1]),
    "int16": (pa.int16(), [-32768, 3], [65536 + 3, 4]),
    "uint16": (pa.uint16(), [65535, 3], [-1, 4]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, 3], [2**32 + 3, 2.5, 4]),
    "uint32": (pa.uint32(), [2**32 - 1, 3], [-1, 4]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, 3], [2**64 + 3, -(2**63) - 1, 4, 2.0**64]),
    "uint64": (pa.uint64(), [2**64 - 1, 3], [-1, 2**64, 2.0**64]),
    "float32": (pa.float32(), [0.5, -1.0, 2.0**30, math.inf], [0.1, 2**24 + 1, 1e300, -math.inf, 10**400]),
    "float64": (pa.float64(), [0.1, -1.0, 2.0**70, -math.inf], [0.2, 2**53 + 1, 10**400, math.inf]),
    "string": (pa.string(), ["", "a", "é\x00"], ["b", "a\x00"]),
    "binary": (pa.binary(), [b"", b"\xff\x00"], [b"\xff", b"a"]),
    "timestamp": (pa.timestamp("us"), [0, 10**15], [1, 0.5]),
    "date": (pa.date32(), [0, -1], [1, 2**40]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_row_groups_without_a_value_are_told_by_their_bloom_filter(tmp_path: Path, kind: str) -> None:
    """Each of the values stands in a row group of its own; the others, in none, need no page at all."""
    type_, there, absent = VALUES[kind]
    x = pa.chunked_array([pa.array([value] * 10, type_) for value in there])
    path = write_hashed(tmp_path / "x.parquet", {"x": x, "y": range(10 * len(there))})
    whole = path.read_bytes()
    for group, value in enumerate(there):
        rows = list(range(10 * group, 10 * group + 10))
        others = [row for row in range(10 * len(there)) if row not in rows]
        path.write_bytes(whole)
        damage_chunks(path, "x", {group})
        assert kept_rows(path, columns="y", filter=number == value) == rows
        assert kept_rows(path, columns="y", filter=number.is_in([value, *absent])) == rows
        assert kept_rows(path, columns="y", filter=number != value) == others
        assert kept_rows(path, columns="y", filter=~number.is_in([*absent, value])) == others
        with pytest.raises(fr.DataError, match="column 'x'"):
            kept_rows(path, columns="y", filter=number.is_in(there[:2]))
    damage_chunks(path, "x", set())
    for value in absent:
        assert kept_rows(path, columns="y", filter=number == value) == []


def test_a_bloom_filter_says_nothing_of_other_comparisons_nor_of_nulls(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    options = {"x": {"ndv": 100, "fpp": 0.001}}
    table = pa.table({"x": [1, None, 3], "b": [True, None, False]})
    pq.write_table(table, path, write_statistics=False, bloom_filter_options=options)
    assert kept_rows(path, filter=number < 3) == [0]
    assert kept_rows(path, filter=number == 2) == []
    assert kept_rows(path, filter=number != 2) == [0, 2]
    assert kept_rows(path, filter=~(number == 2)) == [0, 2]
    assert kept_rows(path, filter=(number == 2) | number.is_null()) == [1]
    assert kept_rows(path, filter=~number.is_in([2, 1])) == [2]


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_a_value_is_sought_in_every_form_that_it_has(tmp_path: Path, type_: pa.DataType) -> None:
    """Either zero is both, and a float may be named by an integer that fits no integer column."""
    x = pa.array([-0.0, 2.0**70], type_)
    path = write_hashed(tmp_path / "x.parquet", {"x": x, "y": range(2)}, row_group_size=1)
    for zero in (0, 0.0, -0.0):
        assert kept_rows(path, filter=number == zero) == [0]
        assert kept_rows(path, filter=number != zero) == [1]
    assert kept_rows(path, filter=number == 2**70) == [1]
    assert kept_rows(path, filter=number.is_in([2**70, 0.0])) == [0, 1]


def test_more_values_than_are_looked_up_are_compared_with_rows(tmp_path: Path) -> None:
    path = write_hashed(tmp_path / "x.parquet", {"x": list(range(0, 60, 2)), "y": range(30)})
    assert kept_rows(path, columns="y", filter=number.is_in(range(1, 5000, 2))) == []
    assert kept_rows(path, columns="y", filter=number.is_in([*range(1, 5000, 2), 40])) == [20]


def test_files_of_other_types_are_asked_in_their_own(tmp_path: Path) -> None:
    """Int32 and int64, uint8 and int8: one column of a type that holds both."""
    for part, type_ in enumerate((pa.int32(), pa.int64(), pa.uint32())):
        x = pa.array([part, 5, 2**31 - 1 - part], type_)
        write_hashed(tmp_path / f"{part}.parquet", {"x": x, "y": range(3)})
    assert kept_rows(tmp_path, filter=number == 2**31 - 2) == [5]
    assert kept_rows(tmp_path, filter=number == 5) == [1, 4, 7]
    assert kept_rows(tmp_path, filter=number.is_in([0, 2**31 - 3, 2**40])) == [0, 8]


def edit_bloom(path: Path, edit: Callable[[Any], object]) -> None:
    """Change the header of the first bloom filter of `x`, and put it behind the data with its bits."""
    before, footer = tw.split(path.read_bytes())
    told = chunk_of(footer, "x")[tw.META_DATA].value
    start = told[BLOOM_FILTER_OFFSET].value
    header, length = tw.decode(before[start:])
    bits = before[start + length : start + length + header[1].value]
    edit(header)
    told[BLOOM_FILTER_OFFSET] = tw.i64(len(before))
    path.write_bytes(tw.join(before + tw.encode(header) + bits, footer))


def of_other_kind(field: int) -> Callable[[Any], object]:
    """A filter of an algorithm, a hash or a compression of the future."""

    def edit(header: Any) -> None:
        header[field] = tw.structure({2: tw.structure({})})

    return edit


@pytest.mark.parametrize("field", [2, 3, 4])
def test_bloom_filters_of_another_kind_are_passed_over(tmp_path: Path, field: int) -> None:
    path = write_hashed(tmp_path / "x.parquet", {"x": [1, 2, 3], "y": range(3)})
    edit_bloom(path, of_other_kind(field))
    assert kept_rows(path, filter=number == 2) == [1]
    damage_chunks(path, "x", set())
    with pytest.raises(fr.DataError):
        kept_rows(path, columns="y", filter=number == 4)


@pytest.mark.parametrize("stated", [-32, 0, 31, 2**31 - 32])
def test_a_damaged_bloom_filter_is_an_error_that_names_it(tmp_path: Path, stated: int) -> None:
    path = write_hashed(tmp_path / "x.parquet", {"x": [1, 2, 3], "y": range(3)})

    def edit(header: Any) -> None:
        header[1] = tw.i32(stated)

    edit_bloom(path, edit)
    with pytest.raises(fr.DataError, match=f"a bloom filter claims {stated} bytes") as caught:
        kept_rows(path, columns="y", filter=number == 2)
    assert "(column 'x', row group 0, file " in str(caught.value)
    for offset in (-5, 2**50):
        tw.edit_footer(
            path,
            lambda footer, offset=offset: chunk_of(footer, "x")[tw.META_DATA].value.update(
                {BLOOM_FILTER_OFFSET: tw.i64(offset)}
            ),
        )
        with pytest.raises(fr.DataError, match="column 'x', row group 0"):
            kept_rows(path, columns="y", filter=number == 2)


def test_bloom_filters_of_another_writer_are_understood(tmp_path: Path) -> None:
    """DuckDB's, made by `make_bloom.py` beside it. What is there is found, what is not needs no page."""
    path = tmp_path / "x.parquet"
    path.write_bytes((Path(__file__).parents[1] / "golden/bloom_duckdb.parquet").read_bytes())
    table = pq.read_table(path)
    sought = {"x": [1, 500, 10**6], "s": ["word 400", "word", "word 12 "], "f": [0.3, 7.0625, 3.1]}
    for name in sought:
        values = table.column(name).to_pylist()
        for row, value in list(enumerate(values))[::37]:
            assert kept_rows(path, filter=fr.column(name) == value) == [row]
    tw.edit_footer(path, lambda footer: [tw.chunk(footer, 0, n).pop(STATISTICS) for n in range(3)])
    for name, absent in sought.items():
        damage_chunks(path, name, set())
        assert kept_rows(path, filter=fr.column(name).is_in(absent)) == []
