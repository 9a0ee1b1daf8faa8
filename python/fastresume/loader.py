"""The `Loader`: batches of a dataset, which threads or worker processes decode ahead."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping
from multiprocessing import get_all_start_methods
from multiprocessing.context import BaseContext
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import torch
from torch.utils.data import ChainDataset, ConcatDataset, get_worker_info

import fastresume._core as _core
from fastresume.agreement import same_state
from fastresume.amounts import plural
from fastresume.audit.delivery_log import DeliveryLog
from fastresume.batch.batch import Batch
from fastresume.messages import warn
from fastresume.options.attributes import METHODS_OF_LOADERS
from fastresume.options.checks import at_least, is_table, kind_of, positive, quoted
from fastresume.options.hints import OF_LOADER, SEVERAL_DATASETS
from fastresume.options.unknown import refuse_attribute, refuse_setting, takes_no_other
from fastresume.options.world import default_threads
from fastresume.reading.device import Device, check_static, device_of
from fastresume.reading.iterator import BatchIterator
from fastresume.reading.monitor.progress import behind_a_bar
from fastresume.reading.monitor.stats import Stats
from fastresume.reading.monitor.watchdog import Watchdog
from fastresume.reading.random_access import batch_at, batch_of_row, made_again
from fastresume.reading.replay import ReplayTrail
from fastresume.reading.resumable import ResumableDataset, dataset_behind
from fastresume.reading.rounds import Rounds
from fastresume.reading.torch_dataloader.guards import added_up_by_accelerate, refuse_items
from fastresume.reading.workers.pool import WorkerPool
from fastresume.state.cursor import Cursor
from fastresume.state.shared_cursor import Readers

PREFETCH_BYTES = 256 << 20

MOST_THREADS = 1024
"""A loader takes no more threads or workers: each has memory of its own."""

_MOST_BATCHES = 64
"""A number of bytes ahead up to this one was meant as a number of batches."""

_AHEAD = 2
"""The batches that each worker makes ahead if no bytes are given."""

_MOST_AHEAD = 16
"""The same if they are."""


@takes_no_other("Loader", "loader")
class Loader:
    """Iterates over a `ParquetDataset`; threads of this process or worker processes decode ahead.

    The functions given to `ParquetDataset.map` run ahead, too: in separate threads, or in the workers.
    Threads are cheaper; use workers for transforms that spend their time in Python.

    It shares the dataset's cursor. An iterator continues after the last delivered batch and ends with the
    pass (epoch); the next `iter()` begins the next pass. What is decoded ahead doesn't count as delivered,
    and is in no state.

    Args:
        dataset: the dataset to read.
        device: the device of the batches: "cuda" (the current device when the first batch is made), "cuda:1",
            an index or a torch.device. They are copied from pinned memory, on the loader's own stream, two
            batches ahead of the one in use. They are ready for the stream that is current at `next()`. See
            docs/reference/loader.md. None and "cpu" leave them where they are.
        static: on a device, whether every batch uses the same tensors, as CUDA graphs need: `next()`
            overwrites those of the batch before.
        threads: how many threads decode; by default the cores that this process may use, by its affinity and
            its container's quota, shared with the other ranks of the node (`LOCAL_WORLD_SIZE`), at most 32.
            Its `repr` says how many. With 0, `next()` decodes by itself. Each adds memory while it decodes
            (see `plan().bytes_per_thread`); `prefetch_bytes` limits how many decode at once.
        num_workers: how many worker processes read and transform instead. The batches are those of torch's
            DataLoader with the same number of workers; if `groups` is given, those without workers.
        prefetch_bytes: decoding ahead stops when this many bytes of batches are in memory (256 MiB by
            default). Added to that is one segment per thread (some 32 MiB, or one row group if groups are
            smaller), and in a shuffled order one window per lane (see `ParquetDataset.plan`). With `map`, the
            same number of bytes again is transformed ahead, in 1 to 8 batches. Workers share these bytes:
            each has at least one batch ready, and at most 16 (2 if no number is given).
        multiprocessing_context: how workers are started: "fork", "spawn", "forkserver" or a context; None for
            Python's default.
        audit: a directory for the delivery log, from which `fastresume audit` proves that every row
            (of units: every token) was delivered exactly once; see docs/reference/audit.md.
        watchdog_seconds: when `next()` waits longer, the logger "fastresume" warns with what every thread,
            worker and file is doing; again after twice the time, and so on. None for no watchdog.

    Raises:
        TypeError, ValueError: for an argument of another type, or a number out of range; for `static` without
            a device, or if batches differ in their shapes.
        FastresumeError: if there is no such device.
        SourceError: if the audit directory can't be created.

    Threads and forks: use a loader in one thread at a time: `next()` refuses a second one. In a forked child,
    make a new iterator. Threads start with the first batch and end with the pass, with `close()`, or with the
    iterator. Workers start with the first batch or with `start()`, and are kept for all passes, until
    `close()` or the end of the loader. A worker that dies raises a FastresumeError that names it; the next
    `next()` continues with new ones.

    Examples:
        >>> loader = Loader(dataset)
        >>> loader.load_state_dict(batch.state_dict())
        >>> for epoch in range(loader.epoch, 3):
        ...     for batch in loader:
        ...         train(batch)
        >>> loader.epoch
        3
    """

    dataset: ResumableDataset
    num_workers: int
    threads: int
    prefetch_bytes: int

    def __init__(
        self,
        dataset: ResumableDataset,
        *,
        device: torch.device | str | int | None = None,
        static: bool = False,
        threads: int | None = None,
        num_workers: int = 0,
        prefetch_bytes: int | None = None,
        multiprocessing_context: str | BaseContext | None = None,
        audit: str | os.PathLike[str] | None = None,
        watchdog_seconds: float | None = None,
    ) -> None:
        self.dataset = _dataset_itself(dataset)
        self._spec = self.dataset._spec
        self._log: DeliveryLog | None = None
        self._made_of = audit, prefetch_bytes is not None, multiprocessing_context
        self.num_workers = _at_most_many("num_workers", num_workers)
        if self.num_workers and threads is not None:
            raise ValueError(
                f"threads={threads} and num_workers={num_workers}: batches are read by threads of this "
                "process or by workers, each in one thread; name one of them"
            )
        if multiprocessing_context is not None and not self.num_workers:
            raise ValueError("multiprocessing_context is for worker processes: pass num_workers with it")
        self.threads = default_threads() if threads is None else _at_most_many("threads", threads)
        self.prefetch_bytes = (
            PREFETCH_BYTES if prefetch_bytes is None else at_least(1, "prefetch_bytes", prefetch_bytes)
        )
        if self.prefetch_bytes <= _MOST_BATCHES < self._spec.batch_bytes:
            batches, size = self.prefetch_bytes, self._spec.batch_bytes
            warn(
                f"prefetch_bytes={batches} counts bytes, and a batch has about {size}: write prefetch_bytes="
                f"{batches * size} for {plural(batches, 'batch', 'batches')} ahead, or leave it out"
            )
        found = device_of(device)
        self._device = None if found is None else Device(found, static)
        if static:
            check_static(self._spec, self._device)
        self._take_spec()
        self._watchdog = (
            None if watchdog_seconds is None else Watchdog(positive("watchdog_seconds", watchdog_seconds))
        )
        self._trail = [ReplayTrail()]
        self._prepared: BatchIterator | None = None
        self._latest: weakref.ref[BatchIterator] | None = None

    def _take_spec(self) -> None:
        """What reads the dataset, as it is now."""
        self._spec = self._round = self.dataset._spec
        audit, names_bytes, context = self._made_of
        if audit is not None:
            self._spec = self._spec.audited()
            self._log = DeliveryLog(audit, self._spec)
        self._pool = self._new_pool(_MOST_AHEAD if names_bytes else _AHEAD, context)
        self._stats = Stats(self._spec, self.dataset._shared_cursor)

    def _new_pool(self, most_ahead: int, context: str | BaseContext | None) -> WorkerPool | None:
        if not self.num_workers:
            return None
        spec, workers = self._spec, self.num_workers
        spec.cut(workers)
        if isinstance(context, str) and context not in get_all_start_methods():
            raise ValueError(
                f"multiprocessing_context must be one of {get_all_start_methods()}, found {context!r}"
            )
        if self.dataset._is_stream:
            context = _context_of_stream(context)
        depth = max(min(most_ahead, self.prefetch_bytes // (spec.batch_bytes * workers)), 1)
        page_lock = None if self._device is None else self._device.page_lock
        return WorkerPool(spec, workers, depth, context, page_lock)

    @property
    def device(self) -> torch.device:
        """The device of the batches; "cuda" without an index until the first batch."""
        return torch.device("cpu") if self._device is None else self._device.device

    @property
    def epoch(self) -> int:
        """The number of passes that this job has completed."""
        return self.dataset.epoch

    @property
    def batches_left(self) -> int:
        """The number of batches that this rank still gets in the current pass."""
        return self.dataset.batches_left

    def __len__(self) -> int:
        """The number of batches that each rank gets in an uninterrupted pass."""
        return len(self.dataset)

    def state_dict(self) -> dict[str, str]:
        """The state after the last delivered batch; see `ParquetDataset.state_dict`."""
        return self.dataset.state_dict()

    def load_state_dict(
        self, state: Mapping[str, Any] | Cursor, reset_epochs: bool = False, check_same: bool = False
    ) -> None:
        """Resumes from a state at the next `iter()`; see `ParquetDataset.load_state_dict`.

        With `check_same`, all ranks of the default process group call it. If their states differ, it is an
        error on all of them: see `fastresume.distributed.check_same`.
        """
        given = same_state.check_same(state) if check_same else state
        before = self.dataset._spec
        self.dataset.load_state_dict(given, reset_epochs=reset_epochs)
        if self.dataset._spec is not before:  # the files are in the order of the state
            self.close()
            self._take_spec()

    def config(self) -> dict[str, Any]:
        """The settings as a plain mapping: those of the dataset, and `loader` with those of this loader.

        Examples:
            >>> loader.config()["loader"]["num_workers"]
            0
        """
        own = {
            "device": str(self.device),
            "static": self._device is not None and self._device.is_static,
            "threads": None if self.num_workers else self.threads,
            "num_workers": self.num_workers,
            "prefetch_bytes": self.prefetch_bytes,
        }
        return {**self.dataset.config(), "loader": own}

    def reset(self) -> None:
        """Goes back to the start of the current pass, for the next `iter()`."""
        self.dataset.reset()

    def __iter__(self) -> Iterator[Batch]:
        """The batches of this rank from where the cursor is to the end of the pass.

        Raises:
            FastresumeError: in one of several workers of a torch DataLoader: each would read all rows.
        """
        self.dataset._check_trainer(sys._getframe(1))
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise _core.FastresumeError(
                f"a Loader is read in worker {worker.id} of {worker.num_workers} of a DataLoader, and each "
                "would read all rows: wrap its dataset, whose rows they share, or write num_workers=0"
            )
        self.dataset._check_saves()
        if self.dataset._is_stream:
            return Rounds(self._follow, self._next_round)
        self._check_accumulation()
        return self._taken()

    def _taken(self) -> BatchIterator:
        """The iterator of the next batch, which the caller draws from."""
        iterator = self._prepare()
        self._prepared = None
        self._latest = weakref.ref(iterator)
        return iterator

    def _follow(self) -> bool:
        """Lets the dataset of a stream find the round of the next batch, which may take long."""
        if self._watchdog is None:
            return self.dataset._follow()
        self._watchdog.begin(self.dataset._wait_in_words)
        try:
            return self.dataset._follow()
        finally:
            self._watchdog.end()

    def _next_round(self) -> BatchIterator:
        """The iterator over the round that the dataset of a stream has now."""
        if self._round is not self.dataset._spec:
            self._round = self.dataset._spec
            self._spec = self._round
            if self._log is not None:
                self._spec = self._spec.audited()
                self._log.follow(self._spec)
            self._stats._follow(self._spec)
            if self._pool is not None:
                self._pool.follow(self._spec)
            self._trail[0] = ReplayTrail()
        return self._taken()

    def _check_accumulation(self) -> None:
        if self.dataset.on_iter == "restart" or self.dataset._shared_cursor.is_kept:
            return
        added = added_up_by_accelerate()
        if added > 1 and (rest := len(self.dataset) % added):
            warn(
                f"Accelerate adds up the gradients of {added} batches, and knows not where a pass of this "
                f"Loader ends: the last {rest} of its {len(self.dataset)} batches would be added to the "
                "first ones of the next, or make no step. Call "
                "fastresume.integrations.accelerate.register(accelerator, loader)"
            )

    def start(self) -> None:
        """Starts the threads or workers now: the first batch comes sooner, and workers start before CUDA."""
        self._present().start()

    def peek(self) -> Batch | None:
        """The next batch, without delivering it; None if less than a batch is left of the pass."""
        return self._present().peek()

    def replay(self, steps: int) -> Iterator[Batch]:
        """The batches of the last steps again, in the order in which they were delivered, bit for bit.

        They are read and transformed again, one at a time, in this thread; only the numbers of their steps
        are kept. The cursor and what was decoded ahead are unchanged. Steps are counted back over ends of
        passes, and over `load_state_dict` and `reset`, to the first step that this loader delivered (in the
        last 64 passes).

        Args:
            steps: how many, at least 0.

        Raises:
            IndexError: if this loader has delivered fewer. Steps before a restart of the job don't count;
                `dataset.batch_at(epoch, step, state=)` reads them.
            DataError, SourceError: at a batch that can't be read.

        Examples:
            >>> batches = iter(loader)
            >>> first, second = next(batches), next(batches)
            >>> [batch.step for batch in loader.replay(2)], next(batches).step
            ([0, 1], 2)
        """
        return self._again(self._trail[0].last(at_least(0, "steps", steps)))

    def _again(self, places: list[tuple[_core.Pass, int]]) -> Iterator[Batch]:
        for planned, number in places:
            yield self._put(made_again(self._spec, planned, number, self._pool is not None))

    def batch_at(self, epoch: int, step: int, state: Mapping[str, Any] | Cursor | None = None) -> Batch:
        """The batch of this rank at a step of a pass again, as this loader's threads or workers make it.

        It is as `ParquetDataset.batch_at`, except that a pass (epoch) not read here yet counts as read by
        this loader. So with workers it is their batch, and transforms draw from global generators what the
        workers draw. The generators of this process and the cursor are unchanged.

        Args:
            epoch: the number of the pass, as `batch.epoch` counts it.
            step: the number of the global batch in it, as `batch.step` counts it.
            state: a state of that pass, if other ranks, workers or batch sizes read it elsewhere.

        Raises:
            IndexError: if the pass has no such step.
            StateError: if the state is of another dataset, order or epoch.
            ValueError: if the step was made under a cut that this number of ranks can't share.

        Examples:
            >>> loader.batch_at(epoch=0, step=2).rows()[:2]
            array([64, 65])
        """
        self.dataset._check_present()
        readers = Readers(self.num_workers or 1, self._pool is not None)
        return self._put(batch_at(self._spec, self.dataset._shared_cursor, epoch, step, state, readers))

    def batch_of_row(
        self, epoch: int, row_number: int, state: Mapping[str, Any] | Cursor | None = None
    ) -> tuple[Batch, int]:
        """The batch that a row is delivered with in a pass, made again, and the row's place in it.

        It is as `ParquetDataset.batch_of_row`, except that a pass not read here yet counts as read by this
        loader, as for `batch_at`: so this is the row as the job got it.

        Raises:
            IndexError: if the row is not in the files, is not selected, or no batch of the pass has it.
            StateError: if the state is of another dataset, order or epoch.
            TypeError: for a `Mixture`, and for a dataset with units.
            ValueError: if its step was made under a cut that this number of ranks can't share.

        Examples:
            >>> batch, place = loader.batch_of_row(epoch=0, row_number=70)
            >>> int(batch.rows()[place])
            70
        """
        self.dataset._check_present()
        readers = Readers(self.num_workers or 1, self._pool is not None)
        found = batch_of_row(self._spec, self.dataset._shared_cursor, epoch, row_number, state, readers)
        return self._put(found[0]), found[1]

    def __contains__(self, name: object) -> NoReturn:
        """Refused: it would draw a whole pass.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"a Loader is a stream of batches: write {quoted(name)} in loader.dataset.schema")

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses to set what is an argument, once the loader is made: it would change nothing."""
        if not name.startswith("_") and "_latest" in self.__dict__:
            refuse_setting(self, name, value, OF_LOADER)
        super().__setattr__(name, value)

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for a name of another object, or of others' loaders."""
            hints = METHODS_OF_LOADERS
            asks = sys._getframe(1)
            if asks.f_globals.get("__name__") == "accelerate.data_loader":
                way = "accelerator.prepare(loader), which leaves it as it is"
                hints = {name: hints["skip"] if asks.f_code.co_name == "skip_first_batches" else way}
            refuse_attribute(self, name, "a Loader", hints)

    def _put(self, batch: Batch) -> Batch:
        """The batch on this loader's device."""
        return batch if self._device is None else batch.to(self._device.open().device)

    def stats(self) -> Stats:
        """Statistics of what was delivered since the loader was made: a live object, cheap to read."""
        return self._stats

    def progress(self, bar: Any = None, **options: Any) -> Iterable[Batch]:
        """The rest of the pass, with a progress bar of the whole pass that begins at the current position.

        Args:
            bar: `tqdm.tqdm` by default; any other class that takes an iterable, `total=` and `initial=`;
                `rich.progress.Progress`, or an instance that is shown already.
            options: further arguments of the bar, such as `leave=False` for tqdm; for rich, arguments of
                `add_task`.

        Returns:
            An iterable to use instead of the loader, for one pass. Ranks other than 0 have no bar.

        Raises:
            ModuleNotFoundError: if no bar is named, and tqdm is not installed.
            TypeError: if `bar` is no bar, or takes no arguments that set where it begins.

        Examples:
            >>> for batch in loader.progress(disable=True):
            ...     train(batch)
        """
        return behind_a_bar(
            self, self._spec, self.dataset._shared_cursor.cursor, self.num_workers or 1, bar, options
        )

    def close(self) -> None:
        """Ends threads and workers, and closes files; the cursor stays, and a new `iter()` resumes from it.

        A transform that is still running has two seconds. Then its worker is killed, or its thread is left
        alone.

        The memory of batches, otherwise kept for the next pass, goes back to the system.
        """
        if self._pool is not None:
            self._pool.close()
        for iterator in (self._prepared, self._latest() if self._latest is not None else None):
            if iterator is not None:
                iterator.close()
        self._prepared = self._latest = None
        if self._device is not None:
            self._device.close()
        if self._watchdog is not None:
            self._watchdog.close()
        if self._log is not None:
            self._log.close()
        _core.release_memory()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self) -> BatchIterator:
        """The iterator that was started or peeked at, if nothing changed since; otherwise a new one."""
        if self._prepared is None or not self._prepared.is_current:
            if self._prepared is not None:
                self._prepared.close()
            self._prepared = BatchIterator(
                self._spec,
                self.dataset._shared_cursor,
                self.threads,
                self.prefetch_bytes,
                self._stats,
                self._log,
                self._pool,
                self._trail,
                self._device,
                self._watchdog,
            )
        return self._prepared

    def _present(self) -> BatchIterator:
        """The iterator of the next batch."""
        latest = self._latest() if self._latest is not None else None
        return latest if latest is not None and latest.is_current else self._prepare()

    def __getitem__(self, _index: object) -> NoReturn:
        refuse_items(
            sys._getframe(1),
            "a Loader has no items: iterate over it as it is, without another DataLoader around it; or give "
            "the ParquetDataset to that one, with batch_size=None",
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Loader can't be copied, pickled or saved as it is. To save its place, save "
            "loader.state_dict(). Leave it out of hyperparameters: save_hyperparameters(ignore=['loader']). "
            "Let a process that is started make its own, and start ranks with torchrun"
        )

    def __repr__(self) -> str:
        how = f"num_workers={self.num_workers}" if self.num_workers else f"threads={self.threads}"
        if self._device is not None:
            how = f"device={str(self.device)!r}, {'static=True, ' if self._device.is_static else ''}{how}"
        named = [how, f"prefetch_bytes={self.prefetch_bytes}"]
        if self._log is not None:
            named.append("with an audit log")
        if self._watchdog is not None:
            named.append(f"watchdog_seconds={self._watchdog.seconds:g}")
        return f"Loader({self.dataset!r}, {', '.join(named)}; {self._stats!r})"


