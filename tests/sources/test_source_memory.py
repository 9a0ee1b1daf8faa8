"""A pass over rows that are no Parquet files takes no more memory than `plan()` states."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastresume as fr
from fastresume.sources import Segment
from support.child import MIB, Child, forget_peak, forked, peak, resident
from support.ipc_writer import write_ipc

pytestmark = pytest.mark.processes

ALLOCATOR = 16 * MIB
"""What the system's allocator, and Python, may have beyond what they were asked for."""

ROWS, GROUP, COLUMNS = 40 * 65_536, 65_536, 8
READ_BYTES = 20 * MIB
"""Room for five row groups of 4 MiB, where all rows have 160."""


def rows(start: int, stop: int, columns: list[str]) -> pa.Table:
    """Rows that are made when they are asked for; the texts have 20 bytes on the average."""
    numbers = np.arange(start, stop)
    made: dict[str, Any] = {name: numbers * 7 for name in columns if name != "text"}
    if "text" in columns:
        lengths = numbers % 41
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        values = pa.py_buffer(np.full(int(offsets[-1]), 97, np.uint8))
        buffers = [None, pa.py_buffer(offsets), values]
        made["text"] = pa.Array.from_buffers(pa.string(), stop - start, buffers)
    return pa.table(made).select(columns)


NUMBERS = [f"x{number}" for number in range(COLUMNS)]


@dataclass
class Made:
    """A source whose rows nobody holds."""

    columns: list[str]
    segment_rows: int

    def snapshot(self) -> str:
        return "made"

    def segments(self) -> list[Segment]:
        return [
            Segment(f"{start}", min(self.segment_rows, ROWS - start))
            for start in range(0, ROWS, self.segment_rows)
        ]

    def schema(self) -> pa.Schema:
        return rows(0, 1, self.columns).schema

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        first = segment * self.segment_rows
        return rows(first + start, first + stop, columns)


def taken_and_stated(kind: str, path: str, asked: dict[str, Any], loader: dict[str, int]) -> tuple[int, int]:
    """Bytes that a pass took at most, and what was stated before it."""
    pa.set_memory_pool(pa.system_memory_pool())  # the others keep what was given back
    sources = {
        "numbers": Made(NUMBERS, 10 * GROUP),
        "texts": Made([*NUMBERS, "text"], 10 * GROUP),
        "small segments": Made(NUMBERS, 20_000),
    }
    dataset = fr.ArrowDataset(
        sources.get(kind, path), tail="short", world=(0, 1), read_bytes=READ_BYTES, **asked
    )
    plan = dataset.plan()
    stated = plan.bytes_per_rank + loader["threads"] * plan.bytes_per_thread + loader["prefetch_bytes"]
    gc.collect()
    forget_peak()
    before, count = resident(), 0
    with fr.Loader(dataset, **loader) as batches:
        for batch in batches:
            count += batch.num_rows
            del batch
    assert count == dataset.num_rows
    return peak() - before, stated


def alone(*arguments: Any) -> tuple[int, int]:
    """What a pass takes, and what was stated, in a process that has done nothing before."""
    return forked(taken_and_stated, *arguments)


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("MALLOC_ARENA_MAX", "2")  # each thread of a source would keep one of its own
        with Child(anew=True) as found:
            yield found


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of compressed batches, of a hundredth of the rows' bytes."""
    path = tmp_path_factory.mktemp("packed") / "rows.arrow"
    return write_ipc(rows(0, ROWS, [*NUMBERS, "text"]), path, "zstd", GROUP)


SHUFFLE = fr.Shuffle(window_rows=4 * GROUP, block_rows=GROUP)


KINDS = ["numbers", "texts", "small segments", "file"]
QUICK = [("numbers", SHUFFLE), ("file", False)]
"""The file has texts, too; small segments have less to hold, and an order is that of other sources."""


@pytest.mark.parametrize(
    ("kind", "shuffle"),
    [
        pytest.param(kind, shuffle, marks=() if (kind, shuffle) in QUICK else pytest.mark.slow)
        for kind in KINDS
        for shuffle in (False, SHUFFLE)
    ],
    ids=str,
)
def test_a_pass_takes_no_more_than_is_stated(child: Child, packed: Path, kind: str, shuffle: Any) -> None:
    asked = {"batch_size": 4096, "shuffle": shuffle}
    loader = {"threads": 2, "prefetch_bytes": 8 * MIB}
    taken, stated = child.call(alone, kind, str(packed), asked, loader, seconds=200)
    print(f"{taken / MIB:.0f} MiB taken, {stated / MIB:.0f} stated")
    assert taken < stated + ALLOCATOR, f"{taken / MIB:.0f} MiB, {stated / MIB:.0f} were stated"
    all_bytes = ROWS * 8 * COLUMNS
    assert taken < all_bytes, "as much as all rows have: nothing was bounded"


def test_a_plan_counts_what_is_read_ahead(packed: Path) -> None:
    asked: dict[str, Any] = {"batch_size": 64, "world": (0, 1)}
    for made in (Made(NUMBERS, 10 * GROUP), packed):
        plans = [
            fr.ArrowDataset(made, read_bytes=size, **asked).plan() for size in (READ_BYTES, 2 * READ_BYTES)
        ]
        assert plans[1].bytes_per_rank - plans[0].bytes_per_rank == READ_BYTES
    held = rows(0, 1000, NUMBERS)
    plans = [fr.ArrowDataset(held, read_bytes=size, **asked).plan() for size in (1, READ_BYTES)]
    assert plans[0] == plans[1]
