"""Measures lists with nulls, jagged and padded, beside other ways to the same tensors.

    make bench-padding                      # build for release, make the data, measure
    make bench-padding ARGS='--rounds 3 --results -'

Every way reads the same 8 list columns (`jagged_nulls` of `data.py`) on one thread and ends in the same
batches of torch tensors. A tenth of all rows is null, and of `item_*` a tenth of the elements as well: a null
element becomes 0, and of `list_*`, whose elements are not null, a mask tells null rows. Jagged is values,
offsets and mask; padded a matrix `[B, 50]`, lengths and mask. The others decode a row group at a time, which
is what costs them least, make tensors of it, and cut these into batches.

Each way has a process of its own, which makes one pass that does not count and adds up a checksum of every
tensor in it, and then one that is measured. The ways take turns, and what is compared are medians. The
tables go to RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import data
from page import put_section

BATCH_SIZE = 4096
WIDTH = data.LONGEST
"""Elements of a padded row: no row has more."""

Tensors = dict[str, tuple[torch.Tensor, ...]]
"""Of each column the values, the offsets (or the lengths), and, of some, the mask."""

Pad = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""Makes a matrix of values and offsets."""


# --------------------------------------------------------------------------------------------------- the ways


def own(path: Path, is_padded: bool, is_shuffled: bool = False) -> Iterator[Tensors]:
    """This reader."""
    fastresume = importlib.import_module("fastresume")
    pad = {"pad": {"*": WIDTH}} if is_padded else {}
    nulls = {"list_*": "mask", "item_*": 0}
    arguments = {"nulls": nulls, "tail": "short", "shuffle": is_shuffled, "rank": 0, "world_size": 1, **pad}
    for batch in fastresume.ParquetDataset(path, batch_size=BATCH_SIZE, **arguments):
        tensors: Tensors = {}
        for name in [name for name in batch if not name.endswith(("_valid", "_length"))]:
            if is_padded:
                mask = (batch[f"{name}_valid"],) if f"{name}_valid" in batch else ()
                tensors[name] = (batch[name], batch[f"{name}_length"], *mask)
            else:
                jagged = batch[name]
                mask = () if jagged.valid is None else (jagged.valid,)
                tensors[name] = (jagged.values, jagged.offsets, *mask)
        yield tensors


def arrow_groups(path: Path) -> Iterator[Any]:
    """Row groups, decoded by pyarrow."""
    parquet = importlib.import_module("pyarrow.parquet")
    for name in sorted(path.iterdir()):
        with parquet.ParquetFile(name) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False)


def polars_groups(path: Path) -> Iterator[Any]:
    """Files, decoded by polars, in parts of a row group: of its ways the one that costs it least."""
    polars = importlib.import_module("polars")
    for name in sorted(path.iterdir()):
        frame = polars.scan_parquet(name, parallel="none").collect(engine="in-memory")
        for part in frame.iter_slices(data.JAGGED_NULLS.group_rows):
            yield part.to_arrow()


def of_arrow(groups: Iterator[Any], pad: Pad | None) -> Iterator[Tensors]:
    """Batches of row groups: the lists' own memory where nothing is null, and padded as a whole."""
    compute = importlib.import_module("pyarrow.compute")
    for table in groups:
        whole: Tensors = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
            elements = lists.flatten()
            if elements.null_count:
                elements = compute.fill_null(elements, 0)
            values = torch.from_numpy(np.array(elements.to_numpy(), copy=False))
            lengths = compute.fill_null(compute.list_value_length(lists), 0).to_numpy()
            offsets = torch.zeros(len(lists) + 1, dtype=torch.int64)
            torch.cumsum(torch.from_numpy(lengths), 0, out=offsets[1:])
            mask = ()
            if name.startswith("list"):
                mask = (torch.from_numpy(lists.is_valid().to_numpy(zero_copy_only=False)),)
            if pad is None:
                whole[name] = (values, offsets, *mask)
            else:
                whole[name] = (pad(values, offsets), offsets.diff(), *mask)
        for start in range(0, table.num_rows, BATCH_SIZE):
            end = min(start + BATCH_SIZE, table.num_rows)
            yield {name: cut(tensors, start, end, pad is None) for name, tensors in whole.items()}


def cut(tensors: tuple[torch.Tensor, ...], start: int, end: int, is_jagged: bool) -> tuple[torch.Tensor, ...]:
    """Some rows of a column, over the same memory."""
    if not is_jagged:
        return tuple(tensor[start:end] for tensor in tensors)
    values, offsets, *mask = tensors
    bounds = offsets[start : end + 1]
    return values[bounds[0] : bounds[-1]], bounds - bounds[0], *(marks[start:end] for marks in mask)


