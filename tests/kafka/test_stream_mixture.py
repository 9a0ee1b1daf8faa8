"""A stream beside a table in one mixture: a pass is a round, each message's rows come once, tables run on."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.audit.verify import audit
from fastresume.checkpoint import Checkpointer
from fastresume.cli import main
from fastresume.kafka import KafkaDataset
from fastresume.training import Evaluator
from support.audits import bodies, write_bodies
from support.kafka_broker import Broker, committed, documents, messages, sent_documents
from support.kafka_jobs import TABLE, Life, run, table_of, train_mixed, trained

Start = Callable[..., Broker]

SIZES = [1, 0, 5, 3, 0, 17, 2, 1, 9, 4]


def sent(broker: Broker, count: int, partitions: int = 3) -> int:
    """Write messages of 0 to 17 rows to all partitions but the last one; return how many rows there are.

    Which rows a round has depends on what comes first, unless one partition has them all, as of two.
    """
    given, rows = messages((number % (partitions - 1), SIZES[number % len(SIZES)]) for number in range(count))
    broker.send(given)
    return sum(map(len, rows.values()))


def opened(
    broker: Broker, batch_size: int, weights: tuple[float, float] = (0.6, 0.4), of: Any = None, **given: Any
) -> fr.Mixture:
    """A mixture of a table and a stream, whose arguments are given."""
    stream = {"columns": ["id"], "max_wait": 0.1, "stop": "end", "world": (0, 1), **given}
    sources = {"old": (table_of(), weights[0]), "live": (KafkaDataset(broker.address, **stream), weights[1])}
    return fr.Mixture(sources, batch_size=batch_size, world=(0, 1), **(of or {}))


def close(mixture: fr.Mixture) -> None:
    """End the stream's connections."""
    live = mixture.datasets["live"]
    assert isinstance(live, KafkaDataset)
    live.close()


def of_stream(ids: Iterable[int]) -> list[int]:
    """The rows that are the stream's."""
    return [number for number in ids if number < TABLE]


def check_table(ids: Iterable[int]) -> None:
    """The table's rows came pass after pass: none is ahead of another by more than a pass."""
    times = Counter(number for number in ids if number >= TABLE)
    assert max(times.values()) - min(times.get(number, 0) for number in table_ids()) <= 1


def table_ids() -> list[int]:
    """The rows of the table."""
    return [*range(TABLE, TABLE + 50)]


def test_each_prefix_of_a_pass_has_its_shares_and_each_row_comes_once(broker: Start) -> None:
    kafka = broker(partitions=3)
    total = sent(kafka, 60)
    mixture = opened(kafka, 7, round_rows=60, of={"lanes": 1})
    ids, passes = list[int](), dict[int, list[int]]()
    for batch in fr.Loader(mixture, threads=2):
        assert batch.num_rows == 7
        ids += batch["id"].tolist()
        passes.setdefault(batch.epoch, []).extend(batch.source.tolist())
        assert ((batch["id"] < TABLE) == (batch.source == 1)).all()
    live, old = of_stream(ids), [number for number in ids if number >= TABLE]
    assert len(set(live)) == len(live)
    assert total - len(live) < 7
    assert old == [*itertools.islice(itertools.cycle(table_ids()), len(old))]  # goes on where it was
    assert len(passes) == 5
    for sources in passes.values():
        share = np.cumsum(sources) - 0.4 * np.arange(1, len(sources) + 1)
        assert np.abs(share).max() <= 1
    close(mixture)


