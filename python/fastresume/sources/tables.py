"""Tables in memory as a source of rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import fastresume._core as _core
from fastresume.options.checks import quoted, table_of
from fastresume.sources.part import Part, groups
from fastresume.sources.schema import arrow, footer_of, hash_of, schema_of

if TYPE_CHECKING:
    import pyarrow as pa


WAYS = (
    ("collect", "frame.collect()"),
    ("read_row_group", "fr.ParquetDataset(path)"),
    ("files", "fr.ParquetDataset(dataset.files), or fr.ArrowDataset(dataset.files) of Arrow's"),
    ("to_table", ".to_table() of it"),
    ("get_batch", ".read_all() of it"),
    ("read", "its path, or pyarrow.ipc.open_file(file).read_all()"),
    ("decode", "pyarrow.ipc.open_file(content).read_all(), or open_stream"),
    ("to_pybytes", "pyarrow.ipc.open_file(content).read_all(), or open_stream"),
    ("__iter__", "list(tables)"),
)
"""What to write instead of what has no columns yet, by what it has."""


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
            DataError: if their columns differ, or one has Python objects.
        """
        pyarrow = arrow()
        are_several = isinstance(source, Sequence) and not isinstance(source, str | bytes | bytearray)
        each = list(source) if are_several else [source]
        if not each:
            raise ValueError("the source has no table: pass at least one")
        if all(isinstance(one, pyarrow.RecordBatch) for one in each):
            each = [pyarrow.Table.from_batches(each)]
        tables = [_table(one) for one in each]
        is_stream = isinstance(each[0], pyarrow.RecordBatchReader)
        if is_stream and not any(table.num_rows for table in tables):
            raise ValueError(
                "the stream has no rows left, and it is read once: write table = reader.read_all() before "
                "anything reads it, and pass the table"
            )
        schema = schema_of(tables[0].schema)
        for number, table in enumerate(tables):
            if not table.schema.equals(schema):
                differs = _difference(table.schema, schema)
                way = _concat(each[number]) or _joined(pyarrow, schema, table.schema)
                raise _core.DataError(f"table {number} has other columns than table 0: {differs}: {way}")
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
    reader = None
    if hasattr(given, "__arrow_c_stream__"):
        _check_objects(given)
    try:
        if hasattr(given, "__arrow_c_stream__"):
            reader = pyarrow.RecordBatchReader.from_stream(given)
        elif hasattr(given, "__arrow_c_array__"):
            return pyarrow.Table.from_batches([pyarrow.record_batch(given)])
    except MemoryError:  # that of Arrow is an ArrowException, too
        raise
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        kind = type(given).__name__
        if not hasattr(given, "columns"):
            raise TypeError(
                f"source must have columns, and {kind} has none: write pyarrow.table({{'x': values}})"
            ) from None
        text = " ".join(map(str, error.args))
        if "1-dimensional array" in text:  # of arrays of arrays
            text += ": write frame[name].map(lambda array: array.tolist())"
        raise TypeError(f"Arrow has no columns of what this {kind} holds: {text}") from None
    if reader is not None:
        # It is read once, and kept: some streams can't be read again.
        return reader.read_all()
    if isinstance(given, str | os.PathLike):
        raise TypeError(f"source names both tables and the path {quoted(str(given))}: name one kind")
    raise TypeError(
        "source must be a pyarrow.Table, RecordBatches, a polars DataFrame, paths of Arrow files, a "
        "fastresume.sources.RowSource or anything with __arrow_c_stream__, found "
        f"{quoted(given)}{_hint(given)}"
    )


def _check_objects(given: Any) -> None:
    """Refuses columns of Python objects: polars hands over their addresses in memory."""
    schema = getattr(given, "schema", None)
    if not isinstance(schema, Mapping) or not type(given).__module__.startswith("polars"):
        return
    for name, dtype in schema.items():
        if str(dtype) == "Object":
            raise _core.DataError(
                f"the column {quoted(name)} has Python objects, which are no values: leave it out, as "
                f"frame.drop({quoted(name)}), or make strings or numbers of them"
            )


def _hint(given: Any) -> str:
    """What to write instead of what has no columns yet."""
    if type(given).__module__.partition(".")[0] == "datasets":
        return ": write fr.ArrowDataset(datasets.concatenate_datasets([dataset, other]), batch_size=n)"
    if isinstance(given, Mapping):
        return ": write pyarrow.table(columns), or pyarrow.Table.from_pylist([row, ...])"
    if isinstance(given, list | tuple):
        if not given or isinstance(given[0], str | int | float | list | tuple):
            return ": write pyarrow.table({'x': values}) of the whole list"
        return ": write one flat list of tables, as [*tables, *others]"
    if isinstance(given, int | float | bool):
        return ": write pyarrow.table({'x': values}) of the list"
    way = table_of(given) or next((way for name, way in WAYS if hasattr(given, name)), None)
    return "" if way is None else f": write {way}"


def _difference(found: Any, expected: Any) -> str:
    """In what the columns of two tables differ, in words."""
    for field in expected:
        if field.name not in found.names:
            return f"it lacks {quoted(field.name)}"
        if (other := found.field(field.name)) != field:
            found_type, own_type = (f"{one.type}{' not null' * (not one.nullable)}" for one in (other, field))
            return f"{quoted(field.name)} is {found_type} there, and {own_type} in table 0"
    more = [name for name in found.names if name not in expected.names]
    return f"it has {quoted(more[0])}, too" if more else f"their order is {quoted(found.names)}"


def _concat(given: Any) -> str | None:
    """What to write to make one frame of several whose columns differ; None of what is no frame."""
    ways = {
        "pandas": "pandas.concat(frames, ignore_index=True)",
        "polars": "polars.concat(frames, how='diagonal_relaxed')",
    }
    way = ways.get(type(given).__module__.partition(".")[0])
    return None if way is None else f"write {way}"


def _joined(pyarrow: Any, one: Any, other: Any) -> str:
    """What to write to make one table of two whose columns differ."""
    try:
        pyarrow.concat_tables([one.empty_table(), other.empty_table()], promote_options="permissive")
    except pyarrow.ArrowException as error:
        return f"cast one of them, as table.cast(schema) ({error})"
    return "write pyarrow.concat_tables(tables, promote_options='permissive')"
