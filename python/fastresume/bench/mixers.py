"""The contenders that mix: rows of several sources, each by its weight, until one of them has ended.

What each delivers are batches of all columns, as tensors by name or as Arrow tables. Ours is at every place
within one row of the shares; most others draw the source of each row at random.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fastresume.batch.batch import Batch
from fastresume.bench import storage
from fastresume.bench.cells import tensors_of
from fastresume.bench.reading import Contender, Reading
from fastresume.bench.rivals import ARROW, FILES, OFFLINE, of_datasets, row_groups_of
from fastresume.bench.task import Source, Task
from fastresume.dataset import ParquetDataset
from fastresume.loader import Loader
from fastresume.mixture import Mixture


def mixture(task: Task, _: object) -> Reading:
    """Our own, on the caller's thread."""
    return _mixture(task)


def shuffled(task: Task, _: object) -> Reading:
    """The same, each source in a shuffled order."""
    return _mixture(task, shuffle=True)


def threads(task: Task, _: object) -> Reading:
    """The same as the first, decoded ahead by threads."""
    return _mixture(task, ahead=task.threads)


def _mixture(task: Task, shuffle: bool = False, ahead: int | None = None) -> Reading:
    sources = {
        f"{number}": (
            ParquetDataset(
                source.files,
                columns=task.names,
                shuffle=shuffle,
                storage_options=task.storage_options or None,
            ),
            source.weight,
        )
        for number, source in enumerate(task.sources)
    }
    mixed = Mixture(sources, batch_size=task.batch_size, tail="short", world=(0, 1))

    def batches() -> Iterator[Batch]:
        yield from mixed if ahead is None else Loader(mixed, threads=ahead)

    return Reading(batches())


def by_tables(task: Task, _: object) -> Reading:
    """The fastest code to write by hand: in each batch every source has its share, one after another."""
    arrow = importlib.import_module("pyarrow")
    whole = sum(source.weight for source in task.sources)

    def batches() -> Iterator[Any]:
        left = [arrow.table({})] * len(task.sources)
        sources = [row_groups_of(source.files, task) for source in task.sources]
        due, taken, most = np.zeros(len(sources)), np.zeros(len(sources), np.int64), 1.0
        while most == 1.0:
            due += [task.batch_size * source.weight / whole for source in task.sources]
            wanted = _whole(due, taken)
            taken += wanted
            for number, rows in enumerate(wanted):
                while left[number].num_rows < rows:
                    table = next(sources[number], None)
                    if table is None:  # so much of a batch is left
                        most = min(most, left[number].num_rows / rows)
                        break
                    held = [left[number]] if left[number].num_rows else []
                    left[number] = arrow.concat_tables([*held, table])
            wanted = np.floor(wanted * most).astype(np.int64)
            parts = [table.slice(0, rows) for table, rows in zip(left, wanted, strict=True) if rows]
            left = [table.slice(rows) for table, rows in zip(left, wanted, strict=True)]
            if parts:
                yield tensors_of(arrow.concat_tables(parts))

    return Reading(batches())


def _whole(due: Any, taken: Any) -> Any:
    """Whole numbers of rows whose sums so far differ from what is due by less than one."""
    wanted = np.floor(due).astype(np.int64) - taken
    missing = round(float(due.sum())) - int(taken.sum() + wanted.sum())
    wanted[np.argsort(np.floor(due) - due, kind="stable")[:missing]] += 1
    return wanted


def by_rows(task: Task, _: object) -> Reading:
    """Rows of Python: a source is drawn for each, and batches are made of lists."""
    weights = torch.tensor([source.weight for source in task.sources])
    dtypes = _dtypes(task)

    def batches() -> Iterator[dict[str, Tensor]]:
        sources = [_rows(source.files, task) for source in task.sources]
        generator, has_ended = torch.Generator().manual_seed(0), False
        while not has_ended:
            batch = []
            drawn = weights.multinomial(task.batch_size, replacement=True, generator=generator)
            for number in drawn.tolist():
                row = next(sources[number], None)
                if has_ended := row is None:
                    break
                batch.append(row)
            if batch:
                yield _joined(batch, dtypes)

    return Reading(batches())


def _rows(files: Sequence[str], task: Task) -> Iterator[dict[str, Any]]:
    for table in row_groups_of(files, task):
        yield from table.to_pylist()


