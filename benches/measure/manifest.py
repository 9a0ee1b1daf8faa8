"""Opening a dataset of many small files: without a cache, when the cache is made, and when it is there.

Writes `--files` files of a few row groups into a temporary directory, and opens them on one core and on all.
All footers are in the page cache: what is measured is work, not a disk. `make bench-manifest` prints the
table that stands in RESULTS.md.
"""

from __future__ import annotations

import argparse
import io
import os
import pickle
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fastresume import _core

CONTENTS = 50
COLUMNS = 12
LONG_AGO = 1_600_000_000
NAME = b"part-00000000"


def write(directory: Path, files: int) -> None:
    """Files of 12 columns and 2 to 7 row groups, a thousand in each directory, no footer like another."""
    contents = []
    for number in range(CONTENTS):
        rows = np.arange(20 + number, dtype=np.int32)
        buffer = io.BytesIO()
        columns = {f"c{column:02}": rows + column for column in range(COLUMNS)}
        table = pa.table(columns, metadata={"name": NAME})
        pq.write_table(table, buffer, row_group_size=10, compression="none", use_dictionary=False)
        contents.append(buffer.getvalue())
    for number in range(files):
        path = directory / f"day={number // 1000:05}" / f"part-{number % 1000:05}.parquet"
        if number % 1000 == 0:
            path.parent.mkdir()
        path.write_bytes(contents[number % CONTENTS].replace(NAME, b"part-%08d" % number))
        os.utime(path, (LONG_AGO, LONG_AGO))  # what was modified just now is not cached


def row(name: str, rounds: int, work: Callable[[], object]) -> None:
    """Print medians of wall clock and CPU time."""
    wall, processor = [], []
    for _ in range(rounds):
        began, began_processor = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - began)
        processor.append(time.process_time() - began_processor)
    seconds = f"{statistics.median(wall):.3f} ({min(wall):.3f}-{max(wall):.3f})"
    print(f"| {name} | {seconds} | {statistics.median(processor):.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    if not _core.IS_OPTIMIZED:
        raise SystemExit("a build with checks on says nothing about speed")
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        data, cache = Path(name, "data"), Path(name, "manifest.cache")
        data.mkdir()
        write(data, arguments.files)

        def opened(cached: bool, fresh: bool = False) -> _core.Manifest:
            if fresh:
                cache.unlink(missing_ok=True)
            return _core.Manifest.open([[str(data)]], _core.Stores(), str(cache) if cached else None)

        manifest = opened(cached=True)
        sizes = cache.stat().st_size, len(pickle.dumps(manifest))
        print(f"{arguments.files:,} files, {manifest.num_row_groups:,} row groups;", end=" ")
        print(
            "the cache has {:.1f} MB, a pickled manifest {:.1f} MB\n".format(*(size / 1e6 for size in sizes))
        )
        print("| | seconds | CPU seconds |\n|---|---|---|")
        for count in sorted({1, len(cores)}):
            os.sched_setaffinity(0, cores[:count])
            on = f"{count} core{'s' if count > 1 else ''}"
            row(f"{on}: without a cache", arguments.rounds, lambda: opened(cached=False))
            row(f"{on}: the cache is made", arguments.rounds, lambda: opened(cached=True, fresh=True))
            row(f"{on}: the cache is there", arguments.rounds, lambda: opened(cached=True))
        read = pickle.loads
        row("pickled and read again, as for a worker", arguments.rounds, lambda: read(pickle.dumps(manifest)))
        row("the rows of one of its files", arguments.rounds, lambda: manifest.rows_of(manifest.files[-1]))


if __name__ == "__main__":
    main()
