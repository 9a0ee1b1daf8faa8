"""The progress of the benchmark, on standard error."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


class Progress:
    """A line for each turn that ends. On a terminal also a bar if tqdm is installed, otherwise the steps."""

    def __init__(self, steps: int) -> None:
        self._steps, self._done = steps, 0
        self._bar: Any = None
        self._is_watched = sys.stderr.isatty()
        if self._is_watched and importlib.util.find_spec("tqdm") is not None:
            self._bar = importlib.import_module("tqdm").tqdm(total=steps, leave=False, unit="step")

    def __call__(self, doing: str) -> None:
        """Begin a step; the step before it ends."""
        if self._bar is not None:
            self._bar.update(1 if self._done else 0)
            self._bar.set_description(doing)
        elif self._is_watched:
            sys.stderr.write(f"{self._done + 1}/{self._steps} {doing}\n")
        self._done += 1

    def tell(self, line: str) -> None:
        """Say what a contender's turn has found, at once, also where standard error is a pipe."""
        if self._bar is not None:
            self._bar.write(line, file=sys.stderr)
        else:
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
