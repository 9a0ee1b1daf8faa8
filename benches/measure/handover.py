"""What it costs to hand a batch over from worker processes: our parcels beside torch's own sharing.

Both times torch's DataLoader runs `--workers` workers, which make each batch by copying the same tensors;
what differs is how the tensors cross the processes. Then a pass over a Parquet file: threads in the process,
`Loader(num_workers=)` and torch's DataLoader with 2 and 4 workers over the same reader, in rows per CPU
second of all processes together. `make bench-handover` prints the tables that stand in RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import fastresume as fr
from fastresume import _core

ROWS = 4096
SHAPES = {"41 columns": [(ROWS,)] * 41, "2 matrices": [(ROWS, 14), (ROWS, 27)], "1 tensor": [(ROWS, 41)]}


class Plain(IterableDataset[dict[str, torch.Tensor]]):
    """Batches of fresh tensors in a dict, which torch shares one by one."""

    def __init__(self, shapes: list[tuple[int, ...]], batches: int) -> None:
        self.tensors = {f"c{number}": torch.zeros(shape) for number, shape in enumerate(shapes)}
        self.batches = batches

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        info = get_worker_info()
        assert info is not None
        for _ in range(info.id, self.batches, info.num_workers):
            yield {name: tensor.clone() for name, tensor in self.tensors.items()}


class Replace:
    """A transform that puts the same fresh tensors in the place of a batch."""

    def __init__(self, shapes: list[tuple[int, ...]]) -> None:
        self.tensors = {f"c{number}": torch.zeros(shape) for number, shape in enumerate(shapes)}

    def __call__(self, _batch: fr.Batch) -> dict[str, torch.Tensor]:
        return {name: tensor.clone() for name, tensor in self.tensors.items()}


def processor_seconds() -> float:
    """CPU seconds of this process and of its children that have ended."""
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


def as_it_is(value: Any) -> Any:
    return value


def seconds_of(make: Callable[[], Iterable[Any]]) -> tuple[float, float, int]:
    """Wall clock and CPU seconds of a pass, without the start of the workers, and its batches.

    The start is measured by a pass of its own and taken off the CPU seconds by the caller.
    """
    before = processor_seconds()
    loader = make()
    iterator = iter(loader)
    first = next(iterator)
    del first
    began, count = time.perf_counter(), 1
    for batch in iterator:
        count += 1
        del batch
    wall = time.perf_counter() - began
    del iterator
    if isinstance(loader, fr.Loader):
        loader.close()
    del loader
    return wall, processor_seconds() - before, count


def hand_over(directory: Path, workers: int, batches: int, rounds: int) -> None:
    print(f"\nPer batch from {workers} workers, microseconds (median of {rounds} rounds, in turns):\n")
    print("| tensors of a batch | how | wall | CPU, all processes |\n| --- | --- | ---: | ---: |")
    path = directory / "rows.parquet"
    pq.write_table(pa.table({"row": np.arange(batches, dtype=np.int32)}), path)
    for name, shapes in SHAPES.items():
        dataset = fr.ParquetDataset(path, batch_size=1, world=(0, 1)).map(Replace(shapes))
        how: dict[str, Any] = {"batch_size": None, "num_workers": workers, "multiprocessing_context": "fork"}
        ways: dict[str, Callable[[], Iterable[Any]]] = {
            "torch's own": lambda shapes=shapes, how=how: DataLoader(
                Plain(shapes, batches), collate_fn=as_it_is, **how
            ),
            "DataLoader(dataset)": lambda dataset=dataset, how=how: DataLoader(
                dataset, collate_fn=as_it_is, **how
            ),
            "Loader(num_workers=)": lambda dataset=dataset: fr.Loader(
                dataset, num_workers=workers, multiprocessing_context="fork"
            ),
        }
        figures: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        for _ in range(rounds):
            for way, make in ways.items():
                wall, processor, count = seconds_of(make)
                figures[way].append((1e6 * wall / count, 1e6 * processor / count))
        for way, found in figures.items():
            wall, processor = (statistics.median(column) for column in zip(*found, strict=True))
            print(f"| {name} | {way} | {wall:,.0f} | {processor:,.0f} |", flush=True)


def same_reader(directory: Path, rows: int, rounds: int) -> None:
    path = directory / "wide.parquet"
    chance = np.random.default_rng(0)
    table = pa.table(
        {f"c{number:02}": chance.integers(0, 1000, rows, dtype=np.int32) for number in range(41)}
    )
    pq.write_table(table, path, row_group_size=131072)
    del table

    def dataset() -> fr.ParquetDataset:
        return fr.ParquetDataset(path, batch_size=ROWS, world=(0, 1))

    ways: dict[str, Callable[[], Iterable[Any]]] = {
        "Loader(threads=2)": lambda: fr.Loader(dataset(), threads=2)
    }
    for workers in (2, 4):
        ways[f"Loader(num_workers={workers})"] = lambda workers=workers: fr.Loader(
            dataset(), num_workers=workers, multiprocessing_context="fork"
        )
        ways[f"DataLoader(num_workers={workers})"] = lambda workers=workers: DataLoader(
            dataset(), batch_size=None, num_workers=workers, multiprocessing_context="fork"
        )
    figures: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way, make in ways.items():
            wall, processor, count = seconds_of(make)
            figures[way].append((count * ROWS / wall / 1e6, count * ROWS / processor / 1e6))
    print(f"\n{rows:,} rows of 41 int32 columns, batches of {ROWS}, million rows per second:\n")
    print("| how | per second | per CPU second, start of the workers included |\n| --- | ---: | ---: |")
    for way, found in figures.items():
        wall, processor = (statistics.median(column) for column in zip(*found, strict=True))
        print(f"| `{way}` | {wall:.2f} | {processor:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1 << 22)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not _core.IS_OPTIMIZED:
        raise SystemExit(
            "the extension was built with its checks on: `make bench-handover` builds the other one"
        )
    warnings.filterwarnings("ignore", "This DataLoader will create")
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        hand_over(Path(name), arguments.workers, arguments.batches, arguments.rounds)
        same_reader(Path(name), arguments.rows, arguments.rounds)


if __name__ == "__main__":
    main()
