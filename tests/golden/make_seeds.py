"""Writes seeds.json: golden vectors of what transforms draw from, by the oracle alone.

A job that resumes under a later release draws the same numbers, so entries are added here and never changed.

    python tests/golden/make_seeds.py

The file is one JSON object. Seeds are strings: of rows, int64 in decimal; of batches, 64-bit words of 16 hex
digits.

    about    this description, for readers of the file
    rows     [{"seed", "epoch", "draw": integers, "positions": [integer, ...], "seeds": [decimal, ...]}]
    batches  [{"seed", "epoch", "step", "rank", "draw": integers, "batch_seed": hex}]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from golden.entries import as_text  # noqa: E402  (so is it)
from support import oracle  # noqa: E402  (it is found by the line above)

ABOUT = (__doc__ or "").splitlines()

LARGEST = 2**53 - 1

POSITIONS = [0, 1, 2, 3, 4095, 4096, 2**31, 2**32 - 1, 2**32, 10**12, LARGEST]

PLACES = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (17, 2, 0), (2, 17, 3), (LARGEST, LARGEST, LARGEST)]
"""Seed, epoch, draw."""

STEPS = [(0, 0), (0, 1), (1, 0), (12345, 7), (LARGEST, 4095)]
"""Step, rank."""


def golden() -> dict[str, list[Any]]:
    """Return what the file holds."""
    rows = [
        {
            "seed": seed,
            "epoch": epoch,
            "draw": draw,
            "positions": POSITIONS,
            "seeds": [str(oracle.row_seed(seed, epoch, position, draw)) for position in POSITIONS],
        }
        for seed, epoch, draw in PLACES
    ]
    batches = [
        {
            "seed": seed,
            "epoch": epoch,
            "step": step,
            "rank": rank,
            "draw": draw,
            "batch_seed": f"{oracle.batch_seed(seed, epoch, step, rank, draw):016x}",
        }
        for seed, epoch, draw in PLACES
        for step, rank in STEPS
    ]
    return {"about": ABOUT, "rows": rows, "batches": batches}


if __name__ == "__main__":
    (HERE / "seeds.json").write_text(as_text(golden()))
