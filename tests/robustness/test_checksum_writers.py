"""Which writers put checksums into the headers of pages, as docs/how-to/damaged-files.md says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import fastparquet
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq

from support.each_of import each_of

TABLE = pa.table({"x": range(100)})
OPTIONS = pyarrow.dataset.ParquetFileFormat().make_write_options(write_page_checksum=True)


def of_pyarrow_dataset(path: Path) -> None:
    pyarrow.dataset.write_dataset(
        TABLE, path.parent, format="parquet", file_options=OPTIONS, basename_template="part-{i}.parquet"
    )
    (path.parent / "part-0.parquet").rename(path)


def of_duckdb(path: Path) -> None:
    with duckdb.connect() as connection:
        connection.sql("select range as x from range(100)").write_parquet(str(path))


WRITERS: dict[str, tuple[bool, Callable[[Path], object]]] = {
    "pyarrow": (False, lambda path: pq.write_table(TABLE, path)),
    "pyarrow, asked": (True, lambda path: pq.write_table(TABLE, path, write_page_checksum=True)),
    "pyarrow.dataset, asked": (True, of_pyarrow_dataset),
    "pandas, asked": (
        True,
        lambda path: TABLE.to_pandas().to_parquet(path, engine="pyarrow", write_page_checksum=True),
    ),
    "polars": (False, lambda path: pl.from_arrow(TABLE).write_parquet(path)),
    "polars, by pyarrow": (
        True,
        lambda path: pl.from_arrow(TABLE).write_parquet(
            path, use_pyarrow=True, pyarrow_options={"write_page_checksum": True}
        ),
    ),
    "DuckDB": (False, of_duckdb),
    "fastparquet": (False, lambda path: fastparquet.write(str(path), TABLE.to_pandas())),
}


def has_checksum(path: Path) -> bool:
    """Whether the first page's header has a checksum: its fourth field, behind three integers."""
    column = pq.read_metadata(path).row_group(0).column(0)
    place = column.dictionary_page_offset or column.data_page_offset
    header = path.read_bytes()[place : place + 50]
    at = 0
    for _ in range(3):
        assert header[at] == 0x15, "a field that follows the one before, of 32 bits"
        at += 1
        while header[at] & 0x80:
            at += 1
        at += 1
    return header[at] == 0x15


@each_of("writer", WRITERS)
def test_writers_put_checksums_into_pages_as_the_page_on_resuming_says(path: Path, writer: str) -> None:
    expected, write = WRITERS[writer]
    write(path)
    assert has_checksum(path) == expected
