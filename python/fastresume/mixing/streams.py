"""The rows of a source, one after another, for the lanes of a mixture."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.batch.schema import Tensors
from fastresume.buffers import of_runs
from fastresume.reading.files_spec import FilesSpec


class Piece(NamedTuple):
    """Some rows of a source.

    Args:
        tensors: their tensors.
        rows: their row numbers, int64 `[n]`; of packed sequences, those of all their documents.
        offsets: where the documents of each sequence begin, then their number; None of rows.
    """

    tensors: Tensors
    rows: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64] | None

    @property
    def size(self) -> int:
        """How many rows, or sequences, there are."""
        return len(self.rows) if self.offsets is None else len(self.offsets) - 1

    def part(self, start: int, end: int) -> Piece:
        """Those at the places `[start, end)`."""
        tensors = {name: value[start:end] for name, value in self.tensors.items()}
        if self.offsets is None:
            return Piece(tensors, self.rows[start:end], None)
        offsets = self.offsets[start : end + 1]
        return Piece(tensors, self.rows[offsets[0] : offsets[-1]], offsets - offsets[0])


class Stream:
    """The rows of one pass of a source from a cursor on, in its order, as many at a time as are asked for.

    Args:
        spec: what the source reads.
        cursor: where the rows begin.
        chunk_rows: so many rows are decoded in one go.
        threads, prefetch_bytes: threads that decode ahead, and how many bytes; none without threads.
    """

    def __init__(
        self, spec: FilesSpec, cursor: _core.Cursor, chunk_rows: int, threads: int, prefetch_bytes: int
    ) -> None:
        planned = _core.Pass(cursor, (1, 1, chunk_rows), "short", 1)
        self._spec = spec
        self._reader = spec.reader(cursor, planned, (0, 1, 0, 1), threads, prefetch_bytes)
        self._chunk: Piece | None = None
        self._given = 0

    @property
    def activity(self) -> Any:
        """What its reader is doing."""
        return self._reader.activity

    def take(self, count: int) -> list[Piece]:
        """The next rows; fewer only where the pass ends."""
        pieces = []
        while count and (chunk := self._chunk or self._next_chunk()) is not None:
            begin = self._given
            end = min(begin + count, chunk.size)
            pieces.append(chunk.part(begin, end))
            count -= end - begin
            self._given = end
            if end == chunk.size:
                self._chunk = None
        return pieces

    def close(self) -> None:
        """Ends the threads, and closes the files."""
        self._reader.close()

    def _next_chunk(self) -> Piece | None:
        delivered: Any = self._reader.front()
        if delivered is None:
            return None
        batch = self._spec.batch(delivered, delivered.cursor, None)
        units = batch._origin.units
        offsets = None if units is None else units.offsets
        self._chunk, self._given = Piece(batch._tensors, of_runs(batch._origin.runs), offsets), 0
        self._reader.advance()
        return self._chunk
