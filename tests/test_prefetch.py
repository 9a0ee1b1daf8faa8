"""Law 6: prefetch is invisible."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fastresume as fr
from jobs import FEW, assert_same_batch, fields_of, make
from strategies import TAILS, Dataset, DatasetSpec, dataset_specs, orders, plain_spec, topologies, written

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


def switches(of: str) -> int:
    """Return how often threads of this process with such names have gone to sleep so far."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith(of):
            lines = dict(line.split(":\t") for line in (task / "status").read_text().splitlines())
            found += int(lines["voluntary_ctxt_switches"])
    return found


def test_a_batch_that_is_taken_wakes_no_more_threads_than_have_something_to_do(write_dataset: Write) -> None:
    files = write_dataset(plain_spec(*[[1000] * 4] * 4))
    threads, batches = 16, 300
    with fr.Loader(make(files, 10), threads=threads, prefetch_bytes=40_000) as loader:
        iterator = iter(loader)
        next(iterator)
        before = switches("fastresume-")
        for _ in range(batches):
            time.sleep(0.001)
            next(iterator)
        # To end a batch, or to decode a row group, and to go back to sleep; to wake all would be 16 for each.
        assert batches / 2 < switches("fastresume-") - before < 4 * batches
