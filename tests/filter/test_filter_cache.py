"""The cache of a filter: what is believed, what is made anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.conditions import kept_rows
from support.each_of import each_of
from support.jobs import fields_of, parallel
from support.pages import damage


def files_of(cache: Path) -> list[Path]:
    """The files beside a manifest's in which is what filters select."""
    return sorted(cache.parent.glob(f"{cache.name}.filter-*"))


@pytest.mark.parametrize(
    "filter_",
    [fr.col("x").isin([3, 15]), pc.field("x") == 15],
    ids=["own", "pyarrow"],
)
def test_a_filter_is_resolved_once(tmp_path: Path, filter_: Any) -> None:
    """What is in the cache is believed while files, filter and rows are the same, and only then."""
    path, cache = tmp_path / "x.parquet", tmp_path / "kept"
    pq.write_table(pa.table({"x": range(30), "y": range(30)}), path, row_group_size=10)
    how = {"columns": "y", "cache": fr.Cache(manifest=cache)}
    found = kept_rows(path, filter=filter_, **how)
    assert found in ([3, 15], [15])
    [file] = files_of(cache)
    written = file.read_bytes()
    status = path.stat()
    for group in range(3):
        damage(path, group, "x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # as bytes that rot on a disk
    assert kept_rows(path, filter=filter_, **how) == found
    assert file.read_bytes() == written
    for other in ({"filter": fr.col("x") == 16}, {"filter": filter_, "rows": [[0, 17]]}):
        with pytest.raises(fr.DataError):
            kept_rows(path, **{**how, **other})
    (tmp_path / "y.parquet").write_bytes(path.read_bytes())
    with pytest.raises(fr.DataError):
        kept_rows(tmp_path, filter=filter_, **how)
    assert file.read_bytes() == written
    assert files_of(cache) == [file]


def test_each_filter_and_choice_of_rows_has_a_file_that_stays_one_while_files_come(tmp_path: Path) -> None:
    cache, rows = tmp_path / "kept", (fr.Split(0.0, 0.5), fr.Split(0.5, 1.0), None)
    for day in range(3):
        pq.write_table(pa.table({"x": range(30)}), tmp_path / f"{day}.parquet")
        for is_kept in (False, True):
            for limit in (3, 5):
                for chosen in rows:
                    dataset = fr.ParquetDataset(
                        tmp_path / "*.parquet",
                        batch_size=1,
                        rows=chosen,
                        filter=fr.col("x").isin(list(range(limit))),
                        cache=fr.Cache(manifest=cache),
                        world=(0, 1),
                    )
                    assert dataset.filter_report().is_cached is is_kept  # type: ignore[union-attr]
        assert len(files_of(cache)) == 6


@each_of(
    "change",
    [
        lambda _: b"",
        lambda _: b"fastresume filter 3\n",
        lambda _: b"fastresume filter 3\n[]\n",
        lambda _: b"fastresume filter 3\n" + b"[" * 100_000 + b"\n",
        lambda whole: whole[:-16],
        lambda whole: whole[:-8],
        lambda whole: whole + bytes(8) + bytes([1]) + bytes(7),
        lambda whole: whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:],
        lambda whole: whole.replace(b"filter 3", b"filter 2"),
    ],
)
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    path, cache = tmp_path / "x.parquet", tmp_path / "kept"
    pq.write_table(pa.table({"x": range(30)}), path)
    how = {"filter": fr.col("x").isin([3, 15]), "cache": fr.Cache(manifest=cache)}
    assert kept_rows(path, **how) == [3, 15]
    [file] = files_of(cache)
    whole = file.read_bytes()
    file.write_bytes(change(whole))
    assert file.read_bytes() != whole
    assert kept_rows(path, **how) == [3, 15]
    assert file.read_bytes() == whole
    assert sorted(child.name for child in tmp_path.iterdir()) == [file.name, "x.parquet"]


def test_a_pipe_is_no_cache_and_nobody_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(30)}), path)
    how = {"filter": fr.col("x") < 3, "cache": fr.Cache(manifest=tmp_path / "kept")}
    kept_rows(path, **how)
    [file] = files_of(tmp_path / "kept")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(ValueError, match=r"kept\.filter-\w+': it is not a regular file"):
        kept_rows(path, **how)


def test_what_a_killed_process_left_beside_a_cache_goes(tmp_path: Path) -> None:
    path, cache = tmp_path / "x.parquet", tmp_path / "kept"
    pq.write_table(pa.table({"x": range(30)}), path)
    how = {"filter": fr.col("x") < 3, "cache": fr.Cache(manifest=cache)}
    assert kept_rows(path, **how) == [0, 1, 2]
    [file] = files_of(cache)
    (tmp_path / f".{file.name}.tmp").write_bytes(b"half of it")
    assert kept_rows(path, **how) == [0, 1, 2]
    assert sorted(child.name for child in tmp_path.iterdir()) == [file.name, "x.parquet"]


def test_a_file_of_something_else_is_never_replaced_by_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(30)}), path)
    how = {"filter": fr.col("x").isin([3]), "cache": fr.Cache(manifest=tmp_path / "kept")}
    kept_rows(path, **how)
    [file] = files_of(tmp_path / "kept")
    file.write_bytes(path.read_bytes())
    with pytest.raises(ValueError, match=r"kept\.filter-\w+': it is a parquet file"):
        kept_rows(path, **how)
    assert file.read_bytes() == path.read_bytes()


@each_of("op", ["<", "<=", ">", ">=", "=", "!="])
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
    how = {"columns": "y", "filter": ~fr.col("x").isin([77]), "cache": fr.Cache(manifest=cache)}
    assert kept_rows(path, **how) == list(range(30))
    damage(path, 0, "x")
    dataset = fr.ParquetDataset(path, batch_size=5, **how, **parallel())
    assert dataset.selection is None
    assert fields_of(dataset.state_dict())["selection"] is None


def test_a_cache_that_can_not_be_written_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"x": range(30)}), path)
    cache = fr.Cache(manifest=tmp_path / "no" / "kept")
    with pytest.warns(
        UserWarning, match=r"can't write the filter's cache '.*kept\.filter-\w+': No such file"
    ):
        assert kept_rows(path, filter=fr.col("x") < 3, cache=cache) == [0, 1, 2]
