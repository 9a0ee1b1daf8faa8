"""The contract of fastresume as slow, obvious Python: what the fast reader must do, to be read and believed.

Nothing here imports fastresume, and nothing here is clever. Rows go through pyarrow; positions are plain
integers in plain lists, walked batch by batch. docs/DESIGN.md is the text; the sections named below (§4, §5)
are its sections.

Positions are rows where the order is sequential and all rows are selected; a shuffled order and a selection
are the sections of these names.
"""

from __future__ import annotations

import functools
import json
import math
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

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
    if pa.types.is_date32(column.type) or pa.types.is_time32(column.type):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(column.type):
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


# ---------------------------------------------------------------------------------------- shuffled order (§4)

WORD = 2**64
GAMMA = 0x9E3779B97F4A7C15
M1 = 0xBF58476D1CE4E5B9
M2 = 0x94D049BB133111EB
ROUNDS = 6


def mix(z: int) -> int:
    """Return SplitMix64's finalizer (Stafford's variant 13) of a 64-bit word."""
    z ^= z >> 30
    z = z * M1 % WORD
    z ^= z >> 27
    z = z * M2 % WORD
    return z ^ z >> 31


def key(words: Iterable[int]) -> int:
    """Return a 64-bit hash of some 64-bit words."""
    h = 0
    for word in words:
        h = mix(((h ^ word) + GAMMA) % WORD)
    return h