@pytest.mark.parametrize("shuffle", [pytest.param(False, marks=pytest.mark.slow), True])
def test_any_chain_of_resumes_delivers_each_row_once(broker: Start, tmp_path: Path, shuffle: bool) -> None:
    kafka = broker(partitions=3)
    total, draw = sent(kafka, 50), random.Random(5)
    state: Any = None
    ids = list[int]()
    for number in range(4):
        given = {"shuffle": shuffle, "seed": 3, "round_rows": draw.choice([30, 60])}
        weights = draw.choice([(0.6, 0.4), (0.5, 0.5), (3, 1), (0.1, 0.9)])
        mixture = opened(kafka, draw.randint(1, 12), weights, **given)
        loader = fr.Loader(mixture, threads=number % 3, audit=tmp_path)
        if state is not None:
            loader.load_state_dict(json.loads(json.dumps(state)))
        for batch in itertools.islice(loader, draw.randint(1, 7)):
            ids += batch["id"].tolist()
            state = batch.state_dict()
            assert mixture.state_dict() == state
        for _ in itertools.islice(loader, 2):
            pass  # these are trained, and lost
        loader.close()
        close(mixture)
    mixture = opened(kafka, 1, (0.5, 0.5), shuffle=shuffle, seed=3)
    with fr.Loader(mixture, threads=1, audit=tmp_path) as loader:
        loader.load_state_dict(state)
        ids += [number for batch in loader for number in batch["id"].tolist()]
    close(mixture)
    assert sorted(of_stream(ids)) == list(range(total))
    check_table(ids)
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)


def test_a_stream_that_was_read_alone_is_mixed_from_its_start(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    kafka.send(messages([(0, 3)] * 8)[0])
    live = KafkaDataset(
        kafka.address, columns=["id"], batch_size=4, round_rows=8, stop="end", world=(0, 1), max_wait=0.1
    )
    assert [batch.epoch for batch in itertools.islice(live, 4)][-1] == 1
    mixture = fr.Mixture({"old": (table_of(), 1), "live": (live, 1)}, batch_size=4, world=(0, 1))
    assert mixture.plan().rows["live"] == 0, "no round is open yet"
    with fr.Loader(mixture, threads=1, audit=tmp_path) as loader:
        ids = [number for batch in loader for number in batch["id"].tolist()]
    live.close()
    assert of_stream(ids) == list(range(24))
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)


def test_a_loader_reads_no_step_of_a_round_that_was_loaded_and_is_not_open(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 10)[0])
    alone = {"columns": ["id"], "round_rows": 16, "stop": "end", "world": (0, 1), "max_wait": 0.1}
    for make in (
        lambda: KafkaDataset(kafka.address, batch_size=4, **alone),
        lambda: opened(kafka, 4, (1, 1), round_rows=16),
    ):
        first, again = make(), make()
        wanted = [*itertools.islice(first, 7)][-1]
        with fr.Loader(again, threads=1) as loader:
            loader.load_state_dict(wanted.state_dict())
            for read in (loader.batch_at, loader.batch_of_row):
                with pytest.raises(fr.StateError, match="is not open yet: draw a batch"):
                    read(wanted.epoch, wanted.step)
            next(iter(loader))
            assert loader.batch_at(wanted.epoch, wanted.step)["id"].tolist() == wanted["id"].tolist()
        for dataset in (first, again):
            dataset.close() if isinstance(dataset, KafkaDataset) else close(dataset)


def test_a_round_that_is_cut_again_keeps_the_watermark_before_it(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 5)[0])
    how = {"columns": ["id"], "round_rows": 16, "stop": "end", "world": (0, 1), "max_wait": 0.1}
    first = KafkaDataset(kafka.address, batch_size=4, **how)
    first.peek()
    again = KafkaDataset(kafka.address, batch_size=5, **how)
    again.load_state_dict(first.state_dict())
    again.peek()
    assert (first.watermark, again.watermark) == (None, None), "no row was delivered"
    first.close()
    again.close()


def test_a_round_grows_where_what_is_left_makes_no_batch(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 8)[0])

    def part(state: Any) -> Any:
        return json.loads(state["fastresume"])["round"]["sessions"]["live"]["parts"][0]

    state: Any = None
    ids = list[int]()
    for batch_size, steps in ((4, 3), (6, 1), (4, 2), (5, None)):
        mixture = opened(kafka, batch_size, (1, 1), round_rows=8)
        with fr.Loader(mixture, threads=1, audit=tmp_path) as loader:
            if state is not None:
                loader.load_state_dict(state)
            for batch in itertools.islice(loader, steps):
                ids += batch["id"].tolist()
                state = batch.state_dict()
        if batch_size == 6:  # the two rows that were left, and one of the next message
            assert part(state) == [0, 0, 0, 0, 2, 0, 8, 3, 0, 4]
        close(mixture)
    assert of_stream(ids) == list(range(len(of_stream(ids))))
    assert len(of_stream(ids)) > 28
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)


