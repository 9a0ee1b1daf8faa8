"""A whole job of all ranks, walked batch by batch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from support.oracle.cursor import checked
from support.oracle.lanes import (
    Cut,
    check_cut,
    check_divides,
    global_batches,
    last_part,
    left_after,
    rank_batches,
    replay,
)
from support.oracle.order import order_rows
from support.oracle.selection import selected_group_rows, selection_hash


class OracleJob:
    """A training job of `world_size` ranks in lockstep, in one process, that only hands out row numbers.

    It counts. `step()` is one global batch on every rank, `state()` the cursor of the last one delivered,
    `load()` what a fresh job does with such a cursor. The order is sequential, or shuffled by
    `order=dict(seed=, block_rows=, window_rows=, group_rows=)`. With `selected`, row numbers that ascend,
    these rows alone are read.

    Of each pass ended here, `dropped` holds the rows that no rank got, and `padded` how many rows of each
    rank's batches repeat others. `valid` says of each row of the last step whether it counts, and `positions`
    where it stands in the order of the pass.
    """

    def __init__(
        self,
        rows: int,
        world_size: int,
        workers: int,
        batch_size: int,
        *,
        lanes: int | None = None,
        groups: int | None = None,
        fingerprint: str = "0" * 64,
        tail: str = "drop",
        order: Mapping[str, Any] | None = None,
        selected: Sequence[int] | None = None,
    ) -> None:
        if min(world_size, batch_size) < 1:
            raise ValueError(f"world_size {world_size}, batch_size {batch_size}: both must be positive")
        if groups is None:
            groups = 1 if lanes == 1 else max(workers, 1)
        if lanes is None:
            lanes = world_size * groups
        if lanes != 1:
            check_divides("world_size * groups", world_size * groups, "lanes", lanes)
            check_divides("workers", max(workers, 1), "groups", groups)
        check_divides("lanes", lanes, "batch_size * world_size * groups", batch_size * world_size * groups)
        if order is not None and sum(order["group_rows"]) != rows:
            raise ValueError(f"{rows} rows, and row groups of {sum(order['group_rows'])}")
        self.selected = range(rows) if selected is None else selected
        self.selection = None if len(self.selected) == rows else selection_hash(self.selected)
        if order is not None:
            order = {**order, "group_rows": selected_group_rows(order["group_rows"], self.selected)}
        rows = len(self.selected)
        self.rows, self.world_size, self.batch_size = rows, world_size, batch_size
        self.fingerprint, self.tail, self.order = fingerprint, tail, order
        self.cut = [lanes, groups, batch_size * world_size * groups // lanes]
        check_cut(*self.cut)
        self.first_epoch = self.epoch = 0
        self.earlier_batches: int | None = 0
        self.dropped: dict[int, list[int]] = {}
        self.padded: dict[int, list[int]] = {}
        self.valid: list[list[bool]] | None = None
        self.positions: list[list[int]] = []
        self._begin([], [])
        if not self._steps:
            raise ValueError(
                f"{rows} rows give no batch of {world_size} ranks x {batch_size} rows under tail={tail!r}"
            )

    def _begin(self, consumed: list[list[int]], cuts: list[Cut]) -> None:
        """Lay out what is left of the pass: the last cut goes on if it is ours, else the rest is cut anew."""
        self._check_cuts(consumed, cuts)
        if not cuts or cuts[-1][:3] != self.cut:
            cuts = [*cuts, [*self.cut, 0]]
        self.consumed, self.cuts = consumed, cuts
        left = replay(self.rows, consumed, cuts[:-1])
        lanes, groups, rows = self.cut
        by_rank = [
            rank_batches(left, lanes, groups, rows, rank, self.world_size) for rank in range(self.world_size)
        ]
        whole = [list(step) for step in zip(*by_rank, strict=True)]
        rest = left_after(left, [batch for step in whole for batch in step])
        self._last = last_part(rest, self.world_size, self.batch_size, self.tail)
        self._steps = whole if self._last.step is None else [*whole, self._last.step]

    def _check_cuts(self, consumed: list[list[int]], cuts: list[Cut]) -> None:
        """Raise ValueError for cuts that no pass leaves behind: after the last row comes the next pass."""
        for i, (lanes, groups, rows, done) in enumerate(cuts):
            left = replay(self.rows, consumed, cuts[:i])
            whole, rest = divmod(len(left), lanes * rows // groups)
            if done > whole or (done == whole and rest == 0):
                raise ValueError(f"{done} batches done in a cut that has {whole}, and {rest} rows")

    def _rows_at(self, positions: Iterable[int]) -> list[int]:
        """Return the rows at some positions of the present pass."""
        if self.order is None:
            return [self.selected[position] for position in positions]
        order = self.order
        rows = order_rows(
            tuple(order["group_rows"]), order["seed"], self.epoch, order["block_rows"], order["window_rows"]
        )
        return [self.selected[rows[position]] for position in positions]

    @property
    def batches_left(self) -> int:
        """The batches that every rank still gets in the present pass."""
        return len(self._steps) - self.cuts[-1][3]

    @property
    def rest(self) -> int:
        """How many rows are left after the last whole global batch of the pass."""
        positions = {position for batch in self._last.step or [] for position in batch}
        return len(positions) + len(self._last.dropped)

    @property
    def steps_done(self) -> int:
        """The batches of the present pass that every rank got, over all its cuts."""
        return sum(cut[3] for cut in self.cuts)

    @property
    def batches_given(self) -> int:
        """The batches that every rank got of this job, over its passes."""
        return (self.earlier_batches or 0) + self.steps_done

    @property
    def epochs_done(self) -> int:
        """The passes done by this job."""
        return self.epoch - self.first_epoch

    def step(self) -> list[list[int]] | None:
        """Return the rows of every rank's next batch, or None if the pass ended without one: no rest gives.

        After the last batch of a pass the job is at the start of the next pass.
        """
        step = self.valid = None
        self.positions = []
        if self.batches_left > 0:
            n = self.cuts[-1][3]
            self.positions = self._steps[n]
            step = [self._rows_at(batch) for batch in self._steps[n]]
            is_last_part = self._last.step is not None and n == len(self._steps) - 1
            self.valid = self._last.valid if is_last_part else [[True] * len(batch) for batch in step]
            if self.earlier_batches is None:
                self.earlier_batches = self._presumed_batches()
            self.cuts[-1][3] += 1
        if self.batches_left == 0:
            self.dropped[self.epoch] = self._rows_at(self._last.dropped)
            marks = self._last.valid or [[]] * self.world_size
            self.padded[self.epoch] = [rank.count(False) for rank in marks]
            self.epoch += 1
            if self.earlier_batches is not None:
                self.earlier_batches += self.steps_done
            self._begin([], [])
        return step

    def _presumed_batches(self) -> int:
        """Return the batches before the cuts of this pass as if all had been read under the first of them."""
        lanes, groups, rows, _ = self.cuts[0]
        least = {"drop": self.rows + 1, "short": self.world_size if lanes == 1 else lanes // groups, "pad": 1}

        def batches(count: int) -> int:
            whole, rest = divmod(count, lanes * rows // groups)
            return whole + (rest >= least[self.tail])

        return self.epochs_done * batches(self.rows) + batches(
            sum(end - start for start, end in self.consumed)
        )

    def run_pass(self) -> list[list[list[int]]]:
        """Return the steps from here to the end of the present pass: what one `for batch in loader` sees."""
        epoch, steps = self.epoch, []
        while self.epoch == epoch:
            step = self.step()
            if step is not None:
                steps.append(step)
        return steps

    def pass_of(self, state: str) -> list[list[list[int]]]:
        """Return all steps of the pass that a state tells of: those of its cuts, of which the last goes on.

        Every rank has its contiguous share of each global batch. A state without cuts is of a pass under
        this job's own cut.
        """
        fields = json.loads(state)
        self.load(state)
        cuts = fields["cuts"] or [[*self.cut, 0]]
        steps: list[list[list[int]]] = []
        for i, (lanes, groups, rows, done) in enumerate(cuts):
            left = replay(self.rows, fields["consumed"], cuts[:i])
            ways = rows if lanes == 1 else lanes // groups
            check_divides("world_size", self.world_size, "the ways to share a global batch", ways)
            each = rows * lanes // groups // self.world_size
            batches = global_batches(left, lanes, groups, rows)
            is_last = i == len(cuts) - 1
            for batch in batches if is_last else batches[:done]:
                steps.append([batch[k * each : (k + 1) * each] for k in range(self.world_size)])
            if is_last:
                rest = left_after(left, batches)
                last = last_part(rest, self.world_size, each, self.tail)
                steps += [last.step] if last.step is not None else []
        return [[self._rows_at(batch) for batch in step] for step in steps]

    def state(self) -> str:
        """Return the cursor as canonical JSON text. A cut with nothing done is not in it."""
        order: dict[str, Any] = {"kind": "sequential"}
        if self.order is not None:
            sizes = {name: self.order[name] for name in ("seed", "block_rows", "window_rows")}
            order = {"kind": "shuffled", **sizes}
        counted = {} if self.earlier_batches is None else {"earlier_batches": self.earlier_batches}
        return checked(
            {
                **counted,
                "fastresume": 1,
                "dataset": {"fingerprint": self.fingerprint, "rows": self.rows},
                "order": order,
                "selection": self.selection,
                "first_epoch": self.first_epoch,
                "epoch": self.epoch,
                "consumed": self.consumed,
                "cuts": [cut for cut in self.cuts if cut[3] > 0],
            }
        )

    def load(self, state: str, *, reset_epochs: bool = False) -> None:
        """Go on after the batch whose cursor this is. Foreign or damaged state is a ValueError."""
        fields = json.loads(state)
        for key, want in json.loads(self.state()).items():
            if key in ("fastresume", "dataset", "order", "selection") and fields.get(key) != want:
                raise ValueError(f"{key} of the state is {fields.get(key)!r}, here it is {want!r}")
        if json.loads(checked(fields))["check"] != fields.get("check"):
            raise ValueError(f"check of the state is {fields.get('check')!r}, its text says otherwise")
        self._begin(fields["consumed"], fields["cuts"])
        self.epoch = fields["epoch"]
        self.first_epoch = self.epoch if reset_epochs else fields["first_epoch"]
        self.earlier_batches = 0 if reset_epochs else fields.get("earlier_batches")
