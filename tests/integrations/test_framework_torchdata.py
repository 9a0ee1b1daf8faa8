"""Under torchdata's StatefulDataLoader: its own state where it is right, ours with any number of workers."""

from __future__ import annotations

import copy
import io
import itertools
import json
import pickle
from functools import partial
from typing import Any

import pytest
import torch
from torchdata import nodes
from torchdata.stateful_dataloader import StatefulDataLoader

import fastresume as fr
from support.dataloaders import BATCH, STEPS, make, oracle_passes, rows_of
from support.strategies import Dataset, plain_spec

pytestmark = [
    pytest.mark.processes,
    pytest.mark.law(2),
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning"),
    pytest.mark.filterwarnings("ignore:This DataLoader will create .* worker processes:UserWarning"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return plain_spec([40, 0, 60], [], [100, 11]).write(tmp_path_factory.mktemp("torchdata"))


def loader_of(dataset: fr.ParquetDataset, num_workers: int, **how: Any) -> Any:
    context = "fork" if num_workers else None
    return StatefulDataLoader(
        dataset, batch_size=None, num_workers=num_workers, multiprocessing_context=context, **how
    )


def drawn(loader: Any, count: int) -> list[fr.Batch]:
    iterator = iter(loader)
    return [next(iterator) for _ in range(count)]


def test_without_workers_its_own_state_is_exact(data: Dataset) -> None:
    expected, _ = oracle_passes(make(data), 0, passes=2)
    for count in (0, 1, 7, STEPS):
        loader = loader_of(make(data), 0)
        drawn(loader, count)
        again = loader_of(make(data), 0)
        again.load_state_dict(loader.state_dict())
        rest = rows_of([*again]) if count < STEPS else []
        assert rest + rows_of([*again]) == expected[count : count + 2 * STEPS - count]


def test_with_workers_its_own_state_is_refused_and_that_of_a_batch_is_exact(data: Dataset) -> None:
    """Its workers would have to load states that only the main process can know."""
    first = loader_of(make(data), 2)
    batches = drawn(first, 5)
    expected, _ = oracle_passes(make(data), 2, passes=1)
    assert rows_of(batches) == expected[:5]
    again = loader_of(make(data), 2)
    again.load_state_dict(first.state_dict())
    with pytest.raises(
        fr.FastresumeError, match="torchdata's StatefulDataLoader does that with its own"
    ) as raised:
        iter(again)
    # The garbage collector would wait for workers, five seconds for each.
    raised.value.__traceback__ = None
    del raised
    first._iterator._shutdown_workers()


def refused(iterator: Any, words: str) -> None:
    with pytest.raises(fr.FastresumeError, match=words) as raised:
        next(iterator)
    iterator._shutdown_workers()
    raised.value.__traceback__ = None
    del raised


def test_with_workers_batches_out_of_order_are_refused(data: Dataset) -> None:
    refused(iter(loader_of(make(data), 2, in_order=False)), "in_order=False is not supported")


def fails_at_3(batch: fr.Batch) -> fr.Batch:
    if batch.step == 3:
        raise ValueError("step 3 of mine")
    return batch


def test_a_worker_whose_error_was_caught_never_loses_its_batches_silently(data: Dataset) -> None:
    iterator = iter(loader_of(make(data).map(fails_at_3), 2))
    assert [next(iterator).step for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="step 3 of mine"):
        next(iterator)
    refused(iterator, "the error of a worker was caught, and its batches are lost")


@pytest.mark.law(9)
def test_with_workers_its_own_state_is_refused_when_it_is_saved(data: Dataset) -> None:
    """Not weeks later, when it is loaded; who does not save it is disturbed by nothing."""
    loader = loader_of(make(data), 2)
    for batch in itertools.islice(loader, 5):
        state = loader.state_dict()
        for save in (pickle.dumps, partial(torch.save, f=io.BytesIO()), copy.deepcopy):
            with pytest.raises(fr.StateError, match=r"can't be saved.*Save batch\.state_dict\(\)"):
                save({"epoch": 3, "data": state})
        with pytest.raises(TypeError, match="not JSON serializable"):
            json.dumps(state)
        assert json.loads(json.dumps(batch.state_dict())) == batch.state_dict()
    loader._iterator._shutdown_workers()


def test_whole_batches_are_not_collated(data: Dataset) -> None:
    with pytest.raises(TypeError, match="pass batch_size=None to the DataLoader"):
        next(iter(StatefulDataLoader(make(data), batch_size=BATCH)))


@pytest.mark.law(3)
def test_the_number_of_workers_may_change(data: Dataset) -> None:
    """Its own state asserts that it does not."""
    found, state = [], None
    for num_workers in (2, 0, 3, 1):
        dataset = make(data)
        if state is not None:
            dataset.load_state_dict(state)
        loader = loader_of(dataset, num_workers)
        batches = drawn(loader, 4) if num_workers != 1 else [*loader]
        found += [row for batch in rows_of(batches) for row in batch]
        state = batches[-1].state_dict()
        if num_workers > 1:
            loader._iterator._shutdown_workers()
    assert len(found) == len(set(found)) == STEPS * BATCH


@pytest.mark.parametrize("is_ahead", [False, True])
@pytest.mark.parametrize("kind", ["Loader", "ParquetDataset"])
def test_nodes_go_on_after_the_batch_that_came_out(data: Dataset, kind: str, is_ahead: bool) -> None:
    """Also in the second pass, and where a node has drawn ahead."""

    def nodes_over() -> Any:
        dataset = make(data)
        node: Any = nodes.IterableWrapper(
            dataset if kind == "ParquetDataset" else fr.Loader(dataset, threads=1)
        )
        return nodes.Loader(nodes.Prefetcher(node, 2) if is_ahead else node)

    expected, _ = oracle_passes(make(data), 0, passes=2)
    loader = nodes_over()
    assert rows_of([*loader]) == expected[:STEPS]
    assert rows_of(drawn(loader, 3)) == expected[STEPS : STEPS + 3]
    again = nodes_over()
    again.load_state_dict(loader.state_dict())
    assert rows_of([*again]) == expected[STEPS + 3 :]
