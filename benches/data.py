"""Makes the files that are measured: click logs, tokens and ragged features, the same every time.

    python benches/data.py DIRECTORY                         # all data sets, each in a folder of its own
    python benches/data.py DIRECTORY criteo tokens --rows 4194304

`criteo` is in the manner of Criteo's logs: 41 columns of fixed width, 217 bytes a row, counts and
categories of which a few are everywhere, all encoded by dictionaries (the largest has 0.6 MB) and
compressed with snappy. `criteo_zstd` has the same rows, `criteo_nulls` the same with a tenth of the values
of every column null. `criteo_large` has such rows in row groups of a million, as pyarrow writes by default:
writers give up the largest dictionaries there. `tokens` is packed text, 2048 numbers a row. `jagged` has
lists of 0 to 50 numbers, and strings of which some are null. As pyarrow writes by default, every column may
have nulls.
Made by name alone, for `padding.py`: `jagged_nulls` has such lists, a tenth of them null, and in half of the
columns a tenth of the elements as well.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FILES = 2
GROUP_ROWS, LARGE_GROUP_ROWS = 131_072, 1 << 20
ROWS = 8 * GROUP_ROWS
"""How many rows `criteo` has if nothing else is asked for: 228 MB as tensors."""

COUNTS, CATEGORIES = 13, 26
NULLS = 0.1
"""The part of the values of `criteo_nulls` that are null."""

TOKENS, VOCABULARY = 2048, 50_257
LISTS, STRINGS, LONGEST = 8, 4, 50
WORDS = np.array(["red", "green", "small", "large", "old", "new", "wool", "steel", "paper", "chair", "shoe"])


@dataclass(frozen=True)
class Kind:
    """One data set: its rows from one place to another, and how they are written."""

    columns: Callable[[int, int], pa.Table]
    compression: str
    rows_per_criteo: float
    group_rows: int


def write(name: str, directory: Path, rows_of_criteo: int = ROWS) -> None:
    """Write a data set into a directory that does not exist yet."""
    kind = MADE[name]
    rows = max(1, int(rows_of_criteo * kind.rows_per_criteo))
    groups = -(-rows // kind.group_rows)
    files = min(FILES, groups)
    directory.mkdir(parents=True)
    for number in range(files):
        first, last = groups * number // files, groups * (number + 1) // files
        writer = None
        for group in range(first, last):
            start = group * kind.group_rows
            table = kind.columns(start, min(kind.group_rows, rows - start))
            path = directory / f"part-{number:03}.parquet"
            writer = writer or pq.ParquetWriter(path, table.schema, compression=kind.compression)
            writer.write_table(table, row_group_size=kind.group_rows)
        if writer is not None:
            writer.close()


def made(name: str, directory: Path, rows_of_criteo: int = ROWS) -> Path:
    """Where the data set is; it is made if it is not there."""
    path = directory / f"{name}-{rows_of_criteo}"
    if not path.exists():
        print(f"making {name}", file=sys.stderr, flush=True)
        unfinished = path.with_name(f"{path.name}-{os.getpid()}")
        write(name, unfinished, rows_of_criteo)
        unfinished.rename(path)
    return path


# ---------------------------------------------------------------------------------------- fixed-width columns


def criteo(start: int, rows: int) -> pa.Table:
    random = np.random.default_rng([7, start])
    columns: dict[str, np.ndarray] = {
        "label": (random.random(rows) < 0.25).astype(np.int8),
        "ts": 1_700_000_000_000 + (start + np.arange(rows)) // 8 * 1000,
    }
    for number in range(COUNTS):
        columns[f"i_{number}"] = skewed(random, 10 ** (1 + 7 * number / (COUNTS - 1)), rows)
    for number in range(CATEGORIES):
        ranks = skewed(random, 10 ** (0.5 + 6.5 * number / (CATEGORIES - 1)), rows)
        hashed = ranks.astype(np.uint32) * np.uint32(0x9E3779B1) + np.uint32(number)
        columns[f"c_{number}"] = hashed.view(np.int32)
    return pa.table(columns)


def criteo_with_nulls(start: int, rows: int) -> pa.Table:
    random = np.random.default_rng([11, start])
    columns = criteo(start, rows)
    arrays = [
        pa.array(column.to_numpy(), mask=random.random(rows) < NULLS) for column in columns.itercolumns()
    ]
    return pa.table(arrays, names=columns.column_names)


def skewed(random: np.random.Generator, kinds: float, rows: int) -> np.ndarray:
    """Return numbers below `kinds`, of which each is as frequent as it is small: Zipf's law."""
    return np.floor(kinds ** random.random(rows)).astype(np.int64) - 1


