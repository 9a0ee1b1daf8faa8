"""Measures mixtures, packed sequences and bins beside plain rows of the same values.

    make bench-mixing                       # build for release, make the data, measure
    make bench-mixing ARGS='--rounds 3 --results -'
    make bench-mixing ARGS='--cases "mixture of 8;bins"'   # cases whose names begin so
    make bench-mixing ARGS=--memory         # peaks beside what plan() states, in a section of its own
    make bench-mixing ARGS=--beside         # what others take for the same, in a section of its own

Mixed: 8 sources of criteo's 41 columns, with weights as they have rows, and 40 small ones; beside one plain
dataset of all their files. Packed: lists of int32, 700 on the average, compressed with zstd, as sequences of
2048, beside the same lists in batches of about as many tokens; only tokens count as bytes. Bins: the same
lists in bins of 16,384 tokens, beside batches of about as many rows.

All ways run in one process. After one pass of each they take turns, and what is compared are medians:

- CPU: of a pass of the caller's thread, for each byte that it delivers; plain's over the way's own.
- `batch_at`: its CPU over that of `read_rows` of the same rows, at some steps.
- threads: the wall clock of a pass with one thread over one with two, and the same of plain.
- opening: what it takes to make the dataset, which scans the lengths of all lists for units.

Memory is measured in a process for each case: the growth of its peak over one pass of two threads.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import data
from page import in_words, tell

LENGTH, MEAN, SEQUENCES = 2048, 700, 8
BIN_TOKENS, BINS = 16_384, 1
FEW, MANY = 8, 40
BESIDE_COLUMNS = 20
"""The mixture that others are measured on has fewer columns."""
FEWER = 16
"""Beside others, as many times fewer rows are mixed."""
PEAKS = (2, FEW, MANY)
"""Peaks of memory are those of mixtures of so many sources."""
PREFETCH_BYTES = 64 << 20
SEEN_STEPS = 20
"""So many steps are read by `batch_at`."""
ALONE = {"rank": 0, "world_size": 1}


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


def weights(count: int) -> list[int]:
    """The weights of `count` sources."""
    return [count - number if count == FEW else 1 + number % 4 for number in range(count)]


def sources(
    directory: Path, rows: int, count: int, columns: Callable[[int, int], pa.Table] = data.criteo
) -> list[Path]:
    """Folders of one file each, with as many rows as their weights say."""
    top = directory / f"sources-{columns.__name__}-{count}-{rows}"
    paths, whole = [top / f"{number:02}" for number in range(count)], sum(weights(count))
    first = 0
    for path, weight in zip(paths, weights(count), strict=True):
        of_source = rows * weight // whole
        if not path.exists():
            path.mkdir(parents=True)
            pq.write_table(columns(first, of_source), path / "0.parquet", row_group_size=data.GROUP_ROWS)
        first += of_source
    return paths


def narrow(start: int, rows: int) -> pa.Table:
    random = np.random.default_rng([29, start])
    columns: dict[str, Any] = {}
    for column in range(BESIDE_COLUMNS):
        if column % 2:
            columns[f"x_{column}"] = random.standard_normal(rows, dtype=np.float32)
        else:
            columns[f"id_{column}"] = data.skewed(random, 10 ** (2 + column // 5), rows)
    return pa.table(columns)


# -------------------------------------------------------------------------------------------------- the cases


@dataclass(frozen=True)
class Case:
    """The same values in two ways.

    Args:
        plain: the dataset of plain rows.
        other: the mixture, or the dataset of units.
        counted: the tensors that count as bytes; all if there are none.
        first_rows: where each source's rows begin among those of the plain dataset.
    """

    plain: Any
    other: Any
    counted: tuple[str, ...] = ()
    first_rows: tuple[int, ...] = ()


def mixed(options: argparse.Namespace, count: int, shuffle: bool, is_stacked: bool = False) -> Case:
    """A mixture beside one dataset of the files of all its sources."""
    fr = importlib.import_module("fastresume")
    dense = [fr.stack("ts", "i_*", name="wide"), fr.stack("c_*", name="narrow"), "label"]
    how: dict[str, Any] = {"shuffle": shuffle} | ({"columns": dense} if is_stacked else {})
    alike = {"batch_size": options.batch_size, "lanes": options.lanes, **ALONE}
    paths = sources(options.directory, options.rows, count)
    of_each = [fr.ParquetDataset(path, **how) for path in paths]
    pairs = zip(of_each, weights(count), strict=True)
    mixture = fr.Mixture({path.name: pair for path, pair in zip(paths, pairs, strict=True)}, **alike)
    first_rows = np.cumsum([0, *(of.num_rows for of in of_each[:-1])]).tolist()
    return Case(fr.ParquetDataset(paths, **how, **alike), mixture, first_rows=tuple(first_rows))


def of_units(options: argparse.Namespace, is_packed: bool, shuffle: bool) -> Case:
    """Packed sequences, or bins, beside plain rows in batches of about as many tokens."""
    fr = importlib.import_module("fastresume")
    lists = documents(options.directory, options.tokens)
    how = {"shuffle": shuffle, **ALONE}
    if is_packed:
        unit, units, tokens = fr.Packed("tokens", length=LENGTH, separator=0), SEQUENCES, SEQUENCES * LENGTH
    else:
        unit, units, tokens = fr.Bins("tokens", cost=BIN_TOKENS), BINS, BINS * BIN_TOKENS
    plain = fr.ParquetDataset(lists, batch_size=tokens // MEAN, **how)
    units = max(units, options.lanes or 1)
    other = fr.ParquetDataset(lists, batch_size=units, unit=unit, lanes=options.lanes, **how)
    return Case(plain, other, ("tokens",) if is_packed else ())


ORDERS = {"file order": False, "shuffled": True}


def cases(options: argparse.Namespace, counts: Sequence[int] = (FEW, MANY)) -> dict[str, Callable[[], Case]]:
    """How to make each case, by its name."""
    found: dict[str, Callable[[], Case]] = {}
    for order, shuffle in ORDERS.items():
        for count in counts:
            found[f"mixture of {count}, {order}"] = partial(mixed, options, count, shuffle)
        found[f"mixture of {FEW}, stacked, {order}"] = partial(mixed, options, FEW, shuffle, True)
        found[f"sequences of {LENGTH}, {order}"] = partial(of_units, options, True, shuffle)
        found[f"bins of {BIN_TOKENS:,}, {order}"] = partial(of_units, options, False, shuffle)
    asked = options.cases.split(";")
    return {name: make for name, make in found.items() if any(name.startswith(each) for each in asked)}


# -------------------------------------------------------------------------------------------------- measuring


def bytes_of(batch: Any, counted: Sequence[str]) -> int:
    """The bytes of a batch's tensors."""
    total = 0
    for name, tensor in batch.items():
        if not counted or name in counted:
            jagged = getattr(tensor, "values", None)
            parts = [tensor] if isinstance(tensor, torch.Tensor) else [jagged]
            parts += [] if counted or isinstance(tensor, torch.Tensor) else [tensor.offsets]
            total += sum(part.nbytes for part in parts)
    return total


