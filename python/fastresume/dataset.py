"""Parquet files as an iterable dataset of batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from torch.utils.data import IterableDataset, get_worker_info

from fastresume import _core
from fastresume.arguments import at_least, global_share, names, path_list, stack_list
from fastresume.batch import Batch, Schema, of_delivered
from fastresume.cursor import Cursor
from fastresume.iterator import BatchIterator, rest_warning
from fastresume.workers import Departing, SharedCursor, new_ticket
from fastresume.world import World

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

Path = str | os.PathLike[str]


class ParquetDataset(IterableDataset[Batch]):
    """An iterable of `Batch`es over Parquet files, which resumes exactly on any number of ranks.

    `iter(dataset)` gives the batches of this rank from the cursor to the end of the pass, decoded in the
    caller's thread; `Loader` does the same with threads. Under `torch.utils.data.DataLoader`, pass
    `batch_size=None`.

    Args:
        paths: a file, a directory (all files below it that end in `.parquet`, names that begin with `_` or
            `.` left out), a glob pattern, or a list of these.
        batch_size: rows per rank and step.
        global_batch_size: rows per step over all ranks, in place of `batch_size`.
        columns: names or glob patterns of the columns to read; all of them if None.
        stack: per name of a matrix, the names or patterns of the columns (of one type) that it holds.
        on_iter: what `iter()` means: "continue" after the last delivered batch, or "restart" the pass.
        rank, world_size: which of how many ranks this is; together or not at all.
        world: the same as a `World`, a process group or a one-dimensional device mesh. Without any of
            these, `World.detect()`.

    Raises:
        SourceError: if no file matches, or one can't be read.
        DataError: if a file is damaged or not Parquet, a column is missing, differs between files or has a
            type that can't be delivered.
        ValueError: for numbers out of range, or a dataset from which no batch would come.
        TypeError: for arguments of another type.

    Threads and forks: share a dataset between threads only if one of them iterates. A forked child goes on
    from the cursor of the moment, on its own. Pickling takes the manifest along, so that no footer is read
    again.

    Example:
        >>> dataset = ParquetDataset("data/*.parquet", batch_size=32, columns=["label", "i_*"],
        ...                          stack={"dense": "i_*"})
        >>> next(iter(dataset))["dense"].shape
        torch.Size([32, 3])
    """

    def __init__(
        self,
        paths: Path | Sequence[Path],
        *,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        columns: str | Sequence[str] | None = None,
        stack: Mapping[str, str | Sequence[str]] | None = None,
        on_iter: Literal["continue", "restart"] = "continue",
        rank: int | None = None,
        world_size: int | None = None,
        world: World | ProcessGroup | DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        self.paths = path_list(paths)
        self.world, self._world_was_detected = _resolve_world(rank, world_size, world)
        if (batch_size is None) == (global_batch_size is None):
            raise TypeError("one of batch_size and global_batch_size must be given")
        self.batch_size = (
            at_least(1, "batch_size", batch_size)
            if batch_size is not None
            else global_share(global_batch_size, self.world.world_size)
        )
        if on_iter not in ("continue", "restart"):
            raise ValueError(f"on_iter must be 'continue' or 'restart', found {on_iter!r}")
        self.on_iter = on_iter
        self._columns = names("columns", columns)
        self._stacks = stack_list(stack)
        self._manifest = _core.Manifest.open(self.paths)
        self._lay_out()
        if len(self) == 0:
            raise ValueError(
                f"no batch would come from {self.num_rows} rows: a global batch has {self.global_batch_size} "
                f"({self.batch_size} rows on each of {self.world.world_size} ranks)"
            )
        self._shared = SharedCursor(_core.Cursor.start(self._manifest))
        self._iterators = 0

    def _lay_out(self) -> None:
        self._layout = _core.Layout(self._manifest, self._columns, self._stacks)
        self.schema = Schema(self._layout)
        self._fields = tuple(self.schema.values())

    @property
    def num_rows(self) -> int:
        """Rows of all files."""
        return self._manifest.num_rows

    @property
    def files(self) -> tuple[str, ...]:
        """The absolute paths of the files, in the order in which their rows are numbered."""
        return tuple(self._manifest.files)

    @property
    def fingerprint(self) -> str:
        """A hash of the files' relative paths, sizes and footers; a cursor belongs to one."""
        return self._manifest.fingerprint

    @property
    def global_batch_size(self) -> int:
        """Rows per step over all ranks."""
        return self.batch_size * self.world.world_size

    def __len__(self) -> int:
        """Batches that each rank gets in an unbroken pass."""
        return self.num_rows // self.global_batch_size

    @property
    def epoch(self) -> int:
        """Passes that this job has completed."""
        cursor = self._shared.cursor
        return cursor.epoch - cursor.first_epoch

    @property
    def batches_left(self) -> int:
        """Batches that this rank still gets in the present pass."""
        return self._shared.cursor.plan(self._cut(1))[0]

    def state_dict(self) -> dict[str, str]:
        """The state after the last delivered batch: one leaf under the key "fastresume".

        The same on every rank under lockstep training. Taking it has no side effect. Under a DataLoader with
        workers, take `batch.state_dict()`: this one changes only where a pass ends.
        """
        return Cursor(self._shared.cursor).to_state()

    def load_state_dict(self, state: Mapping[str, Any] | Cursor, reset_epochs: bool = False) -> None:
        """Goes on from a state at the next `iter()`, on any number of ranks and workers.

        Reaches DataLoader workers that run already. An iterator made before raises at its next `next()`.

        Args:
            state: from `state_dict()` of a batch, dataset or `Loader`; its parsed JSON; or a `Cursor`.
            reset_epochs: keep the position, and count the passes of this job from here.

        Raises:
            StateError: if the state is empty, damaged, or of another version, dataset or order. The dataset
                stays as it was.
        """
        cursor = Cursor.from_state(state)._core
        cursor.check_dataset(self._manifest)
        self._shared.load(cursor.with_epochs_reset() if reset_epochs else cursor)

    def reset(self) -> None:
        """Goes back to the start of the present pass, for the next `iter()`."""
        self._shared.load(self._shared.cursor.restarted())

    def __iter__(self) -> Iterator[Batch]:
        """The batches of this rank up to the end of the pass; see `on_iter` for where they begin."""
        worker = get_worker_info()
        if worker is None:
            return BatchIterator(self, threads=0, prefetch_bytes=0)
        return self._iterate_in_worker(worker.id, worker.num_workers)

    def _cut(self, workers: int) -> tuple[int, int, int]:
        """Lanes, groups, and rows per lane and batch."""
        return self.world.world_size * workers, workers, self.batch_size

    def _check_world(self) -> None:
        current = World.of_default_group() if self._world_was_detected else None
        if current is not None and current != self.world:
            raise _core.FastresumeError(
                f"the dataset was made for {self.world}, but the process group now says {current}: make it "
                "after init_process_group, or pass rank= and world_size="
            )

    def _iterate_in_worker(self, worker: int, workers: int) -> Iterator[Batch]:
        reading = self._shared.read_as_worker(worker)
        cursor = reading.cursor
        end_cursor = None
        if self.on_iter == "restart":
            cursor = end_cursor = cursor.restarted()
        cut = self._cut(workers)
        batches, rest = cursor.plan(cut)
        if batches == 0:
            # The main process can't see an iterator that gives nothing, so the next pass follows at once.
            cursor = cursor.next_pass()
        warning = rest_warning(rest, self.global_batch_size) if batches == 0 and worker == 0 else None
        ticket = new_ticket(self._shared, reading, worker, workers)
        place = (self.world.rank, self.world.world_size, worker, workers)
        reader = _core.Reader(self._manifest, self._layout, cursor, cut, place, 0, 0)
        while (delivered := reader.front()) is not None:
            reader.advance()
            ends_pass = delivered.ends_pass
            after = end_cursor if ends_pass and end_cursor is not None else delivered.cursor
            batch = of_delivered(self._fields, delivered, after)
            sent = replace(ticket, ends_pass=ends_pass, warning=warning)
            yield Departing(batch._tensors, batch._origin, sent)
            warning = None

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for made in ("_layout", "schema", "_fields"):
            del state[made]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lay_out()

    def __repr__(self) -> str:
        return (
            f"ParquetDataset({len(self.files)} files, {self.num_rows} rows, {len(self.schema)} tensors, "
            f"batch_size={self.batch_size}, rank {self.world.rank} of {self.world.world_size}, "
            f"epoch {self.epoch}, {self.batches_left} batches left)"
        )


def _resolve_world(
    rank: int | None, world_size: int | None, world: World | ProcessGroup | DeviceMesh | None
) -> tuple[World, bool]:
    if (rank is None) != (world_size is None):
        raise TypeError("rank and world_size come together, found only one of them")
    if world is not None and rank is not None:
        raise TypeError("pass either world or rank and world_size, not both")
    if world is not None:
        return World.of(world), False
    if rank is not None and world_size is not None:
        return World(rank, world_size), False
    return World.detect(), True
