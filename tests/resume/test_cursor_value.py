"""Law 5: the cursor is a value."""

from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume import _core
from support import oracle
from support.each_of import each_of
from support.jobs import (
    FEWER,
    THREADS,
    WORKERS,
    Job,
    Ledger,
    assert_same_batch,
    fields_of,
    make,
    make_reader,
    oracle_job,
    parallel,
    shaped_like,
    text_of,
)
from support.strategies import Dataset, DatasetSpec, plain_spec, written
from support.topologies import TAILS, Shuffle, Topology, chains, orders

Write = Callable[[DatasetSpec], Dataset]


SHUFFLE = Shuffle(17, 20, 45)


@pytest.mark.law(5)
def test_torch_loads_a_cursor_that_it_saved(small_dataset: Dataset, tmp_path: Path) -> None:
    dataset = make(small_dataset)
    cursor = next(iter(dataset)).cursor
    torch.save({"data": cursor, "model": torch.zeros(2)}, tmp_path / "saved.pt")
    assert torch.load(tmp_path / "saved.pt", weights_only=True)["data"] == cursor
    rows = fr.Jagged(torch.tensor([7, 8]), torch.tensor([0, 2]))
    torch.save({"rows": rows}, tmp_path / "saved.pt")
    assert torch.load(tmp_path / "saved.pt", weights_only=True)["rows"].to_list() == [[7, 8]]


@pytest.mark.law(5)
@each_of("threads", THREADS)
@each_of("tail", TAILS)
@each_of("shuffle", [None, SHUFFLE])
def test_the_state_is_one_small_leaf_whose_keys_and_types_never_change(
    small_dataset: Dataset, threads: int | None, tail: str, shuffle: Shuffle | None
) -> None:
    order = {} if shuffle is None else shuffle.arguments
    dataset = make(small_dataset, 5, tail=tail, **order, **parallel(1, 2))
    loader = make_reader(dataset, threads)
    states = [dataset.state_dict(), loader.state_dict()]
    for _ in range(2):
        for batch in loader:
            states += [batch.state_dict(), dataset.state_dict(), loader.state_dict()]
    shapes = [shaped_like(fields_of(state)) for state in states]
    assert all(shape == shapes[0] for shape in shapes)
    assert shapes[0] == {
        "check": "str",
        "consumed": "list",
        "cuts": "list",
        "dataset": {"fingerprint": "str", "rows": "int"},
        "earlier_batches": "int",
        "epoch": "int",
        "fastresume": "int",
        "first_epoch": "int",
        "order": {"kind": "str"} | ({} if shuffle is None else dict.fromkeys(vars(shuffle), "int")),
        "selection": "NoneType",
    }
    lengths = {len(text_of(state)) for state in states}
    assert max(lengths) < 1024
    assert max(lengths) - min(lengths) <= len("[2,1,5,10]") + len("10") - len("0")


@pytest.mark.law(5)
@FEWER
@given(rows=st.integers(1, 80), data=st.data())
def test_every_state_of_every_job_has_the_same_keys_and_types(rows: int, data: st.DataObject) -> None:
    """In all cuts, at all ranks and workers, after each step; the tail policy is nowhere in them."""
    shuffle = data.draw(orders(rows))
    legs = data.draw(chains(rows, max_steps=6, workers=WORKERS, tails=TAILS, small=True))
    with written(plain_spec([rows])) as files:
        state, shapes = None, []
        for leg in legs:
            job = Job(files, leg.topology, shuffle=shuffle, state=state)
            for _ in range(leg.kept):
                job.step()
                shapes.append(shaped_like(fields_of(job.ranks[0].dataset.state_dict())))
            state = job.state()
            shapes.append(shaped_like(fields_of(state)))
        assert all(shape == shapes[0] for shape in shapes)
        cut_numbers = fields_of(state)["cuts"]
        assert all([type(number) for number in cut] == [int] * 4 for cut in cut_numbers)


def start_of(rows: int, **fields: Any) -> _core.Cursor:
    """The core's cursor of a pass over so many rows, with the largest numbers that an order can have."""
    largest = 2**53 - 1
    order = {"kind": "shuffled", "seed": largest, "block_rows": largest, "window_rows": largest}
    text = oracle.checked(
        {
            "fastresume": 1,
            "dataset": {"fingerprint": "f" * 32, "rows": rows},
            "order": order,
            "selection": None,
            "first_epoch": largest - 9,
            "epoch": largest - 1,
            "consumed": [],
            "cuts": [],
            **fields,
        }
    )
    return _core.Cursor.parse(text)


@pytest.mark.law(5)
def test_after_a_million_steps_a_state_is_below_1_kib() -> None:
    """Of a pass over 10^15 rows, on as many ranks as there are."""
    start = start_of(10**15)
    planned = _core.Pass(start, (16_384, 8, 4096), "drop", 2048)
    states = [planned.cursor_after(steps).to_json() for steps in (0, 1, 10, 1000, 10**6, 10**8)]
    assert max(map(len, states)) < 1024
    assert json.loads(states[4])["cuts"] == [[16_384, 8, 4096, 10**6]]
    assert len(states[4]) - len(states[1]) == len("1000000") - len("1")