def by_mask(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """As one writes it by hand: which cells of the matrix have an element, and these assigned at once."""
    matrix = torch.zeros(len(offsets) - 1, WIDTH, dtype=values.dtype)
    matrix[torch.arange(WIDTH)[None, :] < offsets.diff()[:, None]] = values
    return matrix


def by_nested(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """By torch's own kernel for nested tensors."""
    nested = torch.nested.nested_tensor_from_jagged(values, offsets)
    return torch.nested.to_padded_tensor(nested, 0, (len(offsets) - 1, WIDTH))


def by_slices(path: Path) -> Iterator[Tensors]:
    """By pyarrow's own way to lists of one length, which fills up with nulls."""
    compute = importlib.import_module("pyarrow.compute")
    for table in arrow_groups(path):
        whole: Tensors = {}
        for name, column in zip(table.column_names, table.columns, strict=True):
            lists = column.combine_chunks()
            lists = lists.chunk(0) if hasattr(lists, "chunk") else lists
            lengths = compute.fill_null(compute.list_value_length(lists), 0).to_numpy()
            even = compute.list_slice(lists, 0, WIDTH, return_fixed_size_list=True)
            cells = compute.fill_null(even.values, 0).to_numpy()
            matrix = torch.from_numpy(np.array(cells, copy=False)).view(len(lists), WIDTH)
            mask = ()
            if name.startswith("list"):
                mask = (torch.from_numpy(lists.is_valid().to_numpy(zero_copy_only=False)),)
            whole[name] = (matrix, torch.from_numpy(lengths).long(), *mask)
        for start in range(0, table.num_rows, BATCH_SIZE):
            yield {name: cut(tensors, start, start + BATCH_SIZE, False) for name, tensors in whole.items()}


WAYS: dict[str, dict[str, Callable[[Path], Iterator[Tensors]]]] = {
    "Jagged": {
        "fastresume": lambda path: own(path, False),
        "pyarrow": lambda path: of_arrow(arrow_groups(path), None),
        "polars": lambda path: of_arrow(polars_groups(path), None),
    },
    "Padded": {
        "fastresume": lambda path: own(path, True),
        "pyarrow, a mask in torch": lambda path: of_arrow(arrow_groups(path), by_mask),
        "pyarrow, `torch.nested`": lambda path: of_arrow(arrow_groups(path), by_nested),
        "pyarrow, `list_slice`": by_slices,
        "polars, `torch.nested`": lambda path: of_arrow(polars_groups(path), by_nested),
    },
    "Shuffled": {
        "fastresume, jagged": lambda path: own(path, False, True),
        "fastresume, padded": lambda path: own(path, True, True),
    },
}


# -------------------------------------------------------------------------------------------------- measuring


def one_process(path: Path, table: str, way: str) -> None:
    """Make one pass that is checked and one that is measured; print both."""
    torch.set_num_threads(1)
    read = WAYS[table][way]
    checksums: dict[str, int] = {}
    for batch in read(path):
        for name, tensors in batch.items():
            # Offsets begin anew in each batch, whose rows are the same everywhere.
            for part, tensor in enumerate(tensors):
                key = f"{name} {part}"
                checksums[key] = zlib.crc32(tensor.contiguous().numpy(), checksums.get(key, 0))
    wall, processor = time.perf_counter(), time.process_time()
    rows, is_jagged = 0, table == "Jagged" or way.endswith("jagged")  # there is one offset more than rows
    for batch in read(path):
        rows += len(next(iter(batch.values()))[1]) - is_jagged
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(json.dumps({"wall": wall, "processor": processor, "rows": rows, "checksums": checksums}))


def measured(path: Path, rounds: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """What each way took, round by round; all of a table deliver the same."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {
        table: {way: [] for way in ways} for table, ways in WAYS.items()
    }
    environment = {**os.environ, "POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for number in range(rounds):
        for table, ways in WAYS.items():
            for way in ways:
                print(f"round {number + 1}: {table}, {way}", file=sys.stderr, flush=True)
                command = [sys.executable, __file__, "--one", table, way, "--data", str(path)]
                done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
                found[table][way].append(json.loads(done.stdout))
            # Jagged and padded batches in a shuffled order have the same rows, but not the same tensors.
            expected = found[table][next(iter(ways))][0]["checksums"]
            for way in ways if table != "Shuffled" else ():
                if found[table][way][-1]["checksums"] != expected:
                    raise SystemExit(f"{way} does not deliver what the first way of {table} does")
    return found


def report(found: dict[str, dict[str, list[dict[str, Any]]]], rounds: int) -> str:
    """The section of the page."""
    machine = importlib.import_module("fastresume.bench.machine")
    lines = [
        "## Lists with nulls, jagged and padded",
        "",
        "Written by `make bench-padding`; the head of `padding.py` says what is measured, and how. Seconds",
        f"are of one pass over all rows, medians of {rounds} rounds in turns, with their range; the ratio is",
        "that of the CPU seconds of each round to those of the table's first way, its median.",
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
    ]
    for table, ways in found.items():
        rows = next(iter(ways.values()))[0]["rows"]
        lines += [
            "",
            f"| {table}, {rows:,} rows | CPU seconds | wall seconds | ratio |",
            "|---|---:|---:|---:|",
        ]
        first = [turn["processor"] for turn in next(iter(ways.values()))]
        for way, turns in ways.items():
            processor, wall = ([turn[key] for turn in turns] for key in ("processor", "wall"))
            ratios = [mine / base for mine, base in zip(processor, first, strict=True)]
            cells = [in_words(processor), in_words(wall), f"{statistics.median(ratios):.2f}"]
            lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def in_words(seconds: list[float]) -> str:
    """The median, and the range."""
    return f"{statistics.median(seconds):.3f} ({min(seconds):.3f}-{max(seconds):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each way (%(default)s)")
    parser.add_argument("--rows", type=int, default=data.ROWS, help="of criteo, an eighth of them here")
    parser.add_argument("--results", default=str(Path(__file__).with_name("RESULTS.md")), help="- for none")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    parser.add_argument("--one", nargs=2, metavar=("TABLE", "WAY"), help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one_process(options.data, *options.one)
    core = importlib.import_module("fastresume._core")
    if not core.IS_OPTIMIZED:
        raise SystemExit("a build with checks on says nothing about speed")
    options.directory.mkdir(parents=True, exist_ok=True)
    text = report(
        measured(data.made("jagged_nulls", options.directory, options.rows), options.rounds), options.rounds
    )
    print(text)
    if options.results != "-":
        put_section(Path(options.results), text)
    return None


if __name__ == "__main__":
    main()
