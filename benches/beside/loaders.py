"""The loaders, each used as its documentation says that a job should be saved and resumed.

Each function opens a rank's part of a job. `states` are what the ranks of the job before it saved.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from beside.job import BUFFER_ROWS, FILES, LANES, MIXED_ROWS, SETS, SHARDS, Job, Reading

States = Sequence[Any]


def fastresume(job: Job, states: States) -> Reading:
    """The state of a batch, of any rank."""
    import fastresume as fr

    def dataset(data: str, **options: Any) -> Any:
        path = job.path("parquet", data) + "/*.parquet"
        return fr.ParquetDataset(path, shuffle=job.shuffle, columns=["id"], **options)

    place = {"batch_size": job.batch_size, "rank": job.rank, "world_size": job.world_size}
    if job.weights is None:
        read = dataset(job.data, tail="short", **place)
    else:
        sources = {name: (dataset(name), weight) for name, weight in zip("ab", job.weights, strict=True)}
        read = fr.Mixture(sources, **place)
    loader = fr.Loader(read, num_workers=job.num_workers)
    if states:
        loader.load_state_dict(states[0])
    kept: list[fr.Batch] = []

    def batches() -> Iterator[list[int]]:
        for batch in loader:
            kept[:] = [batch]
            yield batch["id"].tolist()

    def state() -> object:
        return kept[0].state_dict()

    return Reading(batches(), state, loader.close)


class Rows:
    """Rows by their number, as torch's `DataLoader` and Grain take them: ids of Parquet files, in memory."""

    def __init__(self, path: str) -> None:
        import pyarrow.parquet as pq

        files = sorted(Path(path).glob("*.parquet"))
        self.ids = np.concatenate([pq.read_table(file, columns=["id"])["id"].to_numpy() for file in files])

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: Any) -> int:
        return int(self.ids[row])


def stateful_data_loader(job: Job, states: States) -> Reading:
    """StatefulDataLoader over rows by their number, with a sampler for ranks. Each rank has its state.

    StatefulDataLoader mixes nothing; `torchdata.nodes` does.
    """
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    if job.weights is not None:
        return _nodes(job, states)
    rows = Rows(job.path("parquet"))
    sampler = StatefulDistributedSampler(
        rows, num_replicas=job.world_size, rank=job.rank, shuffle=job.shuffle, seed=0
    )
    loader = StatefulDataLoader(rows, batch_size=job.batch_size, sampler=sampler, num_workers=job.num_workers)
    if states:
        loader.load_state_dict(states[job.rank])
    return Reading((batch.tolist() for batch in loader), loader.state_dict)


def _nodes(job: Job, states: States) -> Reading:
    from torchdata import nodes

    sources = {name: nodes.IterableWrapper(Rows(job.path("parquet", name)).ids.tolist()) for name in "ab"}
    mixed = nodes.MultiNodeWeightedSampler(
        sources, dict(zip("ab", job.weights, strict=True)), rank=0, world_size=1, seed=0
    )
    loader = nodes.Loader(nodes.Batcher(mixed, batch_size=job.batch_size))
    if states:
        loader.load_state_dict(states[0])
    return Reading(iter(loader), loader.state_dict)


