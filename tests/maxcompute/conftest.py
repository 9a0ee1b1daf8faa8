"""What the tests of MaxCompute share: a server for each test, and little patience."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from fastresume.maxcompute import MaxComputeSource
from support.maxcompute_server import KEYS, MaxCompute
from support.quick_waits import wait_in_no_time

Open = Callable[..., MaxComputeSource]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Wait little, and find no keys in the environment but those that a test writes."""
    from odps.config import default_options  # those of each thread come from them

    before, default_options.retry_times = default_options.retry_times, 0
    wait_in_no_time(monkeypatch)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in [name for name in os.environ if name.startswith(("ODPS_", "ALIBABA_CLOUD_"))]:
        monkeypatch.delenv(name)
    yield
    default_options.retry_times = before


@pytest.fixture
def service() -> Iterator[MaxCompute]:
    with MaxCompute().serving() as found:
        yield found


@pytest.fixture
def opens(service: MaxCompute) -> Open:
    """Opens addresses at the test's server."""

    def opened(address: Any, **how: Any) -> MaxComputeSource:
        return fr.maxcompute.open(address, **{"credentials": KEYS, "endpoint": service.endpoint, **how})

    return opened