def test_the_same_ranks_resume_with_the_same_batches(broker: Start) -> None:
    kafka = broker(partitions=3)
    sent(kafka, 40, partitions=2)
    first = opened(kafka, 8, shuffle=True, seed=1, round_rows=40)
    whole = list(first)
    close(first)
    for number in (1, len(whole) - 2):
        mixture = opened(kafka, 8, shuffle=True, seed=1, round_rows=40)
        mixture.load_state_dict(whole[number].state_dict())
        assert mixture.state_dict() == whole[number].state_dict()
        again = list(fr.Loader(mixture, threads=2))
        assert [batch["id"].tolist() for batch in again] == [
            batch["id"].tolist() for batch in whole[number + 1 :]
        ]
        assert again[-1].state_dict() == whole[-1].state_dict()
        close(mixture)


def test_the_state_keeps_its_length_and_rounds_have_orders_of_their_own(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 120)])[0])
    mixture = opened(kafka, 6, (1, 1), shuffle=fr.Shuffle(block_rows=1, window_rows=6), round_rows=6)
    lengths, orders = list[int](), dict[int, list[int]]()
    for batch in mixture:
        lengths.append(len(batch.state_dict()["fastresume"]))
        orders.setdefault(batch.epoch, []).extend(of_stream(batch["id"].tolist()))
    close(mixture)
    assert len(orders) == 20
    assert max(lengths[3:]) - min(lengths[3:]) <= 20  # digits
    assert len({tuple(number - min(each) for number in each) for each in orders.values()}) > 5


def test_rows_that_come_later_follow_and_a_mixture_ends_with_its_stream(broker: Start) -> None:
    kafka = broker(partitions=2)
    given, _ = messages([(0, 3), (1, 4)])
    kafka.send(given)
    mixture = opened(kafka, 5, stop=None)
    batches = iter(fr.Loader(mixture, threads=1))
    ids = next(batches)["id"].tolist()
    more, _ = messages([(0, 7), (1, 0), (0, 1), (1, 10)])
    kafka.send(more[1:] + more[:1])
    while len(of_stream(ids)) < 20:
        ids += next(batches)["id"].tolist()
    close(mixture)
    check_table(ids)
    ends = opened(kafka, 5)
    assert len(of_stream(number for batch in ends for number in batch["id"].tolist())) >= 22
    assert list(ends) == []
    close(ends)


def test_what_is_asked_of_a_stream_is_asked_of_the_mixture(broker: Start) -> None:
    kafka = broker(partitions=2)
    kafka.send(messages([(0, 2)] * 30)[0])
    mixture = opened(kafka, 5, round_rows=12, stop=None)
    live = mixture.datasets["live"]
    assert isinstance(live, KafkaDataset)
    assert mixture.watermark is None
    assert re.match(r"next\(\) has waited 1.5 s for round 0, on rank 0 of 1\n", mixture._wait_in_words(1.5))
    assert repr(mixture).startswith("Mixture(old 60.0%, live 40.0%; 0 rows")
    first = mixture.peek()
    plan = mixture.plan()
    assert plan.rows == {"old": 19, "live": 12}
    assert plan.bytes_of_rounds is not None
    assert plan.bytes_of_rounds > 0
    loader = fr.Loader(mixture, threads=1)
    batches = list(itertools.islice(loader, 4))
    assert batches[0]["id"].tolist() == first["id"].tolist()
    for batch in batches:
        assert mixture.batch_at(batch.epoch, batch.step)["id"].tolist() == batch["id"].tolist()
        assert batch.event_time[0] <= batch.event_time[1]
    assert live.watermark == mixture.watermark is not None
    assert mixture.watermark <= max(batch.event_time[1] for batch in batches)
    assert loader.stats()["lag"] == {"rows:0": 24, "rows:1": 0}
    given_of_round = of_stream(number for batch in batches for number in batch["id"].tolist())
    left = np.diff(mixture.remaining()["live"].rows(12), axis=1)
    assert left.sum() == 12 - len(given_of_round)
    with pytest.raises(fr.StateError, match="pass 3 has another round of 'live' than pass 0"):
        mixture.batch_at(3, 0)
    with pytest.raises(TypeError, match="a Mixture with a stream has no length"):
        len(mixture)
    with pytest.raises(ValueError, match="this stream, or Mixture with one, has none"):
        Evaluator(loader, score=lambda model, batch: {}, every=1)
    doubled = mixture.map(lambda batch: {"twice": batch["id"] * 2})
    assert next(iter(doubled))["twice"].tolist() != []
    loader.reset()
    assert json.loads(mixture.state_dict()["fastresume"])["round"]["sessions"]["live"]["number"] == 0
    assert mixture.peek()["id"].tolist() == first["id"].tolist()
    close(mixture)


