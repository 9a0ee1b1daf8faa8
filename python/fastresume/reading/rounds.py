"""The iterator over the batches of a stream: those of one round after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fastresume.batch.batch import Batch
from fastresume.reading.iterator import BatchIterator


class Rounds(Iterator[Batch]):
    """The batches of a stream from the dataset's cursor on.

    Args:
        follow: makes the round of the next batch the dataset's; False if the stream has ended. It waits.
        begin: the iterator over the round that the dataset has.
    """

    def __init__(self, follow: Callable[[], bool], begin: Callable[[], BatchIterator]) -> None:
        self._follow = follow
        self._begin = begin
        self._batches: BatchIterator | None = None

    def __next__(self) -> Batch:
        while True:
            if self._batches is None:
                if not self._follow():
                    raise StopIteration
                self._batches = self._begin()
            try:
                return next(self._batches)
            except StopIteration:
                self._batches = None

    def close(self) -> None:
        """Ends the threads of the present round; the cursor stays."""
        if self._batches is not None:
            self._batches.close()
