"""The `ReadSpec`: what a dataset reads, and how it is cut into batches, as one frozen value."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.audit.logged import Description
from fastresume.batch.batch import Batch
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin, Planned, Share
from fastresume.batch.schema import Schema
from fastresume.buffers import Intervals, row_count
from fastresume.options.tail import TailOfPass
from fastresume.options.world import Cut, World, cut_of
from fastresume.reading.config import transform_config
from fastresume.reading.draws import Draws
from fastresume.reading.map_function import Transform, check_picklable, name_of
from fastresume.reading.masked_rows import Bound, MaskedRows, bound_of
from fastresume.reading.prefetch import Reader
from fastresume.rebuilt import Rebuilt

_PASSES_AHEAD = 64
"""The steps of this many passes after the present one are counted; those of others are presumed."""


class PassReader(Reader, Protocol):
    """The batches of a rank's worker, each a `Delivered`."""

    @property
    def activity(self) -> Any:
        """What its threads are doing, as the core's `Activity` tells it."""

    def batch(self, number: int) -> Any:
        """The batch with a number in the cut, read by itself: a `Delivered`."""


@dataclass(frozen=True, kw_only=True)
class ReadSpec(Rebuilt, ABC):
    """Everything that decides which batches a rank gets after a cursor, wherever its rows come from.

    The cursor itself is state, and not part of it.

    It is a plain value: it may be used in any thread and after a fork, and worker processes get it.

    Args:
        schema: the keys of a batch.
        seed: the seed of transforms, if no order has one.
        world: the rank, and the number of ranks.
        world_was_detected: whether the user did not name it.
        batch_size: rows per rank and step.
        tail: what happens to the rows after the last whole global batch.
        lanes, groups: what was named of the cut; None for the default.
        on_iter: what `iter()` means.
        masks_damage: whether damaged rows are masked; else one is an error.
        max_bad_rows: how many rows of a pass may be masked, or which share of this rank's; None if it is not
            named.
        transforms: what `map` was given, in the order of their calls.
        masking: the numbers of the transforms whose failure masks a batch.

    Attributes:
        draws: what is known of the transforms' draws, in this process.
    """

    schema: Schema
    seed: int
    world: World
    world_was_detected: bool
    batch_size: int
    tail: TailOfPass
    lanes: int | None
    groups: int | None
    on_iter: Literal["continue", "restart"]
    masks_damage: bool = False
    max_bad_rows: int | float | None = None
    transforms: tuple[Transform, ...] = ()
    masking: frozenset[int] = frozenset()
    draws: Draws = field(init=False, compare=False, repr=False)

    _REBUILT: ClassVar[tuple[str, ...]] = ("schema", "draws", "masked_rows")

    def __post_init__(self) -> None:
        object.__setattr__(self, "draws", Draws(self.transforms))

    def _rebuild(self) -> None:
        self.__dict__["draws"] = Draws(self.transforms)

    def __getstate__(self) -> dict[str, Any]:
        check_picklable(self.transforms)
        return super().__getstate__()

    @property
    def named_session(self) -> str | None:
        """What states name of the sessions of the rows' sources, as JSON text; None where there are none."""
        return None

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of what is read."""

    def config(self) -> dict[str, Any]:
        """What was asked for, as plain values: what every rank has in common."""
        return {
            "global_batch_size": self.global_batch_size,
            "seed": self.seed,
            "tail": self.tail,
            "lanes": self.lanes,
            "groups": self.groups,
            "on_iter": self.on_iter,
            "bad_rows": {"damaged": self.masks_damage, "at_most": self.max_bad_rows},
            "transforms": [
                {**transform_config(transform), "on_error": "mask" if number in self.masking else "raise"}
                for number, transform in enumerate(self.transforms)
            ],
        }

    @property
    @abstractmethod
    def num_rows(self) -> int:
        """The number of rows of a pass."""

    @property
    @abstractmethod
    def row_bytes(self) -> int:
        """Estimated bytes of a row of a batch, from the footers."""

    @property
    def most_bad_rows(self) -> int | None:
        """How many rows of a pass may be masked in a process; None where nothing is."""
        if not self.masks_damage and not self.masking:
            return None
        return bound_of(self.max_bad_rows, self.rows_of_rank)

    @property
    def rows_of_rank(self) -> int:
        """The number of rows of a pass that this rank gets."""
        return self.rows_of(self.start())

    def rows_of(self, start: _core.Cursor) -> int:
        """The number of rows that this rank gets of the pass that begins with a cursor."""
        planned = _core.Pass(start, self.cut(1), self.tail, self.world.world_size)
        last = planned.batches - 1
        return last * self.batch_size + planned.shape(last, self.world.rank)[1] if planned.batches else 0

    @property
    def masked_rows(self) -> MaskedRows:
        """What was masked in this process."""
        # Not a `functools.cached_property`: Python 3.11's has a lock, which a fork may find taken for ever.
        made: MaskedRows | None = self.__dict__.get("masked_rows")
        return made or self.__dict__.setdefault("masked_rows", MaskedRows(self.masking_bounds))

    @property
    def lag(self) -> dict[str, int] | None:
        """How many offsets of each partition are not read yet, of a stream; None of others."""
        return None

    @property
    def skipped(self) -> dict[str, int] | None:
        """How many offsets of each partition were gone before they were read, of a stream; None of others."""
        return None

    def packed_round(self) -> bytes:
        """What a worker that has the spec of an earlier round of a stream needs to make this one of it."""
        return b""

    def of_packed_round(self, _packed: bytes) -> Self:
        """The spec of the round that `packed_round` describes."""
        return self

    @property
    @abstractmethod
    def masking_bounds(self) -> Sequence[Bound]:
        """How many rows may be masked, for `MaskedRows`."""

    @property
    @abstractmethod
    def stores(self) -> Sequence[_core.Stores]:
        """The stores that its files may lie in."""

    @property
    def is_made_ahead(self) -> bool:
        """Whether threads make batches ahead of the loop, of what the core has decoded."""
        return bool(self.transforms)

    @abstractmethod
    def start(self) -> _core.Cursor:
        """The cursor of a new job."""

    @abstractmethod
    def fitted(self, cursor: _core.Cursor) -> _core.Cursor:
        """A cursor of this dataset, or what it becomes after the dataset has changed.

        Raises:
            StateError: if it is of another dataset, selection of rows or order.
        """

    @abstractmethod
    def reader(
        self,
        cursor: _core.Cursor,
        planned: _core.Pass,
        place: tuple[int, int, int, int],
        threads: int = 0,
        prefetch_bytes: int = 0,
        page_lock: _core.PageLock | None = None,
    ) -> PassReader:
        """The batches of a rank's worker, from a cursor on.

        `place` is (rank, number of ranks, worker, number of workers).
        """

    @abstractmethod
    def batch(self, delivered: Any, cursor: _core.Cursor, share: Share | None) -> Batch:
        """The batch that a reader delivered, with the cursor after it."""

    @property
    def units_text(self) -> str | None:
        """What is counted instead of rows, in words; None of rows."""
        return None

    @property
    def dropped_tokens(self) -> int:
        """How many tokens of all files are in no unit; 0 of rows."""
        return 0

    @property
    @abstractmethod
    def table_text(self) -> str | None:
        """The snapshots of the tables that are read, in words; None for files that are no table's."""

    @abstractmethod
    def order_sizes(self, cursor: _core.Cursor) -> tuple[int, int, int]:
        """The numbers of blocks and windows, and the rows of the largest window; zeros in file order."""

    @abstractmethod
    def rows_decoded(self, planned: _core.Pass, cursor: _core.Cursor, workers: int) -> tuple[int, float]:
        """The rows that the rest of a pass decodes, and the same per row that is delivered."""

    def shares(self, _epoch: int) -> dict[str, float]:
        """The share of each source in a pass of a mixture, as it is read; empty for one dataset."""
        return {}

    def rounded(self, _epoch: int) -> dict[str, float]:
        """The shares that were asked for in a pass, of the sources that have another one."""
        return {}

    @property
    def rows_of_sources(self) -> dict[str, int]:
        """The rows of a pass of each source of a mixture."""
        return {}

    def rows_given(self, _cursor: _core.Cursor) -> dict[str, int]:
        """How many rows each source of a mixture gives to the rest of the pass that a cursor is in."""
        return {}

    def audited(self) -> Self:
        """The same spec, whose batches have what a delivery log notes."""
        return self

    @abstractmethod
    def digests(self, batch: Delivered, origin: Origin) -> tuple[int, int | None]:
        """The digest of what is counted (rows, units), and that of what units hold; None for rows."""

    def dropped_content(self, _before: _core.Cursor, _positions: Intervals) -> int | None:
        """The digest of what units at positions hold that are dropped; None for rows."""
        return None

    def stage_at(self, _before: _core.Cursor) -> Mapping[str, Any]:
        """What a delivery log notes of the stage, or of the round of units, that a cursor is in."""
        return {}

    @abstractmethod
    def descriptions(self, rank: int) -> Iterator[Description]:
        """The files that describe what is read, which this rank writes if they are missing."""

    def planned_reader(self, planned: _core.Pass) -> Any:
        """What reads single batches of this rank in the rest of a pass, and says what all of it takes."""
        here = planned.cursor_after(planned.batches - planned.batches_left)
        return self.reader(here, planned, (self.world.rank, self.world.world_size, 0, 1))

    def planned_batch(self, planned: _core.Pass, number: int) -> Batch:
        """This rank's batch with a number in the cut of a pass, read again; no transform has seen it."""
        cursor, after = planned.cursor_after(number), planned.cursor_after(number + 1)
        if after.epoch != planned.epoch:
            after = cursor.restarted() if self.on_iter == "restart" else self.end(planned, None) or after
        place = (self.world.rank, self.world.world_size, 0, 1)
        delivered: Any = self.reader(cursor, planned, place).batch(number)
        return self.batch(delivered, after, self.share(planned, cursor))

    @abstractmethod
    def locate(self, batch: Batch) -> list[tuple[str, int, int]]:
        """The places of a batch's rows: (path, row group, row in it)."""

    @abstractmethod
    def files_of(self, planned: _core.Pass, number: int) -> list[str]:
        """The files that hold rows of this rank's batch, in the order of its rows."""

    @abstractmethod
    def seed_at(self, cursor: _core.Cursor) -> int:
        """The seed of random numbers in the pass that a cursor is in."""

    @abstractmethod
    def read_by_all(self, cursor: _core.Cursor, workers: int) -> dict[str, object]:
        """What has to be the same on all ranks, so that they divide the same rows among them."""

    @property
    def chosen(self) -> tuple[int, int] | None:
        """How many rows `rows=` and `filter=` choose, and of how many; None if all are read."""
        return None

    @property
    def ends_smaller(self) -> bool:
        """Whether the last batch of a pass may have fewer rows than the others."""
        return self.tail == "short"

    @abstractmethod
    def row_text(self) -> str:
        """The number of rows, in words."""

    @abstractmethod
    def name_at(self, cursor: _core.Cursor) -> str:
        """What is read, and in which order, in words: the beginning of a dataset's `repr`."""

    @property
    def global_batch_size(self) -> int:
        """The number of rows per step over all ranks."""
        return self.batch_size * self.world.world_size

    @property
    def batch_bytes(self) -> int:
        """Estimated bytes of a batch of this rank, from the footers; at least 1."""
        return max(self.batch_size * self.row_bytes, 1)

    def mapped(self, function: Transform, masks_failure: bool = False) -> Self:
        """The same spec with one more transform, over the same layout."""
        masking = self.masking | {len(self.transforms)} if masks_failure else self.masking
        return dataclasses.replace(self, transforms=(*self.transforms, function), masking=masking)

    def cut(self, workers: int) -> Cut:
        """The cut for this many workers of each rank; 1 without workers.

        Raises:
            ValueError: if they can't share the lanes.
        """
        return cut_of(self.batch_size, self.world.world_size, workers, self.lanes, self.groups)

    def pass_from(self, cursor: _core.Cursor, workers: int) -> _core.Pass:
        """The rest of the pass that a cursor is in."""
        return _core.Pass(cursor, self.cut(workers), self.tail, self.world.world_size)

    def at_epoch(self, present: _core.Cursor, epoch: int, workers: int) -> _core.Cursor:
        """The beginning of a pass that was not read here yet; the cursor of the present one.

        Raises:
            StateError: if it is not known what that pass begins with.
        """
        if not present.epoch < epoch <= present.epoch + _PASSES_AHEAD:
            return present if present.epoch == epoch else present.at_epoch(epoch)
        return self._ahead(present, epoch, workers)

    def _ahead(self, cursor: _core.Cursor, epoch: int, workers: int) -> _core.Cursor:
        """The beginning of a later pass, with the steps of those before it."""
        while cursor.epoch < epoch:
            cursor = self.pass_from(cursor, workers).next_pass()
        return cursor

    def batches_of(self, cursor: _core.Cursor) -> int:
        """How many batches each rank gets of the pass that begins with a cursor."""
        return self.pass_from(cursor, 1).batches

    def share(self, planned: _core.Pass, cursor: _core.Cursor) -> Planned:
        """The share of this rank's batches in the pass that a cursor is in."""
        restarts = self.on_iter == "restart"
        return Planned(self.world.rank, self.seed_at(cursor), planned, restarts=restarts)

    def bounds(self, cursor: _core.Cursor) -> tuple[_core.Cursor, _core.Cursor | None]:
        """Where an iterator begins, and where it ends if that is not the next pass."""
        if self.on_iter == "continue":
            return cursor, None
        return cursor.restarted(), cursor.restarted()

    def end(self, _planned: _core.Pass, named: _core.Cursor | None) -> _core.Cursor | None:
        """Where an iterator over a pass ends if that is not its next pass; `named` as `bounds` says it."""
        return named

    def check_world(self) -> None:
        """Compares a detected world with the current default process group.

        Raises:
            FastresumeError: if they differ.
        """
        current = World.of_default_group() if self.world_was_detected else None
        if current is not None and current != self.world:
            raise _core.FastresumeError(
                f"the dataset was made for {self.world}, but the process group now says {current}: make it "
                "after init_process_group, or pass world=(rank, world_size). Where Lightning starts the "
                "ranks by itself, start them with torchrun, which says who is who before"
            )

    def no_batch_text(self, rows: str) -> str:
        """The message that a pass has no batch, of `rows` in words."""
        if not self.num_rows:
            why = "the source has none" if self.chosen is None else "filter= and rows= keep none"
            return f"no batch would come from {rows}: {why}"
        if self.ends_smaller:
            return (
                f"no batch would come from {rows}: they are fewer than the {self.world.world_size} ranks, "
                "and tail is 'short'; tail='pad' fills up"
            )
        tail = f"tail is {self.tail!r}"
        if self.chosen is not None and self.chosen[0] == 2:
            tail += ": rows=[0, 500] is two rows, and rows=[[0, 500]] a range of them"
        else:
            tail += ": write a smaller batch_size=, or tail='short'"
        ranks = "" if self.world.world_size == 1 else f", on {self.world.world_size} ranks together"
        return (
            f"no batch would come from {rows}: a global batch has {self.global_batch_size} {self.counted}"
            f"{ranks}, and {tail}"
        )

    @property
    def counted(self) -> str:
        """What batches are counted in, in words."""
        return "rows"

    def left_out_text(self, doing: str) -> str | None:
        """That some rows are in no batch of a pass, and what to write; None if each row is in one.

        Args:
            doing: what is done with them, as "validate".
        """
        if self.tail not in ("drop", "short"):
            return None
        rows = row_count(self.pass_from(self.start(), 1).dropped())
        if not rows:
            return None
        way = "short" if self.tail == "drop" else "pad"
        return (
            f"the dataset to {doing} with leaves out {rows} of its {self.num_rows} rows, which make no whole "
            f'batch, by tail="{self.tail}": pass tail="{way}" to it'
        )

    def dropped_text(self, planned: _core.Pass) -> str:
        """The message when a pass ends with rows that make no batch."""
        rest = f"the pass ends here, with {plural(planned.rest, 'row')} left of it"
        if self.ends_smaller:
            return f"{rest}: fewer than the {self.world.world_size} ranks, and dropped"
        return f"{rest}: too few for a global batch of {self.global_batch_size}, and dropped"

    def text(self, cursor: _core.Cursor) -> str:
        """The `repr` of a dataset at a cursor."""
        mapped = "".join(f", mapped by {name_of(transform)}" for transform in self.transforms)
        return f"{self.name_at(cursor)}, {self.batches_text(cursor)}{mapped})"

    def batches_text(self, cursor: _core.Cursor) -> str:
        """What batches there are, and how many are left at a cursor, in words."""
        left = self.pass_from(cursor, 1).batches_left
        return (
            f"batch_size={self.batch_size}, rank {self.world.rank} of {self.world.world_size}, "
            f"epoch {cursor.epoch - cursor.first_epoch}, {plural(left, 'batch', 'batches')} left"
        )
