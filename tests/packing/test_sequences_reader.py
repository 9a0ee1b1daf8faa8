"""The core's threads cut sequences from lists: the same as each batch that is read by itself."""

from __future__ import annotations

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
from support.unit_jobs import UnitJob, assert_same_batch, assert_same_by_workers_and_after_resumes, check

LENGTHS = (1, 3, 16, 60, 500)


def packed(draw: random.Random) -> fr.Packed:
    names = draw.choice([("tokens",), ("tokens", "labels"), ("labels", "tokens")])
    length, separator = draw.choice(LENGTHS), draw.choice([None, -1])
    return fr.Packed(*names, length=length, separator=separator, rest=draw.choice(["drop", "pad"]))


@pytest.mark.law(2)
@pytest.mark.parametrize("seed", range(6))
def test_threads_cut_the_sequences_of_batches_that_are_read_alone(tmp_path: Path, seed: int) -> None:
    check(UnitJob(tmp_path, seed, packed))


@pytest.mark.slow  # the same over many more histories
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_threads_cut_the_same_sequences_in_many_histories(tmp_path: Path, first: int) -> None:
    assert sum(check(UnitJob(tmp_path, seed, packed)) for seed in range(1000 + first, 1020 + first)) > 200


ORDERS: list[dict[str, Any]] = [{}, {"shuffle": True, "seed": 3, "block_rows": 8, "window_rows": 64}]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = [documents(1, 700, 40), [[]], documents(2, 900, 40)]
    return write(tmp_path_factory.mktemp("lists") / "data", files, row_group_size=64, data_page_size=200)


def reader_of(dataset: fr.ParquetDataset, *ahead: Any) -> _core.Reader:
    spec: Any = dataset._spec
    reader = spec.reader(spec.start(), spec.pass_from(spec.start(), 1), (0, 1, 0, 1), *ahead)
    assert isinstance(reader, _core.Reader)
    return reader


@pytest.mark.parametrize("order", ORDERS, ids=["in order", "shuffled"])
def test_as_many_threads_work_as_were_asked_for(data: Path, order: dict[str, Any]) -> None:
    reader = reader_of(opened(data, fr.Packed("tokens", length=16), 4, **order), 3, 1 << 20)
    assert reader.front() is not None
    assert len(reader.activity.threads()) == 3 + 1, "and the one that asks"
    assert reader.activity.seconds > 0
    reader.close()


@pytest.mark.law(6)
@pytest.mark.parametrize("order", ORDERS, ids=["in order", "shuffled"])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads_and_bytes_ahead_change_nothing(data: Path, order: dict[str, Any], threads: int) -> None:
    def dataset() -> fr.ParquetDataset:
        return opened(data, fr.Packed("tokens", "labels", length=21), 6, lanes=2, tail="pad", **order)

    for prefetch_bytes in (1, 1 << 20):
        with fr.Loader(dataset(), threads=threads, prefetch_bytes=prefetch_bytes) as loader:
            for one, other in zip(loader, dataset(), strict=True):
                assert_same_batch(one, other)


@pytest.mark.parametrize("order", ORDERS, ids=["in order", "shuffled"])
def test_what_is_copied_to_a_device_was_cut_into_locked_pages(tmp_path: Path, order: dict[str, Any]) -> None:
    _core.release_memory()  # no block is used again that another test locked
    driver = Driver()
    tokens = pa.array([list(range(1000))] * 400, pa.list_(pa.int64()))
    pq.write_table(pa.table({"tokens": tokens}), tmp_path / "0.parquet")
    dataset = opened(tmp_path, fr.Packed("tokens", length=1000), 100, **order)
    reader = reader_of(dataset, 1, 1 << 20, driver.page_lock)
    before = sum(driver.locked.values())
    assert reader.front() is not None
    assert sum(driver.locked.values()) - before >= 100 * 1000 * 8
    reader.close()


@pytest.mark.parametrize("order", ORDERS, ids=["in order", "shuffled"])
def test_workers_and_resumes_give_the_same_sequences(data: Path, order: dict[str, Any]) -> None:
    def dataset() -> fr.ParquetDataset:
        return opened(data, fr.Packed("tokens", length=21), 4, tail="pad", lanes=2, groups=2, **order)

    assert_same_by_workers_and_after_resumes(dataset)


def test_all_sequences_come_whatever_may_be_decoded_ahead(tmp_path: Path) -> None:
    lengths = np.random.default_rng(3).integers(0, 200, 20_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.arange(offsets[-1], dtype=np.int32)))
    pq.write_table(pa.table({"tokens": tokens}), tmp_path / "0.parquet", row_group_size=500)
    dataset = opened(tmp_path, fr.Packed("tokens", length=128), 8, tail="short")
    whole = offsets[-1] // 128 * 128
    for threads, prefetch_bytes in ((0, 1), (2, 1), (2, 64 << 20)):
        with fr.Loader(dataset, threads=threads, prefetch_bytes=prefetch_bytes) as loader:
            found = np.concatenate([batch["tokens"].numpy().reshape(-1) for batch in loader])
        assert (found == np.arange(whole)).all()
    assert dataset.plan().bytes_per_rank > 0


def test_lists_that_are_not_those_of_the_index_are_an_error_that_names_it(tmp_path: Path) -> None:
    pq.write_table(pa.table({"tokens": [[1, 2, 3], [4, 5]]}), tmp_path / "0.parquet")
    dataset = opened(tmp_path, fr.Packed("tokens", length=2), 1)
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(pa.table({"tokens": [[1, 2, 3], [4, 5, 6]]}), other / "0.parquet")
    spec: Any = dataset._spec
    strange: Any = opened(other, fr.Packed("tokens", length=2), 1)._spec
    files, units = (spec.manifest, spec.layout), (spec._units, strange.units_table.core, ["tokens"], None)
    cursor = spec.start()
    whose = cursor, spec.pass_from(cursor, 1), (0, 1, 0, 1), (0, 0, None)
    reader = _core.Reader.of_units(files, units, *whose)
    with pytest.raises(fr.DataError, match=r"have 5 tokens, and 6 in the index of units.*row group 0"):
        reader.front()
