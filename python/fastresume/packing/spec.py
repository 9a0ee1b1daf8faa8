"""The `UnitsSpec`: what a dataset reads that counts sequences or bins instead of rows."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Self

import numpy as np
import torch

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.audit.log_format import contents_file, units_file
from fastresume.audit.logged import Description
from fastresume.batch.batch import Batch
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin, Proof, Share, of_a_pass
from fastresume.batch.schema import Field, Schema
from fastresume.buffers import Intervals, of_buffer, of_runs
from fastresume.options.rows import OrderChoice
from fastresume.options.units import Packed, Unit
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.content import held_by, total, with_proof
from fastresume.packing.costs import TEXTS
from fastresume.packing.index import index_of
from fastresume.packing.packed_table import Digests, PackedTable, Packing
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.masked_rows import bound_of
from fastresume.reading.spec import PassReader

_ONE_LENGTH = re.compile(r"\.(?:fixed|pad)\((?:\([^()]*\)|[^()])*\)")
"""What gives the lists of a column one length, in `fr.col(...)`."""


@dataclass(frozen=True, kw_only=True)
class UnitsSpec(FilesSpec):
    """What a `ParquetDataset` with `unit=` reads.

    Args:
        unit: what is counted instead of rows.
        units_table: which rows each unit is made of.
        row_schema: the tensors of rows, which units are made of.
        is_audited: whether batches have what a delivery log notes.
        left_out: how many selected rows are in no unit, as they can't be read.
        files_read: how many files were read to know the units; the others were known before.
    """

    unit: Unit
    units_table: PackedTable | BinsTable
    row_schema: Schema
    is_audited: bool = False
    left_out: int = 0
    files_read: int = 0
    _units: _core.Units = field(init=False, compare=False, repr=False)
    _packing: Packing | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._prepare()

    def _prepare(self) -> None:
        table = self.units_table
        units = _core.Units(self.manifest, table.core, self.unit.hashed, self.row_bytes)
        object.__setattr__(self, "_units", units)
        object.__setattr__(self, "_packing", table.packing(self.row_schema))

    def config(self) -> dict[str, Any]:
        """What was asked for, as plain values."""
        return {**super().config(), "unit": repr(self.unit)}

    @property
    def num_rows(self) -> int:
        """The number of units of a pass."""
        return self._units.count

    @property
    def row_bytes(self) -> int:
        """Estimated bytes of a unit."""
        if not self.unit.holds_whole_rows:
            return sum(self.schema.row_widths)
        rows = self.manifest.num_selected / max(int(self.units_table.starts[-1]), 1)
        return max(int(self.layout.row_bytes * rows), 1)

    @property
    def rows_of_rank(self) -> int:
        """The number of sequences of a pass that this rank gets; or of rows of bins, on the average."""
        if not self.unit.holds_whole_rows:
            return super().rows_of_rank
        return self.rows_in(self.num_rows) // self.world.world_size

    @property
    def is_made_ahead(self) -> bool:
        """Whether threads make batches ahead of the loop: what units hold is worked out for a log, too."""
        return super().is_made_ahead or self.is_audited

    @property
    def hash_of_selection(self) -> str:
        """What a state says of the selected rows, and of how they become units."""
        return self._units.hash

    @property
    def files_of_state(self) -> _core.Units:
        """The units; those of a state can be compared with the first of them."""
        return self._units

    @property
    def units_text(self) -> str:
        """What is counted instead of rows, in words."""
        table, rows = self.units_table, self.manifest.num_selected
        what = f"{self.unit!r}: {self.num_rows:,} of {plural(rows, 'row')}"
        what += f", in an index of {table.num_bytes:,} bytes"
        read, all_files = self.files_read, len(self.manifest.files)
        what += f" of {plural(all_files, 'file')}; {read:,} had to be read"
        what += f"; {plural(self.dropped_tokens, 'token')} after the last whole ones of files are dropped"
        unread = f"; left out: {plural(self.left_out, 'row')} that can't be read"
        return what + unread if self.left_out else what

    def no_batch_text(self, rows: str) -> str:
        """The message that a pass has no batch, of `rows` in words."""
        if not self.num_rows and self.manifest.num_selected and not self.dropped_tokens:
            return f"no batch would come from {rows}: these have no values"
        if isinstance(self.unit, Packed) and not self.num_rows and self.dropped_tokens:
            tokens = plural(self.dropped_tokens, "token")
            return (
                f"no batch would come from {rows}: they have {tokens}, and no file has enough for one of "
                f"length={self.unit.length}: name a smaller length, or rest='pad'"
            )
        return super().no_batch_text(rows)

    @property
    def dropped_tokens(self) -> int:
        """How many tokens of all files are in no unit."""
        return self.units_table.dropped_tokens

    def order(self, cursor: _core.Cursor) -> _core.Order:
        """The unit at each position of the pass that a cursor is in."""
        return self._units.order(cursor)

    def started(self, choice: OrderChoice) -> _core.Cursor:
        """The cursor of a new job with this choice of order."""
        return self._units.start(choice)

    def fitted_to_files(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of these files, or what it becomes after files were added.

        Raises:
            StateError: if it is of another dataset, selection of rows, order, or way of making units.
        """
        return self._units.fitted(cursor, self.order_choice, self.on_change == "append")

    @property
    def unit_hint(self) -> str:
        """What to add where a state counts others than these units."""
        return f", and the same unit=; here it is {self.unit!r}"

    def reader(
        self,
        cursor: _core.Cursor,
        planned: _core.Pass,
        place: tuple[int, int, int, int],
        threads: int = 0,
        prefetch_bytes: int = 0,
        page_lock: _core.PageLock | None = None,
    ) -> PassReader:
        """The batches of a rank's worker, from a cursor on, decoded by the core's threads as rows are."""
        files, ahead = (self.manifest, self.layout), (threads, prefetch_bytes, page_lock)
        return _core.Reader.of_units(files, self.counting, cursor, planned, place, ahead)

    @property
    def counted(self) -> str:
        """What positions are."""
        return self.unit.counted

    def rows_in(self, positions: int) -> int:
        """How many sequences that many positions have; of bins, how many rows on the average."""
        rows = self.manifest.num_selected if self.unit.holds_whole_rows else self.num_rows
        return positions * rows // max(self.num_rows, 1)

    @property
    def counting(self) -> tuple[_core.Units, _core.UnitTable, list[str], list[bytes] | None]:
        """What is counted instead of rows, as the core's readers take it."""
        names, _, separators = self._packing or ((), 0, None)
        return self._units, self.units_table.core, list(names), separators

    def contents(self) -> Digests:
        """The digest of what each unit holds: tokens of a sequence, rows of a bin.

        Raises:
            DataError, SourceError: if a file can't be read.
        """
        return self.units_table.contents(self.manifest, self._columns)

    def content_at(self, cursor: _core.Cursor, positions: Intervals) -> int:
        """The digest of what the units at positions of the pass that a cursor is in hold.

        Raises:
            DataError, SourceError: if a file can't be read.
        """
        planned = _core.Pass(cursor, (1, 1, self.batch_size), "short", 1)
        reader, asked, found = self.reader(cursor, planned, (0, 1, 0, 1)), of_runs(positions), 0
        for number in range(planned.batches):
            is_asked = np.isin(of_runs(of_buffer(planned.positions(number, 0))), asked)
            if is_asked.any():
                made = super().batch(reader.batch(number), cursor, None)
                origin = made._origin
                units, rows = of_a_pass(origin.units), of_runs(origin.runs)
                counts = 1 if units.are_documents else np.diff(units.offsets)
                if not origin.valid[np.repeat(is_asked, counts)].all():
                    raise _core.DataError("units that are dropped are damaged")
                of_each = held_by(made._tensors, rows, units, len(is_asked))
                found += total(of_each[is_asked])
        return found % (1 << 64)

    def audited(self) -> Self:
        """The same spec, whose batches have a `Proof`."""
        return replace(self, is_audited=True)

    def digests(self, _batch: Delivered, origin: Origin) -> Proof:
        """The digest of the units of a batch, and that of what they hold."""
        return of_a_pass(of_a_pass(origin.units).proof)

    def dropped_content(self, before: _core.Cursor, positions: Intervals) -> int | None:
        """The digest of what units at positions hold that are dropped; None if they can't be read.

        One rank alone tells it.
        """
        if self.world.rank or not len(positions):
            return 0
        try:
            return self.content_at(before, positions)
        except (_core.DataError, _core.SourceError):
            return None

    def descriptions(self, rank: int) -> Iterator[Description]:
        """The files that describe the dataset; the first rank's say how units are made, too."""
        yield from super().descriptions(rank)
        if rank:
            return

        @cache
        def contents() -> Digests | None:
            try:
                return self.contents()
            except (_core.DataError, _core.SourceError):
                return None  # what it is compared with can't be read

        def text() -> bytes:
            return json.dumps(self.described(contents())).encode()

        def of_each() -> bytes:
            found = contents()
            return b"" if found is None else found.astype("<u8").tobytes()

        yield units_file(self.fingerprint, self.hash_of_selection), text
        yield contents_file(self.fingerprint, self.hash_of_selection), of_each

    def described(self, contents: Digests | None) -> dict[str, Any]:
        """How units are made, for the audit; `contents` has the digest of what each one holds."""
        return {
            "fingerprint": self.fingerprint,
            "hash": self.hash_of_selection,
            "selection": self.manifest.selection,
            "unit": repr(self.unit),
            "counted": self.counted,
            "starts": self.units_table.starts.tolist(),
            "content": None if contents is None else total(contents),
            "dropped_tokens": self.units_table.dropped_tokens,
        }

    @property
    def _columns(self) -> list[str]:
        """The names in the files of the columns that say what rows cost."""
        return cost_columns(self.unit, self.row_schema)

    def batch(self, delivered: Any, cursor: _core.Cursor, share: Share | None) -> Batch:
        """The batch that the core delivered, with the cursor after it."""
        made = super().batch(delivered, cursor, share)
        return with_proof(delivered, made) if self.is_audited else made

    @property
    def _schema_of_rows(self) -> Schema:
        return self.row_schema

    def rows_at(self, cursor: _core.Cursor, positions: Intervals) -> Intervals:
        """The set of the rows that are in the units at a set of positions, if only in part.

        Raises:
            DataError, SourceError: if a file can't be read.
        """
        units = of_buffer(self.order(cursor).row_set(positions))
        ordinals = self.units_table.ordinals(units, self.manifest, self._columns)
        return of_buffer(_core.Order.of_files(self.manifest).row_set(ordinals))

    def files_of(self, _planned: _core.Pass, _number: int) -> list[str]:
        """The files that hold rows of this rank's batch: any of the dataset."""
        return list(self.manifest.files)

    def read_by_all(self, cursor: _core.Cursor, workers: int) -> dict[str, object]:
        """What has to be the same on all ranks, so that they divide the same units among them."""
        return {**super().read_by_all(cursor, workers), "unit": self.hash_of_selection}

    def row_text(self) -> str:
        """The number of units, in words."""
        units = plural(self.num_rows, self.counted.removesuffix("s"))
        return f"{units}, of {plural(self.manifest.num_selected, 'row')}"

    def name_at(self, cursor: _core.Cursor) -> str:
        """What is read, and in which order, in words."""
        return f"{super().name_at(cursor)}, unit={self.unit!r}"

    _REBUILT = ("_units", "_packing", "row_schema")

    def _rebuild(self) -> None:
        super()._rebuild()
        row_schema = self.schema
        schema = schema_of(self.unit, row_schema)
        self.__dict__.update(row_schema=row_schema, schema=schema)
        self._prepare()


