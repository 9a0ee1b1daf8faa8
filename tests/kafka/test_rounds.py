"""Rows come in the order of rounds, each exactly once, over resumes on other ranks and batch sizes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fastresume as fr
import support.child  # noqa: F401  (a server of forks imports torch once)
from fastresume.audit.verify import audit
from fastresume.checkpoint import Checkpointer
from fastresume.kafka import KafkaDataset
from support.kafka_broker import Broker, committed, messages
from support.oracle.rounds import rounds

Start = Callable[..., Broker]

SIZES = [1, 0, 5, 3, 0, 0, 17, 2, 1, 1, 40, 4]


def sent(broker: Broker, count: int, partitions: int = 3) -> dict[int, list[int]]:
    """Write messages of 0 to 40 rows to all partitions but the last one; return the rows by partition."""
    of = max(partitions - 1, 1)
    given, rows = messages((number % of, SIZES[number % len(SIZES)]) for number in range(count))
    broker.send(given)
    return rows


def opened(broker: Broker, batch_size: int, **given: Any) -> KafkaDataset:
    arguments: dict[str, Any] = {"columns": ["id"], "max_wait": 0.1, "stop": "end", "world": (0, 1), **given}
    return KafkaDataset(broker.address, batch_size=batch_size, **arguments)


def ids(batches: Iterator[fr.Batch]) -> list[int]:
    return [number for batch in batches for number in batch["id"].tolist()]


@pytest.mark.parametrize(("batch_size", "round_rows"), [(8, 64), (7, 1_000_000), (16, 16)])
def test_the_order_is_the_oracles(broker: Start, batch_size: int, round_rows: int) -> None:
    kafka = broker(partitions=3)
    rows = sent(kafka, 60)
    dataset = opened(kafka, batch_size, round_rows=round_rows)
    found = [(batch.epoch, batch["id"].tolist()) for batch in fr.Loader(dataset, threads=1)]
    of_rounds = [rows for _, rows in sorted(_by_round(found).items())]
    if round_rows == 1_000_000:
        assert of_rounds == rounds(rows, batch_size, round_rows)
    delivered = [number for each in of_rounds for number in each]
    assert len(set(delivered)) == len(delivered)
    assert sum(map(len, rows.values())) - len(delivered) < batch_size
    for partition in rows.values():  # in order, and from the beginning
        mine = [number for number in delivered if number in set(partition)]
        assert mine == partition[: len(mine)]
    assert all(len(each) <= max(round_rows, batch_size) and len(each) % batch_size == 0 for each in of_rounds)


def _by_round(found: list[tuple[int, list[int]]]) -> dict[int, list[int]]:
    by_round: dict[int, list[int]] = {}
    for epoch, rows in found:
        by_round.setdefault(epoch, []).extend(rows)
    return by_round


@pytest.mark.parametrize("shuffle", [False, True])
def test_any_chain_of_resumes_delivers_each_row_once(broker: Start, shuffle: bool) -> None:
    kafka = broker(partitions=3)
    rows = sent(kafka, 24)
    total = sum(map(len, rows.values()))
    draw = np.random.default_rng(5)
    state, delivered, grown = None, list[int](), 0
    while total - len(delivered) > 12:
        dataset = opened(kafka, int(draw.integers(1, 12)), round_rows=40, shuffle=shuffle, seed=3)
        if state is not None:
            dataset.load_state_dict(json.loads(json.dumps(state)))
            assert dataset.state_dict() == state
        for batch in itertools.islice(dataset, int(draw.integers(1, 6))):
            delivered += batch["id"].tolist()
            state = batch.state_dict()
        grown += "generations" in str(state)
        dataset.close()
    dataset = opened(kafka, 1, shuffle=shuffle, seed=3)  # the rest fits batches of 1
    dataset.load_state_dict(state or {})
    delivered += ids(iter(dataset))
    dataset.close()
    assert grown
    assert sorted(delivered) == list(range(total))


def test_the_same_ranks_resume_with_the_same_batches(broker: Start) -> None:
    kafka = broker(partitions=3)
    sent(kafka, 40)
    whole = list(opened(kafka, 8, shuffle=True, seed=1))
    for number in (0, 1, len(whole) // 2, len(whole) - 2):
        dataset = opened(kafka, 8, shuffle=True, seed=1)
        dataset.load_state_dict(whole[number].state_dict())
        again = [batch["id"].tolist() for batch in fr.Loader(dataset, threads=2)]
        assert again == [batch["id"].tolist() for batch in whole[number + 1 :]]
        assert dataset.state_dict() == whole[-1].state_dict()
        dataset.close()


def test_rows_that_come_later_follow(broker: Start) -> None:
    kafka = broker(partitions=2)
    first, _ = messages([(0, 3), (1, 4)])
    kafka.send(first)
    dataset = opened(kafka, 5, stop=None)
    batches = iter(fr.Loader(dataset, threads=1))
    delivered = next(batches)["id"].tolist()
    more, _ = messages([(0, 7), (1, 0), (0, 1), (1, 10)])
    kafka.send(more[1:] + more[:1])
    for _ in range(4):
        delivered += next(batches)["id"].tolist()
    dataset.close()
    assert len(delivered) == 25
    assert sorted(delivered) == sorted([*range(7), *range(18)])


def test_new_partitions_begin_at_their_first_offset(broker: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastresume.kafka.follower._TOPICS_SECONDS", 0.0)
    kafka = broker(partitions=1)
    kafka.send(messages([(0, 4)])[0])
    dataset = opened(kafka, 4, stop=None)
    batches = iter(dataset)
    assert next(batches)["id"].tolist() == [0, 1, 2, 3]
    state = dataset.state_dict()
    kafka.add_partitions(2)
    kafka.send(messages([(0, 4), (1, 4)])[0][1:], kafka.producer())
    assert next(batches)["id"].tolist() == [4, 5, 6, 7]
    dataset.close()
    resumed = opened(kafka, 4, stop=None)
    resumed.load_state_dict(state)
    assert next(iter(resumed))["id"].tolist() == [4, 5, 6, 7]
    resumed.close()


def test_aborted_messages_are_never_delivered(broker: Start) -> None:
    kafka = broker(partitions=2)
    producer = kafka.producer(**{"transactional.id": "writer"})
    producer.init_transactions(30)
    given, _ = messages([(number % 2, 3) for number in range(12)])
    expected = []
    for number in range(0, 12, 2):
        producer.begin_transaction()
        kafka.send(given[number : number + 2], producer)
        if number % 4:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            expected += range(3 * number, 3 * number + 6)
    dataset = opened(kafka, 3)
    first = list(dataset)
    assert sorted(ids(iter(first))) == expected
    resumed = opened(kafka, 1)
    resumed.load_state_dict(first[2].state_dict())
    assert sorted(ids(iter(first[:3])) + ids(iter(resumed))) == expected
    dataset.close()
    resumed.close()


def test_batches_have_the_times_of_their_messages(broker: Start) -> None:
    kafka = broker(partitions=2)
    given, _ = messages([(0, 2), (1, 2), (0, 2), (1, 2)])
    for number, each in enumerate(given):
        kafka.send([each], timestamp=1_000_000 + number)
    dataset = opened(kafka, 4)
    assert dataset.watermark is None
    seen = [(batch.event_time, dataset.watermark) for batch in dataset]
    zero = np.datetime64(1_000_000, "ms")
    milli = np.timedelta64(1, "ms")
    assert [(first - zero, last - zero) for (first, last), _ in seen] == [
        (0 * milli, 2 * milli),
        (1 * milli, 3 * milli),
    ]
    assert [watermark for _, watermark in seen] == [None, zero + 2 * milli]
    assert not hasattr(next(iter(fr.ArrowDataset(_table(), batch_size=1, world=(0, 1)))), "event_time")
    dataset.close()


def _table() -> Any:
    import pyarrow as pa

    return pa.table({"id": [1, 2]})


@pytest.mark.parametrize("context", [None, pytest.param("spawn", marks=pytest.mark.slow)])
def test_workers_read_round_after_round(broker: Start, tmp_path: Path, context: str | None) -> None:
    kafka = broker(partitions=2)
    rows = sent(kafka, 24, partitions=2)  # in one of them: else rounds depend on what comes first
    given: dict[str, Any] = {"round_rows": 40, "shuffle": True, "seed": 4, "lanes": 4}
    expected = list(opened(kafka, 4, **given))
    dataset = opened(kafka, 4, **given).map(_negative)
    workers: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": context}
    with fr.Loader(dataset, audit=tmp_path, **workers) as loader:
        found = list(loader)
    # Workers share the lanes, so batches have other rows; rounds have the same.
    assert _sorted_rounds(found) == [[-number for number in each][::-1] for each in _sorted_rounds(expected)]
    assert all(batch.event_time is not None for batch in found)
    report = audit(tmp_path)
    assert report.problems == 0
    assert report.finished[0] > 2
    state = found[len(found) // 2].state_dict()
    rest = opened(kafka, 1, shuffle=True, seed=4)
    rest.load_state_dict(state)
    with fr.Loader(rest, **workers) as loader:
        more = ids(iter(loader))
    first = [-number for batch in found[: len(found) // 2 + 1] for number in batch["id"].tolist()]
    assert sorted([*first, *more]) == sorted(number for each in rows.values() for number in each)
    with pytest.raises(ValueError, match="'forkserver' or 'spawn'"):
        fr.Loader(rest, num_workers=2, multiprocessing_context="fork")
    rest.close()


def _sorted_rounds(batches: list[fr.Batch]) -> list[list[int]]:
    by_round = _by_round([(batch.epoch, batch["id"].tolist()) for batch in batches])
    return [sorted(by_round[number]) for number in sorted(by_round)]


def _negative(batch: fr.Batch) -> dict[str, Any]:
    return {"id": -batch["id"]}


def test_functions_are_mapped_over_all_rounds(broker: Start) -> None:
    kafka = broker(partitions=1)
    kafka.send(messages([(0, 4)] * 6)[0])
    plain = opened(kafka, 4, round_rows=8)
    mapped = plain.map(lambda batch: {"id": -batch["id"]})
    found = ids(iter(fr.Loader(mapped, threads=1)))
    plain.close()
    assert found == [-number for number in range(24)]
    assert plain.state_dict() == mapped.state_dict()


def test_a_checkpointer_saves_and_restores_the_place(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=2)
    kafka.send(messages([(number % 2, 4) for number in range(8)])[0])
    dataset = opened(kafka, 4, round_rows=12)
    loader = fr.Loader(dataset, threads=1)
    model = torch.nn.Linear(1, 1)
    delivered = list[int]()
    with Checkpointer(tmp_path) as checkpointer:
        for step, batch in enumerate(loader, 1):
            delivered += batch["id"].tolist()
            checkpointer.save(step, model=model, loader=loader)
            if step == 4:
                break
    dataset.close()
    later = opened(kafka, 4)
    loader = fr.Loader(later, threads=1)
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.restore(model=model, loader=loader)
    delivered += ids(iter(loader))
    later.close()
    assert sorted(delivered) == list(range(32))


def test_offsets_are_committed_after_a_save(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=2)
    kafka.send(messages([(0, 3), (1, 4), (0, 3), (1, 4), (0, 3)])[0])
    config = {"group.id": "dashboard"}
    dataset = opened(kafka, 4, config=config, commit="after save", round_rows=12)
    loader = fr.Loader(dataset, threads=1)
    model = torch.nn.Linear(1, 1)
    seen = []
    with Checkpointer(tmp_path) as checkpointer:
        for step, _ in enumerate(loader, 1):
            checkpointer.save(step, model=model, loader=loader)
            assert dataset._commits is not None
            dataset._commits.close()
            seen.append(committed(kafka, "dashboard"))
    dataset.close()
    # A round of 6 and 6 rows, then one of 2 and 2: a message counts once all of its rows are delivered.
    assert seen == [{0: 1, 1: 0}, {0: 2, 1: 0}, {0: 2, 1: 1}, {0: 2, 1: 2}]
    resumed = opened(kafka, 3, start="committed:dashboard")
    assert next(iter(resumed))["id"].tolist() == [14, 15, 16]
    resumed.close()
    with pytest.raises(TypeError, match=r"needs config=\{'group.id'"):
        opened(kafka, 4, commit="after save")
    with pytest.raises(TypeError, match="no group is joined"):
        opened(kafka, 4, config=config)


def test_saves_are_due_by_the_time_of_events(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=2)
    given, _ = messages([(number % 2, 2) for number in range(16)])
    for number, each in enumerate(given):
        kafka.send([each], timestamp=1_000_000 + 60_000 * number)
    dataset = opened(kafka, 4, round_rows=8)
    loader = fr.Loader(dataset, threads=1)
    model = torch.nn.Linear(1, 1)
    interval = timedelta(minutes=4)
    saved = []
    with Checkpointer(tmp_path, keep=None, save_by_event_time=interval) as checkpointer:
        for step, _ in enumerate(loader, 1):
            if checkpointer.is_due(loader):
                checkpointer.save(step, model=model, loader=loader)
                saved.append(dataset.watermark)
    dataset.close()
    assert len(saved) >= 2
    assert all(later - one >= np.timedelta64(4, "m") for one, later in itertools.pairwise(saved))
    later = opened(kafka, 4)
    loader = fr.Loader(later, threads=1)
    with Checkpointer(tmp_path, save_by_event_time=interval) as checkpointer:
        checkpointer.restore(model=model, loader=loader, step=checkpointer.entries()[0].step)
        due = [checkpointer.is_due(loader) for _ in loader]
        table = fr.ArrowDataset(_table(), batch_size=1, world=(0, 1))
        with pytest.raises(TypeError, match="KafkaDataset"):
            checkpointer.is_due(fr.Loader(table))
    assert due[0] is False
    assert any(due)
    later.close()
    with pytest.raises(ValueError, match="is_due needs save_by_event_time"):
        Checkpointer(tmp_path).is_due(loader)
    with pytest.raises(TypeError, match="timedelta"):
        Checkpointer(tmp_path, save_by_event_time=60)  # type: ignore[arg-type]


def test_a_loader_knows_its_lag_and_refuses_a_length(broker: Start) -> None:
    kafka = broker(partitions=1)
    kafka.send(messages([(0, 4)] * 4)[0])
    dataset = opened(kafka, 4, round_rows=8, stop=None)
    loader = fr.Loader(dataset, threads=1)
    next(iter(loader))
    assert loader.stats()["lag"] == {"rows:0": 2}
    with pytest.raises(TypeError, match="no length"):
        len(loader)
    loader.close()
    dataset.close()
