"""Data of the tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.mixtures import write_sources


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of three sources."""
    directory = tmp_path_factory.mktemp("sources")
    write_sources(directory)
    return directory