def hugging_face(job: Job, states: States) -> Reading:
    """A stream, split by ranks, in StatefulDataLoader, as its pages advise. Each rank has its state."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    import datasets
    from datasets.distributed import split_dataset_by_node
    from torchdata.stateful_dataloader import StatefulDataLoader

    def stream(data: str) -> Any:
        files = sorted(map(str, Path(job.path("parquet", data)).glob("*.parquet")))
        found = datasets.load_dataset(
            "parquet", data_files=files, split="train", streaming=True, cache_dir=job.path("hf", data)
        )
        return found.shuffle(seed=0, buffer_size=BUFFER_ROWS) if job.shuffle else found

    if job.weights is None:
        read = stream(job.data)
    else:
        read = datasets.interleave_datasets(
            [stream(name) for name in "ab"], probabilities=list(job.weights), seed=0
        )
    read = split_dataset_by_node(read, rank=job.rank, world_size=job.world_size)
    loader = StatefulDataLoader(read, batch_size=job.batch_size, num_workers=job.num_workers)
    if states:
        loader.load_state_dict(states[job.rank])
    return Reading((batch["id"].tolist() for batch in loader), loader.state_dict)


def litdata(job: Job, states: States) -> Reading:
    """Chunks that `optimize` wrote: the state of the loader, of any rank."""
    os.environ |= {"WORLD_SIZE": str(job.world_size), "GLOBAL_RANK": str(job.rank), "NNODES": "1"}
    import litdata as lit

    def stream(data: str) -> Any:
        return lit.StreamingDataset(job.path("litdata", data), shuffle=job.shuffle, seed=0, drop_last=False)

    if job.weights is None:
        read = stream(job.data)
    else:
        read = lit.CombinedStreamingDataset(
            [stream(name) for name in "ab"], seed=0, weights=list(job.weights), iterate_over_all=False
        )
    loader = lit.StreamingDataLoader(read, batch_size=job.batch_size, num_workers=job.num_workers)
    if states:
        loader.load_state_dict(states[0])
    return Reading((batch.tolist() for batch in loader), loader.state_dict)


def mosaic(job: Job, states: States) -> Reading:
    """MDS shards, and the loader's state on rank 0. Shared memory of killed jobs is removed first."""
    world = {"RANK": job.rank, "LOCAL_RANK": job.rank, "WORLD_SIZE": job.world_size}
    world["LOCAL_WORLD_SIZE"] = job.world_size
    os.environ |= {name: str(value) for name, value in world.items()}
    import streaming

    streaming.base.util.clean_stale_shared_memory()
    if job.weights is None:
        where: dict[str, Any] = {"local": job.path("mosaic")}
    else:
        sources = zip("ab", job.weights, strict=True)
        where = {
            "streams": [
                streaming.Stream(local=job.path("mosaic", name), proportion=w) for name, w in sources
            ],
            "epoch_size": MIXED_ROWS,
            "batching_method": "stratified",
        }
    read = streaming.StreamingDataset(shuffle=job.shuffle, shuffle_seed=0, batch_size=job.batch_size, **where)
    loader = streaming.StreamingDataLoader(read, batch_size=job.batch_size, num_workers=job.num_workers)
    if states:
        loader.load_state_dict(states[0])
    return Reading((batch["id"].tolist() for batch in loader), loader.state_dict)


def grain(job: Job, states: States) -> Reading:
    """Grain's experimental `ElasticIterator`, whose state is that of any rank; mixed by `IterDataset.mix`."""
    import grain

    workers = grain.MultiprocessingOptions(num_workers=job.num_workers) if job.num_workers else None
    if job.weights is None:
        rows = grain.MapDataset.source(Rows(job.path("parquet")))
        read = grain.experimental.ElasticIterator(
            rows.shuffle(seed=0) if job.shuffle else rows,
            job.batch_size * job.world_size,
            grain.sharding.ShardOptions(shard_index=job.rank, shard_count=job.world_size),
            multiprocessing_options=workers,
        )
    else:
        sources = {
            name: grain.MapDataset.source(Rows(job.path("parquet", name))).to_iter_dataset() for name in "ab"
        }
        weights = dict(zip("ab", job.weights, strict=True))
        read = grain.IterDataset.mix(sources, weights).batch(job.batch_size)
    iterator = iter(read)
    if states:
        iterator.set_state(states[0])

    def batches() -> Iterator[list[int]]:
        while True:
            try:
                yield next(iterator).tolist()
            except StopIteration:
                return

    return Reading(batches(), iterator.get_state, getattr(iterator, "close", lambda: None))


