"""Kills and failing disks at every call of a save: one whole checkpoint is always there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import faults
import training
from child import Child

pytestmark = pytest.mark.processes

SOAK = os.environ.get("FASTRESUME_PROFILE") == "soak"


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Child]:
    """A process whose calls to the file system can be struck."""
    library = faults.compiled(tmp_path_factory.mktemp("library"))
    if library is None:
        pytest.skip("no C compiler, to make the library that strikes calls of a process")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        child = Child()
    with child:
        yield child


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [str(path) for path in training.written(tmp_path_factory.mktemp("data")).files]


# A sample: the first call and the distance of one that is struck from the next.
SAMPLE = [
    ("first", 1, 0, "kill", 2, 9),
    ("next step", 1, 0, "kill", 0, 3),
    ("same step", 1, 0, "kill", 1, 5),
    ("rewind", 1, 0, "kill", 1, 5),
    ("rotation", 1, 0, "kill", 1, 4),
    ("asynchronous", 1, 0, "kill", 3, 9),
    ("next step", 1, 0, "torn write", 0, 6),
    ("rotation", 1, 0, "EIO", 1, 3),
    ("next step", 1, 0, "ENOSPC from then on", 2, 7),
    ("rotation", 1, 0, "EIO anywhere", 0, 5),
    ("rotation", 2, 0, "kill", 5, 17),
    ("next step", 2, 1, "EIO", 2, 5),
]
EVERY = [
    (name, world_size, victim, action, 0, 1)
    for world_size, victim in ((1, 0), (2, 0), (2, 1))
    for name in faults.SCENARIOS
    for action in faults.ACTIONS
]


@pytest.mark.parametrize(
    ("name", "world_size", "victim", "action", "first", "every"), EVERY if SOAK else SAMPLE
)
def test_a_save_that_is_struck_leaves_a_whole_checkpoint(
    faulty: Child,
    files: list[str],
    tmp_path: Path,
    name: str,
    world_size: int,
    victim: int,
    action: str,
    first: int,
    every: int,
) -> None:
    arguments = (str(tmp_path), files, name, world_size, victim, action, first, every)
    found = faulty.call(faults.sweep, *arguments, seconds=3600 if SOAK else 100)
    print(f"\n{name}, {world_size} ranks, rank {victim}, {action}: {found}")
    assert found["wrong"] == []
    assert found["runs"] > 0
