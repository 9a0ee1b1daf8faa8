"""A worker process of a `Loader`: it makes the batch that a task names, and knows nothing between tasks.

The reader that made a batch is kept for the task that goes on after it; any other task opens one where its
batch begins. So every worker can make every batch, and which one does changes nothing.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random  # noqa: TID251  (for the generators of a worker process of our own)
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import parent_process
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

from fastresume import _core, parcel
from fastresume.batch import Batch
from fastresume.board import READING, SENDING, TRANSFORMING, WAITING, Board
from fastresume.generators import untouched
from fastresume.intervals import Intervals
from fastresume.seeds import batch_seed
from fastresume.transform import make_batch

if TYPE_CHECKING:
    from fastresume.dataset import ParquetDataset

_WATCH_SECONDS = 1.0

IGNORED = (signal.SIGINT, signal.SIGTERM)
"""Signals that a worker leaves to the main process."""

_watched: set[int] = set()


class Task(NamedTuple):
    """A batch to make: the number-th of the cut that the pass has from a cursor on.

    `start` is the cursor's text; None for that of the task that the worker had before.
    """

    serving: int
    start: str | None
    number: int


class Made(NamedTuple):
    """What a worker made of a task: values by name, and the runs of row numbers, int64 `[n, 2]`."""

    serving: int
    number: int
    values: dict[str, object]
    runs: Intervals


class Failure(NamedTuple):
    """What a worker raised over a task."""

    serving: int
    number: int
    worker: int
    process: int
    error: bytes | None
    trace: str

    def exception(self) -> BaseException:
        """What is raised in the main process: the same, with where it came from as a note."""
        error: BaseException | None = None
        try:
            error = pickle.loads(self.error or b"")  # noqa: S301  (of our workers)
        except Exception:  # noqa: BLE001  (what a user's exception does when it is made again)
            error = None
        if not isinstance(error, BaseException):
            error = _core.FastresumeError(
                "a worker process raised what can't be sent; its traceback is below"
            )
        error.add_note(f"in worker {self.worker} (process {self.process}):\n{self.trace}")
        return error


class Station(Dataset[bytes]):
    """What a worker process makes batches with: `station[task]` is a pickled `Parcel`.

    Args:
        dataset: what to read.
        workers: how many workers there are.
        board: where they read which serving is wanted, and write what they are at.
    """

    def __init__(self, dataset: ParquetDataset, workers: int, board: Board) -> None:
        self._dataset = dataset
        self._workers = workers
        self._board = board
        self._sender: parcel.Sender | None = None
        self._reader: _core.Reader | None = None
        self._start = ""
        self._next: tuple[str, int] | None = None

    def __getitem__(self, task: Task) -> bytes:
        if self._board.serving != task.serving:
            return b""
        self._sender = self._sender or parcel.Sender()
        info = get_worker_info()
        worker = 0 if info is None else info.id
        found: Made | Failure
        try:
            batch = self._make(task, worker)
            self._board.note(worker, SENDING, task.number, task.serving)
            found = Made(task.serving, task.number, dict(batch._tensors), batch._origin.runs)
        except Exception as error:  # noqa: BLE001  (it is raised in the main process)
            found = self._failure(task, error)
        try:
            packed = self._sender.pack(found)
            sent = bytes(ForkingPickler.dumps(packed))
        except Exception as error:  # noqa: BLE001  (as above)
            packed = self._sender.pack(self._failure(task, error))
            sent = bytes(ForkingPickler.dumps(packed))
        self._board.sent(worker, parcel.num_bytes(packed))
        self._board.note(worker, WAITING, task.number, task.serving)
        return sent

    def _failure(self, task: Task, error: Exception) -> Failure:
        self._next = None
        return _failure(task, error)

    def _make(self, task: Task, worker: int) -> Batch:
        self._board.note(worker, READING, task.number, task.serving)
        dataset = self._dataset
        if task.start is not None:
            self._start = task.start
        reader = self._reader
        if reader is None or self._next != (self._start, task.number):
            reader = self._open(task.number)
        delivered = reader.front()
        if delivered is None:
            raise _core.FastresumeError(f"the pass has no batch {task.number}")
        if dataset._transforms:
            self._board.note(worker, TRANSFORMING, task.number, task.serving)
            _seed(batch_seed(self._share.seed, delivered.epoch, delivered.step, self._share.rank))
        batch = make_batch(dataset, self._share, self._end_cursor, delivered)
        reader.advance()
        self._next = self._start, task.number + self._workers
        return batch

    def _open(self, number: int) -> _core.Reader:
        """Opens a reader for this batch and every one that this worker has after it."""
        dataset, world = self._dataset, self._dataset.world
        self._next = self._reader = None
        start = _core.Cursor.parse(self._start)
        self._end_cursor = dataset._bounds(start)[1]
        cursor = dataset._pass(start, self._workers).cursor_after(number)
        planned = dataset._pass(cursor, self._workers)
        self._share = dataset._share(planned, cursor)
        place = (world.rank, world.world_size, 0, self._workers)
        self._reader = _core.Reader(dataset._manifest, dataset._layout, cursor, planned, place, 0, 0)
        return self._reader


def _failure(task: Task, error: Exception) -> Failure:
    info = get_worker_info()
    trace = "".join(traceback.format_exception(error))
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        data = pickle.dumps(error)
    except Exception:  # noqa: BLE001  (what a user's exception holds)
        data = None
    worker = 0 if info is None else info.id
    return Failure(task.serving, task.number, worker, os.getpid(), data, trace)


def _seed(seed: int) -> None:
    """Seeds the global generators of this worker, which are nobody else's, for one batch.

    So what a transform draws from them, and not from `batch.generator()`, comes again after a resume, too.
    """
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002, TID251  (of this worker process)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would call CUDA


@contextmanager
def seeded_for(seed: int, epoch: int, step: int, rank: int) -> Iterator[None]:
    """A context in which this process draws what a worker draws for a batch; then all is as it was before."""
    with untouched():
        _seed(batch_seed(seed, epoch, step, rank))
        yield


@contextmanager
def signals_held(context: str | BaseContext | None) -> Iterator[None]:
    """A context in which workers start that don't hear the signals that they will ignore; see `begin`.

    Between their start and `begin`, a signal to the whole process group would end them. Not for a fork
    server, which serves others, too.
    """
    chosen = context if isinstance(context, BaseContext) else multiprocessing.get_context(context)
    if chosen.get_start_method() == "forkserver":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin(_worker: int) -> None:
    """What a worker of a `Loader` does first. Signals are for the main process, which ends the workers.

    A job that is told to end by a signal to all its processes has a step to finish, and needs its batch.
    """
    for ignored in IGNORED:
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, IGNORED)  # what came before this was held, and is dropped
    settle()


def settle() -> None:
    """Makes a worker process one that touches no inherited memory without need, and outlives nobody.

    The garbage collector leaves alone what is there already: it would write to pages that a forked worker
    shares with its parent. And the process ends when its parent is dead: torch looks for that only between
    batches, and notes whose child it is only when it is up.
    """
    if os.getpid() in _watched:
        return
    _watched.add(os.getpid())
    gc.freeze()
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_watch, args=(parent.sentinel, os.getppid()), daemon=True).start()


def _watch(sentinel: int, parent: int) -> None:
    while os.getppid() == parent and not wait([sentinel], _WATCH_SECONDS):
        pass
    os._exit(1)