def zephon(job: Job, states: States) -> Reading:
    """Lanes for all numbers of ranks that divide `LANES`. Ranks make one checkpoint together.

    Its workers are threads, of which there is one at least.
    """
    from zephon.io import Dataset
    from zephon.pipeline import Pipeline
    from zephon.work import MixtureSpec, StaticMixtureWorkSource

    names = ["all"] if job.weights is None else ["a", "b"]
    paths = [job.path("parquet", job.data if job.weights is None else name) for name in names]
    source = StaticMixtureWorkSource(
        datasets=[Dataset.from_path(*each, fmt="parquet") for each in zip(names, paths, strict=True)],
        mixture=MixtureSpec(dict(zip(names, job.weights or [1.0], strict=True))),
        chunk_size=job.batch_size,
        seed=0,
        shuffle_shards=job.shuffle,
        shuffle_within_shard=job.shuffle,
        exhausted_policy="stop",
    )
    pipeline = (
        Pipeline(source)
        .fetch(parallelism=max(1, job.num_workers))
        .batch(microbatch_size=job.batch_size, drop_last=False)
        .options(
            world_size=job.world_size,
            global_rank=job.rank,
            canonical_replicas=LANES if job.world_size > 1 else None,
            aggregate_dir=job.path("zephon"),
            run_id=f"{os.getppid()}-{job.world_size}-{job.num_workers}-{job.shuffle}-{bool(states)}",
        )
    )
    if states:
        pipeline.restore(states[0])
    return Reading(
        ([record.payload["id"] for record in batch.records] for batch in pipeline), pipeline.checkpoint
    )


# --------------------------------------------------------------------------------------------------- the data


def write_parquet(directory: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for data, ids in SETS.items():
        place = Path(Job(directory, data).path("parquet"))
        place.mkdir(parents=True)
        for number in range(FILES):
            part = np.array_split(np.asarray(ids), FILES)[number]
            table = pa.table({"id": part, "x": part.astype(np.float32)})
            pq.write_table(table, place / f"part-{number:02}.parquet", row_group_size=len(ids) // SHARDS)


def as_it_is(row: Any) -> Any:
    return row


def write_litdata(directory: str) -> None:
    import litdata as lit

    for data, ids in SETS.items():
        lit.optimize(
            fn=as_it_is,
            inputs=list(ids),
            output_dir=Job(directory, data).path("litdata"),
            chunk_size=len(ids) // SHARDS,
            num_workers=1,
        )


def write_mosaic(directory: str) -> None:
    import streaming

    for data, ids in SETS.items():
        out = Job(directory, data).path("mosaic")
        with streaming.MDSWriter(
            out=out, columns={"id": "int64"}, size_limit=12 * len(ids) // SHARDS
        ) as writer:
            for row in ids:
                writer.write({"id": np.int64(row)})


@dataclass(frozen=True)
class Loader:
    """A loader by its name in tables: the package, what its processes import at once, and how it is used."""

    title: str
    package: str
    imports: tuple[str, ...]
    open: Callable[[Job, States], Reading]
    write: Callable[[str], None] = write_parquet
    mixes_in_order: bool = True
    """Whether a mixture reads each source in its order, so that rows that it passes over can be counted."""


LOADERS = {
    "fastresume": Loader("fastresume", "fastresume", ("torch", "fastresume"), fastresume),
    "torchdata": Loader(
        "StatefulDataLoader",
        "torchdata",
        ("pyarrow.parquet", "torchdata.stateful_dataloader", "torchdata.nodes"),
        stateful_data_loader,
    ),
    "datasets": Loader(
        "HF datasets", "datasets", ("datasets", "torchdata.stateful_dataloader"), hugging_face
    ),
    "litdata": Loader("litdata", "litdata", ("litdata",), litdata, write_litdata),
    "mosaic": Loader("Mosaic streaming", "mosaicml-streaming", ("streaming",), mosaic, write_mosaic, False),
    "grain": Loader("Grain", "grain", ("grain", "pyarrow.parquet"), grain),
    "zephon": Loader("Zephon", "zephon", ("zephon", "pyarrow.parquet"), zephon),
}
