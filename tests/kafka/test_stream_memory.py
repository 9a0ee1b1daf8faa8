"""A stream takes the memory that its plan states.

What needs a process of its own runs in a child: functions below that tests call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastresume as fr
from fastresume.kafka import ArrowIPC, KafkaDataset
from support.child import MIB, Child, forget_peak, peak, resident
from support.kafka_broker import SCHEMA, Broker, message

Start = Callable[..., Broker]

GIVEN: dict[str, Any] = {
    "value": ArrowIPC(SCHEMA),
    "max_wait": 0.1,
    "world": (0, 1),
    "config": {"queued.max.messages.kbytes": 2048, "fetch.max.bytes": 2 * MIB},
}


def read_all(address: str, round_rows: int, round_bytes: int) -> tuple[int, int, int]:
    """Return the peak of a job over all rounds, what was stated, and how many rounds there were."""
    first = KafkaDataset(address, batch_size=1000, stop=dict.fromkeys(range(4), 1), **GIVEN)
    assert len([*fr.Loader(first, threads=1)]) == 16  # after which all modules are there
    first.close()
    before = resident()
    dataset = KafkaDataset(
        address, batch_size=1000, stop="end", round_rows=round_rows, round_bytes=round_bytes, **GIVEN
    )
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


def test_a_plan_before_the_first_round_states_what_limits_allow(broker: Start) -> None:
    kafka = broker()
    dataset = KafkaDataset(kafka.address, batch_size=4, round_rows=1000, **GIVEN)
    plan = dataset.plan()
    assert (plan.remaining_rows, plan.steps) == (0, 0)
    assert plan.bytes_of_rounds == 2 * 1000 * dataset._spec.row_bytes + 2 * 16 * MIB + 4 * MIB
    dataset.close()
