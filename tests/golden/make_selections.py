"""Writes selections.json: golden vectors of splits and of selections' hashes, by the oracle alone.

Both are a part of what a job is resumed by, so entries are added here and never changed.

    python tests/golden/make_selections.py

The file is one JSON object; intervals are [start, end) pairs.

    about   this description, for readers of the file
    splits  [{"seed", "first": integers, "start", "stop": numbers, "parts": [integer, integer],
              "rows": [interval, ...]}]:
            the rows of that share among the 200 that begin with row `first`; `parts` are start and stop,
            counted in parts of 2^53 and rounded up
    hashes  [{"rows": [interval, ...], "hash": 32 hex digits}]: the hash of the selection of these rows
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from golden.entries import as_text  # noqa: E402  (so is it)
from support import oracle  # noqa: E402  (it is found by the line above)

ABOUT = (__doc__ or "").splitlines()

COUNT = 200

SPLITS: list[tuple[int, int, float, float]] = [
    (0, 0, 0.0, 0.5),
    (0, 0, 0.5, 1.0),
    (1, 0, 0.0, 0.9),
    (1, 0, 0.9, 1.0),
    (1, 0, 0.9, 0.95),
    (17, 0, 0.1, 0.3),
    (2**53 - 1, 0, 0.25, 0.75),
    (3, 2**40, 0.0, 1 / 3),
    (3, 2**53 - COUNT - 1, 1 / 3, 1.0),
    (5, 0, 0.0, 0.0),
    (5, 0, 0.0, 1.0),
    (5, 0, 5e-324, 1.0),
]

HASHES: list[list[tuple[int, int]]] = [
    [],
    [(0, 1)],
    [(1, 2)],
    [(0, 2)],
    [(0, 1), (2, 3)],
    [(5, 9), (12, 40), (41, 42)],
    [(2**52, 2**53 - 1)],
    [(3 * i, 3 * i + 1) for i in range(100)],
]


def split(seed: int, first: int, start: float, stop: float) -> dict[str, Any]:
    """The entry of a share."""
    rows = [row for row in range(first, first + COUNT) if oracle.is_in_split(row, start, stop, seed)]
    parts = [math.ceil(Fraction(bound) * 2**53) for bound in (start, stop)]
    named = {"seed": seed, "first": first, "start": start, "stop": stop, "parts": parts}
    return {**named, "rows": oracle.intervals_of(rows)}


def hashed(intervals: list[tuple[int, int]]) -> dict[str, Any]:
    """The entry of a hash."""
    return {"rows": intervals, "hash": oracle.hash_of_intervals(intervals)}


def golden() -> dict[str, Any]:
    """The object in the file."""
    return {
        "about": ABOUT,
        "splits": [split(*entry) for entry in SPLITS],
        "hashes": [hashed(entry) for entry in HASHES],
    }


if __name__ == "__main__":
    (HERE / "selections.json").write_text(as_text(golden()))
