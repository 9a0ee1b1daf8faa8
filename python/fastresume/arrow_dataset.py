"""Arrow tables, and any source of rows, as an iterable dataset of batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import fastresume._core as _core
from fastresume.columns.request import Columns
from fastresume.options.bad_rows import BadRows
from fastresume.options.checks import quoted
from fastresume.options.rows import Rows, Shuffle
from fastresume.options.stores import Credentials, stores_of
from fastresume.options.tail import Tail
from fastresume.options.units import Unit
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import World
from fastresume.reading.files_spec import Door
from fastresume.rows_dataset import Asked, Found, RowsDataset, Session
from fastresume.sources.opened import has_session, opened
from fastresume.state.session import text_of
from fastresume.tables.named_table import names_table

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

OF_SEGMENTS = Door("ArrowDataset", "source", "segment")


@takes_no_other("ArrowDataset", "dataset")
class ArrowDataset(RowsDataset):
    """An iterable of `Batch`es over Arrow tables or any source of rows, which resumes exactly.

    It delivers what a `ParquetDataset` delivers of a Parquet file of the same rows, value by value, and
    whatever takes one takes the other: `Loader`, `Mixture`, `Checkpointer`, the audit. It needs pyarrow.

    Args:
        source: a `pyarrow.Table`, a `RecordBatch` or a list of them, a polars DataFrame, anything with
            `__arrow_c_stream__` (read once, and kept), a list of such tables; paths, glob patterns,
            directories and addresses of Arrow IPC files and streams (`.arrow`, `.arrows`, `.feather`,
            `.ipc`), or lists of lists of them; or a `fastresume.sources.RowSource`. A list is read as one
            dataset; with `on_change="append"`, later lists may have more. Tables are not copied, and local
            files are mapped: don't change them.
        batch_size: rows per rank and step.
        global_batch_size: rows per step over all ranks, instead of `batch_size`.
        columns: what is delivered, in this order; every column as it is if None. As of a `ParquetDataset`.
        rows: which rows the dataset consists of, as of a `ParquetDataset`.
        filter: keep the rows for which a condition is true, as in a `ParquetDataset`. Its columns are read.
        shuffle: deliver the rows in a shuffled order, another one in each pass.
        seed: of the shuffled order, and of what transforms draw.
        lanes: into how many contiguous parts the order is divided, as of a `ParquetDataset`.
        groups: groups of lanes that take turns, as of a `ParquetDataset`.
        tail: what happens to the rows after the last whole global batch: "drop", "short" or "pad".
        nulls: what happens to a null that `columns` says nothing of: "error" or "mask".
        storage_options: how stores of objects are reached, as of a `ParquetDataset`.
        credentials: what gives credentials of stores, as of a `ParquetDataset`.
        read_bytes: how many bytes may be on their way, or there and not decoded yet, in each process: of
            objects, of rows that a source reads, and of compressed files.
        on_iter: what `iter()` means: "continue" or "restart".
        on_change: what happens to a state when segments were added since: "error" or "append".
        bad_rows: what happens to rows that can't be read: "error", "mask" or `fr.MaskBadRows(at_most=n)`.
        unit: what is counted instead of rows: `fr.Packed(...)`, `fr.Bins(...)`, or None for rows.
        world: which of how many ranks this is, as of a `ParquetDataset`.

    Raises:
        TypeError: for a source that has no rows, or arguments of another type.
        DataError: if columns have types that can't be delivered, tables have other columns, or a file is
            damaged.
        SourceError: if a source's rows can't be read.
        ValueError: for numbers out of range, or a dataset from which no batch would come.
        ImportError: if pyarrow is not installed.

    The fingerprint of tables covers the columns' names and types, and all values: a state fits the same rows,
    however they are cut into batches. That of a `RowSource` covers what its `snapshot()` returns, its
    columns, and the names and rows of its segments. That of IPC files covers their relative paths and their
    metadata, which tell rows and nulls of each batch, and no values. A state of a Parquet file of the same
    rows does not fit: files are known by their footers. Where the order of rows is that of a session, a state
    names it, and `load_state_dict` asks the source for it again: it raises `SourceError` if the session has
    ended.

    Threads and forks: as of a `ParquetDataset`. A pickle holds the tables, the places of batches in files, or
    the `RowSource`: worker processes get a copy of tables in memory.

    Examples:
        >>> import fastresume as fr
        >>> import pyarrow as pa
        >>> table = pa.table({"x": range(100), "label": [0.5] * 100})
        >>> dataset = fr.ArrowDataset(table, batch_size=32, columns=["label", fr.stack("x", name="dense")])
        >>> next(iter(dataset))["dense"].shape
        torch.Size([32, 1])
    """

    def __init__(
        self,
        source: object,
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
        storage_options: Mapping[str, object] | None = None,
        credentials: Credentials | None = None,
        read_bytes: int = 256 << 20,
        on_iter: Literal["continue", "restart"] = "continue",
        on_change: Literal["error", "append"] = "error",
        bad_rows: BadRows = "error",
        unit: Unit | None = None,
        world: World | tuple[int, int] | ProcessGroup | DeviceMesh | None = None,
    ) -> None:
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
            cache=None,
            on_iter=on_iter,
            on_change=on_change,
            bad_rows=bad_rows,
            unit=unit,
            world=world,
        )
        manifest, found = _found(source, asked, stores_of(storage_options, credentials, read_bytes, None))
        self._begin(asked, found, manifest)
        if has_session(source):
            self._session = _SourceSession(source, asked)


def _found(source: Any, asked: Asked, stores: _core.Stores | None = None) -> tuple[_core.Manifest, Found]:
    """The rows of a source, and what is read of them."""
    if names_table(source):
        table = quoted(source) if isinstance(source, str) else "table"
        raise TypeError(f"source is a table of Parquet files: write fr.ParquetDataset({table}, batch_size=n)")
    manifest = opened(source, stores, asked.wanted)
    session = text_of(source.session()) if has_session(source) else None
    return manifest, asked.found(manifest, manifest.files, OF_SEGMENTS, session=session)


class _SourceSession(Session):
    """The session of a source.

    Args:
        source: a `RowSource` with `in_session`.
        asked: what was asked of its rows.
    """

    def __init__(self, source: Any, asked: Asked) -> None:
        self._source, self._asked = source, asked

    def found(self, named: Any) -> Found:
        """What is read of the same rows in the session that a state names."""
        self._source = self._source.in_session(named)
        return _found(self._source, self._asked)[1]
