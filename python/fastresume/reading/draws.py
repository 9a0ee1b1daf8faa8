"""Whether transforms draw from generators of the whole process, where what they draw is not drawn again.

Under a `Loader`'s threads and a DataLoader's workers, what a global generator gives depends on which batch is
made when. The generators' states before and after a function show a draw, however it was written. Reading a
state moves nothing.

A state does not say who moved it. So a movement is only a suspicion, where other threads may draw: the
training loop, or another transform. Then a `Loader` makes the next few batches in the thread that calls
`next()`, one at a time. A thread of the user's may still draw. So after a movement the states are watched for
as long as the function ran, while it does not run. If they move again, somebody else draws, and nothing is
said.
"""

from __future__ import annotations

import random  # noqa: TID251  (looked at, and left as it is)
import threading
import time
from typing import Any

import numpy as np
import torch

from fastresume.batch.batch import Batch
from fastresume.reading.map_function import Transform, name_of

LOOKED_AT = 64
"""The number of batches of each transform that are looked at, until a generator moves."""

SUSPECTED = 8
"""The number of batches of each transform that are looked at alone, after a generator has moved."""

CONFIRMED = 3
"""The number of batches that a transform must have drawn for, while no one else did."""

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.02, 1.0

_WAYS = {
    "torch": "torch's: pass generator=batch.generator() to what draws",
    "numpy": "numpy's: draw from numpy.random.default_rng(batch.generator().initial_seed())",
    "python": "Python's: draw from random.Random(batch.generator().initial_seed())",
}

_python = random._inst  # what the module's functions are methods of
_numpy = np.random.mtrand._rand  # noqa: TID251  (as above)

_looking = threading.Lock()
"""Held while a transform is looked at: two at once would see each other's draws."""


class Draws:
    """What is known of the draws of a dataset's transforms, in this process. For any thread.

    Args:
        transforms: what `map` was given.
    """

    def __init__(self, transforms: tuple[Transform, ...]) -> None:
        self._transforms = transforms
        self._looks = [LOOKED_AT] * len(transforms)
        self._seen: list[dict[str, int]] = [{} for _ in transforms]
        self._is_suspected = False
        self.is_alone = False
        """Whether transforms run one at a time, while the thread that asks for batches waits for them."""
        self.warning: str | None = None
        """What to warn of, if there is something."""

    @property
    def needs_to_be_alone(self) -> bool:
        """Whether a generator has moved, and it is not known yet who moved it."""
        return self._is_suspected and any(self._looks)

    def call(self, number: int, batch: Batch) -> Any:
        """The result of a transform for a batch."""
        transform = self._transforms[number]
        is_due = self._looks[number] and self.is_alone >= self._is_suspected
        if not is_due or not _looking.acquire(blocking=False):
            return transform(batch)
        try:
            self._looks[number] -= 1
            before, began = _states(), time.monotonic()
            made = transform(batch)
            after = _states()
            if after != before:
                moved = {kind for kind in _WAYS if after[kind] != before[kind]}
                self._note(number, moved, after, time.monotonic() - began)
            return made
        finally:
            _looking.release()

    def take(self) -> str | None:
        """The warning, once."""
        warning, self.warning = self.warning, None
        return warning

    def _note(self, number: int, moved: set[str], states: dict[str, Any], seconds: float) -> None:
        """Counts a batch for which a transform has drawn, unless it may have been somebody else."""
        if not self.is_alone:
            self._looks = [SUSPECTED] * len(self._looks)
            self._is_suspected = True
            return
        drawn, seen = _unmoved(moved, states, seconds), self._seen[number]
        seen.update({kind: seen.get(kind, 0) + 1 if kind in drawn else 0 for kind in moved})
        found = [kind for kind in _WAYS if seen.get(kind, 0) >= CONFIRMED]
        if found:
            self._looks[number] = 0
            self.warning = _text(self._transforms[number], found)


def _states() -> dict[str, Any]:
    numpys = _numpy._bit_generator.state["state"]
    return {
        "torch": torch.default_generator.get_state().numpy().tobytes(),
        "numpy": (numpys["pos"], numpys["key"].tobytes()) if "pos" in numpys else str(numpys),
        "python": _python.getstate(),
    }


def _unmoved(kinds: set[str], states: dict[str, Any], seconds: float) -> set[str]:
    """The generators whose states stay as they are for some time, in which no transform is looked at."""
    end = time.monotonic() + min(max(seconds, _SHORTEST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
    while kinds and time.monotonic() < end:
        time.sleep(0.001)
        now = _states()
        kinds = {kind for kind in kinds if now[kind] == states[kind]}
    return kinds


def _text(transform: Transform, kinds: list[str]) -> str:
    return (
        f"the transform {name_of(transform)[:200]} draws from a generator of the whole process, which other "
        "batches and threads move, too: two runs of one seed differ, and so does a resumed one. Draw from "
        f"batch.generator() instead. It is {'; and '.join(_WAYS[kind] for kind in kinds)}"
    )
