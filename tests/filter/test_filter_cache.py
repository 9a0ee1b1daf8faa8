"""The cache of a filter: what is believed, what is made anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.conditions import kept_rows
from support.jobs import fields_of, parallel
from support.pages import damage


@pytest.mark.parametrize(
    "filter_",
    [fr.col("x").isin([3, 15]), pc.field("x") == 15],
    ids=["own", "pyarrow"],
)
def test_a_filter_is_resolved_once(tmp_path: Path, filter_: Any) -> None:
    """What is in the cache is believed while files, filter and rows are the same, and only then."""
    path, cache = tmp_path / "x.parquet", tmp_path / "kept"
    pq.write_table(pa.table({"x": range(30), "y": range(30)}), path, row_group_size=10)
    how = {"columns": "y", "filter_cache": cache}
    found = kept_rows(path, filter=filter_, **how)
    assert found in ([3, 15], [15])
    written = cache.read_bytes()
    for group in range(3):
        damage(path, group, "x")
    assert kept_rows(path, filter=filter_, **how) == found
    assert cache.read_bytes() == written
    for other in ({"filter": fr.col("x") == 16}, {"filter": filter_, "rows": [[0, 17]]}):
        with pytest.raises(fr.DataError):
            kept_rows(path, **{**how, **other})
    (tmp_path / "y.parquet").write_bytes(path.read_bytes())
    with pytest.raises(fr.DataError):
        kept_rows(tmp_path, filter=filter_, **how)
    assert cache.read_bytes() == written


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda _: b"fastresume filter 2\n",
        lambda _: b"fastresume filter 2\n[]\n",
        lambda _: b"fastresume filter 2\n" + b"[" * 100_000 + b"\n",
        lambda whole: whole[:-16],
        lambda whole: whole[:-8],
        lambda whole: whole + bytes(8) + bytes([1]) + bytes(7),
        lambda whole: whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:],
        lambda whole: whole.replace(b"filter 2", b"filter 1"),
    ],
)
def test_a_damaged_cache_is_made_anew(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path, cache = tmp_path / "x.parquet", tmp_path / "kept"
    pq.write_table(pa.table({"x": range(30)}), path)
    how = {"filter": fr.col("x").isin([3, 15]), "filter_cache": cache}
    assert kept_rows(path, **how) == [3, 15]
    whole = cache.read_bytes()
    cache.write_bytes(change(whole))
    assert cache.read_bytes() != whole
    assert kept_rows(path, **how) == [3, 15]
    assert cache.read_bytes() == whole
    assert sorted(child.name for child in tmp_path.iterdir()) == ["kept", "x.parquet"]


def test_a_file_of_something_else_is_never_replaced_by_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(30)}), path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"x\.parquet', which is no cache of a filter"):
        kept_rows(path, filter=fr.col("x") < 3, filter_cache=path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "=", "!="])
def test_zeros_at_the_end_of_a_value_count(tmp_path: Path, op: str) -> None:
    rows = [b"\x01\x00", b"\x01", b"\x02\x00", b"\x00", b"", b"\x00\x00"]
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"k": rows}), path, write_statistics=False)
    compare = {"<": bytes.__lt__, "<=": bytes.__le__, ">": bytes.__gt__, ">=": bytes.__ge__}
    compare |= {"=": bytes.__eq__, "!=": bytes.__ne__}
    for value in rows:
        expected = [row for row, found in enumerate(rows) if compare[op](found, value)]
        assert kept_rows(path, filter=[("k", op, value)]) == expected


def test_long_text_is_compared_part_by_part(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    value = "ab" * 500_000
    rows = [value, value[:-1] + "c", value, "ab"] * 5
    pq.write_table(pa.table({"k": rows}), path, write_statistics=False)
    assert kept_rows(path, filter=fr.col("k") == value) == [n for n in range(20) if n % 4 in (0, 2)]


def test_a_filter_that_keeps_all_rows_is_kept_too(tmp_path: Path) -> None:
    path, cache = tmp_path / "x.parquet", tmp_path / "kept"
    pq.write_table(pa.table({"x": range(30), "y": range(30)}), path)
    how = {"columns": "y", "filter": ~fr.col("x").isin([77]), "filter_cache": cache}
    assert kept_rows(path, **how) == list(range(30))
    damage(path, 0, "x")
    dataset = fr.ParquetDataset(path, batch_size=5, **how, **parallel())
    assert dataset.selection is None
    assert fields_of(dataset.state_dict())["selection"] is None


def test_a_cache_that_can_not_be_written_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(30)}), path)
    with pytest.warns(UserWarning, match="the filter's cache .* can't be written: No such file"):
        assert kept_rows(path, filter=fr.col("x") < 3, filter_cache=tmp_path / "no" / "kept") == [0, 1, 2]
