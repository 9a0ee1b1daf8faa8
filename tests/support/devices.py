"""What stands for a CUDA device where there is none: its copies are done as late as they may be.

A copy is done when somebody waits for it, and not before; it reads the host's memory by its address, as a
device does. So memory that was filled again too soon, and a wait that is missing, show in the values.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import fastresume as fr
from fastresume import _core
from fastresume.reading import device as module

UNTOUCHED = 0xA5
"""What memory of a device holds before the copy."""


class LateMark:
    """A point of a `LateStream`."""

    def __init__(self, stream: LateStream, number: int) -> None:
        self._stream = stream
        self.number = number

    def query(self) -> bool:
        """Whether it is done; one of three times, the stream goes on until it is."""
        self._stream.calls += 1
        return self._stream.may_finish(self.number)

    def synchronize(self) -> None:
        self._stream.calls += 1
        self._stream.blocked += not self._stream.has_finished(self.number)
        self._stream.finish(self.number)


class LateStream:
    """Has the methods of `CudaStream`; the device's memory is the host's."""

    def __init__(self, device: torch.device, driver: Driver | None = None) -> None:
        self.asked_for = device
        self.opened_in = threading.get_ident()
        self.page_lock = None if driver is None else driver.page_lock
        self.not_locked: list[int] = []
        """Bytes of what was copied, and lay in no locked pages."""
        self._driver = driver
        self.device = torch.device("cpu")
        self.put = 0
        """Batches of which copies were begun."""
        self.used: Counter[int] = Counter()
        """How often the memory at an address was kept from other use."""
        self.calls = 0
        """How often anything was asked of the device."""
        self.blocked = 0
        """How often the host waited for a copy."""
        self.threads: set[int] = set()
        """In which copies were begun."""
        self.fail_at: set[int] = set()
        """Copies that fail, by their numbers."""
        self.begun = 0
        self._lock = threading.RLock()  # a plain one: a signal handler may raise anywhere in Python code
        self._progress = threading.Condition()
        self._asked = 0
        self._copies = 0
        self._pending: deque[tuple[int, int, int, Tensor]] = deque()

    @contextmanager
    def _copying(self) -> Iterator[None]:
        self.threads.add(threading.get_ident())
        yield
        with self._progress:
            self.put += 1
            self._progress.notify_all()

    def copying(self) -> AbstractContextManager[object]:
        self.calls += 1
        return self._copying()

    def copy(self, value: Any) -> Any:
        if isinstance(value, fr.Jagged):
            return value._map(self._copied)
        return self._copied(value) if isinstance(value, Tensor) else value.to(self.device, non_blocking=True)

    def _copied(self, tensor: Tensor) -> Tensor:
        self.begun += 1
        if self.begun - 1 in self.fail_at:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory")
        given = tensor.detach()
        there = torch.empty(given.shape, dtype=given.dtype)
        if not given.is_contiguous():
            return there.copy_(given)
        size = there.nbytes
        if self._driver is not None and not self._driver.has_locked(given.data_ptr(), size):
            self.not_locked.append(size)
        ctypes.memset(there.data_ptr(), UNTOUCHED, size)
        with self._lock:  # no reference to what is copied is kept
            self._pending.append((there.data_ptr(), given.data_ptr(), size, there))
            self._copies += 1
        return there

    def mark(self) -> LateMark:
        return LateMark(self, self._copies)

    def wait(self, mark: LateMark) -> None:
        self.finish(mark.number)

    def use(self, value: Any) -> None:
        if isinstance(value, fr.Jagged):
            value._map(self._used)
        elif isinstance(value, Tensor):
            self._used(value)
        else:
            value.record_stream(self)

    def _used(self, tensor: Tensor) -> Tensor:
        self.used[tensor.data_ptr()] += 1
        return tensor

    def may_finish(self, number: int) -> bool:
        self._asked += 1
        if self._asked % 3 == 0:
            self.finish(number)
        return self.has_finished(number)

    def has_finished(self, number: int) -> bool:
        return self._copies - len(self._pending) >= number

    def finish(self, number: int) -> None:
        with self._lock:
            while self._copies - len(self._pending) < number:
                to, source, size, _ = self._pending[0]
                ctypes.memmove(to, source, size)
                self._pending.popleft()

    def finish_all(self) -> None:
        self.finish(self._copies)

    def wait_for(self, batches: int) -> None:
        """Waits until copies of so many batches were begun."""
        with self._progress:
            assert self._progress.wait_for(lambda: self.put >= batches, timeout=60)

    @property
    def pending(self) -> int:
        """Copies that are not done."""
        return len(self._pending)


class Driver:
    """Stands for CUDA's driver where pages are locked: notes which are, and refuses all if it is told to.

    It stays as long as the process, as pages may that it has locked.
    """

    def __init__(self) -> None:
        self.locked: dict[int, int] = {}
        """Bytes by address."""
        self.calls = 0
        self.wrong: list[str] = []
        self.status = 0
        """What it says when it is asked to lock."""
        address, number = ctypes.c_void_p, ctypes.c_int
        one = ctypes.CFUNCTYPE(number, address)
        self._functions = (
            one(self._note),
            one(self._note),
            ctypes.CFUNCTYPE(number, address, ctypes.c_size_t, ctypes.c_uint)(self._register),
            one(self._unregister),
        )
        addresses = [ctypes.cast(function, address).value for function in self._functions]
        self.page_lock = _core.PageLock(1, tuple(addresses))
        _drivers.append(self)

    def _note(self, _context: int) -> int:
        self.calls += 1
        return 0

    def _register(self, address: int, size: int, flags: int) -> int:
        if self.status == 0:
            ends = (address, address + size)
            if flags != 1 or any(ends[0] < at + held and at < ends[1] for at, held in self.locked.items()):
                self.wrong.append(f"locked {ends} beside {self.locked}")
            self.locked[address] = size
        return self.status

    def _unregister(self, address: int) -> int:
        if self.locked.pop(address, None) is None:
            self.wrong.append(f"unlocked {address}")
        return 0

    def has_locked(self, address: int, size: int) -> bool:
        return any(at <= address and address + size <= at + held for at, held in self.locked.copy().items())


_drivers: list[Driver] = []


class LateDevices:
    """Two of them, in the place of CUDA."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.driver: Driver | None = None
        """What locks pages for the next streams."""
        self.streams: list[LateStream] = []
        self.fail_at: set[int] = set()
        """What the next streams fail at."""
        monkeypatch.setattr(module, "CudaStream", self._opened)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)

    def _opened(self, device: torch.device) -> LateStream:
        stream = LateStream(device, self.driver)
        stream.fail_at |= self.fail_at
        self.streams.append(stream)
        return stream

    @property
    def stream(self) -> LateStream:
        """The only one that was opened."""
        (stream,) = self.streams
        return stream
