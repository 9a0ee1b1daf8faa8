"""An evaluation over a stream has each row from its start to its stop once, on any number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.kafka import KafkaDataset
from fastresume.training import Evaluator
from support.forks import in_ranks
from support.kafka_broker import Broker, message, messages

Start = Callable[..., Broker]

ROWS = 61
"""In 3 of 4 partitions; no batch size of these tests divides it."""


def held_out(broker: Start) -> Broker:
    kafka = broker(partitions=4)
    kafka.send(messages((number % 3, size) for number, size in enumerate([7, 0, 9, 1, 20, 3, 11, 10]))[0])
    return kafka


def opened(address: str, batch_size: int, **given: Any) -> KafkaDataset:
    arguments: dict[str, Any] = {"columns": ["id"], "max_wait": 0.1, "stop": "end", "round_rows": 24, **given}
    return KafkaDataset(address, batch_size=batch_size, **arguments)


def score(seen: list[int]) -> Callable[[object, fr.Batch], dict[str, Any]]:
    """What rows there are, and their numbers."""

    def scored(_model: object, batch: fr.Batch) -> dict[str, Any]:
        seen.extend(batch["id"][batch.valid].tolist())
        if dist.is_initialized():  # as a sharded model does it, on every rank alike
            dist.all_reduce(torch.ones(1))
        return {"id": batch["id"], "one": torch.ones(batch.num_rows)}

    return scored


WANTED = {"id": (ROWS - 1) / 2, "one": 1.0}


def test_each_run_has_all_rows_and_the_dataset_stays_where_it_was(broker: Start) -> None:
    kafka = held_out(broker)
    for batch_size in (8, 24):
        seen: list[int] = []
        dataset = opened(kafka.address, batch_size, world=(0, 1))
        delivered = next(iter(dataset))["id"].tolist()  # it is in the middle of a round
        state = dataset.state_dict()
        evaluator = Evaluator(dataset, score(seen))
        for _ in range(2):
            assert evaluator.run(None) == WANTED
            assert sorted(seen) == [*range(ROWS)]
            assert dataset.state_dict() == state
            seen.clear()
        delivered += [number for batch in dataset for number in batch["id"].tolist()]
        assert len(set(delivered)) == len(delivered) == ROWS // batch_size * batch_size
        dataset.close()


def test_what_comes_later_is_no_part_of_it(broker: Start) -> None:
    kafka = held_out(broker)
    dataset = opened(kafka.address, 8, world=(0, 1))
    evaluator = Evaluator(fr.Loader(dataset, threads=1), score([]))
    kafka.send([(0, message([1000])), (3, message([2000]))])
    assert evaluator.run(None) == WANTED
    kafka.add_partitions(5)
    kafka.send([(4, message([3000]))], kafka.producer())
    dataset._stream._follower._topics_asked = 0.0  # it looks for partitions now
    assert evaluator.run(None) == WANTED
    dataset.close()


def test_a_round_may_be_padded_alone_and_a_topic_empty(broker: Start) -> None:
    kafka = broker()
    kafka.send([(0, message(range(3)))])
    dataset = opened(kafka.address, 8, world=(0, 1))
    assert Evaluator(dataset, score([])).run(None) == {"id": 1.0, "one": 1.0}
    dataset.close()
    dataset = opened(kafka.address, 8, world=(0, 1), start="latest")
    assert Evaluator(dataset, score([])).run(None) == {}
    dataset.close()


@pytest.mark.slow
def test_workers_evaluate_as_threads_do(broker: Start) -> None:
    kafka = held_out(broker)
    dataset = opened(kafka.address, 8, world=(0, 1), lanes=2)
    loaders: list[Any] = [
        fr.Loader(dataset, num_workers=2),
        DataLoader(dataset, batch_size=None, num_workers=2),
        DataLoader(dataset, batch_size=None),
    ]
    for loader in loaders:
        seen: list[int] = []
        evaluator = Evaluator(loader, score(seen))
        assert [evaluator.run(None), evaluator.run(None)] == [WANTED, WANTED]
        assert sorted(seen) == sorted([*range(ROWS)] * 2)
    loaders[0].close()
    dataset.close()


FAILING = [(0, {1}), (2, {0, 1, 2}), (6, {1})]
"""After how many steps which ranks fail; there are two steps in a round, and six in all."""


class Late(Evaluator):
    """Fails on some ranks once all rows were scored, as where there is no memory for the sums."""

    ranks: frozenset[int] = frozenset()

    def _scored(self, *arguments: Any) -> Any:
        found = super()._scored(*arguments)
        if torch.distributed.get_rank() in self.ranks:
            raise LookupError(f"of rank {torch.distributed.get_rank()}")
        return found


def evaluate(rank: int, address: str) -> tuple[list[int], list[str], list[int]]:
    """Evaluate, fail on rank 1 or on all ranks, and evaluate again; in the end train."""
    dataset, seen, found = opened(address, 4), list[int](), list[str]()
    evaluator = Evaluator(fr.Loader(dataset, threads=1), score(seen))
    assert evaluator.run(None) == WANTED
    for fails_at, who in FAILING:
        calls = 0

        def failing(_model: object, batch: fr.Batch) -> dict[str, Any]:
            nonlocal calls
            calls += 1
            if calls > fails_at and rank in who:  # noqa: B023  (it is called in this turn)
                raise LookupError(f"of rank {rank}")
            return {"id": batch["id"]}

        try:
            late = Late(dataset, failing)
            late.ranks = frozenset(who if fails_at == 6 else ())
            late.run(None)
        except fr.FastresumeError as error:
            found.append(str(error))
    assert evaluator.run(None) == WANTED
    trained = [number for batch in dataset for number in batch["id"].tolist()]
    dataset.close()
    return seen, found, trained


@pytest.mark.processes
@pytest.mark.law(1)
def test_ranks_evaluate_together_and_fail_together(broker: Start, tmp_path: Path) -> None:
    """With 3 x 4 rows a step, the last step has one row: two ranks have none."""
    kafka = held_out(broker)
    found = in_ranks(3, tmp_path / "store", evaluate, kafka.address)
    assert sorted(number for seen, _, _ in found for number in seen) == sorted([*range(ROWS)] * 2)
    message = found[0][1]
    assert all(texts == message for _, texts, _ in found)
    for text, (_, who) in zip(message, FAILING, strict=True):
        assert all(f"LookupError: of rank {rank}" in text for rank in who)
    trained = [number for _, _, rows in found for number in rows]
    assert len(set(trained)) == len(trained) == 60


def test_a_stream_without_an_end_is_refused(broker: Start) -> None:
    kafka = held_out(broker)
    dataset = opened(kafka.address, 8, world=(0, 1), stop=None)
    with pytest.raises(ValueError, match=r'this stream, or Mixture with one, has none: write .*stop="end"'):
        Evaluator(dataset, score([]))
    dataset.close()


def test_an_audit_takes_evaluations(broker: Start, tmp_path: Path) -> None:
    from fastresume.audit.verify import audit

    kafka = held_out(broker)
    dataset = opened(kafka.address, 8, world=(0, 1))
    with fr.Loader(dataset, threads=1, audit=tmp_path) as loader:
        evaluator = Evaluator(loader, score([]))
        assert [evaluator.run(None), evaluator.run(None)] == [WANTED, WANTED]
    dataset.close()
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)
    assert any(f"finished: {ROWS} rows, each exactly once" in line for line in report.lines)
