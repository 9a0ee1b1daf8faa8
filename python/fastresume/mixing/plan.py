"""What is left of a stage of a mixture: steps, and what each source gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import fastresume._core as _core
from fastresume.amounts import in_units
from fastresume.buffers import of_buffer, row_count
from fastresume.mixing.spec import MixtureSpec
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.masked_rows import bound_of

LARGE_BYTES = 8 << 30
"""If a rank holds more than this in several lanes, the plan gives advice."""

WARN_ABOVE = 1.5
"""So it does if more rows are decoded per delivered row than this."""


@dataclass(frozen=True)
class MixturePlan:
    """The rest of the current pass of a mixture, for all ranks unless it says 'per rank'; prints as a table.

    Args:
        epoch: the number of the pass.
        remaining_rows: rows of the pass that are not delivered yet.
        world_size: the number of ranks.
        workers: the number of loader workers of each rank; 0 without workers.
        batch_size: rows per rank and step.
        global_batch_size: rows per step over all ranks.
        lanes: the lanes of the cut.
        steps: batches that every rank still gets, with a last one of the tail.
        tail: the tail policy.
        dropped_rows: rows after the last whole global batch: they go back to their sources.
        shares: the share of each source, as its whole weights make it.
        rounded: the share that was asked for, of each source whose whole weight makes another one.
        rows: how many rows each source gives to what is left.
        passes: how many passes of each source that is.
        bytes_per_rank: the most that a rank holds in decoded rows. Of each lane and source, in file order a
            part of a row group, and shuffled a window; an eighth is added. Then the batches that are being
            made, dictionaries and footers. A `Loader` adds its `prefetch_bytes`.
        bytes_per_thread: what each decoding thread adds to that, as for `Plan`.
        rows_decoded: the number of rows that this rank decodes; of units, the rows that they are made of.
        rows_decoded_per_row: the same per row that it gets: 1.0 is best.
        advice: what could be better, and which setting helps.
        max_bad_rows: how many rows of a pass may be masked in each process; None if no bound is named.
    """

    epoch: int
    remaining_rows: int
    world_size: int
    workers: int
    batch_size: int
    global_batch_size: int
    lanes: int
    steps: int
    tail: str
    dropped_rows: int
    shares: Mapping[str, float]
    rounded: Mapping[str, float]
    rows: Mapping[str, int]
    passes: Mapping[str, float]
    bytes_per_rank: int
    bytes_per_thread: int
    rows_decoded: int
    rows_decoded_per_row: float
    advice: tuple[str, ...]
    max_bad_rows: int | None = None

    def __repr__(self) -> str:
        workers = f" x {self.workers} workers" if self.workers else ""
        most = self.max_bad_rows
        steps = f"{self.steps:,} of {self.batch_size:,} rows per rank, {self.global_batch_size:,} over all"
        of_rank, of_thread = in_units(self.bytes_per_rank), in_units(self.bytes_per_thread)
        return "\n".join(
            [
                f"Plan of epoch {self.epoch} of a mixture: {self.remaining_rows:,} rows left",
                *(
                    f"  {name:8} {self._share_text(name)}: {self.rows[name]:,} rows, "
                    f"{self.passes[name]:.2f} passes"
                    for name in self.shares
                ),
                f"  lanes    {self.lanes:,}",
                f"  ranks    {self.world_size:,}{workers}",
                f"  steps    {steps}",
                f"  tail     {self.tail}: {self.dropped_rows:,} dropped",
                f"  memory   {of_rank} of decoded rows per rank, {of_thread} per decoding thread",
                f"  decoded  {self.rows_decoded_per_row:.2f} rows per row delivered",
                *([] if most is None else [f"  masked   at most {most:,} rows of a pass in each process"]),
                *(f"  advice   {line}" for line in self.advice),
            ]
        )

    def _share_text(self, name: str) -> str:
        if name not in self.rounded:
            return f"{self.shares[name]:.2%}"
        return f"{self.shares[name]:.6%} (rounded from {self.rounded[name]:.6%})"


def _advice(rank_bytes: int, per_row: float, lanes: int, sources: int) -> tuple[str, ...]:
    remedy = "name fewer lanes, or a smaller window_rows of shuffled sources"
    advice = []
    if per_row > WARN_ABOVE:
        advice.append(f"{per_row:.1f} rows are decoded per row delivered: {remedy}")
    if rank_bytes > LARGE_BYTES and lanes > 1:
        large = in_units(rank_bytes)
        advice.append(f"each of {lanes} lanes holds rows of {sources} sources, {large} in all: {remedy}")
    return tuple(advice)


def _rows_of_a_unit(sources: Mapping[str, FilesSpec], given: Mapping[str, int]) -> float:
    """How many rows a position counts, on the average over what each source gives."""
    each = [(sources[name], count) for name, count in given.items()]
    rows = sum(count * of.manifest.num_selected / max(of.num_rows, 1) for of, count in each)
    return rows / max(sum(given.values()), 1)


def make_mixture_plan(spec: MixtureSpec, cursor: _core.Cursor, workers: int) -> MixturePlan:
    """The plan of the rest of the current pass with this many loader workers (0 without workers)."""
    planned = spec.pass_from(cursor, max(workers, 1))
    here = planned.cursor_after(planned.batches - planned.batches_left) if planned.batches_left else cursor
    axes, left = _core.Axes(here), of_buffer(here.remaining()).tolist()
    places = {name: place for place, name in enumerate(axes.names)}
    reader = spec.planned_reader(planned)
    bound, decoded = reader.memory_bound(workers), reader.rows_decoded(workers)
    shares, sizes = spec.shares(cursor.epoch), dict(spec.sources)
    rows = {
        name: sum(row_count(axes.ordinals(places[name], start, end)) for start, end in left)
        for name in shares
    }
    units = planned.batches_left * spec.batch_size
    per_row = decoded / max(units * _rows_of_a_unit(sizes, rows), 1)
    return MixturePlan(
        epoch=cursor.epoch,
        remaining_rows=here.num_rows - here.consumed_rows(),
        world_size=spec.world.world_size,
        workers=workers,
        batch_size=spec.batch_size,
        global_batch_size=spec.global_batch_size,
        lanes=planned.cut[0],
        steps=planned.batches_left,
        tail=spec.tail,
        dropped_rows=row_count(planned.dropped()),
        shares=shares,
        rounded=spec.rounded(cursor.epoch),
        rows=rows,
        passes={name: count / sizes[name].num_rows for name, count in rows.items()},
        bytes_per_rank=bound.rank_bytes,
        bytes_per_thread=bound.thread_bytes,
        rows_decoded=decoded,
        rows_decoded_per_row=per_row,
        advice=_advice(bound.rank_bytes, per_row, planned.cut[0], len(shares)),
        max_bad_rows=None if spec.max_bad_rows is None else bound_of(spec.max_bad_rows, spec.rows_of_rank),
    )
