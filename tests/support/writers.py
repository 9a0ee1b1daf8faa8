"""Files by writers other than pyarrow, and readers other than pyarrow's, each with all that it offers.

A `DuckdbFile`, `PolarsFile` or `FastparquetFile` stands where a `FileSpec` may stand in a `DatasetSpec`, so
that one dataset may have files of several writers. `READERS` read the same cells as `columns.read_cells`.

What none of them is asked for, as it can't write it:

- DuckDB 2.0: pages of version 2, a page index, page checksums, float16. Of a null among lists of one length
  it writes levels that contradict each other, which pyarrow refuses, and so do we.
- polars 2.1: pages of version 2; delta encodings and BYTE_STREAM_SPLIT; an int96; no time but ns, no date64.
- fastparquet 2026.9: lists, structs, maps, dates, decimals; encodings but PLAIN and RLE_DICTIONARY; a page
  index. A NaN in a column that may be null is a null.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import fastparquet.writer
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from support.cells import Cells, cells_of_tables
from support.columns import EVEN, LISTS, NESTED, SHARES, TEXTS, Kind
from support.strategies import (
    FILE_NAMES,
    INTEGERS,
    TIMES,
    TYPES,
    ColumnSpec,
    DatasetSpec,
    file_specs,
    row_groups,
)

# -------------------------------------------------------------------------------------------------- the files


@dataclass(frozen=True)
class OtherFile:
    """One file of another writer; `groups` are the rows that are handed to it at a time.

    Their sum counts: where row groups begin and end is what `group_rows` makes of it.
    """

    path: str
    groups: tuple[int, ...]
    codec: str = "snappy"
    group_rows: int = 1000

    def write(self, directory: Path, columns: Sequence[ColumnSpec | Kind], start: int) -> Path:
        """Write the file, whose first row has the number `start`, and return its path."""
        path = directory / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([column.field for column in columns])
        batches = []
        for rows in self.groups:
            arrays = [column.values(start, rows) for column in columns]
            batches.append(pa.record_batch(arrays, schema=schema))
            start += rows
        self.write_table(path, pa.Table.from_batches(batches, schema))
        return path

    def write_table(self, path: Path, table: pa.Table) -> None:
        """Write a table."""
        raise NotImplementedError


@dataclass(frozen=True)
class DuckdbFile(OtherFile):
    """A file of DuckDB. Version V2 has delta encodings and BYTE_STREAM_SPLIT, where no dictionary is."""

    version: str = "V1"
    dictionary_values: int = 1_000_000
    page_bytes: int = 1 << 20
    has_bloom_filter: bool = True
    are_times_int96: bool = False

    CODECS = ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw")

    def write_table(self, path: Path, table: pa.Table) -> None:
        # Small record batches, as DuckDB ends row groups only between those that it is given.
        chunks = table.to_batches(max_chunksize=self.group_rows)
        with duckdb_cursor() as connection:
            connection.register("given", pa.Table.from_batches(chunks, table.schema))
            connection.execute(
                f"COPY given TO '{path}' (FORMAT parquet, CODEC {self.codec}, "
                f"PARQUET_VERSION {self.version}, "
                f"ROW_GROUP_SIZE {self.group_rows}, DICTIONARY_SIZE_LIMIT {self.dictionary_values}, "
                f"DATA_PAGE_SIZE_LIMIT {self.page_bytes}, WRITE_BLOOM_FILTER {self.has_bloom_filter}, "
                f"WRITE_TIMESTAMP_AS_INT96 {self.are_times_int96})"
            )


@dataclass(frozen=True)
class PolarsFile(OtherFile):
    """A file of polars: always with a page index; what repeats in dictionaries."""

    page_bytes: int = 1 << 20
    statistics: bool | str = True
    are_texts_categories: bool = False

    CODECS = ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4")

    def write_table(self, path: Path, table: pa.Table) -> None:
        frame = pl.DataFrame(table)
        if self.are_texts_categories:
            frame = frame.cast({pl.String: pl.Categorical})
        how: dict[str, Any] = {"compression": self.codec, "statistics": self.statistics}
        frame.write_parquet(path, row_group_size=self.group_rows, data_page_size=self.page_bytes, **how)


FRAMES = {
    pa.bool_(): pd.BooleanDtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    **{
        pa.type_for_alias(name): pd.array([], name.replace("i", "I").replace("uI", "UI")).dtype
        for name in INTEGERS
    },
}
"""The types of a data frame that know nulls."""


@dataclass(frozen=True)
class FastparquetFile(OtherFile):
    """A file of fastparquet, from a data frame of types that know nulls."""

    page_version: int = 1
    page_bytes: int = 1 << 20
    may_have_nulls: bool = True
    are_texts_categories: bool = False
    are_times_int96: bool = False

    CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "LZ4", "LZ4_RAW", "ZSTD", "BROTLI")

    def write_table(self, path: Path, table: pa.Table) -> None:
        nullable = {name for name in table.column_names if self.may_have_nulls or table[name].null_count}
        frame = table.to_pandas(types_mapper=FRAMES.get)
        for name in table.column_names:
            if self.are_texts_categories and pa.types.is_string(table[name].type):
                frame[name] = frame[name].astype("category")
        # Without values it would take them for texts.
        encodings = {
            field.name: "bytes" if pa.types.is_binary(field.type) else "infer" for field in table.schema
        }
        with pytest.MonkeyPatch.context() as patch:  # it has no arguments for these
            patch.setattr(fastparquet.writer, "DATAPAGE_VERSION", self.page_version)
            patch.setattr(fastparquet.writer, "MAX_PAGE_SIZE", self.page_bytes)
            fastparquet.write(
                str(path),
                frame,
                row_group_offsets=list(range(0, max(len(frame), 1), self.group_rows)),
                compression=self.codec,
                has_nulls=[name for name in table.column_names if name in nullable],
                times="int96" if self.are_times_int96 else "int64",
                object_encoding=encodings,
            )


@functools.cache
def duckdb_database() -> duckdb.DuckDBPyConnection:
    """DuckDB in this process, without threads; at its end it complains of what is still open."""
    atexit.register(duckdb_database.cache_clear)
    return duckdb.connect(config={"threads": 1})


def duckdb_cursor() -> duckdb.DuckDBPyConnection:
    """A connection to it, which may be closed."""
    return duckdb_database().cursor()


OTHER_FILES: dict[str, type[OtherFile]] = {
    "duckdb": DuckdbFile,
    "polars": PolarsFile,
    "fastparquet": FastparquetFile,
}

# ------------------------------------------------------------------------------------------------ the readers


def told_by_duckdb(path: Path) -> pa.Table:
    """What DuckDB reads of a file; a float16 it reads as a float32, whose bits may be another NaN's."""
    schema = pq.read_schema(path)
    halves = {name for name in schema.names if has_halves(schema.field(name).type)}
    names = ", ".join(f'"{name}"' for name in schema.names if name not in halves | split_bytes(path))
    how = "hive_partitioning = false, int96_as = 'TIMESTAMP_NS'"
    with duckdb_cursor() as connection:
        query = f"SELECT {names} FROM read_parquet('{path}', {how})"  # noqa: S608  (paths of our own)
        found: pa.Table = connection.sql(query).to_arrow_table()
    return found


