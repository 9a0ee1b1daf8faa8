"""The device that a user names."""

from __future__ import annotations

import torch


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
