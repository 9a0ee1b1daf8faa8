"""Checks on a CUDA device, each in a process of its own: `python checks.py NAME DIRECTORY`."""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import fastresume as fr
from fastresume.reading.device import Device, Placed
from fastresume.testing import assert_exact_resume

ROWS = 40_000
BATCH = 2000
STEPS = ROWS // BATCH


def dataset(directory: Path, **arguments: Any) -> fr.ParquetDataset:
    """The same batches at any number of threads, and of one or two workers."""
    how = {"batch_size": BATCH, "shuffle": True, "seed": 3, "rank": 0, "world_size": 1, "nulls": "mask"}
    return fr.ParquetDataset(directory, lanes=2, groups=2, **{**how, **arguments})


def write(directory: Path) -> None:
    random = np.random.default_rng(0)
    tokens = [random.integers(0, 1000, random.integers(0, 9)).tolist() for _ in range(ROWS)]
    nulls = random.random(ROWS) < 0.1
    table = pa.table(
        {
            "row": np.arange(ROWS),
            "weight": pa.array(random.normal(size=ROWS).astype(np.float32), mask=nulls),
            "tokens": tokens,
            "name": [f"row {number}" for number in range(ROWS)],
        }
    )
    pq.write_table(table, directory / "rows.parquet", row_group_size=8192)


def parts_of(batch: fr.Batch) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in batch.values():
        found += [value.values, value.offsets] if isinstance(value, fr.Jagged) else [value]
    return found


def same_as_the_cpus(directory: Path) -> None:
    """Every value, on the device and back, for every way of reading; and a resume after any batch."""
    expected = list(dataset(directory))
    for how in ({"threads": 0}, {"threads": 1}, {"threads": 4}, {"num_workers": 2}):
        with fr.Loader(dataset(directory), device="cuda", **how) as loader:
            found = list(loader)
        assert len(found) == STEPS
        for one, other in zip(expected, found, strict=True):
            assert other.state_dict() == one.state_dict()
            assert (other.rows() == one.rows()).all()
            assert torch.equal(other.row_seeds().cpu(), one.row_seeds())
            for left, right in zip(parts_of(one), parts_of(other), strict=True):
                assert right.is_cuda
                assert torch.equal(left, right.cpu())
    for loader in (
        lambda: fr.Loader(dataset(directory), device="cuda", threads=0),
        lambda: fr.Loader(dataset(directory), device="cuda", threads=2),
    ):
        assert assert_exact_resume(loader, 3) == STEPS // 3 + 1


def the_consumers_stream_and_device_stay(directory: Path) -> None:
    side = torch.cuda.Stream()
    for how in ({"threads": 0}, {"threads": 2}, {"num_workers": 2}):
        with torch.cuda.stream(side), fr.Loader(dataset(directory), device="cuda", **how) as loader:
            for batch in loader:
                assert torch.cuda.current_stream() == side
                assert torch.cuda.current_device() == 0
                total = int(batch["row"].sum())
                assert total == int(batch.rows().sum())


def every_device_has_a_loader(directory: Path) -> None:
    count = torch.cuda.device_count()
    loaders = [fr.Loader(dataset(directory), device=index, threads=2) for index in range(count)]
    for batches in zip(*loaders, strict=True):
        for index, batch in enumerate(batches):
            assert batch["row"].device == torch.device("cuda", index)
            assert int(batch["row"].sum()) == int(batch.rows().sum())
    assert torch.cuda.current_device() == 0


def nothing_starts_cuda_before_the_first_batch(directory: Path) -> None:
    loader = fr.Loader(dataset(directory), device="cuda", num_workers=2)
    assert not torch.cuda.is_initialized()
    loader.start()
    assert not torch.cuda.is_initialized()
    assert next(iter(loader))["row"].is_cuda
    loader.close()


