"""The plan of a pass: steps, rows, and memory, worked out before it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import fastresume._core as _core
from fastresume.amounts import in_units, plural
from fastresume.buffers import row_count
from fastresume.messages import bounded, warn
from fastresume.options.attributes import METHODS_OF_PLANS
from fastresume.options.unknown import refuse_attribute
from fastresume.reading.spec import ReadSpec
from fastresume.state.cursor import Cursor

LARGE_WINDOW_BYTES = 1 << 30
"""If a window has more rows than this, as padding makes of short lists, the plan gives advice."""

LARGE_BYTES = 8 << 30
"""So it does if a rank holds more than this in several lanes of a mixture."""

WARN_ABOVE = 1.5
"""More rows decoded per delivered row than this are worth a warning."""


@dataclass(frozen=True)
class Plan:
    """The rest of the current pass, for all ranks unless it says 'per rank'; prints as a table.

    A mixture's plan also says what each source gives. What is said of blocks, windows, tables and units is of
    all its sources together.

    Args:
        epoch: the number of the pass.
        order: the order, as the cursor records it.
        table: the snapshot of the table that is read, in words; None for files that are no table's.
        remaining_rows: rows of the pass that are not delivered yet.
        world_size: the number of ranks.
        workers: the number of loader workers of each rank; 0 without workers.
        batch_size: rows per rank and step.
        global_batch_size: rows per step over all ranks.
        lanes: the lanes of the cut.
        groups: the groups of lanes that take turns.
        lane_rows: what a lane gives to a batch.
        steps: batches that every rank still gets, with a last one of the tail.
        tail: the tail policy.
        tail_rows: rows after the last whole global batch.
        dropped_rows: those of them that no rank gets.
        padded_rows: padding rows, which repeat others to fill the last global batch.
        blocks: blocks of the whole pass, or of one of each source; 0 for a sequential order.
        windows: windows of the whole pass, or of one of each source; 0 for a sequential order.
        window_rows: rows of the largest window; 0 for a sequential order.
        row_bytes: bytes of one row over all tensors; for lists and strings, an estimate from the footers.
        bytes_per_rank: the most that a rank holds in decoded rows: one window (or one segment of a row group)
            for each of its lanes, in a mixture of each source, and the batch that is being made. The rows of
            a window are in pieces of memory, which adds an eighth. If matrices are made of columns when a
            batch is finished, these columns are in strips of a segment. That adds a quarter of them at most,
            and the rows of a batch. If a row group is decoded in parts, its dictionaries are kept, up to 32
            MiB. The footers' metadata of the columns that are read is kept: of 8 open files, and of others up
            to 16 MiB. Of stores, and of rows that a source reads, `read_bytes` are on their way or there at
            most. A `Loader` adds its `prefetch_bytes`. If it copies batches to a device, it adds three of
            them there and three here.
        bytes_per_thread: what each decoding thread adds to that (the caller's own, without a `Loader`).
            First, rows before they are in batches: one matrix that is not made last, or the lists and strings
            of a segment. In a shuffled order, this may be a matrix of any size, or single columns that are
            put together: 128 bytes of each row at most, and their masks. Then the part of these that a batch
            takes apart. Then a page and a dictionary, stored and decompressed; for a large page, Brotli needs
            a window as well (16 MiB at most). Then a footer, while a file is opened. If the pages of a row
            group have more bytes than writers usually give to pages, its cells are large: any batch is
            assumed to have all of them. Strings may be stored once in a dictionary and used many times. Some
            writers' footers (polars, DuckDB, older pyarrow) do not say how many bytes these take. Each is
            then assumed to have the mean bytes of the entries in the file's first dictionary. If long ones
            are used far more often than short ones, they take more than this.
        rows_decoded: the number of rows that all ranks decode together; of a mixture, this rank. If units are
            mixed, these are the rows that they are made of.
        rows_decoded_per_row: the same per delivered row: 1.0 is best.
        max_bad_rows: how many damaged rows of a pass are masked in each process before that is an error; None
            where one is an error (`bad_rows="error"`).
        units: what is counted instead of rows (`unit=`), in words; None if rows are. If given, what is said
            of rows here applies to these units.
        dropped_tokens: how many tokens of all files are in no packed sequence.
        advice: what could be better, and which setting helps.
        shares: the share of each source of a mixture, as its whole weights make it; empty for one dataset, as
            what follows.
        rounded: the share that was asked for, of each source whose whole weight makes another one.
        rows: how many rows each source gives to what is left.
        passes: how many passes of each source that is.
        bytes_of_rounds: of a stream, the most that this rank holds beside that. On rank 0: the rows of the
            present round and of the next one, and messages that were sent ahead. It follows from the
            messages that were decoded so far; before, from `row_bytes`. None where there are no rounds.
    """

    epoch: int
    order: Mapping[str, Any]
    table: str | None
    remaining_rows: int
    world_size: int
    workers: int
    batch_size: int
    global_batch_size: int
    lanes: int
    groups: int
    lane_rows: int
    steps: int
    tail: str
    tail_rows: int
    dropped_rows: int
    padded_rows: int
    blocks: int
    windows: int
    window_rows: int
    row_bytes: int
    bytes_per_rank: int
    bytes_per_thread: int
    rows_decoded: int
    rows_decoded_per_row: float
    max_bad_rows: int | None
    units: str | None
    dropped_tokens: int
    advice: tuple[str, ...]
    shares: Mapping[str, float]
    rounded: Mapping[str, float]
    rows: Mapping[str, int]
    passes: Mapping[str, float]
    bytes_of_rounds: int | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what there is not."""
            refuse_attribute(self, name, "a Plan", METHODS_OF_PLANS, self.keys())

    def __getitem__(self, name: str) -> Any:
        """One of them by its name.

        Raises:
            KeyError: if there is none of that name.

        Examples:
            >>> dataset.plan()["steps"]
            3
        """
        if name not in self.keys():
            raise KeyError(bounded(f"a plan has no {name!r}; there are: {', '.join(self.keys())}"))
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """The names of all that it says, so that `dict(plan)` is `plan.as_dict()`."""
        return tuple(field.name for field in fields(self))

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def as_dict(self) -> dict[str, Any]:
        """All of it by name, as plain values: for a log, or `json.dumps`.

        Examples:
            >>> dataset.plan().as_dict()["steps"]
            3
        """
        return asdict(self)

    def __repr__(self) -> str:
        workers = f" x {plural(self.workers, 'worker')}" if self.workers else ""
        of_what = " of a mixture" if self.shares else ""
        rest = f"{self.tail_rows:,} left over, {self.dropped_rows:,} dropped, {self.padded_rows:,} padded"
        rows = plural(self.batch_size, "row")
        steps = f"{self.steps:,} of {rows} per rank, {self.global_batch_size:,} over all"
        lanes = f"{self.lanes:,} in {plural(self.groups, 'group')}"
        memory = (
            f"{in_units(self.bytes_per_rank)} of decoded rows per rank ({self.row_bytes:,} bytes each), "
            f"{in_units(self.bytes_per_thread)} per decoding thread"
        )
        lines = [
            f"Plan of epoch {self.epoch}{of_what}: {plural(self.remaining_rows, 'row')} left",
            *self._order_lines(),
            f"  lanes    {lanes}, {plural(self.lane_rows, 'row')} per lane and batch",
            f"  ranks    {self.world_size:,}{workers}",
            f"  steps    {steps}",
            f"  tail     {self.tail}: {rest}",
            f"  memory   {memory}",
            f"  decoded  {self.rows_decoded_per_row:.2f} rows per row delivered",
        ]
        if self.bytes_of_rounds is not None:
            lines.append(f"  rounds   {in_units(self.bytes_of_rounds)} of rows and messages on this rank")
        if self.max_bad_rows is not None:
            lines.append(
                f"  damaged  at most {plural(self.max_bad_rows, 'row')} of a pass masked in each process"
            )
        return "\n".join(lines + [f"  advice   {line}" for line in self.advice])

    def _order_lines(self) -> list[str]:
        """What is read, in which order: of a mixture, what each source gives."""
        lines = [
            f"  {name:8} {self._share_text(name)}: {plural(rows, 'row')}, {self.passes[name]:.2f} passes"
            for name, rows in self.rows.items()
        ]
        if not self.shares:
            order = ", ".join(f"{name} {value}" for name, value in self.order.items() if name != "kind")
            lines.append(f"  order    {self.order['kind']}" + (f": {order}" if order else ""))
        if self.table is not None:
            lines.append(f"  table    {self.table}")
        if self.units is not None:
            lines.append(f"  units    {self.units}")
        if self.windows:
            lines.append(
                f"           {plural(self.blocks, 'block')} in {plural(self.windows, 'window')} of at most "
                f"{plural(self.window_rows, 'row')} ({in_units(self.window_rows * self.row_bytes)})"
            )
        return lines

    def _share_text(self, name: str) -> str:
        if name not in self.rounded:
            return f"{self.shares[name]:.2%}"
        return f"{self.shares[name]:.6%} (rounded from {self.rounded[name]:.6%})"


def make_plan(spec: ReadSpec, cursor: _core.Cursor, workers: int) -> Plan:
    """The plan of the rest of the current pass with this many loader workers (0 without workers)."""
    world_size, processes = spec.world.world_size, max(workers, 1)
    planned = spec.pass_from(cursor, processes)
    here = planned.cursor_after(planned.batches - planned.batches_left) if planned.batches_left else cursor
    shares, given = spec.shares(cursor.epoch), spec.rows_given(here)
    blocks, windows, window_rows = spec.order_sizes(cursor)
    lanes, groups, lane_rows = planned.cut
    remaining = here.num_rows - here.consumed_rows()
    dropped = row_count(planned.dropped())
    bound = spec.planned_reader(planned).memory_bound(processes)
    decoded, per_row = spec.rows_decoded(planned, here, processes)
    plan = Plan(
        epoch=cursor.epoch,
        order=Cursor(cursor).order,
        table=spec.table_text,
        remaining_rows=remaining,
        world_size=world_size,
        workers=workers,
        batch_size=spec.batch_size,
        global_batch_size=spec.global_batch_size,
        lanes=lanes,
        groups=groups,
        lane_rows=lane_rows,
        steps=planned.batches_left,
        tail=spec.tail,
        tail_rows=planned.rest,
        dropped_rows=dropped,
        padded_rows=planned.padded_rows,
        blocks=blocks,
        windows=windows,
        window_rows=window_rows,
        row_bytes=spec.row_bytes,
        bytes_per_rank=bound.rank_bytes,
        bytes_per_thread=bound.thread_bytes,
        rows_decoded=decoded,
        rows_decoded_per_row=per_row,
        max_bad_rows=spec.most_bad_rows,
        units=spec.units_text,
        dropped_tokens=spec.dropped_tokens,
        advice=(),
        shares=shares,
        rounded=spec.rounded(cursor.epoch),
        rows={name: given[name] for name in shares},
        passes={name: given[name] / max(spec.rows_of_sources[name], 1) for name in shares},
    )
    advice = _advice(plan, spec.num_rows)
    if not shares and per_row > WARN_ABOVE:
        warn(advice[0])
    return replace(plan, advice=advice)


def _advice(plan: Plan, num_rows: int) -> tuple[str, ...]:
    """What could be better, and which setting helps, where a pass has this many rows."""
    advice, sources = [], len(plan.shares)
    if plan.rows_decoded_per_row > WARN_ABOVE:
        said = f"{plan.rows_decoded_per_row:.1f} rows are decoded per row delivered"
        advice.append(f"{said}{_remedy(plan, num_rows)}")
    if sources and plan.bytes_per_rank > LARGE_BYTES and plan.lanes > 1:
        large = in_units(plan.bytes_per_rank)
        held = f"each of {plan.lanes} lanes holds rows of {plural(sources, 'source')}, {large} in all"
        advice.append(f"{held}: {_FEWER_LANES}")
    window_bytes = plan.window_rows * plan.row_bytes
    if not sources and window_bytes > LARGE_WINDOW_BYTES:
        large = in_units(window_bytes)
        advice.append(f"a window of {plan.window_rows:,} rows takes {large}: name a smaller window_rows")
    return tuple(advice)


_FEWER_LANES = "name fewer lanes, or a smaller window_rows of shuffled sources"


def _remedy(plan: Plan, num_rows: int) -> str:
    """What helps where many more rows are decoded than are delivered, if anything does."""
    ways = plan.world_size * max(plan.workers, 1)
    if plan.shares:
        return f": {_FEWER_LANES}"
    if plan.lanes == 1 and ways > 1:
        return (
            ": with lanes=1 every rank and worker decodes what all of them need; take fewer workers, or name "
            f"more lanes (a multiple of {ways}), if the order in time need not be kept"
        )
    if plan.windows:
        return (
            f": {plan.lanes} lanes share {plural(plan.windows, 'window')}, and each rank or worker decodes "
            f"whole ones; name a smaller window_rows (now {plan.window_rows}, where a lane has "
            f"{num_rows // plan.lanes})" + (" or fewer lanes" if plan.lanes > ways else "")
        )
    return ""
