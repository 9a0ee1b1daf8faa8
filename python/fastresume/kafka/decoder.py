"""From messages to rows: which message has which, and what happens to one that can't be decoded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.kafka.client import Message
from fastresume.kafka.place import Part
from fastresume.kafka.row_filter import RowFilter
from fastresume.kafka.values import Value, conformed
from fastresume.messages import bounded
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("fastresume")

Numbers = npt.NDArray[np.int64]


class Chunk(NamedTuple):
    """Messages of a partition that have rows, one after another.

    Attributes:
        offsets: of the messages.
        counts: how many rows each has.
        times: of the messages, in milliseconds since 1970.
        table: the rows.
        bytes: of the values.
    """

    offsets: Numbers
    counts: Numbers
    times: Numbers
    table: pa.Table
    bytes: int


class Decoder:
    """Decodes messages into rows of one schema, those that a filter keeps.

    Args:
        value: what values are.
        schema: the columns.
        kept: which rows are kept; None keeps all rows.
        bad_rows: what happens to a message that can't be decoded: "error", or "skip" with a line in the log.
    """

    def __init__(
        self,
        value: Value,
        schema: pa.Schema,
        kept: RowFilter | None,
        bad_rows: Literal["error", "skip"],
    ) -> None:
        self._value = value
        self.schema = schema
        self._filter = kept
        self._bad_rows = bad_rows

    def text(self) -> str:
        """What decides which rows messages have, in words."""
        kept = "" if self._filter is None else f", filter {self._filter}"
        return f"{self._value._text()}{kept}, bad_rows={self._bad_rows}"

    def chunks(self, by_part: Mapping[Part, Sequence[Message]]) -> dict[Part, Chunk]:
        """The rows of messages of each partition. A filter is asked once for all of them.

        Raises:
            DataError: naming the topic, the partition and the offset of one that can't be decoded.
        """
        if self._filter is None or len(by_part) == 1:
            return {part: self.chunk(messages) for part, messages in by_part.items()}
        given = {part: _with_value(messages) for part, messages in by_part.items()}
        try:
            plain = {part: self._plain(values) for part, (_, values) in given.items()}
            kept = self._filter.kept(arrow().concat_tables([table for table, _ in plain.values()]))
        except _core.SourceError:
            raise
        except Exception:  # noqa: BLE001  (which message is it?)
            return {part: self.chunk(messages) for part, messages in by_part.items()}
        found, first = {}, 0
        for part, (table, counts) in plain.items():
            begin, end = np.searchsorted(kept, [first, first + table.num_rows])
            found[part] = _chunk(given[part], *_taken(table, counts, kept[begin:end] - first))
            first += table.num_rows
        return found

    def chunk(self, messages: Sequence[Message]) -> Chunk:
        """The rows of messages of one partition. Messages without a value have none.

        Raises:
            DataError: naming the topic, the partition and the offset of one that can't be decoded.
        """
        given = _with_value(messages)
        return _chunk(given, *self._rows(*given))

    def _rows(self, given: Sequence[Message], values: list[bytes]) -> tuple[pa.Table, Numbers]:
        try:
            table, counts = self._plain(values)
            if self._filter is None or not values:
                return table, counts
            return _taken(table, counts, self._filter.kept(table))
        except _core.SourceError:  # of a registry: the messages may be good
            raise
        except Exception as cause:  # noqa: BLE001  (a decoder may raise anything)
            if len(values) == 1:
                return self._bad(given[0], cause)
        tables, each = [], []
        for message, value in zip(given, values, strict=True):  # one of them is bad: which?
            table, count = self._rows([message], [value])
            tables.append(table)
            each.append(count)
        return arrow().concat_tables(tables), np.concatenate(each)

    def _plain(self, values: list[bytes]) -> tuple[pa.Table, Numbers]:
        """The rows of values, whatever a filter keeps."""
        if not values:
            return self.schema.empty_table(), np.zeros(0, np.int64)
        table, counts = self._value.decoded(values)
        # One piece for each column: every later step costs by pieces.
        table = conformed(table, self.schema).combine_chunks()
        table.validate()
        return table, counts

    def _bad(self, message: Message, cause: Exception) -> tuple[pa.Table, Numbers]:
        where = f"message {message.offset} of {message.part}"
        reason = bounded(f"{type(cause).__name__}: {cause}")
        if self._bad_rows == "skip":
            _log.warning("skips %s, which can't be decoded as %r: %s", where, self._value, reason)
            return self.schema.empty_table(), np.zeros(1, np.int64)
        raise _core.DataError(
            f"{where} can't be decoded as {self._value!r}: {reason}. Write bad_rows='skip' to leave "
            "it out, or value= for what the message is"
        ) from cause


def _with_value(messages: Sequence[Message]) -> tuple[list[Message], list[bytes]]:
    """The messages that have a value, and the values."""
    given = [message for message in messages if message.value is not None]
    return given, [message.value for message in given if message.value is not None]


def _taken(table: pa.Table, counts: Numbers, kept: Numbers) -> tuple[pa.Table, Numbers]:
    """The rows that are kept, and how many each message has of them."""
    of = np.repeat(np.arange(len(counts)), counts)[kept]
    return table.take(kept), np.bincount(of, minlength=len(counts)).astype(np.int64)


def _chunk(given: tuple[list[Message], list[bytes]], table: pa.Table, counts: Numbers) -> Chunk:
    messages, values = given
    has_rows = counts > 0
    return Chunk(
        np.array([message.offset for message in messages], np.int64)[has_rows],
        counts[has_rows],
        np.array([message.time for message in messages], np.int64)[has_rows],
        table,
        sum(map(len, values)),
    )


def found_schema(value: Value, first: Callable[[], Message | None], name: str) -> pa.Schema:
    """The columns of the rows: those that are named, or those of the first message.

    Raises:
        DataError: if the message can't be decoded.
        ValueError: if there is no message yet.
    """
    if value.schema is not None:
        return value.schema
    message = first()
    if message is None or message.value is None:
        raise ValueError(
            f"{name} has no message that tells the columns: name them, as value=fr.kafka.ArrowIPC(schema)"
        )
    try:
        return value.decoded([message.value]).table.schema
    except Exception as cause:
        raise _core.DataError(
            f"message {message.offset} of {message.part}, the first one, can't be decoded as {value!r}: "
            f"{bounded(f'{type(cause).__name__}: {cause}')}. Write value= for what messages are"
        ) from cause
