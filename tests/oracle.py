"""The contract of fastresume as slow, obvious Python: what the fast reader must do, to be read and believed.

Nothing here imports fastresume, and nothing here is clever. Rows go through pyarrow; positions are plain
integers in plain lists, walked batch by batch. docs/DESIGN.md is the text; the sections named below (§4, §5)
are its sections.

The order is sequential throughout, so position p of a pass is row p of the dataset.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

Interval = tuple[int, int]
"""Half open: (start, end) holds the positions start, start + 1, ..., end - 1."""

Cut = list[int]
"""[lanes, groups, rows per lane and batch, batches done]."""

PathLike = str | os.PathLike[str]

# --------------------------------------------------------------------------------------------------- manifest


def canonical_files(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """Return the files of a dataset in canonical order: by the bytes of the path relative to the common root.

    A file that is named means itself. A directory means every file below it that ends in `.parquet`, where no
    name on the way down begins with `_` or `.`. The same file twice is a ValueError. Globs are not the
    oracle's business.
    """
    named = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[Path] = []
    for path in map(Path, named):
        files.extend(_files_below(path) if path.is_dir() else [path])
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"the same file twice in {sorted(map(str, files))}")
    if not files:
        return []
    root = os.path.commonpath([file.absolute().parent for file in files])
    return sorted(files, key=lambda file: os.fsencode(os.path.relpath(file.absolute(), root)))


def _files_below(directory: Path) -> Iterator[Path]:
    for entry in directory.iterdir():
        if entry.name.startswith(("_", ".")):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files_below(entry)
        elif entry.is_file() and entry.name.endswith(".parquet"):
            yield entry


def read_table(paths: PathLike | Sequence[PathLike]) -> dict[str, np.ndarray]:
    """Return every column as one numpy array; index r holds row number r of the dataset.

    Dates and timestamps are the int64 that the file holds: days since 1970, or units of the column's own
    resolution.
    """
    tables = [pq.ParquetFile(file).read() for file in canonical_files(paths)]
    table = pa.concat_tables(tables)
    return {name: _as_numpy(table.column(name)) for name in table.column_names}


def _as_numpy(column: pa.ChunkedArray) -> np.ndarray:
    if column.null_count:
        raise ValueError("the oracle knows no nulls yet")
    if pa.types.is_date32(column.type):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: np.ndarray = column.to_numpy()
    return values


def same_values(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> bool:
    """Return whether both hold the same columns in one order, equal in dtype, shape and bytes (NaN, -0.0)."""
    return list(left) == list(right) and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )


# -------------------------------------------------------------------------------------------------- intervals


def intervals_of(positions: Iterable[int]) -> list[Interval]:
    """Return the positions as sorted, disjoint, coalesced intervals."""
    found: list[Interval] = []
    for position in sorted(set(positions)):
        if found and found[-1][1] == position:
            found[-1] = (found[-1][0], position + 1)
        else:
            found.append((position, position + 1))
    return found


def positions_of(intervals: Iterable[Sequence[int]]) -> list[int]:
    """Return the positions that the intervals hold, ascending, each once, however the intervals overlap."""
    return sorted({position for start, end in intervals for position in range(start, end)})


def remaining(consumed: Iterable[Sequence[int]], total: int) -> list[Interval]:
    """Return the intervals of [0, total) that `consumed` does not hold."""
    return intervals_of(set(range(total)) - set(positions_of(consumed)))


def slice_intervals(
    intervals: Iterable[Sequence[int]], index: int, count: int, multiple_of: int = 1
) -> list[Interval]:
    """Return slice `index` of `count` of the intervals' rows.

    The T rows are counted along the intervals. Of their whole units of `multiple_of` rows, slice i begins at
    unit i * units // count; so every cut point is a multiple of `multiple_of`, and the last slice takes the
    rest.
    """
    if not 0 <= index < count or multiple_of < 1:
        raise ValueError(f"index {index} of {count} slices, multiple_of {multiple_of}")
    rows = positions_of(intervals)
    units = len(rows) // multiple_of

    def cut(i: int) -> int:
        return len(rows) if i == count else multiple_of * (i * units // count)

    return intervals_of(rows[cut(index) : cut(index + 1)])


# ------------------------------------------------------------------------------------------------- lanes (§4)


def slices_per_lane(left: Sequence[int], lanes: int, rows: int) -> int:
    """Return S = R div (L * c): how many slices of `rows` rows every lane gives."""
    return len(left) // (lanes * rows)


def lane_slices(left: Sequence[int], lane: int, lanes: int, rows: int) -> list[list[int]]:
    """Return the S slices of one lane; lane l is the remaining sequence's [l * S * c, (l + 1) * S * c)."""
    slices = slices_per_lane(left, lanes, rows)
    own = list(left[lane * slices * rows : (lane + 1) * slices * rows])
    return [own[i * rows : (i + 1) * rows] for i in range(slices)]


