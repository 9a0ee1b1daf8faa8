"""The package that speaks to MaxCompute."""

from __future__ import annotations

from typing import Any

from fastresume.packages import optional


def odps(module: str = "odps") -> Any:
    """The package pyodps, or a module of it.

    Raises:
        ModuleNotFoundError: if it is not installed; it says what to write.
    """
    return optional(module, "fr.maxcompute", "'fastresume[maxcompute]', pyodps 0.12 or later")
