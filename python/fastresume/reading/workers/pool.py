"""The worker processes of a `Loader`, and the batches that they make, in order.

A crew owns a torch DataLoader, whose sampler hands out tasks: where the pass is planned from, and the number
of the batch. The workers know nothing else, so what the main process wants next is the whole of the state. A
serving is one line of tasks; when another one begins, what is left of it is thrown away.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import os
import pickle
import threading
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.context import BaseContext
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.origin import Origin, Share
from fastresume.batch.seeds import batch_seed
from fastresume.buffers import of_buffer, of_runs
from fastresume.reading.monitor.activity import Activity
from fastresume.reading.row_places import locate
from fastresume.reading.spec import ReadSpec
from fastresume.reading.transform import some_of
from fastresume.reading.workers import shared_memory
from fastresume.reading.workers.exits import Ward, cause, dead
from fastresume.reading.workers.messages import Arrival, Failure, Made, Task
from fastresume.reading.workers.process import begin, signals_held
from fastresume.reading.workers.status_board import Board
from fastresume.reading.workers.worker import Station

_log = logging.getLogger("fastresume")

_END_SECONDS = 10.0
_OF_A_DEATH = (RuntimeError, OSError, EOFError, AssertionError, KeyError, pickle.UnpicklingError)
"""What torch's signal handler, its queue and its sockets raise when a worker dies."""


