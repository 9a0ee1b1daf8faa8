"""Writes orders.json: golden vectors of the shuffled order, by the oracle alone. Rust and Python read them.

The order is a part of the cursor's format, so entries are added here and never changed.

    python tests/golden/make_orders.py

The file is one JSON object. Integers are below 2^53; 64-bit words are strings of 16 hex digits, CRC-32 of 8.

    about         this description, for readers of the file
    keys          [{"words": [integer, ...], "key": hex}]: key(words)
    permutations  [{"n": integer, "key": hex, "at": [[x, value], ...], "crc32": hex or null}]:
                  Permutation(n, key) sends x to value; crc32 is that of all n values
    orders        [{"name": string, "groups": [[rows, times], ...], "seed", "epoch", "block_rows",
                    "window_rows", "rows": integers, "blocks": integer, "windows": integer,
                    "first": [row, ...], "last": [row, ...], "at": [[position, row], ...],
                    "crc32": hex or null}]:
                  the dataset has row groups of these rows, in run-length form; the order of that pass has so
                  many rows, blocks and windows; first and last are the rows at its first and last positions
                  (16 of each, or all there are); crc32 is that of the rows at all positions

A CRC-32 (zlib's) is that of the numbers as little-endian 64-bit words one after another, and null where there
are too many of them.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from golden.entries import as_text  # noqa: E402  (so is it)
from support import oracle  # noqa: E402  (it is found by the line above)

ABOUT = (__doc__ or "").splitlines()

LARGEST = 2**53 - 1

WORDS: list[list[int]] = [
    [],
    [0],
    [1],
    [0, 0],
    [0, 0, 0],
    [17, 2, 0],
    [17, 2, 1],
    [2, 17, 1],
    [LARGEST, 0, 0],
    [0, LARGEST, 12345],
    [LARGEST, LARGEST, LARGEST],
    list(range(10)),
]

PERMUTED = [
    *range(1, 19),
    *(31, 32, 33, 127, 128, 129, 255, 256, 257, 1009, 1023, 1024, 1025, 4095, 4096, 4097, 10007),
    *(2**16 - 1, 2**16, 2**16 + 1, 2**31 - 1, 2**32 - 1, 2**32, 2**32 + 1, 10**12, 2**40, 2**48 + 7),
    *(2**52 + 1, LARGEST - 1, LARGEST),
]

Layout = list[tuple[int, int]]

ORDERS: list[tuple[str, Layout, int, int, int, int]] = [
    # name, [(rows, times)] of the row groups, seed, epoch, block_rows, window_rows
    ("no row group", [], 0, 0, 1, 1),
    ("row groups without rows", [(0, 5)], 3, 1, 4, 8),
    ("one row", [(1, 1)], 0, 0, 1, 1),
    ("one row, a large block", [(1, 1)], 17, 9, 131072, 524288),
    ("two rows", [(2, 1)], 0, 0, 1, 2),
    ("two rows, another seed", [(2, 1)], 1, 0, 1, 2),
    ("a prime", [(97, 1)], 0, 0, 10, 30),
    ("a prime, the second pass", [(97, 1)], 0, 1, 10, 30),
    ("a prime, another seed", [(97, 1)], 1, 0, 10, 30),
    ("a prime, seed and epoch exchanged", [(97, 1)], 0, 2, 10, 30),
    ("a prime, the largest seed", [(97, 1)], LARGEST, 0, 10, 30),
    ("a prime, the largest epoch", [(97, 1)], 5, LARGEST, 10, 30),
    ("a prime, windows of one block", [(97, 1)], 2, 3, 10, 19),
    ("a prime, one window", [(97, 1)], 2, 3, 10, 1000),
    ("a prime, one block", [(97, 1)], 2, 3, 97, 97),
    ("a prime, blocks of one row", [(97, 1)], 2, 3, 1, 8),
    ("a prime, blocks and windows of one row", [(97, 1)], 2, 3, 1, 1),
    ("2^8 - 1 rows", [(255, 1)], 17, 0, 16, 64),
    ("2^8 rows", [(256, 1)], 17, 0, 16, 64),
    ("2^8 + 1 rows", [(257, 1)], 17, 0, 16, 64),
    ("row groups of one block each", [(10, 12)], 17, 2, 10, 40),
    ("row groups of two blocks each", [(11, 12)], 17, 2, 10, 40),
    ("small row groups, several to a block", [(3, 50)], 17, 2, 10, 40),
    (
        "row groups without rows everywhere",
        [(0, 3), (7, 2), (0, 1), (9, 1), (0, 2), (4, 3), (0, 1)],
        6,
        4,
        8,
        20,
    ),
    (
        "row groups of all sizes",
        [(1, 3), (100, 1), (2, 2), (0, 1), (5, 4), (31, 1), (30, 2), (29, 1), (61, 1), (1, 1)],
        17,
        2,
        30,
        100,
    ),
    ("windows that do not divide the blocks", [(10, 23)], 8, 1, 10, 70),
    ("10^5 row groups of one row, joined", [(1, 100_000)], 17, 2, 1000, 5000),
    ("row groups as people have them", [(122_880, 1), (100_000, 2), (57, 1)], 17, 2, 8192, 65_536),
    ("10,000 row groups of a million rows", [(1_000_000, 10_000)], 17, 2, 131_072, 524_288),
    (
        "10,000 row groups of a million rows, one a block",
        [(1_000_000, 10_000)],
        LARGEST,
        0,
        1_000_000,
        16_000_000,
    ),
    ("one row group of 2^40 rows", [(2**40, 1)], 0, 7, 2**26, 2**30),
    ("one row group of 2^40 rows, one block", [(2**40, 1)], 0, 7, LARGEST, LARGEST),
    ("as many rows as can be", [(2**50, 7), (2**50 - 1, 1)], 4, 1, 2**45, 2**47),
]

FEW = 300_000
"""An order of no more rows than this has a CRC-32 of all of them."""


def crc32(numbers: Iterable[int]) -> str:
    """Return the CRC-32 of some numbers as little-endian 64-bit words."""
    check = 0
    for number in numbers:
        check = zlib.crc32(struct.pack("<Q", number), check)
    return f"{check:08x}"


def some(n: int) -> list[int]:
    """Return a few numbers of [0, n), from its start to its end."""
    if n <= 8:
        return list(range(n))
    return sorted({0, 1, 2, n // 7, n // 3, n // 2, n - n // 5, n - 2, n - 1})


def permutations() -> list[dict[str, Any]]:
    """Return the entries of bare permutations; each n with a key of its own."""
    entries = []
    for n in PERMUTED:
        word = oracle.key([n])
        permutation = oracle.Permutation(n, word)
        entries.append(
            {
                "n": n,
                "key": f"{word:016x}",
                "at": [[x, permutation(x)] for x in some(n)],
                "crc32": crc32(map(permutation, range(n))) if n <= 5000 else None,
            }
        )
    return entries


def orders() -> list[dict[str, Any]]:
    """Return the entries of whole orders."""
    entries = []
    for name, groups, seed, epoch, block_rows, window_rows in ORDERS:
        group_rows = [rows for rows, times in groups for _ in range(times)]
        order = oracle.Shuffled(group_rows, seed, epoch, block_rows, window_rows)
        n = order.num_rows
        rows = order.rows() if n <= FEW else None
        row = order.row if rows is None else rows.__getitem__
        entries.append(
            {
                "name": name,
                "groups": groups,
                "seed": seed,
                "epoch": epoch,
                "block_rows": block_rows,
                "window_rows": window_rows,
                "rows": n,
                "blocks": len(order.blocks),
                "windows": len(order.windows),
                "first": [row(p) for p in range(min(n, 16))],
                "last": [row(p) for p in range(max(0, n - 16), n)],
                "at": [[p, row(p)] for p in (() if n <= 32 else some(n))],
                "crc32": None if rows is None else crc32(rows),
            }
        )
    return entries


def golden() -> dict[str, list[Any]]:
    """Return what the file holds."""
    return {
        "about": ABOUT,
        "keys": [{"words": words, "key": f"{oracle.key(words):016x}"} for words in WORDS],
        "permutations": permutations(),
        "orders": orders(),
    }


if __name__ == "__main__":
    (HERE / "orders.json").write_text(as_text(golden()))
