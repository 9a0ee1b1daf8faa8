"""Parquet files as an iterable dataset of batches."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, Self, cast

import fastresume._core as _core
from fastresume.columns.request import Columns
from fastresume.messages import warn
from fastresume.options.bad_rows import BadRows
from fastresume.options.cache import Cache
from fastresume.options.checks import path_generations
from fastresume.options.earlier import of_today
from fastresume.options.rows import Rows, Shuffle
from fastresume.options.stores import Credentials, options_of, stores_of
from fastresume.options.tail import Tail
from fastresume.options.units import Unit
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import World
from fastresume.reading.deleted_rows import live_rows
from fastresume.reading.files_dataset import FilesDataset
from fastresume.reading.files_spec import OF_FILES, FilesSpec
from fastresume.rows_dataset import Asked, Found, RowsDataset
from fastresume.sources.saved_dataset import folder_of_rows
from fastresume.tables.file_orders import FileOrders
from fastresume.tables.named_table import open_files, open_table
from fastresume.tables.snapshot import Snapshot

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import Table as IcebergTable
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

_log = logging.getLogger("fastresume")

Path = str | os.PathLike[str]


@takes_no_other("ParquetDataset", "dataset", of_today)
class ParquetDataset(RowsDataset):
    """An iterable of `Batch`es over Parquet files, which resumes exactly on any number of ranks.

    `iter(dataset)` gives the batches of this rank from the cursor to the end of the pass, decoded in the
    caller's thread; `Loader` does the same with threads. Under `torch.utils.data.DataLoader`, pass
    `batch_size=None`.

    Args:
        paths: a file, a directory (all files below it that end in `.parquet`, names that begin with `_` or
            `.` left out), a glob pattern, or a list of these. `~` is the home directory; `file:///data` is
            `/data`. Addresses of objects, `s3://bucket/day=*/`, `gs://`, `az://`, `abfss://`, `http(s)://`,
            `hf://datasets/owner/name@revision/path`, mean the same: a web server lists nothing, so each
            of its files is named. A list of lists
            holds generations (days, say): they keep its order. `delta://` before a path or address,
            `iceberg://catalog/namespace.table`, a `deltalake.DeltaTable`, a `pyiceberg.table.Table` or its
            `scan(snapshot_id=n)` is a table. `?version=12` at the end of an address is the number of a
            snapshot, of Iceberg its id; without it the latest one is read. Files have the order of the
            commits that added them. So a snapshot to which others were appended has grown, for `on_change`.
            See docs/how-to/tables.md. Rows are numbered
            by the bytes of the files' paths, whatever the order of a list: `part-10` is before `part-2`.
            `[[path] for path in paths]` keeps the order of the list; another order is another dataset.
        batch_size: rows per rank and step.
        global_batch_size: rows per step over all ranks, instead of `batch_size`.
        columns: what is delivered, in this order; every column as it is if None. Names and glob patterns
            deliver columns as they are (the members of a struct `a` are columns `a.b`, and `a` names all of
            them); a `!` before a name leaves it out: `["*", "!payload"]`, or `"!payload"` alone,
            are all columns but `payload`. `fr.col(...)` says what happens to columns, and `fr.stack(...)`
            makes a matrix of several. What `fr.col` makes takes the place of a plain column of the same name:
            `["*", fr.col("label").cast(torch.float32)]` is all columns, one of them cast. A column may be
            delivered more than once under different names.
        rows: which rows the dataset consists of: a boolean mask (an array or tensor with one value for each
            row of the files), row numbers (integers `[n]`, rising), intervals of them (int64 `[n, 2]`, half
            open), `fr.Intervals` of these,
            or a `fr.Split`, a share of the rows by a hash of their numbers. `~` is all rows but these, `&`
            what two have in common, `|` what is in one of two: `~fr.Intervals([[512, 640]])` leaves rows out.
            All rows if None. A state belongs to one selection of rows.
        filter: keep the rows for which a condition is true: one on `fr.col(name)`, terms as `pyarrow.parquet`
            takes them (`[("a", ">", 3), ("b", "in", [1, 2])]`, lists of these for "or"), or an expression of
            pyarrow. It is resolved once, here, into a selection of rows; its columns need not be among
            `columns`. With `rows`, of these. It asks what files hold: a null
            is one whatever `nulls` delivers for it.
        shuffle: deliver the rows in a shuffled order, another one in each pass: blocks of rows are permuted
            over the whole dataset, and rows within windows of several blocks. The seed and the number of the
            pass alone choose it, whatever the ranks, workers and batch sizes. `fr.Shuffle(window_rows=n)`
            names its sizes.
        seed: of the shuffled order, and of what transforms draw (`batch.row_seeds()`, `batch.generator()`).
            If None, that of a loaded state, or 0. The state of a sequential order holds none: there it is
            the one that is named, or 0.
        lanes: into how many contiguous parts the order is divided, a multiple of the ranks times `groups`;
            by default one per rank and group. With `lanes` and `groups` named, the global batches are the
            same at every world size that divides `lanes / groups`. With 1, every global batch is one
            contiguous stretch of the order.
        groups: groups of lanes that take turns, a multiple of the loader workers; by default one per worker.
        tail: what happens to the rows after the last whole global batch: "drop" drops them, "short" shares
            them among the ranks (fewer rows than ranks are dropped), "pad" repeats them up to a whole batch,
            in which `batch.valid` tells copies apart. All ranks get the same number of batches.
        nulls: what happens to a null of a column for which `columns` says nothing else: "error" raises a
            DataError that names it (where footers count nulls here, with all columns that have some; else,
            where `schema[name].null_count` is None, when its batch is read), "mask" gives a bool tensor
            `name + "_valid"` beside the tensor `name` (False, and a value of 0, where there is a null) and
            the `valid` of a `Jagged`. A null list or string is then empty. Of lists, a mask marks null rows,
            null lists and strings inside of them, and null numbers (`Jagged.values_valid`). No tensor ever
            changes its type. A member of a struct that is null is null.
        cache: what to keep for the next start, and where, as `fr.Cache(manifest="manifest")`: what footers
            say, the rows that `filter` selects, the index of `unit=`, and with `data=` what was read of
            objects. None keeps nothing.
        verify_checksums: compare the checksum (CRC-32) of each page that is read with the one in its header,
            where its writer put one. False spares that, and delivers a damaged page whose values still decode
            as it is, with wrong values that nothing tells; what can't be decoded is a DataError still. No
            state and no fingerprint knows of it: a job may resume with the other choice.
        storage_options: how stores are reached, by the names that `object_store` (and polars) has for it:
            `{"endpoint_url": "http://localhost:9000", "region": "eu-central-1"}`. What is not named comes
            from the environment: `AWS_ACCESS_KEY_ID`, `GOOGLE_APPLICATION_CREDENTIALS`, `HF_TOKEN`,
            `HTTPS_PROXY`. Values may be secrets: no message, state or cache holds one; a pickle of the
            dataset does.
        credentials: a function without arguments that returns credentials which expire, as a dict:
            `aws_access_key_id`, `aws_secret_access_key`, `aws_session_token`; `bearer_token`; `token`. It is
            asked before each request, in other threads, and should keep what has not expired.
        read_bytes: how many bytes of objects may be on their way, or there and not decoded yet, in each
            process that reads. More of them hide longer delays of the network.
        on_change: what happens to a state where files were added since: "error" refuses it, "append"
            resumes from it if the files that it knew come first, unchanged. What was left of the pass is
            left, and the new rows follow it, in an order of their own if it is shuffled. A state between
            passes goes back into the pass that was done, whose new rows are left. So a job that is started
            again each day trains on what is new, once: see docs/how-to/new-files-each-day.md.
        on_iter: what `iter()` means: "continue" after the last delivered batch, or "restart" the pass, for an
            evaluation that breaks off and is to see the same rows each time.
        bad_rows: what happens to rows that can't be read or decoded (a damaged page or chunk, a file that was
            cut off or is gone): "error" raises, "mask" delivers them as not valid, a thousandth of a pass at
            most; `fr.MaskBadRows(at_most=n)` sets another limit. `batch.valid` is False
            there, values of the columns that can't be read are 0 or empty, others as they are. No state, step
            or order changes, so a run that died on a page resumes under "mask". What a rule
            refuses (a null, a cast) is no damage. See docs/how-to/damaged-files.md.
        unit: what is counted instead of rows: `fr.Packed(...)` sequences of one length, or
            `fr.Bins(...)` of rows by cost; None for rows. Under `bad_rows="mask"`, rows whose cost can't
            be read are in none. See docs/how-to/pack.md.
        world: which of how many ranks this is: `(rank, world_size)`, a `World`, a process group or a
            one-dimensional device mesh. `World.detect()` if None.

    Raises:
        SourceError: if no file matches, or one can't be read; if what a pattern meets can't be asked whether
            it is a file (a link that leads nowhere, a directory that may not be searched).
        DataError: if a file is damaged or not Parquet, a column is missing, differs between files or has a
            type that can't be delivered; if a directory or pattern means files of a Delta, Iceberg or Hudi
            table, among which are those that it has removed.
        ValueError: for numbers out of range, or a dataset from which no batch would come.
        TypeError: for arguments of another type.
        ImportError: if the package that reads the table is not installed.

    Warns:
        UserWarning: if what `cache` names can't be written or read; if footers show integers that a
            `.cast()` does not hold; if no file has an `.optional()` column; if the index of a pandas frame is
            delivered that nothing names. That a file was found under two names (hard links), so that its rows
            are delivered twice, the logger "fastresume" says.

    Threads and forks: share a dataset between threads only if one of them iterates. A forked child
    continues from the cursor of the moment, on its own. Pickling takes the manifest along, so that no footer
    is read again.

    Examples:
        >>> import fastresume as fr
        >>> columns = ["label", fr.stack("i_*", name="dense")]
        >>> dataset = ParquetDataset("data/*.parquet", batch_size=32, columns=columns)
        >>> next(iter(dataset))["dense"].shape
        torch.Size([32, 3])
    """

    def __init__(
        self,
        paths: Path | Sequence[Path] | Sequence[Sequence[Path]] | DeltaTable | IcebergTable,
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        columns: Columns | None = None,
        rows: Rows | None = None,
        filter: object = None,  # noqa: A002  (what users call it)
        shuffle: bool | Shuffle = False,
        seed: int | None = None,
        lanes: int | None = None,
        groups: int | None = None,
        tail: Tail = "drop",
        nulls: Literal["error", "mask"] = "error",
        cache: Cache | None = None,
        verify_checksums: bool = True,
        storage_options: Mapping[str, object] | None = None,
        credentials: Credentials | None = None,
        read_bytes: int = 256 << 20,
        on_iter: Literal["continue", "restart"] = "continue",
        on_change: Literal["error", "append"] = "error",
        bad_rows: BadRows = "error",
        unit: Unit | None = None,
        world: World | tuple[int, int] | ProcessGroup | DeviceMesh | None = None,
    ) -> None:
        table = open_table(paths, partial(options_of, storage_options, credentials))
        named_paths = path_generations(cast("Sequence[Path]", paths) if table is None else table.files)
        if table is not None:
            named_paths = [[path] for generation in named_paths for path in generation]
        asked = Asked.of(
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            columns=columns,
            rows=rows,
            filter=filter,
            shuffle=shuffle,
            seed=seed,
            lanes=lanes,
            groups=groups,
            tail=tail,
            nulls=nulls,
            cache=cache,
            on_iter=on_iter,
            on_change=on_change,
            bad_rows=bad_rows,
            unit=unit,
            world=world,
        )
        reached_by = storage_options if table is None else table.reached_by(storage_options)
        if table is not None and storage_options is not None:
            table = dataclasses.replace(table, unused_properties=())
        addresses = [asked.kept_in or "", *(path for generation in named_paths for path in generation)]
        if storage_options and not any("://" in address for address in addresses):
            warn("storage_options= is for addresses, as 's3://bucket/data/': paths are local")
        stores = stores_of(reached_by, credentials, read_bytes, asked.cache)
        try:
            opened = open_files(named_paths, stores, asked.kept_in, verify_checksums, table)
        except (_core.SourceError, _core.DataError):
            folder = folder_of_rows(path for generation in named_paths for path in generation)
            if folder is None:
                raise
            raise _core.DataError(
                f"paths names a folder of datasets.Dataset.save_to_disk, whose files are Arrow's: write "
                f"fr.ArrowDataset({folder!r})"
            ) from None

        def found(opened: _core.Manifest, table: Snapshot | None) -> Found:
            live = opened if table is None else live_rows(opened, table)
            files = named_paths if table is None else [table.files]
            names = tuple(path for generation in files for path in generation)
            return asked.found(live, names, OF_FILES, None if table is None else table.name)

        self._begin(asked, found(opened, table), opened)
        self._orders = None
        if table is not None and table.other_orders:
            self._orders = FileOrders(table, opened, found)

    @classmethod
    def _of_spec(cls, spec: FilesSpec) -> Self:
        """The dataset of a spec that was opened elsewhere: no file is read, and no filter reports."""
        made = cls.__new__(cls)
        FilesDataset.__init__(made, spec)
        made._filter_report = made._orders = None
        return made

    def _adopted(self, cursor: _core.Cursor) -> _core.Cursor:
        try:
            return super()._adopted(cursor)
        except _core.StateError:
            found = None if self._orders is None else self._orders.of(cursor.fingerprint)
            if found is None:
                raise
        spec = dataclasses.replace(found.spec, transforms=self._spec.transforms, masking=self._spec.masking)
        fitted = spec.fitted(cursor)
        self._take_found(found._replace(spec=spec))
        _log.info("the files are in the order of the state, which the table's history no longer shows")
        return fitted

    @property
    def version(self) -> int | None:
        """The number of the table's snapshot that is read; None of files that are no table's.

        Examples:
            >>> dataset.version  # of "delta://path": 12
        """
        return None if self._spec.table is None else self._spec.table.version
