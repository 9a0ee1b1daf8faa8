"""What the values of messages are, and the rows in them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.kafka.json_columns import JsonColumns
from fastresume.options.checks import quoted
from fastresume.options.unknown import takes_no_other
from fastresume.sources.exact_cast import exactly_cast
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

Counts = npt.NDArray[np.int64]

HEAD_BYTES = 5
"""A zero byte, and the number of a schema: so begins what the serializers of a schema registry write."""


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

    def _learn(self, topics: Sequence[str]) -> object:  # noqa: ARG002  (most need nothing)
        """What one rank asks others than the brokers for, and tells all ranks; None for nothing."""
        return None

    def _know(self, learned: object) -> None:  # noqa: B027  (most need nothing)
        """Takes what `_learn` found on one rank."""

    @abstractmethod
    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values, in their columns or others.

        Raises:
            Exception: of any type, if one can't be decoded.
        """

    @abstractmethod
    def _text(self) -> str:
        """What it is, in words that differ if rows do."""


@takes_no_other("fr.kafka.ArrowIPC", "value")
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
        self._known: _Known | None = None

    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values."""
        pyarrow = arrow()
        # Values of one writer begin with the same bytes, which tell the schema: it is parsed once.
        head, counts, before = b"", list[int](), b""
        alike: _Alike | None = None
        runs: list[tuple[pa.Schema, list[pa.RecordBatch]]] = []
        known = self._known
        if known is not None and values[0].startswith(known.head):
            head, runs = known.head, [(known.schema, [])]
            alike = None if known.form is None else _Alike(known.form, [])
        for value in values:
            if alike is not None and alike.form.fits(value):
                alike.values.append(value)
                counts.append(alike.form.rows)
                continue
            if alike is not None:
                runs[-1][1].extend(alike.batches())
            batch = _only_batch(value, len(head), runs[-1][0]) if head and value.startswith(head) else None
            if batch is not None:
                batches = [batch]
            else:
                table = self._table(value)
                head, batches = _head(value, table.schema), table.to_batches()
                runs.append((table.schema, []))
            # The next one may be of its form, if it is of that of the one before.
            is_other = len(value) != len(before)
            form = None if batch is None or is_other else _Form.of(value, len(head), batch)
            alike, before = None if form is None else _Alike(form, []), value
            runs[-1][1].extend(batches)
            counts.append(sum(each.num_rows for each in batches))
        if alike is not None:
            runs[-1][1].extend(alike.batches())
        self._known = _Known(head, runs[-1][0], None if alike is None else alike.form) if head else None
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

    def _text(self) -> str:
        """What it is."""
        return "ArrowIPC"

    def __repr__(self) -> str:
        columns = "" if self.schema is None else f"schema of {plural(len(self.schema), 'column')}"
        return f"ArrowIPC({columns})"


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


class _Known(NamedTuple):
    """How the last values began, their schema, and the form of the last one."""

    head: bytes
    schema: pa.Schema
    form: _Form | None


class _Form(NamedTuple):
    """Where numbers lie in a value: at the same places in all values that begin and end alike.

    Attributes:
        prefix: what is before the columns: it tells rows, types and places.
        suffix: what is after them.
        length: of the whole value, in bytes.
        rows: how many it has.
        schema: the columns.
        places: of each column, its first byte, and how many it has.
    """

    prefix: bytes
    suffix: bytes
    length: int
    rows: int
    schema: pa.Schema
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, value: bytes, head: int, batch: pa.RecordBatch) -> _Form | None:
        """The form of a value; None if columns are no numbers, have nulls, or are compressed."""
        types, begin = arrow().types, arrow().py_buffer(value).address
        places = []
        for column in batch.columns:
            if not types.is_primitive(column.type) or column.type.bit_width % 8:
                return None
            validity, data = column.buffers()
            size = batch.num_rows * column.type.bit_width // 8
            if validity is not None or data is None or column.offset or not size:
                return None
            first = data.address - begin
            if first < head or first + size > len(value):  # it was decompressed
                return None
            places.append((first, size))
        if not places:
            return None
        body = min(first for first, _ in places)
        end = max(first + size for first, size in places)
        return cls(value[:body], value[end:], len(value), batch.num_rows, batch.schema, places)

    def fits(self, value: bytes) -> bool:
        """Whether a value has this form."""
        return len(value) == self.length and value.startswith(self.prefix) and value.endswith(self.suffix)


class _Alike(NamedTuple):
    """Values of one form, one after another."""

    form: _Form
    values: list[bytes]

    def batches(self) -> list[pa.RecordBatch]:
        """Their rows, if there are values: each column is copied for all of them at once."""
        pyarrow, form, count = arrow(), self.form, len(self.values)
        if not count:
            return []
        joined = np.frombuffer(b"".join(self.values), np.uint8).reshape(count, form.length)
        columns = []
        for of, (first, size) in zip(form.schema.types, form.places, strict=True):
            data = pyarrow.py_buffer(np.ascontiguousarray(joined[:, first : first + size]))
            columns.append(pyarrow.Array.from_buffers(of, count * form.rows, [None, data], 0))
        return [pyarrow.RecordBatch.from_arrays(columns, schema=form.schema)]


@takes_no_other("fr.kafka.JSON", "value")
class JSON(Value):
    """Each value is a JSON object, which is a row, or a list of objects.

    A value that its type can't have, such as 1.7 of an int64, is an error: decimals in a column of floats
    alone are rounded, to the nearest one. So is a row that lacks a column. Keys without a column are ignored.
    A time is a text in ISO 8601, or a number in the unit of the schema.

    Args:
        schema: the columns, as a `pyarrow.Schema`.
        optional: the columns that a row may lack: they are null there. They are names or patterns, as
            "meta.city" for a field in an object, or "*" for all.

    Examples:
        >>> import pyarrow as pa
        >>> JSON(pa.schema([("user", pa.int64())]))
        JSON(schema of 1 columns)
    """

    def __init__(self, schema: pa.Schema, *, optional: str | Sequence[str] = ()) -> None:
        if schema is None:
            raise TypeError("JSON needs a schema: write fr.kafka.JSON(pa.schema([('user', pa.int64())]))")
        self.schema: pa.Schema = _checked_schema(schema)
        self._columns = JsonColumns(self.schema, optional)

    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values; None, as of a deleted key, has none.

        Raises:
            DataError: for a value that is no JSON, or whose rows the columns can't have; it is named.
            TypeError: if they are no list of bytes.
        """
        _check_list(values)
        rows: list[dict[str, Any]] = []
        counts = []
        for number, value in enumerate(values):
            each = self._objects(value, "" if len(values) == 1 else f"value {number}: ")
            rows += each
            counts.append(len(each))
        try:
            table = self._columns.table(rows)
        except _core.DataError:
            self._find_bad(rows, np.repeat(np.arange(len(values)), counts))
            raise
        return Decoded(table, np.array(counts, np.int64))

    def _objects(self, value: object, where: str) -> list[dict[str, Any]]:
        """The rows of one value."""
        if not isinstance(value, bytes | None):
            raise TypeError(f"{where}a value must be bytes, found {quoted(value)}: write text.encode()")
        try:
            found = None if value is None else self._columns.parsed(value)
        except ValueError as error:
            way = ""
            if value and value[:1] == b"\0" and value[HEAD_BYTES:].lstrip()[:1] in (b"{", b"["):
                way = "; it begins with the header of a schema registry: write value=a function of "
                way += f"value[{HEAD_BYTES}:]"
            elif value and b"}" in value[:-1] and value.lstrip().startswith(b"{"):
                way = "; a message has one object, or a list of objects: [{...}, {...}]"
            raise _core.DataError(f"{where}it is no JSON ({error}){way}") from error
        rows = found if isinstance(found, list) else [] if found is None else [found]
        if any(not isinstance(row, dict) for row in rows):
            raise _core.DataError(f"{where}a row must be a JSON object, found {quoted(found)}")
        return rows

    def _find_bad(self, rows: Sequence[dict[str, Any]], of: Counts) -> None:
        """Raises what is wrong with the first bad row, and says which of several values has it."""
        for row, number in zip(rows, of, strict=True):
            try:
                self._columns.table([row])
            except _core.DataError as error:
                where = "" if of[-1] == 0 else f"value {number}: "
                raise _core.DataError(f"{where}{error}") from error.__cause__

    def _text(self) -> str:
        """What it is."""
        return "JSON"

    def __repr__(self) -> str:
        return f"JSON(schema of {plural(len(self.schema), 'column')})"