class Crew:
    """The worker processes of one loader: they start when they are needed, and last until `close`.

    Args:
        spec: what they read.
        workers: how many there are.
        prefetch_factor: how many batches each of them makes ahead.
        context: how they are started; None for Python's default.
        page_lock: gives what locks the pages of what they send, for a device; is called after they started.
    """

    def __init__(
        self,
        spec: ReadSpec,
        workers: int,
        prefetch_factor: int,
        context: str | BaseContext | None,
        page_lock: Callable[[], _core.PageLock | None] | None = None,
    ) -> None:
        self.workers = workers
        self.spec = spec
        self._prefetch_factor = prefetch_factor
        self._context = context
        self._page_lock = page_lock
        self._process = os.getpid()
        self._put_up(Board(workers))
        self._tasks = _Tasks(workers)
        self._loader: DataLoader[bytes] | None = None
        self._held: list[Iterator[bytes]] = []
        """Torch's iterator, if there is one; what ends the crew holds it, too."""
        self._senders: set[str] = set()
        self._served: _core.Pass | None = None
        self._expected = 0
        self._is_sound = False
        self._ward = Ward()
        _crews.add(self)
        # Python's garbage collector closes queues before it lets go of torch's iterator, which then waits
        # for workers that hear nothing any more: so the iterator must be reachable when the crew is not.
        weakref.finalize(self, _end_held, self._held, os.getpid()).atexit = False

    def _put_up(self, board: Board) -> None:
        self._board = board
        self.activity = CrewActivity(weakref.ref(self), board)
        """What the workers are at."""

    @property
    def _iterator(self) -> Iterator[bytes] | None:
        return self._held[0] if self._held else None

    def run(self, planned: _core.Pass, share: Share, end_cursor: _core.Cursor | None) -> Run:
        """The batches that are left of a pass; `end_cursor` if a pass that starts anew ends with it."""
        return Run(self, planned, share, end_cursor)

    def serve(self, planned: _core.Pass, number: int) -> None:
        """Lets the workers make the batches of a pass from the number-th on, if they do not do so already.

        Raises:
            FastresumeError: in a process that can't have workers.
        """
        self._check_process()
        if not self._is_sound:
            _log.debug("ends the workers, if there are any: nobody knows how far they are")
            self._abandon()
        elif self._goes_on(planned, number):
            return
        self._is_sound = False  # should a signal handler raise, nobody knows how far torch came
        # What is in the pipes of an earlier serving is skipped by the workers, and thrown away by torch.
        self._tasks.begin(planned, number)
        self._board.serve(self._tasks.serving)
        self._served, self._expected = planned, number
        if self._loader is None:
            self._loader = self._new_loader(planned.epoch, self._board)
        is_new = not self._held
        with signals_held(self._context):
            self._held[:] = [iter(self._loader)]
        _started.update(_workers_of(self._iterator))
        if is_new:
            processes = [worker.pid or 0 for worker in _workers_of(self._iterator)]
            self._ward.watch(processes)
            _log.info("started %d workers: processes %s", self.workers, processes)
        self._is_sound = True

    def _goes_on(self, planned: _core.Pass, number: int) -> bool:
        """Whether the next batch that the workers send is this one."""
        served, expected = self._served, self._expected
        if served is None or served.cut != planned.cut or expected >= served.batches:
            return False
        if served is planned and expected == number:
            return True
        return served.cursor_after(expected) == planned.cursor_after(number)

    def fetch(self, planned: _core.Pass, number: int) -> tuple[Made | Failure, int]:
        """What the workers made of the number-th batch of a pass, and the bytes of its tensors.

        Raises:
            FastresumeError: if a worker died.
        """
        ward = self._ward
        try:
            if ward.has_death and self._is_sound:  # else it was told, and there will be new workers
                self._is_sound = False
                raise RuntimeError("a worker died while nobody waited for it")
            ward.waits = threading.current_thread() is threading.main_thread()
            self.serve(planned, number)
            return self._receive()
        except _core.FastresumeError:
            raise
        except _OF_A_DEATH as error:
            try:
                death = self._death()
            except RuntimeError:  # of torch's handler, which may run only now
                death = self._death()
            if death is None:  # a signal handler's, say
                raise
            raise death from error
        finally:
            ward.waits = False

    def _receive(self) -> tuple[Made | Failure, int]:
        if self._iterator is None or self._served is None:
            raise _core.FastresumeError("the workers were ended")
        self._is_sound = False
        sent: shared_memory.Parcel = pickle.loads(next(self._iterator))  # noqa: S301  (of our workers)
        self._ward.waits = False  # torch's handler would raise between a socket and its `with`
        found: Made | Failure = shared_memory.unpack(sent, self._page_lock)
        if (sender := shared_memory.sender_of(sent)) is not None:
            self._senders.add(sender)
        due = (self._tasks.serving, self._expected)
        if (found.serving, found.number) != due:
            raise _core.FastresumeError(
                f"the workers sent task {(found.serving, found.number)} where {due} was due"
            )
        self._expected += 1
        num_bytes = shared_memory.num_bytes(sent)
        self._board.receive(num_bytes)
        if isinstance(found, Failure):  # the others are well: the next serving begins with this task
            self._served = None
        self._is_sound = True
        return found, num_bytes

    def close(self) -> None:
        """Ends the workers; they start again when they are needed."""
        self._served, self._is_sound, self._loader = None, False, None
        ending = _end_held(self._held, self._process)
        if ending is not None:
            ending.join(_END_SECONDS)
        self._forget()

    def _abandon(self) -> None:
        """Ends workers of which one is dead, or nobody knows what they will send."""
        self._served = self._loader = None
        _end_held(self._held, self._process)
        self._forget()

    def _forget(self) -> None:
        for sender in self._senders:
            shared_memory.forget(sender)
        self._senders.clear()

    def _check_process(self) -> None:
        if self._process != os.getpid():  # a forked copy: the workers are its parent's
            _kept.extend(self._held)
            self._held.clear()
            self._loader = self._served = None
            self._put_up(Board(self.workers))
            self._senders = set()
            self._process = os.getpid()
        if multiprocessing.current_process().daemon and self._loader is None:
            raise _core.FastresumeError(
                "a daemon process can't start worker processes: pass num_workers=0 to the Loader, whose "
                "threads do the same"
            )

    def _new_loader(self, epoch: int, board: Board) -> DataLoader[bytes]:
        spec, world = self.spec, self.spec.world
        seed = batch_seed(spec.seed, epoch, 0, world.rank) & 0x7FFFFFFFFFFFFFFF
        station: Any = Station(spec, self.workers, board)
        return DataLoader(
            station,
            batch_size=None,
            sampler=self._tasks,
            num_workers=self.workers,
            collate_fn=_as_it_is,
            worker_init_fn=begin,
            multiprocessing_context=self._context,
            generator=torch.Generator().manual_seed(seed),
            prefetch_factor=self._prefetch_factor,
            persistent_workers=True,
        )

    def _death(self) -> _core.FastresumeError | None:
        """What is raised when torch gives no batch because a worker died; None if all are alive."""
        told = [
            f"worker {number} of {self.workers} (process {process}) {cause(exit_code)}"
            for number, process, exit_code in dead(_workers_of(self._iterator))
        ]
        if not told:
            return None
        _log.error("%s", "; ".join(told))
        step = "" if self._served is None else f" {self._served.step_of(self._expected)}"
        return _core.FastresumeError(
            f"{'; '.join(told)}. The cursor stands before step{step}: the next next() or iter() goes on "
            "there, with new workers"
        )

    def files_of(self, number: int) -> list[str]:
        """The files that hold rows of a batch of the present serving, in the order of its rows."""
        served = self._served
        if served is None or number >= served.batches:
            return []
        positions = of_buffer(served.positions(number, self.spec.world.rank))
        order = _core.Order(served.cursor_after(number), self.spec.manifest)
        rows = of_runs(of_buffer(order.rows(positions)))
        return list(dict.fromkeys(path for path, _, _ in locate(self.spec.manifest, rows)))

    def __repr__(self) -> str:
        return f"Crew(workers={self.workers})"


