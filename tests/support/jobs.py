"""The ranks of a job in lockstep in this one process, compared with the oracle's job at every step.

A rank with workers is simulated: its workers' iterators, made by the dataset's own method, take turns as in a
torch DataLoader. tests that need the DataLoader itself, with its processes, say so.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.reading.torch_dataloader.iterator import WorkerIterator
from support import oracle
from support.layouts import Contents
from support.strategies import Dataset
from support.topologies import Chosen, Shuffle, Topology

Table = Mapping[str, np.ndarray] | Contents
"""What a dataset holds: a column of numbers each, or cells of any kind under a layout."""

REST = r"pass ends here, with {} rows? left of it"
"""The warning of a pass that ends without a batch: it counts the rest."""

THREADS = (None, 1, 2, 4)
"""`iter(dataset)`, and loaders with so many threads."""

WORKERS = st.sampled_from((0, 0, 0, 1, 2, 3, 4))
"""None, more often than not: then every rank also tells its state and what is left between steps."""

FEWER = settings(max_examples=max(5, settings.default.max_examples // 2))
"""For tests of which one example is many jobs."""

FEW = settings(max_examples=max(5, settings.default.max_examples // 4))
"""For tests of which one example is many jobs, for each of several numbers of threads."""

MANY_WORKERS = pytest.mark.filterwarnings("ignore:This DataLoader will create .* processes:UserWarning")
"""For tests with more workers than torch thinks good."""


def parallel(rank: int = 0, world_size: int = 1) -> dict[str, Any]:
    """The arguments that place a dataset on a rank, whatever the environment says."""
    return {"rank": rank, "world_size": world_size}


def make(dataset: Dataset, batch_size: int | None = 10, **arguments: Any) -> fr.ParquetDataset:
    """A dataset of one rank, unless the arguments say otherwise."""
    return fr.ParquetDataset(dataset.directory, **{"batch_size": batch_size, **parallel(), **arguments})


def make_reader(dataset: fr.ParquetDataset, threads: int | None) -> fr.ParquetDataset | fr.Loader:
    """The dataset itself, or a loader with threads."""
    return dataset if threads is None else fr.Loader(dataset, threads=threads)


def rows_of(batches: Iterator[fr.Batch] | list[fr.Batch]) -> list[list[int]]:
    """The row numbers of batches."""
    return [batch.rows().tolist() for batch in batches]


def fork(workers: int) -> dict[str, Any]:
    """The arguments of a DataLoader that forks so many workers."""
    return {"multiprocessing_context": "fork", "timeout": 60} if workers else {}


def data_loader(dataset: fr.ParquetDataset, workers: int, **how: Any) -> DataLoader[fr.Batch]:
    """A DataLoader of so many forked workers."""
    return DataLoader(dataset, batch_size=None, num_workers=workers, **fork(workers), **how)


def text_of(state: Mapping[str, str]) -> str:
    """The one leaf of a state."""
    assert list(state) == ["fastresume"]
    text = state["fastresume"]
    assert type(text) is str
    return text


def assert_batch(
    batch: fr.Batch,
    table: Table,
    rows: Sequence[int],
    epoch: int,
    step: int,
    state: str,
    valid: Sequence[bool] | None = None,
    drawn: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Assert that a batch is what the oracle says, bit for bit; all its rows count if `valid` is None.

    `drawn` are the tensors that transforms added.
    """
    assert batch.rows().tolist() == list(rows)
    assert batch.valid.dtype == torch.bool
    assert batch.valid.tolist() == ([True] * len(rows) if valid is None else list(valid))
    assert (batch.num_rows, batch.epoch, batch.step) == (len(rows), epoch, step)
    assert text_of(batch.state_dict()) == state
    found = arrays_of(batch)
    expected = arrays_at(table, rows) | dict(drawn or {})
    assert oracle.same_values(found, expected), (found, expected)


def arrays_at(table: Table, rows: Sequence[int]) -> dict[str, np.ndarray]:
    """The arrays of a batch of these rows."""
    if isinstance(table, Contents):
        return table.of_rows(rows)
    return {name: values[list(rows)] for name, values in table.items()}


