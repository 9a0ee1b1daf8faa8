"""The rows of a source, one after another, for the lanes of a mixture."""

from __future__ import annotations

from typing import Any

import fastresume._core as _core
from fastresume.batch.joining import Chunk
from fastresume.reading.files_spec import FilesSpec


class Stream:
    """The rows of one pass of a source from a cursor on, in its order, many at a time.

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

    @property
    def activity(self) -> Any:
        """What its reader is doing."""
        return self._reader.activity

    def next_chunk(self) -> Chunk:
        """The next rows, of which there must be some.

        Raises:
            StateError: if the pass has ended.
        """
        chunk = self._spec.next_chunk(self._reader)
        if chunk is None:
            raise _core.StateError("a pass of a source ends before the rows that the mixture has of it")
        return chunk

    def close(self) -> None:
        """Ends the threads, and closes the files."""
        self._reader.close()
