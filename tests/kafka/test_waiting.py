"""Who waits for messages is let go at once: by `close()`, by Ctrl-C."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import fastresume as fr
from fastresume.kafka import ArrowIPC, KafkaDataset
from support.child import Child, say
from support.kafka_broker import SCHEMA, Broker, message
from support.watching import in_time

Start = Callable[..., Broker]


def opened(address: str, **given: Any) -> KafkaDataset:
    """A dataset of a topic without messages."""
    return KafkaDataset(address, batch_size=4, value=ArrowIPC(SCHEMA), max_wait=0.1, world=(0, 1), **given)


def wait(address: str) -> str:
    """Wait for a batch until Ctrl-C."""
    dataset = opened(address)
    try:
        say("waits")
        next(iter(dataset))
    except KeyboardInterrupt:
        dataset.close()
        return "interrupted"
    return "not interrupted"


def test_close_ends_a_wait(broker: Start) -> None:
    kafka = broker()
    dataset = opened(kafka.address)
    raised: list[BaseException] = []

    def draw() -> None:
        try:
            next(iter(dataset))
        except fr.FastresumeError as error:
            raised.append(error)

    waits = threading.Thread(target=draw)
    waits.start()
    while not any(thread.name == "fastresume-rounds" for thread in threading.enumerate()):
        waits.join(0.01)
    dataset.close()
    waits.join(20)
    assert not waits.is_alive()
    assert "closed while it waited" in str(raised[0])
    kafka.send([(0, message(range(4)))])  # and goes on later
    assert next(iter(dataset))["id"].tolist() == [0, 1, 2, 3]
    dataset.close()


def test_ctrl_c_ends_a_wait(broker: Start) -> None:
    kafka = broker()
    with Child() as child:
        child.start(wait, kafka.address)
        assert child.heard(120) == "waits"
        child.interrupt()
        assert child.result(20) == "interrupted"
        assert child.end() == 0


def test_brokers_that_are_not_there_are_named() -> None:
    pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    found = r"kafka://127.0.0.1:1/rows does not give the topics.*is the address right\? connect_seconds="
    with pytest.raises(fr.SourceError, match=found):
        opened("kafka://127.0.0.1:1/rows", connect_seconds=0.5)


def test_the_watchdog_names_a_topic_without_rows_and_a_broker_that_is_silent(
    broker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = broker()
    kafka.send([(0, message(range(6)))])
    caplog.set_level(logging.WARNING, "fastresume")
    dataset = opened(kafka.address)
    loader = fr.Loader(dataset, threads=1, watchdog_seconds=0.2)
    batches = iter(loader)
    next(batches)

    def draw() -> None:
        with pytest.raises(fr.FastresumeError, match="closed while it waited"):
            next(batches)

    waits = threading.Thread(target=draw)
    waits.start()
    found = f"s for round 1, on rank 0 of 1\n  {kafka.address} answers; 2 rows of 1 partition there"
    assert in_time(lambda: found in caplog.text)
    kafka.freeze()
    assert in_time(lambda: f"{kafka.address} has not given the " in caplog.text, 60)
    dataset.close()
    waits.join(20)
    assert not waits.is_alive()
    loader.close()


def test_brokers_that_went_are_waited_for(broker: Start) -> None:
    kafka = broker()
    kafka.send([(0, message(range(4)))])
    dataset = opened(kafka.address, outage_seconds=0.5)
    assert next(iter(dataset))["id"].tolist() == [0, 1, 2, 3]
    kafka.freeze()
    with pytest.raises(fr.SourceError, match=r"does not give the (topics|offsets)") as raised:
        next(iter(dataset))
    assert "connect_seconds" not in str(raised.value)
    dataset.close()
