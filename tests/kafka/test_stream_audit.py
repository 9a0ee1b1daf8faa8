"""The audit proves a stream: each round's rows once, and that rounds follow on each other without a hole."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastresume as fr
from fastresume.audit.log_format import START
from fastresume.audit.verify import audit
from fastresume.kafka import KafkaDataset
from support.audits import bodies, write_bodies
from support.kafka_broker import Broker, messages

Start = Callable[..., Broker]


def opened(broker: Broker, batch_size: int, **given: Any) -> KafkaDataset:
    arguments: dict[str, Any] = {"columns": ["id"], "max_wait": 0.1, "stop": "end", "world": (0, 1), **given}
    return KafkaDataset(broker.address, batch_size=batch_size, **arguments)


def live(
    broker: Broker, logs: Path, batch_size: int, state: Any = None, steps: int | None = None, **given: Any
) -> tuple[Any, list[int]]:
    """One life of a job: its last state, and the rows that it was handed."""
    dataset = opened(broker, batch_size, **given)
    with fr.Loader(dataset, threads=1, audit=logs) as loader:
        if state is not None:
            loader.load_state_dict(state)
        rows = list[int]()
        for batch in itertools.islice(loader, steps):
            state = batch.state_dict()
            rows += batch["id"].tolist()
    dataset.close()
    return state, rows


def test_a_stream_is_proven_round_by_round(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=3)
    kafka.send(messages((number % 2, 5) for number in range(16))[0])
    live(kafka, tmp_path, 4, round_rows=16)
    report = audit(tmp_path)
    assert report.problems == 0
    assert report.finished == [5]
    assert report.lines == [
        "stream of rows, in the order of rounds; 1 log",
        "  rounds 0-4: finished: 80 rows, each exactly once; 20 batches",
    ]
    assert not list(tmp_path.glob("dataset-*"))  # states describe rounds


def test_a_state_before_the_first_round_may_be_declared(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 4)[0])
    dataset = opened(kafka, 4)
    state = dataset.state_dict()
    dataset.close()
    live(kafka, tmp_path, 4, state, round_rows=8)
    report = audit(tmp_path, [state["fastresume"]])
    assert report.problems == 0, "\n".join(report.lines)
    assert report.finished == [2]


@pytest.mark.parametrize("shuffle", [False, True])
def test_lives_on_other_batch_sizes_are_proven_as_one(broker: Start, tmp_path: Path, shuffle: bool) -> None:
    kafka = broker(partitions=3)
    kafka.send(messages((number % 2, 7) for number in range(20))[0])
    draw = np.random.default_rng(3)
    state, rows, grown = None, list[int](), 0
    for _ in range(6):
        given = {"round_rows": 40, "shuffle": shuffle, "seed": 2}
        steps, size = int(draw.integers(1, 5)), int(draw.integers(2, 7))
        state, more = live(kafka, tmp_path, size, state, steps, **given)
        rows += more
        grown += "generations" in str(state)
        live(kafka, tmp_path, size, state, 2, **given)  # these are trained, and lost
    state, more = live(kafka, tmp_path, 1, state, shuffle=shuffle, seed=2)
    assert sorted(rows + more) == list(range(140))
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)
    assert grown


def test_rounds_of_several_row_groups_are_proven(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    kafka.send(messages([(0, 10_000)] * 7)[0])
    live(kafka, tmp_path, 7000, steps=3, shuffle=True, seed=2)
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)
    assert "round 0: unfinished (30%)" in str(report.lines)


def test_removed_messages_are_told_and_not_hidden(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 6)[0])
    state, _ = live(kafka, tmp_path, 4, steps=1, round_rows=4)
    kafka.delete_before(0, 3)
    state, rows = live(kafka, tmp_path, 4, state, on_gap="skip")
    assert rows == [*range(12, 24)]
    assert json.loads(state["fastresume"])["round"]["gaps"] == [[0, 0, 1, 3]]
    report = audit(tmp_path)
    assert report.problems == 0
    assert "  note: messages [1, 3) of rows:0 were removed before they were read" in report.lines


def damages() -> dict[str, Callable[[list[bytes]], list[bytes]]]:
    """What may happen to the records of a log of rounds of two batches each."""

    def renamed(records: list[bytes], change: Callable[[dict[str, Any]], None]) -> list[bytes]:
        found = list(records)
        at = [number for number, body in enumerate(found) if body[0] == START][2]
        start = json.loads(found[at][1:])
        state = json.loads(start["cursor"])
        change(state["round"])
        start["cursor"] = json.dumps(state)
        found[at] = bytes([START]) + json.dumps(start).encode()
        return found

    def later(message: dict[str, Any]) -> None:
        message["parts"][0][2] += 1

    def gone(message: dict[str, Any]) -> None:
        message["gaps"] = [[0, 0, 0, message["parts"][0][2]]]

    def first_of(records: list[bytes]) -> int:
        return next(number for number, body in enumerate(records) if body[0] != START)

    return {
        "a batch less": lambda records: records[: first_of(records)] + records[first_of(records) + 1 :],
        "a round less": lambda records: records[:3] + records[6:],
        "a round that begins later": lambda records: renamed(records, later),
        "a gap elsewhere": lambda records: renamed(renamed(records, later), gone),
    }


@pytest.mark.parametrize("damage", damages())
def test_a_hole_is_found(broker: Start, tmp_path: Path, damage: str) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 8)[0])
    live(kafka, tmp_path, 4, round_rows=8)
    (path,) = tmp_path.glob("rank-*.log")
    assert audit(tmp_path).problems == 0
    write_bodies(path, damages()[damage](bodies(path)))
    report = audit(tmp_path)
    assert report.problems > 0