def cost_columns(unit: Unit, rows: Schema) -> list[str]:
    """The names in the files of the columns that say what rows cost."""
    if unit.holds_whole_rows:  # which need no tensor of them
        return list(unit.costs)
    return [rows[name].columns[0] for name in unit.costs]


def schema_of(unit: Unit, rows: Schema) -> Schema:
    """The tensors of units of such rows.

    Raises:
        DataError: if what is packed is no column of lists of values.
        ValueError: if there are other tensors, which sequences would leave out.
    """
    if not isinstance(unit, Packed):
        return rows
    made = []
    for name in unit.names:
        own = rows.get(name)
        if own is None or own.kind != "list" or own.size is not None:
            found = f"no tensor of that name: columns={list(unit.names)!r} has all that it packs"
            if renamed := [field.name for field in rows.values() if name in field.columns]:
                found = f"no tensor of that name, but {renamed[0]!r} of it: write that name in fr.Packed"
            if any(sign in name for sign in "*?[!"):
                found = f"a pattern: it takes names, as fr.Packed('tokens', length={unit.length})"
            if own is not None:
                found = _no_lists(own, unit, rows)
            raise _core.DataError(f"fr.Packed takes columns of lists of values, found for '{name}': {found}")
        size = unit.length
        made.append(Field(name, own.dtype, own.columns, False, size=size, expression=own.expression))
    others = [field.name for field in rows.values() if field.name not in unit.names and field.kind != "mask"]
    if others:
        raise ValueError(
            f"{unit!r} would leave out {', '.join(map(repr, others[:8]))}: name lists of the same lengths in "
            "fr.Packed, too, and take the others out of columns="
        )
    columns = made[0].columns
    made += [Field(name, torch.int32, columns, False, size=unit.length) for name in ("document", "position")]
    return Schema.of_fields(made)


