"""The device that a user names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

import fastresume._core as _core
from fastresume.options.checks import quoted, truth

Moved = TypeVar("Moved")


def named_device(given: object) -> torch.device:
    """The device; an index is one of CUDA's.

    Raises:
        TypeError: if it is something else.
        ValueError: if there is no such kind of device.

    Examples:
        >>> named_device("cuda:1"), named_device(0)
        (device(type='cuda', index=1), device(type='cuda', index=0))
    """
    if isinstance(given, torch.device):
        return given
    if isinstance(given, bool) or not isinstance(given, str | int):
        raise TypeError(f"device must be a torch.device, a string or an index, found {quoted(given)}")
    try:
        return torch.device("cuda", given) if isinstance(given, int) else torch.device(given)
    except RuntimeError as error:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:INDEX', found {quoted(given)}") from error


def check_present(given: object, device: torch.device) -> None:
    """Refuses a device that this machine lacks, where torch can count its devices. Does not start CUDA.

    Raises:
        FastresumeError: if there is no such device.
    """
    counted = getattr(getattr(torch, device.type, None), "device_count", None)
    if counted is None or (device.type == "cuda" and torch.cuda._is_in_bad_fork()):
        return  # using it is the error, which says what to do
    is_cuda, count = device.type == "cuda", counted()
    kind = "CUDA" if is_cuda else device.type
    if count == 0:
        is_built = not is_cuda or torch.version.cuda is not None
        why = f"there is no {kind} device" if is_built else "this torch was built without CUDA"
        raise _core.FastresumeError(f"device={given!r}, but {why}: pass device='cpu'") from None
    index: int | None = device.index
    if index is not None and index >= count:
        raise _core.FastresumeError(
            f"device={given!r}, but there are {count} {kind} devices, '{device.type}:0' to "
            f"'{device.type}:{count - 1}'"
        ) from None


def on_device(given: object, make: Callable[[], Moved]) -> Moved:
    """What a function makes on a device.

    Raises:
        FastresumeError: if it fails, and there is no such device.
    """
    try:
        return make()
    except (RuntimeError, AssertionError):  # torch's, of several kinds
        check_present(given, named_device(given))
        raise


def check_move(what: str, tensor: str, device: object, non_blocking: object) -> None:
    """Refuses what `to` takes of a tensor alone: a dtype.

    Raises:
        TypeError: for a dtype, or another thing that is no device; if `non_blocking` is no bool.
        ValueError: if there is no such kind of device.
    """
    for given in (device, non_blocking):
        if isinstance(given, torch.dtype):
            raise TypeError(
                f"{what}.to takes a device, found {given}: write {tensor}.to({given}) for one tensor, "
                f"or columns=[fr.col(name).cast({given})] for the dataset"
            )
    named_device(device)
    truth("non_blocking", non_blocking)
