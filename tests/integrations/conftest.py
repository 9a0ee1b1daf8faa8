"""Data of the tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.rehearsal import ROWS, write_data


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the jobs of a module find their data and leave what they save."""
    directory = tmp_path_factory.mktemp("jobs")
    write_data(directory, ROWS)
    return directory
