"""The contenders that pack: the lists of a column, one after another, cut into sequences of one length.

Each delivers every token once: `{column: [sequences, length]}`, with a shorter sequence by itself, or filled
up where `document` is -1; or Arrow tables of lists. There is no separator between documents.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastresume.batch.batch import Batch
from fastresume.bench import storage
from fastresume.bench.cells import cells_of
from fastresume.bench.reading import Contender, Reading
from fastresume.bench.rivals import ARROW, FILES, OFFLINE, of_datasets, row_groups_of
from fastresume.bench.task import Task
from fastresume.dataset import ParquetDataset
from fastresume.options.cache import Cache
from fastresume.options.units import Packed

MAPPED_ROWS = 1000
"""A function of `map` packs this many rows together: the default of `datasets`."""


def packed(task: Task, _: object) -> Reading:
    """Our own; opening reads the lengths of all lists, in every pass."""
    return _packed(task)


def packed_from_index(task: Task, _: object) -> Reading:
    """The same, opened as a job is that starts again: the lengths are in a cache on disk."""
    return _packed(task, Path(task.scratch, "manifest"))


def packed_and_shuffled(task: Task, _: object) -> Reading:
    """The same, in a shuffled order."""
    return _packed(task, Path(task.scratch, "manifest"), shuffle=True)


def _packed(task: Task, cache: Path | None = None, shuffle: bool = False) -> Reading:
    dataset = ParquetDataset(
        task.files,
        batch_size=task.batch_size,
        columns=task.names,
        unit=Packed(task.names[0], length=task.length, rest="pad"),
        shuffle=shuffle,
        tail="short",
        cache=None if cache is None else Cache(manifest=cache),
        storage_options=task.storage_options or None,
        world=(0, 1),
    )

    def batches() -> Iterator[Batch]:
        yield from dataset

    return Reading(batches())


def by_lists(task: Task, _: object) -> Reading:
    """Lists of Python: documents are added at the end of a buffer, and sequences taken from its front."""
    (name,) = task.names

    def sequences() -> Iterator[list[int]]:
        left: list[int] = []
        for table in row_groups_of(task.files, task):
            for tokens in table.column(name).to_pylist():
                left.extend(tokens or ())
                while len(left) >= task.length:
                    yield left[: task.length]
                    left = left[task.length :]
        if left:
            yield left

    return Reading({name: made} for made in _stacked(sequences(), task))


def by_arrays(task: Task, _: object) -> Reading:
    """The quickest that one writes by hand: a row group's values, cut by a reshape, and their documents."""
    (name,) = task.names

    def batches() -> Iterator[dict[str, Tensor]]:
        left, documents_left, count = np.empty(0, np.int32), np.empty(0, np.int64), 0
        for table in row_groups_of(task.files, task):
            values, lengths = _lists(table.column(name))
            numbers = np.repeat(np.arange(count, count + table.num_rows), lengths)
            count += table.num_rows
            values = np.concatenate([left.astype(values.dtype), values])
            documents = np.concatenate([documents_left, numbers])
            whole = len(values) // task.length * task.length
            yield from _cut(values[:whole], documents[:whole])
            left, documents_left = values[whole:], documents[whole:]
        if len(left):
            yield {name: torch.from_numpy(left)[None]}

    def _cut(values: Any, documents: Any) -> Iterator[dict[str, Tensor]]:
        tokens, numbers = values.reshape(-1, task.length), documents.reshape(-1, task.length)
        for start in range(0, len(tokens), task.batch_size):
            some = numbers[start : start + task.batch_size]
            changes = np.diff(some, axis=1, prepend=some[:, :1]) > 0  # a document may be empty
            own = np.cumsum(changes, axis=1, dtype=np.int32)
            yield {
                name: torch.from_numpy(tokens[start : start + task.batch_size]),
                "document": torch.from_numpy(own),
            }

    return Reading(batches())


def mapped(task: Task, _: object) -> Reading:
    """`map` of Hugging Face datasets as most write it: lists of Python, joined and cut."""
    (name,) = task.names

    def cut(rows: dict[str, list[list[int] | None]]) -> dict[str, list[list[int]]]:
        tokens = list(itertools.chain.from_iterable(one or () for one in rows[name]))
        return {name: [tokens[at : at + task.length] for at in range(0, len(tokens), task.length)]}

    dataset = of_datasets(task.files, task).map(cut, batched=True, batch_size=MAPPED_ROWS)
    sequences = (row[name] for row in dataset)
    return Reading({name: made} for made in _stacked(sequences, task))


def mapped_arrow(task: Task, _: object) -> Reading:
    """The same over Arrow tables, which is its quickest: new offsets over the values, and no copy."""
    arrow = importlib.import_module("pyarrow")
    (name,) = task.names

    def cut(table: Any) -> Any:
        column = table.column(name).combine_chunks()
        values = column.flatten()
        ends = [*range(0, len(values), task.length), len(values)]
        return arrow.table({name: type(column).from_arrays(arrow.array(ends, column.offsets.type), values)})

    dataset = (
        of_datasets(task.files, task).with_format("arrow").map(cut, batched=True, batch_size=MAPPED_ROWS)
    )
    return Reading(_tensors(table.column(name), task) for table in dataset.iter(batch_size=task.batch_size))


