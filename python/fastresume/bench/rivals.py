"""The contenders that users would take instead, each used in its fastest way."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from fastresume.bench import storage
from fastresume.bench.cells import Cells, Ragged, cells_of, stacked_tensors_of, tensors_of
from fastresume.bench.delivered import num_rows
from fastresume.bench.reading import SKIPPING, STATE, Contender, Reading
from fastresume.bench.task import Task


def row_groups(task: Task, _: object) -> Reading:
    """Arrow tables, one for each row group."""
    return Reading(row_groups_of(task.files, task))


def row_group_tensors(task: Task, _: object) -> Reading:
    """The same, cut into batches of tensors."""
    return Reading(tensors_of(batch) for batch in _batches(task, 0, 1))


def row_groups_of(
    files: Iterable[str], task: Task, part: int = 0, parts: int = 1, names: Sequence[str] | None = None
) -> Iterator[Any]:
    """Arrow tables, one for each row group of some files; of several parts one."""
    number = 0
    for path in files:
        with storage.opened(path, task.storage_options) as file:
            for group in range(file.num_row_groups):
                if number % parts == part:
                    yield file.read_row_group(group, columns=names or task.names, use_threads=False)
                number += 1


def _batches(task: Task, part: int, parts: int) -> Iterator[Any]:
    for table in row_groups_of(task.files, task, part, parts):
        yield from table.to_batches(max_chunksize=task.batch_size)


def arrow_dataset(task: Task, _: object) -> Reading:
    """The threads of pyarrow.dataset, and tensors over its batches."""
    importlib.import_module("pyarrow").set_cpu_count(task.threads)
    module = importlib.import_module("pyarrow.dataset")
    if any(map(functools.partial(_is_stream, task), task.files)):
        # What it finds by paths are files alone.
        schema = storage.schema(task.files[0], task.storage_options)
        of_streams = (
            batch
            for table in row_groups_of(task.files, task, names=schema.names)
            for batch in table.to_batches()
        )
        dataset = module.Scanner.from_batches(
            of_streams, schema=schema, columns=task.names, batch_size=task.batch_size
        )
        return Reading(tensors_of(batch) for batch in dataset.to_batches() if batch.num_rows)
    places = [storage.arrow(file, task.storage_options) for file in task.files]
    form = "ipc" if task.is_of_arrow else "parquet"
    dataset = module.dataset([path for path, _ in places], format=form, filesystem=places[0][1])
    batches = dataset.to_batches(columns=task.names, batch_size=task.batch_size)
    return Reading(tensors_of(batch) for batch in batches if batch.num_rows)


def polars(task: Task, _: object) -> Reading:
    """Data frames, one for each file: of polars' ways the cheapest one on one thread."""
    module, options = importlib.import_module("polars"), task.storage_options or None

    def frame(path: str) -> Any:
        if _is_stream(task, path):
            return module.read_ipc_stream(path, columns=task.names, storage_options=options)
        if task.is_of_arrow:
            found = module.scan_ipc(path, storage_options=options)
        else:
            found = module.scan_parquet(path, parallel="none", storage_options=options)
        return found.select(task.names).collect(engine="in-memory")

    return Reading(map(frame, task.files))


def _is_stream(task: Task, file: str) -> bool:
    """Whether it is a stream of Arrow, which has no footer."""
    if not task.is_of_arrow:
        return False
    with storage.opened(file, task.storage_options) as found:
        return bool(found.is_stream)


def duckdb(task: Task, _: object) -> Reading:
    """Arrow batches, which is how DuckDB hands over columns."""
    connection = importlib.import_module("duckdb").connect(":memory:", config={"threads": 1})
    columns = ", ".join('"' + name.replace('"', '""') + '"' for name in task.names)
    files = ", ".join("'" + path.replace("'", "''") + "'" for path in task.files)
    found = connection.sql(f"SELECT {columns} FROM read_parquet([{files}])")  # noqa: S608  (quoted above)
    # Version 2 renamed it.
    begin = getattr(found, "to_arrow_reader", None) or found.fetch_record_batch
    return Reading(begin(1 << 17))


def of_datasets(files: Sequence[str], task: Task, copies: str | None = None) -> Any:
    """A dataset of Hugging Face datasets: a stream, or over a copy in Arrow's format in `copies`."""
    module, arrow = importlib.import_module("datasets"), importlib.import_module("pyarrow")
    if storage.is_arrow(files[0]):
        of_arrow = module.load_dataset("arrow", data_files=list(files), split="train", streaming=True)
        return of_arrow.select_columns(task.names)
    schema = storage.schema(files[0], task.storage_options)
    # It would refuse files because of the types of columns that are not read.
    read = arrow.schema([schema.field(name) for name in task.names], metadata=schema.metadata)
    return module.load_dataset(
        "parquet",
        data_files=list(files),
        columns=task.names,
        features=module.Features.from_arrow_schema(read),
        split="train",
        streaming=copies is None,
        cache_dir=copies,
    )


def hugging_face(task: Task, state: Any) -> Reading:
    """A streaming dataset; its torch format would change types, so tensors are made from its Arrow tables."""
    dataset = of_datasets(task.files, task).with_format("arrow")
    if state is not None:
        dataset.load_state_dict(state)
    batches = dataset.iter(batch_size=task.batch_size)
    return Reading((tensors_of(table) for table in batches), dataset.state_dict)


