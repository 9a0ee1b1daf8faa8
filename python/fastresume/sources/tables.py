"""Tables in memory as a source of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import fastresume._core as _core
from fastresume.options.checks import quoted
from fastresume.sources.part import Part, groups
from fastresume.sources.schema import arrow, footer_of, hash_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa


class Tables:
    """Tables of the same columns, each a part. The core reads their memory; no copy is made.

    Args:
        tables: the tables, which no one changes.
    """

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        self._tables = list(tables)

    @classmethod
    def of(cls, source: Any) -> Self:
        """The tables that a user names: one, batches of one, or several.

        Raises:
            TypeError: if it is none.
            DataError: if their columns differ.
        """
        pyarrow = arrow()
        are_several = isinstance(source, Sequence) and not isinstance(source, str | bytes)
        each = list(source) if are_several else [source]
        if not each:
            raise ValueError("the source has no table: pass at least one")
        if all(isinstance(one, pyarrow.RecordBatch) for one in each):
            each = [pyarrow.Table.from_batches(each)]
        tables = [_table(one) for one in each]
        schema = schema_of(tables[0].schema)
        for number, table in enumerate(tables):
            if not table.schema.equals(schema):
                raise _core.DataError(
                    f"table {number} has other columns than table 0: write table.cast(tables[0].schema). "
                    f"Found {quoted(str(table.schema))}, expected {quoted(str(schema))}"
                )
        return cls(tables)

    def rows(self) -> _core.Rows:
        """What the core reads the rows from."""
        schema, counts = self._tables[0].schema, [groups(table.num_rows) for table in self._tables]
        return _core.Rows.held(schema, footer_of(schema), self._tables, counts, (rows_of, self))

    def parts(self, rows: _core.Rows) -> list[Part]:
        """The parts, in the order in which their rows are numbered: their hashes are of all values."""
        counts = [groups(table.num_rows) for table in self._tables]
        digests = rows.digests([len(count) for count in counts])
        each = zip(self._tables, counts, digests, strict=True)
        return [
            Part(f"table {number}", count, hash_of(table.schema, digest))
            for number, (table, count, digest) in enumerate(each)
        ]


def rows_of(tables: Tables) -> _core.Rows:
    """What the core reads the rows of tables from, made again from a pickle."""
    return tables.rows()


def _table(given: Any) -> pa.Table:
    pyarrow = arrow()
    if isinstance(given, pyarrow.Table):
        return given
    if hasattr(given, "__arrow_c_stream__"):
        # It is read once, and kept: some streams can't be read again.
        try:
            return pyarrow.RecordBatchReader.from_stream(given).read_all()
        except (TypeError, pyarrow.ArrowInvalid) as error:
            raise TypeError(f"source must have columns, found {type(given).__name__}: {error}") from None
    if hasattr(given, "__arrow_c_array__"):
        return pyarrow.Table.from_batches([pyarrow.record_batch(given)])
    if isinstance(given, str | os.PathLike):
        raise TypeError(f"source names both tables and the path {quoted(str(given))}: name one kind")
    raise TypeError(
        "source must be a pyarrow.Table, RecordBatches, a polars DataFrame, paths of Arrow files, a "
        f"fastresume.sources.RowSource or anything with __arrow_c_stream__, found {quoted(given)}"
    )
