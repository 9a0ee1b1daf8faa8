"""The global random generators of this process, left as they were.

Law 10: no call of ours reads or moves them. What a user's function draws within a call of ours is given back
here.
"""

from __future__ import annotations

import random  # noqa: TID251  (given back)
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch


@contextmanager
def untouched() -> Iterator[None]:
    """A context after which the generators of Python, numpy, torch and the present device are as before.

    Example:
        >>> import torch
        >>> before = torch.get_rng_state()
        >>> with untouched():
        ...     drawn = torch.rand(3)
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    numbers = np.random.get_state()  # noqa: NPY002, TID251  (given back)
    kept = random.getstate(), torch.default_generator.get_state()
    accelerator = torch.accelerator.current_accelerator(check_available=True)
    # A device that nothing was done on yet has drawn nothing, and is not started for this.
    device = None if accelerator is None else torch.get_device_module(accelerator)
    is_used = device is not None and (not hasattr(device, "is_initialized") or device.is_initialized())
    of_device = device.get_rng_state() if device is not None and is_used else None
    try:
        yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(numbers)  # noqa: NPY002, TID251  (as it was)
        torch.default_generator.set_state(kept[1])
        if device is not None and of_device is not None:
            device.set_rng_state(of_device)
