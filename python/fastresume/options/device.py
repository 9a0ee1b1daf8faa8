"""The device that a user names."""

from __future__ import annotations

import torch

from fastresume.options.checks import truth


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
        raise TypeError(f"device must be a torch.device, a string or an index, found {given!r}")
    try:
        return torch.device("cuda", given) if isinstance(given, int) else torch.device(given)
    except RuntimeError as error:
        raise ValueError(f"device must be 'cpu', 'cuda' or 'cuda:INDEX', found {given!r}") from error


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