@pytest.mark.law(5)
def test_after_a_hundred_changes_of_up_to_16384_lanes_a_state_is_below_8_kib() -> None:
    random_ = random.Random(5)
    rows = left = 10**12
    cuts = []
    for number in range(100):
        groups, each = random_.randint(1, 8), random_.randint(1, 4)
        ways = random_.randint(1, 16_384 // (groups * each)) if number % 10 else 16_384 // (groups * each)
        lanes, lane_rows = groups * each * ways, random_.randint(1, 500)
        whole = left // (lanes // groups * lane_rows)
        done = random_.randint(1, whole // 100)
        cuts.append([lanes, groups, lane_rows, done])
        left -= done * lanes // groups * lane_rows
    assert max(lanes for lanes, *_ in cuts) == 16_384
    cursor = start_of(rows, cuts=cuts)
    assert cursor.consumed_rows() == rows - left
    text = cursor.to_json()
    assert json.loads(text)["cuts"] == cuts
    assert len(text) < 8 << 10
    assert len(text) - len(start_of(rows).to_json()) <= 30 * 100
    assert len(cursor.at_epoch(cursor.epoch + 1).to_json()) <= len(start_of(rows).to_json())


@pytest.mark.law(5)
@pytest.mark.law(3)
def test_after_a_hundred_lives_a_state_is_below_8_kib_and_every_row_came_once(write_dataset: Write) -> None:
    """Real ones: in each life one step, on other ranks and in other lanes than before."""
    random_ = random.Random(6)
    files = write_dataset(plain_spec([900, 0, 400], [1700]))
    ledger, state = Ledger(3000), None
    for _ in range(100):
        world_size, each = random_.randint(1, 3), random_.randint(1, 4)
        how = {"batch_size": each * random_.randint(1, 2), "lanes": world_size * each, **SHUFFLE.arguments}
        for rank in range(world_size):
            dataset = make(files, tail="pad", **how, **parallel(rank, world_size))
            if state is not None:
                dataset.load_state_dict(state)
            batch = next(iter(dataset))
            ledger.add(0, batch.rows().tolist())
        state = batch.state_dict()
    assert len(fields_of(state)["cuts"]) > 80  # some are the same as the one before
    assert len(text_of(state)) < 8 << 10
    last = make(files, 7, tail="pad", **SHUFFLE.arguments)
    last.load_state_dict(state)
    for batch in last:
        ledger.add(0, batch.rows()[batch.valid.numpy()].tolist())
    ledger.assert_exactly_once(0, [])
    given = fields_of(last.state_dict())["earlier_batches"]
    start = text_of(make(files, **SHUFFLE.arguments).state_dict())
    assert len(text_of(last.state_dict())) == len(start) + len(str(given)) - len("0")


@pytest.mark.law(5)
def test_taking_a_state_changes_nothing(small_dataset: Dataset) -> None:
    plain = list(make(small_dataset))
    dataset = make(small_dataset)
    loader = fr.Loader(dataset, threads=2)
    found = []
    for batch in loader:
        before = batch.state_dict()
        for _ in range(3):
            assert dataset.state_dict() == loader.state_dict() == batch.state_dict() == before
            state = batch.state_dict()
            state.clear()  # it is the caller's
        found.append(batch)
    for one, other in zip(found, plain, strict=True):
        assert_same_batch(one, other)


@pytest.mark.law(5)
def test_a_batch_keeps_the_state_of_its_own_step(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=2)
    batches = list(loader)
    job = oracle_job(103, Topology(1, 0, 10), loader.dataset.fingerprint)
    for batch in batches:
        job.step()
        assert text_of(batch.state_dict()) == job.state()
        assert batch.cursor == fr.Cursor.from_state(batch.state_dict())


@pytest.mark.law(5)
def test_the_size_of_a_state_does_not_grow_with_rows_files_ranks_or_steps(write_dataset: Write) -> None:
    def longest(spec: DatasetSpec, world_size: int, batch_size: int) -> int:
        dataset = make(write_dataset(spec), batch_size, **parallel(world_size - 1, world_size))
        return max(len(text_of(batch.state_dict())) for batch in dataset)

    small = longest(plain_spec([4]), 1, 1)
    large = longest(plain_spec(*[[100] * 10] * 30), 25, 2)
    assert large - small <= len("[25,1,2,599]") - len("[1,1,1,3]") + len("30000") - len("4")


@pytest.mark.law(5)
def test_a_change_of_topology_adds_a_few_bytes_and_the_end_of_the_pass_takes_them_away(
    small_dataset: Dataset,
) -> None:
    state = make(small_dataset).state_dict()
    start = len(text_of(state))
    for leg in range(10):
        before = len(text_of(state))
        dataset = make(small_dataset, 1 + leg % 3)
        dataset.load_state_dict(state)
        state = next(iter(dataset)).state_dict()
        assert 0 < len(text_of(state)) - before <= 30
    dataset = make(small_dataset, 1)
    dataset.load_state_dict(state)
    for batch in dataset:
        state = batch.state_dict()
    given = fields_of(state)["earlier_batches"]
    assert len(text_of(state)) == start + len(str(given)) - len("0")


@pytest.mark.law(5)
def test_a_state_survives_what_checkpoints_do_to_it(small_dataset: Dataset, tmp_path: Path) -> None:
    batches = list(make(small_dataset))
    state = batches[3].state_dict()
    torch.save({"data": state}, tmp_path / "checkpoint.pt")
    survivors = [
        torch.load(tmp_path / "checkpoint.pt", weights_only=True)["data"],
        json.loads(json.dumps(state)),
        json.loads(text_of(state)),  # the parsed JSON itself
        pickle.loads(pickle.dumps(state)),
        copy.deepcopy(state),
        {"fastresume": json.dumps(fields_of(state), indent=2)},  # spaced by another writer
        {"fastresume": json.dumps(dict(reversed(fields_of(state).items())))},
        fr.Cursor.from_state(state),
        batches[3].cursor,
    ]
    for survivor in survivors:
        dataset = make(small_dataset)
        dataset.load_state_dict(survivor)
        assert dataset.state_dict() == state
        assert_same_batch(next(iter(dataset)), batches[4])
