"""What tests of whole lives share: a process of their own, and files to read there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.child import Child
from support.lives import ROWS, SLOW_FILES


@pytest.fixture(scope="module")
def shared_child() -> Iterator[Child]:
    """A process for all tests here that leave it as they find it."""
    with Child() as found:
        yield found


@pytest.fixture
def child(shared_child: Child) -> Child:
    assert shared_child.process.exitcode is None, "an earlier test ended the process"
    return shared_child


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 rows in four files, two row groups each."""
    directory = tmp_path_factory.mktemp("small")
    for start in range(0, ROWS, 50):
        table = pa.table({"row": np.arange(start, start + 50)})
        pq.write_table(table, directory / f"{start:03}.parquet", row_group_size=25)
    return directory


@pytest.fixture(scope="session")
def slow(slow_files: Callable[[int], Path]) -> Path:
    """Files that take seconds to read."""
    return slow_files(SLOW_FILES)
