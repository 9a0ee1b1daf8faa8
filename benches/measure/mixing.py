"""Measures packed sequences beside the same lists, and a mixture beside the same files in one dataset.

    make bench-mixing                       # build for release, make the data, measure
    make bench-mixing ARGS='--rounds 3 --results -'
    make bench-mixing ARGS=--beside         # what others take for the same, in a section of its own

Packed: lists of int32, 700 on the average, compressed with zstd, delivered jagged and as sequences of 2048,
in file order and shuffled; batches have about as many tokens. Mixed: 8 sources of 20 columns with weights as
they have rows, and one dataset of all their files.

All ways run in one process, each on the caller's thread. After one pass of each they take turns, and what is
compared are medians of CPU time: of a pass, and of `batch_at` at some steps. What it takes to open a packed
dataset, which scans the lengths of all lists, is measured apart. The tables go to RESULTS.md.

Beside others, both are measured by `fastresume bench`, mixing over fewer rows: most of them make an object of
each row.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import data
from page import in_words, tell

LENGTH, MEAN, SEQUENCES = 2048, 700, 8
SOURCES, COLUMNS = 8, 20
FEWER = 16
"""Beside others, as many times fewer rows are mixed."""
SEEN_STEPS = 20
"""So many steps are read by `batch_at`."""


# --------------------------------------------------------------------------------------------------- the data


def documents(directory: Path, tokens: int) -> Path:
    """Lists of tokens, in two files."""
    path = directory / f"documents-{tokens}"
    if not path.exists():
        path.mkdir(parents=True)
        for number in range(2):
            random = np.random.default_rng([23, number])
            lengths = random.gamma(2, MEAN / 2, tokens // 2 // MEAN).astype(np.int32)
            values = data.skewed(random, data.VOCABULARY, int(lengths.sum())).astype(np.int32)
            offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)])
            table = pa.table({"tokens": pa.ListArray.from_arrays(offsets, values)})
            pq.write_table(table, path / f"{number}.parquet", compression="zstd", row_group_size=8192)
    return path


def sources(directory: Path, rows: int) -> list[Path]:
    """Folders of one file each: the first has eight times the rows of the last."""
    paths = [directory / f"sources-{rows}" / str(number) for number in range(SOURCES)]
    for number, path in enumerate(paths):
        if not path.exists():
            path.mkdir(parents=True)
            random = np.random.default_rng([29, number])
            count = rows * (SOURCES - number) * 2 // (SOURCES * (SOURCES + 1))
            columns: dict[str, Any] = {}
            for column in range(COLUMNS):
                if column % 2:
                    columns[f"x_{column}"] = random.standard_normal(count, dtype=np.float32)
                else:
                    columns[f"id_{column}"] = data.skewed(random, 10 ** (2 + column // 5), count)
            pq.write_table(pa.table(columns), path / "0.parquet", row_group_size=data.GROUP_ROWS)
    return paths


# --------------------------------------------------------------------------------------------------- the ways


def ways(directory: Path, tokens: int, rows: int, batch_size: int) -> dict[str, dict[str, Any]]:
    """Of each table its ways: datasets."""
    fr = importlib.import_module("fastresume")
    alone = {"rank": 0, "world_size": 1}
    lists, paths = documents(directory, tokens), sources(directory, rows)
    unit = fr.Packed("tokens", length=LENGTH, separator=0)
    found: dict[str, dict[str, Any]] = {}
    for name, shuffle in (("in file order", False), ("shuffled", True)):
        found[f"Packed, {name}"] = {
            "jagged": fr.ParquetDataset(
                lists, batch_size=SEQUENCES * LENGTH // MEAN, shuffle=shuffle, **alone
            ),
            "packed": fr.ParquetDataset(lists, batch_size=SEQUENCES, unit=unit, shuffle=shuffle, **alone),
        }
        weights = {
            str(number): (fr.ParquetDataset(path, shuffle=shuffle), SOURCES - number)
            for number, path in enumerate(paths)
        }
        found[f"Mixed, {name}"] = {
            "concatenation": fr.ParquetDataset(paths, batch_size=batch_size, shuffle=shuffle, **alone),
            "mixture": fr.Mixture(weights, batch_size=batch_size, **alone),
        }
    return found


def of_a_pass(dataset: Any) -> tuple[float, float]:
    """What a pass takes of the CPU for each batch, and its batches."""
    began, batches = time.process_time(), 0
    for _ in dataset:
        batches += 1
    return (time.process_time() - began) * 1e3, batches


def of_steps(dataset: Any) -> float:
    """What `batch_at` takes of the CPU, in the middle of the steps."""
    steps = len(dataset)
    found = []
    for step in range(0, steps, max(steps // SEEN_STEPS, 1)):
        began = time.process_time()
        dataset.batch_at(epoch=0, step=step)
        found.append((time.process_time() - began) * 1e3)
    return statistics.median(found)


# -------------------------------------------------------------------------------------------------- measuring


Turns = dict[str, dict[str, list[tuple[float, float, int]]]]
"""Of each table and way: what a pass and a `batch_at` took, in milliseconds, and the batches of a pass."""


def measured(made: dict[str, dict[str, Any]], rounds: int) -> Turns:
    """What each way took, round by round, after one that does not count."""
    found: Turns = {table: {way: [] for way in datasets} for table, datasets in made.items()}
    for number in range(rounds + 1):
        print(f"round {number} of {rounds}", file=sys.stderr, flush=True)
        for table, datasets in made.items():
            for way, dataset in datasets.items():
                took, batches = of_a_pass(dataset)
                if number:
                    found[table][way].append((took, of_steps(dataset), int(batches)))
    return found


def opening(directory: Path, tokens: int) -> float:
    """What it takes to open a packed dataset, in milliseconds of the CPU."""
    fr = importlib.import_module("fastresume")
    unit = fr.Packed("tokens", length=LENGTH, separator=0)
    began = time.process_time()
    fr.ParquetDataset(documents(directory, tokens), batch_size=SEQUENCES, unit=unit, rank=0, world_size=1)
    return (time.process_time() - began) * 1e3


def report(found: Turns, rounds: int, opened: Sequence[float]) -> str:
    """The section of the page."""
    machine = importlib.import_module("fastresume.bench.machine")
    lines = [
        "## Packed sequences and mixtures",
        "",
        "Written by `make bench-mixing`; the head of `mixing.py` says what is measured, and how. CPU",
        f"milliseconds of a pass and of a `batch_at`, medians of {rounds} rounds in turns, with their range.",
        "The speed is the time of the table's first way over the way's own, the median of the rounds.",
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
        f"- to open the packed dataset: {in_words(opened, 2)} ms",
    ]
    for table, ways_of in found.items():
        lines += ["", f"| {table} | a pass | batches | speed | `batch_at` |", "|---|---:|---:|---:|---:|"]
        first = [took for took, _, _ in next(iter(ways_of.values()))]
        for way, turns in ways_of.items():
            passes, steps, batches = zip(*turns, strict=True)
            speed = statistics.median(base / took for base, took in zip(first, passes, strict=True))
            cells = [in_words(passes, 2), f"{batches[0]:,}", f"{speed:.2f}", in_words(steps, 2)]
            lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def beside(directory: Path, tokens: int, rows: int, rounds: int) -> str:
    """The section of what others take, as `fastresume bench` measures it."""
    names = ("arguments", "command", "machine")
    arguments, command, machine = (importlib.import_module(f"fastresume.bench.{name}") for name in names)
    each = [f"{path}:{SOURCES - number}" for number, path in enumerate(sources(directory, rows // FEWER))]
    asked = {
        f"Packed, sequences of {LENGTH}": [str(documents(directory, tokens)), "--pack", f"tokens:{LENGTH}"],
        f"Mixed, {SOURCES} sources of {COLUMNS} columns": ["--mix", *each],
    }
    lines = [
        "## Packed sequences and mixtures beside others",
        "",
        "Written by `make bench-mixing ARGS=--beside`; `fastresume bench --help` says how it is measured.",
        f"Medians and ranges of {rounds} rounds.",
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
    ]
    for title, given in asked.items():
        parser = argparse.ArgumentParser()
        arguments.add_arguments(parser)
        found = command.measure(parser.parse_args([*given, "--rounds", str(rounds)]))
        if found.is_interrupted or found.faults:
            raise SystemExit("\n".join(found.lines()))
        lines += ["", f"### {title}", "", *found.pass_table()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each way (%(default)s)")
    parser.add_argument("--tokens", type=data.positive, default=20_000_000, help="of all lists (%(default)s)")
    parser.add_argument("--rows", type=data.positive, default=data.ROWS, help="of all sources (%(default)s)")
    parser.add_argument("--batch-size", type=data.positive, default=2048, help="of mixtures (%(default)s)")
    parser.add_argument("--beside", action="store_true", help="measure others that do the same instead")
    parser.add_argument("--results", default=str(Path(__file__).parents[1] / "RESULTS.md"), help="- for none")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    options = parser.parse_args()
    torch.set_num_threads(1)
    core = importlib.import_module("fastresume._core")
    if not core.IS_OPTIMIZED:
        raise SystemExit("a build with checks on says nothing about speed")
    if options.beside:
        text = beside(options.directory, options.tokens, options.rows, options.rounds)
    else:
        made = ways(options.directory, options.tokens, options.rows, options.batch_size)
        opened = [opening(options.directory, options.tokens) for _ in range(options.rounds)]
        text = report(measured(made, options.rounds), options.rounds, opened)
    tell(text, options.results)


if __name__ == "__main__":
    main()
