"""The global random state of Python, numpy and torch."""

from __future__ import annotations

import random

import numpy as np
import torch


def global_states() -> tuple[object, ...]:
    name, keys, *rest = np.random.get_state()  # type: ignore[misc]
    return random.getstate(), name, keys.tobytes(), *rest, torch.get_rng_state().numpy().tobytes()
