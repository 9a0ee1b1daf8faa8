"""Parquet files as an iterable dataset of batches."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy.typing as npt

import fastresume._core as _core
from fastresume.batch.jagged import texts
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, of_buffer
from fastresume.filter.resolve import FilterReport, select_filtered
from fastresume.options.checks import at_least, names, one_of, one_path, path_list, truth
from fastresume.options.columns import (
    Casts,
    ColumnOptions,
    Decimals,
    End,
    Fixed,
    Hash,
    Nulls,
    Pads,
    cast_list,
    decimal_list,
    fixed_list,
    hash_list,
    null_list,
    pad_list,
    rename_list,
    stack_list,
    truncation_list,
)
from fastresume.options.rows import Rows, order_choice, select
from fastresume.options.topology import World, cut_of, global_share, resolve_world
from fastresume.plan import Plan, make_plan
from fastresume.reading.resumable import ResumableDataset
from fastresume.reading.spec import ReadSpec

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

_log = logging.getLogger("fastresume")

Path = str | os.PathLike[str]


class ParquetDataset(ResumableDataset):
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
        SourceError: if no file matches, or one can't be read; if what a pattern meets can't be asked whether
            it is a file (a link that leads nowhere, a directory that may not be searched).
        DataError: if a file is damaged or not Parquet, a column is missing, differs between files or has a
            type that can't be delivered; if a directory or pattern means files of a Delta, Iceberg or Hudi
            table, among which are those that it has removed.
        ValueError: for numbers out of range, or a dataset from which no batch would come.
        TypeError: for arguments of another type.

    Warns:
        UserWarning: if `manifest_cache` or `filter_cache` can't be written. That a file was found under two
            names (hard links), so that its rows come twice, the logger "fastresume" says.

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
        named_paths = path_list(paths)
        own_world, was_detected = resolve_world(rank, world_size, world)
        if (batch_size is None) == (global_batch_size is None):
            both = f"both, {batch_size!r} and {global_batch_size!r}"
            found = "neither" if batch_size is None else both
            raise TypeError(f"one of batch_size and global_batch_size must be given, found {found}")
        rows_of_rank = (
            at_least(1, "batch_size", batch_size)
            if batch_size is not None
            else global_share(global_batch_size, own_world.world_size)
        )
        iter_means = one_of("on_iter", on_iter, ("continue", "restart"))
        named_tail = one_of("tail", tail, ("drop", "short", "pad"))
        choice = order_choice(shuffle, seed, block_rows, window_rows)
        own_seed = 0 if seed is None else at_least(0, "seed", seed)
        named_lanes = None if lanes is None else at_least(1, "lanes", lanes)
        named_groups = None if groups is None else at_least(1, "groups", groups)
        cut_of(rows_of_rank, own_world.world_size, 1, named_lanes, named_groups)
        options = ColumnOptions(
            columns=names("columns", columns),
            stacks=stack_list(stack),
            nulls=null_list(nulls),
            decimals=decimal_list(decimals),
            fixed=fixed_list(fixed),
            pads=pad_list(pad),
            truncations=truncation_list(truncate),
            optional=names("optional", optional) or [],
            partitions=names("partitions", partitions) or [],
            casts=cast_list(cast),
            hashes=hash_list(hash),
            codes=names("dictionary", dictionary) or [],
            names=rename_list(rename),
            known=[],
        )
        opened = _open_manifest(named_paths, manifest_cache, truth("verify_checksums", verify_checksums))
        manifest = select(opened, rows, skip)
        cache = None if filter_cache is None else one_path("filter_cache", filter_cache)
        report: FilterReport | None = None
        if filter is not None:
            manifest, report = select_filtered(manifest, filter, cache, options.optional, options.partitions)
        layout = options.layout(manifest)
        spec = ReadSpec(
            paths=tuple(named_paths),
            manifest=manifest,
            # Dictionaries are pickled along: no worker reads the files for them again.
            columns=options._replace(known=layout.dictionaries),
            layout=layout,
            schema=Schema(layout),
            order_choice=choice,
            seed=own_seed,
            world=own_world,
            world_was_detected=was_detected,
            batch_size=rows_of_rank,
            tail=named_tail,
            lanes=named_lanes,
            groups=named_groups,
            on_iter=iter_means,
        )
        super().__init__(spec)
        self._filter_report = report
        _log.info(
            "opened %d files: %s, %d row groups, fingerprint %s; rank %d of %d, %d batches of %d rows a pass",
            len(self.files),
            spec.row_text(),
            manifest.num_row_groups,
            self.fingerprint[:16],
            own_world.rank,
            own_world.world_size,
            self._length,
            rows_of_rank,
        )

    @property
    def selection(self) -> Intervals | None:
        """The numbers of the selected rows: int64 `[n, 2]`, half open, sorted, coalesced; None if all are."""
        selected = self.spec.manifest.selected
        return None if selected is None else of_buffer(selected)

    def filter_report(self) -> FilterReport | None:
        """How many rows `filter=` kept, and by what evidence others were left out; None without one.

        Example:
            >>> dataset.filter_report()  # with one: FilterReport(rows=1000, kept=20, scanned=100, ...)
        """
        return self._filter_report

    @property
    def dictionaries(self) -> Mapping[str, list[str] | list[bytes]]:
        """Of each column of `dictionary=`, by its name, the values by their codes: str, or bytes if binary.

        Raises:
            DataError: if a string is not UTF-8, as a file may hold any bytes; names the column and the text.

        Example:
            >>> dataset.dictionaries  # as with dictionary="city": {"city": ["Berlin", "Oslo", "Porto"]}
            {}
        """
        found: dict[str, list[str] | list[bytes]] = {}
        for name, _ in self.spec.columns.known:
            values, is_text = self.spec.layout.dictionary(name) or ([], False)
            found[name] = texts(values, f"column '{name}'") if is_text else values
        return found

    @property
    def files(self) -> tuple[str, ...]:
        """The absolute paths of the files, in the order in which their rows are numbered.

        A name that is no text is the string that `os.fsdecode` makes of it, which `open()` takes.
        """
        return self.spec.manifest.files

    @property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths, sizes and footers; a cursor belongs to one."""
        return self.spec.manifest.fingerprint

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
        return make_plan(self.spec, self.shared_cursor.cursor, at_least(0, "workers", workers))


def dataset_behind(loader: object) -> ParquetDataset | None:
    """The dataset that batches are drawn from: itself, or that of a `Loader` or torch DataLoader; or None."""
    found = loader if isinstance(loader, ParquetDataset) else getattr(loader, "dataset", None)
    return found if isinstance(found, ParquetDataset) else None


def _open_manifest(paths: list[str], cache: Path | None, verify_checksums: bool) -> _core.Manifest:
    path = None if cache is None else one_path("manifest_cache", cache)
    manifest = _core.Manifest.open(paths, path, verify_checksums)
    if manifest.not_cached is not None:
        warnings.warn(manifest.not_cached, stacklevel=3)
    if manifest.second_names is not None:  # some link files in order to read them twice
        _log.warning(manifest.second_names)
    return manifest
