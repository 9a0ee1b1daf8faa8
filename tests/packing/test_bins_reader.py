"""Bins are decoded as rows are: by the same threads, ahead, into the same memory; in order and shuffled."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
import fastresume._core as _core
from support.devices import Driver
from support.documents import documents, opened, write
from support.rotten_pages import rot_group
from support.unit_jobs import (
    UnitJob,
    assert_same_batch,
    assert_same_by_workers_and_after_resumes,
    check,
    numbers_of,
    pairs,
)

UNITS = [fr.Bins("tokens", cost=30), fr.Bins("cost", cost=30, rows=3), fr.Bins("tokens", cost=1)]

ORDERS: list[dict[str, Any]] = [{}, {"shuffle": True, "seed": 3, "block_rows": 4, "window_rows": 24}]

GAPS = fr.Intervals([[row, row + 1 + row % 3] for row in range(0, 780, 5)])

in_each_order = pytest.mark.parametrize("order", ORDERS, ids=["in order", "shuffled"])


def bins(draw: random.Random) -> fr.Bins:
    name, rows = draw.choice(["tokens", "cost"]), draw.choice([None, 1, 3, 50])
    return fr.Bins(name, cost=draw.choice([1, 30, 300, 10_000]), rows=rows)


@pytest.mark.law(2)
@pytest.mark.parametrize("seed", range(4))
def test_threads_deliver_the_bins_of_batches_that_are_read_alone(tmp_path: Path, seed: int) -> None:
    check(UnitJob(tmp_path, seed, bins))


@pytest.mark.slow  # the same over many more histories
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_threads_deliver_the_same_bins_in_many_histories(tmp_path: Path, first: int) -> None:
    jobs = (UnitJob(tmp_path, seed, bins) for seed in range(1000 + first, 1020 + first))
    assert sum(map(check, jobs)) > 200


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = [documents(1, 700, 40), [[]], documents(2, 90, 40)]
    return write(tmp_path_factory.mktemp("bins") / "data", files, row_group_size=64, data_page_size=200)


@pytest.mark.law(6)
@in_each_order
@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize(
    "how",
    [
        {"tail": "short"},
        {"tail": "pad", "lanes": 2, "rows": GAPS},
        {"tail": "pad", "rows": fr.Intervals([[3, 40]])},
        {"tail": "drop", "lanes": 4, "groups": 2},
    ],
    ids=str,
)
def test_threads_and_bytes_ahead_change_nothing(
    data: Path, unit: fr.Bins, how: dict[str, Any], order: dict[str, Any]
) -> None:
    def dataset() -> fr.ParquetDataset:
        return opened(data, unit, 6, rank=1, world_size=2, **how, **order)

    spec: Any = dataset()._spec
    expected = []
    for one, other in pairs(spec, spec.start(), 0, 1):
        assert_same_batch(one, other)
        expected.append(other)
    assert expected
    for threads, prefetch_bytes in ((1, 1), (2, 1 << 20), (8, 1)):
        with fr.Loader(dataset(), threads=threads, prefetch_bytes=prefetch_bytes) as loader:
            for one, other in zip(loader, expected, strict=True):
                assert_same_batch(one, other)
    again = dataset()
    for step in range(0, len(expected), 7):
        one = again.batch_at(epoch=0, step=step)
        assert numbers_of(one) == numbers_of(expected[step])


@in_each_order
def test_workers_and_resumes_give_the_same_bins(data: Path, order: dict[str, Any]) -> None:
    def dataset() -> fr.ParquetDataset:
        return opened(data, UNITS[0], 4, tail="pad", lanes=2, groups=2, **order)

    assert_same_by_workers_and_after_resumes(dataset)


@in_each_order
def test_a_page_that_rots_masks_the_rows_that_are_lost_whoever_decodes_them(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    files = [documents(1, 700, 40), documents(2, 90, 40)]
    data = write(tmp_path / "data", files, row_group_size=64, data_page_size=200, write_page_checksum=True)
    mask: dict[str, Any] = {"bad_rows": "mask", "max_bad_rows": 10_000, "tail": "pad", "lanes": 2}
    spec: Any = opened(data, UNITS[0], 4, **mask, **order)._spec
    rot_group(data / "0.parquet", 3)
    lost = set()
    for one, other in pairs(spec, spec.start(), 2, 1 << 20):
        assert_same_batch(one, other)
        lost |= set(itertools.compress(one.rows().tolist(), (~one.valid).tolist()))
    assert lost & set(range(3 * 64, 4 * 64)), "some rows of the row group can't be read"


def written(directory: Path, row_group_size: int) -> int:
    """Lists of tokens that count from 0 on; how many there are."""
    lengths = np.random.default_rng(3).integers(0, 200, 20_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.arange(offsets[-1], dtype=np.int32)))
    pq.write_table(pa.table({"tokens": tokens}), directory / "0.parquet", row_group_size=row_group_size)
    return int(offsets[-1])


@pytest.mark.parametrize("order", [{}, {"shuffle": True}], ids=["in order", "shuffled"])
def test_threads_decode_bins_and_tell_what_they_do(tmp_path: Path, order: dict[str, Any]) -> None:
    count = written(tmp_path, 1000)
    dataset = opened(tmp_path, fr.Bins("tokens", cost=2048), 8, tail="short", **order)
    spec: Any = dataset._spec
    reader = reader_of(spec, 2, 32 << 20)
    assert reader.front() is not None
    assert len(reader.activity.threads()) == 3, "two threads, and who asks"
    assert reader.activity.seconds > 0
    reader.close()
    for threads, prefetch_bytes in ((0, 1), (2, 1), (2, 32 << 20)):
        with fr.Loader(dataset, threads=threads, prefetch_bytes=prefetch_bytes) as loader:
            found = np.concatenate([batch["tokens"].values.numpy() for batch in loader])  # type: ignore[union-attr]
        assert order or (found == np.arange(count)).all()
        assert (np.sort(found) == np.arange(count)).all()
    assert dataset.plan().bytes_per_rank > 0


def reader_of(spec: Any, *ahead: Any) -> _core.Reader:
    reader = spec.reader(spec.start(), spec.pass_from(spec.start(), 1), (0, 1, 0, 1), *ahead)
    assert isinstance(reader, _core.Reader)
    return reader


@in_each_order
def test_what_is_copied_to_a_device_was_decoded_into_locked_pages(
    tmp_path: Path, order: dict[str, Any]
) -> None:
    _core.release_memory()  # no block is used again that another test locked
    driver = Driver()
    tokens = pa.array([list(range(1000))] * 400, pa.list_(pa.int64()))
    pq.write_table(pa.table({"tokens": tokens}), tmp_path / "0.parquet")
    spec: Any = opened(tmp_path, fr.Bins("tokens", cost=10_000), 10, **order)._spec
    reader = reader_of(spec, 1, 1 << 20, driver.page_lock)
    before = sum(driver.locked.values())
    assert reader.front() is not None
    assert sum(driver.locked.values()) - before >= 100 * 1000 * 8
    reader.close()


def test_the_plan_states_what_windows_of_bins_take(tmp_path: Path) -> None:
    written(tmp_path, 1000)
    few, many = (
        opened(tmp_path, fr.Bins("tokens", cost=2048), 8, shuffle=True, block_rows=8, window_rows=rows).plan()
        for rows in (16, 256)
    )
    row_bytes = 2000 * 4
    assert few.bytes_per_rank < many.bytes_per_rank
    assert 200 * row_bytes < many.bytes_per_rank < 64 << 20
