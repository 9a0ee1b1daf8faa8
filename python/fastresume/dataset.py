"""Parquet files as an iterable dataset of batches."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from torch.utils.data import IterableDataset, get_worker_info

from fastresume import _core, travel
from fastresume.arguments import (
    Casts,
    Decimals,
    Fixed,
    Hash,
    Nulls,
    at_least,
    cast_list,
    decimal_list,
    fixed_list,
    global_share,
    hash_list,
    names,
    null_list,
    one_of,
    one_path,
    path_list,
    rename_list,
    stack_list,
    truth,
)
from fastresume.batch import Batch, Schema
from fastresume.callers import check_caller, check_counter, check_trainer
from fastresume.cursor import Cursor
from fastresume.filter import select_filtered
from fastresume.intervals import Intervals, of_buffer
from fastresume.iterator import BatchIterator, WorkerIterator
from fastresume.lanes import Cut, cut_of
from fastresume.origin import Planned
from fastresume.padding import End, Pads, pad_list, truncation_list
from fastresume.plan import Plan, make_plan
from fastresume.selection import Rows, select
from fastresume.transform import Transform, check_picklable, name_of
from fastresume.workers import SharedCursor
from fastresume.world import World

if TYPE_CHECKING:
    from types import FrameType

    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

_log = logging.getLogger("fastresume")

BEHIND = (
    "knows nothing of the batches that the workers of a torch DataLoader have read since the last state was "
    "loaded or pass ended: save batch.state_dict() of the last batch, or call "
    "dataset.load_state_dict(batch.state_dict()) before, or use fastresume.Loader(dataset, num_workers=...)"
)
"""What is said of a dataset's state that is not that of the last batch, after whose state it is."""

Path = str | os.PathLike[str]
OrderChoice = tuple[int | None, int | None, int | None] | None


