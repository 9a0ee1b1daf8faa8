"""Passes that files came to, and passes of unequal length on two ranks, under the frameworks.

Each life is a process of its own for each rank (see rehearsal.py), and most are killed amid a pass.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.passes_jobs import JOBS
from support.rehearsal import SCALE, run
from support.staged_jobs import LENGTHS, SIZE, loader, steps, write_sources

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]

PASSES = 3

FIRST = 6
"""Batches of the files that are there at first."""

CAME = 4
"""Batches of those that come."""


def write_day(directory: Path, day: int, batches: int) -> None:
    numbers = day * 1000 + np.arange(batches * SIZE)
    columns = {
        "label": (numbers % 5).astype(np.float32),
        "i_0": (numbers / SCALE).astype(np.float32),
        "i_1": (numbers % 7).astype(np.float32),
    }
    pq.write_table(pa.table(columns), directory / "days" / f"{day}.parquet", row_group_size=16)


def of_days(shuffle: bool) -> Callable[[], fr.Loader]:
    """What makes a loader of the files that are there now."""

    def read() -> fr.Loader:
        dataset = fr.ParquetDataset(
            "days",
            global_batch_size=SIZE,
            columns=["*", "!i_*", fr.stack("i_*", name="inputs")],
            on_change="append",
            shuffle=shuffle,
        )
        return fr.Loader(dataset, threads=1)

    return read


def numbers(batches: list[fr.Batch]) -> list[list[int]]:
    return [(batch["inputs"][:, 0].double() * SCALE).round().long().tolist() for batch in batches]


KILLED = {"in mid pass": 3, "at its end": FIRST, "in the next one": FIRST + 2}

SOME = [("Trainer", "in mid pass", True), ("Lightning", "at its end", False)]
"""What a run in CI has of all."""


@pytest.mark.parametrize(
    ("framework", "when", "shuffle"),
    [
        pytest.param(*each, marks=() if each in SOME else pytest.mark.slow)
        for each in itertools.product(JOBS, KILLED, (False, True))
    ],
)
def test_files_that_come_are_trained_in_the_pass_that_they_come_to(
    framework: str, when: str, shuffle: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = KILLED[when]
    monkeypatch.chdir(tmp_path)
    read = of_days(shuffle)
    (tmp_path / "days").mkdir()
    write_day(tmp_path, 1, FIRST)
    expected, state = [], None
    with read() as before:
        while len(expected) < killed:
            for batch in before:
                expected.append(batch)
                state = batch.state_dict()
                if len(expected) == killed:
                    break
    life = JOBS[framework](read, PASSES)
    found = run(life, tmp_path, kill_at=killed)[0]
    write_day(tmp_path, 2, CAME)
    with read() as after:
        after.load_state_dict(state or {})
        while after.epoch < PASSES:
            expected += list(after)
    assert len(expected) == FIRST * (killed > FIRST) + (PASSES - (killed > FIRST)) * (FIRST + CAME)
    found += run(life, tmp_path, kill_at=FIRST)[0]
    assert [*found, *run(life, tmp_path)[0]] == numbers(expected)


@pytest.mark.slow
@pytest.mark.parametrize("framework", JOBS)
def test_two_ranks_train_all_batches_of_all_passes(framework: str, tmp_path: Path) -> None:
    """Killed in each pass, on two real ranks."""
    write_sources(tmp_path)
    life = JOBS[framework](loader, PASSES, world_size=2)
    found: tuple[list[list[int]], ...] = ([], [])
    for kill_at in (3, 3, 4, 7, None):
        ranks = run(life, tmp_path, world_size=2, kill_at=kill_at, is_launched=True)
        for of_rank, more in zip(found, ranks, strict=True):
            of_rank.extend(more[:kill_at])  # rank 1 may have begun one more
    assert len(found[0]) == sum(LENGTHS)
    assert found == tuple(steps(tmp_path, rank, 2) for rank in range(2))
