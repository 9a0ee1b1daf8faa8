"""A pass takes no more memory than `plan()` states: the peak of a process that does nothing else.

`rust/fastresume-laws/tests/memory/bound.rs` counts the same at the allocator.
"""

from __future__ import annotations

import gc
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from support.child import MIB, Child, forget_peak, forked, peak, resident
from support.profile import SOAK, one_in

pytestmark = pytest.mark.processes

ALLOCATOR = 16 * MIB
"""What the system's allocator, and Python, may have beyond what they were asked for."""


def numbers() -> dict[str, Any]:
    """As in logs of clicks: a column has from 10 values to 10 million."""
    random, rows = np.random.default_rng(1), 900_000
    kinds = 10 ** np.linspace(1, 7, 12)
    wide = {f"i{n}": np.floor(kinds[n] ** random.random(rows)).astype(np.int64) for n in range(12)}
    return wide | {f"c{n}": wide[f"i{n}"].astype(np.int32) for n in range(12)}


def large_dictionaries() -> dict[str, Any]:
    """Of 1 MB each, in a row group that is decoded in three parts."""
    random = np.random.default_rng(5)
    return {f"i{n}": random.integers(0, 130_000, 400_000) for n in range(24)}


def hashed_text() -> dict[str, Any]:
    """Dictionaries of 60 MB, of which little is delivered."""
    return {name: [f"{name}{number:>999}" for number in range(60_000)] for name in "ab"}


def text() -> dict[str, Any]:
    """A file of 500 KB that expands to 360 MB."""
    random = np.random.default_rng(2)
    words = pa.array([f"w{number}" * 500 for number in range(20)])
    picks = (pa.array(random.integers(0, 20, 150_000).astype(np.int32)) for _ in range(2))
    arrays = (pa.DictionaryArray.from_arrays(each, words).cast(pa.string()) for each in picks)
    return dict(zip(("a", "b"), arrays, strict=True))


def lists() -> dict[str, Any]:
    """Some of a million numbers and more."""
    lengths = np.random.default_rng(3).integers(1_000_000, 1_300_000, 60)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return {"l": pa.LargeListArray.from_arrays(offsets, np.arange(offsets[-1], dtype=np.int32) % 50_000)}


def many_lists() -> dict[str, Any]:
    random, rows = np.random.default_rng(4), 131_072
    offsets = np.concatenate([[0], np.cumsum(random.integers(0, 51, rows))])
    values = random.integers(0, 1000, offsets[-1])
    return {f"l{number}": pa.LargeListArray.from_arrays(offsets, values) for number in range(8)}


def repeated_text() -> dict[str, Any]:
    """A few texts many times, as polars writes them: no footer tells how much they take."""
    return {"prompt": [str(n % 50) * 3000 for n in range(60_000)]}


def cells() -> dict[str, Any]:
    """Of 20 MB and more, each in a dictionary, too."""
    return {"b": pa.array([bytes([n]) * (20_000_000 + n) for n in range(27)], pa.large_binary())}


def few_cells() -> dict[str, Any]:
    """Of 4 MB, side by side among thousands of small ones."""
    large = (bytes([n]) * (4_000_000 + n) for n in range(20))
    return {"b": pa.array([b"small"] * 1020 + [*large] + [None, b"small"] * 480, pa.large_binary())}


def huge_cells_and_nulls() -> dict[str, Any]:
    """Of 100 MB, each behind three nulls."""
    return {
        "b": pa.array(
            [None if n % 4 else bytes([n]) * (100_000_000 + n) for n in range(20)], pa.large_binary()
        )
    }


def huge_cells() -> dict[str, Any]:
    """Of 100 MB each."""
    return {"b": pa.array([bytes([n]) * (100_000_000 + n) for n in range(5)], pa.large_binary())}


