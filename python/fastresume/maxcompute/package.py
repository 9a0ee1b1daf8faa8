"""The package that speaks to MaxCompute."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def odps(module: str = "odps") -> Any:
    """The package pyodps, or a module of it.

    Raises:
        ImportError: if it is not installed; it says what to write.
    """
    try:
        return import_module(module)
    except ImportError as error:
        if error.name and not error.name.startswith("odps"):
            raise
        raise ImportError(
            "fr.maxcompute needs pyodps 0.12 or later: pip install 'fastresume[maxcompute]'"
        ) from None
