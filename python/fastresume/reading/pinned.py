"""Pinned (page-locked) memory, which a CUDA device copies by itself."""

from __future__ import annotations

import ctypes
import resource
import warnings

import torch

import fastresume._core as _core

_DRIVER = "libcuda.so.1"
_FUNCTIONS = ("cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuMemHostRegister_v2", "cuMemHostUnregister")

_locks: list[_core.PageLock] = []
_reported: list[_core.PageLock] = []


def page_lock(device: torch.device) -> _core.PageLock | None:
    """The lock for pages, for all devices of the process; None without a driver.

    It uses CUDA's driver, not the runtime: decoding threads have no current device, and the runtime would
    start one for them.

    Args:
        device: a CUDA device with an index, already started.
    """
    if not _locks and (made := _of_driver(device.index)) is not None:
        _locks.append(made)
    return _locks[0] if _locks else None


def _of_driver(index: int) -> _core.PageLock | None:
    try:
        driver = ctypes.CDLL(_DRIVER)
        push, pop, register, unregister = (getattr(driver, name) for name in _FUNCTIONS)
    except (OSError, AttributeError):
        return None
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuDeviceGet(ctypes.byref(device), index) != 0:
        return None
    # This takes one more reference to the runtime's own context, and never returns it.
    if driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) != 0:
        return None
    addresses = (_address(push), _address(pop), _address(register), _address(unregister))
    return _core.PageLock(context.value or 0, addresses)


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]  # a function of a library


def tell_failure(lock: _core.PageLock | None, stacklevel: int) -> None:
    """Warns, once for each lock, if it could not lock pages."""
    if lock is None or lock.failure == 0 or lock in _reported:
        return
    _reported.append(lock)
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    found = "unlimited" if limit == resource.RLIM_INFINITY else f"{limit >> 10} KiB"
    warnings.warn(
        f"the memory of batches can't be page-locked (CUDA's status {lock.failure}, "
        f"{lock.locked_bytes} bytes are locked): it is copied in two steps, which takes longer. Raise the "
        f"limit of locked memory (`ulimit -l`, now {found}), or read less ahead (prefetch_bytes=)",
        stacklevel=stacklevel + 1,
    )
