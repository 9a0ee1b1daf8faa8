"""A stream takes the memory that its plan states, on each rank, and no more of it from round to round.

What needs a process of its own runs in a child: functions below that tests call.
"""

from __future__ import annotations

import itertools
import statistics
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fastresume as fr
from fastresume.kafka import ArrowIPC, KafkaDataset
from support.child import MIB, Child, forget_peak, peak, resident, say
from support.forks import join
from support.kafka_broker import SCHEMA, Broker, message

Start = Callable[..., Broker]

GIVEN: dict[str, Any] = {
    "value": ArrowIPC(SCHEMA),
    "max_wait": 0.1,
    "config": {"queued.max.messages.kbytes": 2048, "fetch.max.bytes": 2 * MIB},
}


def read_all(
    address: str, round_rows: int, round_bytes: int, rank: int = 0, world_size: int = 1, store: str = ""
) -> tuple[int, int, int]:
    """Return the peak of a rank over all rounds, what was stated, and how many rounds there were."""
    if world_size > 1:
        join(Path(store), rank, world_size)
    given = {**GIVEN, "batch_size": 1000, "world": (rank, world_size)}
    first = KafkaDataset(address, stop=dict.fromkeys(range(4), 1), **given)
    assert len([*fr.Loader(first, threads=1)]) == 16 // world_size  # after which all modules are there
    first.close()
    before = resident()
    dataset = KafkaDataset(address, stop="end", round_rows=round_rows, round_bytes=round_bytes, **given)
    with fr.Loader(dataset, threads=1, prefetch_bytes=MIB) as loader:
        batches = iter(loader)
        next(batches)
        plan = dataset.plan()
        assert plan.bytes_of_rounds is not None
        assert "of rows and messages on this rank" in repr(plan)
        stated = plan.bytes_of_rounds + plan.bytes_per_rank + plan.bytes_per_thread + loader.prefetch_bytes
        forget_peak()
        for _ in batches:
            pass
        rounds = loader.epoch
    dataset.close()
    return peak() - before, stated, rounds


@pytest.mark.parametrize(
    ("round_rows", "round_bytes"),
    [(100_000, 256 * MIB), pytest.param(1_000_000, 4 * MIB, marks=pytest.mark.slow)],
)
def test_the_peak_of_a_pass_over_rounds_is_what_the_plan_states(
    broker: Start, round_rows: int, round_bytes: int
) -> None:
    kafka = broker(partitions=4)
    one = message(range(4000))
    kafka.send((number % 4, one) for number in range(1600))  # 150 MB
    with Child() as child:
        grown, stated, rounds = child.call(read_all, kafka.address, round_rows, round_bytes)
    assert rounds > 3
    assert stated < 100 * MIB
    assert grown < stated + 48 * MIB  # of librdkafka's threads, and of modules that are imported late


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(("round_rows", "round_bytes"), [(100_000, 256 * MIB), (1_000_000, 4 * MIB)])
def test_each_rank_takes_what_its_plan_states(
    broker: Start, tmp_path: Path, round_rows: int, round_bytes: int
) -> None:
    kafka = broker(partitions=4)
    one = message(range(4000))
    kafka.send((number % 4, one) for number in range(1600))
    with Child() as lead, Child() as other:
        for rank, child in enumerate((lead, other)):
            child.start(read_all, kafka.address, round_rows, round_bytes, rank, 2, str(tmp_path / "store"))
        found = [child.result(300) for child in (lead, other)]
    for grown, stated, rounds in found:
        assert rounds > 3
        assert stated < 100 * MIB
        assert grown < stated + 48 * MIB
    assert found[1][1] < found[0][1]  # rank 0 holds two rounds


def test_a_plan_before_the_first_round_states_what_limits_allow(broker: Start) -> None:
    kafka = broker()
    dataset = KafkaDataset(kafka.address, batch_size=4, round_rows=1000, world=(0, 1), **GIVEN)
    plan = dataset.plan()
    assert (plan.remaining_rows, plan.steps) == (0, 0)
    assert plan.bytes_of_rounds == 2 * 1000 * dataset._spec.row_bytes + 2 * 16 * MIB + 4 * MIB
    dataset.close()


MESSAGES, ROWS = 16, 512
"""In each turn there are two rounds of one batch."""


def follow(address: str, turns: int) -> None:
    """Read a topic that grows, and say how much memory there is whenever its rows were read."""
    of_round = MESSAGES * ROWS // 2
    dataset = KafkaDataset(address, batch_size=of_round, round_rows=of_round, world=(0, 1), **GIVEN)
    with fr.Loader(dataset, threads=1) as loader:
        batches = iter(loader)
        say("ready")
        for _ in range(turns):
            for _ in itertools.islice(batches, 2):
                pass
            say((loader.epoch, resident()))
    dataset.close()


def memory_over(kafka: Broker, turns: int, seconds: float) -> tuple[int, list[float]]:
    """Write and read so often; return how many rounds there were, and the MiB in quarters of the time."""
    made = [message(range(ROWS * number, ROWS * (number + 1))) for number in range(MESSAGES)]
    sizes, rounds, pace = list[int](), 0, threading.Event()
    with Child() as child:
        child.start(follow, kafka.address, turns)
        assert child.heard(120) == "ready"
        for turn in range(turns):
            kafka.send((number % 16, one) for number, one in enumerate(made))
            rounds, size = child.heard(120)
            sizes.append(size)
            if turn % 50 == 0:
                kafka.delete_before(range(16), -1)  # the broker has them in memory
            pace.wait(seconds)
    quarters = [sizes[turns // 4 * number : turns // 4 * (number + 1)] for number in range(4)]
    return rounds, [round(statistics.median(each) / MIB, 1) for each in quarters]


@pytest.mark.slow
def test_memory_is_flat_over_hundreds_of_rounds(broker: Start) -> None:
    turns = 200
    rounds, quarters = memory_over(broker(partitions=16), turns, 0)
    assert rounds >= 2 * turns - 1
    assert quarters[3] < quarters[1] + 8, f"MiB in quarters of the time: {quarters}"