def huge_lists() -> dict[str, Any]:
    """Of 10 million numbers each, between short ones."""
    lengths = [10_000_000, 3, 10_000_001, 0, 9_999_999, 10_000_000]
    offsets = pa.array([0, *np.cumsum(lengths)], pa.int64())
    return {"l": pa.LargeListArray.from_arrays(offsets, np.arange(sum(lengths), dtype=np.int64) % 99_991)}


def wide() -> dict[str, Any]:
    """Whose footer is large beside its rows."""
    return {f"x{column}": np.arange(3000) + column for column in range(500)}


def long_text() -> dict[str, Any]:
    """Of 64 KiB each, no two of which are the same."""
    random = np.random.default_rng(6)
    return {"s": [random.bytes(1 << 15).hex() for _ in range(1000)]}


FILES = {
    "numbers": 131_072,
    "large_dictionaries": 400_000,
    "hashed_text": 60_000,
    "text": 20_000,
    "repeated_text": 20_000,
    "lists": 8,
    "many_lists": 16_384,
    "cells": 3,
    "few_cells": 100,
    "huge_cells": 2,
    "huge_cells_and_nulls": 10,
    "huge_lists": 2,
    "wide": 20,
    "long_text": 100,
}
"""What is read, with the rows of a row group."""


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with Child(anew=True) as found:  # the heap of a fork has room that its limit does not count
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """A function that gives a file of `FILES`, written when it is first asked for."""
    directory = tmp_path_factory.mktemp("memory")

    def find(name: str) -> Path:
        path = directory / f"{name}.parquet"
        if path.exists():
            return path
        if name == "repeated_text":
            pl.DataFrame(repeated_text()).write_parquet(path, row_group_size=FILES[name])
        else:
            options: dict[str, Any] = {"row_group_size": FILES[name]}
            if name == "long_text":
                options |= {"use_dictionary": False}  # of 6 MB, which stays for the next reader
            if name == "hashed_text":
                options |= {"compression": "none", "dictionary_pagesize_limit": 100 * MIB}
            pq.write_table(pa.table(globals()[name]()), path, **options)
        return path

    yield find
    for path in directory.iterdir():
        path.unlink()


def taken_and_stated(path: str, arguments: dict[str, Any], loader: dict[str, int] | None) -> tuple[int, int]:
    """Bytes that a pass took at most, and what was stated before it."""
    columns = eval(arguments.pop("columns", "None"), {"fr": fr})  # noqa: S307  (the repr of expressions is their code)
    dataset = fr.ParquetDataset(path, tail="short", world=(0, 1), columns=columns, **arguments)
    plan = dataset.plan()
    stated = plan.bytes_per_rank + plan.bytes_per_thread
    source: Any = dataset
    if loader is not None:
        stated += (loader["threads"] - 1) * plan.bytes_per_thread + loader["prefetch_bytes"]
        source = fr.Loader(dataset, **loader)
    gc.collect()
    forget_peak()
    before, rows = resident(), 0
    for batch in source:
        rows += batch.num_rows
        del batch
    assert rows == dataset.num_rows
    return peak() - before, stated