class ParquetDataset(IterableDataset[Batch]):
    """An iterable of `Batch`es over Parquet files, which resumes exactly on any number of ranks.

    `iter(dataset)` gives the batches of this rank from the cursor to the end of the pass, decoded in the
    caller's thread; `Loader` does the same with threads. Under `torch.utils.data.DataLoader`, pass
    `batch_size=None`.

    Args:
        paths: a file, a directory (all files below it that end in `.parquet`, names that begin with `_` or
            `.` left out), a glob pattern, or a list of these.
        batch_size: rows per rank and step.
        global_batch_size: rows per step over all ranks, in place of `batch_size`.
        columns: names or glob patterns of the columns to read; all of them if None. The members of a struct
            `a` are columns `a.b`, and `a` names all of them. What a `!` stands before is left out:
            `["*", "!payload"]`, or `"!payload"` alone, are all columns but `payload`.
        rows: which rows the dataset consists of: a boolean mask (an array or tensor with one value for each
            row of the files), intervals of row numbers (int64 `[n, 2]`, half open), or a `Split`, a share of
            the rows by a hash of their numbers. All rows if None. A state belongs to one selection of rows.
        skip: intervals of row numbers to leave out, int64 `[n, 2]`, half open: rows known to be bad, say.
        filter: keep the rows of which a condition is true: one on `column(name)`, terms as `pyarrow.parquet`
            takes them (`[("a", ">", 3), ("b", "in", [1, 2])]`, lists of these for "or"), or an expression of
            pyarrow. It is resolved once, here, into a selection of rows; its columns need not be among
            `columns`. With `rows` and `skip`, of the rows that these leave. It asks what files hold: a null
            is one whatever `nulls` delivers for it.
        filter_cache: a file in which to keep what a filter selects, for the same files, filter and rows.
        stack: per name of a matrix, the names or patterns of the columns (of one type) that it holds.
        shuffle: deliver the rows in a shuffled order, another one in each pass: blocks of rows are permuted
            over the whole dataset, and rows within windows of several blocks. The seed and the number of the
            pass alone choose it, whatever the ranks, workers and batch sizes.
        seed: of the shuffled order, and of what transforms draw (`batch.row_seeds()`, `batch.generator()`).
            If None, that of a loaded state, or 0. The state of a sequential order holds none: there it is
            the one that is named, or 0.
        block_rows, window_rows: sizes of the shuffled order: larger windows shuffle better and take more
            memory. If None, those of a loaded state, or chosen for the dataset (256 MiB per window);
            `plan()` tells.
        lanes: into how many contiguous parts the order is divided, a multiple of the ranks times `groups`;
            by default one per rank and group. With `lanes` and `groups` named, the global batches are the
            same at every world size that divides `lanes / groups`. With 1, every global batch is one
            contiguous stretch of the order.
        groups: groups of lanes that take turns, a multiple of the loader workers; by default one per worker.
        tail: what becomes of the rows after the last whole global batch: "drop" drops them, "short" shares
            them among the ranks (fewer rows than ranks are dropped), "pad" repeats them up to a whole batch,
            in which `batch.valid` tells copies apart. All ranks get the same number of batches.
        nulls: what becomes of a null: "error" raises a DataError that names it, "mask" gives a bool tensor
            `name + "_valid"` beside the tensor `name` (False, and a value of 0, where there is a null) and
            the `valid` of a `Jagged`, and a number (a bool where values are bools) stands in its place; a
            null list or string is then empty. Or a mapping from names or patterns of columns or stacks to one
            of these; a column's name wins over its stack's, that over patterns, the first pattern over later
            ones, and columns without any have "error". Of lists, a mask marks null rows, and null lists and
            strings inside of them; a null number inside a list is an error but where a fill value is named.
            No tensor ever changes its type: a fill value that does not fit is refused. A member of a struct
            that is null is null; {"a": "mask"} masks the members of the struct `a`, and gives the bool tensor
            `a_valid` of the struct itself besides.
        decimals: what becomes of decimals: "int64" (the unscaled integer; one that does not fit is an error
            that names it), "float64" (the nearest), or "bytes" (as the file holds them, the highest first).
            Or a mapping from names or patterns of columns to one of these. Where nothing is said, "int64" if
            the type says that all fit (18 digits), and else the dataset is refused.
        fixed: of list columns by name or pattern, how many elements each list has: these become a tensor
            `[B, k]`, or, of lists in a list, `[B, k1, k2]` by a tuple `(k1, k2)`. A list of another length is
            a DataError; a null one is filled as a null number is. Where the Arrow schema in the files says
            that all lists have one length, nothing need be said, and None makes a `Jagged` of them.
        pad: of columns of lists, strings or binary, by name or pattern, to which length each row is filled
            up: a size k (zeros behind) or a `Pad`. These become a tensor `[B, k]`, and `name + "_length"`
            says how many elements of each row are its own (int64 `[B]`). A longer row is a DataError, but
            where `truncate` names the column; a null one is all padding, of length 0.
        truncate: of columns that are padded, by name or pattern, what is kept of a longer row: its first
            elements ("head"), or its last ones ("tail").
        optional: names or patterns of columns that files may lack. Rows of such files are null there, and
            `nulls` must say what becomes of them.
        partitions: names of columns whose values stand in the files' paths, as `region=eu/part-0.parquet`
            has one of `region`: int64 if all of them are integers, else strings.
        cast: a dtype that all numbers are cast to, or a mapping from names or patterns of columns, stacks or
            structs to dtypes, by the rules of `nulls`. A cast keeps every number, but that a float becomes
            the nearest one of a narrower float type: an integer that the type can't hold exactly, a fraction
            cast to integers and a float beyond the type are a DataError that names value and row. Items of
            lists are cast, too. Columns of several types can be stacked once they are cast to one.
        hash: into how many buckets columns of strings, bytes or integers are put, by name or pattern of
            columns, stacks or structs: `{"user": 1_000_003}`, or a `Hash` with a seed. A tensor int64 in
            [0, buckets), of a list a `Jagged` of such. A fill value for nulls is a bucket. See
            docs/SHAPING.md.
        dictionary: names or patterns of columns of strings or bytes, or of lists of these, that are delivered
            as codes: int64 `[B]`, of a list a `Jagged` of such. The code of a value is its place among all
            different values of the files' rows (selected or not), in the order of their bytes: they are
            gathered here, before the first batch, and `dataset.dictionaries` has them. Nulls as of numbers.
        rename: new names of tensors, per name that they would have: that of their column or stack. Masks are
            the new name with "_valid" behind it. All other arguments, `filter` too, speak of the columns'
            names in the files.
        manifest_cache: a file in which to keep what the files' footers tell, so that a later start reads no
            footers: it asks for the size and modification time of each file, and reads again only those that
            have others. The file is made if it is not there, and brought up to date; one that is damaged or
            of another release is replaced, one of something else left alone. It belongs to one dataset (what
            another one put there is dropped), and any number of processes may share it. Where it can't be
            written, a warning says so and nothing else changes: of a thousand ranks, those with a read-only
            disk go on. Keep it where `paths` do not find it. It holds paths, sizes, times, names of columns
            and numbers of rows, and no data.
        verify_checksums: compare the checksum (CRC-32) of each page that is read with the one in its header,
            where its writer put one. False spares that, and delivers a damaged page whose values still decode
            as it is, with wrong values that nothing tells; what can't be decoded is a DataError still. No
            state and no fingerprint knows of it: a job may resume with the other choice.
        on_iter: what `iter()` means: "continue" after the last delivered batch, or "restart" the pass.
        rank, world_size: which of how many ranks this is; together or not at all.
        world: the same as a `World`, a process group or a one-dimensional device mesh. Without any of
            these, `World.detect()`.

    Raises:
        SourceError: if no file matches, or one can't be read.
        DataError: if a file is damaged or not Parquet, a column is missing, differs between files or has a
            type that can't be delivered.
        ValueError: for numbers out of range, or a dataset from which no batch would come.
        TypeError: for arguments of another type.

    Warns:
        UserWarning: if `manifest_cache` or `filter_cache` can't be written.

    Threads and forks: share a dataset between threads only if one of them iterates. A forked child goes on
    from the cursor of the moment, on its own. Pickling takes the manifest along, so that no footer is read
    again.

    Example:
        >>> dataset = ParquetDataset("data/*.parquet", batch_size=32, columns=["label", "i_*"],
        ...                          stack={"dense": "i_*"})
        >>> next(iter(dataset))["dense"].shape
        torch.Size([32, 3])
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        columns: str | Sequence[str] | None = None,
        rows: Rows | None = None,
        skip: npt.ArrayLike | None = None,
        filter: object = None,  # noqa: A002  (what users call it)
        filter_cache: Path | None = None,
        stack: Mapping[str, str | Sequence[str]] | None = None,
        shuffle: bool = False,
        seed: int | None = None,
        block_rows: int | None = None,
        window_rows: int | None = None,
        lanes: int | None = None,
        groups: int | None = None,
        tail: Literal["drop", "short", "pad"] = "drop",
        nulls: Nulls = "error",
        decimals: Decimals | None = None,
        fixed: Mapping[str, Fixed] | None = None,
        pad: Pads | None = None,
        truncate: Mapping[str, End] | None = None,
        optional: str | Sequence[str] | None = None,
        partitions: str | Sequence[str] | None = None,
        cast: Casts | None = None,
        hash: Mapping[str, int | Hash] | None = None,  # noqa: A002  (what users call it)
        dictionary: str | Sequence[str] | None = None,
        rename: Mapping[str, str] | None = None,
        manifest_cache: Path | None = None,
        verify_checksums: bool = True,
        on_iter: Literal["continue", "restart"] = "continue",
        rank: int | None = None,
        world_size: int | None = None,
        world: World | ProcessGroup | DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        self.paths = path_list(paths)
        self.world, self._world_was_detected = _resolve_world(rank, world_size, world)
        if (batch_size is None) == (global_batch_size is None):
            both = f"both, {batch_size!r} and {global_batch_size!r}"
            found = "neither" if batch_size is None else both
            raise TypeError(f"one of batch_size and global_batch_size must be given, found {found}")
        self.batch_size = (
            at_least(1, "batch_size", batch_size)
            if batch_size is not None
            else global_share(global_batch_size, self.world.world_size)
        )
        self.on_iter = one_of("on_iter", on_iter, ("continue", "restart"))
        self.tail = one_of("tail", tail, ("drop", "short", "pad"))
        self._choice = _order_choice(shuffle, seed, block_rows, window_rows)
        self._seed = 0 if seed is None else at_least(0, "seed", seed)
        self._lanes = None if lanes is None else at_least(1, "lanes", lanes)
        self._groups = None if groups is None else at_least(1, "groups", groups)
        self._cut(1)
        self._columns = names("columns", columns)
        self._stacks = stack_list(stack)
        self._nulls = null_list(nulls)
        self._decimals = decimal_list(decimals)
        self._fixed = fixed_list(fixed)
        self._pads = pad_list(pad)
        self._truncations = truncation_list(truncate)
        self._optional = names("optional", optional) or []
        self._partitions = names("partitions", partitions) or []
        self._casts = cast_list(cast)
        self._hashes = hash_list(hash)
        self._coded = names("dictionary", dictionary) or []
        self._gathered: list[tuple[str, bytes]] = []
        self._renamed = rename_list(rename)
        opened = _open_manifest(self.paths, manifest_cache, truth("verify_checksums", verify_checksums))
        manifest = select(opened, rows, skip)
        cache = None if filter_cache is None else one_path("filter_cache", filter_cache)
        if filter is not None:
            manifest = select_filtered(manifest, filter, cache, self._optional, self._partitions)
        self._manifest = manifest
        self._lay_out()
        start = _core.Cursor.start(self._manifest, self._choice)
        self._length = self._pass(start, 1).batches
        if self._length == 0:
            raise ValueError(
                f"no batch would come from {self._row_counts()}: a global batch has {self.global_batch_size} "
                f"({self.batch_size} rows on each of {self.world.world_size} ranks), and tail is {tail!r}"
            )
        self._shared = SharedCursor(start)
        self._told_version = -1  # of the cursor, when its state was told to be behind
        _log.info(
            "opened %d files: %s, %d row groups, fingerprint %s; rank %d of %d, %d batches of %d rows a pass",
            len(self.files),
            self._row_counts(),
            self._manifest.num_row_groups,
            self.fingerprint[:16],
            self.world.rank,
            self.world.world_size,
            self._length,
            self.batch_size,
        )
        self._transforms: tuple[Transform, ...] = ()

    def _lay_out(self) -> None:
        self._layout = _core.Layout(
            self._manifest,
            self._columns,
            self._stacks,
            self._nulls,
            self._decimals,
            self._fixed,
            self._pads,
            self._truncations,
            self._optional,
            self._partitions,
            self._casts,
            self._hashes,
            self._renamed,
            self._coded,
            self._gathered,
        )
        # They are pickled along: no worker reads the files for them again.
        self._gathered = self._layout.dictionaries
        self.schema = Schema(self._layout)

    @property
    def num_rows(self) -> int:
        """Rows that a pass has: those of all files, or those that `rows` and `skip` select."""
        return self._manifest.num_selected

    @property
    def num_file_rows(self) -> int:
        """Rows of all files: row numbers go from 0 to below it, whichever rows are selected."""
        return self._manifest.num_rows

    @property
    def selection(self) -> Intervals | None:
        """The numbers of the selected rows: int64 `[n, 2]`, half open, sorted, coalesced; None if all are."""
        selected = self._manifest.selected
        return None if selected is None else of_buffer(selected)

    @property
    def dictionaries(self) -> Mapping[str, list[str] | list[bytes]]:
        """Of each column of `dictionary=`, by its name, the values by their codes: str, or bytes if binary.

        Raises:
            UnicodeDecodeError: if a string is not UTF-8: a file may hold any bytes.

        Example:
            >>> dataset.dictionaries  # as with dictionary="city": {"city": ["Berlin", "Oslo", "Porto"]}
            {}
        """
        found: dict[str, list[str] | list[bytes]] = {}
        for name, _ in self._gathered:
            values, is_text = self._layout.dictionary(name) or ([], False)
            found[name] = [value.decode() for value in values] if is_text else values
        return found

    @property
    def files(self) -> tuple[str, ...]:
        """The absolute paths of the files, in the order in which their rows are numbered."""
        return self._manifest.files

    @property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths, sizes and footers; a cursor belongs to one."""
        return self._manifest.fingerprint

    @property
    def global_batch_size(self) -> int:
        """Rows per step over all ranks."""
        return self.batch_size * self.world.world_size

    def __len__(self) -> int:
        """Batches that each rank gets in an unbroken pass."""
        caller = sys._getframe(1)
        check_counter(caller)
        self._check_trainer(caller)
        return self._length

    @property
    def epoch(self) -> int:
        """Passes that this job has completed."""
        cursor = self._shared.cursor
        return cursor.epoch - cursor.first_epoch

    @property
    def batches_left(self) -> int:
        """Batches that this rank still gets in the present pass."""
        return self._pass(self._shared.cursor, 1).batches_left

    def plan(self, workers: int = 0) -> Plan:
        """What is left of the present pass and what reading it takes, before it is read; prints as a table.

        Args:
            workers: how many workers a torch DataLoader over the dataset will have.

        Raises:
            ValueError: if so many workers can't share the lanes.

        Warns:
            UserWarning: if more than 1.5 rows are decoded per row delivered; it says which setting helps.

        Example:
            >>> dataset.plan().steps
            3
        """
        return make_plan(self, at_least(0, "workers", workers))

    def state_dict(self) -> dict[str, str]:
        """The state after the last delivered batch: one leaf under the key "fastresume".

        The same on every rank under lockstep training. Taking it has no side effect. Under a DataLoader with
        workers, take `batch.state_dict()`: this one changes only where a pass ends, which the logger
        "fastresume" says, once in a pass, when it is taken after a batch of theirs.
        """
        shared = self._shared
        if self.on_iter == "continue" and shared.is_behind and self._told_version != shared._version:
            self._told_version = shared._version
            _log.warning("dataset.state_dict() %s", BEHIND)
        return Cursor(self._shared.cursor).to_state()

    def load_state_dict(self, state: Mapping[str, Any] | Cursor, reset_epochs: bool = False) -> None:
        """Goes on from a state at the next `iter()`, on any number of ranks and workers.

        Reaches DataLoader workers that run already. An iterator made before raises at its next `next()`.

        Args:
            state: from `state_dict()` of a batch, dataset or `Loader`; its parsed JSON; or a `Cursor`.
            reset_epochs: keep the position, and count the passes of this job from here.

        Raises:
            StateError: if the state is empty, damaged, or of another version, dataset, selection of rows or
                order, or of another seed or size than was named. The dataset stays as it was.
        """
        cursor = Cursor.from_state(state)._core
        cursor.check_dataset(self._manifest, self._choice)
        self._shared.load(cursor.with_epochs_reset() if reset_epochs else cursor)
        _log.info("goes on from a loaded state: %r", Cursor(self._shared.cursor))

    def reset(self) -> None:
        """Goes back to the start of the present pass, for the next `iter()`."""
        self._shared.load(self._shared.cursor.restarted())

    def __iter__(self) -> Iterator[Batch]:
        """The batches of this rank up to the end of the pass; see `on_iter` for where they begin."""
        caller = sys._getframe(1)
        check_caller(caller)
        self._check_trainer(caller)
        worker = get_worker_info()
        if worker is None:
            return BatchIterator(self, threads=0, prefetch_bytes=0)
        return WorkerIterator(self, worker.id, worker.num_workers)

    def map(self, function: Transform) -> Self:
        """The dataset whose batches are what a function makes of this one's: `function(batch)`.

        It shares the cursor with this one, and may be mapped again. The function is called in the caller's
        thread by `iter()`; by a `Loader` in a few threads ahead of the loop, for several batches at once; and
        by a torch DataLoader in its workers. So what it returns should depend on its batch alone; draw random
        numbers from `batch.row_seeds()` and `batch.generator()`. See docs/TRANSFORMS.md.

        Args:
            function: is given a `Batch`, which it may change, and returns it or another one, or a mapping of
                names to values: tensors of any shape, `Jagged`, or anything else. Whatever it returns has the
                cursor and the row numbers of the batch that it was made of.

        Raises:
            TypeError: if it can't be called.

        `next()` raises what the function raises, with a note that names the batch. The cursor stays before
        that batch, and the next `next()` reads it again. `schema` is that of what the first function is
        given; `read_rows()` calls none.

        Example:
            >>> def double(batch):
            ...     batch["label"] = batch["label"] * 2
            ...     return batch
            >>> dataset.map(double).batch_at(epoch=0, step=0)["label"][:3]
            tensor([0., 2., 4.])
        """
        if not callable(function):
            raise TypeError(f"map takes a function of a batch, found {function!r}")
        mapped = type(self).__new__(type(self))
        mapped.__dict__.update(self.__dict__)
        mapped._transforms = (*self._transforms, function)
        return mapped

    def batch_at(self, epoch: int, step: int, state: Mapping[str, Any] | Cursor | None = None) -> Batch:
        """The batch of this rank at a step of a pass again, in a time that does not depend on its number.

        Without a state, of a pass that this dataset reads from its start, in this process, with no change of
        ranks or batch size on the way. With one, of the pass whose changes that state tells: any state of the
        pass, best its last one; after the last change that it knows of, the pass is taken to go on.

        Args:
            epoch: the number of the pass, as `batch.epoch` counts it.
            step: the number of the global batch in it, as `batch.step` counts it.
            state: a state of that pass.

        Raises:
            IndexError: if the pass has no such step.
            StateError: if the state is of another dataset, order or epoch.
            ValueError: if the step was made under a cut that so many ranks can't share.

        Example:
            >>> dataset.batch_at(epoch=0, step=2).rows()[:2]
            array([64, 65])
        """
        return travel.batch_at(self, epoch, step, state)

    def read_rows(self, row_numbers: Sequence[int] | npt.NDArray[np.int64]) -> Batch:
        """The rows with these numbers as a `Batch`, in this order; a number may come more than once.

        The batch belongs to no pass: its `cursor`, `state_dict()`, `epoch` and `step` raise.

        Args:
            row_numbers: as `batch.rows()` gives them, in `[0, num_file_rows)`, selected or not.

        Raises:
            IndexError: if a row is not of the files.
            DataError, SourceError: if a file can't be read, or is damaged.

        Example:
            >>> dataset.read_rows([7, 7, 3])["label"].shape
            torch.Size([3])
        """
        return travel.read_rows(self, row_numbers)

    def locate(self, row_numbers: Sequence[int] | npt.NDArray[np.int64]) -> list[tuple[str, int, int]]:
        """Where rows are: a list of (path, row group, row in the row group), in the given order.

        Raises:
            IndexError: if a row is not of the files.

        Example:
            >>> path, row_group, row = dataset.locate([53])[0]
            >>> row_group, row
            (0, 3)
        """
        return travel.locate(self, row_numbers)

    def _remaining_rows(self, cursor: _core.Cursor) -> list[tuple[str, int, Intervals]]:
        return travel.remaining_rows(self, cursor)

    def _row_counts(self) -> str:
        of_files = "" if self._manifest.selection is None else f" of {self.num_file_rows}"
        return f"{self.num_rows}{of_files} rows"

    def _cut(self, workers: int) -> Cut:
        return cut_of(self.batch_size, self.world.world_size, workers, self._lanes, self._groups)

    def _pass(self, cursor: _core.Cursor, workers: int) -> _core.Pass:
        """What is left of the pass that a cursor is in."""
        return _core.Pass(cursor, self._cut(workers), self.tail, self.world.world_size)

    def _share(self, planned: _core.Pass, cursor: _core.Cursor) -> Planned:
        """What the batches of this rank have in common in the pass that a cursor is in."""
        seed: int = self._seed if self._choice is None else Cursor(cursor).order["seed"]
        return Planned(self.world.rank, seed, planned)

    def _bounds(self, cursor: _core.Cursor) -> tuple[_core.Cursor, _core.Cursor | None]:
        """Where an iterator begins, and where it ends if that is not the next pass."""
        if self.on_iter == "continue":
            return cursor, None
        return cursor.restarted(), cursor.restarted()

    def _check_trainer(self, caller: FrameType) -> None:
        if self.on_iter == "continue" and not self._shared.is_kept:
            check_trainer(caller)

    def _check_world(self) -> None:
        current = World.of_default_group() if self._world_was_detected else None
        if current is not None and current != self.world:
            raise _core.FastresumeError(
                f"the dataset was made for {self.world}, but the process group now says {current}: make it "
                "after init_process_group, or pass rank= and world_size=. Where Lightning starts the ranks "
                "by itself, start them with torchrun, which says who is who before"
            )

    def __getitem__(self, index: object) -> Batch:
        """Rows and batches have no places in a stream: what would ask for one is told what to write.

        Raises:
            TypeError: always.
        """
        raise TypeError(
            f"a {type(self).__name__} is a stream of batches, which has no index: write "
            "rows=fr.Split(0.0, 0.9) and rows=fr.Split(0.9, 1.0) for a split of the rows (in place of "
            "random_split and Subset), read_rows([...]) for single rows, batch_at(epoch=, step=) for a batch"
        )

    def __getstate__(self) -> dict[str, Any]:
        check_picklable(self._transforms)
        state = self.__dict__.copy()
        for made in ("_layout", "schema"):
            del state[made]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out()

    def __repr__(self) -> str:
        order = Cursor(self._shared.cursor).order_text
        return (
            f"ParquetDataset({len(self.files)} files, {self._row_counts()}, {len(self.schema)} tensors, "
            f"{order}, batch_size={self.batch_size}, rank {self.world.rank} of {self.world.world_size}, "
            f"epoch {self.epoch}, {self.batches_left} batches left"
            + "".join(f", mapped by {name_of(transform)}" for transform in self._transforms)
            + ")"
        )