def tail_of(left: Sequence[int], lanes: int, rows: int) -> list[int]:
    """Return the R - L * S * c positions that no lane holds: the end of the remaining sequence."""
    return list(left[lanes * rows * slices_per_lane(left, lanes, rows) :])


def global_batches(left: Sequence[int], lanes: int, groups: int, rows: int) -> list[list[int]]:
    """Return every whole global batch that a cut of the positions `left` gives, in the order of delivery.

    Batch n of the first S * G is slice n div G of each lane in group n mod G, in lane order. After them come
    the whole global batches (c * L / G rows) of the tail, contiguous. A last part of one is `last_part`'s.
    """
    check_cut(lanes, groups, rows)
    slices = slices_per_lane(left, lanes, rows)
    by_lane = [lane_slices(left, lane, lanes, rows) for lane in range(lanes)]
    batches: list[list[int]] = []
    for n in range(slices * groups):
        batch: list[int] = []
        for lane in range(lanes):
            if lane % groups == n % groups:
                batch += by_lane[lane][n // groups]
        batches.append(batch)
    tail, size = tail_of(left, lanes, rows), rows * lanes // groups
    for i in range(len(tail) // size):
        batches.append(tail[i * size : (i + 1) * size])
    return batches


def rank_batches(
    left: Sequence[int], lanes: int, groups: int, rows: int, rank: int, world_size: int
) -> list[list[int]]:
    """Return the batches of one rank, from the lanes that it owns: [rank * L / W, (rank + 1) * L / W).

    Of each whole global batch of the tail it takes its contiguous share. `lanes=1` is time order: every rank
    reads the one lane, and takes its contiguous share of each of its slices.
    """
    check_cut(lanes, groups, rows)
    size = rows * lanes // groups // world_size

    def share(batch: list[int]) -> list[int]:
        return batch[rank * size : (rank + 1) * size]

    slices = slices_per_lane(left, lanes, rows)
    batches: list[list[int]] = []
    if lanes == 1:
        check_divides("world_size", world_size, "rows per global batch", rows)
        batches = [share(batch) for batch in lane_slices(left, 0, 1, rows)]
    else:
        check_divides("world_size * groups", world_size * groups, "lanes", lanes)
        own = range(rank * lanes // world_size, (rank + 1) * lanes // world_size)
        by_lane = {lane: lane_slices(left, lane, lanes, rows) for lane in own}
        for n in range(slices * groups):
            batch = []
            for lane in own:
                if lane % groups == n % groups:
                    batch += by_lane[lane][n // groups]
            batches.append(batch)
    tail = tail_of(left, lanes, rows)
    for i in range(len(tail) // (size * world_size)):
        batches.append(share(tail[i * size * world_size : (i + 1) * size * world_size]))
    return batches


def last_part(
    rest: Sequence[int], world_size: int, tail: str = "drop"
) -> tuple[list[list[int]] | None, list[int]]:
    """Return the last step that `rest` (less than a global batch) makes, a list a rank, and the rows dropped.

    No step is None. Only `tail="drop"` exists so far; `short` and `pad` have their place here.
    """
    if tail == "drop":
        return None, list(rest)
    raise NotImplementedError(f"tail={tail!r} for {world_size} ranks")


def replay(rows: int, consumed: Iterable[Sequence[int]], cuts: Iterable[Sequence[int]]) -> list[int]:
    """Return the positions of a pass over `rows` rows still to read: by doing all its batches again."""
    gone = set(positions_of(consumed))
    left = [position for position in range(rows) if position not in gone]
    for lanes, groups, rows_per_lane, done in cuts:
        batches = global_batches(left, lanes, groups, rows_per_lane)
        if done > len(batches):
            raise ValueError(f"{done} batches done in a cut that has {len(batches)}")
        gone = {position for batch in batches[:done] for position in batch}
        left = [position for position in left if position not in gone]
    return left


def check_cut(lanes: int, groups: int, rows: int) -> None:
    """Raise ValueError if these are no numbers of a cut."""
    if min(lanes, groups, rows) < 1:
        raise ValueError(f"lanes {lanes}, groups {groups}, rows {rows}: all must be positive")
    check_divides("groups", groups, "lanes", lanes)


def check_divides(name: str, divisor: int, of: str, number: int) -> None:
    """Raise ValueError that names both numbers if `divisor` does not divide `number`."""
    if number % divisor:
        raise ValueError(f"{name} = {divisor} does not divide {of} = {number}")


# ------------------------------------------------------------------------------------------------ cursor (§5)


def canonical(value: Mapping[str, Any]) -> str:
    """Return JSON text with sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def checked(fields: Mapping[str, Any]) -> str:
    """Return the canonical text of a cursor: its fields and `check`, the CRC-32 of the text without it."""
    without = {key: value for key, value in fields.items() if key != "check"}
    return canonical({**without, "check": f"{zlib.crc32(canonical(without).encode('ascii')):08x}"})


def offsets_consumed(offsets: Mapping[str, Any], rows: int) -> tuple[int, list[Interval]]:
    """Return (passes done, consumed intervals) that a state `{"path:start": last_row}` says of `rows` rows.

    Both numbers are row numbers over the whole dataset: a slice began at `start`, and `last_row` of it was
    the last row consumed, `start - 1` if none was. Whatever no slice covers remains. A fully consumed state
    is a finished pass. A key without ':' says nothing, but for the reserved `__epochs_completed__`.
    """
    epoch = offsets.get("__epochs_completed__", 0)
    if type(epoch) is not int or epoch < 0:
        raise ValueError(f"__epochs_completed__: {epoch!r} is no number of passes")
    consumed: list[Interval] = []
    for key, last in offsets.items():
        if ":" not in key:
            continue
        digits = key.rpartition(":")[2]
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError(f"{key!r}: {digits!r} is no row number")
        start = int(digits)
        if type(last) is not int or not 0 <= start <= last + 1 <= rows:
            raise ValueError(f"{key!r}: {last!r} is no row from {start - 1} to {rows - 1}")
        consumed.append((start, last + 1))
    found = intervals_of(positions_of(consumed))
    return (epoch + 1, []) if rows and found == [(0, rows)] else (epoch, found)


class OracleJob:
    """A training job of `world_size` ranks in lockstep, in one process, that only hands out positions.

    It counts. `step()` is one global batch on every rank, `state()` the cursor of the last one delivered,
    `load()` what a fresh job does with such a cursor. `dropped` holds what the tail policy dropped of each
    pass ended here.
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
        self.rows, self.world_size, self.batch_size = rows, world_size, batch_size
        self.fingerprint, self.tail = fingerprint, tail
        self.cut = [lanes, groups, batch_size * world_size * groups // lanes]
        check_cut(*self.cut)
        if rows < world_size * batch_size:
            raise ValueError(f"{rows} rows give no batch of {world_size} ranks x {batch_size} rows")
        self.first_epoch = self.epoch = 0
        self.dropped: dict[int, list[int]] = {}
        self._begin([], [])

    def _begin(self, consumed: list[list[int]], cuts: list[Cut]) -> None:
        """Lay out what is left of the pass: the last cut goes on if it is ours, else the rest is cut anew."""
        if not cuts or cuts[-1][:3] != self.cut:
            cuts = [*cuts, [*self.cut, 0]]
        self.consumed, self.cuts = consumed, cuts
        left = replay(self.rows, consumed, cuts[:-1])
        lanes, groups, rows = self.cut
        by_rank = [
            rank_batches(left, lanes, groups, rows, rank, self.world_size) for rank in range(self.world_size)
        ]
        self._steps = [list(step) for step in zip(*by_rank, strict=True)]
        delivered = {position for step in self._steps for batch in step for position in batch}
        rest = [position for position in left if position not in delivered]
        last, self._dropped = last_part(rest, self.world_size, self.tail)
        if last is not None:
            self._steps.append(last)
        if self.cuts[-1][3] > len(self._steps):
            raise ValueError(f"{self.cuts[-1][3]} batches done in a cut that has {len(self._steps)}")

    @property
    def batches_left(self) -> int:
        """The batches that every rank still gets in the present pass."""
        return len(self._steps) - self.cuts[-1][3]

    @property
    def steps_done(self) -> int:
        """The batches of the present pass that every rank got, over all its cuts."""
        return sum(cut[3] for cut in self.cuts)

    @property
    def epochs_done(self) -> int:
        """The passes done by this job."""
        return self.epoch - self.first_epoch

    def step(self) -> list[list[int]] | None:
        """Return the next batch of every rank, or None if the pass ended without one: the rest gives none.

        After the last batch of a pass the job is at the start of the next pass.
        """
        batch = None
        if self.batches_left > 0:
            batch = self._steps[self.cuts[-1][3]]
            self.cuts[-1][3] += 1
        if self.batches_left == 0:
            self.dropped[self.epoch] = self._dropped
            self.epoch += 1
            self._begin([], [])
        return batch

    def run_pass(self) -> list[list[list[int]]]:
        """Return the steps from here to the end of the present pass: what one `for batch in loader` sees."""
        epoch, steps = self.epoch, []
        while self.epoch == epoch:
            batch = self.step()
            if batch is not None:
                steps.append(batch)
        return steps

    def state(self) -> str:
        """Return the cursor as canonical JSON text. A cut with nothing done is not in it."""
        return checked(
            {
                "fastresume": 1,
                "dataset": {"fingerprint": self.fingerprint, "rows": self.rows},
                "order": {"kind": "sequential"},
                "selection": None,
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