def assert_same_batch(one: fr.Batch, other: fr.Batch) -> None:
    """Assert that two batches are equal in everything that a user can see."""
    assert_batch_values(one, arrays_of(other))
    assert one.rows().tolist() == other.rows().tolist()
    assert one.valid.tolist() == other.valid.tolist()
    assert (one.num_rows, one.epoch, one.step) == (other.num_rows, other.epoch, other.step)
    assert one.state_dict() == other.state_dict()


def assert_batch_values(batch: fr.Batch, expected: Mapping[str, np.ndarray]) -> None:
    """Assert that a batch has these tensors, in this order, bit for bit."""
    found = arrays_of(batch)
    assert oracle.same_values(found, expected), (found, expected)


def arrays_of(batch: fr.Batch) -> dict[str, np.ndarray]:
    """The tensors of a batch; those of a `Jagged` under names of their own."""
    return {name: tensor.numpy() for name, tensor in tensors_of(batch).items()}


def tensors_of(values: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of a batch; those of a `Jagged`, which may be its values too, under names of their own."""
    found = {}
    for name, value in values.items():
        if isinstance(value, fr.Jagged):
            found |= tensors_of({f"{name}.values": value.values, f"{name}.offsets": value.offsets})
            found |= {} if value.valid is None else {f"{name}.valid": value.valid}
            marks = value.values_valid
            found |= {} if marks is None else {f"{name}.values_valid": marks}
        else:
            found[name] = value
    return found


def draw_by_row(batch: fr.Batch) -> fr.Batch:
    """A transform that puts what it draws for each row into the batch."""
    batch["drawn"] = batch.row_seeds()
    return batch


def draw_by_batch(batch: fr.Batch) -> dict[str, torch.Tensor | fr.Jagged]:
    """A transform that makes a mapping with what it draws for the batch as a whole."""
    noise = torch.randint(2**62, (batch.num_rows,), generator=batch.generator(draw=1))
    return {**batch, "noise": noise}


class FlawError(Exception):
    """What `Flawed` raises."""


class Flawed:
    """A transform that spoils a batch and fails, when it first sees one of these steps."""

    def __init__(self, steps: Iterable[int]) -> None:
        self._steps = set(steps)

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        if batch.step in self._steps:
            self._steps.discard(batch.step)
            for value in batch.values():
                numbers: Any = value
                while isinstance(numbers, fr.Jagged):
                    numbers = numbers.values
                numbers.zero_()
            raise FlawError
        return batch


def drawn_of(seed: int, epoch: int, step: int, rank: int, positions: Sequence[int]) -> dict[str, np.ndarray]:
    """What the two transforms above must draw, as the oracle says."""
    generator = torch.Generator()
    generator.manual_seed(oracle.batch_seed(seed, epoch, step, rank, draw=1))
    rows = [oracle.row_seed(seed, epoch, position) for position in positions]
    noise = torch.randint(2**62, (len(positions),), generator=generator)
    return {"drawn": np.array(rows, dtype=np.int64), "noise": noise.numpy()}


def oracle_job(
    rows: int,
    topology: Topology,
    fingerprint: str,
    shuffle: Shuffle | None = None,
    group_rows: Sequence[int] | None = None,
    chosen: Chosen | None = None,
) -> oracle.OracleJob:
    """The oracle's job of a topology; one row group of all rows unless `group_rows` says otherwise."""
    groups = (rows,) if group_rows is None else tuple(group_rows)
    return oracle.OracleJob(
        rows,
        topology.world_size,
        topology.workers,
        topology.batch_size,
        lanes=topology.lanes,
        groups=topology.groups,
        fingerprint=fingerprint,
        tail=topology.tail,
        order=None if shuffle is None else {**vars(shuffle), "group_rows": groups},
        selected=None if chosen is None else chosen.selected(rows),
    )


class Rank:
    """One rank: its dataset, and the iterator that its training loop draws from.

    Reads by `iter(dataset)`, by a `Loader` if `threads` is given, or through simulated workers.
    """

    def __init__(self, dataset: fr.ParquetDataset, workers: int = 0, threads: int | None = None) -> None:
        self.dataset = dataset
        self.workers = workers
        self.loader = None if threads is None else fr.Loader(dataset, threads=threads)
        self._iterator: Iterator[fr.Batch] | None = None

    def next(self) -> fr.Batch:
        """The next batch; StopIteration at the end of the pass, and the next call begins the next one."""
        if self._iterator is None:
            self._iterator = self._iterate()
        try:
            return next(self._iterator)
        except StopIteration:
            self._iterator = None
            raise

    def next_after_failures(self) -> fr.Batch:
        """The next batch, asked for again for as long as a transform fails; until then the state stays."""
        before, notes = self.dataset.state_dict(), []
        while True:
            try:
                batch = self.next()
                break
            except FlawError as error:
                notes += error.__notes__
                assert self.dataset.state_dict() == before
        assert all("raised by Flawed, transform 1 of 3, on the batch of epoch" in note for note in notes)
        return batch

    def drop(self) -> None:
        """Forget the iterator, as a `break` does."""
        self._iterator = None

    def kill(self) -> None:
        """End the threads; what was decoded ahead is gone."""
        self.drop()
        if self.loader is not None:
            self.loader.close()

    def _iterate(self) -> Iterator[fr.Batch]:
        if self.workers:
            return self._take_turns()
        return iter(self.dataset if self.loader is None else self.loader)

    def _take_turns(self) -> Iterator[fr.Batch]:
        workers = [
            WorkerIterator(self.dataset._spec, self.dataset._shared_cursor, k, self.workers)
            for k in range(self.workers)
        ]
        last = None
        for worker in itertools.cycle(workers):
            batch = next(worker, None)
            if batch is None:
                break
            last = batch
            yield batch
        assert [next(worker, None) for worker in workers] == [None] * self.workers
        assert last is not None, "workers give the next pass where nothing is left of this one"
        self.dataset.load_state_dict(last.state_dict())


class Job:
    """All ranks of a job, and the oracle's job beside them. `step()` compares everything there is to see."""

    def __init__(
        self,
        dataset: Dataset,
        topology: Topology,
        *,
        shuffle: Shuffle | None = None,
        chosen: Chosen | None = None,
        table: Table | None = None,
        source: Mapping[str, Any] | None = None,
        state: Mapping[str, str] | None = None,
        threads: int | None = None,
        reset_epochs: bool = False,
        mapped: bool = False,
        flaws: Iterable[int] = (),
    ) -> None:
        self.topology = topology
        self.mapped = mapped
        self.seed = 0 if shuffle is None else shuffle.seed
        self.table = oracle.read_table(dataset.directory) if table is None else table
        order = {} if shuffle is None else shuffle.arguments
        order |= {} if chosen is None else chosen.arguments
        order |= self.table.layout.arguments if isinstance(self.table, Contents) else {}
        order |= {"paths": dataset.directory} if source is None else source
        datasets = [
            fr.ParquetDataset(**topology.arguments, **order, **parallel(rank, topology.world_size))
            for rank in range(topology.world_size)
        ]
        if mapped:
            # A simulated worker is a generator, which a failure ends.
            steps = () if topology.workers else flaws
            datasets = [
                dataset.map(Flawed(steps)).map(draw_by_row).map(draw_by_batch) for dataset in datasets
            ]
        self.ranks = [Rank(dataset, topology.workers, threads) for dataset in datasets]
        self.oracle = oracle_job(
            dataset.num_rows,
            topology,
            self.ranks[0].dataset.fingerprint,
            shuffle,
            oracle.group_rows_of(dataset.directory),
            chosen,
        )
        for rank in self.ranks:
            assert len(rank.dataset) == self.oracle.batches_left
        if state is not None:
            self.oracle.load(text_of(state), reset_epochs=reset_epochs)
            for rank in self.ranks:
                rank.dataset.load_state_dict(state, reset_epochs=reset_epochs)
        self._is_between_passes = True
        self.counted: list[int] = []
        """The rows of the last step that count: of all ranks, those that do not repeat others."""
        self.assert_at_rest()

    def assert_at_rest(self) -> None:
        """Assert what every rank says of itself: the cursor, the batches left, the passes done."""
        for rank in self.ranks:
            if rank.workers and not self._is_between_passes:
                continue  # the state is on the batches alone
            assert text_of(rank.dataset.state_dict()) == self.oracle.state()
            assert rank.dataset.batches_left == self.oracle.batches_left
            assert rank.dataset.epoch == self.oracle.epochs_done

    def state(self) -> dict[str, str]:
        """The cursor of the last step."""
        return {"fastresume": self.oracle.state()}

    def step(self) -> list[list[int]]:
        """Do one step on every rank; return the rows of each, none if the pass ended without a batch."""
        self.counted = []
        epoch, number, rest = self.oracle.epoch, self.oracle.steps_done, self.oracle.rest
        expected = self.oracle.step()
        self._is_between_passes = expected is not None and self.oracle.epoch != epoch
        if expected is None:
            if self.topology.workers:
                return []  # the workers' next batch is the first one of the next pass
            for rank in self.ranks:
                with pytest.warns(UserWarning, match=REST.format(rest)), pytest.raises(StopIteration):
                    rank.next()
            self.assert_at_rest()
            return []
        state, marks, places = self.oracle.state(), self.oracle.valid, self.oracle.positions
        for index, (rank, rows, valid) in enumerate(zip(self.ranks, expected, marks, strict=True)):
            batch = rank.next_after_failures()
            drawn = drawn_of(self.seed, epoch, number, index, places[index])
            assert_batch(batch, self.table, rows, epoch, number, state, valid, drawn if self.mapped else None)
            assert batch.global_step == self.oracle.batches_given - 1
            assert batch.row_seeds().tolist() == drawn["drawn"].tolist()
            self.counted += batch.rows()[batch.valid.numpy()].tolist()
        if self.oracle.epoch != epoch:
            for rank in self.ranks:
                with pytest.raises(StopIteration):
                    rank.next()
        self.assert_at_rest()
        return expected

    def run_pass(self) -> list[list[list[int]]]:
        """Do the steps that are left of the pass, and return their rows."""
        epoch, steps = self.oracle.epoch, []
        while self.oracle.epoch == epoch:
            steps.append(self.step())
        return [step for step in steps if step]

    def kill(self) -> None:
        """End the job at once, wherever it is."""
        for rank in self.ranks:
            rank.kill()


class Ledger:
    """Which rows were trained on, per pass; a job that dies goes back to what was saved."""

    def __init__(self, rows: int | Sequence[int]) -> None:
        self.rows = range(rows) if isinstance(rows, int) else rows
        self.passes: dict[int, Counter[int]] = {}
        self._saved: dict[int, Counter[int]] = {}

    def add(self, epoch: int, rows: Sequence[int]) -> None:
        """Note rows that were trained on."""
        self.passes.setdefault(epoch, Counter()).update(rows)

    def save(self) -> None:
        """Note that a checkpoint was written."""
        self._saved = {epoch: counts.copy() for epoch, counts in self.passes.items()}

    def roll_back(self) -> None:
        """Forget what came after the last checkpoint."""
        self.passes = {epoch: counts.copy() for epoch, counts in self._saved.items()}

    def assert_exactly_once(self, epoch: int, dropped: Sequence[int]) -> None:
        """Law 3: each row of a finished pass once, but for those that the tail policy names."""
        assert self.passes.get(epoch, Counter()) + Counter(dropped) == Counter(self.rows)


def do_step(job: Job, ledger: Ledger) -> None:
    """Do a step, note it, and check the pass if it ended."""
    epoch = job.oracle.epoch
    job.step()
    ledger.add(epoch, job.counted)
    if job.oracle.epoch != epoch:
        ledger.assert_exactly_once(epoch, job.oracle.dropped[epoch])


def fields_of(state: Mapping[str, str]) -> dict[str, Any]:
    """The parsed JSON of a state."""
    fields = json.loads(text_of(state))
    assert isinstance(fields, dict)
    return fields


def shaped_like(value: object) -> object:
    """The keys and types of parsed JSON, whatever its numbers."""
    if isinstance(value, dict):
        return {key: shaped_like(inner) for key, inner in value.items()}
    return type(value).__name__


def rows_delivered(dataset: fr.ParquetDataset | fr.Loader) -> list[int]:
    """The rows of a pass that count, in the order of delivery."""
    return [row for batch in dataset for row in batch.rows()[batch.valid.numpy()].tolist()]
