"""The `FilesSpec`: the files and rows that a dataset reads, in which order, and as which tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.audit.delivery_log import descriptions_of
from fastresume.audit.log_format import digest
from fastresume.audit.logged import Description
from fastresume.batch.batch import Batch, of_delivered
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin, Share
from fastresume.batch.schema import Schema, Tensors
from fastresume.buffers import Intervals, of_buffer, of_runs, row_count
from fastresume.columns.request import ColumnRequest
from fastresume.options.rows import OrderChoice
from fastresume.options.world import Cut
from fastresume.reading.masked_rows import Bound
from fastresume.reading.row_places import RowNumbers, locate
from fastresume.reading.spec import PassReader, ReadSpec
from fastresume.state.cursor import Cursor
from fastresume.state.session import in_session
from fastresume.tables.snapshot import SnapshotName


class Door(NamedTuple):
    """How users call what reads the rows: its class, its first argument, and what that is made of."""

    name: str
    source: str
    part: str


OF_FILES = Door("ParquetDataset", "paths", "file")


def _written(column: object) -> str:
    """A column as its user wrote it."""
    return column if isinstance(column, str) else repr(column)


@dataclass(frozen=True, kw_only=True)
class FilesSpec(ReadSpec):
    """What a `ParquetDataset` or an `ArrowDataset` reads.

    A pickle holds the manifest and the dictionaries, so that no file is read again; the layout is made again.

    Args:
        paths: the paths that the user named, as strings.
        manifest: the files, and which of their rows are selected.
        columns: how columns become tensors.
        layout: what `columns` make of the files.
        order_choice: the named parameters of the shuffled order (seed, block rows, window rows); None for a
            sequential one.
        on_change: whether a state of the first files fits.
        table: the snapshot whose files they are, if they are a table's.
        has_batch_size: whether a batch size was named: without one, it is read as a source of a mixture.
        door: how the user called it.
        session: what states name of the session that the rows are read in, as JSON text; None if in none.
    """

    paths: tuple[str, ...]
    manifest: _core.Manifest
    columns: ColumnRequest
    layout: _core.Layout
    order_choice: OrderChoice
    on_change: Literal["error", "append"]
    table: SnapshotName | None = None
    has_batch_size: bool = True
    door: Door = OF_FILES
    session: str | None = None

    @property
    def named_session(self) -> str | None:
        """What states name of the session of the rows' source."""
        return self.session

    @property
    def session_text(self) -> str | None:
        """What the state of a mixture names of the session, as `text_of` makes it; None if in none."""
        return self.session

    @property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths, sizes and footers."""
        return self.manifest.fingerprint

    def config(self) -> dict[str, Any]:
        """What was asked for, as plain values."""
        columns = self.columns.columns
        seed, block_rows, window_rows = self.order_choice or (None, None, None)
        shuffle = {"seed": seed, "block_rows": block_rows, "window_rows": window_rows}
        return {
            **super().config(),
            "paths": list(self.paths),
            "version": None if self.table is None else self.table.version,
            "rows": self.manifest.selection,
            "columns": None if columns is None else [_written(column) for column in columns],
            "nulls": self.columns.nulls,
            "shuffle": None if self.order_choice is None else shuffle,
            "on_change": self.on_change,
            "verify_checksums": self.manifest.verifies_checksums,
        }

    @property
    def num_rows(self) -> int:
        """The number of rows of a pass."""
        return self.manifest.num_selected

    @property
    def num_file_rows(self) -> int:
        """The number of rows of all files."""
        return self.manifest.num_rows

    @property
    def row_bytes(self) -> int:
        """Estimated bytes of a row of a batch, from the footers."""
        return self.layout.row_bytes

    @property
    def masking_bounds(self) -> Sequence[Bound]:
        """How many rows may be masked, for `MaskedRows`."""
        most, rows = self.max_bad_rows, self.rows_of_rank
        return [Bound.of(most, rows, self.manifest, masks_damage=self.masks_damage)]

    @property
    def stores(self) -> Sequence[_core.Stores]:
        """The stores that its files may lie in."""
        return (self.manifest.stores,)

    def start(self) -> _core.Cursor:
        """The cursor of a new job."""
        return in_session(self.started(self.order_choice), self.session)

    def started(self, choice: OrderChoice) -> _core.Cursor:
        """The cursor of a new job with this choice of order."""
        return _core.Cursor.start(self.manifest, choice)

    def fitted(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of this dataset, or what it becomes after the dataset has grown.

        Raises:
            StateError: if it is of another dataset, selection of rows or order.
        """
        try:
            return in_session(self.fitted_to_files(cursor), self.session)
        except _core.StateError as error:
            if "mixture" in Cursor(cursor).order:
                raise _core.StateError(
                    "the state is of a mixture, and this is one dataset: load it into the Mixture"
                ) from None
            hint = self.unit_hint if error.differs_in == "selection of rows" else ""
            if self.table is not None and error.differs_in != "growth":
                hint += f". {self.table.hint}"
            if self.door.part == "segment" and error.differs_in in ("dataset", "growth"):
                hint += ". Of a table: names, rows, columns, or what snapshot() returns of a source of rows. "
                hint += "A table that grew is [old, new]"
            error.args = (f"{error}{hint}",)
            raise

    @property
    def unit_hint(self) -> str:
        """What to add where a state counts others than these rows."""
        return ", and the same unit= if it counted sequences or bins; here are rows"

    def fitted_to_files(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of these files, or what it becomes after files were added.

        Raises:
            StateError: if it is of another dataset, selection of rows or order.
        """
        return cursor.fitted(self.manifest, self.order_choice, self.on_change == "append")

    def reader(
        self,
        cursor: _core.Cursor,
        planned: _core.Pass,
        place: tuple[int, int, int, int],
        threads: int = 0,
        prefetch_bytes: int = 0,
        page_lock: _core.PageLock | None = None,
    ) -> PassReader:
        """The batches of a rank's worker, from a cursor on, decoded by the core."""
        ahead = (threads, prefetch_bytes, page_lock)
        return _core.Reader(self.manifest, self.layout, cursor, planned, place, ahead)

    def batch(self, delivered: Any, cursor: _core.Cursor, share: Share | None) -> Batch:
        """The batch that the core delivered, with the cursor after it."""
        return of_delivered(self.schema, delivered, cursor, share)

    def digests(self, batch: Delivered, _origin: Origin) -> tuple[int, int | None]:
        """The digest of the rows of a batch, and None."""
        return digest(of_runs(of_buffer(batch.runs))), None

    def descriptions(self, _rank: int) -> Iterator[Description]:
        """The files that describe the dataset and its selected rows."""
        return descriptions_of(self.manifest)

    @property
    def files_of_state(self) -> _core.Manifest | _core.Units:
        """The files; those of a state can be compared with the first of them."""
        return self.manifest

    @property
    def hash_of_selection(self) -> str | None:
        """What a state says of the selected rows; None for all of them."""
        return self.manifest.selection

    @property
    def counted(self) -> str:
        """What positions are."""
        return "rows"

    def rows_in(self, positions: int) -> int:
        """How many rows, or sequences, that many positions have; of bins, on the average."""
        return positions

    @property
    def counting(self) -> tuple[_core.Units, _core.UnitTable, list[str], list[bytes] | None] | None:
        """What is counted instead of rows, as the core's readers take it; None of rows."""
        return None

    @property
    def table_text(self) -> str | None:
        """The snapshot of the table that is read, in words; None for files that are no table's."""
        return None if self.table is None else str(self.table)

    def order_sizes(self, cursor: _core.Cursor) -> tuple[int, int, int]:
        """The numbers of blocks and windows, and the rows of the largest window; zeros in file order."""
        return self.order(cursor).sizes or (0, 0, 0)

    def rows_decoded(self, planned: _core.Pass, cursor: _core.Cursor, workers: int) -> tuple[int, float]:
        """The rows, or units, that all ranks decode in the rest of a pass, and the same per one delivered."""
        if not planned.batches_left:
            return 0, 0.0
        decoded = planned.rows_decoded(self.order(cursor), self.world.world_size, workers)
        delivered = self.num_rows - cursor.consumed_rows() - row_count(planned.dropped())
        return decoded, decoded / max(delivered, 1)

    def order(self, cursor: _core.Cursor) -> _core.Order:
        """The row, or unit, at each position of the pass that a cursor is in."""
        return self.row_order(cursor)

    def row_order(self, cursor: _core.Cursor) -> _core.Order:
        """The row at each position of the pass that a cursor is in."""
        return _core.Order(cursor, self.manifest)

    def rows_at(self, cursor: _core.Cursor, positions: Intervals) -> Intervals:
        """The set of the rows at a set of positions of the pass that a cursor is in."""
        return of_buffer(self.row_order(cursor).row_set(positions))

    def read_rows(self, numbers: RowNumbers) -> tuple[Tensors, _core.Written]:
        """The tensors of the rows with these numbers, in this order, and which they are."""
        # Who names a row wants it: there is no batch whose other rows would do.
        strict = self.layout.masking_damage(masks_damage=False)
        runs = np.stack([numbers, numbers + 1], axis=1)
        memory, written = strict.read_rows(self.manifest, runs, len(numbers))
        return self._schema_of_rows._tensors(memory), written

    @property
    def _schema_of_rows(self) -> Schema:
        return self.schema

    def locate(self, batch: Batch) -> list[tuple[str, int, int]]:
        """The places of the rows of a batch, or of its units: (path, row group, row in it)."""
        return locate(self.manifest, of_runs(batch._origin.runs))

    def files_of(self, planned: _core.Pass, number: int) -> list[str]:
        """The files that hold rows of this rank's batch, in the order of its rows."""
        positions = of_buffer(planned.positions(number, self.world.rank))
        order = self.row_order(planned.cursor_after(number))
        rows = of_runs(of_buffer(order.rows(positions)))
        return list(dict.fromkeys(path for path, _, _ in locate(self.manifest, rows)))

    def seed_at(self, cursor: _core.Cursor) -> int:
        """The seed of random numbers in the pass that a cursor is in: that of its order."""
        seed: int = self.seed if self.order_choice is None else Cursor(cursor).order["seed"]
        return seed

    def cut(self, workers: int) -> Cut:
        """The cut for this many workers of each rank; 1 without workers.

        Raises:
            TypeError: if no batch size was named.
            ValueError: if they can't share the lanes.
        """
        if not self.has_batch_size:
            raise TypeError(
                "one of batch_size and global_batch_size must be given, found neither: write "
                f"{self.door.name}({self.door.source}, batch_size=n); only a source of a Mixture has none"
            )
        return super().cut(workers)

    def batches_text(self, cursor: _core.Cursor) -> str:
        """What batches there are, and how many are left at a cursor, in words."""
        return super().batches_text(cursor) if self.has_batch_size else "without a batch size"

    def batches_of(self, cursor: _core.Cursor) -> int:
        """How many batches each rank gets of the pass that begins with a cursor; 1 without a batch size."""
        return super().batches_of(cursor) if self.has_batch_size else 1

    def read_by_all(self, cursor: _core.Cursor, workers: int) -> dict[str, object]:
        """What has to be the same on all ranks, so that they divide the same rows among them."""
        return {
            "files": len(self.manifest.files),
            "rows": self.num_rows,
            "dataset": self.manifest.fingerprint,
            "selection": self.manifest.selection,
            "order": Cursor(cursor).order,
            "batch_size": self.batch_size,
            "tail": self.tail,
            "cut": self.cut(workers),
            "on_iter": self.on_iter,
        }

    @property
    def chosen(self) -> tuple[int, int] | None:
        """How many rows `rows=` and `filter=` choose, and of how many; None if all are read."""
        return None if self.manifest.selection is None else (self.manifest.num_selected, self.num_file_rows)

    def row_text(self) -> str:
        """The number of rows, in words."""
        if self.chosen is None:
            return plural(self.num_rows, "row")
        return f"{self.num_rows:,} of {plural(self.chosen[1], 'row')}"

    @property
    def _of_table(self) -> str:
        if self.table is None:
            return ""
        article = "an" if self.table.kind == "Iceberg" else "a"
        return f"version {self.table.version} of {article} {self.table.kind} table, "

    def name_at(self, cursor: _core.Cursor) -> str:
        """What is read, and in which order, in words."""
        return (
            f"{self.door.name}({plural(len(self.manifest.files), self.door.part)}, {self._of_table}"
            f"{self.row_text()}, "
            f"{plural(len(self.schema), 'tensor')}, {Cursor(cursor).order_text}"
        )

    _REBUILT: ClassVar[tuple[str, ...]] = ("layout",)

    def _rebuild(self) -> None:
        super()._rebuild()
        layout = self.columns.layout(self.manifest).masking_damage(self.masks_damage)
        self.__dict__.update(layout=layout, schema=Schema(layout))