def _check_list(values: object) -> None:
    if isinstance(values, bytes | str):
        raise TypeError(f"values must be a list of bytes, found {quoted(values)}: write [value]")


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
                raise ValueError(
                    f"the function returned {plural(len(made), 'table')} for {plural(len(values), 'value')}"
                )
            tables = [_table(one) for one in made]
            schema = tables[0].schema if self.schema is None else self.schema
            table = pyarrow.concat_tables([conformed(one, schema) for one in tables])
            return Decoded(table, np.array([one.num_rows for one in tables], np.int64))
        table = _table(made)
        if table.num_rows != len(values):
            raise ValueError(
                f"the function returned {plural(table.num_rows, 'row')} for {plural(len(values), 'value')}: "
                "return one row for each value, or a list with a table for each value"
            )
        return Decoded(table, np.ones(len(values), np.int64))

    def _text(self) -> str:
        """What it is."""
        return f"function {getattr(self._function, '__qualname__', 'of values')}"

    def __repr__(self) -> str:
        return self._text()


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
    batches = table.select(schema.names).combine_chunks().to_batches()
    return arrow().Table.from_batches([exactly_cast(batch, schema, _other_type) for batch in batches], schema)


def _other_type(name: str, found: pa.DataType, stated: pa.DataType, why: str) -> _core.DataError:
    return _core.DataError(
        f"values of {quoted(name)} are {found}, and no {stated}{why}. Cast them in the function given as "
        f"value=, or name {found} in the schema"
    )


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