def taken_and_delivered(path: str, how: str) -> tuple[int, int]:
    """The bytes that it takes to have half of the rows again, in mixed order, and those of their texts."""
    dataset = fr.ParquetDataset(path, batch_size=1)
    dataset.read_rows([1, 0])["s"].take(torch.tensor([1, 0]))  # the code of both is memory, too
    whole = dataset.read_rows(range(dataset.num_rows))["s"] if how == "take" else None
    numbers = np.random.default_rng(0).permutation(dataset.num_rows)[: dataset.num_rows // 2]
    gc.collect()
    forget_peak()
    before = resident()
    rows = dataset.read_rows(numbers)["s"] if whole is None else whole.take(torch.from_numpy(numbers))
    return peak() - before, len(rows.values)


def alone(*arguments: Any) -> tuple[int, int]:
    """What a pass takes, and what was stated, in a process that has done nothing before."""
    return forked(taken_and_stated, *arguments)


def again_alone(*arguments: Any) -> tuple[int, int]:
    """What rows in mixed order take, and what they have, in a process that has done nothing before."""
    return forked(taken_and_delivered, *arguments)


AHEAD = {"threads": 2, "prefetch_bytes": 16 * MIB}
STACK = {"columns": ["*", "!i*", "!c*", fr.stack("i*", name="wide"), fr.stack("c*", name="narrow")]}

FEW_OF_A_WINDOW = {"batch_size": 2, "nulls": "mask", "shuffle": True, "window_rows": 3}

SLOW = pytest.mark.slow  # large files: the others show the same of each kind of column
IN_SOAK = pytest.mark.skipif(
    not SOAK,
    reason="takes a minute, and 2 GiB: `make soak-types`; cells of 20 MB and lists of 10^6 are read anyhow",
)


@pytest.mark.parametrize(
    "loader", [pytest.param(None, marks=SLOW, id="caller"), pytest.param(AHEAD, id="threads")]
)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("numbers", {"batch_size": 4096}),
        pytest.param("numbers", {"batch_size": 4096, **STACK}, marks=SLOW),
        ("numbers", {"batch_size": 4096, **STACK, "shuffle": True}),
        ("numbers", {"batch_size": 4096, **STACK, "shuffle": True, "lanes": 4, "window_rows": 40_000}),
        pytest.param("large_dictionaries", {"batch_size": 4096}, marks=SLOW),
        ("large_dictionaries", {"batch_size": 4096, "shuffle": True, "block_rows": 50_000}),
        (
            "hashed_text",
            {"batch_size": 1000, "columns": ["*", fr.col("a").hash(1000), fr.col("b").hash(1000)]},
        ),
        pytest.param("text", {"batch_size": 512}, marks=SLOW),
        pytest.param("text", {"batch_size": 512, "shuffle": True}, marks=SLOW),
        pytest.param("text", {"batch_size": 512, "shuffle": True, "window_rows": 10_000}, marks=SLOW),
        pytest.param("repeated_text", {"batch_size": 256}, marks=SLOW),
        ("repeated_text", {"batch_size": 256, "shuffle": True}),
        pytest.param("repeated_text", {"batch_size": 20_000}, marks=SLOW),
        pytest.param("lists", {"batch_size": 2, "nulls": "mask"}, marks=SLOW),
        pytest.param(
            "lists", {"batch_size": 2, "nulls": "mask", "shuffle": True, "window_rows": 8}, marks=SLOW
        ),
        pytest.param("many_lists", {"batch_size": 1024, "nulls": "mask"}, marks=SLOW),
        ("many_lists", {"batch_size": 1024, "nulls": "mask", "shuffle": True}),
        pytest.param("cells", {"batch_size": 1}, marks=SLOW),
        pytest.param("cells", {"batch_size": 1, "shuffle": True, "window_rows": 4}, marks=SLOW),
        ("few_cells", {"batch_size": 16, "nulls": "mask"}),
        pytest.param(
            "few_cells", {"batch_size": 50, "nulls": "mask", "shuffle": True, "window_rows": 100}, marks=SLOW
        ),
        pytest.param("few_cells", {"batch_size": 4, "nulls": "mask", "lanes": 2}, marks=SLOW),
        ("few_cells", {"batch_size": 100, "nulls": "mask", "columns": ["*", fr.col("b").hash(10)]}),
        pytest.param("wide", {"batch_size": 512, "columns": ["x1", "x2"]}, marks=SLOW),
        pytest.param("wide", {"batch_size": 512, "columns": ["x1", "x2"], "shuffle": True}, marks=SLOW),
        pytest.param("huge_cells", {"batch_size": 1, "nulls": "mask"}, marks=IN_SOAK),
        pytest.param("huge_cells_and_nulls", {"batch_size": 1, "nulls": "mask"}, marks=IN_SOAK),
        pytest.param("huge_cells_and_nulls", {"batch_size": 2, "nulls": "mask"}, marks=IN_SOAK),
        pytest.param("huge_cells_and_nulls", FEW_OF_A_WINDOW, marks=IN_SOAK),
        pytest.param("huge_cells", FEW_OF_A_WINDOW, marks=IN_SOAK),
        pytest.param("huge_lists", {"batch_size": 1, "nulls": "mask"}, marks=IN_SOAK),
        pytest.param("huge_lists", FEW_OF_A_WINDOW, marks=IN_SOAK),
    ],
)
def test_a_pass_takes_no_more_than_is_stated(
    child: Child,
    file: Callable[[str], Path],
    name: str,
    arguments: dict[str, Any],
    loader: dict[str, int] | None,
) -> None:
    said = {name: repr(value) if name == "columns" else value for name, value in arguments.items()}
    taken, stated = child.call(alone, str(file(name)), said, loader)
    print(f"{taken / MIB:.0f} MiB taken, {stated / MIB:.0f} stated")
    assert taken < stated + ALLOCATOR, f"{taken / MIB:.0f} MiB, {stated / MIB:.0f} were stated"


