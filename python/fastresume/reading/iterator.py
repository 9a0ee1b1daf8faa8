"""The iterator over the batches of one rank in this process."""

from __future__ import annotations

import logging
import os
import time
import warnings
from _thread import get_ident
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import torch

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.audit.delivery_log import DeliveryLog
from fastresume.batch.batch import Batch
from fastresume.batch.delivered import Delivered, cursor_after
from fastresume.batch.origin import Planned
from fastresume.messages import warn
from fastresume.options.attributes import METHODS_OF_ITERATORS
from fastresume.options.unknown import refuse_attribute
from fastresume.reading import exiting
from fastresume.reading.device import AHEAD, Device, Placed
from fastresume.reading.monitor.activity import Making, ReaderActivity
from fastresume.reading.monitor.stats import Stats
from fastresume.reading.monitor.watchdog import Watchdog
from fastresume.reading.prefetch import MAX_THREADS, Beside, Prefetch, Reader
from fastresume.reading.replay import ReplayTrail
from fastresume.reading.spec import ReadSpec
from fastresume.reading.transform import make_batch
from fastresume.reading.workers.messages import Arrival
from fastresume.reading.workers.pool import Run, WorkerPool
from fastresume.state.shared_cursor import Readers, SharedCursor

_log = logging.getLogger("fastresume")


