"""Ranks that are killed, and resume as others, read the session of the first ones: each row once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.ipc_writer import write_ipc
from support.maxcompute_jobs import Life, trained
from support.maxcompute_server import MaxCompute, Request


def numbered(rows: int, start: int = 0) -> pa.Table:
    return pa.table({"x": range(start, start + rows)})


def unreliable(seed: int) -> Any:
    """Of the answers with rows, some break off, and some are refused."""
    draw = random.Random(seed)

    def answer(request: Request, rows: pa.Table, service: MaxCompute) -> bool:
        chance = draw.random()
        if chance < 0.2:
            service.give(request, rows, draw.choice(["at a message", "in a message", "reset"]))
        elif chance < 0.3:
            request.refuse(503, "Busy", "try again")
        return chance < 0.3

    return answer


def test_three_ranks_are_killed_and_two_resume_in_their_session(service: MaxCompute, tmp_path: Path) -> None:
    address = service.put("clicks", {f"ds={day}": numbered(100, 100 * day) for day in range(2)})
    service.fault = unreliable(1)
    lives = [Life(3, 8, 4), Life(2, 5, None)]
    job = {"address": address, "endpoint": service.endpoint, "shuffle": False}
    batches = trained(tmp_path, lives, job)
    assert sorted(row for batch in batches for row in batch["rows"]) == list(range(200))
    assert len(service.kinds("open")) == 2  # of rank 0 of each life
    assert {each["session"] for each in service.kinds("rows")} == {"202601010000session"}


@pytest.mark.slow  # each life starts processes
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("is_mixed", [False, True])
def test_any_lives_train_each_row_once(
    service: MaxCompute, tmp_path: Path, seed: int, is_mixed: bool
) -> None:
    draw = random.Random(seed)
    job: dict[str, Any] = {
        "address": service.put("clicks", numbered(300)),
        "endpoint": service.endpoint,
        "shuffle": draw.random() < 0.5,
    }
    if is_mixed:
        job["files"] = str(tmp_path / "a.parquet")
        pq.write_table(numbered(100, 1000), job["files"])
        job["arrow"] = str(write_ipc(numbered(120, 2000), tmp_path / "b.arrow", "zstd", 50))
    service.fault = unreliable(seed)
    killed = [Life(draw.randint(1, 3), draw.choice([3, 5, 8]), draw.randint(1, 5)) for _ in range(3)]
    batches = trained(tmp_path, [*killed, Life(1, 3, None)], job)
    counts = Counter(row for batch in batches for row in batch["rows"])
    of_table = {row: count for row, count in counts.items() if row < 1000}
    assert of_table == dict.fromkeys(range(300), 1)
    assert len(counts) == (520 if is_mixed else 300)  # smaller sources begin their next pass
    assert {each["session"] for each in service.kinds("rows")} <= set(service.sessions)
