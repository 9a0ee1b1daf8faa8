"""Orders of rows that are compared: ours, and what others shuffle with."""

from __future__ import annotations

import itertools
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch.utils.data import RandomSampler

import fastresume as fr

GROUPS = 4
"""Row groups of a file."""

PARTS = 64
"""The dataset is so many windows of the default size: what 16 GiB are to 256 MiB."""

BATCH_SIZE = 1024
"""Rows of a global batch, on any number of ranks: so that all figures can be compared."""

RANKS = 8
COLUMNS = ["*", "!i_*", "!c_*", fr.stack("i_*", name="counts"), fr.stack("c_*", name="categories")]
SEED = 17

Rows = npt.NDArray[np.int64]
Passes = Callable[[int], Iterator[Rows]]
"""Of a number of passes: the row numbers of each, [batches, BATCH_SIZE]."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Data:
    """The dataset: rows in order of their file and label."""

    directory: Path
    rows: int
    files: int

    @property
    def paths(self) -> list[str]:
        return [str(self.directory / f"part-{file:05}.parquet") for file in range(self.files)]

    @property
    def group_rows(self) -> int:
        return math.ceil(math.ceil(self.rows / self.files) / GROUPS)

    @property
    def window_rows(self) -> int:
        return self.rows // PARTS

    def bounds(self) -> list[int]:
        return [self.rows * file // self.files for file in range(self.files + 1)]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return label, file and row of each row."""
        row = np.arange(self.rows, dtype=np.int64)
        file = np.repeat(np.arange(self.files, dtype=np.int16), np.diff(self.bounds()))
        return {"label": (row >= self.rows // 2).astype(np.int8), "file": file, "row": row}

    def write(self) -> None:
        if self.directory.exists():
            return
        say(f"writing {self.rows} rows")
        unfinished = self.directory.with_name(f"{self.directory.name}-{os.getpid()}")
        unfinished.mkdir(parents=True)
        fields = {"label": pa.int8(), "file": pa.int16(), "row": pa.int64()}
        schema = pa.schema([pa.field(name, type_, nullable=False) for name, type_ in fields.items()])
        table = pa.table(self.columns(), schema=schema)
        for path, (start, end) in zip(self.paths, itertools.pairwise(self.bounds()), strict=True):
            part = table.slice(start, end - start)
            pq.write_table(part, unfinished / Path(path).name, row_group_size=self.group_rows)
        unfinished.rename(self.directory)


@dataclass(frozen=True)
class Contender:
    """One way to shuffle.

    Args:
        name: what the table calls it.
        passes: what it delivers.
        held_rows: decoded rows that one process holds at most, rows decoded ahead left out.
        window_rows, block_rows: of fastresume alone.
    """

    name: str
    passes: Passes
    held_rows: int
    window_rows: int = 0
    block_rows: int = 0


def fastresume_shuffle(data: Data, window_rows: int, block_rows: int, ranks: int = 1) -> Contender:
    """Mix within windows; on several ranks, a global batch is made of one window per rank."""
    sizes = {"shuffle": fr.Shuffle(block_rows, window_rows), "seed": SEED}
    datasets = [open_dataset(data, rank, ranks, **sizes) for rank in range(ranks)]
    plan = datasets[0].plan()
    blocks = plan.blocks / plan.windows
    whole = ", the whole dataset" if plan.windows == 1 else ""
    many = "block" if blocks == 1 else "blocks"
    name = f"window {window_rows:,}, block {block_rows:,}: {blocks:,.0f} {many} per window{whole}"
    if ranks > 1:
        name += f"; {ranks} ranks"
    held_rows = plan.window_rows * plan.lanes // ranks
    return Contender(name, lambda count: deliver(datasets, count), held_rows, window_rows, block_rows)


def fastresume_defaults(data: Data) -> Contender:
    dataset = open_dataset(data, 0, 1, shuffle=True, seed=SEED)
    plan = dataset.plan()
    order = plan.order
    name = f"the defaults for so few bytes: {plan.windows} window of {plan.blocks} blocks"
    return Contender(name, lambda count: deliver([dataset], count), plan.window_rows, order["window_rows"])


def fastresume_sequential(data: Data) -> Contender:
    dataset = open_dataset(data, 0, 1)
    return Contender("no shuffle (fastresume, sequential)", lambda _: deliver([dataset], 1), data.group_rows)


def open_dataset(data: Data, rank: int, ranks: int, **order: Any) -> fr.ParquetDataset:
    return fr.ParquetDataset(data.directory, batch_size=BATCH_SIZE // ranks, world=(rank, ranks), **order)


def deliver(ranks: Sequence[fr.ParquetDataset], count: int) -> Iterator[Rows]:
    """Yield what the training loops of all ranks get, pass after pass, as global batches."""
    for _ in range(count):
        parts = [np.stack([batch["row"].numpy() for batch in dataset]) for dataset in ranks]
        yield np.concatenate(parts, axis=1)


def huggingface(data: Data, buffer_size: int, shards: int = 0, ranks: int = 1) -> Contender:
    """The `IterableDataset.shuffle` of `datasets`: files in random order, several at a time, and a buffer."""
    import datasets
    from datasets import load_dataset
    from datasets.distributed import split_dataset_by_node

    datasets.config.SLEEP_TIME_ON_THREADS_SHUTDOWN = 0  # 5 seconds else, after every pass
    stream = load_dataset("parquet", data_files=data.paths, columns=["row"], split="train", streaming=True)
    more = {"max_buffer_input_shards": shards} if shards else {}
    if shards:
        stream = stream.reshard()  # a shard is a row group then, not a file
    stream = stream.shuffle(seed=SEED, buffer_size=buffer_size, **more).with_format("arrow")

    def passes(count: int) -> Iterator[Rows]:
        for epoch in range(count):
            stream.set_epoch(epoch)
            parts = []
            for rank in range(ranks):
                part = split_dataset_by_node(stream, rank, ranks) if ranks > 1 else stream
                tables = part.iter(batch_size=100_000)
                parts.append(np.concatenate([table["row"].to_numpy() for table in tables]))
            yield global_batches(parts)

    name = f"`datasets`, buffer {buffer_size:,}"
    if shards:
        name += f", `reshard()`, {shards} shards at a time"
    if ranks > 1:
        name += f"; {ranks} ranks"
    held_rows = min(buffer_size + min(shards or 10, data.files // ranks) * data.group_rows, data.rows)
    return Contender(name, passes, held_rows)


def shuffle_buffer(data: Data, buffer_size: int, ranks: int = 1) -> Contender:
    """A plain shuffle buffer, as WebDataset and tf.data have it: files in random order, one after another."""

    def passes(count: int) -> Iterator[Rows]:
        for epoch in range(count):
            random = np.random.default_rng([SEED, epoch])
            files = random.permutation(data.files)
            yield global_batches([through_buffer(files[rank::ranks], random) for rank in range(ranks)])

    def through_buffer(files: npt.NDArray[np.int64], random: np.random.Generator) -> Rows:
        bounds = data.bounds()
        stream = np.concatenate([np.arange(bounds[file], bounds[file + 1]) for file in files])
        held, coming = stream[:buffer_size].tolist(), stream[buffer_size:].tolist()
        out = []
        for place, row in zip(random.integers(0, len(held), len(coming)).tolist(), coming, strict=True):
            out.append(held[place])
            held[place] = row
        random.shuffle(held)
        return np.array(out + held)

    name = f"a plain buffer of {buffer_size:,}" + (f"; {ranks} ranks" if ranks > 1 else "")
    return Contender(name, passes, min(buffer_size + data.group_rows, data.rows))


def numpy_permutation(data: Data) -> Contender:
    def passes(count: int) -> Iterator[Rows]:
        for epoch in range(count):
            yield global_batches([np.random.default_rng([SEED, epoch]).permutation(data.rows)])

    return Contender("numpy, a random permutation", passes, data.rows)


def random_sampler(data: Data) -> Contender:
    def passes(count: int) -> Iterator[Rows]:
        generator = torch.Generator().manual_seed(SEED)
        for _ in range(count):
            sampler = RandomSampler(range(data.rows), generator=generator)
            yield global_batches([np.fromiter(sampler, np.int64, data.rows)])

    return Contender("torch's `RandomSampler`", passes, data.rows)


def global_batches(ranks: Sequence[Rows]) -> Rows:
    """Return whole global batches only, each rank's share side by side."""
    share = BATCH_SIZE // len(ranks)
    steps = min(len(rows) for rows in ranks) // share
    return np.concatenate([rows[: steps * share].reshape(steps, share) for rows in ranks], axis=1)