class RowGroups(IterableDataset[Any]):
    """What users write for a DataLoader: each worker reads its share of the row groups with pyarrow.

    One matrix per type: sending a tensor to another process costs more than making it.
    """

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def __iter__(self) -> Iterator[Any]:
        """Batches of tensors."""
        worker = get_worker_info()
        place = (worker.id, worker.num_workers) if worker else (0, 1)
        for batch in _batches(self.task, *place):
            yield stacked_tensors_of(batch, self.task.stacks)


def data_loader(task: Task, _: object) -> Reading:
    """The worker processes of torch's DataLoader."""
    return Reading(iter(DataLoader(RowGroups(task), batch_size=None, num_workers=task.threads)))


def stateful_data_loader(task: Task, state: Any) -> Reading:
    """The same with a state: rows before it are read again, because the dataset keeps no state of its own."""
    module = importlib.import_module("torchdata.stateful_dataloader")
    loader = module.StatefulDataLoader(RowGroups(task), batch_size=None, num_workers=task.threads)
    if state is not None:
        loader.load_state_dict(state)
    return Reading(iter(loader), loader.state_dict)


@functools.cache  # cached while the process warms up, so that no measured pass decodes
def _decoded(task: Task) -> dict[str, Cells]:
    if task.is_of_arrow:
        whole = importlib.import_module("pyarrow").concat_tables(list(row_groups_of(task.files, task)))
        return {name: cells_of(whole.column(name)) for name in task.names}
    places = [storage.arrow(file, task.storage_options) for file in task.files]
    read = functools.partial(
        importlib.import_module("pyarrow.parquet").read_table,
        [path for path, _ in places],
        filesystem=places[0][1],
    )
    return {name: cells_of(read(columns=[name]).column(0)) for name in task.names}


def numpy_floor(task: Task, _: object) -> Reading:
    """No decoding at all: slices of columns in memory, copied into new tensors."""
    cells = _decoded(task)

    def batches() -> Iterator[Any]:
        for start in range(0, task.num_rows, task.batch_size):
            end = min(start + task.batch_size, task.num_rows)
            batch: dict[str, Any] = {}
            for name, (values, offsets, valid) in cells.items():
                mask = None if valid is None else torch.from_numpy(valid[start:end].copy())
                if offsets is not None:
                    inside = torch.from_numpy(values[offsets[start] : offsets[end]].copy())
                    batch[name] = Ragged(
                        inside, torch.from_numpy(offsets[start : end + 1] - offsets[start]), mask
                    )
                    continue
                batch[name] = torch.from_numpy(np.array(values[start:end]))
                if mask is not None:
                    batch[f"{name}_valid"] = mask
            yield batch

    return Reading(batches())


ONE_THREAD = {"POLARS_MAX_THREADS": "1"}
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
ARROW = ("pyarrow",)
# pyarrow imports pandas with the first array that it makes, and torch's workers import numpy.random. If these
# are not imported yet, every worker imports them again, and pandas takes a second.
FILES = ("pyarrow.parquet", "pyarrow.compute", "pandas", "numpy.random")

RIVALS = (
    Contender("pyarrow", "pyarrow row groups, one thread, decode only", row_groups, ARROW, FILES),
    Contender(
        "pyarrow-tensors",
        "pyarrow row groups, one thread, to tensors",
        row_group_tensors,
        ARROW,
        FILES,
        resumes=SKIPPING,
    ),
    Contender(
        "pyarrow-dataset",
        "pyarrow.dataset, threads, to tensors",
        arrow_dataset,
        ARROW,
        (*FILES, "pyarrow.dataset"),
        resumes=SKIPPING,
    ),
    Contender("polars", "polars, one thread, decode only", polars, ("polars",), environment=ONE_THREAD),
    Contender(
        "duckdb",
        "DuckDB, one thread, to Arrow",
        duckdb,
        ("duckdb", "pyarrow"),
        FILES,
        reads_stores=False,  # but by an extension that it downloads
        reads_arrow=False,  # as above
    ),
    Contender(
        "datasets",
        "HF datasets, streaming, to tensors",
        hugging_face,
        ("datasets", "pyarrow"),
        FILES,
        resumes=STATE,
        environment=OFFLINE,
        reads_stores=False,  # but by a package for each store
    ),
    Contender(
        "dataloader",
        "DataLoader over pyarrow, stacked",
        data_loader,
        ARROW,
        FILES,
        resumes=SKIPPING,
    ),
    Contender(
        "torchdata",
        "StatefulDataLoader over pyarrow, stacked",
        stateful_data_loader,
        ("torchdata", "pyarrow"),
        (*FILES, "torchdata.stateful_dataloader"),
        resumes=STATE,
    ),
    Contender(
        "numpy",
        "numpy, copies of decoded columns",
        numpy_floor,
        ARROW,
        FILES,
        is_default=False,
    ),
)


def skipped(reading: Reading, rows: int) -> Reading:
    """The same after `rows` rows, which are read and discarded."""

    def batches() -> Iterator[object]:
        passed = 0
        for batch in reading.batches:
            passed += num_rows(batch)
            if passed > rows:
                yield batch

    return Reading(batches())
