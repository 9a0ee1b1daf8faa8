"""Memory without a name that processes share, as a file and mapped: none of it can be left over."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core
from fastresume.platform import Descriptor, path_of, unnamed_file

Memory = npt.NDArray[np.uint8]


def mapped_file(file: int, size: int, page_lock: Callable[[], _core.PageLock | None] | None = None) -> Memory:
    """An unnamed file as memory, uint8 `[size]`, mapped for as long as somebody looks at it."""
    lock = None if page_lock is None else page_lock()
    if lock is None:
        with suppress(RuntimeError):  # where /proc is not there
            # torch's mapping ends without a line of Python, as a lease does.
            path = path_of(file)
            found: Memory = torch.from_file(path, shared=True, size=size, dtype=torch.uint8).numpy()
            return found
    mapping = Mapping(file, size)
    mapping.lock(lock)
    return mapping.bytes()


class Mapping:
    """Shared memory, mapped for as long as this lives; Python's own mapping would keep a descriptor open.

    Raises:
        OSError: if the system maps no more.
    """

    def __init__(self, file: int, size: int) -> None:
        address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, file, 0)
        if address == _MAP_FAILED:
            raise OSError(ctypes.get_errno(), f"can't map {size} bytes of shared memory")
        self.address, self._size = address, size
        self._unmap = _libc.munmap
        self._lock: _core.PageLock | None = None

    def lock(self, lock: _core.PageLock | None) -> None:
        """Has its pages locked for as long as it is mapped."""
        if lock is not None:
            self._lock = lock  # first: a signal handler may raise after the next line
            lock.lock(self.address, self._size)

    def __del__(self) -> None:
        if hasattr(self, "_lock"):
            if self._lock is not None:
                self._lock.unlock(self.address, self._size)
            self._unmap(self.address, self._size)

    def bytes(self) -> Memory:
        """All of it, uint8; the mapping lives as long as what is made of this."""
        exporter: Any = (ctypes.c_ubyte * self._size).from_address(self.address)
        exporter.mapping = self
        return np.frombuffer(exporter, dtype=np.uint8)


class MemoryFile:
    """Memory of zeros, shared with forked children, and with other processes that this is pickled for.

    If the system has no such files, only forked children share it.
    """

    def __init__(self, size: int, file: int | None = None) -> None:
        self._size = size
        self._refused: OSError | None = None
        try:
            file = unnamed_file(size) if file is None else file
        except OSError as error:
            self._refused = error
            self.bytes = memoryview(mmap.mmap(-1, size))
            return
        self._file = Descriptor(file)
        self.bytes = Mapping(file, size).bytes().data

    def __reduce__(self) -> tuple[Any, ...]:
        if self._refused is not None:
            raise OSError(self._refused.errno, f"{self._refused.strerror}, or start them by 'fork'")
        return _shared_over, (self._size, DupFd(self._file.fileno()))


def _shared_over(size: int, file: Any) -> MemoryFile:
    return MemoryFile(size, file.detach())


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value
