"""The base class of `ParquetDataset`: batches of a spec as a torch IterableDataset with a cursor."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn, Self

from torch.utils.data import IterableDataset, get_worker_info

import fastresume._core as _core
from fastresume.agreement.same_reads import PLACE, SameReads, place_in_words
from fastresume.batch.batch import Batch
from fastresume.batch.schema import Schema
from fastresume.messages import warn
from fastresume.options.attributes import METHODS_OF_DATASETS
from fastresume.options.checks import one_of, quoted
from fastresume.options.hints import ANYWHERE, OF_LOADERS, SEVERAL_DATASETS
from fastresume.options.tail import TailOfPass
from fastresume.options.unknown import refuse_attribute, refuse_setting, takes_no_other
from fastresume.options.world import World
from fastresume.reading import random_access
from fastresume.reading.iterator import BatchIterator, tell_left_out
from fastresume.reading.map_function import Transform
from fastresume.reading.rounds import Rounds
from fastresume.reading.spec import ReadSpec
from fastresume.reading.torch_dataloader.guards import (
    check_caller,
    check_counter,
    check_trainer,
    warn_at_saves_of_accelerate,
)
from fastresume.reading.torch_dataloader.iterator import WorkerIterator
from fastresume.reading.torch_dataloader.worker_state import of_worker
from fastresume.state.cursor import Cursor
from fastresume.state.shared_cursor import SharedCursor

_log = logging.getLogger("fastresume")

BEHIND = (
    "knows nothing of the batches that the workers of a torch DataLoader have read since the last state was "
    "loaded or pass ended: save batch.state_dict() of the last batch, or call "
    "dataset.load_state_dict(batch.state_dict()) before, or use fastresume.Loader(dataset, num_workers=...)"
)
"""The warning that a dataset's state is not that of the last batch; it names the batch's state."""


@dataclass(frozen=True)
class ComparedRanks:
    """Compares with the other ranks what this one reads."""

    spec: ReadSpec
    ranks: SameReads

    def __call__(self, cursor: _core.Cursor, workers: int, begins: bool) -> None:
        """Refuses to read what other ranks do not; `begins` again, in the middle of a pass."""
        self.ranks.check(
            lambda: {**self.spec.read_by_all(cursor, workers), PLACE: self._place(cursor)},
            self._place(cursor) if begins else None,
        )

    def _place(self, cursor: _core.Cursor) -> str:
        return place_in_words(cursor.restarted() if self.spec.on_iter == "restart" else cursor)


@takes_no_other("dataset")
class ResumableDataset(IterableDataset[Batch]):
    """The batches of a spec from a cursor on: a dataset, wherever its rows come from.

    Args:
        spec: what it reads.

    Raises:
        ValueError: if it would deliver no batch.

    Threads and forks: see `ParquetDataset`.
    """

    _settings: ClassVar[Mapping[str, str]] = {**ANYWHERE, **OF_LOADERS}
    """What to write instead of setting an attribute that others' loaders have."""

    def __init__(self, spec: ReadSpec) -> None:
        super().__init__()
        start = spec.start()
        self._spec = spec
        self._length = spec.batches_of(start)
        if self._length == 0 and not self._is_stream:
            raise ValueError(spec.no_batch_text(spec.row_text()))
        self._ranks = ComparedRanks(spec, SameReads(spec.world))
        self._shared_cursor = SharedCursor(start, self._ranks)

    def _take(self, spec: ReadSpec) -> None:
        """Reads another spec from now on, as a state asks for; what transforms there are stays."""
        self._spec = spec
        self._length = spec.batches_of(spec.start())
        self._ranks = replace(self._ranks, spec=spec)
        self._shared_cursor.compare_by(self._ranks)

    @property
    def world(self) -> World:
        """The rank, and the number of ranks."""
        return self._spec.world

    @property
    def batch_size(self) -> int:
        """The number of rows per rank and step."""
        return self._spec.batch_size

    @property
    def tail(self) -> TailOfPass:
        """How the rows after the last whole global batch are handled."""
        return self._spec.tail

    @property
    def on_iter(self) -> Literal["continue", "restart"]:
        """Whether `iter()` continues or restarts."""
        return self._spec.on_iter

    @property
    def schema(self) -> Schema:
        """The keys of a batch, with a `Field` for each."""
        return self._spec.schema

    def _tell_left_out(self, doing: str) -> None:
        """Warns once if rows are in no batch of an evaluation."""
        tell_left_out(self._spec, self._shared_cursor, doing)

    @property
    def num_rows(self) -> int:
        """The number of rows of a pass: all rows, or those that `rows` and `filter` select."""
        return self._spec.num_rows

    @property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths, sizes and footers; a cursor belongs to one."""
        return self._spec.fingerprint

    @property
    def global_batch_size(self) -> int:
        """The number of rows per step over all ranks."""
        return self._spec.global_batch_size

    def __len__(self) -> int:
        """Batches that each rank gets in an unbroken pass."""
        caller = sys._getframe(1)
        check_counter(caller)
        self._check_trainer(caller)
        self._spec.cut(1)
        return self._batches_of_pass()

    def _batches_of_pass(self) -> int:
        return self._length

    @property
    def epoch(self) -> int:
        """The number of passes that this job has completed."""
        cursor = self._shared_cursor.cursor
        return cursor.epoch - cursor.first_epoch

    @property
    def batches_left(self) -> int:
        """The number of batches that this rank still gets in the current pass."""
        return self._spec.pass_from(self._shared_cursor.cursor, 1).batches_left

    def state_dict(self) -> dict[str, str]:
        """The state after the last delivered batch: one leaf under the key "fastresume".

        The same on every rank under lockstep training. Taking it has no side effect.

        Raises:
            StateError: if workers of a torch DataLoader have handed out batches that it does not count: take
                `batch.state_dict()` there. This one changes only where a pass ends or a state is loaded.

        In a worker of a DataLoader it is no state: what StatefulDataLoader takes there can't be saved.
        """
        if get_worker_info() is not None:
            return of_worker()
        if self.on_iter == "continue" and self._shared_cursor.is_behind:
            raise _core.StateError(f"dataset.state_dict() {BEHIND}")
        return Cursor(self._shared_cursor.cursor).to_state()

    def load_state_dict(self, state: Mapping[str, Any] | Cursor, reset_epochs: bool = False) -> None:
        """Resumes from a state at the next `iter()`, on any number of ranks and workers.

        It reaches DataLoader workers that run already. An iterator made before raises at its next `next()`.

        Args:
            state: from `state_dict()` of a batch, dataset or `Loader`; its parsed JSON; or a `Cursor`.
            reset_epochs: keep the position, and count the passes of this job from here.

        Raises:
            StateError: if the state is empty, damaged, or of another version, dataset, selection of rows or
                order, or of another seed or size than was named. The dataset stays as it was.
            FastresumeError: in a worker of a DataLoader.

        Warns:
            UserWarning: if the state is in the middle of a pass, and the dataset has `on_iter="restart"`.
        """
        self._shared_cursor.check_process()
        cursor = self._adopted(Cursor.from_state(state)._core)
        if self.on_iter == "restart" and (counted := cursor.consumed_rows()):
            warn(
                f'the dataset has on_iter="restart": the next iter() starts pass {cursor.epoch} over, and '
                f"the {counted} rows that this state counts are delivered again; to resume after them "
                'make the dataset without on_iter="restart"'
            )
        self._shared_cursor.load(cursor.with_epochs_reset() if reset_epochs else cursor)
        _log.info("resumes from a loaded state: %r", Cursor(self._shared_cursor.cursor))

    def _fitted(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of this dataset, or what it becomes after the dataset has grown.

        Raises:
            StateError: if it is of another dataset, selection of rows or order.
        """
        return self._spec.fitted(cursor)

    def _adopted(self, cursor: _core.Cursor) -> _core.Cursor:
        """The same, after what the cursor names is read instead: a session, or files in another order."""
        return self._fitted(cursor)

    def reset(self) -> None:
        """Goes back to the start of the current pass, for the next `iter()`."""
        self._shared_cursor.load(self._shared_cursor.cursor.restarted())

    def __iter__(self) -> Iterator[Batch]:
        """The batches of this rank up to the end of the pass; see `on_iter` for where they begin.

        `next(iter(dataset))` delivers a batch: for a first look take `peek()`.

        After a `break` the next iterator continues after it. So an evaluation that breaks off sees other rows
        each time: with `on_iter="restart"` it sees the same ones.

        Ranks of the default process group that do not read the same (other files, rows, order or cut) are an
        error on each of them, with its first batch: see docs/reference/resume.md.
        """
        caller = sys._getframe(1)
        check_caller(caller)
        self._check_trainer(caller)
        self._spec.cut(1)
        worker = get_worker_info()
        if worker is not None:
            return self._of_worker(worker.id, worker.num_workers)
        self._check_saves()
        if self._is_stream:
            return Rounds(self._follow, lambda: BatchIterator(self._spec, self._shared_cursor, 0, 0))
        return BatchIterator(self._spec, self._shared_cursor, threads=0, prefetch_bytes=0)

    def _of_worker(self, worker: int, workers: int) -> Iterator[Batch]:
        """The batches of a worker of a torch DataLoader."""
        return WorkerIterator(self._spec, self._shared_cursor, worker, workers)

    @property
    def _has_end(self) -> bool:
        """Whether an iteration ends."""
        return True

    def _from_the_beginning(self) -> AbstractContextManager[None]:
        """A context in which all rows of a stream are delivered, each once; of others, `on_iter` says it."""
        return nullcontext()

    _is_stream = False
    """Whether other rows follow the pass in the same iteration: `_follow` makes them the dataset's."""

    def _follow(self) -> bool:
        """Makes what has the next batch this dataset's pass, if it is a stream; False where there is none."""
        return False

    def _check_present(self) -> None:
        """Refuses to read what a state names that was loaded, and is not open yet.

        Raises:
            StateError: it says what to do.
        """

    def _wait_in_words(self, seconds: float) -> str:
        """What `_follow` waits for, in words, after some seconds of it."""
        return f"next() has waited {seconds:.1f} s"

    def _after_save(self) -> Callable[[], None] | None:
        """What a Checkpointer calls once a save of the present place is durable; None for nothing."""
        return None

    def _check_trainer(self, caller: FrameType) -> None:
        """Refuses Lightning's training from a frame, where nothing keeps the place, or batches are stacked.

        Raises:
            FastresumeError: it says what to write.
        """
        is_kept = self.on_iter == "restart" or self._shared_cursor.is_kept
        check_trainer(caller, None if is_kept else self._shared_cursor)

    def _check_saves(self) -> None:
        """Has Accelerate warn where it saves a job that draws from this, and nothing keeps the place."""
        if self.on_iter != "restart":
            warn_at_saves_of_accelerate(self._shared_cursor)

    def config(self) -> dict[str, Any]:
        """What was asked for, as a plain mapping of names to numbers, texts, lists and mappings.

        It is the same on all ranks. Columns, units and filters are as they are written, selected rows by
        their hash, and transforms by their names and a digest of their source. What a transform calls is in
        no digest. A `Checkpointer` keeps it, and warns where a job that resumes has another one.

        Examples:
            >>> config = dataset.config()
            >>> config["tail"], config["transforms"]
            ('drop', [])
        """
        return self._spec.config()

    def map(self, function: Transform, on_error: Literal["raise", "mask"] = "raise") -> Self:
        """The dataset whose batches are `function(batch)` for each batch of this one.

        It shares the cursor with this one, and may be mapped again. `iter()` calls the function in the
        caller's thread. A `Loader` calls it in a few threads ahead of the loop, for several batches at once.
        A torch DataLoader calls it in its workers. So its result should depend on its batch alone; draw
        random numbers from `batch.row_seeds()` and `batch.generator()`. See docs/how-to/transforms.md.

        Args:
            function: it gets a `Batch`, which it may change, and returns it, another one, or a mapping of
                names to values: tensors of any shape, `Jagged`, or anything else. The result has the cursor
                and the row numbers of the batch that it was made from.
            on_error: what happens to a batch over which the function raises an exception. "raise" raises it.
                "mask" delivers the batch with no valid row instead: as it was before the function, if
                this keeps names, types and shapes, else with copies of what it makes of another batch. Its
                rows count as masked, up to the limit of `bad_rows`, and are logged once. A function that
                takes no batch of the pass is a DataError. `batch.mask(rows, reason)` masks single rows.

        Raises:
            TypeError: if it can't be called.
            ValueError: if `on_error` is no choice.

        `next()` raises what the function raises, with a note that names the batch. The cursor stays before
        that batch, and the next `next()` reads it again. `schema` describes the first function's argument;
        `read_rows()` calls no function.

        Examples:
            >>> def double(batch):
            ...     batch["label"] = batch["label"] * 2
            ...     return batch
            >>> doubled = dataset.map(double).batch_at(epoch=0, step=0)
            >>> doubled["label"].sum()
            tensor(992.)
        """
        if not callable(function):
            raise TypeError(f"map takes a function of a batch, found {quoted(function)}")
        if callable(on_error):
            raise TypeError("map takes one function: write dataset.map(function).map(other)")
        choice = one_of("on_error", on_error, ("raise", "mask"))
        mapped = type(self).__new__(type(self))
        mapped.__dict__.update(self.__dict__)
        mapped._spec = self._spec.mapped(function, choice == "mask")
        return mapped

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses to set what is an argument: it would change nothing."""
        if not name.startswith("_"):
            refuse_setting(self, name, value, self._settings)
        super().__setattr__(name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for a method of others' datasets."""
            refuse_attribute(self, name, f"a {type(self).__name__}", METHODS_OF_DATASETS)

    def batch_at(self, epoch: int, step: int, state: Mapping[str, Any] | Cursor | None = None) -> Batch:
        """The batch of this rank at a step of a pass again; the time does not depend on the step's number.

        Without a state, of a pass as it is read in this process: of the last 64 that were begun here, by a
        `Loader` or DataLoader with workers, too, it is known how; any other is taken to be read from its
        start, without workers. With a state, of the pass whose changes that tells: any state of the pass,
        best its last one; after the last change that it knows of, the pass is taken to continue. Where a pass
        of a `Mixture` begins depends on those before it: if these were not read without a break, it needs
        one.

        Transforms run again. What they draw from global generators is drawn again only in a pass that a
        `Loader` with workers has read; the generators of this process stay as they are.

        Args:
            epoch: the number of the pass, as `batch.epoch` counts it.
            step: the number of the global batch in it, as `batch.step` counts it.
            state: a state of that pass.

        Raises:
            IndexError: if the pass has no such step.
            StateError: if the state is of another dataset, order or epoch, or a mixture needs one; of a
                stream, for another round than the present one.
            ValueError: if the step was made under a cut that this number of ranks can't share.

        Examples:
            >>> dataset.batch_at(epoch=0, step=2).rows()[:2]
            array([64, 65])
        """
        self._check_present()
        return random_access.batch_at(self._spec, self._shared_cursor, epoch, step, state)

    def peek(self) -> Batch:
        """The batch that comes next, read without delivering it: a first look costs no batch.

        Where the pass has none any more, it is the first one of the next pass. Of a stream, it waits for one,
        and all ranks call it. Transforms run. The cursor stays, and so do iterators.

        Raises:
            IndexError: if a stream has ended.

        Examples:
            >>> dataset.peek()["label"].shape
            torch.Size([32])
        """
        if self._is_stream and not self._follow():
            raise IndexError("the stream has ended: stop= says where")
        return random_access.next_batch(self._spec, self._shared_cursor.cursor)

    def __getitem__(self, index: object) -> Batch:
        """Refuses an index: a stream has no places. The error says what to write.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} is a stream of batches, which has no index: write "
            "rows=fr.Split(0.0, 0.9) and rows=fr.Split(0.9, 1.0) for a split of the rows (instead of "
            "random_split and Subset), read_rows([...]) for single rows, batch_at(epoch=, step=) for a batch"
        )

    def __add__(self, other: object) -> NoReturn:
        """Refused: torch would chain them, and a state of one of them is none of both.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"a {type(self).__name__} can't be added to {quoted(other)}: {SEVERAL_DATASETS}")

    def __contains__(self, name: object) -> NoReturn:
        """Refused: it would draw a whole pass.

        Raises:
            TypeError: always.
        """
        kind = type(self).__name__
        raise TypeError(f"a {kind} is a stream of batches: write {quoted(name)} in dataset.schema")

    def __repr__(self) -> str:
        return self._spec.text(self._shared_cursor.cursor)


def dataset_behind(loader: object) -> ResumableDataset | None:
    """The dataset that batches are drawn from: itself, or that of a `Loader` or torch DataLoader; or None."""
    found = loader if isinstance(loader, ResumableDataset) else getattr(loader, "dataset", None)
    return found if isinstance(found, ResumableDataset) else None
