"""Arguments that there are not, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import NoReturn

OF_COLUMNS = {
    "stack": "columns=[fr.stack('i_*', name='dense')]",
    "cast": "columns=[fr.col(name).cast(torch.float32)]",
    "hash": "columns=[fr.col(name).hash(buckets, seed=0)]",
    "dictionary": "columns=[fr.col(name).codes()]",
    "rename": "columns=[fr.col(name).alias(new)]",
    "pad": "columns=[fr.col(name).pad(length, truncate='head')]",
    "truncate": "columns=[fr.col(name).pad(length, truncate='head')]",
    "fixed": "columns=[fr.col(name).fixed(length)]",
    "decimals": "columns=[fr.col(name).decimal('float64')]",
    "optional": "columns=[fr.col(name).optional()]",
    "partitions": "columns=[fr.col(name).from_path()]",
    "partitioning": "columns=[fr.col(name).from_path()]",
    "fill_null": "columns=[fr.col(name).fill_null(value)]",
    "dtype": "columns=[fr.col(name).cast(dtype)]",
    "schema": "columns=[fr.col(name).cast(dtype)]; dataset.schema tells what there is",
}

OF_LOADERS = {
    "num_workers": "fr.Loader(dataset, num_workers=n), or no workers: threads decode",
    "prefetch_factor": "fr.Loader(dataset, prefetch_bytes=...)",
    "pin_memory": "fr.Loader(dataset, device='cuda')",
    "device": "fr.Loader(dataset, device='cuda')",
    "persistent_workers": "fr.Loader(dataset, num_workers=n): its workers live as long as it does",
    "worker_init_fn": "dataset.map(function), which runs in the workers",
    "threads": "fr.Loader(dataset, threads=n)",
}

ANYWHERE = {
    "drop_last": "tail='drop' (the default), 'short' or 'pad' of ParquetDataset",
    "collate_fn": "dataset.map(function): a batch is whole already",
    "transform": "dataset.map(function)",
    "transforms": "dataset.map(function)",
    "map": "dataset.map(function)",
    "batched": "dataset.map(function), which gets whole batches",
    "set_epoch": "nothing: each pass is shuffled anew, and batch.epoch tells which it is",
    "epoch": "nothing: each pass is shuffled anew, and dataset.epoch tells which is next",
    "epochs": "for epoch in range(loader.epoch, epochs): for batch in loader: ...",
    "infinite": "while True: for batch in loader: ...",
    "sampler": "shuffle=True and world= of ParquetDataset",
    "batch_sampler": "batch_size=, shuffle=True and world= of ParquetDataset",
    "generator": "seed= of ParquetDataset",
    "split": "rows=fr.Split(0.0, 0.9) of ParquetDataset",
    "streaming": "nothing: files are never read whole",
    "shuffle_buffer": "shuffle=True of ParquetDataset; window_rows= says how far rows move",
    "buffer_size": "shuffle=True of ParquetDataset; window_rows= says how far rows move",
}

OF_DATASETS = {
    **ANYWHERE,
    **OF_COLUMNS,
    **OF_LOADERS,
    "skip": "rows=~fr.Intervals([[start, stop], ...])",
    "filters": "filter=",
    "data_files": "the first argument, paths",
    "data_dir": "the first argument, paths",
    "num_shards": "world=fr.World(rank, world_size)",
    "shard": "world=fr.World(rank, world_size)",
    "limit": "rows=[[0, n]]",
}

OF_LOADER = {
    **ANYWHERE,
    "batch_size": "ParquetDataset(paths, batch_size=n)",
    "shuffle": "ParquetDataset(paths, shuffle=True)",
    "seed": "ParquetDataset(paths, seed=n)",
    "columns": "ParquetDataset(paths, columns=[...])",
    "pin_memory": "device='cuda'",
    "persistent_workers": "nothing: workers live as long as the loader",
    "worker_init_fn": "dataset.map(function), which runs in the workers",
    "timeout": "watchdog_seconds=",
    "in_order": "nothing: batches always come in order",
    "prefetch": "prefetch_bytes=",
}


def refuse_unknown(
    what: str, given: Mapping[str, object], told: Mapping[str, str], there: Iterable[str]
) -> None:
    """Refuses arguments that there are not.

    Raises:
        TypeError: naming the first of them, and what to write instead.
    """
    for name in given:
        _refuse(what, name, told, list(there))


def _refuse(what: str, name: str, told: Mapping[str, str], there: list[str]) -> NoReturn:
    if name in told:
        raise TypeError(f"{what} has no argument {name}=: write {told[name]}")
    close = difflib.get_close_matches(name, there, 1, 0.7)
    hint = f": did you mean {close[0]}=?" if close else f"; there are {', '.join(there)}"
    raise TypeError(f"{what} has no argument {name}={hint}")
