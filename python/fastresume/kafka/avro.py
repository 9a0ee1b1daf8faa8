"""Messages of Avro, with a schema that a registry has or that is given."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.kafka.avro_columns import columns_of, with_logical
from fastresume.kafka.registry import Registry, Written
from fastresume.kafka.values import HEAD_BYTES, Decoded, Value, conformed
from fastresume.options.checks import quoted
from fastresume.options.unknown import takes_no_other
from fastresume.packages import optional
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_AS_WRITTEN = {"uuid": None}
"""Uuids are the strings or bytes that they are written as."""

_IN_MICROS = {
    name: name.replace("millis", "micros") for name in ("timestamp-millis", "local-timestamp-millis")
}
"""The times that fastavro gives in microseconds, also where milliseconds were written."""


class _Reader(NamedTuple):
    """The schema that rows are read in: its number, if a registry has it, and what fastavro made of it."""

    id: int | None
    parsed: Any


@takes_no_other("fr.kafka.Avro", "value")
class Avro(Value):
    """Each value is a row: an Avro record.

    With a registry a value is what Confluent's serializers write: a zero byte, four bytes with the number of
    a schema, and the record. Rows have the columns of one schema: `schema`, or the latest of the subject when
    the dataset is made. Records of other schemas are resolved to it as Avro says. A schema that is newer
    and lost a column is an error, also where the column has a default.

    Args:
        registry: the address of a schema registry, "https://registry:8081"; "user:password@" may be before
            the host. None for values that are bare records of `schema`.
        schema: the Avro schema of the rows, as JSON text or as what `json.loads` makes of it.
        subject: whose latest schema is taken; by default "topic-value" of the first topic.
        auth: a user and a password for the registry, if its address has none.

    Raises:
        TypeError, ValueError: if neither a registry nor a schema is given, or one is none.
        ImportError: if fastavro is not installed.

    Examples:
        >>> Avro(registry="https://reader:secret@registry:8081")
        Avro('https://registry:8081')
        >>> Avro(schema={"type": "record", "name": "Click", "fields": [{"name": "user", "type": "long"}]})
        Avro(schema of 1 columns)
    """

    def __init__(
        self,
        registry: str | None = None,
        *,
        schema: str | Mapping[str, Any] | None = None,
        subject: str | None = None,
        auth: tuple[str, str] | None = None,
    ) -> None:
        _fastavro()
        if registry is None and schema is None:
            raise TypeError(
                "Avro needs a registry or a schema: write fr.kafka.Avro(registry='https://registry:8081'), "
                "or fr.kafka.Avro(schema=...) for records without the number of a schema"
            )
        if registry is None and (subject is not None or auth is not None):
            raise TypeError("subject= and auth= are of a registry: write registry=, too, or leave them out")
        if schema is not None and subject is not None:
            raise TypeError("schema= says what subject= would ask the registry for: leave one out")
        self._registry = None if registry is None else Registry(registry, auth)
        self._subject = subject
        self._reader: _Reader | None = None
        self._read_schema: pa.Schema | None = None
        self._writers: dict[int, Any] = {}
        if schema is not None:
            self._read_in(None, _parsed_argument(schema))

    def _learn(self, topics: Sequence[str]) -> object:
        """The latest schema of the subject, if none is given.

        Raises:
            DataError: if the registry has none.
            SourceError: if the registry refuses, or does not answer.
        """
        if self._reader is not None or self._registry is None:
            return None
        subject = self._subject or f"{topics[0]}-value"
        try:
            return self._registry.latest(subject)
        except _core.DataError as error:
            raise _core.DataError(f"{error}: write subject=, or schema= for the columns") from None

    def _know(self, learned: object) -> None:
        """Reads rows in the columns of what `_learn` found."""
        if isinstance(learned, Written):
            self._read_in(learned.id, _parsed(learned))

    def _read_in(self, number: int | None, parsed: Any) -> None:
        self._reader = _Reader(number, parsed)
        self.schema = columns_of(parsed)
        # What was written in microseconds is read so, and then cast: Arrow would cut it off.
        self._read_schema = columns_of(with_logical(parsed, _IN_MICROS))

    def decoded(self, values: Sequence[bytes]) -> Decoded:
        """The rows of values: one each."""
        rows = [self._row(value) for value in values]
        table = arrow().Table.from_pylist(rows, schema=self._read_schema)
        if self.schema is not None:
            table = conformed(table, self.schema)
        return Decoded(table, np.ones(len(values), np.int64))

    def _row(self, value: bytes) -> Any:
        if self._reader is None:
            raise _core.FastresumeError("the schema of rows was not asked for yet")
        source = io.BytesIO(value)
        writer, reader = self._reader.parsed, None
        if self._registry is not None:
            if len(value) < HEAD_BYTES or value[0]:
                raise _core.DataError(
                    f"a value must begin with a zero byte and the number of a schema, found "
                    f"{quoted(value[:5])}: write fr.kafka.Avro(schema=...) for records without them"
                )
            number = int.from_bytes(source.read(HEAD_BYTES)[1:], "big")
            if number != self._reader.id:
                writer, reader = self._writer(number, self._registry, self._reader), self._reader.parsed
        row = _fastavro().schemaless_reader(source, writer, reader)
        if left := len(value) - source.tell():
            raise _core.DataError(
                f"{plural(left, 'byte')} left after the record: it was written with another schema"
            )
        return row

    def _writer(self, number: int, registry: Registry, reader: _Reader) -> Any:
        """The schema of a number, asked for once.

        Raises:
            DataError: if it has not the columns of rows.
        """
        if number not in self._writers:
            self._writers[number] = _parsed(registry.schema(number))
        parsed = self._writers[number]
        found = [field["name"] for field in parsed.get("fields", ())]
        is_newer = reader.id is not None and number > reader.id
        for field in reader.parsed["fields"]:
            has_value = {field["name"], *field.get("aliases", ())} & {*found}
            if not has_value and (is_newer or "default" not in field):
                raise _core.DataError(
                    f"schema {number} has no column '{field['name']}', found {quoted(found)}: write schema= "
                    "with the columns that all messages have, or with a default for this one"
                )
        return parsed

    def _text(self) -> str:
        """What it is."""
        return "Avro"

    def __repr__(self) -> str:
        if self._registry is not None:
            return f"Avro({self._registry.address!r})"
        return f"Avro(schema of {plural(len(self.schema or ()), 'column')})"


def _fastavro() -> Any:
    return optional("fastavro", "fr.kafka.Avro", "'fastresume[kafka]'")


def _parsed(written: Written) -> Any:
    """What fastavro makes of a schema and those that it refers to."""
    names: dict[str, Any] = {}
    for text in written.references:
        _parsed_in(names, json.loads(text))
    return _parsed_in(names, json.loads(written.text))


def _parsed_argument(schema: object) -> Any:
    """What fastavro makes of a user's schema.

    Raises:
        TypeError, ValueError: if it is none.
    """
    if not isinstance(schema, (str, Mapping)):
        raise TypeError(f"schema must be an Avro schema, as JSON text or a dict, found {quoted(schema)}")
    try:
        return _parsed_in({}, json.loads(schema) if isinstance(schema, str) else dict(schema))
    except Exception as error:
        raise ValueError(f"schema is no Avro schema: {type(error).__name__}: {error}") from error


def _parsed_in(names: dict[str, Any], schema: object) -> Any:
    return _fastavro().parse_schema(with_logical(schema, _AS_WRITTEN), named_schemas=names)
