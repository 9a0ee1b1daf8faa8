"""Streams count sequences and bins: those of a whole read of each partition, whatever the rounds are."""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
import support.child  # noqa: F401  (a server of forks imports torch once)
from fastresume.audit.log_format import CONTENT, START
from fastresume.audit.verify import audit
from fastresume.checkpoint import Checkpointer
from fastresume.kafka import KafkaDataset
from fastresume.kafka.place import Part, Place
from fastresume.kafka.round import Round, Stretch
from fastresume.training import Evaluator
from support.audits import bodies, write_bodies
from support.held_topic import HeldTopic
from support.kafka_broker import DOCUMENTS, Broker, committed, documents, sent_documents
from support.kafka_jobs import Life, run

Start = Callable[..., Broker]

Unit = fr.Packed | fr.Bins

BINS = fr.Bins("tokens", cost=12)
FEW = fr.Bins("tokens", cost=100, rows=3)
PACKED = fr.Packed("tokens", length=9)
APART = fr.Packed("tokens", "twice", length=7, separator=-1)
PADDED = fr.Packed("tokens", length=9, separator=-2, rest="pad")


def slow(*case: Any) -> Any:
    """A case whose law others guard in the run of a change."""
    return pytest.param(*case, marks=pytest.mark.slow)


def opened(broker: Broker, unit: Unit, batch_size: int, **given: Any) -> KafkaDataset:
    arguments: dict[str, Any] = {"max_wait": 0.1, "stop": "end", "round_rows": 60, "nulls": "mask"}
    arguments |= {"world": (0, 1), **given}
    arguments.setdefault("columns", list(unit.names) if isinstance(unit, fr.Packed) else ["id", "tokens"])
    return KafkaDataset(broker.address, batch_size=batch_size, unit=unit, **arguments)


def units(batches: Iterable[fr.Batch]) -> list[Any]:
    """What each unit of batches holds that is no padding of a batch."""
    found = list[Any]()
    for batch in batches:
        if "document" in batch:
            tensors: list[Any] = [batch[name] for name in batch]
            each = list(zip(*(tensor.tolist() for tensor in tensors), strict=True))
            found += [own for own, valid in zip(each, batch.valid.tolist(), strict=True) if valid]
        else:
            rows: Any = batch["id"]
            bounds = itertools.pairwise(batch.unit_offsets.tolist())
            found += [rows[first:end].tolist() for first, end in bounds if batch.valid[first]]
    return found


def whole(tables: Iterable[pa.Table], unit: Unit) -> list[Any]:
    """The units of each partition as a dataset of all its rows has them."""
    columns = list(unit.names) if isinstance(unit, fr.Packed) else ["id", "tokens"]
    given: dict[str, Any] = {"columns": columns, "unit": unit, "nulls": "mask", "world": (0, 1)}
    found = list[Any]()
    for table in tables:
        try:
            found += units(fr.ArrowDataset(table, batch_size=1, **given))
        except ValueError as error:  # too few tokens for a sequence, or no row
            if "no batch would come" not in str(error):
                raise
    return found


def started(broker: Start, partitions: int = 2, count: int = 60) -> tuple[Broker, list[pa.Table]]:
    """A broker with messages of documents in all partitions but one, and the rows of each of them."""
    kafka = broker(partitions=partitions + 1)
    sent, tables = sent_documents(documents(1, count), partitions)
    kafka.send(sent)
    return kafka, tables


def as_from_a_file(state: Any) -> Any:
    """A state, as it comes back from a file."""
    return json.loads(json.dumps(state))


