"""Writes hashes.json: golden vectors of the buckets that `hash=` puts values into, by the oracle alone.

A model that was trained on buckets needs the same ones under every later release, so entries are added here
and never changed.

    python tests/golden/make_hashes.py

The file is one JSON object. Numbers of 64 bits are strings, in decimal.

    about     this description, for readers of the file
    version   [1], that of the hash: docs/reference/shaping.md defines it
    texts     [{"buckets", "seed": decimal, "hex": the bytes, "bucket": decimal}]
    integers  [{"buckets", "seed": decimal, "integers": [decimal, ...], "bucket_of_each": [decimal, ...]}]
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

CHOICES = [(1_000_003, 0), (10, 0), (1, 0), (2**20, 7), (2**63, 0), (1_000_003, 2**64 - 1)]
"""Buckets, seed."""

WORDS = ["", "a", "abc", "user-12345", "é", "日本語", "Nobody inspects the spammish repetition"]

TEXTS = [
    *(word.encode() for word in WORDS),
    # Around the lengths at which the hash takes bytes in other steps.
    *(bytes(range(length)) for length in (1, 3, 4, 5, 7, 8, 9, 12, 31, 32, 33, 63, 64, 65, 200)),
]

INTEGERS = [0, 1, -1, 42, 127, -128, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63), 2**64 - 1]


def golden() -> dict[str, list[Any]]:
    """Return what the file holds."""
    texts = [
        {
            "buckets": str(buckets),
            "seed": str(seed),
            "hex": text.hex(),
            "bucket": str(oracle.bucket(text, buckets, seed)),
        }
        for buckets, seed in CHOICES
        for text in TEXTS
    ]
    integers = [
        {
            "buckets": str(buckets),
            "seed": str(seed),
            "integers": [str(integer) for integer in INTEGERS],
            "bucket_of_each": [str(oracle.bucket(integer, buckets, seed)) for integer in INTEGERS],
        }
        for buckets, seed in CHOICES
    ]
    return {"about": ABOUT, "version": [1], "texts": texts, "integers": integers}


if __name__ == "__main__":
    (HERE / "hashes.json").write_text(as_text(golden()))
