"""Files and devices that tests of reading share."""

from __future__ import annotations

import pytest

from support.columns import Kind
from support.devices import LateDevices
from support.strategies import Dataset, plain_spec


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """9,000 rows of numbers, texts, lists and lists of texts, with nulls."""
    columns = [
        Kind("weight", "float32", nulls=0.2, seed=1),
        Kind("tokens", "int32", "list", nulls=0.1, longest=9, seed=2),
        Kind("name", "string", nulls=0.1, seed=3),
        Kind("words", "string", "list", nulls=0.1, element_nulls=0.1, seed=4),
    ]
    return plain_spec([3000, 0, 2000], [4000], columns=columns).write(tmp_path_factory.mktemp("wide"))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """15,000 rows of numbers."""
    columns = [Kind("weight", "float64", seed=1)]
    return plain_spec([5000, 2500], [7500], columns=columns).write(tmp_path_factory.mktemp("numbers"))


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> LateDevices:
    return LateDevices(monkeypatch)
