"""`map`: what a function makes of batches, ahead of the loop or in it."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.reading.prefetch import MAX_THREADS
from fastresume.testing import assert_exact_resume
from support.each_of import each_of
from support.jobs import (
    THREADS,
    assert_same_batch,
    data_loader,
    draw_by_batch,
    draw_by_row,
    make,
    make_reader,
    rows_of,
)
from support.strategies import Dataset

ORDERS = pytest.mark.parametrize(
    "order",
    [{}, {"shuffle": True, "seed": 3, "block_rows": 10, "window_rows": 30}],
    ids=["plain", "shuffled"],
)


def add_one(batch: fr.Batch) -> fr.Batch:
    batch["c_2"] = batch["c_2"] + 1
    return batch


class Named:
    def __call__(self, batch: fr.Batch) -> fr.Batch:
        return batch


def only_doubled(batch: fr.Batch) -> dict[str, Any]:
    return {"doubled": batch["c_2"] * 2}


def drawn(dataset: fr.ParquetDataset) -> fr.ParquetDataset:
    """The dataset with transforms that draw."""
    return dataset.map(draw_by_row).map(draw_by_batch)


# -------------------------------------------------------------------------------------------- what it returns


@pytest.mark.law(6)
@pytest.mark.parametrize("threads", [*THREADS, 0])
@ORDERS
def test_transforms_run_one_after_another_in_the_order_of_batches(
    small_dataset: Dataset, threads: int | None, order: dict[str, Any]
) -> None:
    plain = list(make(small_dataset, tail="pad", **order))
    mapped = make(small_dataset, tail="pad", **order).map(add_one).map(only_doubled)
    found = list(make_reader(mapped, threads))
    assert rows_of(found) == rows_of(plain)
    for one, other in zip(plain, found, strict=True):
        assert list(other) == ["doubled"]
        assert torch.equal(other["doubled"], 2 * (one["c_2"] + 1))
        assert (other.num_rows, other.epoch, other.step) == (one.num_rows, one.epoch, one.step)
        assert other.state_dict() == one.state_dict()
        assert torch.equal(other.valid, one.valid)
        assert torch.equal(other.row_seeds(), one.row_seeds())


@each_of("threads", THREADS)
def test_a_mapping_may_hold_values_of_any_kind_and_shape(small_dataset: Dataset, threads: int | None) -> None:
    def summarized(batch: fr.Batch) -> Mapping[str, Any]:
        jagged = fr.Jagged(torch.arange(3), torch.tensor([0, 1, 3]))
        return {"mean": batch["i_1"].mean(), "pair": torch.zeros(2, 3), "rows": jagged, "note": ["any", None]}

    batch = next(iter(make_reader(make(small_dataset).map(summarized), threads)))
    assert batch["mean"].shape == ()
    assert batch["pair"].shape == (2, 3)
    assert batch["note"] == ["any", None]
    assert batch.num_rows == 10
    assert batch.rows().tolist() == list(range(10))
    assert repr(batch).endswith("{mean: float32[], pair: float32[2, 3], rows: int64[2, *], note: list})")


def test_what_a_transform_put_beside_tensors_moves_with_them(small_dataset: Dataset) -> None:
    class Movable:
        def to(self, device: str, non_blocking: bool) -> str:
            return f"moved to {device}, {non_blocking}"

    batch = next(iter(make(small_dataset).map(lambda batch: {**batch, "one": Movable(), "two": "text"})))
    moved = batch.to("cpu", non_blocking=True)
    assert (moved["one"], moved["two"]) == ("moved to cpu, True", "text")
    assert moved["c_2"] is batch["c_2"]
    assert moved.state_dict() == batch.state_dict()
    assert torch.equal(moved.row_seeds(), batch.row_seeds())


def test_another_batch_has_the_cursor_of_the_one_it_was_made_of(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    other = dataset.read_rows([5] * 10)
    found = next(iter(dataset.map(lambda batch: other)))
    assert found["c_2"].tolist() == other["c_2"].tolist()
    assert (found.num_rows, found.step, found.rows().tolist()) == (10, 0, list(range(10)))
    assert found.state_dict() == dataset.state_dict()
    with pytest.raises(fr.FastresumeError, match="no batch of a pass"):
        other.state_dict()


@each_of("threads", THREADS)
@each_of("made", [None, 3, [1], (1, 2), torch.zeros(3), "text"])
def test_other_results_are_refused_with_what_to_return(
    small_dataset: Dataset, made: Any, threads: int | None
) -> None:
    dataset = make(small_dataset)
    reader = make_reader(dataset.map(lambda batch: made), threads)
    with pytest.raises(
        TypeError, match=f"<lambda> returned {type(made).__name__}: .* must return the batch"
    ) as noted:
        next(iter(reader))
    assert "epoch 0, step 0, rank 0" in noted.value.__notes__[0]
    assert dataset.batches_left == len(dataset)


def test_names_that_are_no_strings_are_refused(small_dataset: Dataset) -> None:
    with pytest.raises(TypeError, match="with the name 3, which is no string"):
        next(iter(make(small_dataset).map(lambda batch: {3: batch["c_2"]})))


def test_map_takes_what_can_be_called(small_dataset: Dataset) -> None:
    with pytest.raises(TypeError, match="map takes a function of a batch, found 3"):
        make(small_dataset).map(3)
    made = make(small_dataset).map(functools.partial(dict)).map(Named())
    assert repr(made).endswith("mapped by partial, mapped by Named)")


# --------------------------------------------------------------------------------------- the dataset it makes


def test_it_is_a_dataset_of_the_same_names_that_shares_the_cursor(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    mapped = dataset.map(only_doubled)
    assert type(mapped) is fr.ParquetDataset
    for name in ("num_rows", "files", "fingerprint", "epoch", "batches_left", "batch_size", "world", "paths"):
        assert getattr(mapped, name) == getattr(dataset, name)
    assert (len(mapped), list(mapped.schema), mapped.plan()) == (
        len(dataset),
        list(dataset.schema),
        dataset.plan(),
    )
    assert mapped.locate([50]) == dataset.locate([50])
    first = next(iter(mapped))
    assert dataset.state_dict() == mapped.state_dict() == first.state_dict()
    assert next(iter(dataset)).step == 1
    mapped.load_state_dict(first.state_dict())
    assert next(iter(dataset)).step == 1
    assert list(next(iter(dataset))) == list(dataset.schema)
    dataset.reset()
    assert next(iter(mapped)).step == 0


def test_of_a_dataset_and_its_mapped_one_only_the_newest_iterator_goes_on(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    older = iter(dataset)
    newer = iter(dataset.map(add_one))
    with pytest.raises(fr.FastresumeError, match="a newer iterator of this dataset continues"):
        next(older)
    assert next(newer).step == 0


@ORDERS
def test_any_batch_again_is_transformed_and_rows_by_their_numbers_are_not(
    small_dataset: Dataset, order: dict[str, Any]
) -> None:
    dataset = drawn(make(small_dataset, tail="pad", **order))
    for batch in fr.Loader(dataset, threads=2):
        assert_same_batch(dataset.batch_at(batch.epoch, batch.step), batch)
    assert list(dataset.read_rows([3])) == list(dataset.schema)


def test_peek_shows_the_transformed_batch_once(small_dataset: Dataset) -> None:
    calls = []

    def counted(batch: fr.Batch) -> fr.Batch:
        calls.append(batch.step)
        return batch

    loader = fr.Loader(make(small_dataset).map(counted), threads=0)
    assert loader.peek() is loader.peek()
    assert loader.peek() is next(iter(loader))
    assert calls == [0]


@pytest.mark.law(2)
@pytest.mark.parametrize("threads", THREADS)
@ORDERS
def test_what_is_drawn_after_a_resume_is_what_would_have_been_drawn(
    small_dataset: Dataset, threads: int | None, order: dict[str, Any]
) -> None:
    def made() -> Any:
        return make_reader(drawn(make(small_dataset, tail="pad", **order)), threads)

    assert assert_exact_resume(made) == 11


@pytest.mark.law(2)
def test_values_of_any_kind_are_compared_after_a_resume(lists: Dataset) -> None:
    def enriched(batch: fr.Batch, extra: Any) -> dict[str, Any]:
        values = {
            "scalar": batch["weight"].sum(),
            "nested": batch["tokens"].to_nested(),
            "text": ["a", ("b",)],
        }
        return {
            **batch,
            **values,
            "array": batch.rows(),
            "deep": {"nan": torch.tensor([float("nan")])},
            **extra,
        }

    def made(extra: Callable[[fr.Batch], dict[str, Any]]) -> fr.ParquetDataset:
        return make(lists, 50, nulls="mask").map(lambda batch: enriched(batch, extra(batch)))

    assert assert_exact_resume(lambda: made(lambda batch: {})) == 2
    calls = itertools.count()
    changing: list[Callable[[], Any]] = [
        lambda: next(calls),
        lambda: [str(next(calls))],
        lambda: {"deep": (next(calls),)},
        lambda: np.array([next(calls)]),
        lambda: torch.tensor(next(calls)),
        lambda: [None] * next(calls),
        lambda: fr.Jagged(torch.tensor([next(calls)]), torch.tensor([0, 1])).to_nested(),
        lambda: 1 if next(calls) % 2 else 1.0,
    ]
    for change in changing:
        with pytest.raises(AssertionError, match="the tensor 'changing'"):
            assert_exact_resume(lambda change=change: made(lambda batch: {"changing": change()}))


@pytest.mark.law(2)
def test_a_transform_that_draws_from_elsewhere_does_not_resume_exactly(small_dataset: Dataset) -> None:
    def shaken(batch: fr.Batch) -> dict[str, Any]:
        return {**batch, "noise": torch.rand(batch.num_rows)}

    with pytest.raises(AssertionError, match="the tensor 'noise'"):
        assert_exact_resume(lambda: make(small_dataset).map(shaken))


# ---------------------------------------------------------------------------------------------- where it runs


def test_it_runs_in_the_callers_thread_without_threads_and_elsewhere_with_them(
    small_dataset: Dataset,
) -> None:
    seen: set[int] = set()

    def seen_in(batch: fr.Batch) -> fr.Batch:
        seen.add(threading.get_ident())
        return batch

    mapped = make(small_dataset).map(seen_in)
    list(mapped)
    list(fr.Loader(mapped, threads=0))
    assert seen == {threading.get_ident()}
    seen.clear()
    list(fr.Loader(mapped, threads=2))
    assert 1 <= len(seen) <= 2
    assert threading.get_ident() not in seen


def test_threads_run_it_for_several_batches_at_once_and_no_more_than_stated(small_dataset: Dataset) -> None:
    together = threading.Barrier(MAX_THREADS)
    lock, running, most = threading.Lock(), [0], [0]

    def meet(batch: fr.Batch) -> fr.Batch:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        if batch.step < 2 * MAX_THREADS:
            together.wait(timeout=60)
        with lock:
            running[0] -= 1
        return batch

    found = list(fr.Loader(make(small_dataset).map(meet), threads=8))
    assert [batch.step for batch in found] == list(range(10))
    assert most[0] == MAX_THREADS


def test_it_runs_ahead_of_the_loop_by_no_more_than_the_bytes_that_were_named(small_dataset: Dataset) -> None:
    started = [threading.Event() for _ in range(10)]

    def noted(batch: fr.Batch) -> fr.Batch:
        started[batch.step].set()
        return batch

    loader = fr.Loader(make(small_dataset).map(noted), threads=4, prefetch_bytes=1)
    for step, batch in enumerate(loader):
        assert batch.step == step
        assert all(event.wait(60) for event in started[: step + 2])
        assert not any(event.is_set() for event in started[step + 2 :])


@pytest.mark.processes
@pytest.mark.law(2)
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_workers_of_a_dataloader_run_it(small_dataset: Dataset, workers: int) -> None:
    groups = {"lanes": 2, "groups": 2}
    expected = list(drawn(make(small_dataset, **groups)))
    found = list(data_loader(drawn(make(small_dataset, **groups)), workers))
    for one, other in zip(expected, found, strict=True):
        assert_same_batch(one, other)
    assert_exact_resume(lambda: data_loader(drawn(make(small_dataset, **groups)), workers), every=4)


@pytest.mark.processes
def test_workers_that_are_started_anew_run_it(small_dataset: Dataset) -> None:
    loader = DataLoader(
        drawn(make(small_dataset)),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="forkserver",
        timeout=60,
    )
    for one, other in zip(drawn(make(small_dataset)), loader, strict=True):
        assert_same_batch(one, other)


@pytest.mark.filterwarnings("ignore:Got pickle error:UserWarning")  # torch's own words, before the error
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_lambda_can_not_be_sent_to_a_worker_that_is_started_anew(
    small_dataset: Dataset, method: str
) -> None:
    for function in (lambda batch: batch, functools.partial(lambda batch, by: batch, by=2)):
        mapped = make(small_dataset).map(function)
        loader = DataLoader(mapped, batch_size=None, num_workers=1, multiprocessing_context=method)
        with pytest.raises(pickle.PicklingError, match="<lambda> can't be sent to a worker process"):
            iter(loader)


OF_A_NOTEBOOK = """
import functools, pickle, sys
import fastresume as fr

