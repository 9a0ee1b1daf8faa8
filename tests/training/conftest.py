"""What tests of checkpoints share: a dataset, and where the checkpoints lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import training
from support.strategies import Dataset


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Made once for each file of tests."""
    return training.written(tmp_path_factory.mktemp("data"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """It does not exist yet."""
    return tmp_path / "checkpoints"
