"""The shuffled order: the oracle's, number by number; another one every pass; its sizes in the cursor."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from fastresume import _core
from golden import make_orders
from support import oracle
from support.each_of import each_of
from support.jobs import FEW, FEWER, THREADS, Job, fields_of, make, make_reader, parallel, rows_of
from support.strategies import Dataset, DatasetSpec, dataset_specs, plain_spec, written
from support.topologies import Shuffle, Topology, orders, shuffles

Write = Callable[[DatasetSpec], Dataset]

SHUFFLE = Shuffle(seed=17, block_rows=20, window_rows=45)

GOLDEN = json.loads((Path(make_orders.__file__).parent / "orders.json").read_text())

WITH_FILES = [
    entry
    for entry in GOLDEN["orders"]
    if entry["rows"] < 10**6 and sum(times for _, times in entry["groups"]) < 300
]
"""Larger golden orders have no files here: the core's own tests read them."""


# ----------------------------------------------------------------------------------------- the oracle's order


@pytest.mark.law(1)
@pytest.mark.parametrize("threads", [None, 0, 1, 2, 4])
@FEW
@given(spec=dataset_specs(min_rows=1, max_columns=2), data=st.data())
def test_batches_of_a_shuffled_dataset_are_the_oracles(
    threads: int | None, spec: DatasetSpec, data: st.DataObject
) -> None:
    shuffle = data.draw(shuffles(spec.num_rows))
    world_size = data.draw(st.sampled_from([1, 1, *(w for w in (2, 3) if w <= spec.num_rows)]))
    batch_size = data.draw(st.integers(1, spec.num_rows // world_size))
    with written(spec) as files:
        job = Job(files, Topology(world_size, 0, batch_size), shuffle=shuffle, threads=threads)
        for _ in range(2):
            job.run_pass()
        job.kill()


@pytest.mark.law(1)
@each_of("threads", [None, 0, 1, 2, 4])
@each_of(
    ("shuffle", "batch_size"),
    [
        (Shuffle(1, 10, 30), 7),  # windows that hold several batches
        (Shuffle(2, 3, 7), 50),  # batches that span many windows
        (Shuffle(3, 1, 1), 9),  # windows of one row
        (Shuffle(4, 1000, 1000), 11),  # one block
        (Shuffle(5, 4, 10**9), 103),  # one window, one batch
        (Shuffle(2**53 - 1, 2**53 - 1, 2**53 - 1), 10),  # the largest numbers
    ],
)
def test_windows_and_batches_of_every_size(
    small_dataset: Dataset, threads: int | None, shuffle: Shuffle, batch_size: int
) -> None:
    """Over files and row groups without rows, at whose ends nothing special happens."""
    job = Job(small_dataset, Topology(1, 0, batch_size), shuffle=shuffle, threads=threads)
    for _ in range(2):
        assert job.run_pass()
    job.kill()


def runs_of(order: _core.Order, positions: list[tuple[int, int]]) -> list[int]:
    """The rows at positions, one by one."""
    found = np.frombuffer(order.rows(np.array(positions, np.int64).reshape(-1, 2)), np.int64).reshape(-1, 2)
    return [row for start, end in found.tolist() for row in range(start, end)]


@pytest.mark.law(1)
@each_of("golden", WITH_FILES)
def test_a_golden_order_is_what_it_was(golden: dict[str, Any], tmp_path: Path) -> None:
    groups = [rows for rows, times in golden["groups"] for _ in range(times)]
    plain_spec(groups[: len(groups) // 2], [], groups[len(groups) // 2 :]).write(tmp_path)
    manifest = _core.Manifest.open([[str(tmp_path)]], _core.Stores())
    order = order_of(manifest, {name: golden[name] for name in ("seed", "block_rows", "window_rows")}, golden)
    n = golden["rows"]
    assert manifest.num_rows == n
    assert runs_of(order, [(0, min(n, 16))]) == golden["first"]
    assert runs_of(order, [(max(0, n - 16), n)]) == golden["last"]
    for position, row in golden["at"]:
        assert runs_of(order, [(position, position + 1)]) == [row]
    assert order.sizes[:2] == (golden["blocks"], golden["windows"])
    if golden["crc32"] is not None:
        assert make_orders.crc32(runs_of(order, [(0, n)])) == golden["crc32"]


def order_of(manifest: _core.Manifest, sizes: dict[str, int], at: dict[str, Any]) -> _core.Order:
    """The core's order of a pass over a dataset."""
    fields = {
        "fastresume": 1,
        "dataset": {"fingerprint": manifest.fingerprint, "rows": manifest.num_rows},
        "order": {"kind": "shuffled", **sizes},
        "selection": None,
        "first_epoch": 0,
        "epoch": at["epoch"],
        "consumed": [],
        "cuts": [],
    }
    return _core.Order(_core.Cursor.parse(oracle.checked(fields)), manifest)


@pytest.mark.law(1)
@given(spec=dataset_specs(max_columns=0), data=st.data())
def test_any_positions_of_the_core_are_the_oracles_rows(spec: DatasetSpec, data: st.DataObject) -> None:
    """In the order in which they are asked for, at any epoch; and as a set."""
    shuffle = data.draw(shuffles(spec.num_rows))
    epoch = data.draw(st.one_of(st.integers(0, 3), st.just(2**53 - 2)))
    bounds = st.integers(0, spec.num_rows)
    asked = data.draw(st.lists(st.tuples(bounds, bounds).map(sorted).map(tuple), max_size=5))
    with written(spec) as files:
        order = order_of(
            _core.Manifest.open([[str(files.directory)]], _core.Stores()), vars(shuffle), {"epoch": epoch}
        )
        expected = oracle.order_rows(
            oracle.group_rows_of(files.directory),
            shuffle.seed,
            epoch,
            shuffle.block_rows,
            shuffle.window_rows,
        )
    rows = [expected[position] for start, end in asked for position in range(start, end)]
    asked = [pair for pair in asked if pair[0] < pair[1]]
    assert runs_of(order, asked) == rows
    apart = oracle.intervals_of(oracle.positions_of(asked))
    found = np.frombuffer(order.row_set(np.array(apart, np.int64).reshape(-1, 2)), np.int64)
    assert [tuple(pair) for pair in found.reshape(-1, 2).tolist()] == oracle.intervals_of(rows)


# ------------------------------------------------------------------------------------------- epochs and seeds


@pytest.mark.law(7)
def test_every_pass_and_every_seed_is_another_permutation(small_dataset: Dataset) -> None:
    found = set()
    for seed in (0, 1, 2, 2**53 - 1):
        dataset = make(small_dataset, 103, shuffle=True, seed=seed, block_rows=10, window_rows=40)
        for _ in range(4):
            (rows,) = rows_of(dataset)
            assert sorted(rows) == list(range(103))
            found.add(tuple(rows))
    assert len(found) == 16


def test_the_order_knows_nothing_of_ranks_threads_or_batch_sizes(small_dataset: Dataset) -> None:
    """What a position holds is the dataset's, the seed's, the sizes' and the epoch's business alone."""
    groups = oracle.group_rows_of(small_dataset.directory)
    expected = oracle.order_rows(groups, *(17, 0, 20, 45))
    for batch_size in (1, 10, 103):
        for threads in THREADS:
            reader = make_reader(make(small_dataset, batch_size, **SHUFFLE.arguments), threads)
            found = [row for rows in rows_of(reader) for row in rows]
            assert found == list(expected[: len(found)])
    time_order = [make(small_dataset, 5, lanes=1, **SHUFFLE.arguments, **parallel(r, 4)) for r in range(4)]
    steps = [[row for rows in step for row in rows] for step in zip(*map(rows_of, time_order), strict=True)]
    assert [row for step in steps for row in step] == list(expected[:100])


def test_without_a_seed_it_is_seed_0(small_dataset: Dataset) -> None:
    sizes = {"block_rows": 20, "window_rows": 45}
    unnamed = make(small_dataset, shuffle=True, **sizes)
    named = make(small_dataset, shuffle=True, seed=0, **sizes)
    assert unnamed.state_dict() == named.state_dict()
    assert rows_of(unnamed) == rows_of(named) != rows_of(make(small_dataset, shuffle=True, seed=1, **sizes))


def test_a_seed_has_no_effect_on_the_sequential_order(small_dataset: Dataset) -> None:
    plain, seeded = make(small_dataset), make(small_dataset, seed=17)
    assert plain.state_dict() == seeded.state_dict()
    assert rows_of(plain) == rows_of(seeded)
    seeded.load_state_dict(make(small_dataset, seed=3).state_dict())


@pytest.mark.law(10)
def test_no_global_random_state_is_read_or_moved(small_dataset: Dataset) -> None:
    found = []
    for seed in (1, 2):
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        loader = fr.Loader(make(small_dataset, **SHUFFLE.arguments, tail="pad"), threads=2)
        found.append([rows_of(loader), rows_of(loader)])
        loader.dataset.batch_at(0, 3)
        loader.dataset.read_rows([3, 5])
        loader.dataset.plan()
        after = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        assert after == before
    assert found[0] == found[1]


# ------------------------------------------------------------------------------- law 12: only what is needed


@pytest.mark.law(12)
@each_of("threads", THREADS)
def test_a_resume_reads_nothing_of_the_windows_that_are_done(
    write_dataset: Write, threads: int | None
) -> None:
    """Each row group is a block here; those of the first two windows are damaged once they were delivered."""
    shuffle = Shuffle(seed=4, block_rows=10, window_rows=30)
    order = oracle.Shuffled((10,) * 12, 4, 0, 10, 30)
    files = write_dataset(plain_spec([10] * 6, [10] * 6))
    first = list(make(files, 10, **shuffle.arguments))
    dataset = make(files, 10, **shuffle.arguments)
    for start, _ in order.windows[0] + order.windows[1]:
        spoil(files.files[start // 60], start % 60 // 10)
    reader = make_reader(dataset, threads)
    reader.load_state_dict(first[5].state_dict())
    assert rows_of(reader) == rows_of(first[6:])
    reader.reset()
    with pytest.raises(fr.DataError):
        list(reader)


def spoil(file: Path, group: int) -> None:
    """Overwrite the pages of a row group; size and footer stay as they are."""
    column = pq.read_metadata(file).row_group(group).column(0)
    with file.open("r+b") as opened:
        opened.seek(column.dictionary_page_offset or column.data_page_offset)
        opened.write(b"\xff" * column.total_compressed_size)


@pytest.mark.law(12)
@FEWER
@given(rows=st.integers(1, 80), data=st.data())
def test_every_position_can_be_sought(rows: int, data: st.DataObject) -> None:
    """A state of any intervals goes on with the rows at the positions that it leaves."""
    shuffle = data.draw(orders(rows).filter(lambda order: order is not None))
    bounds = st.integers(0, rows)
    drawn = data.draw(st.lists(st.tuples(bounds, bounds).map(sorted), max_size=3))
    consumed = oracle.intervals_of(oracle.positions_of(drawn))
    left = oracle.positions_of(oracle.remaining(consumed, rows))
    with written(plain_spec([rows // 2, rows - rows // 2])) as files:
        dataset = make(files, 1, **shuffle.arguments)
        groups = oracle.group_rows_of(files.directory)
        expected = oracle.order_rows(groups, shuffle.seed, 0, shuffle.block_rows, shuffle.window_rows)
        if left:
            text = oracle.checked({**fields_of(dataset.state_dict()), "consumed": consumed})
            dataset.load_state_dict({"fastresume": text})
            found = [row for batch in rows_of(dataset) for row in batch]
            assert found == [expected[position] for position in left]
