"""Under `bad_rows="mask"` a filter leaves out the rows that it can't read, counts and tells them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import fastresume as fr
from support.rotten_pages import FILE_ROWS, Page, pages_of, rot, write_file

MASK: dict[str, Any] = {"bad_rows": fr.MaskBadRows(at_most=1.0)}
MOST: dict[str, list[Any]] = {
    "x": [row + 1 for row in range(FILE_ROWS) if row % 10 != 5],
    "text": [f"text {row}" for row in range(FILE_ROWS) if row % 10 != 5],
    "code": [1, 2, 4, 5, 6, 7],
}
"""Most values of each page: no bounds tell which rows have them, so that each page is read."""


def kept(path: Path, **how: Any) -> set[int]:
    """The numbers of the rows that are selected."""
    dataset = fr.ParquetDataset(path, batch_size=8, world=(0, 1), **how)
    if dataset.selection is None:
        return set(range(dataset.num_rows))
    return {row for start, end in dataset.selection.tolist() for row in range(start, end)}


def page_of(path: Path, column: str, number: int) -> Page:
    """A data page of a column, that is not the one of a dictionary."""
    pages = [page for page in pages_of(path, "1.0", has_index=True) if page.column == column]
    return [page for page in pages if len(page.rows) == 10][number]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_file(tmp_path / "data.parquet", "1.0", has_index=True)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        ("x", fr.col("x") != 33),
        ("text", fr.col("text") != "text 7"),
        ("code", fr.col("code") != 3),
        ("code", (fr.col("code") == 3) | (fr.col("x") < 50)),
        ("x", ~(fr.col("x") == 3)),
    ],
    ids=str,
)
@pytest.mark.parametrize("number", [0, 3, 7])
def test_rows_that_a_filter_can_not_read_are_left_out(
    path: Path, column: str, wanted: Any, number: int
) -> None:
    both = wanted & fr.col(column).isin(MOST[column])
    whole, page = kept(path, filter=both), page_of(path, column, number)
    rot(path, page)
    with pytest.raises(fr.DataError, match=f"checksum.*column '{column}', row group"):
        kept(path, filter=both)
    assert kept(path, filter=both, **MASK) == whole - set(page.rows)


def test_they_are_counted_and_each_range_is_logged_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    page = page_of(path, "x", 3)
    rot(path, page)
    with caplog.at_level(logging.WARNING, logger="fastresume"):
        dataset = fr.ParquetDataset(path, batch_size=8, world=(0, 1), filter=fr.col("x") != 33, **MASK)
    report = dataset.filter_report()
    assert report is not None
    assert (report.left_out_by_damage, report.rows, report.kept) == (10, FILE_ROWS, FILE_ROWS - 10)
    assert report.left_out_by_scan == 0
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"left out of what the filter keeps: rows [{page.rows.start}, {page.rows.stop}): ")
    assert "column 'x', row group 0" in said
    assert all(batch.valid.all() for batch in dataset), "no row is both left out and masked"


def test_more_of_them_than_the_bound_are_an_error(path: Path) -> None:
    rot(path, page_of(path, "x", 3))
    wanted = fr.col("x") != 33
    kept(path, filter=wanted, bad_rows=fr.MaskBadRows(at_most=10))
    with pytest.raises(fr.DataError, match=r"bad_rows= allows 9 rows.* there are 10 by now: .*column 'x'"):
        kept(path, filter=wanted, bad_rows=fr.MaskBadRows(at_most=9))
    with pytest.raises(fr.DataError, match="bad_rows= allows 0 rows"):
        kept(path, filter=wanted, bad_rows="mask")


def test_what_damage_leaves_out_is_not_cached(path: Path, tmp_path: Path) -> None:
    wanted, cache = fr.col("x") != 33, tmp_path / "cache"
    mended = path.read_bytes()
    rot(path, page_of(path, "x", 3))
    assert len(kept(path, filter=wanted, cache=fr.Cache(manifest=cache), **MASK)) == FILE_ROWS - 10
    assert not list(tmp_path.glob("cache.filter-*"))
    path.write_bytes(mended)
    assert len(kept(path, filter=wanted, cache=fr.Cache(manifest=cache), **MASK)) == FILE_ROWS - 1


def test_a_file_that_went_is_left_out_whole(path: Path, tmp_path: Path) -> None:
    """It was there when the footers were read, and is cut off when the filter reads it."""
    other = write_file(tmp_path / "other.parquet", "1.0", has_index=True, first=FILE_ROWS)
    content = other.read_bytes()
    other.write_bytes(b"\0" * (len(content) // 2) + content[len(content) // 2 :])
    wanted = fr.col("x").isin(MOST["x"]) | fr.col("x").isin([row + FILE_ROWS for row in MOST["x"]])
    found = kept(tmp_path, filter=wanted, **MASK)
    assert {row for row in found if row < FILE_ROWS} == {row - 1 for row in MOST["x"]}
    assert len(found) < 2 * len(MOST["x"])
    assert path.exists()


def test_pyarrow_and_codes_of_all_values_say_what_they_can_not_read(path: Path) -> None:
    rot(path, page_of(path, "text", 0))
    with pytest.raises(fr.DataError, match="pyarrow can't apply the filter to the file"):
        kept(path, filter=pc.field("text") != "text 7", **MASK)
    with pytest.raises(
        fr.DataError, match=r"needs all values of the files, \.codes\(values=\[\.\.\.\]\) none"
    ):
        kept(path, columns=[fr.col("text").codes()], **MASK)
    named = [fr.col("text").codes(values=[f"text {row}" for row in range(FILE_ROWS)])]
    dataset = fr.ParquetDataset(path, batch_size=FILE_ROWS, world=(0, 1), columns=named, **MASK)
    (batch,) = dataset
    assert batch.valid.tolist() == [False] * 10 + [True] * (FILE_ROWS - 10)
    assert batch["text"][10:].tolist() == list(range(10, FILE_ROWS))
