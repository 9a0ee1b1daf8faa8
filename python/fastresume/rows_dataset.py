"""What every dataset of rows has: what it was asked for, and what can be asked of it."""

from __future__ import annotations

import dataclasses
import logging
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Self

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.batch.jagged import texts
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, of_buffer
from fastresume.columns.request import ColumnRequest, Columns, column_request
from fastresume.filter.condition import Condition
from fastresume.filter.resolve import FilterReport, select_filtered
from fastresume.options.bad_rows import BadRows, checked_bad_rows
from fastresume.options.cache import Cache
from fastresume.options.checks import at_least, one_of, quoted
from fastresume.options.rows import OrderChoice, Rows, Shuffle, order_choice, select
from fastresume.options.tail import Tail, checked_tail
from fastresume.options.units import Unit, check_unit
from fastresume.options.unknown import takes_no_other
from fastresume.options.world import World, cut_of, resolve_world, rows_of_each_rank
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.packed_table import PackedTable
from fastresume.packing.spec import of_units
from fastresume.plan import Plan, make_plan
from fastresume.reading.files_dataset import FilesDataset
from fastresume.reading.files_spec import Door, FilesSpec
from fastresume.reading.masked_rows import bound_of
from fastresume.state.session import session_of, text_of
from fastresume.tables.snapshot import SnapshotName

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

_log = logging.getLogger("fastresume")


