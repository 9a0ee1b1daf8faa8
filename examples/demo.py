"""Train on several ranks, kill them in mid pass, resume on another number of ranks, and count every row.

    python examples/demo.py                          # over a dataset that it writes
    python examples/demo.py --data 'my/*.parquet'    # over yours

A *run* is so many torch.distributed processes that train one small model with DistributedDataParallel. Each
rank notes the rows of every batch that it was handed in a log of its own, and rank 0 saves the model and the
place in the data every few steps. SIGKILL ends a run, so nothing gets to say goodbye; the next run goes on
from the last checkpoint. At the end the logs are counted. What a run was handed after the checkpoint from
which the next one went on does not count: the model has forgotten it, too.
"""

from __future__ import annotations

import argparse
import ctypes
import glob
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor, distributed, nn

import fastresume as fr

CHECKPOINT_EVERY = 10
"""Steps from one checkpoint to the next."""

STEP_SECONDS = 0.02
"""A step lasts at least so long: a pass of a model this small would be over before it could be killed."""

SILENCE_SECONDS = 120.0
"""A run that has not made a step for so long is taken to hang."""

BUCKETS = 1000
"""Rows of the table of embeddings."""


class DemoError(Exception):
    """What the demo can't go on from."""


# --------------------------------------------------------------------------------------------------- the data


