"""Filters that are pyarrow expressions: pyarrow evaluates them, row group by row group."""

from __future__ import annotations

import contextlib
import importlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import Intervals, of_buffer, of_words
from fastresume.filter.pruning import selected_rows
from fastresume.filter.scan import Progress


def ask_arrow(
    manifest: _core.Manifest, wanted: Any, optional: Sequence[str], partitions: Sequence[str]
) -> Intervals:
    """The selected rows that a pyarrow expression keeps, as intervals.

    Columns in the files' paths are int64 or strings, as they are delivered. Optional columns are null where a
    file lacks them.

    Raises:
        DataError: if a file can't be read, or the expression needs a column that it lacks.
        ValueError: if the rows lie in no files.
    """
    if not manifest.has_files:
        raise ValueError(
            "filter is an expression of pyarrow, which asks files: write it as fr.col(name) > 3, or pass the "
            "rows that it keeps, as fr.ArrowDataset(table.filter(expression))"
        )
    if (renamed := manifest.renamed_file()) is not None:
        raise _core.DataError(
            f"the file '{renamed}' calls columns otherwise than its table, and pyarrow asks "
            "files: write the filter as fr.col(name) > 3, which asks the table"
        )
    selected, starts = selected_rows(manifest), of_words(manifest.group_starts)
    file_groups = of_words(manifest.file_groups)
    kept: list[Intervals] = [np.empty((0, 2), np.int64)]
    progress = Progress(manifest.num_rows, "filter")
    format_ = _format(manifest.verifies_checksums)
    added = _Added(manifest, optional, partitions)
    for number, (path, first, end) in enumerate(
        zip(manifest.files, file_groups[:-1], file_groups[1:], strict=True)
    ):
        if not _overlap(selected, starts[first], starts[end]):
            continue
        try:
            kept += _ask_arrow_of(path, format_, wanted, selected, starts[first : end + 1], added, number)
        except (ValueError, TypeError, NotImplementedError, OSError) as cause:
            if (lacking := _LACKING.match(str(cause))) is not None:  # its words have the whole schema
                _core.Layout.of_filter(manifest, [lacking[1]], [], list(optional), list(partitions))
                raise _core.DataError(
                    f"the file '{path}' lacks the column '{lacking[1]}' of its table, and pyarrow asks "
                    f"files: write the filter as fr.col({lacking[1]!r}) > 3, which asks the table"
                ) from cause
            raise _core.DataError(f"pyarrow can't apply the filter to the file '{path}': {cause}") from cause
        progress.add(int(starts[end] - starts[first]))
    progress.end()
    return of_buffer(_core.intersection(selected, np.concatenate(kept)))


_LACKING = re.compile(r"No match for FieldRef\.Name\(([^)]*)\) in ")
"""How pyarrow's error begins for a column that there is not."""


class _Added:
    """The columns that files do not hold: those in their paths, and optional ones that they lack."""

    def __init__(self, manifest: _core.Manifest, optional: Sequence[str], partitions: Sequence[str]) -> None:
        arrow, pc = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.compute")
        self._field, self._parts = pc.field, []
        for name in partitions:
            is_text, values = manifest.path_values(name, list(optional))
            type_ = arrow.string() if is_text else arrow.int64()
            scalars = [
                arrow.scalar(value.decode() if isinstance(value, bytes) else value, type_) for value in values
            ]
            self._parts.append((arrow.field(name, type_), scalars))
        self._lacked = [field_of(path, name) for name, path in manifest.lacked_columns(list(optional))]

    def schema_of(self, schema: Any) -> Any:
        """The schema of a file, with the columns that it lacks."""
        for field in self._lacked:
            if field is not None and field.name not in schema.names:
                schema = schema.append(field)
        for field, _ in self._parts:
            schema = schema.append(field)
        return schema

    def of_path(self, number: int) -> Any:
        """The values in the path of a file, as an expression; None if no such column is used."""
        whole = None
        for field, scalars in self._parts:
            name, value = self._field(field.name), scalars[number]
            part = name == value if value.is_valid else name.is_null()
            whole = part if whole is None else whole & part
        return whole


def field_of(path: str, name: str) -> Any:
    """The column of a file; none of a member of a struct, which pyarrow finds by itself or not at all."""
    with Path(path).open("rb") as file:
        schema = importlib.import_module("pyarrow.parquet").read_schema(file)
    return schema.field(name) if name in schema.names else None


def _format(verifies_checksums: bool) -> Any:
    """The options with which pyarrow reads files: by default it does not verify checksums."""
    arrow = importlib.import_module("pyarrow.dataset")
    options = arrow.ParquetFragmentScanOptions(page_checksum_verification=verifies_checksums)
    return arrow.ParquetFileFormat(default_fragment_scan_options=options)


def _ask_arrow_of(
    path: str,
    format_: Any,
    wanted: Any,
    selected: Intervals,
    starts: npt.NDArray[np.int64],
    added: _Added,
    number: int,
) -> Iterator[Intervals]:
    """The rows of one file, whose row groups begin at these rows."""
    with contextlib.ExitStack() as opened:
        file: Any = path
        local = importlib.import_module("pyarrow.fs").LocalFileSystem()
        if not _is_text(path):  # pyarrow takes no such names
            file, local = opened.enter_context(Path(path).open("rb")), None
        fragment = format_.make_fragment(file, local, partition_expression=added.of_path(number))
        if [group.num_rows for group in fragment.row_groups] != np.diff(starts).tolist():
            raise ValueError("the file was changed since the dataset was opened")
        schema = added.schema_of(fragment.physical_schema)
        for part in fragment.split_by_row_group(wanted, schema=schema):
            (group,) = part.row_groups
            first, end = starts[group.id], starts[group.id + 1]
            if _overlap(selected, first, end):
                table = part.to_table(schema=schema, columns={"kept": wanted})
                marks = table.column("kept").fill_null(False).to_numpy()
                yield of_buffer(_core.marked(np.ascontiguousarray(marks).view(np.uint8))) + first


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _overlap(selected: Intervals, first: int, end: int) -> bool:
    place = np.searchsorted(selected[:, 1], first, "right")
    return bool(place < len(selected) and selected[place, 0] < end)
