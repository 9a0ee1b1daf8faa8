"""Workers of torch's DataLoader read a stream: one iteration is one round, which the main process finds."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader, IterableDataset

import fastresume as fr
import support.child  # noqa: F401  (a server of forks imports torch once)
from fastresume.kafka import KafkaDataset
from support.kafka_broker import Broker, messages
from support.kafka_jobs import Life, run, train_under_dataloader

Start = Callable[..., Broker]

SIZES = [1, 0, 5, 3, 0, 0, 17, 2, 1, 1, 40, 4]


def sent(broker: Start) -> tuple[Broker, int]:
    """A broker with messages in one of two partitions, whose rounds are the same each time; their rows."""
    kafka = broker(partitions=2)
    given, rows = messages((0, SIZES[number % len(SIZES)]) for number in range(24))
    kafka.send(given)
    return kafka, sum(map(len, rows.values()))


def opened(broker: Broker, batch_size: int, **given: Any) -> KafkaDataset:
    arguments: dict[str, Any] = {"columns": ["id"], "max_wait": 0.1, "stop": "end", "round_rows": 40, **given}
    return KafkaDataset(broker.address, batch_size=batch_size, world=(0, 1), **arguments)


def loader_of(dataset: KafkaDataset, workers: int = 2, **given: Any) -> DataLoader[Any]:
    return DataLoader(dataset, batch_size=None, num_workers=workers, **given)


def iterations(loader: Any) -> Iterator[list[fr.Batch]]:
    """The batches of each iteration, up to the one that delivers nothing."""
    while batches := list(loader):
        yield batches


def all_batches(loader: Any) -> list[fr.Batch]:
    return [batch for batches in iterations(loader) for batch in batches]


def ids(batches: list[fr.Batch]) -> list[int]:
    return [number for batch in batches for number in batch["id"].tolist()]


CONTEXTS = ["fork", *(pytest.param(each, marks=pytest.mark.slow) for each in ("forkserver", "spawn"))]


@pytest.mark.parametrize("context", CONTEXTS)
def test_an_iteration_is_a_round_and_any_state_resumes(broker: Start, context: str) -> None:
    kafka, total = sent(broker)
    expected: dict[int, list[int]] = {}
    for batch in (plain := opened(kafka, 4, shuffle=True, seed=4)):
        expected.setdefault(batch.epoch, []).extend(batch["id"].tolist())
    plain.close()
    dataset = opened(kafka, 4, shuffle=True, seed=4)
    states = [dataset.state_dict()]
    found = []
    for batches in iterations(loader_of(dataset, multiprocessing_context=context)):
        assert {batch.epoch for batch in batches} == {len(found)}
        assert all(batch.event_time is not None for batch in batches)
        states.append(batches[-1].state_dict())
        assert dataset.state_dict() == states[-1]  # as of a table, where a pass ends
        assert dataset.epoch == len(found) + 1
        found.append(batches)
    dataset.close()
    assert [sorted(ids(batches)) for batches in found] == [sorted(rows) for rows in expected.values()]
    assert len(found) > 2
    first = found[0] + found[1][:3]  # the rest by other workers, by threads, and by this process
    read: list[Callable[[KafkaDataset], list[fr.Batch]]] = [
        lambda later: all_batches(loader_of(later, 1, multiprocessing_context=context)),
        lambda later: list(fr.Loader(later, threads=1)),
        lambda later: list(loader_of(later, 0)),
    ]
    for rest in read:
        later = opened(kafka, 1, shuffle=True, seed=4)
        later.load_state_dict(json.loads(json.dumps(first[-1].state_dict())))
        assert sorted(ids(first) + ids(rest(later))) == [*range(total)]
        later.close()


def test_an_iteration_that_is_broken_off_begins_again_or_goes_on_by_a_state(broker: Start) -> None:
    kafka, _ = sent(broker)
    dataset = opened(kafka, 4)
    loader = loader_of(dataset)
    whole = ids(list(loader))
    dataset.load_state_dict(opened(kafka, 4).state_dict())
    batches = iter(loader)
    first = [next(batches), next(batches)]
    with pytest.raises(fr.StateError, match="knows nothing of the batches"):
        dataset.state_dict()
    del batches
    dataset.load_state_dict(first[-1].state_dict())
    assert ids(first) + ids(list(loader)) == whole
    late = iter(loader)
    dataset.load_state_dict(first[-1].state_dict())
    with pytest.raises(fr.StateError, match="call iter\\(\\) on"):
        next(late)
    dataset.close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_torchdata_reads_rounds_as_torch_does(broker: Start) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is not installed")
    kafka, total = sent(broker)
    dataset = opened(kafka, 1)
    loader = torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=2)
    found = list(iterations(loader))
    dataset.close()
    assert sorted(number for batches in found for number in ids(batches)) == [*range(total)]
    later = opened(kafka, 1)
    later.load_state_dict(found[0][-1].state_dict())
    assert [ids(batches) for batches in iterations(loader_of(later))] == [ids(each) for each in found[1:]]
    later.close()


class Wrapped(IterableDataset[Any]):
    """A dataset around a stream, which the DataLoader does not know of."""

    def __init__(self, inner: KafkaDataset) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[Any]:
        return iter(self.inner)


def test_what_workers_cant_have_is_refused_and_says_what_to_write(broker: Start) -> None:
    kafka, _ = sent(broker)
    dataset = opened(kafka, 4)
    with pytest.raises(fr.FastresumeError, match=r"persistent_workers=True: .*fr.Loader\(dataset, num_work"):
        iter(loader_of(dataset, persistent_workers=True))
    with pytest.raises(fr.FastresumeError, match=r"no round .* was open .* give the dataset itself"):
        next(iter(DataLoader(Wrapped(dataset), batch_size=None, num_workers=1)))
    with pytest.raises(TypeError, match="can't be pickled"):
        pickle.dumps(dataset)
    kafka.delete_before(0, 1)  # errors of the main process come out of iter()
    with pytest.raises(fr.SourceError, match="retention removed"):
        iter(loader_of(dataset))
    dataset.close()


@pytest.mark.slow
@pytest.mark.processes
def test_ranks_under_dataloaders_are_killed_and_others_go_on(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=4)
    given, rows = messages((number % 4, SIZES[number % len(SIZES)]) for number in range(96))
    kafka.send(given)
    lives = [Life(2, 3, 5), Life(3, 4, 7), Life(1, 4, 3), Life(2, 2, 9), Life(1, 1, None)]
    arguments = {"columns": ["id"], "max_wait": 0.1, "round_rows": 60, "shuffle": True, "seed": 6}
    found = run(tmp_path, lives, kafka.address, arguments, lambda _: None, train_under_dataloader)
    assert sorted(found) == sorted(number for each in rows.values() for number in each)
