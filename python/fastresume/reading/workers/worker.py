"""A worker process of a `Loader`: it makes the batch that a task names, and knows nothing between tasks.

The reader that made a batch is kept for the task that goes on after it; any other task opens one where its
batch begins. So every worker can make every batch, and which one does changes nothing.
"""

from __future__ import annotations

import os
import pickle
import random  # noqa: TID251  (for the generators of a worker process of our own)
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.reduction import ForkingPickler

import numpy as np
import torch
from torch.utils.data import Dataset, get_worker_info

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.seeds import batch_seed
from fastresume.reading.spec import ReadSpec
from fastresume.reading.transform import make_batch
from fastresume.reading.workers import shared_memory
from fastresume.reading.workers.messages import Failure, Made, Task
from fastresume.reading.workers.status_board import READING, SENDING, TRANSFORMING, WAITING, Board
from fastresume.rng import untouched


class Station(Dataset[bytes]):
    """What a worker process makes batches with: `station[task]` is a pickled `Parcel`.

    Args:
        spec: what to read.
        workers: how many workers there are.
        board: where they read which serving is wanted, and write what they are at.
    """

    def __init__(self, spec: ReadSpec, workers: int, board: Board) -> None:
        self._spec = spec
        self._workers = workers
        self._board = board
        self._sender: shared_memory.Sender | None = None
        self._reader: _core.Reader | None = None
        self._start = ""
        self._next: tuple[str, int] | None = None

    def __getitem__(self, task: Task) -> bytes:
        if self._board.serving != task.serving:
            return b""
        self._sender = self._sender or shared_memory.Sender()
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
        self._board.sent(worker, shared_memory.num_bytes(packed))
        self._board.note(worker, WAITING, task.number, task.serving)
        return sent

    def _failure(self, task: Task, error: Exception) -> Failure:
        self._next = None
        return _failure(task, error)

    def _make(self, task: Task, worker: int) -> Batch:
        self._board.note(worker, READING, task.number, task.serving)
        if task.start is not None:
            self._start = task.start
        reader = self._reader
        if reader is None or self._next != (self._start, task.number):
            reader = self._open(task.number)
        delivered = reader.front()
        if delivered is None:
            raise _core.FastresumeError(f"the pass has no batch {task.number}")
        if self._spec.transforms:
            self._board.note(worker, TRANSFORMING, task.number, task.serving)
            _seed(batch_seed(self._share.seed, delivered.epoch, delivered.step, self._share.rank))
        batch = make_batch(self._spec, self._share, self._end_cursor, delivered)
        reader.advance()
        self._next = self._start, task.number + self._workers
        return batch

    def _open(self, number: int) -> _core.Reader:
        """Opens a reader for this batch and every one that this worker has after it."""
        spec, world = self._spec, self._spec.world
        self._next = self._reader = None
        start = _core.Cursor.parse(self._start)
        self._end_cursor = spec.bounds(start)[1]
        cursor = spec.pass_from(start, self._workers).cursor_after(number)
        planned = spec.pass_from(cursor, self._workers)
        self._share = spec.share(planned, cursor)
        place = (world.rank, world.world_size, 0, self._workers)
        self._reader = _core.Reader(spec.manifest, spec.layout, cursor, planned, place, 0, 0)
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