class Found(NamedTuple):
    """What is read of rows, and what a filter reports of them."""

    spec: FilesSpec
    report: FilterReport | None


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What a dataset was asked for, checked: the same wherever its rows are.

    Attributes:
        request: what is delivered.
        cache: what is kept for the next start.
        kept_in: where what is known of files is kept; None for nowhere.
    """

    request: ColumnRequest
    rows: Rows | None
    filter: object
    choice: OrderChoice
    seed: int
    world: World
    was_detected: bool
    rows_of_rank: int | None
    tail: Tail
    lanes: int | None
    groups: int | None
    on_iter: Literal["continue", "restart"]
    on_change: Literal["error", "append"]
    masks_damage: bool
    max_bad_rows: int | float | None
    unit: Unit | None
    cache: Cache | None = None
    kept_in: str | None = None

    @classmethod
    def of(
        cls,
        *,
        batch_size: int | None,
        global_batch_size: int | None,
        columns: Columns | None,
        rows: Rows | None,
        filter: object,  # noqa: A002  (what users call it)
        shuffle: bool | Shuffle,
        seed: int | None,
        lanes: int | None,
        groups: int | None,
        tail: Tail,
        nulls: Literal["error", "mask"],
        cache: Cache | None,
        on_iter: Literal["continue", "restart"],
        on_change: Literal["error", "append"],
        bad_rows: BadRows,
        unit: Unit | None,
        world: World | tuple[int, int] | ProcessGroup | DeviceMesh | None,
    ) -> Self:
        """What the arguments of a dataset ask for.

        Raises:
            TypeError, ValueError: for arguments of another type, or out of range.
        """
        own_world, was_detected = resolve_world(world)
        rows_of_rank = rows_of_each_rank(batch_size, global_batch_size, own_world.world_size)
        iter_means = one_of("on_iter", on_iter, ("continue", "restart"))
        named_tail = checked_tail(tail)
        choice = order_choice(shuffle, seed)
        own_seed = 0 if seed is None else at_least(0, "seed", seed)
        named_lanes = None if lanes is None else at_least(1, "lanes", lanes)
        named_groups = None if groups is None else at_least(1, "groups", groups)
        cut_of(rows_of_rank or 1, own_world.world_size, 1, named_lanes, named_groups)
        check_unit(unit)
        if unit is not None and not unit.holds_whole_rows:  # a null list has no tokens
            columns, nulls = unit.costs if columns is None else columns, "mask"
        request = column_request(columns, nulls)
        if one_of("on_change", on_change, ("error", "append")) == "append":
            request.check_appendable()
        kept = Cache._checked(cache)
        masked = checked_bad_rows(bad_rows)
        return cls(
            request=request,
            rows=rows,
            filter=filter,
            choice=choice,
            seed=own_seed,
            world=own_world,
            was_detected=was_detected,
            rows_of_rank=rows_of_rank,
            tail=named_tail,
            lanes=named_lanes,
            groups=named_groups,
            on_iter=iter_means,
            on_change=on_change,
            masks_damage=masked.damaged,
            max_bad_rows=masked.at_most,
            unit=unit,
            cache=kept,
            kept_in=None if kept is None else kept._manifest_path,
        )

    @property
    def wanted(self) -> list[list[str]] | None:
        """The names and patterns of columns that are read, those together that mean them; None for all."""
        delivered = self.request.wanted
        if delivered is None or not (self.filter is None or isinstance(self.filter, Condition)):
            return None
        filtered = [] if self.filter is None else sorted(self.filter.columns)
        return [*delivered, filtered, [] if self.unit is None else list(self.unit.costs)]

    def found(
        self,
        opened: _core.Manifest,
        names: tuple[str, ...],
        door: Door,
        table: SnapshotName | None = None,
        session: str | None = None,
        units: PackedTable | BinsTable | None = None,
    ) -> Found:
        """What is read of rows that were opened, by these names.

        `units` says which rows the units are made of, if that is known.

        Raises:
            DataError, SourceError: if what a filter or an index asks can't be read, or a column is missing.
        """
        manifest = select(opened, self.rows)
        report: FilterReport | None = None
        if self.filter is not None:
            most = bound_of(self.max_bad_rows, manifest.num_selected) if self.masks_damage else None
            asked = self.request.optional, self.request.of_paths
            kept_beside = None if self.kept_in is None else (self.kept_in, quoted(self.rows))
            manifest, report = select_filtered(manifest, self.filter, kept_beside, *asked, most)
        layout = self.request.layout(manifest).masking_damage(self.masks_damage)
        # Dictionaries are pickled along: no worker reads the files for them again.
        known = [(number, values) for number, _, values in layout.dictionaries]
        spec = FilesSpec(
            paths=names,
            manifest=manifest,
            columns=self.request._replace(known=known),
            layout=layout,
            schema=Schema(layout),
            order_choice=self.choice,
            seed=self.seed,
            world=self.world,
            world_was_detected=self.was_detected,
            batch_size=self.rows_of_rank or 1,
            has_batch_size=self.rows_of_rank is not None,
            tail=self.tail,
            lanes=self.lanes,
            groups=self.groups,
            on_iter=self.on_iter,
            on_change=self.on_change,
            masks_damage=self.masks_damage,
            max_bad_rows=self.max_bad_rows,
            table=table,
            door=door,
            session=session,
        )
        return Found(spec if self.unit is None else of_units(spec, self.unit, self.kept_in, units), report)


class Session(ABC):
    """The session that rows are read in, where a state may name another one. It is in no pickle."""

    @abstractmethod
    def found(self, named: Any) -> Found:
        """What is read of the same rows in the session that a state names.

        Raises:
            SourceError: if it has ended.
        """

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """A pickle is for workers, which load no states."""
        return type(None), ()


@takes_no_other("dataset")
class RowsDataset(FilesDataset):
    """The base class of `ParquetDataset` and `ArrowDataset`."""

    _filter_report: FilterReport | None
    _session: Session | None = None

    def _begin(self, asked: Asked, found: Found, opened: _core.Manifest) -> None:
        """Reads what was found of rows that were opened, after it warned of what a user may not expect."""
        asked.request.warn_of_absent(opened)
        asked.request.warn_of_misfits(found.spec.layout)
        asked.request.warn_of_index(found.spec.layout)
        FilesDataset.__init__(self, found.spec)
        self._filter_report = found.report
        spec, batches = self._spec, plural(self._length, "batch", "batches")
        _log.info(
            "opened %s: %s, %s, fingerprint %s; rank %d of %d%s",
            plural(len(self.files), spec.door.part),
            spec.row_text(),
            plural(opened.num_row_groups, "row group"),
            self.fingerprint[:16],
            spec.world.rank,
            spec.world.world_size,
            f", {batches} of {spec.batch_size} rows a pass" if spec.has_batch_size else "",
        )

    def _in_session(self, named: Any, present: FilesSpec) -> Found | None:
        """What is read in the session that a state names; None if it is that of `present`, or there is none.

        Raises:
            SourceError: if it has ended.
        """
        if self._session is None or named is None or text_of(named) == present.session_text:
            return None
        found = self._session.found(named)
        spec = dataclasses.replace(found.spec, transforms=self._spec.transforms, masking=self._spec.masking)
        return found._replace(spec=spec)

    def _at_start(self) -> FilesSpec:
        """What a new job delivers: all rows of a stream, even if it has read some by itself."""
        return self._spec

    def _take_found(self, found: Found) -> None:
        self._take(found.spec)
        self._filter_report = found.report

    def _adopted(self, cursor: _core.Cursor) -> _core.Cursor:
        found = self._in_session(session_of(cursor), self._spec)
        if found is None:
            return super()._adopted(cursor)
        fitted = found.spec.fitted(cursor)
        self._take_found(found)
        _log.info("the rows are read in the session that the state names")
        return fitted

    @property
    def selection(self) -> Intervals | None:
        """The numbers of the selected rows: int64 `[n, 2]`, half open, sorted, coalesced; None if all are."""
        selected = self._spec.manifest.selected
        return None if selected is None else of_buffer(selected)

    def filter_report(self) -> FilterReport | None:
        """How many rows `filter=` kept, and by what evidence others were left out; None without one.

        Examples:
            >>> dataset.filter_report()  # with one: FilterReport(rows=1000, kept=20, scanned=100, ...)
        """
        return self._filter_report

    @property
    def dictionaries(self) -> Mapping[str, list[str] | list[bytes]]:
        """Of each tensor of `.codes()`, by its name, the values by their codes: str, or bytes if binary.

        Raises:
            DataError: if a string is not UTF-8, as a file may hold any bytes; names the column and the text.

        Examples:
            >>> dataset.dictionaries  # as with fr.col("city").codes(): {"city": ["Berlin", "Oslo", "Porto"]}
            {}
        """
        found = _Dictionaries()
        for _, name, _ in self._spec.layout.dictionaries:
            values, is_text = self._spec.layout.dictionary(name) or ([], False)
            found[name] = texts(values, f"column '{name}'") if is_text else values
        return found

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns of the files, in the order of the first files that have them.

        Those of structs, maps and lists of these are `a.b`; what is in paths is not among them.

        Examples:
            >>> dataset.column_names
            ('label', 'c_0', 'i_0', 'i_1', 'i_2')
        """
        return tuple(self._spec.manifest.column_names)

    @property
    def files(self) -> tuple[str, ...]:
        """The absolute paths of the files, or names of segments, in the order in which rows are numbered.

        A name that is no text is the string that `os.fsdecode` makes of it, which `open()` takes.
        """
        return self._spec.manifest.files

    def plan(self, workers: int = 0) -> Plan:
        """What is left of the present pass and what reading it takes, before it is read; prints as a table.

        Args:
            workers: how many workers a torch DataLoader over the dataset will have.

        Raises:
            ValueError: if that many workers can't share the lanes.

        Warns:
            UserWarning: if more than 1.5 rows are decoded per row delivered; it says which setting helps.

        Examples:
            >>> dataset.plan().steps
            3
        """
        return make_plan(self._spec, self._shared_cursor.cursor, at_least(0, "workers", workers))


class _Dictionaries(dict[str, list[str] | list[bytes]]):
    """By its name, the values of each tensor of codes."""

    def __reduce__(self) -> tuple[type[OrderedDict[str, Any]], tuple[list[Any]]]:
        return OrderedDict, (list(self.items()),)  # which torch.load reads by its default

    def __missing__(self, name: object) -> NoReturn:
        column = quoted(name)
        raise KeyError(f"no tensor {column} is of codes: write columns=[fr.col({column}).codes(), ...]")