# ------------------------------------------------------------------------------------------ lists and strings


def tokens(start: int, rows: int) -> pa.Table:
    random = np.random.default_rng([13, start])
    values = skewed(random, VOCABULARY, rows * TOKENS).astype(np.int32)
    offsets = np.arange(rows + 1, dtype=np.int32) * TOKENS
    return pa.table({"tokens": pa.ListArray.from_arrays(offsets, values)})


def jagged(start: int, rows: int) -> pa.Table:
    random = np.random.default_rng([17, start])
    columns: dict[str, pa.Array] = {}
    for number in range(LISTS):
        lengths = random.integers(0, LONGEST + 1, rows)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        ids = skewed(random, 10 ** (2 + 4 * number / (LISTS - 1)), int(offsets[-1]))
        columns[f"list_{number}"] = pa.ListArray.from_arrays(offsets, ids)
    for number in range(STRINGS):
        words = [WORDS[random.integers(0, len(WORDS), rows)].astype(object) for _ in range(number + 1)]
        ids = skewed(random, 10 ** (2 + number), rows).astype(str).astype(object)
        text = np.array([" ".join(parts) for parts in zip(*words, ids, strict=True)], dtype=object)
        columns[f"text_{number}"] = pa.array(text, mask=random.random(rows) < NULLS, type=pa.string())
    return pa.table(columns)


def jagged_with_nulls(start: int, rows: int) -> pa.Table:
    random = np.random.default_rng([19, start])
    columns: dict[str, pa.Array] = {}
    for number in range(LISTS):
        lengths = random.integers(0, LONGEST + 1, rows)
        gone = random.random(rows) < NULLS
        lengths[gone] = 0
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        ids = skewed(random, 10 ** (2 + 4 * (number % 4) / 3), int(offsets[-1]))
        has_null_elements = number >= LISTS // 2
        elements = pa.array(ids, mask=random.random(len(ids)) < NULLS if has_null_elements else None)
        bounds = pa.array(offsets, mask=np.append(gone, False))
        name = f"{'item' if has_null_elements else 'list'}_{number % (LISTS // 2)}"
        columns[name] = pa.ListArray.from_arrays(bounds, elements)
    return pa.table(columns)


KINDS = {
    "criteo": Kind(criteo, "snappy", 1, GROUP_ROWS),
    "criteo_zstd": Kind(criteo, "zstd", 1, GROUP_ROWS),
    "criteo_nulls": Kind(criteo_with_nulls, "snappy", 1, GROUP_ROWS),
    "criteo_large": Kind(criteo, "snappy", 1, LARGE_GROUP_ROWS),
    "tokens": Kind(tokens, "zstd", 1 / 40, 2048),
    "jagged": Kind(jagged, "snappy", 1 / 8, 16_384),
}
JAGGED_NULLS = Kind(jagged_with_nulls, "snappy", 1 / 8, 16_384)
MADE = {**KINDS, "jagged_nulls": JAGGED_NULLS}


def positive(text: str) -> int:
    """Return a number of rows, as an argument names it."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return number


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(KINDS)} (default: all)")
    parser.add_argument(
        "--rows", type=positive, default=ROWS, help="of criteo; the others keep step (%(default)s)"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(MADE):
        parser.error(f"no data set is called {', '.join(sorted(unknown))}; there are {', '.join(MADE)}")
    paths = {name: options.directory / name for name in options.names or KINDS}
    if taken := [path for path in paths.values() if path.exists()]:
        parser.error(f"expected directories that do not exist yet, found {', '.join(map(str, taken))}")
    for name, path in paths.items():
        write(name, path, options.rows)


if __name__ == "__main__":
    main()
