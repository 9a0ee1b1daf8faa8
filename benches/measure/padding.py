"""Measures lists with nulls, jagged and padded, beside other ways to the same tensors.

    make bench-padding                      # build for release, make the data, measure
    make bench-padding ARGS='--rounds 3 --results -'

Every way reads the same 8 list columns (`jagged_nulls` of `data.py`) on one thread and ends in the same
batches of torch tensors. A tenth of all rows is null, and of `item_*` a tenth of the elements as well: a null
element becomes 0, and of `list_*`, whose elements are not null, a mask tells null rows. Jagged is values,
offsets and mask; padded a matrix `[B, 50]`, lengths and mask. The others decode a row group at a time, which
is what costs them least, make tensors of it, and cut these into batches.

All ways run in one process, each on one thread. After one pass of each, in which a checksum of every tensor
is compared, they take turns, and what is compared are medians. The tables go to RESULTS.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
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
from page import in_words, tell

os.environ["POLARS_MAX_THREADS"] = "1"  # looked at when polars is imported

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
    lists, items = fastresume.col("list_*").mask_null(), fastresume.col("item_*").fill_null(0)
    columns = [lists.pad(WIDTH), items.pad(WIDTH)] if is_padded else [lists, items]
    arguments = {"columns": columns, "tail": "short", "shuffle": is_shuffled, "rank": 0, "world_size": 1}
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


Turns = dict[str, dict[str, list[tuple[float, float]]]]
"""Of each table and way what each of its passes took: CPU and wall seconds."""


def checksums_of(batches: Iterator[Tensors]) -> dict[str, int]:
    """A checksum of all values of each tensor, whatever the batches."""
    found: dict[str, int] = {}
    for batch in batches:
        for name, tensors in batch.items():
            # Offsets begin anew in each batch, and batches have the same rows everywhere.
            for part, tensor in enumerate(tensors):
                key = f"{name} {part}"
                found[key] = zlib.crc32(tensor.contiguous().numpy(), found.get(key, 0))
    return found


def measured(path: Path, rounds: int) -> Turns:
    """What each way took, round by round, after a pass in which all of a table delivered the same."""
    for table, ways in WAYS.items():
        checksums = {way: checksums_of(read(path)) for way, read in ways.items()}
        # Jagged and padded batches in a shuffled order have the same rows, but not the same tensors.
        if table != "Shuffled" and len({json.dumps(found) for found in checksums.values()}) > 1:
            raise SystemExit(f"the ways of {table} deliver different tensors: {checksums}")
    found: Turns = {table: {way: [] for way in ways} for table, ways in WAYS.items()}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for table, ways in WAYS.items():
            for way, read in ways.items():
                wall, processor = time.perf_counter(), time.process_time()
                for _ in read(path):
                    pass
                took = time.process_time() - processor, time.perf_counter() - wall
                found[table][way].append(took)
    return found


def report(found: Turns, rounds: int) -> str:
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
        lines += ["", f"| {table} | CPU seconds | wall seconds | ratio |", "|---|---:|---:|---:|"]
        first = [processor for processor, _ in next(iter(ways.values()))]
        for way, turns in ways.items():
            ratios = [processor / base for (processor, _), base in zip(turns, first, strict=True)]
            cells = [in_words(seconds, 3) for seconds in zip(*turns, strict=True)]
            lines.append(f"| {way} | {' | '.join(cells)} | {statistics.median(ratios):.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each way (%(default)s)")
    parser.add_argument(
        "--rows", type=data.positive, default=data.ROWS, help="of criteo, an eighth of them here"
    )
    parser.add_argument("--results", default=str(Path(__file__).parents[1] / "RESULTS.md"), help="- for none")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    options = parser.parse_args()
    torch.set_num_threads(1)
    core = importlib.import_module("fastresume._core")
    if not core.IS_OPTIMIZED:
        raise SystemExit("a build with checks on says nothing about speed")
    options.directory.mkdir(parents=True, exist_ok=True)
    text = report(
        measured(data.made("jagged_nulls", options.directory, options.rows), options.rounds), options.rounds
    )
    tell(text, options.results)


if __name__ == "__main__":
    main()
