"""Law 6: prefetch is invisible."""

from __future__ import annotations

from collections.abc import Callable

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
