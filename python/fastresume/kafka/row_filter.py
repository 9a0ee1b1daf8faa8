"""Which rows of decoded messages a filter keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastresume.buffers import of_buffer, of_runs
from fastresume.filter.condition import is_of_arrow
from fastresume.filter.resolve import select_filtered
from fastresume.sources.opened import opened
from fastresume.sources.row_source import Segment
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa


class _Rows:
    """A table as a source of rows: its values are in no fingerprint."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def snapshot(self) -> str:
        """Nothing: no state is of it."""
        return ""

    def segments(self) -> list[Segment]:
        """The whole table."""
        return [Segment("messages", self._table.num_rows)]

    def schema(self) -> pa.Schema:
        """Its columns."""
        return self._table.schema

    def read(self, _segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        """Some of its rows."""
        return self._table.select(columns).slice(start, stop - start)


class RowFilter:
    """Which rows of a table a filter keeps.

    Args:
        given: a condition on `fr.col(name)`, terms as pyarrow has them, or an expression of pyarrow.
        schema: the columns of the tables.

    Raises:
        TypeError, ValueError, DataError: if it is no filter, or not one of these columns.
    """

    def __init__(self, given: object, schema: pa.Schema) -> None:
        self._given: Any = given
        self.kept(schema.empty_table())

    def kept(self, table: pa.Table) -> npt.NDArray[np.int64]:
        """The numbers of the rows that it keeps, in their order."""
        if is_of_arrow(self._given):
            numbers = arrow().array(np.arange(table.num_rows))
            found = table.append_column(_NUMBER, numbers).filter(self._given)
            return np.asarray(found.column(_NUMBER).to_numpy(), np.int64)
        manifest, _ = select_filtered(opened(_Rows(table)), self._given, None, [], [])
        selected = manifest.selected
        return np.arange(table.num_rows) if selected is None else of_runs(of_buffer(selected))

    def __str__(self) -> str:
        return str(self._given)


_NUMBER = "\0number"
