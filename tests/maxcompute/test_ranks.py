"""Ranks that are killed, and resume as others, read the session of the first ones: each row once."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa

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
