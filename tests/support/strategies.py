"""Hypothesis strategies: Parquet files as people write them, and the topologies of jobs that read them.

A `DatasetSpec` is a small frozen value that says how to write a dataset; hypothesis draws and shrinks specs,
prints them as code, and `spec.write(directory)` makes the files. Values come from a few recipes and a seed,
so that a failing example shrinks to files that count upwards from 0.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

# --------------------------------------------------------------------------------------------------- datasets

ROW_NUMBERS = "row"
"""The int64 column of every drawn dataset that holds the row's number in canonical order."""

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
TIMES = (
    "date32",
    "date64",
    "timestamp[s]",
    "timestamp[ms]",
    "timestamp[us]",
    "timestamp[ns]",
    "timestamp[us, UTC]",
    "time32[ms]",
    "time64[us]",
    "time64[ns]",
)
TYPES = ("bool", *INTEGERS, *FLOATS, *TIMES)

FILLS = ("count", "bits", "extremes")
ENCODINGS = ("plain", "dictionary", "packed", "split")
CODECS = ("none", "snappy", "zstd", "gzip", "lz4", "brotli")

FILE_NAMES = (
    "part-0.parquet",
    "part-1.parquet",
    "part-10.parquet",
    "part-2.parquet",
    "a/part-0.parquet",
    "a-b/part-0.parquet",
    "a.parquet",
    "Z.parquet",
    "day=1/hour=2/x y.parquet",
    "é.parquet",
)
"""Their order by bytes is that of no natural sort, no locale, no walk of the tree."""


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of one of `TYPES`."""
    return pa.timestamp("us", tz="UTC") if name == "timestamp[us, UTC]" else pa.type_for_alias(name)


@dataclass(frozen=True)
class ColumnSpec:
    """One column: its type, whether its schema allows nulls (none ever occur), the recipe of its values."""

    name: str
    type: str = "int64"
    nullable: bool = True
    fill: str = "count"
    seed: int = 0

    @property
    def field(self) -> pa.Field:
        """The Arrow field."""
        return pa.field(self.name, arrow_type(self.type), nullable=self.nullable)

    @property
    def leaves(self) -> tuple[str, ...]:
        """The paths at which the file's schema may have its values."""
        return (self.name,)

    @property
    def encodings(self) -> dict[str, str]:
        """Besides plain values and dictionaries, the encodings that pyarrow writes for the type."""
        if self.type == "bool":
            return {"packed": "RLE", "split": "PLAIN"}
        packed = "BYTE_STREAM_SPLIT" if self.type in FLOATS else "DELTA_BINARY_PACKED"
        return {"packed": packed, "split": "BYTE_STREAM_SPLIT"}

    def values(self, start: int, rows: int) -> pa.Array:
        """Return the values of the rows [start, start + rows) of the dataset.

        `count` is the row number; `bits` is any bits of that width, so all kinds of NaN too; `extremes` are
        the values at which arithmetic goes wrong. What no file can hold (seconds and date64 are stored in
        another unit) is brought into range.
        """
        type_ = arrow_type(self.type)
        random = np.random.default_rng([self.seed, start])
        numbers = np.arange(start, start + rows, dtype=np.int64)
        if self.type == "bool":
            return pa.array(random.integers(0, 2, rows) > 0 if self.fill == "bits" else numbers % 2 > 0)
        width = type_.bit_width // 8
        stored = np.dtype(self.type if self.type in (*INTEGERS, *FLOATS) else f"i{width}")
        if self.fill == "count":
            drawn = numbers.astype(stored)
        elif self.fill == "bits":
            drawn = np.frombuffer(random.bytes(rows * width), stored)
        else:
            drawn = random.choice(extremes(stored), rows)
        if self.type == "timestamp[s]":
            drawn = drawn // 10_000
        if self.type == "date64":
            drawn = drawn // 86_400_000 % 2**31 * 86_400_000
        return pa.Array.from_buffers(type_, rows, [None, pa.py_buffer(np.ascontiguousarray(drawn))])


def extremes(dtype: np.dtype) -> np.ndarray:
    """Return the values of a dtype that break careless code."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        odd = [0.0, -0.0, 1.0, np.nan, -np.nan, np.inf, -np.inf, info.max, info.min, info.tiny]
        return np.array([*odd, info.smallest_subnormal, info.eps], dtype)
    whole = np.iinfo(dtype)
    some = {0, 1, whole.min, whole.max, whole.max - 1, whole.max // 2 + 1, -1 if whole.min else 2}
    return np.array(sorted(some), dtype)


@dataclass(frozen=True)
class FileSpec:
    """One file: its path below the dataset's directory, the rows of its row groups, and how it is written."""

    path: str
    groups: tuple[int, ...]
    codec: str = "snappy"
    encoding: str = "dictionary"
    page_version: str = "1.0"
    page_rows: int = 20_000
    page_bytes: int = 1 << 20
    page_index: bool = False
    checksum: bool = False
    statistics: bool = True
    arrow_schema: bool = True
    format_version: str = "2.6"
    compliant_lists: bool = True
    integer_decimals: bool = False

    def write(self, directory: Path, columns: Sequence[ColumnSpec], start: int) -> Path:
        """Write the file, whose first row has the number `start`, and return its path."""
        path = directory / self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = pa.schema([column.field for column in columns])
        with pq.ParquetWriter(
            path,
            schema,
            compression=self.codec,
            version=self.format_version,
            use_dictionary=self.encoding == "dictionary",
            column_encoding=None if self.encoding in ("plain", "dictionary") else self._encodings(columns),
            use_compliant_nested_type=self.compliant_lists,
            store_decimal_as_integer=self.integer_decimals,
            dictionary_pagesize_limit=self.page_bytes,
            data_page_version=self.page_version,
            data_page_size=self.page_bytes,
            max_rows_per_page=self.page_rows,
            write_batch_size=min(self.page_rows, 1024),
            write_page_index=self.page_index,
            write_page_checksum=self.checksum,
            write_statistics=self.statistics,
            store_schema=self.arrow_schema,
        ) as writer:
            for rows in self.groups:
                arrays = [column.values(start, rows) for column in columns]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=max(rows, 1))
                start += rows
        return path

    def _encodings(self, columns: Sequence[ColumnSpec]) -> dict[str, str]:
        """Return what each column's leaf is encoded as."""
        return {leaf: column.encodings[self.encoding] for column in columns for leaf in column.leaves}