class BatchIterator(Iterator[Batch]):
    """The batches of one rank from the dataset's cursor to the end of the pass.

    A batch moves the dataset's cursor when it is delivered, not before. Nothing is opened or started until
    the first batch is asked for.
    """

    def __init__(
        self,
        spec: ReadSpec,
        shared: SharedCursor,
        threads: int,
        prefetch_bytes: int,
        stats: Stats | None = None,
        log: DeliveryLog | None = None,
        pool: WorkerPool | None = None,
        trail: list[ReplayTrail] | None = None,
        device: Device | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        spec.check_world()
        self._spec = spec
        self._masked_rows = spec.masked_rows  # before there are threads
        self._shared = shared
        # The thread that is in next(), by its process. Workers are those of all iterators.
        self._in_next: dict[int, int] = {} if pool is None else shared.in_next_of_workers
        self._turn = object()
        with shared.moving:
            shared.latest = self._turn
            self._begins, shared.has_failed = not shared.has_failed, False
            self._loads = shared.loads
            self._cursor, self._end_cursor = spec.bounds(shared.cursor)
        self._threads = threads
        self._prefetch_bytes = prefetch_bytes
        self._stats = Stats(spec, shared) if stats is None else stats
        self._log = log
        self._pool = pool
        self._device = device
        self._watchdog = watchdog
        self._workers = 1 if pool is None else pool.workers
        self._reader: Reader | Prefetch | Beside | Run | None = None
        self._share: Planned  # set when the reader is opened
        self._make_here: Callable[[_core.Delivered], Batch]  # as well
        self._is_alone = False  # whether it makes batches here, to see who draws from global generators
        self._handed: int | None = None  # the number of the last delivered batch
        self._made: tuple[Delivered, Batch | Placed] | None = None
        self._trail = [ReplayTrail()] if trail is None else trail
        self._is_spoiled = False
        self._is_over = self._is_closed = False

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an iterator of batches can't be copied or pickled, as it moves the dataset's cursor: save "
            "loader.state_dict(), and call iter(loader) again"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for a method of others' iterators."""
            refuse_attribute(self, name, "an iterator of batches", METHODS_OF_ITERATORS)

    @property
    def is_current(self) -> bool:
        """Whether its next batch is still the dataset's next batch."""
        return not self._is_over and self._has_turn()

    def start(self) -> None:
        """Opens the reader and starts its threads."""
        self._enter()
        try:
            self._open().start()
        finally:
            self._leave()

    def peek(self) -> Batch | None:
        """The next batch, which is not delivered by this; None at the end."""
        self._enter()
        try:
            front = self._front(is_drawn=False)
            return None if front is None else self._batch(front)
        finally:
            self._leave()

    def __next__(self) -> Batch:
        if self._is_closed:
            raise _core.FastresumeError(
                "close() was called before the pass was over: break out of the loop after it. A new iter() "
                "resumes after the last delivered batch"
            )
        if self._is_over:
            raise StopIteration
        self._enter()
        try:
            self._check_current()
            began = time.perf_counter()
            if self._watchdog is not None:
                self._watchdog.begin(self._report)
            try:
                front = self._front(is_drawn=True)
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
            if self._spec.draws.warning is not None and (warning := self._spec.draws.take()) is not None:
                warnings.warn(warning, stacklevel=2)
            masked_rows, origin = self._masked_rows, batch._origin
            try:
                masked = masked_rows.counted(front, origin)
            except _core.DataError:
                self._is_spoiled = True  # the cause may be mended
                self._made = None
                raise
            if self._log is not None:
                self._check_current()
                logged_from = self._cursor if self._handed is None else self._shared.cursor
                rows_masked = masked_rows.by_cause(front, origin)
                after = cursor_after(front, self._end_cursor)
                self._log.deliver(front, origin, after, logged_from, rows_masked)
            counted, masked_before = self._stats._counts, masked_rows.count
            shared, before = self._shared, self._shared._cursor
            handed, made, trail, planned = self._handed, self._made, self._trail[0], self._share.planned
            try:
                with shared.moving:  # what another thread loads or begins comes before this, or after it
                    self._check_current()
                    self._made, self._handed = None, front.number
                    self._trail[0] = trail.after(planned, front.number)
                    shared.deliver(cursor_after(front, self._end_cursor))
                self._stats._count(front, began, waited, sum(masked.rows_of_batch))
                masked_rows.count = masked
                if front.damage or origin.marks:
                    masked_rows.tell(front, origin)
                if front.ends_pass:
                    self._finish()
                    if not torch.is_grad_enabled():  # a loop that knows its length asks for no more
                        tell_left_out(self._spec, shared, "evaluate")
                    _log.info("pass %d ended: %r", front.epoch, self._stats)
                self._leave()
                return batch
            except BaseException:  # a signal handler's: the caller has not got the batch
                if self._has_turn():
                    shared.deliver(before)
                self._stats._counts, masked_rows.count = counted, masked_before
                self._made, self._handed, self._trail[0] = made, handed, trail
                if front.ends_pass:  # the reader may be closed: another one continues after the batch before
                    self._reader, self._is_over = None, False
                    self._go_back(before)
                raise
        except BaseException as error:
            self._shared.has_failed = not isinstance(error, StopIteration)
            self._leave()
            raise

    def close(self) -> None:
        """Ends threads, and closes files; the cursor stays. `next()` raises if the pass was not over."""
        self._is_closed = self._is_closed or not self._is_over
        self._finish()

    def _finish(self) -> None:
        self._is_over = True
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def __repr__(self) -> str:
        cursor = self._shared.cursor
        state = f"at step {cursor.steps} of pass {cursor.epoch}" if self.is_current else "over"
        return f"BatchIterator({state}, {self._spec.text(cursor)})"

    def __del__(self) -> None:
        if isinstance(reader := getattr(self, "_reader", None), Prefetch | Beside):
            reader.close(wait=False)

    def _open(self) -> Reader | Prefetch | Beside | Run:
        if self._reader is None:
            spec, cut = self._spec, self._spec.cut(self._workers)
            if self._log is not None:
                self._log.begin(cut, spec.batch_size, spec.tail, spec.on_iter)
            place = (spec.world.rank, spec.world.world_size, 0, 1)
            planned = spec.pass_from(self._cursor, self._workers)
            self._share = spec.share(planned, self._cursor)
            self._end_cursor = spec.end(planned, self._end_cursor)
            self._shared.begin(self._cursor, Readers(self._workers, self._pool is not None))
            _log.debug(
                "reads pass %d from step %d: %d batches left, cut %s, %s",
                planned.epoch,
                self._cursor.steps,
                planned.batches_left,
                planned.cut,
                plural(self._threads, "thread") if self._pool is None else plural(self._workers, "worker"),
            )
            if self._pool is not None:
                run = self._pool.run(planned, self._share, self._end_cursor)
                self._stats._watch(run.activity)
                device = self._device
                self._reader = run if device is None else Beside(run, partial(_arrived, device), device.put)
                return self._reader
            page_lock = None if self._device is None else self._device.page_lock()
            ahead = (self._threads, self._prefetch_bytes, page_lock)
            reader = spec.reader(self._cursor, planned, place, *ahead)
            draws = spec.draws if self._threads else None
            if draws is not None:
                draws.is_alone = self._is_alone = draws.needs_to_be_alone
            make = partial(make_batch, spec, self._share, self._end_cursor, draws=draws)
            making = Making(ReaderActivity(reader.activity), make)
            self._stats._watch(making)
            self._make_here = making if spec.transforms else make
            self._reader = self._ahead(reader, making)
        return self._reader

    def _ahead(self, reader: Reader, making: Making) -> Reader | Prefetch | Beside:
        """The reader; after threads that run transforms and copy batches to a device, if there are any."""
        spec, device, make = self._spec, self._device, self._make_here
        if not self._threads or self._is_alone:
            return reader if device is None else Beside(reader, make, device.put)
        if not spec.is_made_ahead:
            if device is None:
                return reader
            ahead = Prefetch(reader, partial(_put, device, make), 1, AHEAD)
            making.passes(ahead)
            return ahead
        threads = min(self._threads, MAX_THREADS)
        depth = max(min(2 * threads, self._prefetch_bytes // spec.batch_bytes), 1)
        made = Prefetch(reader, make, threads, depth)
        making.passes(made)
        if device is None:
            return made
        ahead = Prefetch(made, device.put, 1, AHEAD)
        making.passes(ahead)
        return ahead

    def _go_back(self, cursor: _core.Cursor) -> None:
        """Makes a new reader continue after the last delivered batch; `cursor` is that batch's cursor."""
        if self._handed is not None:
            self._cursor = cursor
        reader, self._reader, self._is_spoiled = self._reader, None, False
        if isinstance(reader, Prefetch | Beside):
            reader.close(wait=False)
        elif reader is not None:
            reader.close()

    def _front(self, is_drawn: bool) -> Delivered | None:
        """The first batch after the cursor; a rank that draws it is compared with the others.

        The reader releases a batch only when the cursor has moved past it. So an exception raised by a signal
        handler, at any moment, can't separate the two.
        """
        if self._is_spoiled:
            self._go_back(self._shared.cursor)
        elif self._is_alone != (self._spec.draws.needs_to_be_alone and bool(self._threads)):
            if isinstance(self._reader, Prefetch):
                self._reader.close()  # and wait for what it is at
            self._go_back(self._shared.cursor)
        reader = self._open()
        if is_drawn:
            begins, self._begins = self._begins, False
            self._shared.compare_ranks(self._workers, begins and self._cursor.steps > 0)
        try:
            front: Delivered | None = reader.front()
            if (
                front is not None
                and self._handed == front.number
                and self._shared._cursor == cursor_after(front, self._end_cursor)
            ):
                reader.advance()
                del front  # if the caller has released the batch as well, the next one takes its memory
                front = reader.front()
        except _core.SourceError:
            self._is_spoiled = True  # readers remember the error, but the file may come back
            raise
        return front

    def _batch(self, front: Delivered) -> Batch:
        if self._pool is not None and self._device is None and isinstance(front, Arrival):
            return front.batch
        if self._made is None or self._made[0] is not front:
            if self._device is None and not self._spec.transforms:
                self._made = front, self._make(front)
            else:
                # A failed transform may have written to the tensors: they must be read again.
                self._is_spoiled = True
                try:
                    self._made = front, self._make(front)
                except BaseException:
                    self._go_back(self._shared.cursor)
                    raise
                self._is_spoiled = False
        made = self._made[1]
        return made if isinstance(made, Batch) else made.device.hand_over(made)

    def _make(self, front: Any) -> Any:
        reader: Any = self._reader
        made: Batch | Placed
        made = reader.batch() if isinstance(reader, Prefetch | Beside) else self._make_here(front)
        return made

    def _report(self, seconds: float) -> str:
        """What happens while `next()` waits: called in the watchdog's thread."""
        world, activity = self._spec.world, self._stats._activity
        cursor = self._shared.cursor
        batches, size = (0, 0) if activity is None else activity.queued()
        waits = (
            f"next() has waited {seconds:.1f} s for the batch of step {cursor.steps} of pass {cursor.epoch}, "
            f"on rank {world.rank} of {world.world_size}; ready: "
            f"{plural(batches, 'batch', 'batches')} of {size:,} bytes"
        )
        lines = [] if activity is None else activity.lines()
        return "\n  ".join([waits, *lines])

    def _enter(self) -> None:
        """Keeps every other thread out of `next()`: of two, one would lose what the other is handed.

        A thread that an exception of a signal handler led out, at whatever moment, may come in again.
        """
        exiting.enter()
        thread = self._in_next.setdefault(os.getpid(), get_ident())
        if thread != get_ident():
            exiting.leave()
            raise _core.FastresumeError(
                f"thread {get_ident()} asks for a batch while thread {thread} is in next() of the same "
                "iterator: let one thread draw the batches and hand them to the others by a queue, or hold a "
                "lock around next()"
            )

    def _leave(self) -> None:
        self._in_next.clear()
        exiting.leave()

    def _has_turn(self) -> bool:
        """Whether no newer iterator was made, and no state was loaded."""
        shared = self._shared  # which notices a fork when the cursor moves
        return shared.latest is self._turn and self._loads == shared._loads

    def _check_current(self) -> None:
        if self._has_turn():
            return
        if self._loads != self._shared._loads:
            raise _core.StateError("a state was loaded after this iterator was made: call iter() again")
        raise _core.FastresumeError(
            "a newer iterator of this dataset continues: an older one can't. Two loops at once share one "
            "place: make a second dataset, or finish the first loop"
        )

    def _end(self) -> None:
        """Ends the pass here if no batch was left of it; otherwise its last batch ended it."""
        planned = self._spec.pass_from(self._cursor, self._workers)
        self._finish()
        if planned.batches_left == 0:
            # Also of a pass that would start over, and give none again.
            after = self._spec.end(planned, None) or planned.next_pass()
            if self._log is not None:
                self._log.end(self._cursor, after)
            warnings.warn(self._spec.dropped_text(planned), stacklevel=3)
            self._shared.deliver(after)
            self._stats._drop(planned.rest)


def tell_left_out(spec: ReadSpec, shared: SharedCursor, doing: str) -> None:
    """Warns once if rows are in no batch of an evaluation."""
    if not shared.has_warned_of_rest and (text := spec.left_out_text(doing)) is not None:
        shared.has_warned_of_rest = True
        warn(text)


def _arrived(device: Device, arrival: Arrival) -> Batch:
    device.open()  # here, because this thread's current device may be meant
    return arrival.batch


def _put(device: Device, make: Callable[[_core.Delivered], Batch], delivered: _core.Delivered) -> Placed:
    return device.put(make(delivered))