def _no_lists(own: Field, unit: Packed, rows: Schema) -> str:
    """What a tensor is that has no lists of values, and what to do."""
    if own.kind == "string":
        return TEXTS
    found = f"{own.dtype} of shape {list(own.shape)}"
    if own.size is not None:
        columns = ", ".join(_as_lists(name, rows[name]) for name in unit.names if name in rows)
        return f"{found}, as its rows have one length: write columns=[{columns}]"
    if own.kind == "scalar":
        return f"one value in each row, {own.dtype}: name a column of lists"
    return f"{found}: name a column of lists of numbers"


def _as_lists(name: str, own: Field) -> str:
    """The column to ask for, whose lists have any length."""
    asked = own.expression or f"fr.col({name!r})"
    return asked if own.size is None else f"{_ONE_LENGTH.sub('', asked)}.fixed(None)"


def of_units(
    spec: FilesSpec, unit: Unit, cache: str | None = None, known: PackedTable | BinsTable | None = None
) -> UnitsSpec:
    """The same spec, which counts units; what their index knows of each file is kept beside `cache`.

    If it is `known` which rows they are made of, nothing is read.

    Raises:
        DataError: if rows can't be put together so.
        SourceError: if a file can't be read.

    Warns:
        UserWarning: if the index can't be kept.
    """
    schema, manifest = schema_of(unit, spec.schema), spec.manifest
    given = {each.name: getattr(spec, each.name) for each in fields(spec) if each.init} | {"schema": schema}
    if known is None:
        most_bad = bound_of(spec.max_bad_rows, spec.num_rows) if spec.masks_damage else None
        index = index_of(manifest, unit, cost_columns(unit, spec.schema), cache, most_bad)
        given |= {"manifest": index.manifest, "left_out": index.left_out, "files_read": index.files_read}
        known = index.table
    return UnitsSpec(**given, unit=unit, units_table=known, row_schema=spec.schema)