def of_a_pass(batches: Iterable[Any], counted: Sequence[str], clock: Callable[[], float]) -> float:
    """What a pass takes by a clock for each GB that it delivers, in seconds."""
    began, delivered = clock(), 0
    for batch in batches:
        delivered += bytes_of(batch, counted)
    return (clock() - began) / max(delivered, 1) * 1e9


def of_threads(dataset: Any, counted: Sequence[str]) -> float:
    """The wall clock of a pass with one thread over that with two."""
    fr = importlib.import_module("fastresume")
    took = []
    for threads in (1, 2):
        with fr.Loader(dataset, threads=threads) as loader:
            took.append(of_a_pass(loader, counted, time.perf_counter))
    return took[0] / took[1]


def of_steps(case: Case) -> float | None:
    """The CPU of `batch_at` over that of `read_rows` of the same rows, in the middle of the steps."""
    steps, found = len(case.other), []
    for step in range(0, steps, max(steps // SEEN_STEPS, 1)):
        began = time.process_time()
        batch = case.other.batch_at(epoch=0, step=step)
        took = time.process_time() - began
        rows = batch.rows()
        if case.first_rows:
            rows = rows + np.array(case.first_rows)[np.asarray(batch.source)]
        elif not isinstance(rows, np.ndarray):  # of each unit
            rows = rows.values.numpy()
        began = time.process_time()
        case.plain.read_rows(np.unique(rows))
        found.append(took / max(time.process_time() - began, 1e-9))
    return statistics.median(found)


def measured(case: Case, rounds: int) -> dict[str, list[float]]:
    """What each round found, after one that does not count."""
    found: dict[str, list[float]] = {"speed": [], "plain": [], "own": [], "batch_at": [], "threads": []}
    for number in range(rounds + 1):
        plain = of_a_pass(case.plain, case.counted, time.process_time)
        own = of_a_pass(case.other, case.counted, time.process_time)
        step, scaled = of_steps(case), of_threads(case.plain, case.counted)
        if number:
            found["plain"].append(plain)
            found["own"].append(own)
            found["speed"].append(plain / own)
            found["batch_at"].append(step)
            found["threads"].append(of_threads(case.other, case.counted) / scaled)
    return found


def report(options: argparse.Namespace) -> str:
    """The section of the page."""
    machine = importlib.import_module("fastresume.bench.machine")
    lines = [
        "## Mixtures, packed sequences and bins",
        "",
        "Written by `make bench-mixing`; the head of `mixing.py` says what is measured, and how.",
        (
            "CPU seconds of one thread for each GB delivered, medians and ranges of "
            f"{options.rounds} rounds in turns."
        ),
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
        "",
        (
            "| | plain, s/GB | own, s/GB | plain over own | gain of two threads, of plain's "
            "| `batch_at`, of `read_rows` | opening, ms |"
        ),
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, make in cases(options).items():
        print(name, file=sys.stderr, flush=True)
        opened = []
        for _ in range(options.rounds):
            began = time.process_time()
            case = make()
            opened.append((time.process_time() - began) * 1e3)
        found = measured(case, options.rounds)
        cells = [in_words(found[each], 2) for each in ("plain", "own", "speed", "threads", "batch_at")]
        lines.append(f"| {name} | {' | '.join(cells)} | {in_words(opened, 0)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


# ----------------------------------------------------------------------------------------------------- memory


def status(name: str) -> int:
    """A number of bytes that the system states of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10
    return 0


def peak(options: argparse.Namespace) -> dict[str, int]:
    """How far memory grew over a pass of two threads, and what the plan states, in bytes."""
    fr = importlib.import_module("fastresume")
    dataset = cases(options, PEAKS)[options.peak]().other
    plan = dataset.plan()
    with fr.Loader(dataset, threads=2, prefetch_bytes=PREFETCH_BYTES) as loader:
        Path("/proc/self/clear_refs").write_text("5")
        before = status("VmHWM")
        for _ in loader:
            pass
    stated = plan.bytes_per_rank + 2 * plan.bytes_per_thread + PREFETCH_BYTES
    return {"grown": status("VmHWM") - before, "stated": stated}


def memory(options: argparse.Namespace) -> str:
    """The section of peaks."""
    lines = [
        "## Memory of mixtures, packed sequences and bins",
        "",
        "Written by `make bench-mixing ARGS=--memory`: how far a process grew over a pass of two threads,",
        "in MiB.",
        "",
        "| | lanes | grown | stated by `plan()` |",
        "|---|---:|---:|---:|",
    ]
    for name in cases(options, PEAKS):
        for lanes in (1, 8):
            given = ["--peak", name, "--lanes", str(lanes), "--directory", str(options.directory)]
            given += ["--rows", str(options.rows), "--tokens", str(options.tokens)]
            command = [sys.executable, __file__, *given]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            found = json.loads(done.stdout.splitlines()[-1])
            grown, stated = (f"{found[key] / 2**20:.0f}" for key in ("grown", "stated"))
            lines.append(f"| {name} | {lanes} | {grown} | {stated} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


# ---------------------------------------------------------------------------------------------- beside others


def beside(options: argparse.Namespace) -> str:
    """The section of what others take, as `fastresume bench` measures it."""
    names = ("arguments", "command", "machine")
    arguments, command, machine = (importlib.import_module(f"fastresume.bench.{name}") for name in names)
    paths = sources(options.directory, options.rows // FEWER, FEW, narrow)
    each = [f"{path}:{weight}" for path, weight in zip(paths, weights(FEW), strict=True)]
    lists = str(documents(options.directory, options.tokens))
    asked = {
        f"Packed, sequences of {LENGTH}": [lists, "--pack", f"tokens:{LENGTH}"],
        f"Mixed, {FEW} sources of {BESIDE_COLUMNS} columns": ["--mix", *each],
    }
    lines = [
        "## Packed sequences and mixtures beside others",
        "",
        "Written by `make bench-mixing ARGS=--beside`; `fastresume bench --help` says how it is measured.",
        f"Medians and ranges of {options.rounds} rounds.",
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
    ]
    for title, given in asked.items():
        parser = argparse.ArgumentParser()
        arguments.add_arguments(parser)
        found = command.measure(parser.parse_args([*given, "--rounds", str(options.rounds)]))
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
    parser.add_argument("--lanes", type=data.positive, help="of mixtures and what is beside them")
    parser.add_argument("--cases", default="", help="names of cases, or how they begin; joined by ';'")
    parser.add_argument("--memory", action="store_true", help="measure peaks of memory instead")
    parser.add_argument("--peak", help="print the peak of one case")
    parser.add_argument("--beside", action="store_true", help="measure others that do the same instead")
    parser.add_argument("--results", default=str(Path(__file__).parents[1] / "RESULTS.md"), help="- for none")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    options = parser.parse_args()
    torch.set_num_threads(1)
    core = importlib.import_module("fastresume._core")
    if not core.IS_OPTIMIZED and not (options.memory or options.peak):
        raise SystemExit("a build with checks on says nothing about speed")
    if options.peak:
        print(json.dumps(peak(options)))
        return
    tell((beside if options.beside else memory if options.memory else report)(options), options.results)


if __name__ == "__main__":
    main()