def write_dataset(directory: Path, num_rows: int) -> None:
    """Write four files of several row groups each; the column `row` numbers the rows over all files."""
    random = np.random.default_rng(20)
    weights, tastes = random.normal(size=8), random.normal(size=50)
    directory.mkdir(parents=True)
    ends = [num_rows * percent // 100 for percent in (10, 40, 75, 100)]
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        dense = random.normal(size=(end - start, 8)).astype(np.float32)
        sparse = random.integers(0, 50, size=(end - start, 4))
        columns = {
            "row": np.arange(start, end),
            "label": (dense @ weights + 2 * tastes[sparse[:, 0]] > 0).astype(np.float32),
            **{f"dense_{i}": dense[:, i] for i in range(8)},
            **{f"sparse_{i}": sparse[:, i] for i in range(4)},
        }
        path = directory / f"part-{number}.parquet"
        pq.write_table(pa.table(columns), path, row_group_size=max(num_rows // 15, 1))


def find_columns(data: str) -> list[str]:
    """Return the columns of somebody's files that can be delivered so far; say which can't, and why."""
    pattern = f"{data}/**/*.parquet" if Path(data).is_dir() else data
    found = glob.glob(pattern, recursive=True)  # noqa: PTH207  (the pattern may be absolute)
    if not found:
        raise DemoError(f"no file matches {data!r}")
    some_file = min(found)
    types = {field.name: field.type for field in pq.read_schema(some_file)}
    left_out = {name: f"its type is {type_}" for name, type_ in types.items() if not is_deliverable(type_)}
    columns = [name for name in types if name not in left_out]
    if columns:
        how = {"batch_size": 1, "columns": columns, "nulls": "mask", "world": (0, 1)}
        for file in fr.ParquetDataset(data, **how).files:
            left_out |= dict.fromkeys(set(columns) & columns_with_nulls(file), "it has nulls")
    for name, reason in left_out.items():
        print(f"  the column {name!r} is left out: {reason}")
    columns = [name for name in columns if name not in left_out]
    if not columns:
        raise DemoError(f"no column of {some_file} can be delivered")
    return columns


def is_deliverable(type_: pa.DataType) -> bool:
    kinds = ("boolean", "integer", "floating", "date", "timestamp")
    return any(getattr(pa.types, f"is_{kind}")(type_) for kind in kinds)


def columns_with_nulls(file: str) -> set[str]:
    metadata = pq.read_metadata(file)
    chunks = (
        metadata.row_group(group).column(column)
        for group in range(metadata.num_row_groups)
        for column in range(metadata.num_columns)
    )
    return {chunk.path_in_schema for chunk in chunks if chunk.statistics and chunk.statistics.null_count}


# --------------------------------------------------------------------------------------- what all ranks share


@dataclass(frozen=True)
class Job:
    """What all runs share: where it is kept, the data, and which column plays which part."""

    directory: Path
    data: str
    label: str | None
    row: str | None
    stack: dict[str, list[str]]

    @classmethod
    def over(cls, directory: Path, data: str, columns: list[str], is_ours: bool) -> Job:
        """Choose the parts: predict `label`, else the first column of floats; stack the rest by type."""
        fields = fr.ParquetDataset(data, batch_size=1, columns=columns, world=(0, 1)).schema.values()
        floats = [field.name for field in fields if field.dtype.is_floating_point]
        label = "label" if "label" in columns else next(iter(floats), None)
        row = "row" if is_ours else None
        stack: dict[str, list[str]] = {}
        for field in fields:
            if field.name not in (label, row):
                stack.setdefault(f"all {field.dtype}", []).append(field.name)
        return cls(directory, data, label, row, stack)

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint.pt"

    def dataset(self, batch_size: int, world: tuple[int, int] | None = None) -> fr.ParquetDataset:
        alone = [name for name in (self.label, self.row) if name is not None]
        columns = [*alone, *(fr.stack(*names, name=name) for name, names in self.stack.items())]
        return fr.ParquetDataset(self.data, batch_size=batch_size, columns=columns, world=world)


@dataclass(frozen=True)
class Run:
    """One life of the job."""

    number: int
    ranks: int
    batch_size: int

    @property
    def global_batch_size(self) -> int:
        return self.ranks * self.batch_size

    def log(self, job: Job, rank: int) -> Path:
        return job.directory / f"run-{self.number}-rank-{rank}.log"


# ----------------------------------------------------------------------------------------- what one rank does


class Model(nn.Module):
    """Embeddings for 64-bit integers, all else as numbers, and two layers on top."""

    def __init__(self, job: Job, schema: fr.Schema) -> None:
        super().__init__()
        self.label = job.label
        self.sparse = [name for name in job.stack if schema[name].dtype == torch.int64]
        self.dense = [name for name in job.stack if schema[name].dtype != torch.int64]
        num_sparse = sum(len(job.stack[name]) for name in self.sparse)
        num_inputs = 1 + sum(len(job.stack[name]) for name in self.dense) + 8 * num_sparse
        self.table = nn.Embedding(BUCKETS, 8)
        self.layers = nn.Sequential(nn.Linear(num_inputs, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, batch: fr.Batch) -> Tensor:
        """Return the loss: the mean squared error of what is predicted for the label."""
        inputs = [torch.ones(batch.num_rows, 1), *(squash(batch[name]) for name in self.dense)]
        for name in self.sparse:
            ids = batch[name] + 97 * torch.arange(batch[name].shape[1])  # other columns, other embeddings
            inputs.append(self.table(ids % BUCKETS).flatten(1))
        target = torch.zeros(batch.num_rows) if self.label is None else squash(batch[self.label])
        return nn.functional.mse_loss(self.layers(torch.cat(inputs, 1)).squeeze(1), target)


def squash(values: Tensor) -> Tensor:
    """Return numbers of any kind and size as small floats."""
    values = values.to(torch.float32).nan_to_num().clamp(-1e30, 1e30)
    return values.sign() * values.abs().log1p()


def train(job: Job, run: Run, rank: int) -> None:
    """Train as one rank, from the last checkpoint on if there is one, to the end of the pass."""
    die_with_parent()
    os.environ["LOCAL_WORLD_SIZE"] = str(run.ranks)  # as torchrun does it: the ranks share the cores
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{job.directory.absolute()}/run-{run.number}-store",
        rank=rank,
        world_size=run.ranks,
        timeout=timedelta(seconds=SILENCE_SECONDS),
    )
    dataset = job.dataset(run.batch_size)
    loader = fr.Loader(dataset)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Model(job, dataset.schema))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    steps = 0
    if job.checkpoint.exists():
        checkpoint = torch.load(job.checkpoint)
        model.module.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        loader.load_state_dict(checkpoint["data"])
        steps = checkpoint["steps"]

    with run.log(job, rank).open("ab", buffering=0) as log:
        for _epoch in range(loader.epoch, 1):
            for batch in loader:
                began = time.monotonic()
                loss = model(batch)
                log.write(f"{steps} {loss.item()} {spell_rows(rows_of(batch, job))}\n".encode())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                steps += 1
                if rank == 0 and steps % CHECKPOINT_EVERY == 0:
                    states = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
                    save({**states, "data": batch.state_dict(), "steps": steps}, job.checkpoint)
                time.sleep(max(0.0, began + STEP_SECONDS - time.monotonic()))
    distributed.destroy_process_group()


def save(checkpoint: dict[str, Any], path: Path) -> None:
    """Replace the checkpoint as a whole: a kill leaves the old one or the new one."""
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("wb") as file:
        torch.save(checkpoint, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def rows_of(batch: fr.Batch, job: Job) -> np.ndarray:
    """Return the row numbers of a batch; in our own dataset by what stands in the rows themselves."""
    if job.row is None:
        return batch.rows()
    rows = batch[job.row].numpy()
    if not np.array_equal(rows, batch.rows()):
        raise DemoError(f"batch.rows() are {batch.rows()}, but the rows hold the numbers {rows}")
    return rows


def spell_rows(rows: np.ndarray) -> str:
    """Spell row numbers as ranges: `0-95,300-307`."""
    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return ",".join(f"{part[0]}-{part[-1]}" for part in parts)


def die_with_parent() -> None:
    """Have Linux kill this process when its parent dies, however that happens."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() == 1:
        os._exit(1)


# -------------------------------------------------------------------------------- starting, killing, counting


def execute(job: Job, run: Run, kill_after: int | None) -> bool:
    """Start the ranks, kill them once rank 0 was handed so many batches; return whether it came to that."""
    context = multiprocessing.get_context("fork")  # torch is imported once, not once for every rank
    processes = [context.Process(target=train, args=(job, run, rank)) for rank in range(run.ranks)]
    try:
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            check(processes, run, job)
            if kill_after is not None and count_batches(run.log(job, 0)) >= kill_after:
                return True
            time.sleep(0.005)
        check(processes, run, job)
        return False
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
        for process in processes:
            if process.pid is not None:
                process.join()


def check(processes: list[BaseProcess], run: Run, job: Job) -> None:
    for rank, process in enumerate(processes):
        if process.exitcode not in (None, 0):
            raise DemoError(f"rank {rank} of run {run.number} ended early, with exit code {process.exitcode}")
    logs = (run.log(job, rank) for rank in range(run.ranks))
    last_sign = max(path.stat().st_mtime for path in (job.directory, *logs) if path.exists())
    if time.time() - last_sign > SILENCE_SECONDS:
        raise DemoError(f"run {run.number} has not made a step for {SILENCE_SECONDS:.0f} seconds")


def count_batches(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


@dataclass(frozen=True)
class Delivery:
    """One batch, as the log of its rank tells."""

    step: int
    loss: float
    ranges: tuple[tuple[int, int], ...]

    @property
    def num_rows(self) -> int:
        return sum(last + 1 - first for first, last in self.ranges)


def read_log(path: Path) -> Iterator[Delivery]:
    """Read what a rank noted; a line that the kill cut off does not count."""
    for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
        if line.endswith("\n"):
            step, loss, rows = line.split()
            ranges = (tuple(map(int, part.split("-"))) for part in rows.split(","))
            yield Delivery(int(step), float(loss), tuple((first, last) for first, last in ranges))


@dataclass(frozen=True)
class Count:
    """What became of the rows of one pass."""

    delivered: int
    lost: int
    twice: int
    dropped: int

    def __str__(self) -> str:
        return (
            f"delivered {self.delivered} rows: lost {self.lost}, twice {self.twice}, "
            f"dropped by the tail policy {self.dropped}"
        )


def count_rows(num_rows: int, ranges: Sequence[tuple[int, int]], may_drop: int) -> Count:
    """Count each row of the pass; the tail policy may drop so many, and more than those are lost."""
    times = np.zeros(num_rows, dtype=np.int64)
    for first, last in ranges:
        times[first : last + 1] += 1
    missing = int((times == 0).sum())
    dropped = min(missing, may_drop)
    return Count(num_rows - missing, missing - dropped, int((times > 1).sum()), dropped)


def mean_loss(deliveries: Sequence[Delivery]) -> float:
    return sum(delivery.loss for delivery in deliveries) / max(len(deliveries), 1)


def when_to_kill(batches: int) -> int | None:
    """Return after how many batches to kill a run: in mid pass, and between checkpoints in a long run."""
    if batches < 2:
        return None
    middle = batches * 2 // 5
    between_checkpoints = middle - middle % CHECKPOINT_EVERY + CHECKPOINT_EVERY // 2
    return between_checkpoints if between_checkpoints < batches else max(middle, 1)


def play(job: Job, num_rows: int, topologies: Sequence[tuple[int, int]]) -> Count:
    """Run the job with each (ranks, batch size), killing all runs but the last; count the rows of all."""
    kept: list[Delivery] = []
    steps = left_over = 0
    for number, (ranks, batch_size) in enumerate(topologies, start=1):
        run = Run(number, ranks, batch_size)
        remaining = num_rows - count_of(kept)
        left_over = remaining % run.global_batch_size
        batches = remaining // run.global_batch_size
        place = f"from the checkpoint after step {steps}" if job.checkpoint.exists() else "from the start"
        print(f"\nrun {number}: {ranks} ranks, batch size {batch_size}, {place}", flush=True)

        was_killed = execute(job, run, None if number == len(topologies) else when_to_kill(batches))
        seen = [delivery for rank in range(ranks) for delivery in read_log(run.log(job, rank))]
        seen.sort(key=lambda delivery: delivery.step)
        first, last = mean_loss(seen[: 5 * ranks]), mean_loss(seen[-5 * ranks :])
        print(f"  loss {first:.3f} in its first five steps, {last:.3f} in its last five")
        if not was_killed:
            print("  it came to the end of the pass")
            kept += seen
            break
        steps = torch.load(job.checkpoint)["steps"] if job.checkpoint.exists() else 0
        rolled_back = [delivery for delivery in seen if delivery.step >= steps]
        kept += [delivery for delivery in seen if delivery.step < steps]
        print(f"  in step {seen[-1].step + 1}, every process was killed with SIGKILL")
        print(
            f"  the last checkpoint is the one after step {steps}: {len(rolled_back)} batches that came later"
        )
        print(f"  ({count_of(rolled_back)} rows) are rolled back, and have to come again")
    return count_rows(num_rows, [range_ for delivery in kept for range_ in delivery.ranges], left_over)


def count_of(deliveries: Sequence[Delivery]) -> int:
    return sum(delivery.num_rows for delivery in deliveries)


def demonstrate(directory: Path, data: str | None, num_rows: int, all_ranks: Sequence[int]) -> Count:
    """Take or write the data, play the runs, and count the rows."""
    if data is None:
        write_dataset(directory / "data", num_rows)
        job = Job.over(directory, str(directory / "data"), ["*"], is_ours=True)
    else:
        job = Job.over(directory, data, find_columns(data), is_ours=False)
    dataset = job.dataset(batch_size=1, world=(0, 1))
    verb = "wrote" if data is None else "found"
    print(f"{verb} {dataset.num_rows} rows in {len(dataset.files)} Parquet files")
    first_size = min(max(dataset.num_rows // (200 * all_ranks[0]), 1), 4096)
    sizes = [
        max(first_size * (3, 5, 2)[i % 3] // 3, 1) for i in range(len(all_ranks))
    ]  # each run has another
    return play(job, dataset.num_rows, list(zip(all_ranks, sizes, strict=True)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--data", help="a file, directory or glob pattern of yours; else a dataset is written"
    )
    parser.add_argument("--rows", type=int, default=60_007, help="how many rows to write (%(default)s)")
    parser.add_argument("--ranks", default="3,2,4", help="how many ranks each run has (%(default)s)")
    parser.add_argument(
        "--directory", type=Path, help="an empty directory for all that is written, to keep it"
    )
    options = parser.parse_args(arguments)
    all_ranks = [int(ranks) for ranks in options.ranks.split(",")]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are on this machine
    torch.set_num_threads(1)  # the ranks share the cores
    torch.optim.Adam([torch.zeros(1)])  # has torch import the rest of itself: once, not once for every rank
    try:
        if options.directory is None:
            with tempfile.TemporaryDirectory(prefix="fastresume-demo-") as directory:
                count = demonstrate(Path(directory), options.data, options.rows, all_ranks)
        else:
            options.directory.mkdir(parents=True, exist_ok=True)
            if any(options.directory.iterdir()):
                raise DemoError(f"the directory {options.directory} is not empty")
            count = demonstrate(options.directory, options.data, options.rows, all_ranks)
    except (DemoError, fr.FastresumeError, OSError, ValueError) as error:
        print(f"the demo can't go on: {error}", file=sys.stderr)
        return 1
    print("\nthe rows in the logs of all ranks, without those that were rolled back:")
    print(count)
    return 0 if count.lost == count.twice == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
