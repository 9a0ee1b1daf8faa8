"""What happens to brokers and topics while a job reads them costs no row, or is an error."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fastresume as fr
from fastresume.kafka import ArrowIPC, KafkaDataset
from fastresume.kafka.client import ConfluentClient, Outages, Topic
from fastresume.kafka.place import Part
from fastresume.kafka.settings import Settings
from support.kafka_broker import SCHEMA, Broker, message, messages

Start = Callable[..., Broker]


def opened(broker: Broker, batch_size: int = 4, **given: Any) -> KafkaDataset:
    arguments: dict[str, Any] = {"columns": ["id"], "max_wait": 0.1, "stop": "end", "world": (0, 1), **given}
    return KafkaDataset(broker.address, batch_size=batch_size, **arguments)


def ids(batches: Iterator[fr.Batch], count: int | None = None) -> list[int]:
    return [number for batch in itertools.islice(batches, count) for number in batch["id"].tolist()]


def all_ids(dataset: KafkaDataset) -> list[int]:
    found = ids(iter(dataset))
    dataset.close()
    return found


def state_after(broker: Broker, batches: int, **given: Any) -> dict[str, str]:
    """The state after so many batches of a job that ends there."""
    dataset = opened(broker, **given)
    ids(iter(dataset), batches)
    dataset.close()
    return dataset.state_dict()


def resumed(broker: Broker, state: dict[str, str], batch_size: int = 4, **given: Any) -> KafkaDataset:
    dataset = opened(broker, batch_size, **given)
    dataset.load_state_dict(state)
    return dataset


def test_a_broker_that_is_killed_and_started_again_costs_no_row(broker: Start, tmp_path: Path) -> None:
    """In the middle of a round, with the next ones not fetched yet; and while a round is read again."""
    kafka = broker(partitions=3, directory=tmp_path / "broker")
    given, rows = messages((number % 3, 4) for number in range(48))
    kafka.send(given)
    dataset = opened(kafka, round_rows=24)
    batches = iter(fr.Loader(dataset, threads=1))
    delivered = ids(batches, 3)
    state = dataset.state_dict()
    later = resumed(kafka, state)

    def while_it_is_away(read: Callable[[], list[int]]) -> list[int]:
        found: list[list[int]] = []
        kafka.kill()
        reads = threading.Thread(target=lambda: found.append(read()))
        reads.start()
        reads.join(0.3)
        kafka.start_again()
        reads.join(60)
        return found[0]

    rest = while_it_is_away(lambda: ids(batches))
    dataset.close()
    assert sorted(delivered + rest) == sorted(number for each in rows.values() for number in each)
    assert sorted(while_it_is_away(lambda: all_ids(later))) == sorted(rest)


@pytest.mark.slow
def test_leaders_may_change(broker: Start) -> None:
    kafka = broker(partitions=4, brokers=3)
    given, rows = messages((number % 4, 3) for number in range(40))
    kafka.send(given)
    dataset = opened(kafka, 6, round_rows=24)
    batches, delivered, nodes = iter(dataset), list[int](), itertools.cycle(range(3))
    state: dict[str, str] = {}
    for partition in itertools.cycle(range(4)):
        kafka.move(partition, next(nodes))
        if not (more := ids(batches, 1)):
            break
        delivered += more
        state = state if len(delivered) != 30 else dataset.state_dict()
    dataset.close()
    assert sorted(delivered) == sorted(number for each in rows.values() for number in each)
    later = resumed(kafka, state, 6)
    for partition in range(4):
        kafka.move(partition, next(nodes))
    assert all_ids(later)[:18] == delivered[30:48]  # its round
    later.close()


def without_id(client: ConfluentClient) -> dict[str, Topic]:
    """The topics of brokers that give them no ids."""
    return {name: Topic("", topic.parts) for name, topic in TOPICS(client).items()}


TOPICS = ConfluentClient.topics


def test_offsets_beyond_the_end_of_a_partition_are_refused(
    broker: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an unclean election: of brokers that tell topics apart by their names alone."""
    monkeypatch.setattr(ConfluentClient, "topics", without_id)
    kafka, short = broker(), broker()
    kafka.send(messages([(0, 4)] * 8)[0])
    short.send(messages([(0, 4)] * 3)[0])
    amid, between = (state_after(kafka, count, round_rows=16) for count in (2, 4))
    for state, kind, found in [
        (amid, fr.StateError, r"rows:0 was truncated: the state has read up to offset 4, and it ends at 3"),
        (between, fr.SourceError, r"rows:0 ends at offset 3, and was read up to 4: it was truncated"),
    ]:
        dataset = resumed(short, state)
        with pytest.raises(kind, match=found):
            ids(iter(dataset))
        assert dataset.state_dict() == state
        dataset.close()
    client = ConfluentClient(Settings(short.address, None, None), "read_committed", Outages(10, 10))
    with pytest.raises(fr.SourceError, match=r"rows:0 ends at offset 3, .*truncated, or created again"):
        list(client.fetch({Part("rows", 0): (1, 5)}))
    client.close()


