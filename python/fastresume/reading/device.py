"""Copies batches to a device ahead of the loop, on a stream of its own.

Three moments must not be confused: when a copy begins, when it is done, and when the consumer is done. Host
memory is held until the copy's event is done; only then it is free to be filled again, as in a ring. The
consumer's work comes after that event, by the order of streams, and no thread waits. Device memory is reused
after the work that the consumer's stream had when the batch was released (`record_stream`).
"""

from __future__ import annotations

import os
from collections import deque
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor

import fastresume._core as _core
from fastresume.batch.batch import Batch
from fastresume.batch.jagged import dtype_name
from fastresume.batch.schema import Tensors
from fastresume.options.device import check_present, named_device
from fastresume.reading.pinned import page_lock, tell_failure
from fastresume.reading.spec import ReadSpec

AHEAD = 2
"""The number of batches on the device, or on their way, beside the one in use."""


class Mark(Protocol):
    """A point of a stream, like a CUDA event: done when everything before it is done."""

    def query(self) -> bool:
        """Whether it is done."""

    def synchronize(self) -> None:
        """Waits until it is done."""


class CopyStream(Protocol):
    """The operations of a device: `CudaStream`, or what tests use instead.

    `page_lock` locks the pages that copies read, or is None.
    """

    device: torch.device
    page_lock: _core.PageLock | None

    def copying(self) -> AbstractContextManager[object]:
        """The context in which copies are begun; not in a thread that a signal handler may interrupt."""

    def copy(self, value: Any) -> Any:
        """The value on the device, valid as soon as the copy is done."""

    def mark(self) -> Mark:
        """A mark after all copies that were begun."""

    def wait(self, mark: Mark) -> None:
        """Makes later work of the caller's current stream wait for a mark."""

    def use(self, value: Any) -> None:
        """Keeps the value's memory from reuse until the caller's current stream is done with it."""


class CudaStream:
    """A stream of a CUDA device for copies.

    Args:
        device: "cuda" for the current device of the caller's thread, or one by its index.
    """

    def __init__(self, device: torch.device) -> None:
        index: int | None = device.index
        self.device = torch.device("cuda", torch.cuda.current_device() if index is None else index)
        stream: Any = torch.cuda.Stream
        self._stream = stream(self.device)
        self.page_lock = page_lock(self.device)

    def copying(self) -> AbstractContextManager[object]:
        """The context for beginning copies: the stream is current in this thread, the loader's."""
        # Never undone: going back to a device that this process does not use would start that one, too.
        torch.cuda.set_device(self.device)
        return torch.cuda.stream(self._stream)

    def copy(self, value: Any) -> Any:
        """The value on the device, valid as soon as the copy is done."""
        return value.to(self.device, non_blocking=True)

    def mark(self) -> Mark:
        """An event after all copies that were begun."""
        event: Mark = self._stream.record_event()
        return event

    def wait(self, mark: Any) -> None:
        """Makes later work of the caller's current stream wait for an event."""
        torch.cuda.current_stream(self.device).wait_event(mark)

    def use(self, value: Any) -> None:
        """Keeps the value's memory from reuse until the caller's current stream is done with it."""
        value.record_stream(torch.cuda.current_stream(self.device))


class Placed:
    """A batch on a device, or on its way there.

    Args:
        device: the device's copy stream.
        batch: its values; those in `ahead` are on the device.
        mark: done when they are there.
        ahead: their names.
    """

    __slots__ = ("_process", "ahead", "batch", "device", "mark")

    def __init__(self, device: Device, batch: Batch, mark: Mark, ahead: frozenset[str]) -> None:
        self.device = device
        self.batch = batch
        self.mark = mark
        self.ahead = ahead
        self._process = os.getpid()

    def __del__(self) -> None:
        if self._process != os.getpid():  # freeing device memory calls CUDA, which a forked child can't
            _kept.append((self.batch, self.mark))


class _Held:
    """Host memory that is read until a mark is done; it is released with this object, not before."""

    __slots__ = ("_process", "_values", "mark")

    def __init__(self, mark: Mark, values: tuple[object, ...]) -> None:
        self.mark = mark
        self._values = values
        self._process = os.getpid()

    def __del__(self) -> None:
        if self._process == os.getpid():
            self.mark.synchronize()
        else:
            _kept.append((self._values, self.mark))


_kept: list[object] = []


