"""Packages that only some calls need: imported when they are called."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, caller: str, install: str) -> Any:
    """A module of a package that need not be installed.

    Args:
        module: its name.
        caller: what needs it, in words.
        install: what pip installs it by.

    Raises:
        ModuleNotFoundError: if it is not installed; says what to write.
    """
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ImportError as cause:
        if cause.name is not None and cause.name.partition(".")[0] != package:
            raise  # the package is there, and lacks another one
        raise ModuleNotFoundError(
            f"{caller} needs the package {package}: pip install {install}", name=package
        ) from None