@pytest.mark.parametrize("batches", [1, 4])
def test_a_topic_that_is_rebuilt_is_told_from_the_one_before(broker: Start, batches: int) -> None:
    """Even if it has as many messages: states in a round, states between rounds, and jobs that run."""
    kafka = broker()
    kafka.send(messages([(0, 4)] * 4)[0])
    running = opened(kafka, stop=None, round_rows=16)
    stream = iter(running)
    assert ids(stream, 4) == [*range(16)]
    state = state_after(kafka, batches, round_rows=16)
    kafka.create_again()
    kafka.send(messages([(0, 4)] * 12)[0], kafka.producer())
    later = resumed(kafka, state)
    with pytest.raises(fr.StateError, match="'rows' was created again since the state was made"):
        ids(iter(later))
    assert later.state_dict() == state
    later.close()
    with pytest.raises((fr.StateError, fr.SourceError), match=r"created again|does not give|truncated"):
        ids(stream, 1)
    running.close()


def test_holes_of_compaction_cost_nothing_and_a_round_that_lost_rows_is_refused(broker: Start) -> None:
    kafka = broker()
    kafka.configure(cleanup_policy="compact", min_compaction_lag_ms=0)
    given, _ = messages([(0, 4)] * 9)
    keys = [b"z", b"a", b"b", b"a", b"c", b"b", b"d", b"a", b"f"]
    for key, one in zip(keys, given, strict=True):
        kafka.send([one], key=key)
    state = state_after(kafka, 1, round_rows=36)
    kafka.compact()
    left = [number for at in (0, 4, 5, 6, 7, 8) for number in range(4 * at, 4 * at + 4)]
    whole = opened(kafka, round_rows=12)
    batches = list(whole)
    whole.close()
    assert ids(iter(batches)) == left
    for number in (1, 2, 4):
        later = resumed(kafka, batches[number].state_dict(), 2)
        assert ids(iter(batches[: number + 1])) + all_ids(later) == left
    late = resumed(kafka, state)
    with pytest.raises(fr.StateError, match=r"rows of rows:0 .*removed \(by compaction, say\)"):
        ids(iter(late))
    assert late.state_dict() == state
    late.close()


def test_clocks_that_go_back_hold_the_watermark(broker: Start) -> None:
    kafka = broker(partitions=2)
    given, _ = messages([(number % 2, 2) for number in range(16)])
    times = [1000, 1000, 900, 1005, 2000, 10, 15, 2000, 3000, 3000, 0, 1, 2500, 2600, 2700, 4000]
    for time, one in zip(times, given, strict=True):
        kafka.send([one], timestamp=1_000_000 + time)
    dataset = opened(kafka, round_rows=8)
    seen, marks = list[tuple[int, int]](), []
    for batch in dataset:
        since = [(each - np.datetime64(1_000_000, "ms")).astype(int) for each in batch.event_time]
        seen.append((int(since[0]), int(since[1])))
        marks.append(dataset.watermark)
        at = dataset.state_dict()
        again = resumed(kafka, at)
        assert again.watermark == marks[-1] or json.loads(at["fastresume"])["round"] != dataset._spec.round
        again.close()
    dataset.close()
    assert all(first <= last for first, last in seen)
    assert min(first for first, _ in seen) == 0
    found = [mark for mark in marks if mark is not None]
    assert found == sorted(found)
    assert found[-1] == np.datetime64(1_003_000, "ms")


def test_messages_without_rows_are_read_over(broker: Start) -> None:
    kafka = broker(partitions=3)
    nothing, _ = messages([(0, 0), (1, 0)] * 20)
    kafka.send([*nothing, (0, None)])
    assert all_ids(opened(kafka, value=ArrowIPC(SCHEMA))) == []
    dataset = opened(kafka, stop=None, value=ArrowIPC(SCHEMA))
    kafka.send([*nothing, (1, message(range(4))), *nothing, (1, message(range(4, 8)))])
    assert ids(iter(dataset), 2) == [*range(8)]
    state = dataset.state_dict()
    dataset.close()
    kafka.send([*nothing, (0, message(range(8, 12)))])
    assert all_ids(resumed(kafka, state, value=ArrowIPC(SCHEMA))) == [*range(8, 12)]


@pytest.mark.slow
def test_a_message_of_50_mb_is_read(broker: Start) -> None:
    kafka = broker()
    kafka.configure(max_message_bytes=60_000_000)
    rows = 2_300_000
    large = message(range(rows))
    assert len(large) > 50_000_000
    producer = kafka.producer(**{"message.max.bytes": 60_000_000})
    kafka.send([(0, large), (0, message(range(rows, rows + 100_000)))], producer)
    dataset = opened(kafka, 1_000_000)
    first = next(iter(dataset))
    assert first["id"].tolist() == [*range(1_000_000)]
    dataset.close()
    assert all_ids(resumed(kafka, first.state_dict(), 100_000)) == [*range(1_000_000, rows + 100_000)]


@pytest.mark.slow
def test_a_thousand_partitions_are_read_and_resumed(broker: Start) -> None:
    kafka = broker(partitions=1000)
    draw = np.random.default_rng(2)
    given, rows = messages((int(draw.integers(1000)), int(draw.integers(5))) for _ in range(3000))
    kafka.send(given)
    dataset = opened(kafka, 16, round_rows=1600)
    batches = iter(dataset)
    delivered = ids(batches, 150)
    state = dataset.state_dict()
    dataset.close()
    assert len(state["fastresume"]) < 50 * 1000
    rest = all_ids(resumed(kafka, state, 1))
    assert sorted(delivered + rest) == sorted(number for each in rows.values() for number in each)


def test_several_addresses_say_how_topics_of_one_cluster_are_named() -> None:
    addresses: Any = ["kafka://h:9/a", "kafka://h:9/b"]
    with pytest.raises(
        TypeError, match=r"one text, found 2 in a list: write topics .* as topic=\['a', 'b'\]"
    ):
        Settings(addresses, None, None)