class Device:
    """The device of one loader's batches.

    Args:
        device: a device of the type "cuda".
        is_static: whether every batch comes in the same tensors.
    """

    def __init__(self, device: torch.device, is_static: bool = False) -> None:
        self.device = device
        self.is_static = is_static
        self._process = os.getpid()
        self._stream: CopyStream | None = None
        self._held: deque[_Held] = deque()
        self._static: dict[str, Tensor] = {}

    def open(self) -> CopyStream:
        """The copy stream; the first call makes it, on the current device unless an index was given.

        Raises:
            FastresumeError: in a child that was forked after CUDA had started, where it can't be used.
        """
        is_forked = self._stream is not None and self._process != os.getpid()
        if is_forked or torch.cuda._is_in_bad_fork():
            raise _core.FastresumeError(
                f"CUDA was started before process {os.getpid()} was forked, which therefore can't use it: "
                "fork before anything uses CUDA (Loader.start() starts worker processes), or start processes "
                "by 'spawn'; device=None reads without CUDA"
            )
        if self._stream is None:
            self._process = os.getpid()
            self._stream = CudaStream(self.device)
            self.device = self._stream.device
        return self._stream

    def page_lock(self) -> _core.PageLock | None:
        """The lock for the pages that are copied from; raises as `open` does."""
        return self.open().page_lock

    def put(self, batch: Batch) -> Placed:
        """Begins to copy a batch; its memory is held until the copy is done.

        Don't call it in a thread in which signal handlers may raise: they could leave another stream current.
        """
        stream = self.open()
        while self._held and self._held[0].mark.query():
            self._held.popleft()
        given: dict[str, Any] = batch._tensors
        values: Tensors = {}
        ahead = frozenset(name for name, value in given.items() if _goes_ahead(value))
        with stream.copying():
            try:
                for name, value in given.items():
                    values[name] = stream.copy(value) if name in ahead else value
            finally:
                mark = stream.mark()
                self._held.append(_Held(mark, tuple(given.values())))
        return Placed(self, batch._like(values), mark, ahead)

    def hand_over(self, placed: Placed) -> Batch:
        """The batch, for later work of the caller's current stream; may be called again."""
        stream = self.open()
        tell_failure(stream.page_lock, stacklevel=4)
        stream.wait(placed.mark)
        values: dict[str, Any] = placed.batch._tensors
        for name, value in values.items():
            if name in placed.ahead:
                stream.use(value)
            elif hasattr(value, "to"):
                values[name] = value.to(stream.device)
        return placed.batch

    def in_place(self, batch: Batch) -> Batch:
        """The batch in the tensors of all batches, if they are static; overwrites the batch before.

        The caller's current stream makes these copies, so they come after its work on the batch before.

        Raises:
            ValueError: if the tensors' names differ from the first batch's, or one has another dtype or
                shape.
            TypeError: if a value is not a tensor of one shape.
        """
        if not self.is_static:
            return batch
        tensors: dict[str, Any] = batch._tensors
        self._check_same(batch, tensors)
        kept: Tensors = {}
        for name, value in tensors.items():
            if not isinstance(value, Tensor):
                kept[name] = value
                continue
            if name not in self._static:
                self._static[name] = torch.empty_like(value)
            kept[name] = self._static[name].copy_(value)
        return batch._like(kept)

    def close(self) -> None:
        """Releases the host memory when its copies are done."""
        self._held.clear()

    def _check_same(self, batch: Batch, values: dict[str, Any]) -> None:
        where = f"static=True: the batch of epoch {batch.epoch}, step {batch.step} has"
        for name, value in values.items():
            if not isinstance(value, Tensor) and not hasattr(value, "to"):
                continue
            if not isinstance(value, Tensor) or value.is_nested or value.layout is not torch.strided:
                raise TypeError(
                    f"{where} {name!r}, a {type(value).__name__} whose shape differs from batch to batch: "
                    "let a transform make tensors of one shape of it, or leave static out"
                )
            first = self._static.get(name, value)
            if (first.dtype, first.shape) != (value.dtype, value.shape):
                raise ValueError(
                    f"{where} {name!r} of {_described(value)}, which is {_described(first)} in the first one"
                )
        names = [name for name, value in values.items() if isinstance(value, Tensor)]
        if self._static and self._static.keys() != set(names):
            raise ValueError(f"{where} the tensors {names}, the first one has {list(self._static)}")


def device_of(given: torch.device | str | int | None) -> torch.device | None:
    """The device of a loader's batches, as torch understands the argument; None for the CPU.

    Does not start CUDA.

    Raises:
        TypeError, ValueError: if it is no device, or of another type than CPU and CUDA.
        FastresumeError: if there is no such CUDA device.
    """
    if given is None:
        return None
    device = named_device(given)
    if device.type == "cpu":
        return None
    if device.type != "cuda":
        raise ValueError(
            f"device must be 'cpu', 'cuda' or 'cuda:INDEX', found {given!r}: for another one call "
            "batch.to(device)"
        )
    check_present(given, device)
    return device


def _goes_ahead(value: object) -> bool:
    """Whether a value can be copied on one stream and used on another one."""
    if isinstance(value, Tensor):
        return value.is_cpu and value.layout is torch.strided and not value.is_nested
    return hasattr(value, "to") and hasattr(value, "record_stream")


def _described(tensor: Tensor) -> str:
    return f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"


def check_static(spec: ReadSpec, device: Device | None) -> None:
    """Refuses to keep batches in the same tensors of a device where that can't be.

    Raises:
        ValueError: if there is no device, or the last batch may be smaller.
        TypeError: if rows differ in length.
    """
    if device is None:
        raise ValueError("static=True is for batches on a device: pass device='cuda' with it")
    if spec.ends_smaller:
        raise ValueError(
            "static=True keeps every batch in tensors of one shape, and under tail='short' the last "
            "batch of a pass may be smaller: pass tail='drop' or tail='pad'"
        )
    jagged = [field.name for field in spec.schema.values() if field.is_jagged]
    if jagged and not spec.transforms:
        raise TypeError(
            "static=True keeps every batch in tensors of one shape, and rows differ in length of "
            f"{', '.join(jagged)}: pad them (fr.col(name).pad(length)), leave them out (columns=), or "
            "let a transform make matrices of them"
        )
