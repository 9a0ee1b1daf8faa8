"""Files as writers made them before they agreed, or make them beside the specification."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support import list_writer as lw
from support import thrift_writer as tw
from support.thrift_writer import OneColumn, binary, data_page, dictionary_page, i32, i64, listing

pytestmark = pytest.mark.law(11)

DAYS = [[2_440_588, 2_440_589], [], [2_450_000]]


def read(path: Any, **how: Any) -> fr.Batch:
    (batch,) = fr.ParquetDataset(path, batch_size=3, world=(0, 1), **how)
    return batch


def of_leaf(
    form: lw.Form, body: bytes, type_: int, levels: list[tuple[int, int]], rows: int
) -> lw.ListColumn:
    """A column of one page with these pairs of levels, and a leaf of this type."""
    largest = max(repetition for repetition, _ in levels)
    repetition = lw.sized(lw.runs([pair[0] for pair in levels], largest.bit_length()))
    definition = lw.sized(lw.runs([pair[1] for pair in levels], form.value.bit_length()))
    page = data_page(repetition + definition + body, len(levels))
    return lw.ListColumn([page], rows, type=type_, form=form, values=len(levels))


def test_lists_of_instants_of_96_bits_are_nanoseconds_since_1970(tmp_path: Path) -> None:
    form = lw.three_levels("list", "element", row=0, value=0)
    leaf = {**form.schema[2], tw.TYPE: i32(tw.INT96)}
    form = lw.Form(form.row, form.element, form.value, (*form.schema[:2], leaf))
    body = b"".join(struct.pack("<qi", 7, day) for row in DAYS for day in row)
    levels = [(0, 1), (1, 1), (0, 0), (0, 1)]
    path = of_leaf(form, body, tw.INT96, levels, 3).write(tmp_path / "x.parquet")
    day = 86_400 * 10**9
    expected = [[(number - 2_440_588) * day + 7 for number in row] for row in DAYS]
    batch = read(path)
    assert batch["x"].dtype.itemsize == 8
    assert batch["x"].to_list() == expected
    rows = fr.ParquetDataset(path, batch_size=1, world=(0, 1), shuffle=True, seed=3)
    assert sorted(next(iter([b["x"].to_list()[0]])) for b in rows) == sorted(expected)


def test_arrow_reads_the_same_lists_of_instants(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    whole = [[0, 10**9], None, [None, 5 * 10**15]]
    column = pa.array(whole, pa.list_(pa.timestamp("ns")))
    pq.write_table(pa.table({"x": column}), path, use_deprecated_int96_timestamps=True)
    batch = read(path, columns=fr.col("x").fill_null(-1))
    assert batch["x"].to_list() == [[0, 10**9], [], [-1, 5 * 10**15]]


def test_lists_of_lists_in_two_levels_have_the_name_of_their_column(tmp_path: Path) -> None:
    """`optional group x (LIST) { repeated group array (LIST) { repeated int64 array; } }`."""
    schema = (
        lw.group("x", 1, lw.LIST),
        lw.group("array", lw.REPEATED, lw.LIST),
        lw.element("array", lw.REPEATED),
    )
    form = lw.Form(1, 2, 3, schema)
    rows = [[[1, 2], [3]], [], [[], [4]]]
    levels = [(0, 3), (2, 3), (1, 3), (0, 1), (0, 2), (1, 3)]
    path = of_leaf(form, tw.int64s(4, 1), tw.INT64, levels, 3).write(tmp_path / "x.parquet")
    assert pq.read_table(path)["x"].to_pylist() == rows
    batch = read(path)
    assert list(batch) == ["x"]
    assert batch["x"].to_list() == rows


def test_chunks_may_leave_the_header_of_their_dictionary_out_of_their_size(tmp_path: Path) -> None:
    """As parquet-mr had it before 1.2.9 (PARQUET-816)."""
    dictionary = dictionary_page(tw.int64s(2, 50), 2)
    header = len(dictionary) - 16
    page = data_page(b"\x01\x03\x02", 3, encoding=tw.RLE_DICTIONARY)
    column = OneColumn([dictionary, page], 3)
    footer = column.footer()
    chunk = tw.chunk(footer, 0, 0)
    chunk[tw.COMPRESSED_BYTES] = i64(chunk[tw.COMPRESSED_BYTES].value - header)
    footer[6] = binary(b"parquet-mr version 1.2.8")
    path = column.write(tmp_path / "x.parquet", footer)
    assert read(path)["x"].tolist() == [50, 51, 50]
    footer[6] = binary(b"parquet-mr version 1.2.9")
    with pytest.raises(fr.DataError, match="column 'x'"):
        read(column.write(tmp_path / "y.parquet", footer))


@pytest.mark.parametrize("rows", [pa.array([], pa.string()), pa.array([], pa.null())], ids=["text", "null"])
def test_a_file_without_rows_has_no_say_in_what_columns_are(tmp_path: Path, rows: pa.Array) -> None:
    pq.write_table(pa.table({"other": rows, "x": rows}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "b.parquet")
    assert read(tmp_path)["x"].tolist() == [1, 2, 3]
    (batch,) = fr.ParquetDataset(tmp_path, batch_size=1, filter=fr.col("x") == 2)
    assert batch["x"].tolist() == [2]
    cache = tmp_path / "cache"
    for _ in range(2):
        assert read(tmp_path / "*.parquet", manifest_cache=cache)["x"].tolist() == [1, 2, 3]


def test_an_index_may_state_that_it_knows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(100)}), path, write_page_index=True, max_rows_per_page=10)
    before, footer = tw.split(path.read_bytes())
    chunk = tw.row_group(footer, 0)[tw.COLUMNS].value[1][0]
    index, _ = tw.decode(before[chunk[4].value :])
    for place in index[1].value[1]:
        place[3] = i64(-1)
    text = tw.encode({1: listing(tw.Wire.STRUCT, index[1].value[1])})
    chunk[4], chunk[5] = i64(len(before)), i32(len(text))
    path.write_bytes(tw.join(before + text, footer))
    (batch,) = fr.ParquetDataset(path, batch_size=1, filter=fr.col("x") == 55)
    assert batch["x"].tolist() == [55]


def test_text_that_is_not_utf_8_is_told_with_its_row_and_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    names = pa.Array.from_buffers(pa.string(), 3, pa.array([b"ok", b"caf\xe9", b"ok"], pa.binary()).buffers())
    pq.write_table(pa.table({"city": names, "lists": pa.array([["a"]] * 3)}), path)
    city = read(path)["city"]
    message = r"column 'city', row {} holds text that is not UTF-8: b'caf\\xe9'"
    for rows, place in ((city, 1), (city[1:], 0), (city.take(torch.tensor([0, 2, 1])), 2)):
        with pytest.raises(fr.DataError, match=message.format(place)):
            rows.to_strings()
    deep = fr.Jagged(city, torch.tensor([0, 1, 3]), name="tags")
    with pytest.raises(fr.DataError, match=r"column 'city', element 1 holds"):
        deep.to_strings()
    assert city.to_strings(errors="replace") == ["ok", "caf\ufffd", "ok"]
    assert read(path)["lists"].to_strings(errors="ignore") == [["a"]] * 3
    dataset = fr.ParquetDataset(path, batch_size=3, columns=fr.col("city").codes())
    with pytest.raises(fr.DataError, match=r"column 'city' holds text that is not UTF-8: b'caf\\xe9'"):
        _ = dataset.dictionaries