class Run:
    """The batches of one pass in order: has the methods of a reader. It may be left at any moment."""

    def __init__(
        self, crew: Crew, planned: _core.Pass, share: Share, end_cursor: _core.Cursor | None
    ) -> None:
        self._crew = crew
        self._planned = planned
        self._share = share
        self._end_cursor = end_cursor
        self._process = os.getpid()
        self._number = planned.batches - planned.batches_left
        self._arrival: Arrival | None = None

    @property
    def activity(self) -> Activity:
        """What the workers are at."""
        return self._crew.activity

    def start(self) -> None:
        """Starts the workers, and lets them make the first batches."""
        if self._number < self._planned.batches:
            self._crew.serve(self._planned, self._number)

    def front(self) -> Arrival | None:
        """The first batch that was not let go of; None at the end.

        Raises:
            FastresumeError: if a worker died. The next call starts new ones.
            Exception: what a worker raised over the batch. The next call lets them try again.
        """
        if self._process != os.getpid():
            raise _core.StateError(
                f"this iterator was made in process {self._process}, before it forked: make a new one in "
                f"process {os.getpid()}"
            )
        if self._number >= self._planned.batches:
            return None
        if self._arrival is None or self._arrival.number != self._number:
            self._arrival = None
            found, num_bytes = self._crew.fetch(self._planned, self._number)
            if isinstance(found, Failure):
                raise found.exception()
            self._arrival = self._arrived(found, num_bytes)
        return self._arrival

    def advance(self) -> None:
        """Lets go of the front batch."""
        self._number += 1

    def close(self) -> None:
        """Lets go of the front batch; the workers are the crew's."""
        self._arrival = None

    def _arrived(self, made: Made, num_bytes: int) -> Arrival:
        planned, share, number = self._planned, self._share, made.number
        count, valid, _ = planned.shape(number, share.rank)
        ends_pass = number + 1 == planned.batches
        cursor = planned.cursor_after(number + 1)
        after = self._end_cursor if ends_pass and self._end_cursor is not None else cursor
        masked = self._crew.spec.schema.masked
        runs = made.runs.copy()  # not to hold on to the memory of all tensors, which may go to a device
        origin = Origin(after, planned.epoch, planned.step_of(number), count, valid, runs, masked, share)
        values: Any = made.values
        num_bytes -= made.runs.nbytes
        return Arrival(Batch(values, origin), planned, number, share.rank, num_bytes, cursor)


class CrewActivity:
    """What worker processes are at; does not keep them."""

    def __init__(self, crew: weakref.ref[Crew], board: Board) -> None:
        self._crew = crew
        self._board = board

    @property
    def seconds(self) -> float:
        """How long files were read and decoded, over all workers."""
        return self._board.seconds

    @property
    def transform_seconds(self) -> float:
        """How long transforms ran, over all workers."""
        return self._board.transform_seconds

    def queued(self) -> tuple[int, int]:
        """How many batches are ready, and their bytes."""
        return self._board.queued()

    def lines(self) -> list[str]:
        """What each worker is at, in words, and in which files its batch is."""
        crew, found = self._crew(), []
        for line, number in self._board.lines():
            files = [] if crew is None or number is None else crew.files_of(number)
            found.append(f"{line}, of {some_of(files)}" if files else line)
        return found


class _Tasks(Sampler[Task]):
    """The tasks of the present serving, in the order in which torch deals them to the workers.

    The first one of each worker tells it where the pass starts: that may be a long text.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self.serving = 0
        self._start = ""
        self._numbers = range(0)

    def begin(self, planned: _core.Pass, number: int) -> None:
        self.serving += 1
        self._start = planned.cursor_after(number).to_json()
        self._numbers = range(number, planned.batches)

    def __iter__(self) -> Iterator[Task]:
        serving, start = self.serving, self._start
        for place, number in enumerate(self._numbers):
            yield Task(serving, start if place < self._workers else None, number)


def _as_it_is(data: Any) -> Any:
    return data


def _workers_of(iterator: Iterator[bytes] | None) -> list[Any]:
    """The processes that torch started, in their order."""
    return list(getattr(iterator, "_workers", ()))


def _end_held(held: list[Iterator[bytes]], process: int) -> threading.Thread | None:
    """Lets go of torch's iterator, which ends its workers, in a thread: it may wait for locks of the dead."""
    ended, held[:] = list(held), []
    if process != os.getpid():  # a forked copy: it would end the workers of its parent
        _kept.extend(ended)
        return None
    if not ended:
        return None
    thread = threading.Thread(target=_end, args=(ended, _workers_of(ended[0])), daemon=True)
    thread.start()
    return thread


def _end(held: list[Iterator[bytes]], workers: list[Any]) -> None:
    ending = threading.Thread(target=held.clear, daemon=True)
    ending.start()
    ending.join(_END_SECONDS)
    if ending.is_alive():
        for worker in workers:
            worker.kill()


_started: weakref.WeakSet[Any] = weakref.WeakSet()


def _kill_late_workers() -> None:
    """At the end of the process: who has not ended by then would be waited for, for ever."""
    for worker in list(_started):
        if worker._parent_pid == os.getpid() and worker.is_alive():
            worker.kill()


atexit.register(_kill_late_workers)

_crews: weakref.WeakSet[Crew] = weakref.WeakSet()
_kept: list[object] = []


def _keep_iterators() -> None:
    """In a forked child: to let go of torch's iterator would end the workers of the parent."""
    for crew in list(_crews):
        _kept.extend(crew._held)


os.register_at_fork(after_in_child=_keep_iterators)