def test_a_checkpointer_commits_offsets_and_saves_by_event_time(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=2)
    given, _ = messages([(0, 2)] * 16)
    for number, each in enumerate(given):
        kafka.send([each], timestamp=1_000_000 + 60_000 * number)
    settings = {"config": {"group.id": "dashboard"}, "commit": "after save", "round_rows": 8}
    mixture = opened(kafka, 4, (1, 1), **settings)
    live, loader, model = mixture.datasets["live"], fr.Loader(mixture, threads=1), torch.nn.Linear(1, 1)
    ids, saved = list[int](), list[int]()
    with Checkpointer(tmp_path, save_by_event_time=timedelta(minutes=4)) as checkpointer:
        for step, batch in enumerate(loader, 1):
            ids += batch["id"].tolist()
            if checkpointer.is_due(loader):
                checkpointer.save(step, model=model, loader=loader)
                live._commits.close()  # type: ignore[attr-defined]
                saved.append(len(ids))
                whole = sum({2 * number, 2 * number + 1} <= {*ids} for number in range(16))
                assert committed(kafka, "dashboard") == {0: whole, 1: 0}
    close(mixture)
    assert len(saved) >= 2
    later = opened(kafka, 4, (1, 1), round_rows=8)
    loader = fr.Loader(later, threads=1)
    with Checkpointer(tmp_path) as checkpointer:
        checkpointer.restore(model=model, loader=loader)
    again = [number for batch in loader for number in batch["id"].tolist()]
    close(later)
    assert sorted(of_stream(ids[: saved[-1]] + again)) == list(range(32))


def test_a_stream_comes_to_a_job_over_a_table(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 40)])[0])
    before = fr.Mixture({"old": (table_of(), 1)}, batch_size=4, world=(0, 1))
    first, second = itertools.islice(before, 2)
    mixture = opened(kafka, 4, (99, 1))  # a batch may have no row of the stream
    mixture.load_state_dict(second.state_dict())
    ids = first["id"].tolist() + second["id"].tolist()
    for batch in itertools.islice(mixture, 100):
        ids += batch["id"].tolist()
        assert hasattr(batch, "event_time") == bool(of_stream(batch["id"].tolist()))
    close(mixture)
    assert of_stream(ids) == [0, 1, 2, 3]
    assert [number for number in ids if number >= TABLE] == [
        *itertools.islice(itertools.cycle(table_ids()), len(ids) - 4)
    ]


def test_a_loaded_state_asks_no_broker_before_a_batch_is_drawn(broker: Start) -> None:
    kafka = broker(partitions=2)
    sent(kafka, 40)
    first = opened(kafka, 5, round_rows=30)
    batch = next(itertools.islice(first, 2, None))
    watermark = first.watermark
    mixture = opened(kafka, 5, round_rows=30)
    mixture.load_state_dict(batch.state_dict())
    assert mixture.remaining() == first.remaining()
    with pytest.raises(fr.StateError, match="is not open yet: draw a batch"):
        mixture.batch_at(batch.epoch, batch.step)
    assert mixture.peek()["id"].tolist() == next(iter(first))["id"].tolist()
    assert mixture.watermark == watermark
    close(first)
    close(mixture)