def _dtypes(task: Task) -> dict[str, Any]:
    schema = storage.schema(task.files[0], task.storage_options)
    return {name: schema.field(name).type.to_pandas_dtype() for name in task.names}


def _joined(rows: Sequence[dict[str, Any]], dtypes: dict[str, Any]) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(np.array([row[name] for row in rows], dtype)) for name, dtype in dtypes.items()
    }


def interleaved(task: Task, _: object) -> Reading:
    """`interleave_datasets` of Hugging Face datasets, over streams."""
    return _interleaved(task, None)


def interleaved_copies(task: Task, _: object) -> Reading:
    """The same over copies that it has made before, which is not counted: an index of rows."""
    return _interleaved(task, str(Path(task.scratch, "datasets")))


def _interleaved(task: Task, copies: str | None) -> Reading:
    module = importlib.import_module("datasets")
    whole = sum(source.weight for source in task.sources)
    joined = module.interleave_datasets(
        [of_datasets(source.files, task, copies) for source in task.sources],
        probabilities=[source.weight / whole for source in task.sources],
        seed=0,
        stopping_strategy="first_exhausted",
    )
    tables = joined.with_format("arrow").iter(batch_size=task.batch_size)
    return Reading(tensors_of(table) for table in tables)


def grain(task: Task, _: object) -> Reading:
    """Grain's mixture of its Parquet sources, which is within one row of the shares, too."""
    module = importlib.import_module("grain")
    wanted, dtypes = task.names, _dtypes(task)
    rows = [module.experimental.ParquetIterDataset(source.files) for source in task.sources]
    mixed = module.IterDataset.mix(rows, weights=[source.weight for source in task.sources])
    batches = mixed.map(lambda row: {name: row[name] for name in wanted}).batch(task.batch_size)
    return Reading(
        {name: torch.from_numpy(batch[name].astype(dtypes[name], copy=False)) for name in wanted}
        for batch in iter(batches)
    )


def litdata(task: Task, _: object) -> Reading:
    """The mixture of litdata of its Parquet sources, whose indices are made before, which is not counted."""
    module = importlib.import_module("litdata")
    loader = importlib.import_module("litdata.streaming.item_loader").ParquetLoader
    dtypes = _dtypes(task)
    paths = [_indexed(source, Path(task.scratch, f"litdata-{n}")) for n, source in enumerate(task.sources)]
    mixed = module.CombinedStreamingDataset(
        [module.StreamingDataset(str(path), item_loader=loader()) for path in paths],
        weights=[source.weight for source in task.sources],
        iterate_over_all=False,
    )

    def batches() -> Iterator[dict[str, Tensor]]:
        rows = iter(mixed)
        while batch := list(itertools.islice(rows, task.batch_size)):
            yield _joined(batch, dtypes)

    return Reading(batches())


def _indexed(source: Source, path: Path) -> Path:
    """A directory with links to a source's files, and with litdata's index of them; the check makes it."""
    if not path.exists():
        path.mkdir()
        for number, file in enumerate(source.files):
            (path / f"{number:06}.parquet").symlink_to(file)
        importlib.import_module("litdata").index_parquet_dataset(str(path), num_workers=1)
    return path


MIXERS = (
    Contender("fastresume", "fastresume, a mixture", mixture),
    Contender("fastresume-shuffled", "fastresume, shuffled sources", shuffled),
    Contender("fastresume-threads", "fastresume, Loader with threads", threads),
    Contender("pyarrow", "pyarrow, shares of each batch", by_tables, ARROW, FILES),
    Contender("python", "pyarrow, rows of Python", by_rows, ARROW, FILES),
    Contender(
        "datasets",
        "HF datasets, interleave_datasets",
        interleaved,
        ("datasets", "pyarrow"),
        FILES,
        environment=OFFLINE,
        reads_stores=False,  # but by a package for each store
    ),
    Contender(
        "datasets-copied",
        "HF datasets, the same over its copies",
        interleaved_copies,
        ("datasets", "pyarrow"),
        FILES,
        environment=OFFLINE,
        reads_stores=False,
    ),
    Contender("grain", "Grain, IterDataset.mix", grain, ("grain", "pyarrow"), FILES, reads_stores=False),
    Contender(
        "litdata",
        "litdata, CombinedStreamingDataset",
        litdata,
        ("litdata", "pyarrow"),
        FILES,
        reads_stores=False,
    ),
)