class Permutation:
    """A permutation of [0, n) under a key: `permutation(x)` says where x goes.

    A Feistel network of six rounds permutes [0, a * b), which is hardly more than n; what it sends beyond n
    is sent on until it is below n (Black and Rogaway 2002).
    """

    def __init__(self, n: int, key: int) -> None:
        if n < 1:
            raise ValueError(f"a permutation of {n} numbers")
        self.n = n
        self.a = max(16, math.isqrt(n - 1) + 1)  # the square root, rounded up
        self.b = max(16, -(-n // self.a))
        self.keys = [mix((key + (i + 1) * GAMMA) % WORD) for i in range(ROUNDS)]

    def once(self, x: int) -> int:
        """Return where the Feistel network sends x of [0, a * b)."""
        left, right = divmod(x, self.b)
        for i, round_key in enumerate(self.keys):
            if i % 2 == 0:
                left = (left + self.scaled(self.scramble(right ^ round_key), self.a)) % self.a
            else:
                right = (right + self.scaled(self.scramble(left ^ round_key), self.b)) % self.b
        return left * self.b + right

    @staticmethod
    def scramble(x: int) -> int:
        """Return the round function of a 64-bit word."""
        z = x * M1 % WORD
        return (z ^ z >> 32) * M2 % WORD

    @staticmethod
    def scaled(z: int, m: int) -> int:
        """Return a number of [0, m) from a 64-bit word, by its high bits."""
        return z * m // WORD

    def __call__(self, x: int) -> int:
        if not 0 <= x < self.n:
            raise ValueError(f"{x} is not in [0, {self.n})")
        x = self.once(x)
        while x >= self.n:
            x = self.once(x)
        return x


def blocks_of(group_rows: Iterable[int], block_rows: int) -> list[Interval]:
    """Return the blocks of a dataset with these row groups, as intervals of row numbers.

    A row group larger than `block_rows` is divided evenly; smaller ones beside each other are joined while
    they fit into one block. Groups without rows are not there at all.
    """
    blocks: list[Interval] = []
    start = end = 0  # of the block that is being joined
    for rows in group_rows:
        if rows == 0:
            continue
        if start < end and (end - start) + rows > block_rows:
            blocks.append((start, end))
            start = end
        if rows > block_rows:
            parts = -(-rows // block_rows)
            blocks += [(end + rows * i // parts, end + rows * (i + 1) // parts) for i in range(parts)]
            start = end + rows
        end += rows
    return [*blocks, (start, end)] if start < end else blocks


def windows_of(num_blocks: int, block_rows: int, window_rows: int) -> list[Interval]:
    """Return the windows, as intervals of places in the pass's order of blocks."""
    if not 1 <= block_rows <= window_rows:
        raise ValueError(f"block_rows {block_rows}, window_rows {window_rows}")
    per = window_rows // block_rows
    count = -(-num_blocks // per)
    return [(v * num_blocks // count, (v + 1) * num_blocks // count) for v in range(count)]


class Shuffled:
    """The shuffled order of one pass: `row(position)` is the row at a position, `rows()` are all of them."""

    def __init__(
        self, group_rows: Iterable[int], seed: int, epoch: int, block_rows: int, window_rows: int
    ) -> None:
        self.seed, self.epoch = seed, epoch
        self.blocks = blocks_of(group_rows, block_rows)
        places = [self._block_at(j) for j in range(len(self.blocks))]
        cuts = windows_of(len(self.blocks), block_rows, window_rows)
        self.windows = [places[first:end] for first, end in cuts]
        self.num_rows = sum(end - start for start, end in self.blocks)

    def _block_at(self, place: int) -> Interval:
        return self.blocks[Permutation(len(self.blocks), key([self.seed, self.epoch, 0]))(place)]

    def row(self, position: int) -> int:
        """Return the row at a position."""
        offset = position
        for v, window in enumerate(self.windows):
            size = sum(end - start for start, end in window)
            if offset < size:
                return self._row_in(window, Permutation(size, key([self.seed, self.epoch, v + 1]))(offset))
            offset -= size
        raise IndexError(f"position {position} of {self.num_rows}")

    @staticmethod
    def _row_in(window: Iterable[Interval], index: int) -> int:
        """Return row `index` of the blocks of a window laid one after another."""
        for start, end in window:
            if index < end - start:
                return start + index
            index -= end - start
        raise IndexError(index)

    def rows(self) -> list[int]:
        """Return the rows at all positions."""
        rows: list[int] = []
        for v, window in enumerate(self.windows):
            laid = [row for start, end in window for row in range(start, end)]
            permutation = Permutation(len(laid), key([self.seed, self.epoch, v + 1]))
            rows += [laid[permutation(offset)] for offset in range(len(laid))]
        return rows


@functools.lru_cache(maxsize=64)
def order_rows(
    group_rows: tuple[int, ...], seed: int, epoch: int, block_rows: int, window_rows: int
) -> tuple[int, ...]:
    """Return the row at each position of a pass in shuffled order."""
    return tuple(Shuffled(group_rows, seed, epoch, block_rows, window_rows).rows())


def group_rows_of(paths: PathLike | Sequence[PathLike]) -> tuple[int, ...]:
    """Return the rows of every row group of a dataset, in its order."""
    rows: list[int] = []
    for file in canonical_files(paths):
        metadata = pq.read_metadata(file)
        rows += [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    return tuple(rows)


# --------------------------------------------------------------------------------------------- selection (§4)

SPLIT = 0x73706C69742031
"""The letters of "split 1"."""


def is_in_split(row: int, start: float, stop: float, seed: int) -> bool:
    """Return whether the hash of a row number lies in [start, stop), as a fraction of 1."""
    return Fraction(start) <= Fraction(key([SPLIT, seed, row]) >> 11, 2**53) < Fraction(stop)


def selection_hash(rows: Iterable[int]) -> str:
    """Return the hash of a set of row numbers."""
    return hash_of_intervals(intervals_of(rows))


def hash_of_intervals(intervals: Sequence[Interval]) -> str:
    """Return the hash of the row numbers that sorted, disjoint, coalesced intervals hold."""
    return "".join(f"{sum(key([half, *ends]) for ends in intervals) % WORD:016x}" for half in (0, 1))


def truth(condition: Sequence[Any], row: Mapping[str, Any]) -> bool | None:
    """Return whether a condition is true of a row; None where a null leaves it open.

    A condition is (op, name, value) for the six comparisons, ("in", name, values), ("null", name),
    ("not", c), ("and", c, d) or ("or", c, d). A null of the row is None.
    """
    op, *parts = condition
    if op == "not":
        inner = truth(parts[0], row)
        return None if inner is None else not inner
    if op in ("and", "or"):
        found = {truth(part, row) for part in parts}
        decides = op == "or"
        return decides if decides in found else None if None in found else not decides
    value = row[parts[0]]
    if op == "null":
        return value is None
    if value is None:
        return None
    if op == "in":
        return any(value == other for other in parts[1])
    compared = {
        "==": value == parts[1],
        "!=": value != parts[1],
        "<": value < parts[1],
        "<=": value <= parts[1],
        ">": value > parts[1],
        ">=": value >= parts[1],
    }
    return bool(compared[op])


def selected_group_rows(group_rows: Iterable[int], rows: Sequence[int]) -> tuple[int, ...]:
    """Return how many of the rows each row group has."""
    found, start = [], 0
    for count in group_rows:
        found.append(sum(start <= row < start + count for row in rows))
        start += count
    return tuple(found)


# ----------------------------------------------------------------------------------- seeds of transforms (§4)


def row_seed(seed: int, epoch: int, position: int, draw: int = 0) -> int:
    """Return what a transform draws from for the row at a position of a pass: an int64."""
    word = key([tag("rowseed1"), seed, epoch, draw, position])
    return word - WORD if word >= WORD // 2 else word


def batch_seed(seed: int, epoch: int, step: int, rank: int, draw: int = 0) -> int:
    """Return the seed of the generator of a rank's batch: a 64-bit word."""
    return key([tag("genseed1"), seed, epoch, draw, step, rank])


def tag(name: str) -> int:
    """Return the eight letters of a name as a 64-bit word, the first one highest."""
    letters = name.encode("ascii")
    if len(letters) != 8:
        raise ValueError(f"{name!r} has {len(letters)} letters")
    return sum(letter * 256 ** (7 - i) for i, letter in enumerate(letters))


# --------------------------------------------------------------- casts, lengths and buckets (docs/SHAPING.md)

FLOATS = {"float16": (11, 15), "bfloat16": (8, 127), "float32": (24, 127), "float64": (53, 1023)}
"""Of each type, the digits of a number, and the exponent of the largest ones."""


def cast(value: bool | float, to: str) -> bytes | None:
    """Return the bytes of a number in another type, or None if it does not fit; of any NaN, those of NaN."""
    is_float, is_finite = isinstance(value, float), math.isfinite(value)
    if to not in FLOATS:
        least, largest = bounds_of(to)
        if not is_finite or value != int(value) or not least <= value <= largest:
            return None
        return int(value).to_bytes(1 if to == "bool" else np.dtype(to).itemsize, "little", signed=least < 0)
    if not is_finite:
        return float_bytes(float(value), to)
    nearest = rounded(Fraction(value), *FLOATS[to])
    if nearest is None or (nearest != value and not is_float):
        return None
    # Zeros, and what is so small that it becomes one, keep their sign.
    return float_bytes(math.copysign(float(nearest), value), to)


def bounds_of(to: str) -> tuple[int, int]:
    """Return the least and the largest number of a type of integers; a truth value is 0 or 1."""
    return (0, 1) if to == "bool" else (int(np.iinfo(to).min), int(np.iinfo(to).max))


def rounded(value: Fraction, digits: int, largest_exponent: int) -> Fraction | None:
    """Return the nearest float, of two the one with an even last digit; None beyond the largest one."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    if abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    # The smallest numbers are as far apart as those of the least exponent.
    exponent = max(exponent, 1 - largest_exponent)
    unit = Fraction(2) ** (exponent - digits + 1)
    nearest = round(value / unit) * unit  # Python rounds halves to even
    return nearest if abs(nearest) < Fraction(2) ** (largest_exponent + 1) else None


def float_bytes(value: float, to: str) -> bytes:
    """Return the bytes of a number that the type holds; of any NaN, those of the one without a sign."""
    value = math.nan if math.isnan(value) else value
    if to == "bfloat16":
        return struct.pack("<f", value)[2:]
    return struct.pack({"float16": "<e", "float32": "<f", "float64": "<d"}[to], value)


def padded(
    row: Sequence[bytes], size: int, empty: bytes, side: str = "right", keep: str | None = None
) -> tuple[list[bytes], int] | None:
    """Return a row of so many elements, and how many of these are its own; None of one that is too long.

    What is missing is `empty`, on that side; of a longer row the end is kept that `keep` names.
    """
    own = list(row)
    while len(own) > size:
        if keep is None:
            return None
        own.pop(-1 if keep == "head" else 0)
    whole = list(own)
    while len(whole) < size:
        whole.insert(len(whole) if side == "right" else 0, empty)
    return whole, len(own)


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return XXH64 of some bytes, as its specification says it: a 64-bit word."""
    one, two, three, four, five = XXH64_PRIMES

    def rotated(word: int, by: int) -> int:
        return (word << by | word >> (64 - by)) % WORD

    def turned(lane: int, word: int) -> int:
        return rotated((lane + word * two) % WORD, 31) * one % WORD

    def word_at(place: int, size: int) -> int:
        return int.from_bytes(data[place : place + size], "little")

    place = 0
    if len(data) >= 32:
        lanes = [(seed + start) % WORD for start in (one + two, two, 0, -one)]
        while place + 32 <= len(data):
            lanes = [turned(lane, word_at(place + 8 * i, 8)) for i, lane in enumerate(lanes)]
            place += 32
        found = sum(rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) % WORD
        for lane in lanes:
            found = ((found ^ turned(0, lane)) * one + four) % WORD
    else:
        found = (seed + five) % WORD
    found = (found + len(data)) % WORD
    while place + 8 <= len(data):
        found = (rotated(found ^ turned(0, word_at(place, 8)), 27) * one + four) % WORD
        place += 8
    if place + 4 <= len(data):
        found = (rotated(found ^ word_at(place, 4) * one % WORD, 23) * two + three) % WORD
        place += 4
    while place < len(data):
        found = rotated(found ^ data[place] * five % WORD, 11) * one % WORD
        place += 1
    found = (found ^ found >> 33) * two % WORD
    found = (found ^ found >> 29) * three % WORD
    return found ^ found >> 32


XXH64_PRIMES = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)


def bucket(value: bytes | int, buckets: int, seed: int = 0) -> int:
    """Return the bucket of a text's bytes, or of an integer: version 1."""
    data = value if isinstance(value, bytes) else (value % WORD).to_bytes(8, "little")
    return xxh64(data, seed) * buckets // WORD


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


class LastPart(NamedTuple):
    """What the tail policy makes of less than a global batch.

    `step` is the last step, a list a rank, None if there is none; `valid` says of each of its rows whether it
    counts, which one that repeats another does not; `dropped` are the positions that no rank gets.
    """

    step: list[list[int]] | None
    valid: list[list[bool]] | None
    dropped: list[int]


def last_part(rest: Sequence[int], world_size: int, batch_size: int, tail: str = "drop") -> LastPart:
    """Return what becomes of `rest`: less than a global batch, all that is left after the whole ones."""
    r, size = len(rest), world_size * batch_size
    if r >= size:
        raise ValueError(f"a rest of {r} rows is a whole global batch of {size}")
    if tail == "short" and r >= world_size:
        step = [list(rest[k * r // world_size : (k + 1) * r // world_size]) for k in range(world_size)]
        return LastPart(step, [[True] * len(part) for part in step], [])
    if tail == "pad" and r > 0:
        ranks = [range(k * batch_size, (k + 1) * batch_size) for k in range(world_size)]
        step = [[rest[i % r] for i in part] for part in ranks]
        return LastPart(step, [[i < r for i in part] for part in ranks], [])
    if tail not in ("drop", "short", "pad"):
        raise ValueError(f"tail={tail!r}")
    return LastPart(None, None, list(rest))


def left_after(left: Sequence[int], batches: Iterable[Sequence[int]]) -> list[int]:
    """Return the positions of `left` that are in none of the batches."""
    gone = {position for batch in batches for position in batch}
    return [position for position in left if position not in gone]


def replay(rows: int, consumed: Iterable[Sequence[int]], cuts: Iterable[Sequence[int]]) -> list[int]:
    """Return the positions of a pass over `rows` rows still to read: by doing all its batches again."""
    gone = set(positions_of(consumed))
    left = [position for position in range(rows) if position not in gone]
    for lanes, groups, rows_per_lane, done in cuts:
        batches = global_batches(left, lanes, groups, rows_per_lane)
        if done > len(batches):
            raise ValueError(f"{done} batches done in a cut that has {len(batches)}")
        left = left_after(left, batches[:done])
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


def merge(states: Sequence[str]) -> str:
    """Return the state of a job whose ranks were out of step: `states[r]` is that of rank r.

    From each is taken what that rank itself was given in the last cut, up to its own `done`. States that do
    not belong together are a ValueError.
    """
    if not states:
        raise ValueError("no states to merge")
    fields = [json.loads(state) for state in states]
    for key in ("fastresume", "dataset", "order", "selection", "first_epoch", "epoch", "consumed"):
        for other in fields:
            if other[key] != fields[0][key]:
                raise ValueError(f"{key} differs: {fields[0][key]!r} and {other[key]!r}")
    if all(other == fields[0] for other in fields):
        return states[0]
    longest = max((other["cuts"] for other in fields), key=len)
    *before, (lanes, groups, rows, _) = longest
    dones = []
    for other in fields:
        *others_before, last = other["cuts"] if len(other["cuts"]) == len(longest) else [*other["cuts"], None]
        if others_before != before or (last is not None and last[:3] != [lanes, groups, rows]):
            raise ValueError(f"cuts differ: {longest!r} and {other['cuts']!r}")
        dones.append(0 if last is None else last[3])
    total = fields[0]["dataset"]["rows"]
    left = replay(total, fields[0]["consumed"], before)
    gone = set(range(total)) - set(left)
    for rank, done in enumerate(dones):
        for batch in rank_batches(left, lanes, groups, rows, rank, len(states))[:done]:
            gone.update(batch)
    epoch, consumed = fields[0]["epoch"], intervals_of(gone)
    if consumed == [(0, total)]:
        epoch, consumed = epoch + 1, []
    return checked({**fields[0], "epoch": epoch, "consumed": consumed, "cuts": []})


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
            self.cuts[-1][3] += 1
        if self.batches_left == 0:
            self.dropped[self.epoch] = self._rows_at(self._last.dropped)
            marks = self._last.valid or [[]] * self.world_size
            self.padded[self.epoch] = [rank.count(False) for rank in marks]
            self.epoch += 1
            self._begin([], [])
        return step

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
        return checked(
            {
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