def double(batch, by=2):
    return {"x": batch["x"] * by}

class Doubled:
    def __call__(self, batch):
        return double(batch)

dataset = fr.ParquetDataset(sys.argv[1], batch_size=5, columns="x", world=(0, 1))
for method in ("spawn", "forkserver"):
    for function in (double, functools.partial(double, by=2), functools.partial(map, double), Doubled()):
        with fr.Loader(dataset.map(function), num_workers=1, multiprocessing_context=method) as loader:
            try:
                next(iter(loader))
            except pickle.PicklingError as error:
                print(error)
with fr.Loader(dataset.map(double), num_workers=1, multiprocessing_context="fork") as loader:
    print(next(iter(loader))["x"].tolist())
"""


@pytest.mark.processes
@pytest.mark.parametrize("program", ["-c", "-"])
def test_a_function_of_a_notebook_is_refused_before_a_worker_is_started_anew(
    tmp_path: Path, program: str
) -> None:
    pq.write_table(pa.table({"x": range(5)}), tmp_path / "rows.parquet")
    start = [program, OF_A_NOTEBOOK] if program == "-c" else [program]
    done = subprocess.run(
        [sys.executable, *start, str(tmp_path)],
        input=OF_A_NOTEBOOK,
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    *refused, by_fork = done.stdout.splitlines()
    for name, line in zip(["double", "double", "double", "Doubled"] * 2, refused, strict=True):
        assert line.startswith(f"{name} can't be sent to a worker process")
        assert line.endswith("without a file; put it into a module, or write multiprocessing_context='fork'")
    assert by_fork == "[0, 2, 4, 6, 8]"
    assert not done.stderr


def test_a_mapped_dataset_can_be_copied_and_pickled(small_dataset: Dataset) -> None:
    mapped = drawn(make(small_dataset))
    next(iter(mapped))
    for copied in (copy.copy(mapped), pickle.loads(pickle.dumps(mapped))):
        assert_same_batch(next(iter(copied)), mapped.batch_at(0, 1))
        mapped.load_state_dict(mapped.batch_at(0, 0).state_dict())