@pytest.mark.slow
def test_workers_of_a_loader_read_beside_a_stream(broker: Start) -> None:
    kafka = broker(partitions=3)
    sent(kafka, 40, partitions=2)
    here, there = (opened(kafka, 8, round_rows=40) for _ in range(2))
    with fr.Loader(there, num_workers=2, multiprocessing_context="spawn") as loader:
        found = list(loader)
    ids, own = (sorted(number for one in of for number in one["id"].tolist()) for of in (found, list(here)))
    assert of_stream(ids) == of_stream(own)
    assert {batch.epoch for batch in found} == {*range(5)}
    assert all(batch.event_time[0] <= batch.event_time[1] for batch in found)
    with pytest.raises(fr.FastresumeError, match=r"write fr.Loader\(mixture, num_workers=n\)"):
        next(iter(DataLoader(opened(kafka, 8), batch_size=None, num_workers=1)))
    close(here)
    close(there)


def test_a_mixture_with_a_stream_is_proven(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 12)[0])
    mixture = opened(kafka, 4, (1, 1), round_rows=8)
    with fr.Loader(mixture, threads=1, audit=tmp_path) as loader:
        assert len(list(loader)) == 24
    close(mixture)
    report = audit(tmp_path)
    assert report.problems == 0
    assert report.lines == [
        "mixture of old, live: 1 log",
        "  passes 0-5, stage 0: old 50.00%, live 50.00%: 96 rows, each exactly once; 24 batches",
        "  old: pass 0 unfinished (96%): 48 rows, each exactly once",
        "  live: rounds 0-5 finished: 48 rows, each exactly once",
    ]
    (path,) = tmp_path.glob("rank-*.log")
    records = bodies(path)
    for first, last in ((1, 2), (3, 4), (len(records) - 3, len(records) - 2)):
        write_bodies(path, records[:first] + records[last:])
        assert audit(tmp_path).problems > 0
    # A round that begins elsewhere than the one before ends.
    moved = [re.sub(rb"\[0,0,(8),0,", rb"[0,0,9,0,", body) for body in records]
    write_bodies(path, moved)
    assert audit(tmp_path).problems > 0


def test_states_without_a_round_are_proven(
    broker: Start, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)] * 12)[0])

    def is_proven(logs: str, mixture: fr.Mixture, state: Any) -> bool:
        with fr.Loader(mixture, threads=1, audit=tmp_path / logs) as loader:
            loader.load_state_dict(state)
            assert len(list(itertools.islice(loader, 4))) == 4
        status = main(["audit", str(tmp_path / logs), "--start", json.dumps(state)])
        output = capsys.readouterr()
        assert "problem" not in output.out + output.err
        return status == 0

    first, second = (opened(kafka, 4, (1, 1), round_rows=8) for _ in range(2))
    before = first.state_dict()
    end = [batch.state_dict() for batch in itertools.islice(first, 5) if batch.epoch == 0][-1]
    for state in (before, end):
        assert json.loads(state["fastresume"])["dataset"]["rows"] == 0
        without = fr.Mixture({"old": (table_of(), 1)}, batch_size=4, world=(0, 1))
        assert is_proven(f"without {state is end}", without, state)
        assert is_proven(f"with {state is end}", second, state)
    close(first)
    close(second)


