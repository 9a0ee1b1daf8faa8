"""The front door: a dataset with threads that decode ahead."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from fastresume.arguments import at_least
from fastresume.audit import DeliveryLog
from fastresume.batch import Batch
from fastresume.cursor import Cursor
from fastresume.dataset import ParquetDataset
from fastresume.iterator import BatchIterator, Stats
from fastresume.world import default_threads

PREFETCH_BYTES = 256 << 20


class Loader:
    """Iterates over a `ParquetDataset` with threads of this process that decode ahead.

    What `ParquetDataset.map` was given runs ahead, too, in threads of its own.

    Shares the dataset's cursor. An iterator goes on after the last delivered batch and ends with the pass;
    the next `iter()` begins the next pass. What was decoded ahead is not delivered and enters no state.

    Args:
        dataset: what to read.
        threads: how many threads decode; by default the cores this process may use, shared with the other
            ranks of the node (`LOCAL_WORLD_SIZE`), at most 8. With 0, `next()` decodes by itself.
        prefetch_bytes: decoding ahead stops when batches of so many bytes are in memory (256 MiB by default).
            One segment per thread (some 32 MiB, or one row group where groups are smaller) comes on top, and
            in a shuffled order one window per lane (see `ParquetDataset.plan`). Of a mapped dataset as many
            bytes again, in at most 8 batches and at least one, are transformed ahead.
        audit: a directory for the delivery log, from which `fastresume audit` proves that every row was
            delivered exactly once; see docs/AUDIT.md.

    Raises:
        TypeError, ValueError: for an argument of another type, or a number out of range.
        SourceError: if the directory of the audit can't be made.

    Threads and forks: use a loader in one thread at a time. In a forked child, make a new iterator. Threads
    start with the first batch and end with the pass, with `close()`, or with the iterator.

    Example:
        >>> loader = Loader(dataset)
        >>> loader.load_state_dict(batch.state_dict())
        >>> for epoch in range(loader.epoch, 3):
        ...     for batch in loader:
        ...         train(batch)
        >>> loader.epoch
        3
    """

    def __init__(
        self,
        dataset: ParquetDataset,
        *,
        threads: int | None = None,
        prefetch_bytes: int | None = None,
        audit: str | os.PathLike[str] | None = None,
    ) -> None:
        if not isinstance(dataset, ParquetDataset):
            raise TypeError(f"dataset must be a ParquetDataset, found {type(dataset).__name__}")
        self.dataset = dataset
        self.threads = default_threads() if threads is None else at_least(0, "threads", threads)
        self.prefetch_bytes = (
            PREFETCH_BYTES if prefetch_bytes is None else at_least(1, "prefetch_bytes", prefetch_bytes)
        )
        self._log = None if audit is None else DeliveryLog(audit, dataset._manifest, dataset.world)
        self._stats = Stats()
        self._prepared: BatchIterator | None = None
        self._latest: weakref.ref[BatchIterator] | None = None

    @property
    def epoch(self) -> int:
        """Passes that this job has completed."""
        return self.dataset.epoch

    @property
    def batches_left(self) -> int:
        """Batches that this rank still gets in the present pass."""
        return self.dataset.batches_left

    def __len__(self) -> int:
        """Batches that each rank gets in an unbroken pass."""
        return len(self.dataset)

    def state_dict(self) -> dict[str, str]:
        """The state after the last delivered batch; see `ParquetDataset.state_dict`."""
        return self.dataset.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | Cursor, reset_epochs: bool = False) -> None:
        """Goes on from a state at the next `iter()`; see `ParquetDataset.load_state_dict`."""
        self.dataset.load_state_dict(state, reset_epochs=reset_epochs)

    def reset(self) -> None:
        """Goes back to the start of the present pass, for the next `iter()`."""
        self.dataset.reset()

    def __iter__(self) -> Iterator[Batch]:
        """The batches of this rank from where the cursor is to the end of the pass."""
        iterator = self._prepare()
        self._prepared = None
        self._latest = weakref.ref(iterator)
        return iterator

    def start(self) -> None:
        """Starts the threads now, so that the first batch is ready sooner."""
        self._present().start()

    def peek(self) -> Batch | None:
        """The next batch, which is not delivered by this; None if less than a batch is left of the pass."""
        return self._present().peek()

    def stats(self) -> Stats:
        """What was delivered since the loader was made: a live object, cheap to read."""
        return self._stats

    def close(self) -> None:
        """Ends the threads and closes the files; the cursor stays, and a new `iter()` goes on from it."""
        for iterator in (self._prepared, self._latest() if self._latest is not None else None):
            if iterator is not None:
                iterator.close()
        self._prepared = self._latest = None
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self) -> BatchIterator:
        """The iterator that was started or peeked at, if nothing happened since; else a new one."""
        if self._prepared is None or not self._prepared.is_current:
            if self._prepared is not None:
                self._prepared.close()
            self._prepared = BatchIterator(
                self.dataset, self.threads, self.prefetch_bytes, self._stats, self._log
            )
        return self._prepared

    def _present(self) -> BatchIterator:
        """The iterator that the next batch comes from."""
        latest = self._latest() if self._latest is not None else None
        return latest if latest is not None and latest.is_current else self._prepare()

    def __repr__(self) -> str:
        return f"Loader({self.dataset!r}, threads={self.threads}, prefetch_bytes={self.prefetch_bytes})"