def a_forked_child_is_told(directory: Path) -> None:
    loader = fr.Loader(dataset(directory), device="cuda", threads=2)
    iterator = iter(loader)
    first = next(iterator)
    fresh = fr.Loader(dataset(directory), device="cuda", threads=2)
    child = os.fork()
    if child == 0:
        began, found = time.monotonic(), 0
        for one in (loader, fresh):
            try:
                next(iter(one))
            except fr.FastresumeError as error:
                found += "fork before anything uses CUDA" in str(error)
        del iterator, loader, fresh, first
        gc.collect()
        os._exit(0 if found == 2 and time.monotonic() - began < 5 else 3)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert [batch.step for batch in iterator] == list(range(1, STEPS))
    assert first["row"].is_cuda


def static_tensors_stay_where_they_are(directory: Path) -> None:
    dense = dataset(directory, columns=["row", "weight"])
    with fr.Loader(dense, device="cuda", static=True, threads=2) as loader:
        first = next(iter(loader))
        places = {name: value.data_ptr() for name, value in first.items()}
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            first["row"].sum()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            total = first["row"].sum()
        count = 0
        for batch in (batch for _ in range(5) for batch in loader):
            graph.replay()
            assert {name: value.data_ptr() for name, value in batch.items()} == places
            assert int(total) == int(batch.rows().sum())
            count += 1
        assert count == 5 * STEPS - 1


def an_error_of_a_copy_loses_nothing(directory: Path) -> None:
    """Memory of the device runs out, and comes back."""
    with fr.Loader(dataset(directory), device="cuda", threads=2) as loader:
        kept = [next(iter(loader))]
        steps, failures = [0], 0
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction(0.0)  # nothing beside what is cached
        iterator = iter(loader)
        while len(steps) < 5 * STEPS:
            try:
                kept.append(next(iterator))
                steps.append(kept[-1].step)
            except StopIteration:
                iterator = iter(loader)
            except torch.cuda.OutOfMemoryError:
                failures += 1
                kept.clear()
                torch.cuda.set_per_process_memory_fraction(1.0)
        assert steps == list(range(STEPS)) * 5
        assert failures == 1, failures


def another_device_is_not_started(directory: Path) -> None:
    """A process that uses one device leaves no memory on the first one, whatever its threads are at."""
    if torch.cuda.device_count() < 2:
        print("there is one device")
        return
    for how in ({"threads": 0}, {"threads": 2}, {"num_workers": 2}):
        with fr.Loader(dataset(directory), device="cuda:1", **how) as loader:
            assert all(batch["row"].device.index == 1 for batch in loader)
    assert not torch._C._cuda_hasPrimaryContext(0)


def what_is_read_is_page_locked(directory: Path) -> None:
    """Memory of 64 KiB and more is page-locked: the columns' own, and the blocks of workers."""
    put, locked = Device.put, []

    def noted(device: Device, batch: fr.Batch) -> Placed:
        locked.append((batch["row"].is_pinned(), batch["weight"].is_pinned()))
        return put(device, batch)

    Device.put = noted
    for how in ({"threads": 0}, {"threads": 2}, {"num_workers": 2}):
        locked.clear()
        with fr.Loader(dataset(directory, batch_size=20_000), device="cuda", **how) as loader:
            found = [*loader, *loader]
        assert len(found) == 4
        assert locked[:4] == [(True, True)] * 4, (how, locked)
    Device.put = put


def is_told_that_it_can_not_lock(directory: Path) -> None:
    """A process that may lock no memory reads on."""
    import resource

    resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
    same_as_the_cpus(directory)


CHECKS: dict[str, Callable[[Path], None]] = {
    check.__name__: check
    for check in (
        same_as_the_cpus,
        the_consumers_stream_and_device_stay,
        every_device_has_a_loader,
        nothing_starts_cuda_before_the_first_batch,
        a_forked_child_is_told,
        static_tensors_stay_where_they_are,
        an_error_of_a_copy_loses_nothing,
        another_device_is_not_started,
        what_is_read_is_page_locked,
        is_told_that_it_can_not_lock,
    )
}


if __name__ == "__main__":
    CHECKS[sys.argv[1]](Path(sys.argv[2]))
