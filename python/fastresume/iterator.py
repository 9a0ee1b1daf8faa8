"""The batches of one rank, handed over one by one in this process."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from fastresume import _core
from fastresume.activity import Making, ReaderActivity
from fastresume.ahead import MAX_THREADS, Ahead, Beside
from fastresume.arrival import Arrival, Run
from fastresume.audit import DeliveryLog
from fastresume.batch import Batch
from fastresume.crew import Crew
from fastresume.device import AHEAD, Device, Placed
from fastresume.origin import Planned
from fastresume.station import settle
from fastresume.stats import Delivered, Stats
from fastresume.trail import Trail
from fastresume.transform import cursor_after, make_batch
from fastresume.watchdog import Watchdog
from fastresume.workers import Departing, new_iteration, new_ticket

if TYPE_CHECKING:
    from fastresume.dataset import ParquetDataset


_log = logging.getLogger("fastresume")


class BatchIterator(Iterator[Batch]):
    """The batches of one rank from where the dataset's cursor is to the end of the pass.

    Each batch moves the dataset's cursor when it is handed over, not before. Nothing is opened or started
    until the first batch is asked for.
    """

    def __init__(
        self,
        dataset: ParquetDataset,
        threads: int,
        prefetch_bytes: int,
        stats: Stats | None = None,
        log: DeliveryLog | None = None,
        crew: Crew | None = None,
        trail: list[Trail] | None = None,
        device: Device | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        dataset._check_world()
        dataset._shared.iterators += 1
        self._dataset = dataset
        self._number = dataset._shared.iterators
        self._loads = dataset._shared.loads
        self._cursor, self._end_cursor = dataset._bounds(dataset._shared.cursor)
        self._threads = threads
        self._prefetch_bytes = prefetch_bytes
        self._stats = Stats(dataset) if stats is None else stats
        self._log = log
        self._crew = crew
        self._device = device
        self._watchdog = watchdog
        self._workers = 1 if crew is None else crew.workers
        self._reader: _core.Reader | Ahead | Beside | Run | None = None
        self._share: Planned  # from when the reader is opened on
        self._make_here: Callable[[_core.Delivered], Batch]  # as well
        self._handed: int | None = None  # the number of the batch that was handed over last
        self._made: tuple[Delivered, Batch | Placed] | None = None
        self._trail = [Trail()] if trail is None else trail
        self._is_spoiled = False
        self._is_over = False

    @property
    def is_current(self) -> bool:
        """Whether its next batch is still the dataset's next batch."""
        latest = (self._dataset._shared.iterators, self._dataset._shared.loads)
        return not self._is_over and (self._number, self._loads) == latest

    def start(self) -> None:
        """Opens the reader and starts its threads."""
        self._open().start()

    def peek(self) -> Batch | None:
        """The next batch, which is not delivered by this; None at the end."""
        front = self._front()
        return None if front is None else self._batch(front)

    def __next__(self) -> Batch:
        if self._is_over:
            raise StopIteration
        self._check_current()
        began = time.perf_counter()
        if self._watchdog is not None:
            self._watchdog.begin(self._report)
        try:
            front = self._front()
            if front is None:
                self._end()
                raise StopIteration
            waited = time.perf_counter()
            batch = self._batch(front)
        finally:
            if self._watchdog is not None:
                self._watchdog.end()
        if not isinstance(self._reader, _core.Reader):  # it is made elsewhere, and was waited for
            waited = time.perf_counter()
        if self._device is not None:
            batch = self._device.in_place(batch)
        if self._log is not None:
            logged_from = self._cursor if self._handed is None else self._dataset._shared.cursor
            self._log.deliver(front, cursor_after(front, self._end_cursor), logged_from)
        counted = self._stats._counts
        shared, before = self._dataset._shared, self._dataset._shared._cursor
        handed, made, trail, planned = self._handed, self._made, self._trail[0], self._share.planned
        try:
            self._made, self._handed = None, front.number
            self._trail[0] = trail.after(planned, front.number)
            shared.deliver(cursor_after(front, self._end_cursor))
            self._stats._count(front, began, waited)
            if front.ends_pass:
                self.close()
                _log.info("pass %d ended: %r", front.epoch, self._stats)
            return batch
        except BaseException:  # a signal handler's: the caller has not got the batch
            shared.deliver(before)
            self._stats._counts = counted
            self._made, self._handed, self._trail[0] = made, handed, trail
            if front.ends_pass:  # the reader may be closed: another one goes on after the batch before
                self._reader, self._is_over = None, False
                self._go_back(before)
            raise

    def close(self) -> None:
        """Ends the threads, closes the files, and ends the iteration; the cursor stays."""
        self._is_over = True
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __repr__(self) -> str:
        cursor = self._dataset._shared.cursor
        state = f"at step {cursor.steps} of pass {cursor.epoch}" if self.is_current else "over"
        return f"BatchIterator({state}, {self._dataset!r})"

    def __del__(self) -> None:
        if isinstance(reader := getattr(self, "_reader", None), Ahead | Beside):
            reader.close(wait=False)

    def _open(self) -> _core.Reader | Ahead | Beside | Run:
        if self._reader is None:
            dataset, cut = self._dataset, self._dataset._cut(self._workers)
            if self._log is not None:
                self._log.begin(cut, dataset.batch_size, dataset.tail, dataset.on_iter)
            place = (dataset.world.rank, dataset.world.world_size, 0, 1)
            planned = dataset._pass(self._cursor, self._workers)
            self._share = dataset._share(planned, self._cursor)
            _log.debug(
                "reads pass %d from step %d: %d batches left, cut %s, %s",
                planned.epoch,
                self._cursor.steps,
                planned.batches_left,
                planned.cut,
                f"{self._threads} threads" if self._crew is None else f"{self._workers} workers",
            )
            if self._crew is not None:
                run = self._crew.run(planned, self._share, self._end_cursor)
                self._stats._watch(run.activity)
                device = self._device
                self._reader = run if device is None else Beside(run, partial(_arrived, device), device.put)
                return self._reader
            page_lock = None if self._device is None else self._device.page_lock()
            reader = _core.Reader(
                dataset._manifest,
                dataset._layout,
                self._cursor,
                planned,
                place,
                self._threads,
                self._prefetch_bytes,
                page_lock,
            )
            make = partial(make_batch, dataset, self._share, self._end_cursor)
            making = Making(ReaderActivity(reader.activity), make)
            self._stats._watch(making)
            self._make_here = making if dataset._transforms else make
            self._reader = self._ahead(reader, making)
        return self._reader

    def _ahead(self, reader: _core.Reader, making: Making) -> _core.Reader | Ahead | Beside:
        """The reader, with threads that run the transforms, and put batches onto a device, if there are."""
        dataset, device, make = self._dataset, self._device, self._make_here
        if not self._threads:
            return reader if device is None else Beside(reader, make, device.put)
        if not dataset._transforms:
            if device is None:
                return reader
            ahead = Ahead(reader, partial(_put, device, make), 1, AHEAD)
            making.passes(ahead)
            return ahead
        threads = min(self._threads, MAX_THREADS)
        batch_bytes = max(dataset.batch_size * dataset._layout.row_bytes, 1)
        depth = max(min(2 * threads, self._prefetch_bytes // batch_bytes), 1)
        made = Ahead(reader, make, threads, depth)
        making.passes(made)
        if device is None:
            return made
        ahead = Ahead(made, device.put, 1, AHEAD)
        making.passes(ahead)
        return ahead

    def _go_back(self, cursor: _core.Cursor) -> None:
        """Lets a new reader go on where the last batch that was handed over ended; `cursor` is its cursor."""
        if self._handed is not None:
            self._cursor = cursor
        reader, self._reader, self._is_spoiled = self._reader, None, False
        if isinstance(reader, Ahead | Beside):
            reader.close(wait=False)
        elif reader is not None:
            reader.close()

    def _front(self) -> Delivered | None:
        """The first batch that the cursor does not know of.

        The reader lets go of a batch only when the cursor has moved past it, so that an exception raised by a
        signal handler, at whatever moment, can't bring the two apart.
        """
        if self._is_spoiled:
            self._go_back(self._dataset._shared.cursor)
        reader = self._open()
        self._dataset._check_ranks(self._workers)
        try:
            front: Delivered | None = reader.front()
            if (
                front is not None
                and self._handed == front.number
                and self._dataset._shared._cursor == cursor_after(front, self._end_cursor)
            ):
                reader.advance()
                del front  # where the caller has let go of the batch as well, the next one takes its memory
                front = reader.front()
        except _core.SourceError:
            self._is_spoiled = True  # readers remember it, but the file may come back
            raise
        return front

    def _batch(self, front: Delivered) -> Batch:
        if self._crew is not None and self._device is None and isinstance(front, Arrival):
            return front.batch
        if self._made is None or self._made[0] is not front:
            if self._device is None and not self._dataset._transforms:
                self._made = front, self._make(front)
            else:
                # A transform that fails may have written to the tensors before: they must be read again.
                self._is_spoiled = True
                try:
                    self._made = front, self._make(front)
                except BaseException:
                    self._go_back(self._dataset._shared.cursor)
                    raise
                self._is_spoiled = False
        made = self._made[1]
        return made if isinstance(made, Batch) else made.device.hand_over(made)

    def _make(self, front: Any) -> Any:
        reader: Any = self._reader
        made: Batch | Placed
        made = self._make_here(front) if isinstance(reader, _core.Reader) else reader.batch()
        return made

    def _report(self, seconds: float) -> str:
        """What is going on while `next()` waits: called in the watchdog's thread."""
        dataset, activity = self._dataset, self._stats._activity
        cursor = dataset._shared.cursor
        batches, size = (0, 0) if activity is None else activity.queued()
        waits = (
            f"next() has waited {seconds:.1f} s for the batch of step {cursor.steps} of pass {cursor.epoch}, "
            f"on rank {dataset.world.rank} of {dataset.world.world_size}; ready: {batches} batches "
            f"of {size} bytes"
        )
        lines = [] if activity is None else activity.lines()
        return "\n  ".join([waits, *lines])

    def _check_current(self) -> None:
        shared = self._dataset._shared  # which notices a fork when the cursor moves
        if self._loads != shared._loads:
            raise _core.StateError("a state was loaded after this iterator was made: call iter() again")
        if self._number != shared.iterators:
            raise _core.FastresumeError("a newer iterator of this dataset goes on: an older one can't")

    def _end(self) -> None:
        """Ends the pass here if no batch was left of it; else its last batch did."""
        dataset = self._dataset
        planned = dataset._pass(self._cursor, self._workers)
        self.close()
        if planned.batches_left == 0:
            after = self._end_cursor or self._cursor.next_pass()
            if self._log is not None:
                self._log.end(self._cursor, after)
            warnings.warn(rest_warning(planned, dataset), stacklevel=3)
            dataset._shared.deliver(after)
            self._stats._drop(planned.rest)


def _arrived(device: Device, arrival: Arrival) -> Batch:
    device.open()  # here, since it may be this thread's current device that is meant
    return arrival.batch


def _put(device: Device, make: Callable[[_core.Delivered], Batch], delivered: _core.Delivered) -> Placed:
    return device.put(make(delivered))


class WorkerIterator(Iterator[Batch]):
    """The batches that a worker of torch's DataLoader makes: every K-th one of the rank's, of K workers.

    It begins where the shared cursor is when the first one is asked for. After an error it raises for ever:
    to end would look as if the pass had ended, and the rest would be missing without a word.
    """

    def __init__(self, dataset: ParquetDataset, worker: int, workers: int) -> None:
        settle()
        self._iteration = new_iteration()
        self._dataset = dataset
        self._worker = worker
        self._workers = workers
        self._sent = 0
        self._has_failed = False
        self._reader: _core.Reader | None = None
        self._warning: str | None = None

    def __next__(self) -> Batch:
        if self._has_failed:
            raise _core.FastresumeError(
                f"worker {self._worker} of {self._workers} raised an error before, and can't go on: call "
                "iter() on the DataLoader again"
            )
        try:
            return self._next()
        except StopIteration:
            raise
        except BaseException:
            self._has_failed = True
            raise

    def _next(self) -> Batch:
        reader = self._reader or self._open()
        delivered = reader.front()
        if delivered is None:
            raise StopIteration
        reader.advance()
        batch = make_batch(self._dataset, self._share, self._end_cursor, delivered)
        place = self._worker + self._sent * self._workers
        sent = replace(self._ticket, place=place, ends_pass=delivered.ends_pass, warning=self._warning)
        self._warning = None
        self._sent += 1
        return Departing(batch._tensors, batch._origin, sent)

    def _open(self) -> _core.Reader:
        dataset, worker, workers = self._dataset, self._worker, self._workers
        reading = dataset._shared.read_as_worker(worker, self._iteration)
        cursor, self._end_cursor = dataset._bounds(reading.cursor)
        planned = dataset._pass(cursor, workers)
        if planned.batches_left == 0:
            # The main process can't see an iterator that gives nothing, so the next pass follows at once.
            self._warning = rest_warning(planned, dataset) if worker == 0 else None
            cursor = cursor.next_pass()
            planned = dataset._pass(cursor, workers)
        self._ticket = new_ticket(dataset._shared, reading, worker, workers, self._iteration)
        self._share = dataset._share(planned, cursor)
        place = (dataset.world.rank, dataset.world.world_size, worker, workers)
        self._reader = _core.Reader(dataset._manifest, dataset._layout, cursor, planned, place, 0, 0)
        return self._reader


def rest_warning(planned: _core.Pass, dataset: ParquetDataset) -> str:
    """What is said when a pass ends with rows that make no batch."""
    if dataset.tail == "short":
        return (
            f"the pass ends here: the {planned.rest} rows that were left of it are fewer than the "
            f"{dataset.world.world_size} ranks, and are dropped"
        )
    return (
        f"the pass ends here: the {planned.rest} rows that were left of it do not make a global batch of "
        f"{dataset.global_batch_size}, and are dropped"
    )
