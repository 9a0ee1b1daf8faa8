"""Frameworks that only `make test-all` installs."""

from __future__ import annotations

from importlib.util import find_spec

import pytest


def marks_of(package: str) -> list[pytest.MarkDecorator]:
    """The marks of a module whose tests kill a job of a framework, and resume it on other ranks."""
    found = f"{package} is not installed: `make test-all` installs it, from requirements/frameworks.lock"
    return [
        pytest.mark.slow,
        pytest.mark.processes,
        pytest.mark.law(2),
        pytest.mark.law(3),
        pytest.mark.skipif(find_spec(package) is None, reason=found),
    ]
