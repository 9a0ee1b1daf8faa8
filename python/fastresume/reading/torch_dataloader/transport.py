"""Sends batches from the workers of torch's DataLoader to the main process, which then moves the cursor.

A batch carries a ticket, by which the main process identifies it when it comes out of the DataLoader.
"""

from __future__ import annotations

import os
import sys
import weakref
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self

from torch.utils.data.dataloader import _BaseDataLoaderIter

import fastresume._core as _core
from fastresume.batch.batch import Batch, as_pytree
from fastresume.batch.origin import Origin
from fastresume.batch.schema import Tensors
from fastresume.platform import is_alive
from fastresume.reading.workers import parcels
from fastresume.state.shared_cursor import Ticket, shared_cursor_of


class Departing(Batch):
    """A batch on its way from a worker to the main process."""

    __slots__ = ("_ticket",)

    def __init__(self, tensors: Tensors, origin: Origin, ticket: Ticket) -> None:
        super().__init__(tensors, origin)
        self._ticket = ticket

    def _like(self, tensors: Tensors) -> Self:
        return type(self)(tensors, self._origin, self._ticket)


_sender: parcels.Sender | None = None


def _depart(batch: Departing) -> tuple[Any, ...]:
    """Sends the batch through torch's queue, from a thread of the worker's."""
    global _sender  # noqa: PLW0603  (of this process: a forked one has blocks of its own)
    if _sender is None or _sender.process != os.getpid():
        _sender = parcels.Sender()
    try:
        return _arrive, (_sender.pack((batch._tensors, batch._origin)), batch._ticket)
    except Exception as error:  # noqa: BLE001  (the queue would drop the batch, and the main process would wait)
        why = parcels.why_unsent(batch._tensors, error)
        return _Lost, (f"can't be sent by worker {batch._ticket.worker}: {why}",)


ForkingPickler.register(Departing, _depart)


def _arrive(sent: parcels.Parcel, ticket: Ticket) -> Batch:
    """Receives the batch in the main process."""
    try:
        tensors, origin = parcels.unpack(sent)
    except Exception as error:  # noqa: BLE001  (the queue would drop the batch, and this process would wait)
        return _Lost(f"of worker {ticket.worker} can't be received: {type(error).__name__}: {error}")
    if (sender := parcels.sender_of(sent)) is not None and ticket.iteration[0] not in _senders:
        _forget([process for process in _senders if not is_alive(process)])
        _senders[ticket.iteration[0]] = sender
    return (
        _Arrived(tensors, origin, ticket)
        if shared_cursor_of(ticket.owner) is not None
        else Batch(tensors, origin)
    )


_senders: dict[int, str] = {}
"""The names of the senders of worker processes."""

_iterators: weakref.WeakSet[Any] = weakref.WeakSet()
"""The iterators of DataLoaders that have returned a batch."""


def _forget(processes: list[int]) -> None:
    """Releases the shared memory of workers that have ended; memory that batches hold stays."""
    for process in processes:
        if (sender := _senders.pop(process, None)) is not None:
            parcels.forget(sender)


def _processes_of(iterator: object) -> list[int]:
    """The worker processes of a DataLoader iterator, in their order."""
    return [worker.pid for worker in getattr(iterator, "_workers", ())]


class _Arrived(Departing):
    """A batch that waits to come out of the DataLoader, and must notice that moment.

    A batch is unpickled when it arrives, which may be long before it comes out. Another worker's batch may be
    due first, or a pinning thread may fetch ahead. The one thing that the DataLoader does with it on the way
    out is `isinstance(data, ExceptionWrapper)` in `_process_data`, which looks at `__class__`.
    """

    __slots__ = ()

    @property  # type: ignore[misc]  # the one of `object` can be assigned, too
    def __class__(self) -> type[Batch]:  # type: ignore[override]  # see above
        caller = sys._getframe(1)
        if caller.f_code.co_name == "_process_data":
            shared = shared_cursor_of(self._ticket.owner)
            if shared is not None:
                iterator = caller.f_locals.get("self")
                _check_iterator(iterator, self._ticket)
                shared.hand_over(self._ticket, self.cursor._core, _processes_of(iterator))
        return Batch

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self._tensors, self._origin)


as_pytree(_Arrived)


class _Lost(Batch):
    """What is sent instead of a batch that could not be sent: it raises an error when it comes out."""

    __slots__ = ("_reason",)

    def __init__(self, reason: str) -> None:
        self._tensors = {}
        self._reason = reason

    def _like(self, _tensors: Tensors) -> Self:
        return self

    @property  # type: ignore[misc]  # see _Arrived
    def __class__(self) -> type[Batch]:  # type: ignore[override]  # see _Arrived
        if sys._getframe(1).f_code.co_name == "_process_data":
            raise _core.FastresumeError(f"a batch {self._reason}")
        return Batch


def _check_iterator(iterator: object, ticket: Ticket) -> None:
    """Refuses a DataLoader that returns batches in another order than the workers' turns.

    Raises:
        FastresumeError: if it does so on purpose, or because a worker's error was caught.
    """
    if not isinstance(iterator, _BaseDataLoaderIter):  # torchdata's are
        return
    if iterator not in _iterators:
        _iterators.add(iterator)
        weakref.finalize(iterator, _forget, _processes_of(iterator)).atexit = False
    if not getattr(iterator, "_in_order", True):
        raise _core.FastresumeError(
            "in_order=False is not supported: a batch would come before one that its cursor counts as "
            "delivered; leave it out"
        )
    due = getattr(iterator, "_num_yielded", ticket.place)
    if due != ticket.place:
        raise _core.FastresumeError(
            f"batch {ticket.place} of this DataLoader iterator came out where batch {due} was due: the error "
            "of a worker was caught, and its batches are lost; or several threads are in next() of it; or "
            "it reads datasets one after another, as a ChainDataset does: write fr.ParquetDataset([path, "
            "other]). To continue after the last batch, call dataset.load_state_dict(batch.state_dict()) and "
            "iter() on the DataLoader, or use fastresume.Loader"
        )