def told_by_polars(path: Path) -> pa.Table:
    """What polars reads of a file."""
    untold = split_bytes(path) | padded_times(path)
    names = [name for name in pq.read_schema(path).names if name not in untold]
    return pl.read_parquet(path, columns=names, hive_partitioning=False).to_arrow()


def split_bytes(path: Path) -> set[str]:
    """The columns of values of so many bytes in BYTE_STREAM_SPLIT, which neither of them reads."""
    return columns_with(
        path,
        lambda chunk: (
            chunk.physical_type == "FIXED_LEN_BYTE_ARRAY" and "BYTE_STREAM_SPLIT" in chunk.encodings
        ),
    )


def padded_times(path: Path) -> set[str]:
    """The columns that are an int96 of fastparquet's, which ends pages by 8 bytes; polars refuses that."""
    if not pq.read_metadata(path).created_by.startswith("fastparquet"):
        return set()
    return columns_with(path, lambda chunk: chunk.physical_type == "INT96")


def columns_with(path: Path, has_it: Callable[[Any], bool]) -> set[str]:
    """The columns of a file with a chunk for which a condition is true."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    chunks = [group.column(place) for group in groups for place in range(metadata.num_columns)]
    return {chunk.path_in_schema.split(".")[0] for chunk in chunks if has_it(chunk)}


def has_halves(type_: pa.DataType) -> bool:
    """Whether a type has a float16 in it."""
    return type_ == pa.float16() or any(
        has_halves(type_.field(place).type) for place in range(type_.num_fields)
    )


READERS: dict[str, Callable[[Path], pa.Table]] = {"duckdb": told_by_duckdb, "polars": told_by_polars}


def nullable(type_: pa.DataType) -> pa.DataType:
    """A type, of which all members of structs may be null: other readers say so of those of a null struct."""
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(member.name, nullable(member.type)) for member in type_])
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        made = pa.list_ if pa.types.is_list(type_) else pa.large_list
        return made(type_.value_field.with_type(nullable(type_.value_type)).with_nullable(True))
    return type_


def cells_by(reader: str, files: Sequence[Path]) -> dict[str, Cells]:
    """Every column of which another reader can tell all, in the types that pyarrow has for them."""
    found = [READERS[reader](file) for file in files]
    names = [name for name in found[0].column_names if all(name in table.column_names for table in found)]
    tables = []
    for file, table in zip(files, found, strict=True):
        schema = pq.read_schema(file)
        columns = [table[name].combine_chunks().cast(nullable(schema.field(name).type)) for name in names]
        tables.append(pa.table(columns, names))
    return cells_of_tables(tables)


# ---------------------------------------------------------------------------------------------- as strategies

TIMES_OF_ANY_BITS = {
    "pyarrow": ("date32", "timestamp[us]", "timestamp[ns]", "timestamp[us, UTC]"),
    "polars": ("date32", "timestamp[us]", "timestamp[ns]", "timestamp[us, UTC]"),
}
"""Where times may have any value. DuckDB and polars read a time of day only where it is one, and DuckDB no
milliseconds beyond what microseconds can say; no int96 holds them all."""

MIXED = ("bool", *INTEGERS, "float32", "float64", "string", "binary")
"""Types that all writers write alike."""


@st.composite
def kinds_of(draw: st.DrawFn, name: str, writer: str, are_times_int96: bool) -> Kind:
    """Draw a column that a writer can write, and that every reader reads."""
    numbers = [type_ for type_ in TYPES if type_ != "float16" or writer != "duckdb"]
    shape = draw(st.sampled_from(("scalar", "scalar", *LISTS, *NESTED)))
    if writer in ("fastparquet", "any"):
        shape = "scalar"
    if writer == "any":
        types: Sequence[str] = MIXED
    elif writer == "fastparquet":
        types = (
            "bool",
            *INTEGERS,
            "float32",
            "float64",
            "timestamp[ms]",
            "timestamp[us]",
            "timestamp[ns]",
            "timestamp[us, UTC]",
            "string",
            "binary",
        )
    else:
        types = (*numbers, *TEXTS * 3, *EVEN) if shape in ("scalar", "struct") else numbers
        if are_times_int96 and shape not in ("scalar", "struct"):
            types = [type_ for type_ in types if not type_.startswith("timestamp")]  # not delivered yet
    type_ = draw(st.sampled_from(types))
    fills = ("bits", "count", "extremes")
    if type_ in TIMES and type_ not in TIMES_OF_ANY_BITS.get(writer, ()):
        fills = ("count",)
    if type_ in ("int32", "uint32") and writer in ("duckdb", "any"):
        fills = ("count",)  # pyarrow refuses deltas of 33 bits; see test_writers.py
    can_be_null = shape != "fixed_size_list" or writer != "duckdb"
    return Kind(
        name,
        type_,
        shape,
        nulls=draw(SHARES) if can_be_null else 0.0,
        element_nulls=draw(SHARES),
        longest=draw(st.sampled_from((4, 1, 20))),
        distinct=draw(st.sampled_from((30, 1, 2, 300))),
        fill=draw(st.sampled_from(fills)),
        seed=draw(st.integers(0, 9)),
    )


def files_of(path: str, writer: str, are_times_int96: bool) -> st.SearchStrategy[Any]:
    """Return a strategy for a file of a writer at that path, with all that it offers."""
    if writer == "pyarrow":
        return file_specs(path)
    is_true = st.booleans()
    codec = st.sampled_from(OTHER_FILES[writer].CODECS)
    common = {"codec": codec, "group_rows": st.sampled_from((1000, 30, 7))}
    named = (st.just(path), row_groups())
    if writer == "duckdb":
        return st.builds(
            DuckdbFile,
            *named,
            **common,
            version=st.sampled_from(("V1", "V2")),
            dictionary_values=st.sampled_from((1_000_000, 20, 1)),
            page_bytes=st.sampled_from((1 << 20, 64, 1)),
            has_bloom_filter=is_true,
            are_times_int96=st.just(are_times_int96),
        )
    if writer == "polars":
        return st.builds(
            PolarsFile,
            *named,
            **common,
            page_bytes=st.sampled_from((1 << 20, 64, 1)),
            statistics=st.sampled_from((True, False, "full")),
            are_texts_categories=is_true,
        )
    return st.builds(
        FastparquetFile,
        *named,
        **common,
        page_version=st.sampled_from((1, 2)),
        page_bytes=st.sampled_from((1 << 20, 1200)),
        may_have_nulls=is_true,
        are_texts_categories=is_true,
        are_times_int96=st.just(are_times_int96),
    )


@st.composite
def tables_of(draw: st.DrawFn, writer: str, max_files: int = 2, max_columns: int = 4) -> DatasetSpec:
    """Draw a dataset of files by one writer, or by any of them, each file by another.

    Times are an int96 in all files or in none: it is no time in microseconds.
    """
    is_int96 = writer in ("duckdb", "fastparquet") and draw(st.booleans())
    columns = [draw(kinds_of(f"c{i}", writer, is_int96)) for i in range(draw(st.integers(1, max_columns)))]
    names = draw(st.lists(st.sampled_from(FILE_NAMES), min_size=1, max_size=max_files, unique=True))
    writers = ("pyarrow", *OTHER_FILES) if writer == "any" else (writer,)
    files = [draw(files_of(name, draw(st.sampled_from(writers)), is_int96)) for name in names]
    if sum(sum(file.groups) for file in files) == 0:
        files[0] = replace(files[0], groups=(*files[0].groups, 20))
    return DatasetSpec(tuple(files), tuple(columns))
