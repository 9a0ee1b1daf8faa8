"""The rows of a source, one after another, for the lanes of a mixture."""

from __future__ import annotations

from typing import Any

import fastresume._core as _core
from fastresume.batch.joining import Chunk, Piece
from fastresume.reading.files_spec import FilesSpec


class Stream:
    """The rows of one pass of a source from a cursor on, in its order, as many at a time as are asked for.

    Args:
        spec: what the source reads.
        cursor: where the rows begin.
        chunk_rows: so many rows are decoded in one go.
        threads: how many decode ahead.
        prefetch_bytes: how many bytes they decode ahead; none without threads.
    """

    def __init__(
        self, spec: FilesSpec, cursor: _core.Cursor, chunk_rows: int, threads: int, prefetch_bytes: int
    ) -> None:
        planned = _core.Pass(cursor, (1, 1, chunk_rows), "short", 1)
        self._spec = spec
        self._reader = spec.reader(cursor, planned, (0, 1, 0, 1), threads, prefetch_bytes)
        self._chunk: Chunk | None = None
        self._given = 0

    @property
    def activity(self) -> Any:
        """What its reader is doing."""
        return self._reader.activity

    def take(self, count: int) -> list[Piece[Chunk]]:
        """The next rows; fewer only where the pass ends."""
        pieces = []
        while count and (chunk := self._chunk or self._next_chunk()) is not None:
            begin = self._given
            end = min(begin + count, chunk.size)
            pieces.append(Piece(chunk, begin, end))
            count -= end - begin
            self._given = end
            if end == chunk.size:
                self._chunk = None
        return pieces

    def close(self) -> None:
        """Ends the threads, and closes the files."""
        self._reader.close()

    def _next_chunk(self) -> Chunk | None:
        self._chunk, self._given = self._spec.next_chunk(self._reader), 0
        return self._chunk
