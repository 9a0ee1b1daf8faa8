"""What the values of messages are, and the rows in them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.options.checks import quoted
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

Counts = npt.NDArray[np.int64]


class Decoded(NamedTuple):
    """The rows of several values, one after another, and how many each has."""

    table: pa.Table
    counts: Counts


class Value(ABC):
    """What the values of messages are.

    Attributes:
        schema: the columns of the rows; None if the first message tells them.
    """

    schema: pa.Schema | None = None

    def learn(self, topics: Sequence[str]) -> object:  # noqa: ARG002  (most need nothing)
        """What one rank asks others than the brokers for, and tells all ranks; None for nothing."""
        return None

    def know(self, learned: object) -> None:  # noqa: B027  (most need nothing)
        """Takes what `learn` found on one rank."""

    @abstractmethod
    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values, in their columns or others.

        Raises:
            Exception: of any type, if one can't be decoded.
        """

    @abstractmethod
    def text(self) -> str:
        """What it is, in words that differ if rows do."""


class ArrowIPC(Value):
    """Each value is Arrow IPC: a stream, a file, or one record batch whose schema is given.

    A value may have any number of rows.

    Args:
        schema: the columns; by default those of the first message. Needed if the topic is empty, or if
            values are record batches alone.

    Examples:
        >>> ArrowIPC()
        ArrowIPC()
    """

    def __init__(self, schema: pa.Schema | None = None) -> None:
        self.schema = _checked_schema(schema)

    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values."""
        pyarrow = arrow()
        # Values of one writer begin with the same bytes, which tell the schema: it is parsed once.
        head, counts = b"", list[int]()
        runs: list[tuple[pa.Schema, list[pa.RecordBatch]]] = []
        for value in values:
            batch = _only_batch(value, len(head), runs[-1][0]) if head and value.startswith(head) else None
            if batch is not None:
                batches = [batch]
            else:
                table = self._table(value)
                head, batches = _head(value, table.schema), table.to_batches()
                runs.append((table.schema, []))
            runs[-1][1].extend(batches)
            counts.append(sum(each.num_rows for each in batches))
        schema = runs[0][0] if self.schema is None else self.schema
        tables = [conformed(pyarrow.Table.from_batches(batches, of), schema) for of, batches in runs]
        return Decoded(pyarrow.concat_tables(tables), np.array(counts, np.int64))

    def _table(self, value: bytes) -> pa.Table:
        pyarrow = arrow()
        if value.startswith(b"ARROW1"):
            with pyarrow.ipc.open_file(value) as file:
                return file.read_all()
        if self.schema is not None and pyarrow.ipc.read_message(value).type == "record batch":
            return pyarrow.Table.from_batches([pyarrow.ipc.read_record_batch(value, self.schema)])
        with pyarrow.ipc.open_stream(value) as stream:
            return stream.read_all()

    def text(self) -> str:
        """What it is."""
        return "ArrowIPC"

    def __repr__(self) -> str:
        return "ArrowIPC()" if self.schema is None else f"ArrowIPC(schema of {len(self.schema)} columns)"


_MESSAGE = b"\xff\xff\xff\xff"
_ENDS = (b"", _MESSAGE + bytes(4), bytes(4))
"""What is after the last message of an IPC stream."""


def _head(value: bytes, schema: pa.Schema) -> bytes:
    """The bytes of a value's schema; none if dictionaries follow it, which are messages of their own."""
    if not value.startswith(_MESSAGE) or any(map(_has_dictionary, schema.types)):
        return b""
    return value[: 8 + int.from_bytes(value[4:8], "little")]


def _has_dictionary(of: pa.DataType) -> bool:
    return arrow().types.is_dictionary(of) or any(
        _has_dictionary(of.field(number).type) for number in range(of.num_fields)
    )


def _only_batch(value: bytes, head: int, schema: pa.Schema) -> pa.RecordBatch | None:
    """The batch after the schema, if there is just one."""
    ipc, source = arrow().ipc, arrow().BufferReader(value)
    source.seek(head)
    if value[head : head + 8] in _ENDS:
        return None
    message = ipc.read_message(source)
    if message.type != "record batch" or value[source.tell() :] not in _ENDS:
        return None
    return ipc.read_record_batch(message, schema)


