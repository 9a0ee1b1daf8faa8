"""The shuffled order (§4), and the seeds of transforms."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable

from support.oracle.intervals import Interval

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