def _context_of_stream(given: str | BaseContext | None) -> str | BaseContext:
    """How workers of a stream are started: clients of brokers have threads and locks that a fork breaks.

    Raises:
        ValueError: for "fork".
    """
    name = given if isinstance(given, str) or given is None else given.get_start_method()
    if name == "fork":
        raise ValueError(
            "multiprocessing_context='fork': workers of a stream connect to brokers, and librdkafka does not "
            "outlive a fork. Leave it out, or write 'forkserver' or 'spawn'"
        )
    if given is not None:
        return given
    return "forkserver" if "forkserver" in get_all_start_methods() else "spawn"


def _at_most_many(name: str, value: object) -> int:
    """The number of threads or workers.

    Raises:
        TypeError: if it is no integer.
        ValueError: if it is below 0, or more than any machine has use for.
    """
    number = at_least(0, name, value)
    if number > MOST_THREADS:
        raise ValueError(
            f"{name} must be at most {MOST_THREADS}, found {number}: leave it out for the cores that this "
            "process may use"
        )
    return number


def _dataset_itself(given: object) -> ResumableDataset:
    if isinstance(given, ResumableDataset):
        return given
    advice = "" if dataset_behind(given) is None else ": give the dataset to one loader only"
    if isinstance(given, str | os.PathLike | list | tuple):
        advice = ": write fr.Loader(fr.ParquetDataset(paths, batch_size=n))"
    elif isinstance(given, ChainDataset | ConcatDataset):
        advice = f": {SEVERAL_DATASETS}"
    elif is_table(given) and not isinstance(given, type):
        advice = ": write fr.Loader(fr.ArrowDataset(table, batch_size=n))"
    elif isinstance(given, BatchIterator):
        advice = ": write fr.Loader(dataset), without iter()"
    elif isinstance(given, Batch):
        advice = ": write for batch in fr.Loader(dataset), which delivers batches"
    elif isinstance(given, Mapping):
        advice = ": write fr.Loader(fr.Mixture({name: (dataset, weight), ...}, batch_size=n))"
    raise TypeError(
        "dataset must be a ParquetDataset, ArrowDataset, KafkaDataset or Mixture, found "
        f"{kind_of(given)}{'' if isinstance(given, type) else advice}"
    )