def dataset_behind(loader: object) -> ParquetDataset | None:
    """The dataset that batches are drawn from: itself, or that of a `Loader` or torch DataLoader; or None."""
    found = loader if isinstance(loader, ParquetDataset) else getattr(loader, "dataset", None)
    return found if isinstance(found, ParquetDataset) else None


def _open_manifest(paths: list[str], cache: Path | None, verify_checksums: bool) -> _core.Manifest:
    path = None if cache is None else one_path("manifest_cache", cache)
    manifest = _core.Manifest.open(paths, path, verify_checksums)
    if manifest.not_cached is not None:
        warnings.warn(manifest.not_cached, stacklevel=3)
    return manifest


def _order_choice(
    shuffle: bool, seed: int | None, block_rows: int | None, window_rows: int | None
) -> OrderChoice:
    """What is named of the order; None of a sequential one."""
    named_seed = None if seed is None else at_least(0, "seed", seed)
    block = None if block_rows is None else at_least(1, "block_rows", block_rows)
    window = None if window_rows is None else at_least(1, "window_rows", window_rows)
    if truth("shuffle", shuffle):
        return named_seed, block, window
    if block is not None or window is not None:
        raise ValueError(
            "block_rows and window_rows are sizes of the shuffled order: pass shuffle=True with them"
        )
    return None


def _resolve_world(
    rank: int | None, world_size: int | None, world: World | ProcessGroup | DeviceMesh | None
) -> tuple[World, bool]:
    if (rank is None) != (world_size is None):
        raise TypeError("rank and world_size come together, found only one of them")
    if world is not None and rank is not None:
        raise TypeError("pass either world or rank and world_size, not both")
    if world is not None:
        return World.of(world), False
    if rank is not None and world_size is not None:
        return World(rank, world_size), False
    return World.detect(), True
