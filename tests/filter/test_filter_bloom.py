"""What a filter need not read: row groups that bloom filters decide."""

from __future__ import annotations

import math
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
from support.pages import BLOOM_FILTER_OFFSET, chunk_of, damage_chunks, number


def write_hashed(path: Path, columns: dict[str, Any], **how: Any) -> Path:
    """Write columns with bloom filters, and without bounds."""
    table = pa.table(columns)
    schema = pa.schema([field.with_nullable(False) for field in table.schema])
    options = {name: {"ndv": 1000, "fpp": 0.0001} for name in columns if name != "y"}
    how = {"write_statistics": False, "bloom_filter_options": options, "row_group_size": 10, **how}
    pq.write_table(table.cast(schema), path, write_page_checksum=True, **how)
    return path


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


@each_of("kind", VALUES)
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
        assert kept_rows(path, columns="y", filter=number.isin([value, *absent])) == rows
        assert kept_rows(path, columns="y", filter=number != value) == others
        assert kept_rows(path, columns="y", filter=~number.isin([*absent, value])) == others
        with pytest.raises(fr.DataError, match="column 'x'"):
            kept_rows(path, columns="y", filter=number.isin(there[:2]))
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
    assert kept_rows(path, filter=~number.isin([2, 1])) == [2]


@pytest.mark.parametrize("type_", [pa.float32(), pa.float64()])
def test_a_value_is_sought_in_every_form_that_it_has(tmp_path: Path, type_: pa.DataType) -> None:
    """Either zero is both, and a float may be named by an integer that fits no integer column."""
    x = pa.array([-0.0, 2.0**70], type_)
    path = write_hashed(tmp_path / "x.parquet", {"x": x, "y": range(2)}, row_group_size=1)
    for zero in (0, 0.0, -0.0):
        assert kept_rows(path, filter=number == zero) == [0]
        assert kept_rows(path, filter=number != zero) == [1]
    assert kept_rows(path, filter=number == 2**70) == [1]
    assert kept_rows(path, filter=number.isin([2**70, 0.0])) == [0, 1]


def test_more_values_than_are_looked_up_are_compared_with_rows(tmp_path: Path) -> None:
    path = write_hashed(tmp_path / "x.parquet", {"x": list(range(0, 60, 2)), "y": range(30)})
    assert kept_rows(path, columns="y", filter=number.isin(range(1, 5000, 2))) == []
    assert kept_rows(path, columns="y", filter=number.isin([*range(1, 5000, 2), 40])) == [20]


def test_files_of_other_types_are_asked_in_their_own(tmp_path: Path) -> None:
    """Int32 and int64, uint8 and int8: one column of a type that holds both."""
    for part, type_ in enumerate((pa.int32(), pa.int64(), pa.uint32())):
        x = pa.array([part, 5, 2**31 - 1 - part], type_)
        write_hashed(tmp_path / f"{part}.parquet", {"x": x, "y": range(3)})
    assert kept_rows(tmp_path, filter=number == 2**31 - 2) == [5]
    assert kept_rows(tmp_path, filter=number == 5) == [1, 4, 7]
    assert kept_rows(tmp_path, filter=number.isin([0, 2**31 - 3, 2**40])) == [0, 8]


def edit_bloom(path: Path, edit: Callable[[Any], object]) -> None:
    """Change the header of the first bloom filter of `x`, and put it behind the data with its bits."""
    before, footer = tw.split(path.read_bytes())
    found = chunk_of(footer, "x")[tw.META_DATA].value
    start = found[BLOOM_FILTER_OFFSET].value
    header, length = tw.decode(before[start:])
    bits = before[start + length : start + length + header[1].value]
    edit(header)
    found[BLOOM_FILTER_OFFSET] = tw.i64(len(before))
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


@each_of("stated", [-32, 0, 31, 2**31 - 32])
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
        if offset < 0:  # it states no place
            assert kept_rows(path, filter=number == 2) == [1]
            continue
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
            assert kept_rows(path, filter=fr.col(name) == value) == [row]
    tw.edit_footer(path, lambda footer: [tw.chunk(footer, 0, n).pop(tw.STATISTICS) for n in range(3)])
    for name, absent in sought.items():
        damage_chunks(path, name, set())
        assert kept_rows(path, filter=fr.col(name).isin(absent)) == []