@pytest.mark.parametrize("how", ["read_rows", "take"])
def test_texts_in_mixed_order_take_twice_their_bytes(
    child: Child, file: Callable[[str], Path], how: str
) -> None:
    """Indices of 8 bytes for each byte of text took 25 times as much."""
    taken, delivered = child.call(again_alone, str(file("long_text")), how)
    print(f"{taken / MIB:.1f} MiB taken, {delivered / MIB:.1f} delivered")
    assert taken < 2 * delivered + ALLOCATOR, f"{taken / MIB:.0f} MiB for {delivered / MIB:.0f}"


def whole_or_refused(path: str, room: int, arguments: dict[str, Any]) -> str:
    """What comes of a pass whose process may map so many bytes more."""
    dataset = fr.ParquetDataset(path, world=(0, 1), **arguments)
    with fr.Loader(dataset, threads=3) as loader:
        batches = iter(loader)
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (mapped() + room, hard))
        try:
            for _ in batches:
                pass
        except (fr.FastresumeError, ValueError, MemoryError) as error:
            return str(error)[:200]
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    return "whole"


def mapped() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def outcomes(path: str, rooms: list[int], arguments: dict[str, Any]) -> list[str]:
    """Of each room what came of it in a fork of this process; of one that died, that it did."""
    found = []
    for room in rooms:
        receiving, sending = os.pipe()
        process = os.fork()
        if process == 0:
            try:
                os.write(sending, whole_or_refused(path, room, arguments).encode())
            finally:
                os._exit(0)
        os.close(sending)
        with os.fdopen(receiving, "rb") as said:
            found.append(said.read().decode() or "died")
        os.waitpid(process, 0)
    return found


@pytest.mark.law(11)
@pytest.mark.parametrize("arguments", [{"batch_size": 256, "shuffle": True}, {"batch_size": 8192}], ids=str)
def test_memory_that_runs_out_in_a_decoding_thread_is_an_error(
    child: Child, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    """Whatever the limit is; each in a process of its own, which would abort."""
    rows, path = 100_000, tmp_path / "limit.parquet"
    values = pa.array(np.arange(3 * rows) % 99)
    lists = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32) * 3, values)
    table = {f"c{n}": np.arange(rows) % 1000 for n in range(6)}
    texts = [f"text {n % 5000}" * (1 + n % 7) for n in range(rows)]
    pq.write_table(pa.table(table | {"t": texts, "l": lists}), path, row_group_size=25_000)
    rooms = [room * MIB for room in (2, 5, *range(10, 90, 10 * one_in(3)))]
    found = {outcome.split(" ")[0] for outcome in child.call(outcomes, str(path), rooms, arguments)}
    assert found <= {"whole", "no", "can't"}, "there is no memory, or no thread"
    assert len(found) > 1
