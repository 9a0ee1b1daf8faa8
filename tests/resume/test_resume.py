"""Laws 2 and 12: a job that was killed goes on bit for bit, and reads nothing again.

Here a kill drops everything that a job holds. Processes that die are in test_processes.py, and what a
DataLoader's workers must see is in test_dataloader.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import fastresume as fr
from support import oracle
from support.cells import written_cells
from support.columns import tables
from support.conditions import selections_of
from support.each_of import each_of
from support.jobs import (
    FEW,
    MANY_WORKERS,
    THREADS,
    assert_batch,
    data_loader,
    draw_by_batch,
    draw_by_row,
    drawn_of,
    make,
    make_reader,
    oracle_job,
    parallel,
    rows_of,
    text_of,
)
from support.layouts import Contents, layouts
from support.strategies import Dataset, DatasetSpec, dataset_specs, plain_spec, written
from support.topologies import TAILS, Chosen, Shuffle, Topology, orders, topologies

pytestmark = MANY_WORKERS

Write = Callable[[DatasetSpec], Dataset]


# ---------------------------------------------------------------------------------------------- law 2: resume


@pytest.mark.law(2)
@pytest.mark.parametrize("threads", THREADS)
@FEW
@given(
    spec=st.one_of(dataset_specs(min_rows=1, max_columns=2), tables(min_rows=1, max_files=2, max_columns=2)),
    data=st.data(),
)
def test_resume_after_every_batch_equals_no_interruption(
    threads: int | None, spec: DatasetSpec, data: st.DataObject
) -> None:
    """Whatever the columns, their layout, the rows that are chosen or filtered, and the transforms."""
    cells = written_cells(spec)
    chosen = data.draw(selections_of(spec, cells))
    selected = (chosen or Chosen()).selected(spec.num_rows)
    topology = data.draw(topologies(rows=len(selected), workers=st.just(0), tails=TAILS))
    shuffle = data.draw(orders(len(selected)))
    table = Contents(cells, data.draw(layouts(cells)))
    mapped = data.draw(st.booleans())
    with written(spec) as files:
        rank = data.draw(st.integers(0, topology.world_size - 1))

        def make_rank() -> fr.ParquetDataset:
            how = {} if shuffle is None else shuffle.arguments
            how |= {} if chosen is None else chosen.arguments
            how |= {**table.layout.arguments, **topology.arguments}
            made = make(files, **how, **parallel(rank, topology.world_size))
            return made.map(draw_by_row).map(draw_by_batch) if mapped else made

        groups = oracle.group_rows_of(files.directory)
        job = oracle_job(spec.num_rows, topology, make_rank().fingerprint, shuffle, groups, chosen)
        seed = 0 if shuffle is None else shuffle.seed
        states = [job.state()]
        steps = []
        while job.epoch < 2:
            epoch, number, step = job.epoch, job.steps_done, job.step()
            assert step is not None
            states.append(job.state())
            drawn = drawn_of(seed, epoch, number, rank, job.positions[rank]) if mapped else None
            steps.append((step[rank], epoch, number, job.state(), job.valid[rank], drawn))
        a_pass = len(steps) // 2
        for k in range(0, a_pass + 1, 1 + a_pass // 12):  # some 12 resumes an example are enough
            resumed = make_reader(make_rank(), threads)
            resumed.load_state_dict({"fastresume": states[k]})
            found = [*resumed, *(resumed if k < a_pass else ())]
            for batch, expected in zip(found, steps[k:], strict=True):
                assert_batch(batch, table, *expected)


@pytest.mark.law(2)
@pytest.mark.processes
@pytest.mark.parametrize(
    ("workers", "rank", "tail", "shuffle"),
    [
        (0, 0, "drop", None),
        (0, 1, "pad", Shuffle(17, 20, 45)),
        (1, 0, "drop", None),
        (2, 1, "pad", Shuffle(17, 20, 45)),
        pytest.param(1, 1, "pad", Shuffle(17, 20, 45), marks=pytest.mark.slow),
        pytest.param(2, 0, "drop", None, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_resume_of_a_dataloader_after_every_batch_equals_no_interruption(
    small_dataset: Dataset, workers: int, rank: int, tail: str, shuffle: Shuffle | None
) -> None:
    table = oracle.read_table(small_dataset.directory)
    order = {} if shuffle is None else shuffle.arguments

    def make_loader() -> DataLoader[fr.Batch]:
        dataset = make(small_dataset, 8, **order, tail=tail, **parallel(rank, 2))
        return data_loader(dataset, workers)

    topology = Topology(2, workers, 8, tail=tail)
    groups = oracle.group_rows_of(small_dataset.directory)
    job = oracle_job(103, topology, make_loader().dataset.fingerprint, shuffle, groups)
    states, steps = [job.state()], []
    while job.epoch < 2:
        epoch, number, step = job.epoch, job.steps_done, job.step()
        assert step is not None
        states.append(job.state())
        steps.append((step[rank], epoch, number, job.state(), job.valid[rank]))
    a_pass = len(steps) // 2
    # Workers take long to start: one of them resumes after every other batch, two resume after the others.
    for k in range(workers // 2, a_pass + 1, 2 if workers else 1):
        loader = make_loader()
        loader.dataset.load_state_dict({"fastresume": states[k]})
        found = [*loader, *(loader if k < a_pass else ())]
        for batch, expected in zip(found, steps[k:], strict=True):
            assert_batch(batch, table, *expected)
        assert text_of(loader.dataset.state_dict()) == states[-1]


def start_late(worker: int) -> None:
    """A `worker_init_fn`: the first worker is long done when the others begin."""
    time.sleep(0.25 * worker)


@pytest.mark.law(1)
@pytest.mark.law(2)
@pytest.mark.processes
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    ("workers", "done"), [(3, 9), *(pytest.param(*how, marks=pytest.mark.slow) for how in ((2, 9), (3, 8)))]
)
def test_a_worker_that_starts_late_starts_where_the_others_did(
    small_dataset: Dataset, persistent: bool, workers: int, done: int
) -> None:
    """Also if it has nothing to deliver, and the pass ends before it looks where to start."""
    dataset = make(small_dataset)
    dataset.load_state_dict(list(make(small_dataset))[done - 1].state_dict())
    loader = data_loader(dataset, workers, persistent_workers=persistent, worker_init_fn=start_late)
    places = [[(batch.epoch, batch.step) for batch in loader] for _ in range(2)]
    assert places == [[(0, step) for step in range(done, 10)], [(1, step) for step in range(10)]]


@pytest.mark.law(2)
def test_a_resumed_job_says_the_same_of_itself(small_dataset: Dataset) -> None:
    dataset = make(small_dataset)
    for batch in dataset:
        resumed = make(small_dataset)
        resumed.load_state_dict(batch.state_dict())
        assert resumed.state_dict() == batch.state_dict() == dataset.state_dict()
        assert (resumed.batches_left, resumed.epoch) == (dataset.batches_left, dataset.epoch)
        assert len(resumed) == len(dataset) == 10


# --------------------------------------------------------------------------------- law 12: seek, never replay


def spoil(file: Path, groups: range) -> None:
    """Overwrite the pages of some row groups; size and footer stay as they are."""
    metadata = pq.read_metadata(file)
    with file.open("r+b") as opened:
        for group in groups:
            column = metadata.row_group(group).column(0)
            start = column.dictionary_page_offset or column.data_page_offset
            opened.seek(start)
            opened.write(b"\xff" * column.total_compressed_size)


@pytest.mark.law(12)
@each_of("threads", THREADS)
def test_a_resume_reads_nothing_of_what_was_delivered(write_dataset: Write, threads: int | None) -> None:
    for group in (1, 7, 19):
        files = write_dataset(plain_spec([10] * 20))
        state = list(make(files, 5))[2 * group].state_dict()  # one batch of the group was delivered
        dataset = make(files, 5)
        spoil(files.files[0], range(group))
        spoiled = make(files, 5)
        with pytest.raises(fr.DataError):
            list(make_reader(spoiled, threads))
        loader = make_reader(dataset, threads)
        loader.load_state_dict(state)
        assert rows_of(loader)[0] == list(range(10 * group + 5, 10 * group + 10))
        assert loader.epoch == 1


@pytest.mark.law(12)
def test_the_first_batch_of_a_resume_decodes_one_row_group(write_dataset: Write) -> None:
    for group in (0, 3, 18):
        files = write_dataset(plain_spec([10] * 20))
        state = list(make(files, 5))[2 * group].state_dict()
        dataset = make(files, 5)
        spoil(files.files[0], range(group))
        spoil(files.files[0], range(group + 1, 20))
        dataset.load_state_dict(state)
        iterator = iter(dataset)
        assert next(iterator).rows().tolist() == list(range(10 * group + 5, 10 * group + 10))
        with pytest.raises(fr.DataError):
            next(iterator)


@pytest.mark.law(12)
def test_a_rank_reads_its_own_part_of_the_files_and_nothing_else(write_dataset: Write) -> None:
    for rank in range(4):
        files = write_dataset(plain_spec([10] * 5, [10] * 5, [10] * 5, [10] * 5))
        dataset = make(files, 5, **parallel(rank, 4))
        for other in range(4):
            if other != rank:
                spoil(files.files[other], range(5))
        rows = [row for batch in rows_of(dataset) for row in batch]
        assert rows == list(range(50 * rank, 50 * rank + 50))
