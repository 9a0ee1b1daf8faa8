"""From messages to rows: which message has which, and what happens to one that can't be decoded."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.kafka.client import Message
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
        return f"{self._value.text()}{kept}, bad_rows={self._bad_rows}"

    def chunk(self, messages: Sequence[Message]) -> Chunk:
        """The rows of messages of one partition. Messages without a value have none.

        Raises:
            DataError: naming the topic, the partition and the offset of one that can't be decoded.
        """
        given = [message for message in messages if message.value is not None]
        values = [message.value for message in given if message.value is not None]
        table, counts = self._rows(given, values)
        has_rows = counts > 0
        return Chunk(
            np.array([message.offset for message in given], np.int64)[has_rows],
            counts[has_rows],
            np.array([message.time for message in given], np.int64)[has_rows],
            table,
            sum(map(len, values)),
        )

    def _rows(self, given: Sequence[Message], values: list[bytes]) -> tuple[pa.Table, Numbers]:
        if not values:
            return self.schema.empty_table(), np.zeros(0, np.int64)
        try:
            return self._decoded(values)
        except _core.SourceError:  # of a registry: the messages may be good
            raise
        except Exception as cause:  # noqa: BLE001  (a decoder may raise anything)
            if len(values) == 1:
                return self._bad(given[0], cause)
        tables, counts = [], []
        for message, value in zip(given, values, strict=True):  # one of them is bad: which?
            table, count = self._rows([message], [value])
            tables.append(table)
            counts.append(count)
        return arrow().concat_tables(tables), np.concatenate(counts)

    def _decoded(self, values: list[bytes]) -> tuple[pa.Table, Numbers]:
        table, counts = self._value.decoded(values)
        # One piece for each column: every later step costs by pieces.
        table = conformed(table, self.schema).combine_chunks()
        table.validate()
        if self._filter is None:
            return table, counts
        kept = self._filter.kept(table)
        of = np.repeat(np.arange(len(counts)), counts)[kept]
        return table.take(kept), np.bincount(of, minlength=len(counts)).astype(np.int64)

    def _bad(self, message: Message, cause: Exception) -> tuple[pa.Table, Numbers]:
        where = f"message {message.offset} of {message.part}"
        told = bounded(f"{type(cause).__name__}: {cause}")
        if self._bad_rows == "skip":
            _log.warning("skips %s, which can't be decoded as %r: %s", where, self._value, told)
            return self.schema.empty_table(), np.zeros(1, np.int64)
        raise _core.DataError(
            f"{where} can't be decoded as {self._value!r}: {told}. Write bad_rows='skip' to leave "
            "it out, or value= for what the message is"
        ) from cause


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