@dataclass(frozen=True)
class Dataset:
    """A dataset that lies on disk: its directory, its files in canonical order, its rows and its schema."""

    directory: Path
    files: tuple[Path, ...]
    num_rows: int
    schema: pa.Schema


@dataclass(frozen=True)
class DatasetSpec:
    """A dataset that can be written: the same spec gives the same bytes anywhere."""

    files: tuple[FileSpec, ...]
    columns: tuple[ColumnSpec, ...] = ()
    row_numbers: ColumnSpec = field(default=ColumnSpec(ROW_NUMBERS, nullable=False), repr=False)

    @property
    def num_rows(self) -> int:
        """The rows of all files."""
        return sum(sum(file.groups) for file in self.files)

    def write(self, directory: Path) -> Dataset:
        """Write the files into a directory and return the dataset."""
        columns = (self.row_numbers, *self.columns)
        written: list[Path] = []
        start = 0
        for file in sorted(self.files, key=lambda file: file.path.encode()):
            written.append(file.write(directory, columns, start))
            start += sum(file.groups)
        return Dataset(directory, tuple(written), start, pa.schema([column.field for column in columns]))


@contextmanager
def written(spec: DatasetSpec) -> Iterator[Dataset]:
    """Give the dataset of a spec in a directory of its own, which is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="fastresume-") as directory:
        yield spec.write(Path(directory))


def plain_spec(
    *files: Sequence[int], columns: Sequence[ColumnSpec] = (), **how: str | int | bool
) -> DatasetSpec:
    """Return a spec without chance: one file `part-<i>.parquet` for each sequence of rows per row group."""
    specs = [
        FileSpec(f"part-{i:03}.parquet", tuple(groups), **how)  # type: ignore[arg-type]
        for i, groups in enumerate(files)
    ]
    return DatasetSpec(tuple(specs), tuple(columns))


def column_specs(name: str, types: Sequence[str] = TYPES) -> st.SearchStrategy[ColumnSpec]:
    """Return a strategy for a column of that name."""
    return st.builds(
        ColumnSpec,
        st.just(name),
        st.sampled_from(types),
        nullable=st.booleans(),
        fill=st.sampled_from(FILLS),
        seed=st.integers(0, 9),
    )


def row_groups(max_rows: int = 40, max_groups: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Return a strategy for the rows of a file's row groups: no group, groups without rows, all between."""
    return st.lists(st.integers(0, max_rows), max_size=max_groups).map(tuple)


def file_specs(
    path: str, groups: st.SearchStrategy[tuple[int, ...]] | None = None
) -> st.SearchStrategy[FileSpec]:
    """Return a strategy for a file at that path."""
    return st.builds(
        FileSpec,
        st.just(path),
        row_groups() if groups is None else groups,
        codec=st.sampled_from(CODECS),
        encoding=st.sampled_from(ENCODINGS),
        page_version=st.sampled_from(("1.0", "2.0")),
        page_rows=st.sampled_from((20_000, 7, 1)),
        page_bytes=st.sampled_from((1 << 20, 64, 1)),
        page_index=st.booleans(),
        checksum=st.booleans(),
        statistics=st.booleans(),
        arrow_schema=st.booleans(),
        compliant_lists=st.booleans(),
        integer_decimals=st.booleans(),
    )


@st.composite
def dataset_specs(
    draw: st.DrawFn,
    *,
    min_rows: int = 0,
    max_files: int = 4,
    max_columns: int = 4,
    types: Sequence[str] = TYPES,
    groups: st.SearchStrategy[tuple[int, ...]] | None = None,
) -> DatasetSpec:
    """Draw a spec of 1 to `max_files` files, with the column of row numbers and up to `max_columns` others.

    `min_rows` is kept by adding a row group to the first file.
    """
    paths = draw(st.lists(st.sampled_from(FILE_NAMES), min_size=1, max_size=max_files, unique=True))
    files = [draw(file_specs(path, groups)) for path in paths]
    columns = [draw(column_specs(f"c{i}", types)) for i in range(draw(st.integers(0, max_columns)))]
    spec = DatasetSpec(tuple(files), tuple(columns))
    missing = min_rows - spec.num_rows
    if missing > 0:
        first = FileSpec(**{**vars(files[0]), "groups": (*files[0].groups, missing)})
        spec = DatasetSpec((first, *files[1:]), spec.columns)
    return spec


def datasets(root: Path, specs: st.SearchStrategy[DatasetSpec] | None = None) -> st.SearchStrategy[Dataset]:
    """Return a strategy for datasets on disk, each written into a fresh directory below `root`.

    `written(spec)` with a drawn spec leaves no files behind, and a failure prints the spec.
    """
    drawn = dataset_specs() if specs is None else specs
    return drawn.map(lambda spec: spec.write(Path(tempfile.mkdtemp(dir=root))))