@pytest.mark.parametrize(
    ("unit", "shuffle"),
    [(PACKED, False), slow(BINS, False), (BINS, True), slow(PACKED, True), slow(PADDED, True)],
)
def test_any_chain_of_resumes_delivers_each_unit_once(broker: Start, unit: Unit, shuffle: bool) -> None:
    kafka, tables = started(broker, 1)  # in one: else it may be that no round grows
    expected = whole(tables, unit)
    draw = np.random.default_rng(14)
    state, delivered, grown, inside = None, list[Any](), 0, 0
    while len(expected) - len(delivered) > 12:
        dataset = opened(kafka, unit, int(draw.integers(1, 14)), shuffle=shuffle, seed=3)
        if state is not None:
            dataset.load_state_dict(as_from_a_file(state))
        for batch in itertools.islice(dataset, int(draw.integers(1, 4))):
            delivered += units([batch])
            state = batch.state_dict()
        dataset.close()
        grown += "generations" in str(state)
        inside += "tokens" in str(state)
    dataset = opened(kafka, unit, 1, shuffle=shuffle, seed=3)
    dataset.load_state_dict(state or {})
    delivered += units(dataset)
    dataset.close()
    assert sorted(delivered) == sorted(expected)
    assert grown
    assert bool(inside) == isinstance(unit, fr.Packed)


