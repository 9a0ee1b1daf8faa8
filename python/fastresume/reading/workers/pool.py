"""The worker processes of a `Loader`, and the batches that they make, in order.

A pool deals tasks to its workers in turn: where the pass is planned from, and the number of the batch. The
workers know nothing else, so what the main process wants next is the whole of the state. A serving is one
line of tasks; when another one begins, what is left of it is thrown away.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import pickle
import time
import weakref
from collections.abc import Callable
from multiprocessing.context import BaseContext
from typing import Any

import torch

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.origin import Origin, Share
from fastresume.batch.seeds import batch_seed
from fastresume.reading import exiting
from fastresume.reading.monitor.activity import Activity
from fastresume.reading.spec import ReadSpec
from fastresume.reading.store_counts import StoreCounts
from fastresume.reading.transform import some_of
from fastresume.reading.workers import parcels
from fastresume.reading.workers.channel import HungUpError, wait
from fastresume.reading.workers.exits import cause
from fastresume.reading.workers.messages import Answer, Arrival, Failure, Made, Task
from fastresume.reading.workers.shift import Shift, WorkerProcess, context_of
from fastresume.reading.workers.status_board import StatusBoard
from fastresume.reading.workers.worker import Worker, work

_log = logging.getLogger("fastresume")

_END_SECONDS = 10.0
_DYING_SECONDS = 1.0
_LOOK_MILLISECONDS = 1000


class WorkerPool:
    """The worker processes of one loader: they start when they are needed, and last until `close`.

    Args:
        spec: what they read.
        workers: how many there are.
        ahead: how many batches each of them makes ahead.
        context: how they are started; None for Python's default.
        page_lock: gives what locks the pages of what they send, for a device; is called after they started.
    """

    def __init__(
        self,
        spec: ReadSpec,
        workers: int,
        ahead: int,
        context: str | BaseContext | None,
        page_lock: Callable[[], _core.PageLock | None] | None = None,
    ) -> None:
        self.workers = workers
        self.spec = spec
        self._ahead = workers * ahead
        self._context = context
        self._page_lock = page_lock
        self._process = os.getpid()
        self._put_up(StatusBoard(workers))
        self._shift: Shift | None = None
        self._serving = 0
        self._served: _core.Pass | None = None
        self._start, self._packed_round = "", b""
        self._first = self._expected = self._asked = 0
        """Numbers of batches of the serving: the first one, the next to come, the next to be asked for."""
        self._is_sound = False

    def _put_up(self, board: StatusBoard) -> None:
        self._board = board
        self.activity = PoolActivity(weakref.ref(self), board)
        """What the workers are at."""

    @property
    def processes(self) -> list[int]:
        """The worker processes that there are, in their order."""
        shift = self._shift
        return [] if shift is None else [worker.pid for worker in shift.workers if worker.pid is not None]

    def run(self, planned: _core.Pass, share: Share, end_cursor: _core.Cursor | None) -> Run:
        """The batches that are left of a pass; `end_cursor` if a pass that starts over ends with it."""
        return Run(self, planned, share, end_cursor)

    def follow(self, spec: ReadSpec) -> None:
        """Lets the workers read another round of a stream from the next serving on."""
        self.spec = spec
        self._packed_round = spec.packed_round()

    def serve(self, planned: _core.Pass, number: int) -> None:
        """Lets the workers make the batches of a pass from the number-th on, if they do not do so already.

        Raises:
            FastresumeError: in a process that can't have workers; if a worker died.
        """
        try:
            self._serve(planned, number)
        except HungUpError:
            raise self._death() from None

    def _serve(self, planned: _core.Pass, number: int) -> None:
        self._check_process()
        if not self._is_sound:
            if self._shift is not None:
                _log.debug("ends the workers: how far they are is not known")
            self._let_go()
        elif self._goes_on(planned, number):
            return
        self._is_sound = False  # should a signal handler raise, what was sent is not known
        shift = self._shift or self._new_shift(planned.epoch)
        # What the workers have of an earlier serving is skipped by them, or thrown away here.
        self._serving += 1
        self._board.serve(self._serving)
        self._served, self._start = planned, planned.cursor_after(number).to_json()
        self._first = self._expected = self._asked = number
        self._ask(shift, planned)
        self._is_sound = True

    def _new_shift(self, epoch: int) -> Shift:
        spec, rank = self.spec, self.spec.world.rank
        generator = torch.Generator().manual_seed(batch_seed(spec.seed, epoch, 0, rank) & 0x7FFFFFFFFFFFFFFF)
        seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=generator))
        worker = Worker(spec, self.workers, self._board, seed)
        shift = Shift(work, (worker,), self.workers, context_of(self._context), self)
        self._shift = shift  # first: a signal handler may raise while it starts
        shift.start()
        _log.info("started %d workers: processes %s", self.workers, self.processes)
        return shift

    def _goes_on(self, planned: _core.Pass, number: int) -> bool:
        """Whether the next batch that the workers send is this one."""
        served, expected = self._served, self._expected
        if served is None or served.cut != planned.cut or expected >= served.batches:
            return False
        if served is planned and expected == number:
            return True
        return served.cursor_after(expected) == planned.cursor_after(number)

    def _ask(self, shift: Shift, served: _core.Pass) -> None:
        """Deals the tasks that may be made ahead. The first of each worker tells where the pass starts."""
        for number in range(self._asked, min(self._expected + self._ahead, served.batches)):
            place = number - self._first
            start, packed_round = (self._start, self._packed_round) if place < self.workers else (None, b"")
            task = Task(self._serving, start, number, packed_round)
            self._asked = number + 1
            shift.workers[place % self.workers].channel.post(pickle.dumps(task))

    def fetch(self, planned: _core.Pass, number: int) -> tuple[Made | Failure, int]:
        """What the workers made of the number-th batch of a pass, and the bytes of its tensors.

        Raises:
            FastresumeError: if a worker died.
        """
        try:
            if self._is_sound and self._has_death():  # else it was reported, and there will be new workers
                self._is_sound = False
                raise HungUpError
            self._serve(planned, number)
            return self._receive()
        except HungUpError:
            raise self._death() from None

    def _has_death(self) -> bool:
        """Whether a worker has died, be it the one that is due or not."""
        return self._shift is not None and any(worker.is_dead() for worker in self._shift.workers)

    def _receive(self) -> tuple[Made | Failure, int]:
        shift, served = self._shift, self._served
        if shift is None or served is None:
            raise _core.FastresumeError("the workers were ended")
        worker = shift.workers[(self._expected - self._first) % self.workers]
        self._is_sound = False  # as long as it is not known whether something was taken from a socket
        while (answer := self._next_answer(worker)) is None:
            if self._has_death():
                raise HungUpError
            for other in shift.workers:
                other.channel.flush()
            self._is_sound = True  # a signal handler that raises here costs nothing
            wait(worker.channel, [other.channel for other in shift.workers], _LOOK_MILLISECONDS)
            self._is_sound = False
        if answer.number != self._expected:
            raise _core.FastresumeError(
                f"the workers sent batch {answer.number} where {self._expected} was due"
            )
        found: Made | Failure = parcels.unpack(answer.parcel, self._page_lock, worker.blocks)
        self._expected += 1
        num_bytes = parcels.num_bytes(answer.parcel)
        self._board.receive(num_bytes)
        if isinstance(found, Failure):  # the others are well: the next serving begins with this task
            self._served = None
        else:
            self._ask(shift, served)
        self._is_sound = True
        return found, num_bytes

    def _next_answer(self, worker: WorkerProcess) -> Answer | None:
        """What a worker sent for the present serving, if it is there."""
        while (message := worker.channel.receive()) is not None:
            data, file = message
            answer: Answer = pickle.loads(data)  # noqa: S301  (of our workers)
            if file >= 0:
                parcel = answer.parcel._replace(handle=parcels.Enclosed(file))
                answer = answer._replace(parcel=parcel)
            if answer.serving == self._serving:
                return answer
            parcels.give_back(answer.parcel, worker.blocks)
        return None

    def close(self) -> None:
        """Ends the workers; they start again when they are needed."""
        shift = self._shift
        self._let_go()
        if shift is not None:
            shift.wait(_END_SECONDS)

    def _let_go(self) -> None:
        """Ends workers if one is dead, or if what they will send is not known."""
        self._is_sound = False
        if self._shift is not None:
            self._shift.end()
        self._shift = self._served = None

    def _check_process(self) -> None:
        if self._process != os.getpid():  # a forked copy: the workers are its parent's
            self._let_go()
            self._put_up(StatusBoard(self.workers))
            self._process = os.getpid()
        if multiprocessing.current_process().daemon and self._shift is None:
            raise _core.FastresumeError(
                "a daemon process can't start worker processes: pass num_workers=0 to the Loader, whose "
                "threads do the same"
            )

    def _death(self) -> _core.FastresumeError:
        """What is raised when a worker died."""
        self._is_sound = False
        exiting.stay_if_exiting()
        shift = self._shift
        workers = [] if shift is None else shift.workers
        died: list[WorkerProcess] = []
        end = time.monotonic() + _DYING_SECONDS
        while not died or any(worker.exit_code() is None for worker in died):
            if time.monotonic() > end:
                break
            time.sleep(0.01)  # a socket knows it sooner
            died = [worker for worker in workers if worker.is_dead()]
        before = {} if shift is None else shift.kills_before
        message = "; ".join(
            f"worker {worker.number} of {self.workers} (process {worker.pid}) "
            + cause(worker.exit_code(), before)
            for worker in died
        )
        if not died:
            message = "a worker closed its connection to the main process"
        _log.error("%s", message)
        method = context_of(self._context).get_start_method()
        if method != "fork" and any(worker.exit_code() == 1 for worker in died):
            message += (
                f". Under {method!r} a worker imports the script first, and its error is above: what starts "
                "the job must be under if __name__ == '__main__':"
            )
        step = "" if self._served is None else f" {self._served.step_of(self._expected)}"
        self._let_go()  # the others have no one to work for
        return _core.FastresumeError(
            f"{message}. The cursor is before step{step}: the next next() or iter() continues there, with "
            "new workers"
        )

    def files_of(self, number: int) -> list[str]:
        """The files that hold rows of a batch of the present serving, in the order of its rows."""
        served = self._served
        if served is None or number >= served.batches:
            return []
        return self.spec.files_of(served, number)

    def __repr__(self) -> str:
        return f"WorkerPool(workers={self.workers})"


class Run:
    """The batches of one pass in order: has the methods of a reader. It may be left at any moment."""

    def __init__(
        self, pool: WorkerPool, planned: _core.Pass, share: Share, end_cursor: _core.Cursor | None
    ) -> None:
        self._pool = pool
        self._planned = planned
        self._share = share
        self._end_cursor = end_cursor
        self._process = os.getpid()
        self._number = planned.batches - planned.batches_left
        self._arrival: Arrival | None = None

    @property
    def activity(self) -> Activity:
        """What the workers are at."""
        return self._pool.activity

    def start(self) -> None:
        """Starts the workers, and lets them make the first batches."""
        if self._number < self._planned.batches:
            self._pool.serve(self._planned, self._number)

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
            found, num_bytes = self._pool.fetch(self._planned, self._number)
            if isinstance(found, Failure):
                raise found.exception()
            self._arrival = self._arrived(found, num_bytes)
        return self._arrival

    def advance(self) -> None:
        """Lets go of the front batch."""
        self._number += 1

    def close(self) -> None:
        """Lets go of the front batch; the workers are the pool's."""
        self._arrival = None

    def _arrived(self, made: Made, num_bytes: int) -> Arrival:
        planned, share, number = self._planned, self._share, self._number
        ends_pass = number + 1 == planned.batches
        cursor = planned.cursor_after(number + 1)
        after = self._end_cursor if ends_pass and self._end_cursor is not None else cursor
        masked = self._pool.spec.schema.masked
        # Not to hold on to the memory of all tensors, which may go to a device.
        runs = made.runs.copy()
        sources = None if made.sources is None else made.sources.copy()
        units = None if made.units is None else made.units._replace(offsets=made.units.offsets.copy())
        counts = (made.num_rows, made.valid_rows)
        place = (planned.epoch, planned.step_of(number))
        origin = Origin(after, *place, *counts, runs, masked, share, made.damage, sources, units, made.marks)
        values: Any = made.values
        num_bytes -= sum(each.nbytes for each in (runs, sources, units and units.offsets) if each is not None)
        return Arrival(Batch(values, origin), planned, number, share.rank, num_bytes, cursor)


class PoolActivity:
    """What worker processes are at; does not keep them."""

    def __init__(self, pool: weakref.ref[WorkerPool], board: StatusBoard) -> None:
        self._pool = pool
        self._board = board

    @property
    def seconds(self) -> float:
        """How long files were read and decoded, over all workers."""
        return self._board.seconds

    @property
    def transform_seconds(self) -> float:
        """How long transforms ran, over all workers."""
        return self._board.transform_seconds

    @property
    def asked(self) -> StoreCounts:
        """What all workers asked of stores."""
        return self._board.asked

    def queued(self) -> tuple[int, int]:
        """How many batches are ready, and their bytes."""
        return self._board.queued()

    def lines(self) -> list[str]:
        """What each worker is at, in words, and in which files its batch is."""
        pool, found = self._pool(), []
        for line, number in self._board.lines():
            files = [] if pool is None or number is None else pool.files_of(number)
            found.append(f"{line}, of {some_of(files)}" if files else line)
        return found
