"""What the tests of Kafka share: a broker for each module."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from support.kafka_broker import NO_GO, Broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a broker where none can be built."""
    for item in items:
        if NO_GO and "broker" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason=NO_GO))


@pytest.fixture
def broker() -> Iterator[Callable[..., Broker]]:
    """Starts brokers, which end with the test."""
    started: list[Broker] = []

    def start(*topics: str, partitions: int = 1, user: str = "") -> Broker:
        started.append(Broker(*topics, partitions=partitions, user=user))
        return started[-1]

    yield start
    for each in started:
        each.close()
