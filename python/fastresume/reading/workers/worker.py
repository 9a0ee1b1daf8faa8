"""A worker process of a `Loader`: it makes the batch that a task names, and knows nothing between tasks.

The reader that made a batch is kept for the task that follows it; any other task opens one where its
batch begins. So every worker can make every batch, and which one does changes nothing.
"""

from __future__ import annotations

import os
import pickle
import traceback
from socket import socket
from typing import Any

import torch
from torch.utils.data import Dataset
from torch.utils.data._utils import worker as torch_worker

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.seeds import batch_seed
from fastresume.reading.prefetch import Reader
from fastresume.reading.spec import ReadSpec
from fastresume.reading.store_counts import StoreCounts
from fastresume.reading.transform import make_batch
from fastresume.reading.workers import parcels
from fastresume.reading.workers.channel import Channel, HungUpError
from fastresume.reading.workers.messages import Answer, Failure, Made, Task
from fastresume.reading.workers.process import ProcessOrigin, begin
from fastresume.reading.workers.status_board import READING, SENDING, TRANSFORMING, WAITING, StatusBoard
from fastresume.rng import seed_all


class Worker(Dataset[Batch]):
    """What a worker process makes batches with.

    Args:
        spec: what to read.
        workers: how many workers there are.
        board: where they read which serving is wanted, and write what they are at.
        seed: that of the first worker, for `torch.utils.data.get_worker_info()`.
    """

    def __init__(self, spec: ReadSpec, workers: int, board: StatusBoard, seed: int) -> None:
        self._spec = spec
        self._workers = workers
        self._board = board
        self._seed = seed
        self._worker = 0
        self._asked = StoreCounts()
        self._sender = parcels.Sender(parcels.Enclosed)
        self._reader: Reader | None = None
        self._start, self._packed_round = "", b""
        self._next: tuple[str, int] | None = None

    def work(self, worker: int, channel: Channel) -> None:
        """Makes what it is asked for, until the main process hangs up, or is gone."""
        self._worker = worker
        # A fork has the counts of what forked it.
        self._asked = StoreCounts.of(self._spec.stores)
        self._sender = parcels.Sender(parcels.Enclosed)  # of this process
        info: Any = torch_worker.WorkerInfo  # not typed alike in all versions
        seed = self._seed + worker
        seed_all(seed)
        torch_worker._worker_info = info(id=worker, num_workers=self._workers, seed=seed, dataset=self)
        while True:
            try:
                message = channel.receive(waits=True)
            except HungUpError:
                return
            if message is None:
                continue
            task: Task = pickle.loads(message[0])  # noqa: S301  (of the main process)
            if task.start is not None:
                self._start, self._packed_round = task.start, task.packed_round
            if self._board.serving != task.serving:
                continue
            data, file = self._answer(task)
            try:
                channel.send(data, file)
            except HungUpError:
                return

    def _answer(self, task: Task) -> tuple[bytes, int]:
        """What is sent for a task, and the descriptor that goes with it or -1."""
        found: Made | Failure
        sent: dict[str, Any] = {}
        worker = self._worker
        try:
            batch = self._make(task, worker)
            self._board.note(worker, SENDING, task.number, task.serving)
            origin = batch._origin
            counts = (origin.num_rows, origin.valid_rows)
            whose = (origin.place_sources, origin.units)
            values: Any = dict(batch._tensors)
            sent = values
            found = Made(values, origin.runs, origin.damage, *whose, *counts, origin.marks)
        except Exception as error:  # noqa: BLE001  (it is raised in the main process)
            found = self._failure(error)
        try:
            parcel = self._sender.pack(found)
        except Exception as error:  # noqa: BLE001  (as above)
            reason = f"a batch can't be sent by worker {worker}: {parcels.why_unsent(sent, error)}"
            parcel = self._sender.pack(self._failure(_core.FastresumeError(reason)))
        asked = StoreCounts.of(self._spec.stores).minus(self._asked)
        self._board.sent(worker, parcels.num_bytes(parcel), asked)
        self._board.note(worker, WAITING, task.number, task.serving)
        handle: Any = parcel.handle
        file: int = -1 if handle is None else handle.file
        return pickle.dumps(Answer(task.serving, task.number, parcel), pickle.HIGHEST_PROTOCOL), file

    def _failure(self, error: Exception) -> Failure:
        self._next = None
        return _failure(self._worker, error)

    def _make(self, task: Task, worker: int) -> Batch:
        self._board.note(worker, READING, task.number, task.serving)
        reader = self._reader
        if reader is None or self._next != (self._start, task.number):
            reader = self._open(task.number)
        delivered = reader.front()
        if delivered is None:
            raise _core.FastresumeError(f"the pass has no batch {task.number}")
        if self._spec.transforms:
            self._board.note(worker, TRANSFORMING, task.number, task.serving)
            seed_all(batch_seed(self._share.seed, delivered.epoch, delivered.step, self._share.rank))
        batch = make_batch(self._spec, self._share, self._end_cursor, delivered)
        reader.advance()
        self._next = self._start, task.number + self._workers
        return batch

    def _open(self, number: int) -> Reader:
        """Opens a reader for this batch and every one that this worker has after it."""
        if self._packed_round:  # another round of a stream
            self._spec, self._packed_round = self._spec.of_packed_round(self._packed_round), b""
        spec, world = self._spec, self._spec.world
        self._next = self._reader = None
        start = _core.Cursor.parse(self._start)
        cursor = spec.pass_from(start, self._workers).cursor_after(number)
        planned = spec.pass_from(cursor, self._workers)
        self._end_cursor = spec.end(planned, spec.bounds(start)[1])
        self._share = spec.share(planned, cursor)
        place = (world.rank, world.world_size, 0, self._workers)
        self._reader = spec.reader(cursor, planned, place)
        return self._reader


def work(origin: ProcessOrigin, number: int, end: socket, worker: Worker) -> None:
    """The life of a worker process."""
    begin(origin)
    torch.set_num_threads(1)  # the others are at work, too
    worker.work(number, Channel(end))


def _failure(worker: int, error: Exception) -> Failure:
    trace = "".join(traceback.format_exception(error))
    error.__traceback__ = error.__cause__ = error.__context__ = None
    try:
        data = pickle.dumps(error)
    except Exception:  # noqa: BLE001  (what a user's exception holds)
        data = None
    return Failure(worker, os.getpid(), data, trace)