@pytest.mark.parametrize("unit", [slow(FEW), APART])
def test_the_same_ranks_resume_with_the_same_batches(broker: Start, unit: Unit) -> None:
    kafka, _ = started(broker, 1)  # in one: else rounds depend on what comes first
    given: dict[str, Any] = {"shuffle": True, "seed": 1, "lanes": 2}
    batches = list(opened(kafka, unit, 6, **given))
    for number in (0, len(batches) // 2, len(batches) - 2):
        dataset = opened(kafka, unit, 6, **given)
        dataset.load_state_dict(as_from_a_file(batches[number].state_dict()))
        assert [units([batch]) for batch in fr.Loader(dataset, threads=2)] == [
            units([batch]) for batch in batches[number + 1 :]
        ]
        assert dataset.state_dict() == batches[-1].state_dict()
        dataset.close()


def test_a_document_goes_through_many_rounds(broker: Start) -> None:
    kafka = broker()
    rows = [[*range(100)], None, [], [*range(100, 103)], [*range(103, 161)]]
    table = pa.table({"id": range(5), "tokens": rows, "twice": rows}, DOCUMENTS)
    kafka.send(sent_documents([table], partitions=1)[0])
    for unit in (fr.Packed("tokens", length=4), APART):
        dataset = opened(kafka, unit, 2, round_rows=1)
        batches = list(dataset)
        assert units(batches) == whole([table], unit)[: 2 * len(batches)]
        assert '"tokens":[[0,' in str(batches[0].state_dict())  # the round ends inside the first row
        assert batches[1].rows().to_list() == [[0], [0]]
        assert batches[0].event_time[0] == batches[-1].event_time[1]
        dataset.close()


def test_what_comes_later_goes_on_in_the_same_unit(broker: Start) -> None:
    """The last bin and the last tokens of a partition wait for what follows."""
    kafka = broker()
    first, second = documents(1, 8, [3, 5]), documents(2, 30, [3, 5])
    kafka.send(sent_documents(first, partitions=1)[0])
    table = pa.concat_tables([*first, *second])
    for unit in (BINS, PACKED):
        dataset = opened(kafka, unit, 1, stop=None)
        expected = whole([table], unit)
        before = len(whole([pa.concat_tables(first)], unit)) - isinstance(unit, fr.Bins)
        batches = iter(fr.Loader(dataset, threads=1))
        assert units(itertools.islice(batches, before)) == expected[:before]
        if unit is BINS:
            kafka.send(sent_documents(second, partitions=1)[0])
        assert units(itertools.islice(batches, 5)) == expected[before : before + 5]
        dataset.close()


@pytest.mark.parametrize("unit", [BINS, slow(PACKED), PADDED])
def test_the_stop_ends_the_last_unit(broker: Start, unit: Unit) -> None:
    """A bin is taken as it is, a sequence filled up if `rest` says so; an evaluation has all of them."""
    kafka, tables = started(broker)
    expected, seen = whole(tables, unit), list[fr.Batch]()
    dataset = opened(kafka, unit, 5)
    delivered = units(dataset)
    assert len(delivered) == len(expected) // 5 * 5
    assert all(one in expected for one in delivered)

    def score(_: object, batch: fr.Batch) -> dict[str, Any]:
        seen.append(batch)
        return {"one": batch.valid.float()}

    Evaluator(dataset, score).run(None)
    assert sorted(units(seen)) == sorted(expected)
    assert len(seen) == -(-len(expected) // 5)  # only the last one is filled up
    assert len({batch.epoch for batch in seen}) > 1
    dataset.close()


def test_times_lag_and_plan_are_known(broker: Start) -> None:
    kafka = broker(partitions=2)
    tables = [
        pa.table({"id": [n], "tokens": [[*range(10 * n, 10 * n + 6)]], "twice": [[0] * 6]}, DOCUMENTS)
        for n in range(8)
    ]
    for number, message in enumerate(sent_documents(tables, partitions=2)[0]):
        kafka.send([message], timestamp=1_000_000 + number)
    zero = np.datetime64(1_000_000, "ms")
    dataset = opened(kafka, PACKED, 2, round_rows=8)  # all rows: else rounds depend on what comes first
    loader = fr.Loader(dataset, threads=1)
    seen = []
    for batch in loader:
        times = [*batch.event_time, dataset.watermark]
        seen.append([None if time is None else int((time - zero).astype(int)) for time in times])
        lag = loader.stats()["lag"]
    assert seen == [[0, 4, None], [1, 5, 4]]
    assert lag == {"rows:0": 1, "rows:1": 1}
    plan = dataset.plan()
    assert "2 sequences" in str(plan.units) or "4 of" in str(plan.units)
    assert plan.bytes_of_rounds
    assert plan.row_bytes == 9 * (8 + 4 + 4)
    dataset.close()


def live(broker: Broker, logs: Path, unit: Unit, batch_size: int, state: Any = None, **given: Any) -> Any:
    """One life of a job, of so many steps: its last state, and the units that it was handed."""
    steps, dataset = given.pop("steps", None), opened(broker, unit, batch_size, **given)
    with fr.Loader(dataset, threads=1, audit=logs) as loader:
        if state is not None:
            loader.load_state_dict(state)
        batches = list(itertools.islice(loader, steps))
    dataset.close()
    return (batches[-1].state_dict() if batches else state), units(batches)


@pytest.mark.parametrize("unit", [slow(BINS), APART])
def test_the_audit_proves_units(broker: Start, tmp_path: Path, unit: Unit) -> None:
    kafka, tables = started(broker)
    expected, delivered = whole(tables, unit), list[Any]()
    state = None
    for batch_size, steps in [(5, 3), (3, 5), (4, 4), (2, 3), (1, None)]:
        state, more = live(kafka, tmp_path, unit, batch_size, state, steps=steps, round_rows=20)
        delivered += more
        if steps == 4:
            live(kafka, tmp_path, unit, 2, state, steps=2, round_rows=20)  # these are trained, and lost
    assert sorted(delivered) == sorted(expected)
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)
    found = "every selected row" if isinstance(unit, fr.Bins) else "every token of every document"
    rounds = [line for line in report.lines if "finished: " in line]
    assert all(f"{found} exactly once" in line for line in rounds)
    assert report.finished[0] > 1


def moved(records: list[bytes]) -> list[bytes]:
    """The records, whose last start says that a token less was delivered before."""
    found = list(records)
    at = [number for number, body in enumerate(found) if body[0] == START][-1]
    start = json.loads(found[at][1:])
    state = json.loads(start["cursor"])
    state["round"]["tokens"][0][0] -= 1
    start["cursor"] = json.dumps(state)
    found[at] = bytes([START]) + json.dumps(start).encode()
    return found


def other_tokens(records: list[bytes]) -> list[bytes]:
    """The records, whose first start says that a unit holds other tokens."""
    found = list(records)
    start = json.loads(found[0][1:])
    contents = np.frombuffer(base64.b64decode(start["units"]["contents"]), "<u8").copy()
    contents[0] += np.uint64(1)
    start["units"]["contents"] = base64.b64encode(contents.tobytes()).decode()
    start["units"]["content"] = int(contents.sum(dtype=np.uint64))
    found[0] = bytes([START]) + json.dumps(start).encode()
    return found


def test_a_round_of_which_rank_0_told_nothing_is_not_asked_for_where_none_counts_it(
    broker: Start, tmp_path: Path
) -> None:
    kafka, _ = started(broker)
    state, _ = live(kafka, tmp_path, PACKED, 4, None, steps=3, round_rows=20)
    before = set(tmp_path.glob("rank-*.log"))
    live(kafka, tmp_path, PACKED, 2, state, steps=12, round_rows=12)  # these are trained, and lost
    (lost,) = set(tmp_path.glob("rank-*.log")) - before
    live(kafka, tmp_path, PACKED, 4, state, steps=None, round_rows=20)
    untold = []
    for body in bodies(lost):
        start = json.loads(body[1:]) if body[0] == START else None
        untold.append(
            body if start is None else bytes([START]) + json.dumps(start | {"units": None}).encode()
        )
    write_bodies(lost, untold)  # as another rank's
    report = audit(tmp_path)
    assert report.problems == 0, "\n".join(report.lines)
    for log in before:
        log.unlink()
    assert any("missing or damaged" in line or "no log" in line for line in audit(tmp_path).lines)


def test_a_hole_between_tokens_is_found(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    tables = [pa.table({"id": [0], "tokens": [[*range(31)]], "twice": [[0] * 31]}, DOCUMENTS)] * 6
    kafka.send(sent_documents(tables, partitions=1)[0])
    live(kafka, tmp_path, PACKED, 2, round_rows=2)
    (path,) = tmp_path.glob("rank-*.log")
    assert audit(tmp_path).problems == 0
    records = bodies(path)
    first = next(number for number, body in enumerate(records) if body[0] not in (START, CONTENT))
    for damage in (records[:first] + records[first + 1 :], moved(records), other_tokens(records)):
        write_bodies(path, damage)
        assert audit(tmp_path).problems > 0


@pytest.mark.slow
def test_workers_make_the_units_of_all_rounds(broker: Start, tmp_path: Path) -> None:
    kafka, tables = started(broker)
    for unit in (BINS, PADDED):
        dataset = opened(kafka, unit, 4, lanes=4)
        with fr.Loader(dataset, num_workers=2, audit=tmp_path) as loader:
            found = list(loader)
        expected = whole(tables, unit)
        delivered = units(found)
        assert len(delivered) == len(expected) // 4 * 4
        assert all(one in expected for one in delivered)
        assert all(batch.event_time for batch in found)
        rest = opened(kafka, unit, 1)
        rest.load_state_dict(found[len(found) // 2].state_dict())
        loader_of_torch: DataLoader[Any] = DataLoader(rest, batch_size=None, num_workers=1)
        more = list[fr.Batch]()
        while batches := list(loader_of_torch):
            more += batches
        assert sorted(units([*found[: len(found) // 2 + 1], *more])) == sorted(expected)
        dataset.close()
        rest.close()
    assert audit(tmp_path).problems == 0


def test_offsets_are_committed_where_all_tokens_were_delivered(broker: Start, tmp_path: Path) -> None:
    kafka = broker()
    tables = [pa.table({"id": [0], "tokens": [[*range(6)]], "twice": [[0] * 6]}, DOCUMENTS)] * 6
    kafka.send(sent_documents(tables, partitions=1)[0])
    dataset = opened(kafka, PACKED, 1, config={"group.id": "dashboard"}, commit="after save", round_rows=4)
    loader, model, seen = fr.Loader(dataset, threads=1), torch.nn.Linear(1, 1), list[int]()
    with Checkpointer(tmp_path) as checkpointer:
        for step, _ in enumerate(loader, 1):
            checkpointer.save(step, model=model, loader=loader)
            assert dataset._commits is not None
            dataset._commits.close()
            seen.append(committed(kafka, "dashboard")[0])
    assert seen == [1, 3, 4, 6]  # of 9, 18, 27 and 36 tokens
    dataset.close()


def test_what_makes_no_units_is_refused_by_name(broker: Start) -> None:
    kafka, _ = started(broker)
    with pytest.raises(fr.DataError, match="takes columns of lists of values, found for 'id'"):
        opened(kafka, fr.Packed("id", length=4), 2)
    with pytest.raises(fr.DataError, match=r"no tensor of that name: columns=\['tokens'\] has all"):
        opened(kafka, PACKED, 2, columns=["twice"])
    with pytest.raises(ValueError, match="would leave out 'id'"):
        opened(kafka, PACKED, 2, columns=["tokens", "id"])
    with pytest.raises(fr.DataError, match="'absent'"):
        opened(kafka, fr.Bins("absent", cost=4), 2)
    with pytest.raises(TypeError, match=r"unit must be fr.Packed\(...\) or fr.Bins"):
        opened(kafka, "tokens", 2)  # type: ignore[arg-type]
    large = opened(kafka, fr.Bins("tokens", cost=9, oversized="error"), 2)
    with pytest.raises(fr.DataError, match=r"costs 40, .* write oversized='alone'.*file 'rows:"):
        list(large)
    large.close()
    dataset = opened(kafka, PACKED, 2)
    state = next(iter(dataset)).state_dict()
    for other in (BINS, fr.Packed("tokens", length=8)):
        mine = opened(kafka, other, 2)
        before = mine.state_dict()
        with pytest.raises(fr.StateError, match=r"the same unit=; here it is fr."):
            mine.load_state_dict(state)
        assert mine.state_dict() == before
        mine.close()
    rows = KafkaDataset(kafka.address, batch_size=2, columns=["id"], world=(0, 1))
    with pytest.raises(fr.StateError, match="and the same unit= if it counted"):
        rows.load_state_dict(state)
    with pytest.raises(fr.StateError, match="same unit="):
        dataset.load_state_dict(rows.state_dict())
    rows.close()
    dataset.close()


def test_a_place_inside_a_row_is_in_the_text_of_a_round() -> None:
    part, other = Part("rows", 0), Part("rows", 1)
    first = (
        Stretch(part, Place(3, 1, 7), Place(3, 1, 16), 1),
        Stretch(other, Place(0), Place(2), 5),
    )
    more = (Stretch(part, Place(3, 1, 16), Place(5), 4), Stretch(other, Place(2), Place(2), 0))
    one = Round(4, (("rows", "id"),), (first, more))
    assert Round.parse(one.text()) == one
    assert json.loads(one.text())["tokens"] == [[7, 16, 0], [0, 0, 0]]
    plain = Round(4, (("rows", "id"),), (first[1:], more[1:]))
    assert "tokens" not in plain.text()
    assert Round.parse(plain.text()) == plain
    assert [str(place) for place in (Place(3, 1), Place(3, 1, 7))] == ["3.1", "3.1.7"]
    for damage in ('"tokens":[[7,16,0]]', '"tokens":[[7,16,0],[0,0]]', '"tokens":[[7,16,-1],[0,0,0]]'):
        with pytest.raises(fr.StateError, match="damaged state"):
            Round.parse(one.text().replace('"tokens":[[7,16,0],[0,0,0]]', damage))


def check_ranks(
    kafka: Broker, tables: list[pa.Table], directory: Path, lives: list[Life], unit: Unit, shuffle: bool
) -> None:
    """Kill ranks, let others go on, and compare what was trained with a whole read."""
    given: dict[str, Any] = {"unit": unit, "round_rows": 40, "max_wait": 0.1, "nulls": "mask"}
    given |= {"shuffle": shuffle, "seed": 5}
    expected = whole(tables, unit)
    if isinstance(unit, fr.Packed):
        given |= {"columns": ["tokens"], "trained": "tokens"}
        wanted = [tokens for tokens, *_ in expected]
    else:
        given |= {"columns": ["id", "tokens"]}
        wanted = [row for rows in expected for row in rows]
    found = run(directory, lives, kafka.address, given, lambda _: None)
    assert sorted(found) == sorted(wanted)
    report = audit(directory / "logs")
    assert report.problems == 0, "\n".join(report.lines)


def test_ranks_are_killed_and_others_go_on_in_the_middle_of_a_document(broker: Start, tmp_path: Path) -> None:
    kafka, tables = started(broker)
    check_ranks(kafka, tables, tmp_path, [Life(2, 3, 3), Life(1, 1, None)], PACKED, shuffle=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("unit", [BINS, FEW, PADDED])
def test_any_lives_train_each_unit_once(broker: Start, tmp_path: Path, unit: Unit, seed: int) -> None:
    draw = random.Random(seed)
    kafka, tables = started(broker, 3, count=400)  # each life has its steps
    lives = [Life(draw.randint(1, 3), draw.choice([1, 3, 5]), draw.randint(1, 5)) for _ in range(4)]
    check_ranks(kafka, tables, tmp_path, [*lives, Life(1, 1, None)], unit, shuffle=bool(seed % 2))


def drawn_unit(draw: random.Random) -> Unit:
    """Any way to make units of documents."""
    if draw.random() < 0.4:
        return fr.Bins("tokens", cost=draw.choice([1, 5, 30]), rows=draw.choice([None, 2]))
    how: dict[str, Any] = {"separator": draw.choice([None, -1]), "rest": draw.choice(["drop", "pad"])}
    return fr.Packed("tokens", length=draw.choice([1, 3, 8, 17]), **how)


@pytest.mark.parametrize("seeds", [(3, 5), slow(range(84))])
@pytest.mark.filterwarnings("ignore:fr.Packed drops")
def test_any_history_of_any_units_delivers_each_once(
    monkeypatch: pytest.MonkeyPatch, seeds: Iterable[int]
) -> None:
    """Over lives of other batch sizes, and in an evaluation. Topics are in memory: nothing is waited for."""
    for seed in seeds:
        draw = random.Random(seed)
        unit, lengths = drawn_unit(draw), draw.choice([[0, 1, 2], [None, 0, 3, 40], [100, 0], [5]])
        messages = documents(seed, draw.choice([10, 40, 80]), lengths)
        of = draw.randint(1, 4)
        partitions = [messages[partition::of] for partition in range(of)]
        topic = HeldTopic(seed, [*partitions, []])
        monkeypatch.setattr("fastresume.kafka.dataset.ConfluentClient", lambda *_, topic=topic: topic)
        given: dict[str, Any] = {
            "columns": list(unit.names) if isinstance(unit, fr.Packed) else ["id", "tokens"],
            "round_rows": draw.choice([10, 60, 10_000]),
            "round_bytes": draw.choice([1_000, 1 << 28]),
            "shuffle": draw.random() < 0.5,
            "value": fr.kafka.ArrowIPC(DOCUMENTS),
            "nulls": "mask",
            "max_wait": 0.01,
            "stop": "end",
            "world": (0, 1),
            "seed": seed,
        }

        def made(size: int, unit: Unit = unit, given: dict[str, Any] = given) -> KafkaDataset:
            return KafkaDataset("kafka://held/rows", batch_size=size, unit=unit, **given)

        tables = [pa.concat_tables(each) for each in partitions if each]
        expected = sorted(whole(tables, unit))
        state, delivered = None, list[Any]()
        for life in range(draw.randint(0, 6), -1, -1):
            dataset = made(draw.randint(1, 9) if life else 1)
            if state is not None:
                dataset.load_state_dict(as_from_a_file(state))
            for batch in itertools.islice(dataset, draw.randint(1, 4) if life else None):
                delivered += units([batch])
                state = batch.state_dict()
            dataset.close()
        assert sorted(delivered) == expected, seed
        evaluated = made(draw.randint(1, 9))
        with evaluated._from_the_beginning():
            assert sorted(units(evaluated)) == expected, seed
        evaluated.close()
