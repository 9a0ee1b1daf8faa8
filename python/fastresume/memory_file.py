"""Memory without a name that processes share, as a file and mapped: none of it can be left over."""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import tempfile
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.reduction import DupFd
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import fastresume._core as _core

Memory = npt.NDArray[np.uint8]


def shared_file(size: int) -> int:
    """The descriptor of a file of `size` zeros in memory, without a name, so that none is left over.

    Raises:
        OSError: if there is not enough memory, or the system has no such files.
    """
    if hasattr(os, "memfd_create"):  # not bounded by the size of /dev/shm
        try:
            file = os.memfd_create("fastresume", os.MFD_CLOEXEC)
        except OSError as error:
            message = (
                f"processes can't share memory here, memfd_create failed ({error.strerror}): use no workers"
            )
            raise OSError(error.errno, message) from error
    else:
        with tempfile.TemporaryFile() as draft:
            file = os.dup(draft.fileno())
    try:
        os.ftruncate(file, size)
        if hasattr(os, "posix_fallocate"):  # an error now, and no signal later
            os.posix_fallocate(file, 0, size)
    except BaseException:
        os.close(file)
        raise
    return file


def mapped_file(file: int, size: int, page_lock: Callable[[], _core.PageLock | None] | None = None) -> Memory:
    """A file of `shared_file` as memory, uint8 `[size]`, mapped for as long as somebody looks at it."""
    lock = None if page_lock is None else page_lock()
    if lock is None:
        with suppress(RuntimeError):  # where /proc is not there
            # torch's mapping ends without a line of Python, as a lease does.
            path = f"/proc/self/fd/{file}"
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
            file = shared_file(size) if file is None else file
        except OSError as error:
            self._refused = error
            self.bytes = memoryview(mmap.mmap(-1, size))
            return
        # What closes the descriptor is no line of Python, in which a signal handler might raise.
        self._kept = select.epoll.fromfd(file)
        self._file = file
        self.bytes = Mapping(file, size).bytes().data

    def __reduce__(self) -> tuple[Any, ...]:
        if self._refused is not None:
            raise OSError(self._refused.errno, f"{self._refused.strerror}, or start them by 'fork'")
        return _shared_over, (self._size, DupFd(self._file))


def _shared_over(size: int, file: Any) -> MemoryFile:
    return MemoryFile(size, file.detach())


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_MAP_FAILED = ctypes.c_void_p(-1).value
