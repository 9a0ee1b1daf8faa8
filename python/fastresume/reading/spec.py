"""The `ReadSpec`: what a dataset reads, and how it is cut into batches, as one frozen value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import fastresume._core as _core
from fastresume.batch.origin import Planned
from fastresume.batch.schema import Schema
from fastresume.columns.request import ColumnRequest
from fastresume.options.rows import OrderChoice
from fastresume.options.topology import Cut, World, cut_of
from fastresume.reading.draws import Draws
from fastresume.reading.map_function import Transform, check_picklable, name_of
from fastresume.reading.masked_rows import MaskedRows, bound_of
from fastresume.state.cursor import Cursor
from fastresume.tables.snapshot import SnapshotName


@dataclass(frozen=True, kw_only=True)
class ReadSpec:
    """Everything that decides which batches a rank gets after a cursor.

    The cursor itself is state, and not part of it.

    It is a plain value: it may be used in any thread and after a fork, and worker processes get it. A pickle
    holds the manifest and the dictionaries, so that no file is read again; the layout is made anew.

    Args:
        paths: the paths that the user named, as strings.
        manifest: the files, and which of their rows are selected.
        columns: how columns become tensors.
        layout, schema: what `columns` make of the files.
        order_choice: the named parameters of the shuffled order (seed, block rows, window rows); None for a
            sequential one.
        seed: the seed of transforms, if the order is sequential.
        world: the rank, and the number of ranks.
        world_was_detected: whether the user did not name it.
        batch_size: rows per rank and step.
        tail: what becomes of the rows after the last whole global batch.
        lanes, groups: what was named of the cut; None for the default.
        on_iter: what `iter()` means.
        on_change: whether a state of the first files fits.
        max_bad_rows: how many rows of a pass may be damaged and masked, or which share of this rank's; None
            where one is an error.
        table: the snapshot whose files they are, if they are a table's.
        transforms: what `map` was given, in the order of their calls.

    Attributes:
        draws: what is known of the transforms' draws, in this process.
        masked_rows: what was masked in this process.
    """

    paths: tuple[str, ...]
    manifest: _core.Manifest
    columns: ColumnRequest
    layout: _core.Layout
    schema: Schema
    order_choice: OrderChoice
    seed: int
    world: World
    world_was_detected: bool
    batch_size: int
    tail: Literal["drop", "short", "pad"]
    lanes: int | None
    groups: int | None
    on_iter: Literal["continue", "restart"]
    on_change: Literal["error", "append"]
    max_bad_rows: int | float | None = None
    table: SnapshotName | None = None
    transforms: tuple[Transform, ...] = ()
    masked_rows: MaskedRows = field(init=False, compare=False, repr=False)
    draws: Draws = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", Draws(self.transforms))
        object.__setattr__(self, "masked_rows", MaskedRows(self.manifest, self.most_bad_rows or 0))

    @property
    def num_rows(self) -> int:
        """The number of rows of a pass."""
        return self.manifest.num_selected

    @property
    def most_bad_rows(self) -> int | None:
        """How many rows of a pass may be masked in a process; None where a damaged row is an error."""
        most = self.max_bad_rows
        return None if most is None else bound_of(most, self.num_rows // self.world.world_size)

    @property
    def num_file_rows(self) -> int:
        """The number of rows of all files."""
        return self.manifest.num_rows

    @property
    def global_batch_size(self) -> int:
        """The number of rows per step over all ranks."""
        return self.batch_size * self.world.world_size

    @property
    def batch_bytes(self) -> int:
        """Estimated bytes of a batch of this rank, from the footers; at least 1."""
        return max(self.batch_size * self.layout.row_bytes, 1)

    def mapped(self, function: Transform) -> ReadSpec:
        """The same spec with one more transform, over the same layout."""
        return dataclasses.replace(self, transforms=(*self.transforms, function))

    def start(self) -> _core.Cursor:
        """The cursor of a new job."""
        return _core.Cursor.start(self.manifest, self.order_choice)

    def fitted(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of this dataset, or what becomes of it where the dataset has grown since.

        Raises:
            StateError: if it is of another dataset, selection of rows or order.
        """
        try:
            return cursor.fitted(self.manifest, self.order_choice, self.on_change == "append")
        except _core.StateError as error:
            if self.table is None:
                raise
            raise _core.StateError(f"{error}. {self.table.told}") from None

    def cut(self, workers: int) -> Cut:
        """The cut for this many workers of each rank; 1 without workers.

        Raises:
            ValueError: if they can't share the lanes.
        """
        return cut_of(self.batch_size, self.world.world_size, workers, self.lanes, self.groups)

    def pass_from(self, cursor: _core.Cursor, workers: int) -> _core.Pass:
        """The rest of the pass that a cursor is in."""
        return _core.Pass(cursor, self.cut(workers), self.tail, self.world.world_size)

    def share(self, planned: _core.Pass, cursor: _core.Cursor) -> Planned:
        """The share of this rank's batches in the pass that a cursor is in."""
        seed: int = self.seed if self.order_choice is None else Cursor(cursor).order["seed"]
        return Planned(self.world.rank, seed, planned)

    def bounds(self, cursor: _core.Cursor) -> tuple[_core.Cursor, _core.Cursor | None]:
        """Where an iterator begins, and where it ends if that is not the next pass."""
        if self.on_iter == "continue":
            return cursor, None
        return cursor.restarted(), cursor.restarted()

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

    def check_world(self) -> None:
        """Compares a detected world with the current default process group.

        Raises:
            FastresumeError: if they differ.
        """
        current = World.of_default_group() if self.world_was_detected else None
        if current is not None and current != self.world:
            raise _core.FastresumeError(
                f"the dataset was made for {self.world}, but the process group now says {current}: make it "
                "after init_process_group, or pass rank= and world_size=. Where Lightning starts the ranks "
                "by itself, start them with torchrun, which says who is who before"
            )

    def dropped_text(self, planned: _core.Pass) -> str:
        """The message when a pass ends with rows that make no batch."""
        rest = f"the pass ends here: the {planned.rest} rows that were left of it"
        if self.tail == "short":
            return f"{rest} are fewer than the {self.world.world_size} ranks, and are dropped"
        return f"{rest} do not make a global batch of {self.global_batch_size}, and are dropped"

    def row_text(self) -> str:
        """The number of rows, in words."""
        of_files = "" if self.manifest.selection is None else f" of {self.num_file_rows}"
        return f"{self.num_rows}{of_files} rows"

    @property
    def _of_table(self) -> str:
        return "" if self.table is None else f"version {self.table.version} of a {self.table.kind} table, "

    def text(self, cursor: _core.Cursor) -> str:
        """The `repr` of a dataset at a cursor."""
        return (
            f"ParquetDataset({len(self.manifest.files)} files, {self._of_table}{self.row_text()}, "
            f"{len(self.schema)} tensors, {Cursor(cursor).order_text}, batch_size={self.batch_size}, "
            f"rank {self.world.rank} of {self.world.world_size}, epoch {cursor.epoch - cursor.first_epoch}, "
            f"{self.pass_from(cursor, 1).batches_left} batches left"
            + "".join(f", mapped by {name_of(transform)}" for transform in self.transforms)
            + ")"
        )

    def __getstate__(self) -> dict[str, Any]:
        check_picklable(self.transforms)
        made_anew = ("layout", "schema", "draws", "masked_rows")
        return {name: value for name, value in self.__dict__.items() if name not in made_anew}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)
        layout = self.columns.layout(self.manifest).masking_damage(self.max_bad_rows is not None)
        masked_rows = MaskedRows(self.manifest, self.most_bad_rows or 0)
        self.__dict__.update(layout=layout, schema=Schema(layout), draws=Draws(self.transforms))
        self.__dict__.update(masked_rows=masked_rows)
