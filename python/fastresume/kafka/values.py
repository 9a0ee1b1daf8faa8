"""What the values of messages are, and the rows in them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

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
        tables = [self._table(value) for value in values]
        counts = np.array([table.num_rows for table in tables], np.int64)
        schema = tables[0].schema if self.schema is None else self.schema
        return Decoded(pyarrow.concat_tables([conformed(table, schema) for table in tables]), counts)

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


class Avro(Value):
    """Not there yet: the error says what to write.

    Args:
        registry: the address of a schema registry.
    """

    def __init__(self, registry: object = None) -> NoReturn:
        raise NotImplementedError(
            "fr.kafka.Avro is not there yet: pass a function, as value=lambda values: "
            "pa.Table.from_pylist([fastavro.schemaless_reader(io.BytesIO(value[5:]), schema) "
            "for value in values])"
        )

    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """There is none."""
        raise NotImplementedError

    def text(self) -> str:
        """What it is."""
        return "Avro"


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
        "value must be fr.kafka.ArrowIPC(), fr.kafka.JSON(schema) or a function of a list of bytes, "
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
