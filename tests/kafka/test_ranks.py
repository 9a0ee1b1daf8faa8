"""Ranks that are killed, and resume as others, train each row of a topic exactly once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastresume.audit.verify import audit
from support.kafka_broker import Broker, messages
from support.kafka_jobs import Life, run

Start = Callable[..., Broker]


def lives_of(draw: random.Random, count: int) -> list[Life]:
    """Lives that are killed; a last one of a rank alone takes what is left."""
    killed = [Life(draw.randint(1, 3), draw.choice([3, 4, 8]), draw.randint(1, 6)) for _ in range(count)]
    return [*killed, Life(2, 3, None), Life(1, 1, None)]


def check(
    broker: Broker, directory: Path, lives: list[Life], sizes: list[int], given: dict[str, Any]
) -> None:
    """Write while the job lives, and compare what was trained with what was written."""
    partitions = 4
    sent, rows = messages((number % partitions, size) for number, size in enumerate(sizes))
    share = -(-len(sent) // len(lives))
    broker.send(sent[:share])

    def between(number: int) -> None:
        broker.send(sent[share * (number + 1) : share * (number + 2)])

    arguments = {"columns": ["id"], "max_wait": 0.1, "stop": "end", **given}
    found = run(directory, lives, broker.address, arguments, between)
    assert sorted(found) == sorted(number for each in rows.values() for number in each)
    report = audit(directory / "logs")
    assert report.problems == 0, "\n".join(report.lines)


def test_three_ranks_are_killed_and_two_go_on(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=4)
    sizes = [1, 7, 0, 3, 12, 2, 1, 5] * 8
    lives = [Life(3, 4, 3), Life(2, 1, None)]
    check(kafka, tmp_path, lives, sizes, {"round_rows": 40})


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(40))
def test_two_hundred_kills_lose_and_repeat_nothing(broker: Start, tmp_path: Path, seed: int) -> None:
    """Five kills for each seed, of 1 to 4 ranks, while 16 partitions are written."""
    draw, kafka = random.Random(seed), broker(partitions=16)
    size = (1, 128)[seed % 2]
    lives = [Life(draw.randint(1, 4), draw.randint(2, 16), draw.randint(1, 8)) for _ in range(5)]
    most = max(life.world_size * life.batch_size * (life.killed_after or 1) for life in lives)
    share = -(-2 * most // size)  # messages of a life
    sent, rows = messages((draw.randrange(16), size) for _ in range(share * (len(lives) + 1)))
    kafka.send(sent[:share])
    producer = kafka.producer()
    writing: list[threading.Thread] = []

    def write(number: int) -> None:
        for message in sent[share * (number + 1) : share * (number + 2)]:
            kafka.send([message], producer)

    def write_meanwhile(number: int) -> None:
        if writing:
            writing.pop().join()
        writing.append(threading.Thread(target=write, args=(number,)))
        writing[-1].start()

    given = {
        "columns": ["id"],
        "max_wait": 0.1,
        "round_rows": draw.choice([64, 300, 5000]),
        "shuffle": draw.random() < 0.5,
        "seed": seed,
    }
    write_meanwhile(0)
    ends = [Life(1, 1, None)]  # takes what is left
    found = run(tmp_path, [*lives, *ends], kafka.address, given, lambda number: write_meanwhile(number + 1))
    writing.pop().join()
    assert sorted(found) == sorted(number for each in rows.values() for number in each)
    report = audit(tmp_path / "logs")
    assert report.problems == 0, "\n".join(report.lines)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_any_lives_train_each_row_once(broker: Start, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    kafka = broker(partitions=4)
    sizes = [draw.choice([0, 1, 1, 2, 9, 30]) for _ in range(200)]
    given = {"round_rows": draw.choice([24, 60, 500]), "shuffle": draw.random() < 0.5, "seed": seed}
    check(kafka, tmp_path, lives_of(draw, 6), sizes, given)