class JSON(Value):
    """Each value is a JSON object, which is a row, or a list of objects.

    Keys without a column are ignored, and columns without a key are null.

    Args:
        schema: the columns, as a `pyarrow.Schema`.

    Examples:
        >>> import pyarrow as pa
        >>> JSON(pa.schema([("user", pa.int64())]))
        JSON(schema of 1 columns)
    """

    def __init__(self, schema: pa.Schema) -> None:
        if schema is None:
            raise TypeError("JSON needs a schema: write fr.kafka.JSON(pa.schema([('user', pa.int64())]))")
        self.schema: pa.Schema = _checked_schema(schema)

    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values."""
        rows, counts = [], []
        for value in values:
            found = json.loads(value)
            each = found if isinstance(found, list) else [] if found is None else [found]
            if any(not isinstance(row, dict) for row in each):
                raise ValueError(f"a row must be a JSON object, found {quoted(found)}")
            rows += each
            counts.append(len(each))
        table = arrow().Table.from_pylist(rows, schema=self.schema)
        return Decoded(table, np.array(counts, np.int64))

    def text(self) -> str:
        """What it is."""
        return "JSON"

    def __repr__(self) -> str:
        return f"JSON(schema of {len(self.schema)} columns)"


class Called(Value):
    """What a function makes of values: a row for each, or a list with the rows of each."""

    def __init__(self, function: Callable[[list[bytes]], Any]) -> None:
        self._function = function

    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values."""
        pyarrow = arrow()
        made = self._function(list(values))
        if isinstance(made, list):
            if len(made) != len(values):
                raise ValueError(f"the function returned {len(made)} tables for {len(values)} values")
            tables = [_table(one) for one in made]
            schema = tables[0].schema if self.schema is None else self.schema
            table = pyarrow.concat_tables([conformed(one, schema) for one in tables])
            return Decoded(table, np.array([one.num_rows for one in tables], np.int64))
        table = _table(made)
        if table.num_rows != len(values):
            raise ValueError(
                f"the function returned {table.num_rows} rows for {len(values)} values: return one row for "
                "each value, or a list with a table for each value"
            )
        return Decoded(table, np.ones(len(values), np.int64))

    def text(self) -> str:
        """What it is."""
        return f"function {getattr(self._function, '__qualname__', 'of values')}"

    def __repr__(self) -> str:
        return self.text()


def value_of(given: object) -> Value:
    """What the user says of values.

    Raises:
        TypeError: if it is nothing of the kind.
    """
    if given is None:
        return ArrowIPC()
    if isinstance(given, Value):
        return given
    if isinstance(given, type) and issubclass(given, Value):
        raise TypeError(f"value must be an instance: write value=fr.kafka.{given.__name__}(...)")
    if callable(given):
        return Called(given)
    raise TypeError(
        "value must be fr.kafka.ArrowIPC(), fr.kafka.Avro(...), fr.kafka.JSON(schema) or a function of a "
        "list of bytes, "
        f"found {quoted(given)}"
    )


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table in the columns of a schema, without others.

    Raises:
        DataError: if a column is missing, or its values don't fit the type.
    """
    if table.schema.equals(schema):
        return table
    if missing := [name for name in schema.names if name not in table.schema.names]:
        raise _core.DataError(f"there is no column '{missing[0]}', found {quoted(table.schema.names)}")
    table = table.select(schema.names)
    return table if table.schema.equals(schema) else table.cast(schema)


def _table(made: Any) -> pa.Table:
    pyarrow = arrow()
    if isinstance(made, pyarrow.Table):
        return made
    if hasattr(made, "__arrow_c_stream__"):
        return pyarrow.table(made)
    if hasattr(made, "__arrow_c_array__"):
        return pyarrow.Table.from_batches([pyarrow.record_batch(made)])
    raise TypeError(f"the function must return a pyarrow.Table, found {quoted(made)}")


def _checked_schema(given: Any) -> Any:
    if given is not None and not isinstance(given, arrow().Schema):
        raise TypeError(f"schema must be a pyarrow.Schema, found {quoted(given)}")
    return given
