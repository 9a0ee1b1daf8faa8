"""What is left of a stage of a mixture: steps, and what each source gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import fastresume._core as _core
from fastresume.buffers import of_buffer, row_count
from fastresume.mixing.spec import MixtureSpec
from fastresume.reading.masked_rows import bound_of


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
        dropped_rows: rows behind the last whole global batch: they go back to their sources.
        shares: the share of each source, as its whole weights make it.
        rounded: the share that was asked for, of each source whose whole weight makes another one.
        rows: how many rows each source gives to what is left.
        passes: how many passes of each source that is.
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
    max_bad_rows: int | None = None

    def __repr__(self) -> str:
        workers = f" x {self.workers} workers" if self.workers else ""
        most = self.max_bad_rows
        steps = f"{self.steps:,} of {self.batch_size:,} rows per rank, {self.global_batch_size:,} over all"
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
                *([] if most is None else [f"  masked   at most {most:,} rows of a pass in each process"]),
            ]
        )

    def _share_text(self, name: str) -> str:
        if name not in self.rounded:
            return f"{self.shares[name]:.2%}"
        return f"{self.shares[name]:.6%} (rounded from {self.rounded[name]:.6%})"


def make_mixture_plan(spec: MixtureSpec, cursor: _core.Cursor, workers: int) -> MixturePlan:
    """The plan of the rest of the current pass with this many loader workers (0 without workers)."""
    planned = spec.pass_from(cursor, max(workers, 1))
    here = planned.cursor_after(planned.batches - planned.batches_left) if planned.batches_left else cursor
    axes, left = _core.Axes(here), of_buffer(here.remaining()).tolist()
    places = {name: place for place, name in enumerate(axes.names)}
    shares, sizes = spec.shares(cursor.epoch), dict(spec.sources)
    rows = {
        name: sum(row_count(axes.ordinals(places[name], start, end)) for start, end in left)
        for name in shares
    }
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
        max_bad_rows=None if spec.max_bad_rows is None else bound_of(spec.max_bad_rows, spec.rows_of_rank),
    )