def _lists(column: Any) -> tuple[Any, Any]:
    """The values of a column of lists, and the length of each list."""
    values, offsets, _ = cells_of(column)
    return values, np.diff(np.empty(0) if offsets is None else offsets)


def _tensors(column: Any, task: Task) -> dict[str, Tensor]:
    """The whole sequences of a column of lists as one tensor, and what is left as one sequence."""
    values, lengths = _lists(column)
    if (lengths == task.length).all():
        return {task.names[0]: torch.from_numpy(values.reshape(-1, task.length))}
    # Sequences that are cut short are filled up, as a model takes them.
    tokens = np.zeros((len(lengths), task.length), values.dtype)
    is_token = np.arange(task.length) < lengths[:, None]
    tokens[is_token] = values
    return {
        task.names[0]: torch.from_numpy(tokens),
        "document": torch.from_numpy(is_token.astype(np.int32) - 1),
    }


def _stacked(sequences: Iterator[list[int]], task: Task) -> Iterator[Tensor]:
    """Batches of sequences; a shorter one by itself."""
    batch: list[list[int]] = []
    for sequence in sequences:
        if len(sequence) < task.length:
            yield torch.tensor([sequence])
            continue
        batch.append(sequence)
        if len(batch) == task.batch_size:
            yield torch.tensor(batch)
            batch = []
    if batch:
        yield torch.tensor(batch)


def grain(task: Task, _: object) -> Reading:
    """Grain's own packing, of its Parquet source: documents and positions, as ours."""
    module = importlib.import_module("grain")
    (name,) = task.names
    dtype = storage.schema(task.files[0], task.storage_options).field(name).type.value_type.to_pandas_dtype()
    rows = module.experimental.ParquetIterDataset(task.files)  # it reads all columns
    lists = rows.map(lambda row: {name: np.asarray(() if row[name] is None else row[name], dtype)})
    split = module.experimental.ConcatThenSplitIterDataset(lists, length_struct={name: task.length})
    return Reading(
        {
            name: torch.from_numpy(batch[name]),
            "document": torch.from_numpy(batch[f"{name}_segment_ids"] - 1),
        }
        for batch in iter(split.batch(task.batch_size))
    )


def litdata(task: Task, _: object) -> Reading:
    """The loader of tokens of litdata, over a copy of them that it has made before, which is not counted."""
    module = importlib.import_module("litdata")
    loaders = importlib.import_module("litdata.streaming.item_loader")
    (name,) = task.names
    dataset = module.StreamingDataset(_copied(task), item_loader=loaders.TokensLoader(task.length))

    def batches() -> Iterator[dict[str, Tensor]]:
        batch: list[Tensor] = []
        left = task.num_rows
        for tokens in dataset:
            if left < task.length:  # nothing is after the last token
                yield {name: tokens[None, :left]}
                break
            left -= task.length
            batch.append(tokens)
            if len(batch) == task.batch_size:
                yield {name: torch.stack(batch)}
                batch = []
        if batch:
            yield {name: torch.stack(batch)}

    return Reading(batches())


def _copied(task: Task) -> str:
    """A directory with all tokens in litdata's chunks, the last sequence filled up; the check makes it."""
    path = Path(task.scratch, "litdata")
    if path.exists():
        return str(path)
    writing = importlib.import_module("litdata.streaming.cache")
    loaders = importlib.import_module("litdata.streaming.item_loader")
    # A chunk has whole sequences: the loader would drop what is after them.
    tokens = loaders.TokensLoader(task.length)
    cache = writing.Cache(str(path), chunk_size=1024 * task.length, item_loader=tokens)
    number, left = 0, np.empty(0, np.int32)
    for table in row_groups_of(task.files, task):
        left = np.concatenate([left, cells_of(table.column(task.names[0])).values.astype(np.int32)])
        while len(left) >= task.length:
            cache[number], left = torch.from_numpy(left[: task.length].copy()), left[task.length :]
            number += 1
    if len(left):
        cache[number] = torch.from_numpy(np.pad(left, (0, task.length - len(left))))
    cache.done()
    cache.merge()
    return str(path)


PACKERS = (
    Contender("fastresume", "fastresume, packed, lengths read again", packed),
    Contender("fastresume-indexed", "fastresume, packed, lengths in a cache", packed_from_index),
    Contender("fastresume-shuffled", "fastresume, the same, shuffled", packed_and_shuffled),
    Contender("pyarrow", "pyarrow and numpy, a reshape", by_arrays, ARROW, FILES),
    Contender("python", "pyarrow and lists of Python", by_lists, ARROW, FILES),
    Contender(
        "datasets",
        "HF datasets, map over lists",
        mapped,
        ("datasets", "pyarrow"),
        FILES,
        environment=OFFLINE,
        reads_stores=False,  # but by a package for each store
    ),
    Contender(
        "datasets-arrow",
        "HF datasets, map over Arrow tables",
        mapped_arrow,
        ("datasets", "pyarrow"),
        FILES,
        environment=OFFLINE,
        reads_stores=False,
    ),
    Contender(
        "grain", "Grain, ConcatThenSplitIterDataset", grain, ("grain", "pyarrow"), FILES, reads_stores=False
    ),
    Contender(
        "litdata",
        "litdata, TokensLoader, over its copy",
        litdata,
        ("litdata", "pyarrow"),
        FILES,
        reads_stores=False,
    ),
)
