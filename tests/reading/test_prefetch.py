"""Law 6: prefetch is invisible."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from support.each_of import each_of
from support.jobs import FEW, assert_same_batch, fields_of, make, make_reader, rows_of
from support.strategies import Dataset, DatasetSpec, dataset_specs, plain_spec, written
from support.topologies import TAILS, orders, topologies
from support.watching import bytes_read, in_time, switches

Write = Callable[[DatasetSpec], Dataset]


@pytest.mark.law(6)
@FEW
@given(
    spec=dataset_specs(min_rows=4, max_columns=2),
    threads=st.sampled_from((1, 2, 3, 4)),
    prefetch_bytes=st.sampled_from((1, 100, 5000, 1 << 28)),
    data=st.data(),
)
def test_threads_and_prefetch_change_no_batch_and_no_cursor(
    spec: DatasetSpec, threads: int, prefetch_bytes: int, data: st.DataObject
) -> None:
    shuffle = data.draw(orders(spec.num_rows))
    order = {} if shuffle is None else shuffle.arguments
    topology = data.draw(
        topologies(rows=spec.num_rows, world_sizes=st.just(1), workers=st.just(0), tails=TAILS)
    )
    with written(spec) as files:
        plain = make(files, **topology.arguments, **order)
        expected = [*plain, *plain]
        dataset = make(files, **topology.arguments, **order)
        with fr.Loader(dataset, threads=threads, prefetch_bytes=prefetch_bytes) as loader:
            found: list[fr.Batch] = []
            state = dataset.state_dict()
            while len(found) < len(expected):
                for batch in loader:
                    found.append(batch)
                    state = batch.state_dict()
                    assert loader.state_dict() == state
                    if data.draw(st.booleans(), label="look ahead"):
                        loader.start()
                        if len(found) < len(expected):
                            assert_same_batch(loader.peek(), expected[len(found)])
                        assert loader.state_dict() == state
                    if data.draw(st.integers(0, 4), label="break") == 0:
                        break
        for one, other in zip(found, expected, strict=True):
            assert_same_batch(one, other)


@pytest.mark.law(6)
def test_what_was_decoded_ahead_is_in_no_state(write_dataset: Write) -> None:
    files = write_dataset(plain_spec(*[[50] * 4] * 3))
    dataset = make(files, 5)
    loader = fr.Loader(dataset, threads=4)
    iterator = iter(loader)
    batch = next(iterator)
    loader.start()
    assert loader.peek().rows()[0] == 5
    assert fields_of(loader.state_dict())["cuts"] == [[1, 1, 5, 1]]
    assert loader.state_dict() == batch.state_dict()
    assert loader.batches_left == 119


def sleeps_of_threads(loader: fr.Loader, batches: int, seconds: float) -> int:
    """Return how often threads go to sleep while batches are taken, one in so many seconds."""
    iterator = iter(loader)
    next(iterator)
    before = switches("fastresume-")
    for _ in range(batches):
        time.sleep(seconds)
        next(iterator)
    return switches("fastresume-") - before


def test_a_batch_that_is_taken_wakes_no_more_threads_than_have_something_to_do(write_dataset: Write) -> None:
    files = write_dataset(plain_spec(*[[1000] * 4] * 4))
    batches = 300
    with fr.Loader(make(files, 10), threads=16, prefetch_bytes=40_000) as loader:
        # To end a batch, or to decode a row group, and to go back to sleep: 1 or 2 for each; all would be 16.
        assert 0 < sleeps_of_threads(loader, batches, 0.001) < 8 * batches


def test_where_a_batch_takes_many_row_groups_the_threads_share_them(write_dataset: Write) -> None:
    files = write_dataset(plain_spec(*[[500] * 80] * 4))
    batches, groups_in_batch = 30, 8
    with fr.Loader(make(files, 500 * groups_in_batch), threads=8, prefetch_bytes=100_000) as loader:
        # Who takes a row group calls the next thread; if only the consumer did, that one would do all.
        assert sleeps_of_threads(loader, batches, 0.005) > 3 * batches / 2


def test_a_window_is_decoded_while_the_one_before_it_is_consumed(tmp_path: Path) -> None:
    """With room for one window, there is room for as much of the next one as was taken of the present one.

    Of each row its number is kept as well, so that it takes 16 bytes. Page headers are read more than once:
    a whole pass reads 5 % more than the file's size.
    """
    rows, groups = 10_000, 16
    table = pa.table({"x": np.random.default_rng(0).random(2 * groups * rows)})
    path = tmp_path / "x.parquet"
    pq.write_table(table, path, row_group_size=rows, use_dictionary=False, compression="none")
    window = {"shuffle": True, "block_rows": rows, "window_rows": groups * rows}
    dataset = fr.ParquetDataset(path, batch_size=rows // 10, **window)  # type: ignore[arg-type]
    before = bytes_read()
    with fr.Loader(dataset, threads=2, prefetch_bytes=16 * groups * rows) as loader:
        iterator = iter(loader)
        for _ in itertools.islice(iterator, groups * 10 * 3 // 4):
            pass
        assert in_time(lambda: bytes_read() - before > path.stat().st_size * (1 + 0.5) / 2)
        time.sleep(0.2)  # long enough to read all the rest, if there was room for it
        assert bytes_read() - before < path.stat().st_size


@pytest.mark.law(6)
@pytest.mark.law(11)
@each_of("threads", [None, 1, 2, 4])
@each_of("damaged", [0, 3, 5, 10])
def test_damage_ends_a_shuffled_pass_before_the_first_batch_that_needs_what_is_damaged(
    write_dataset: Write, damaged: int, threads: int | None
) -> None:
    files = write_dataset(plain_spec([40] * 12, checksum=True))
    order = {"shuffle": True, "seed": 5, "block_rows": 40, "window_rows": 160}
    expected = rows_of(iter(make(files, 1, **order)))
    needing = next(number for number, [row] in enumerate(expected) if row // 40 == damaged)
    [path] = files.directory.iterdir()
    chunk = pq.ParquetFile(path).metadata.row_group(damaged).column(0)
    data = bytearray(path.read_bytes())
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(data)
    iterator = iter(make_reader(make(files, 1, **order), threads))
    found: list[fr.Batch] = []
    with pytest.raises(fr.DataError, match=f"row group {damaged}") as first:
        found.extend(iterator)
    assert rows_of(found) == expected[:needing]
    for _ in range(5):
        with pytest.raises(fr.DataError) as again:
            next(iterator)
        assert str(again.value) == str(first.value)