def test_what_a_mixture_can_not_do_with_a_stream_is_refused(broker: Start) -> None:
    kafka = broker()
    kafka.send(messages([(0, 4)])[0])
    live, other = (KafkaDataset(kafka.address, columns=["id"], max_wait=0.1, world=(0, 1)) for _ in range(2))
    with pytest.raises(TypeError, match="only a source of a Mixture has none"):
        iter(live)

    def refused(match: str, more: Any = None, **given: Any) -> None:
        sources = {"old": (table_of(), 1), "live": (live, 1), **(more or {})}
        arguments = {"batch_size": 4, "world": (0, 1), **given}
        with pytest.raises(ValueError, match=match):
            fr.Mixture(sources, **arguments)

    refused("'live' and 'more' are streams.*let one KafkaDataset read all topics", {"more": (other, 1)})
    refused("leave out stages=.*make the Mixture with them, and load", stages=[(10, {"old": 1})])
    refused("leave out stop='all', and name round_rows=", stop="all")
    refused("leave out stop=10", stop=10)
    refused("leave out tail='pad'. What makes no global batch", tail="pad")
    refused("leave out on_iter='restart'", on_iter="restart")
    refused(
        r"was made for World\(rank=0, world_size=1\), and the Mixture for .*: pass the same", world=(1, 2)
    )
    mixture = fr.Mixture({"old": (table_of(), 1), "live": (live, 1)}, batch_size=4, world=(0, 1))
    state = next(iter(mixture)).state_dict()
    without = fr.Mixture({"old": (table_of(), 1)}, batch_size=4, world=(0, 1))
    without.load_state_dict(state)  # the table goes on
    assert next(iter(without))["id"].tolist() == [TABLE + 2, TABLE + 3, TABLE + 4, TABLE + 5]
    with pytest.raises(fr.StateError, match="the state is of a mixture"):
        live.load_state_dict(state)
    elsewhere = broker("others")
    elsewhere.send(messages([(0, 4)])[0])
    foreign = opened(elsewhere, 4)
    with pytest.raises(fr.StateError, match=r"of the topics \['rows'\], these are \['others'\]"):
        foreign.load_state_dict(state)
    papers = broker("papers")
    papers.send(sent_documents(documents(1, 6), 1)[0])
    unit = fr.Packed("tokens", length=4)
    counted = KafkaDataset(papers.address, unit=unit, max_wait=0.1, world=(0, 1))
    table = fr.ArrowDataset(pa.table({"tokens": [[1, 2, 3, 4, 5]]}), unit=unit)
    with pytest.raises(ValueError, match="is a stream of sequences: in a Mixture, leave out unit="):
        fr.Mixture({"old": (table, 1), "live": (counted, 1)}, batch_size=4, world=(0, 1))
    for each in (live, other, counted):
        each.close()
    close(foreign)


def check_ranks(broker: Broker, directory: Path, lives: list[Life], sizes: list[int], given: Any) -> None:
    """Write while the job lives, and compare what was trained with what was written."""
    all_sent, rows = messages((number % 4, size) for number, size in enumerate(sizes))
    share = -(-len(all_sent) // len(lives))
    broker.send(all_sent[:share])

    def between(number: int) -> None:
        broker.send(all_sent[share * (number + 1) : share * (number + 2)])

    arguments = {"columns": ["id"], "max_wait": 0.1, "stop": "end", **given}
    ids = run(directory, lives, broker.address, arguments, between, train_mixed)
    assert sorted(of_stream(ids)) == sorted(number for each in rows.values() for number in each)
    check_table(trained(directory, lives))
    report = audit(directory / "logs")
    assert report.problems == 0, "\n".join(report.lines)


def test_ranks_that_are_killed_go_on_as_others(broker: Start, tmp_path: Path) -> None:
    kafka = broker(partitions=4)
    check_ranks(
        kafka, tmp_path, [Life(2, 4, 5), Life(1, 1, None)], [1, 7, 0, 3, 12, 2] * 6, {"round_rows": 30}
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(8))
def test_any_lives_train_each_row_once(broker: Start, tmp_path: Path, seed: int) -> None:
    """Six kills for each seed, of 1 to 3 ranks, with other batch sizes."""
    draw, kafka = random.Random(seed), broker(partitions=4)
    sizes = [draw.choice([0, 1, 1, 2, 9, 30]) for _ in range(200)]
    given = {"round_rows": draw.choice([24, 60, 500]), "shuffle": draw.random() < 0.5, "seed": seed}
    killed = [Life(draw.randint(1, 3), draw.choice([3, 4, 8]), draw.randint(1, 9)) for _ in range(6)]
    check_ranks(kafka, tmp_path, [*killed, Life(2, 3, None), Life(1, 1, None)], sizes, given)
