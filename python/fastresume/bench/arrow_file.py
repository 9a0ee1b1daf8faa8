"""A file or a stream of Arrow, with the methods of pyarrow's `ParquetFile` that are used here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Self

MAGIC = b"ARROW1"
"""What a file begins with; a stream doesn't."""


class ArrowFile:
    """One file or stream, whose record batches are its row groups.

    Args:
        source: a `pyarrow.NativeFile`: a memory map, or an object of a store. It is closed with this.

    Examples:
        >>> import pyarrow as pa
        >>> sink = pa.BufferOutputStream()
        >>> with pa.ipc.new_stream(sink, pa.schema({"x": pa.int64()})) as writer:
        ...     writer.write_table(pa.table({"x": [1, 2, 3]}), max_chunksize=2)
        >>> with ArrowFile(pa.BufferReader(sink.getvalue())) as file:
        ...     [file.read_row_group(group, columns=["x"]).num_rows for group in range(file.num_row_groups)]
        [2, 1]
    """

    def __init__(self, source: Any) -> None:
        self._ipc = importlib.import_module("pyarrow").ipc
        self._source = source
        self.is_stream = source.read(len(MAGIC)) != MAGIC
        source.seek(0)
        self._file = None if self.is_stream else self._ipc.open_file(source)
        self._batches: Iterator[Any] = iter(())
        self._next = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()

    @property
    def schema_arrow(self) -> Any:
        """Its columns."""
        return self._opened().schema

    @property
    def num_row_groups(self) -> int:
        """The number of its record batches; those of a stream are counted by their messages."""
        if self._file is not None:
            return int(self._file.num_record_batches)
        self._next = -1
        self._source.seek(0)
        messages = self._ipc.MessageReader.open_stream(self._source)
        return sum(message.type == "record batch" for message in messages)

    def read_row_group(self, number: int, columns: Sequence[str], use_threads: bool = False) -> Any:
        """The table of a record batch. Of a stream, those before it are read, too, but not twice in a row."""
        del use_threads
        arrow = importlib.import_module("pyarrow")
        if self._file is not None:
            batch = self._file.get_batch(number)
        else:
            if self._next < 0 or number < self._next:
                self._batches, self._next = iter(self._opened()), 0
            for _ in range(number - self._next):
                next(self._batches)
            batch, self._next = next(self._batches), number + 1
        return arrow.Table.from_batches([batch]).select(list(columns))

    def iter_batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """All record batches."""
        for group in range(self.num_row_groups):
            yield from self.read_row_group(group, columns).to_batches()

    def _opened(self) -> Any:
        if self._file is not None:
            return self._file
        self._next = -1
        self._source.seek(0)
        return self._ipc.open_stream(self._source)
