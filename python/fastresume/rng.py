"""The global random generators of this process: saving, restoring, and calls that leave them unchanged.

Law 10: no call of ours moves them. What a user's function draws within a call of ours is undone here. A
checkpoint, whose user asks it to save and restore them, is the exception.
"""

from __future__ import annotations

import random  # noqa: TID251  (restored)
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Generators:
    """The states of the generators at one moment; of devices, only the current one.

    Examples:
        >>> import torch
        >>> before = Generators.now()
        >>> first = torch.rand(1)
        >>> before.restore()
        >>> torch.equal(torch.rand(1), first)
        True
    """

    python: Any
    numpy: dict[str, Any]
    torch: Tensor
    accelerator: tuple[str, Tensor] | None

    @classmethod
    def now(cls, *, starts_device: bool = True) -> Self:
        """The current states; that of an unused device only if it may be started for that."""
        numpy_state: Any = np.random.get_state(legacy=False)  # noqa: NPY002, TID251  (restored)
        device, state = accelerator(), None
        if device is not None:
            kind, module = device
            if starts_device or not hasattr(module, "is_initialized") or module.is_initialized():
                state = kind, module.get_rng_state().cpu()
        return cls(random.getstate(), numpy_state, torch.default_generator.get_state(), state)

    def restore(self) -> None:
        """Sets the generators; a device's only if this process has a device of the same type."""
        random.setstate(self.python)
        np.random.set_state(self.numpy)  # noqa: NPY002, TID251  (restored)
        torch.default_generator.set_state(self.torch)
        device = accelerator()
        if self.accelerator is not None and device is not None and self.accelerator[0] == device[0]:
            device[1].set_rng_state(self.accelerator[1])


@contextmanager
def untouched() -> Iterator[None]:
    """A context after which the generators of Python, numpy, torch and the current device are as before.

    Examples:
        >>> import torch
        >>> before = torch.get_rng_state()
        >>> with untouched():
        ...     drawn = torch.rand(3)
        >>> torch.equal(torch.get_rng_state(), before)
        True
    """
    # A device that is not in use yet has drawn nothing, and is not started for this.
    before = Generators.now(starts_device=False)
    try:
        yield
    finally:
        before.restore()


def seed_all(seed: int) -> None:
    """Seeds the generators of Python, numpy and torch's CPU with a 64-bit word."""
    random.seed(seed)
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32])  # noqa: NPY002, TID251  (of a worker, or put back)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would call CUDA


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A context in which the generators are seeded; afterwards they are as before."""
    with untouched():
        seed_all(seed)
        yield


def accelerator() -> tuple[str, Any] | None:
    """The type of this process's device, and torch's module for it; None without one."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return None if found is None else (found.type, torch.get_device_module(found))
