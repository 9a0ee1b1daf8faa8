"""The shuffled order: the oracle's, number by number; another one every pass; its sizes in the cursor."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
import oracle
from fastresume import _core
from golden import make_orders
from jobs import FEW, FEWER, THREADS, Job, fields_of, make, make_reader, parallel, rows_of, text_of
from strategies import (
    Dataset,
    DatasetSpec,
    Shuffle,
    Topology,
    dataset_specs,
    orders,
    plain_spec,
    shuffles,
    written,
)

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
@pytest.mark.parametrize("threads", [None, 0, 1, 2, 4])
@pytest.mark.parametrize(
    ("shuffle", "batch_size"),
    [
        (Shuffle(1, 10, 30), 7),  # windows that hold several batches
        (Shuffle(2, 3, 7), 50),  # batches that span many windows
        (Shuffle(3, 1, 1), 9),  # windows of one row
        (Shuffle(4, 1000, 1000), 11),  # one block
        (Shuffle(5, 4, 10**9), 103),  # one window, one batch
        (Shuffle(2**53 - 1, 2**53 - 1, 2**53 - 1), 10),  # the largest numbers
    ],
    ids=str,
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
@pytest.mark.parametrize("golden", WITH_FILES, ids=lambda entry: entry["name"])
def test_a_golden_order_is_what_it_was(golden: dict[str, Any], tmp_path: Path) -> None:
    groups = [rows for rows, times in golden["groups"] for _ in range(times)]
    plain_spec(groups[: len(groups) // 2], [], groups[len(groups) // 2 :]).write(tmp_path)
    manifest = _core.Manifest.open([str(tmp_path)])
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
        order = order_of(_core.Manifest.open([str(files.directory)]), vars(shuffle), {"epoch": epoch})
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


# --------------------------------------------------------------------------- seeds and sizes are the cursor's


def test_the_state_records_the_order_and_the_cursor_tells_it(small_dataset: Dataset) -> None:
    dataset = make(small_dataset, **SHUFFLE.arguments)
    expected = {"kind": "shuffled", "seed": 17, "block_rows": 20, "window_rows": 45}
    states = [dataset.state_dict(), *(batch.state_dict() for batch in dataset), dataset.state_dict()]
    for state in states:
        assert fields_of(state)["order"] == expected
        assert fr.Cursor.from_state(state).order == expected
    assert '"order":{"block_rows":20,"kind":"shuffled","seed":17,"window_rows":45}' in text_of(states[0])
    assert fr.Cursor.from_state(make(small_dataset).state_dict()).order == {"kind": "sequential"}


@pytest.mark.parametrize("named", [{}, {"seed": 17}, {"block_rows": 20}, {"window_rows": 45}, vars(SHUFFLE)])
@pytest.mark.parametrize("threads", [None, 2])
def test_what_is_not_named_is_the_loaded_states(
    small_dataset: Dataset, named: dict[str, int], threads: int | None
) -> None:
    first = make(small_dataset, **SHUFFLE.arguments)
    batches = [*first, *first]
    state = batches[3].state_dict()
    reader = make_reader(make(small_dataset, shuffle=True, **named), threads)
    reader.load_state_dict(state)
    assert reader.state_dict() == state
    assert rows_of([*reader, *reader]) == rows_of(batches[4:])
    reader.reset()
    assert fr.Cursor.from_state(reader.state_dict()).order == batches[0].cursor.order


@pytest.mark.law(9)
@pytest.mark.parametrize(
    ("named", "both"),
    [
        ({"seed": 3}, ["seed", "17", "3"]),
        ({"seed": 0}, ["seed", "17", "0"]),
        ({"block_rows": 10}, ["block_rows", "20", "10"]),
        ({"window_rows": 46}, ["window_rows", "45", "46"]),
        ({"seed": 17, "block_rows": 20, "window_rows": 44}, ["window_rows", "45", "44"]),
    ],
    ids=str,
)
def test_what_is_named_and_differs_clashes_loudly(
    small_dataset: Dataset, named: dict[str, int], both: list[str]
) -> None:
    state = next(iter(make(small_dataset, **SHUFFLE.arguments))).state_dict()
    dataset = make(small_dataset, shuffle=True, **named)
    before = dataset.state_dict()
    for load in (dataset.load_state_dict, fr.Loader(dataset).load_state_dict):
        with pytest.raises(fr.StateError) as caught:
            load(state)
        for word in both:
            assert word in str(caught.value)
    assert dataset.state_dict() == before


@pytest.mark.law(9)
def test_another_kind_of_order_is_refused_and_both_are_named(small_dataset: Dataset) -> None:
    shuffled, plain = make(small_dataset, **SHUFFLE.arguments), make(small_dataset)
    states = shuffled.state_dict(), plain.state_dict()
    for dataset, state in (
        (shuffled, states[1]),
        (plain, states[0]),
        (make(small_dataset, seed=17), states[0]),
    ):
        before = dataset.state_dict()
        with pytest.raises(fr.StateError, match=r"(?s)shuffled.*sequential|sequential.*shuffled"):
            dataset.load_state_dict(state)
        assert dataset.state_dict() == before


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"block_rows": 10}, ValueError, ["block_rows", "shuffle=True"]),
        ({"window_rows": 10}, ValueError, ["window_rows", "shuffle=True"]),
        ({"shuffle": True, "block_rows": 11, "window_rows": 10}, ValueError, ["11", "10"]),
        ({"shuffle": True, "block_rows": 0}, ValueError, ["block_rows", "0"]),
        ({"shuffle": True, "window_rows": 0}, ValueError, ["window_rows", "0"]),
        ({"shuffle": True, "seed": -1}, ValueError, ["seed", "-1"]),
        ({"shuffle": True, "seed": 2**53}, ValueError, [str(2**53)]),
        ({"shuffle": True, "seed": 2**70}, ValueError, [str(2**70)]),
        ({"shuffle": True, "window_rows": 2**53}, ValueError, [str(2**53)]),
        ({"shuffle": True, "seed": 1.5}, TypeError, ["seed", "1.5"]),
        ({"shuffle": True, "seed": "x"}, TypeError, ["seed", "x"]),
        ({"shuffle": True, "seed": True}, TypeError, ["seed", "True"]),
        ({"shuffle": True, "block_rows": 2.0}, TypeError, ["block_rows", "2.0"]),
        ({"shuffle": 1}, TypeError, ["shuffle", "1"]),
        ({"shuffle": None}, TypeError, ["shuffle", "None"]),
        ({"shuffle": "yes"}, TypeError, ["shuffle", "yes"]),
        ({"seed": -1}, ValueError, ["seed", "-1"]),
        ({"seed": "x"}, TypeError, ["seed", "x"]),
    ],
    ids=str,
)
def test_an_order_that_can_not_be_is_refused(
    small_dataset: Dataset, arguments: dict[str, Any], error: type[Exception], named: list[str]
) -> None:
    with pytest.raises(error) as caught:
        make(small_dataset, **arguments)
    for word in named:
        assert word in str(caught.value)


def test_numpys_integers_are_integers(small_dataset: Dataset) -> None:
    named = {name: np.int64(value) for name, value in vars(SHUFFLE).items()}
    dataset = make(small_dataset, shuffle=True, **named)
    assert dataset.state_dict() == make(small_dataset, **SHUFFLE.arguments).state_dict()


@pytest.mark.law(9)
@pytest.mark.parametrize(
    "order",
    [
        {"kind": "shuffled", "seed": 17, "block_rows": 20},
        {"kind": "shuffled", "seed": 17, "block_rows": 46, "window_rows": 45},
        {"kind": "shuffled", "seed": 17, "block_rows": 0, "window_rows": 45},
        {"kind": "shuffled", "seed": -1, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled", "seed": 2**53, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled", "seed": 17, "block_rows": 20, "window_rows": 2**53},
        {"kind": "shuffled", "seed": 17.0, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled", "seed": 17, "block_rows": 20, "window_rows": 45, "more": 1},
        {"kind": "Shuffled", "seed": 17, "block_rows": 20, "window_rows": 45},
        {"kind": "sequential", "seed": 17, "block_rows": 20, "window_rows": 45},
        {"seed": 17, "block_rows": 20, "window_rows": 45},
        {"kind": "shuffled"},
    ],
    ids=str,
)
def test_a_state_with_an_order_that_can_not_be_is_refused(
    small_dataset: Dataset, order: dict[str, Any]
) -> None:
    for arguments in (SHUFFLE.arguments, {"shuffle": True}, {}):
        dataset = make(small_dataset, **arguments)
        before = dataset.state_dict()
        with pytest.raises(fr.StateError):
            dataset.load_state_dict({"fastresume": oracle.checked({**fields_of(before), "order": order})})
        assert dataset.state_dict() == before


# ---------------------------------------------------------------------------------------------- default sizes


def default_sizes(row_bytes: int, largest: int, window_rows: int | None = None) -> tuple[int, int]:
    """Rows of a block and of a window for rows of so many bytes and a largest row group of so many rows."""
    if window_rows is None:
        window_rows = max(1, (256 << 20) // row_bytes)
    target = min(max(65536, window_rows // 16), max(1, window_rows // 4))
    return min(max(largest, min(8192, target)), target), window_rows


def sizes_of(dataset: fr.ParquetDataset) -> tuple[int, int]:
    """The sizes that the cursor of a dataset records."""
    order = fr.Cursor.from_state(dataset.state_dict()).order
    return order["block_rows"], order["window_rows"]


@pytest.mark.parametrize(
    ("groups", "text_bytes", "expected"),
    [
        ([4000, 13], 0, (8192, 2**28 // 16)),  # two columns of 8 bytes; a block has some rows at least
        ([9000, 10], 0, (9000, 2**28 // 16)),  # a block is a row group
        ([70_000], 300, (65_536, None)),  # a large row group is divided
        ([300], 5000, (8192, None)),
        ([2000, 1], 40_000, (None, None)),  # less than 8192 rows are a quarter of a window
        ([3], 2**20, (None, None)),
    ],
    ids=str,
)
def test_the_default_sizes_follow_from_the_files(
    tmp_path: Path, groups: list[int], text_bytes: int, expected: tuple[int | None, int | None]
) -> None:
    """A column of text is not delivered: it counts with 16 bytes, and with what it takes in the files."""
    second = ("text", pa.string()) if text_bytes else ("number", pa.int64())
    schema = pa.schema([("row", pa.int64()), second])
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd") as writer:
        for rows in groups:
            values = pa.array(["x" * text_bytes if text_bytes else 0] * rows)
            table = pa.table([pa.array(range(rows)), values], schema=schema)
            writer.write_table(table, row_group_size=rows)
    metadata = pq.read_metadata(path)
    held = sum(metadata.row_group(i).total_byte_size for i in range(len(groups))) // sum(groups)
    sizes = default_sizes(max(held, 8 + (16 if text_bytes else 8)), max(groups))
    for size, wanted in zip(sizes, expected, strict=True):
        assert wanted in (None, size)
    dataset = fr.ParquetDataset(tmp_path, batch_size=1, columns="row", shuffle=True, **parallel())
    assert sizes_of(dataset) == sizes


def test_small_values_count_with_the_bytes_of_their_type(write_dataset: Write) -> None:
    """A dictionary of one value takes almost nothing in the file, and 8 bytes a row when it is decoded."""
    path = write_dataset(plain_spec([1])).directory / "part-000.parquet"
    pq.write_table(pa.table({"a": [7] * 100_000, "b": [True] * 100_000, "c": ["x"] * 100_000}), path)
    dataset = fr.ParquetDataset(path, batch_size=1, columns="a", shuffle=True, **parallel())
    assert sizes_of(dataset) == default_sizes(8 + 1 + 16, 100_000)


def test_a_named_size_moves_the_other_ones_default(small_dataset: Dataset) -> None:
    def sizes(**named: int) -> tuple[int, int]:
        return sizes_of(make(small_dataset, shuffle=True, **named))

    block_rows, window_rows = sizes()
    for named in (1, 3, 4, 100, 30_000, window_rows, window_rows + 1):
        assert sizes(window_rows=named) == default_sizes(0, 40, named)
    assert sizes(window_rows=100) == (25, 100)
    assert sizes(block_rows=7) == (7, window_rows)
    assert sizes(block_rows=window_rows + 5) == (window_rows + 5, window_rows + 5)
    assert sizes(block_rows=9, window_rows=11) == (9, 11)
    assert sizes(block_rows=block_rows) == (block_rows, window_rows)


def test_the_default_sizes_know_nothing_of_columns_ranks_or_batches(small_dataset: Dataset) -> None:
    state = make(small_dataset, shuffle=True).state_dict()
    for arguments in (
        {"columns": ["row"]},
        {"batch_size": 3, **parallel(2, 4)},
        {"stack": {"dense": "i_*"}},
        {"tail": "pad", "lanes": 10},
    ):
        assert make(small_dataset, shuffle=True, **arguments).state_dict() == state


# ------------------------------------------------------------------------------- law 12: only what is needed


@pytest.mark.law(12)
@pytest.mark.parametrize("threads", THREADS)
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
