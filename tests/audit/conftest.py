"""What tests of audits share: rows to deliver, and where jobs log them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.audits import SPEC


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return SPEC.write(tmp_path_factory.mktemp("audit")).directory


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return tmp_path / "logs"
