"""Whether transforms draw from generators of the whole process, where what they draw can't come again.

Under a `Loader`'s threads and a DataLoader's workers, what a global generator gives depends on which batch
comes when. Nothing may be said of a transform that leaves them alone, though other threads of the process
draw from them all the time. So two things must come together: a generator has moved while the transform ran,
and within the transform, in its own thread, something was called that draws.
"""

from __future__ import annotations

import functools
import random  # noqa: TID251  (looked at, and left as it is)
import sys
from collections.abc import Callable
from dis import get_instructions
from types import CodeType, FrameType, MethodType
from typing import Any

import numpy as np
import torch

from fastresume.batch.batch import Batch
from fastresume.reading.map_function import Transform, name_of

LOOKED_AT = 64
"""So many batches of a transform are looked at: by the generators' states, which takes microseconds."""

TRACED = 16
"""At most so many of these are looked at call by call: the first, and those after a generator has moved."""

_WAYS = {
    "torch": "torch's: pass generator=batch.generator() to what draws",
    "numpy": "numpy's: draw from numpy.random.default_rng(batch.generator().initial_seed())",
    "python": "Python's: draw from random.Random(batch.generator().initial_seed())",
}

_python = random._inst  # what the module's functions are methods of
_numpy = np.random.mtrand._rand  # noqa: TID251  (as above)


_torch = torch.rand.__self__  # type: ignore[attr-defined]  # what torch's functions are methods of

_numpys = vars(np.random).items()  # noqa: TID251  (as above)

_NUMPYS = frozenset(name for name, one in _numpys if getattr(one, "__self__", None) is _numpy)
"""The functions that draw from numpy's global generator."""

_OWN = frozenset({"default_rng", "Generator", "RandomState", "PCG64", "MT19937", "Philox", "SFC64"})
"""What makes a generator of one's own, which has functions of the same names."""


class Draws:
    """What is known of the draws of a dataset's transforms, in this process. For any thread.

    Args:
        transforms: what `map` was given.
    """

    def __init__(self, transforms: tuple[Transform, ...]) -> None:
        self._transforms = transforms
        self._looks = [LOOKED_AT] * len(transforms)
        self._traces = [TRACED] * len(transforms)
        self._has_moved = [True] * len(transforms)
        self._told: dict[int, _Trace] = {}
        self.warning: str | None = None
        """What is to be said, where there is something."""

    def call(self, number: int, batch: Batch) -> Any:
        """What a transform makes of a batch."""
        transform = self._transforms[number]
        if self._looks[number] <= 0:
            return transform(batch)
        self._looks[number] -= 1
        before = _states()
        if self._traces[number] <= 0 or not self._has_moved[number] or sys.getprofile() is not None:
            made = transform(batch)
            self._has_moved[number] = _states() != before
            return made
        self._traces[number] -= 1
        trace = _Trace()
        made = trace.run(transform, batch)
        after = _states()
        self._has_moved[number] = after != before
        moved = {kind for kind in _WAYS if after[kind] != before[kind]}
        found = trace.drawn() & moved if moved else moved
        if found and self._told.setdefault(number, trace) is trace:  # the first of several threads
            self._looks[number] = 0
            self.warning = _text(transform, sorted(found, reverse=True))
        return made

    def take(self) -> str | None:
        """What is to be said, once."""
        warning, self.warning = self.warning, None
        return warning


def _states() -> dict[str, Any]:
    numpys = _numpy._bit_generator.state["state"]
    return {
        "torch": torch.default_generator.get_state().numpy().tobytes(),
        "numpy": (numpys["pos"], numpys["key"].tobytes()) if "pos" in numpys else str(numpys),
        "python": _python.getstate(),
    }


class _Trace:
    """What is called in this thread while a transform runs."""

    def __init__(self) -> None:
        self._drawn: set[str] = set()
        self._codes: dict[CodeType, dict[str, Any]] = {}

    def run(self, transform: Callable[[Any], Any], batch: Batch) -> Any:
        sys.setprofile(self._note)
        try:
            return transform(batch)
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, called: Any) -> None:
        if event == "call":
            self._codes.setdefault(frame.f_code, frame.f_globals)
        elif event == "c_call":
            owner = getattr(called, "__self__", None)
            if owner is _python:
                self._drawn.add("python")
            elif owner is torch.default_generator:
                self._drawn.add("torch")
            elif owner is not _torch and not isinstance(owner, torch.Tensor):
                return
            elif _draws(called.__name__) and not _names_a_generator(frame):
                self._drawn.add("torch")

    def drawn(self) -> set[str]:
        """From which generators something may have been drawn: of numpy's, code that ran names it.

        Its functions are none that a profile sees.
        """
        names_numpys = any(_names_numpys(code, names) for code, names in self._codes.items())
        return self._drawn | ({"numpy"} if names_numpys else set())


@functools.cache
def _draws(name: str) -> bool:
    """Whether a function of torch draws, by the tags of its operators."""
    packet = getattr(torch.ops.aten, name, None) if not name.startswith("__") else None
    overloads = [] if packet is None else [getattr(packet, each) for each in packet.overloads()]
    return any(torch.Tag.nondeterministic_seeded in each.tags for each in overloads)


def _names_a_generator(frame: FrameType) -> bool:
    """Whether code that calls a function of torch gives it a generator, as far as its names tell."""
    if not any(isinstance(one, tuple) and "generator" in one for one in frame.f_code.co_consts):
        return False
    return frame.f_locals.get("generator", frame) is not None


def _names_numpys(code: CodeType, names: dict[str, Any]) -> bool:
    """Whether code names a function that draws from numpy's global generator, or that generator."""
    loaded = {each.argval for each in get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    named = [names.get(name) for name in loaded]
    # Nothing else is asked of what a name stands for: some modules are imported when they are asked.
    if any(one is _numpy or (type(one) is MethodType and one.__self__ is _numpy) for one in named):
        return True
    if _NUMPYS.isdisjoint(code.co_names) or not _OWN.isdisjoint(code.co_names):
        return False
    if any(one is np.random for one in named):  # noqa: TID251  (looked at)
        return True
    return "random" in code.co_names and ("numpy" in code.co_names or any(one is np for one in named))


def _text(transform: Transform, kinds: list[str]) -> str:
    return (
        f"the transform {name_of(transform)[:200]} draws from a generator of the whole process, which other "
        "batches and threads move, too: two runs of one seed differ, and so does a resumed one. Draw from "
        f"batch.generator() instead. It is {'; and '.join(_WAYS[kind] for kind in kinds)}"
    )
