"""Which files a dataset has, and its rows, by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PathLike = str | os.PathLike[str]


def canonical_files(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return the files of a dataset in canonical order: by the bytes of the path relative to the common root.

    A file that is named means itself. A directory means every file below it that ends in `.parquet`, where no
    name on the way down begins with `_` or `.`. The same file twice is a ValueError. Globs are not the
    oracle's business.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[Path] = []
    for path in map(Path, named):
        files.extend(_files_below(path) if path.is_dir() else [path])
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"the same file twice in {sorted(map(str, files))}")
    if not files:
        return []
    root = os.path.commonpath([file.absolute().parent for file in files])
    return sorted(files, key=lambda file: os.fsencode(os.path.relpath(file.absolute(), root)))


def _files_below(directory: Path) -> Iterator[Path]:
    for entry in directory.iterdir():
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files_below(entry)
        elif entry.is_file() and entry.name.endswith(".parquet"):
            yield entry


def read_table(paths: PathLike | Sequence[PathLike]) -> dict[str, np.ndarray]:
    """Return every column as one numpy array; index r holds row number r of the dataset.

    Dates and timestamps are the int64 that the file holds: days since 1970, or units of the column's own
    resolution.
    """
    tables = [pq.ParquetFile(file).read() for file in canonical_files(paths)]
    table = pa.concat_tables(tables)
    return {name: as_numpy(table.column(name)) for name in table.column_names}


def as_numpy(column: pa.ChunkedArray) -> np.ndarray:
    if column.null_count:
        raise ValueError("the oracle knows no nulls yet")
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    values: np.ndarray = column.to_numpy()
    return values


def same_values(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> bool:
    """Return whether both hold the same columns in one order, equal in dtype, shape and bytes (NaN, -0.0)."""
    return list(left) == list(right) and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )


def group_rows_of(paths: PathLike | Sequence[PathLike]) -> tuple[int, ...]:
    """Return the rows of every row group of a dataset, in its order."""
    rows: list[int] = []
    for file in canonical_files(paths):
        metadata = pq.read_metadata(file)
        rows += [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return tuple(rows)
