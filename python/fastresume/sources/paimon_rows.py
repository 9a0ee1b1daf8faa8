"""Paimon tables as a source of rows."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastresume.options.unknown import takes_no_other
from fastresume.packages import optional
from fastresume.sources.row_source import Segment
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

MOST_IDLE = 8
"""At most this many readers are kept open: a split is read from its beginning."""


class PaimonRows:
    """The rows of a snapshot of a Paimon table: its files are segments. `fr.sources.paimon()` makes it.

    Threads and forks: threads may read at once. A pickle holds the table and the splits; no reader.
    """

    def __init__(self, table: Any, splits: list[Any] | None = None, counts: list[int] | None = None) -> None:
        self._table = table
        self._splits = _split_by_file(table) if splits is None else splits
        self._counts = [_rows(table, split) for split in self._splits] if counts is None else counts
        self._idle: OrderedDict[tuple[int, tuple[str, ...]], _Standing] = OrderedDict()
        self._lock = threading.Lock()

    def snapshot(self) -> str:
        """The names of segments tell the rows: data files never change, and each has a name of its own."""
        return "paimon"

    def segments(self) -> list[Segment]:
        """One for each file; one for files whose rows are merged while they are read."""
        names = (", ".join(file.file_name for file in split.files) for split in self._splits)
        return [Segment(name, rows) for name, rows in zip(names, self._counts, strict=True)]

    def schema(self) -> pa.Schema:
        """The columns."""
        from pypaimon.schema.data_types import PyarrowFieldParser

        return PyarrowFieldParser.from_paimon_schema(self._table.fields)

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        """The rows `[start, stop)` of a segment. A read that continues another reads no row twice."""
        key = segment, tuple(columns)
        with self._lock:
            standing = self._idle.pop(key, None)
        if standing is None or standing.row > start:
            standing = _Standing(_batches(self._table, self._splits[segment], columns))
        standing.take(start - standing.row)
        found = standing.take(stop - start)
        with self._lock:
            self._idle[key] = standing
            while len(self._idle) > MOST_IDLE:
                self._idle.popitem(last=False)
        schema = arrow().schema([self.schema().field(name) for name in columns])
        return arrow().Table.from_batches([batch.select(columns) for batch in found], schema)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return PaimonRows, (self._table, self._splits, self._counts)


class _Standing:
    """The batches of a split, and the row that comes next."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._left: pa.RecordBatch | None = None
        self.row = 0

    def take(self, rows: int) -> list[pa.RecordBatch]:
        """The next rows; fewer at the end."""
        found: list[pa.RecordBatch] = []
        while rows > 0:
            batch = next(self._batches, None) if self._left is None else self._left
            if batch is None:
                break
            taken = min(rows, batch.num_rows)
            self._left = batch.slice(taken) if taken < batch.num_rows else None
            found.append(batch.slice(0, taken))
            rows -= taken
            self.row += taken
        return found


def _batches(table: Any, split: Any, columns: list[str]) -> Iterator[pa.RecordBatch]:
    reader = table.new_read_builder().with_projection(columns).new_read()
    yield from reader.to_arrow_batch_reader([split], parallelism=1)


def _split_by_file(table: Any) -> list[Any]:
    """The splits of the newest snapshot, the oldest first: one for each file that needs no other."""
    found = []
    for split in table.new_read_builder().new_scan().plan().splits():
        if getattr(split, "raw_convertible", False) and len(split.files) > 1:
            names = [file.file_name for file in split.files]
            found += [split.filter_file(lambda file, name=name: file.file_name == name) for name in names]
        else:
            found.append(split)
    # So new files come after those that were there before.
    return sorted(
        found, key=lambda split: [(str(file.creation_time), file.file_name) for file in split.files]
    )


def _rows(table: Any, split: Any) -> int:
    stated = split.merged_row_count()
    if stated is not None:
        return int(stated)
    # Rows of one key are merged: how many are left, only reading them tells.
    keys = [field.name for field in table.fields][:1]
    return sum(batch.num_rows for batch in _batches(table, split, keys))


@takes_no_other("fr.sources.paimon")
def paimon(table: Any) -> PaimonRows:
    """The rows of a Paimon table as it is now, as a `RowSource` for `fr.ArrowDataset`.

    Args:
        table: a table of a catalog of pypaimon.

    Raises:
        ImportError: if pypaimon is not installed.
        TypeError: if it is no table.

    The fingerprint covers the columns and the data files. So a state fits later snapshots of the same files.
    With `on_change="append"`, there may be more of them. Rows of tables with primary keys are merged while
    they are read, and counted once when the source is opened.

    Examples:
        >>> table = catalog.get_table("db.events")  # doctest: +SKIP
        >>> dataset = fr.ArrowDataset(fr.sources.paimon(table), batch_size=32)  # doctest: +SKIP
    """
    optional("pypaimon", "fr.sources.paimon()", "pypaimon")
    if not hasattr(table, "new_read_builder"):
        raise TypeError(f"expected a table of pypaimon's catalog, found {type(table).__name__}")
    return PaimonRows(table)
