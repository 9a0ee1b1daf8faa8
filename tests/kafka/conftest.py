"""What the tests of Kafka share: a broker for each module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.apache_broker import IS_ASKED, NO_JAVA, ApacheBroker
from support.kafka_broker import NO_GO, Broker

MISSING = NO_JAVA if IS_ASKED else NO_GO


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a broker where none can be had."""
    for item in items:
        if MISSING and "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=MISSING))


@pytest.fixture
def broker() -> Iterator[Callable[..., Broker]]:
    """Starts brokers, which end with the test: those of Go, or Apache Kafka with FASTRESUME_KAFKA=apache."""
    started: list[Broker] = []

    def start(*topics: str, **given: Any) -> Broker:
        started.append((ApacheBroker if IS_ASKED else Broker)(*topics, **given))
        return started[-1]

    yield start
    for each in started:
        each.close()
