"""What the tests of Kafka share: a broker for each module."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastresume.kafka.client import ConfluentClient
from support.apache_broker import IS_ASKED, NO_JAVA, ApacheBroker
from support.kafka_broker import NO_GO, Broker

MISSING = NO_JAVA if IS_ASKED else NO_GO


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a broker where none can be had."""
    for item in items:
        if MISSING and "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Broker]]:
    """Starts brokers, which end with the test: those of Go, or Apache Kafka with FASTRESUME_KAFKA=apache.

    Clients of datasets that a test leaves open end as well: they would ask for its brokers ever after.
    """
    started: list[Broker] = []
    clients: list[weakref.ref[ConfluentClient]] = []
    make = ConfluentClient.__init__

    def noted(client: ConfluentClient, *given: Any) -> None:
        make(client, *given)
        clients.append(weakref.ref(client))

    monkeypatch.setattr(ConfluentClient, "__init__", noted)

    def start(*topics: str, **given: Any) -> Broker:
        started.append((ApacheBroker if IS_ASKED else Broker)(*topics, **given))
        return started[-1]

    yield start
    for one in clients:
        if (client := one()) is not None:
            client.close()
    for each in started:
        each.close()
