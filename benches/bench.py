"""A pass over Parquet files that ends in torch tensors, and the first batch after a resume, beside pyarrow.

    make bench                              # build for release, measure, write benches/RESULTS.md
    make bench ARGS='--rows 8000000 --results - --json out.json'

Every measurement is a process of its own; the contenders take turns, round after round, so that what else the
machine does falls on all of them alike. Figures are medians with their range. Before the first round each
contender makes one pass that is not measured: it brings the files into the page cache, and a digest of every
value shows that all contenders deliver the same rows in the same order.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import torch
from torch import Tensor

import fastresume as fr
from fastresume._core import IS_OPTIMIZED

BATCH_SIZE = 4096
GROUP_ROWS = 131_072
FILES = 4
DENSE, WIDE, NARROW = 13, 13, 13
ROW_BYTES = 1 + 8 + DENSE * 4 + WIDE * 8 + NARROW * 4
PLACES = (0, 50, 99)
"""Percents of the pass after which to resume."""

STACK = {"dense": "dense_*", "wide": "wide_*", "narrow": "narrow_*"}
Columns = Mapping[str, Tensor]

# --------------------------------------------------------------------------------------------------- the data


def write_dataset(directory: Path, num_rows: int) -> None:
    """Write click logs in the manner of Criteo's: 41 columns of skewed values, the same every time."""
    directory.mkdir(parents=True)
    bounds = [num_rows * number // FILES // GROUP_ROWS * GROUP_ROWS for number in range(FILES)] + [num_rows]
    for number, (start, end) in enumerate(itertools.pairwise(bounds)):
        path = directory / f"part-{number:03}.parquet"
        with pq.ParquetWriter(path, schema(), compression="snappy") as writer:
            for first in range(start, end, GROUP_ROWS):
                writer.write_table(
                    rows_of_group(first, min(GROUP_ROWS, end - first)), row_group_size=GROUP_ROWS
                )


def schema() -> pa.Schema:
    fields = [("label", pa.int8()), ("time", pa.int64())]
    fields += [(f"dense_{i:02}", pa.float32()) for i in range(DENSE)]
    fields += [(f"wide_{i:02}", pa.int64()) for i in range(WIDE)]
    fields += [(f"narrow_{i:02}", pa.int32()) for i in range(NARROW)]
    return pa.schema([pa.field(name, type_, nullable=False) for name, type_ in fields])


def rows_of_group(start: int, rows: int) -> pa.Table:
    random = np.random.default_rng([7, start])

    def ids(number: int) -> np.ndarray:
        """Return ids of which a few are everywhere: up to 100, 1,000, 10,000 or 100,000, by column."""
        return random.zipf(1.2 + number / 40, rows).astype(np.uint64) % np.uint64(10 ** (2 + number % 4))

    arrays: list[np.ndarray] = [
        (random.random(rows) < 0.25).astype(np.int8),
        1_700_000_000_000 + (start + np.arange(rows)) // 40 * 1000,
        *(np.floor(random.lognormal(1 + i / 4, 1.5, rows)).astype(np.float32) for i in range(DENSE)),
        *((ids(i) * np.uint64(0x9E3779B97F4A7C15)).view(np.int64) for i in range(WIDE)),  # as if hashed
        *(ids(i).astype(np.int32) for i in range(NARROW)),
    ]
    return pa.Table.from_arrays([pa.array(array) for array in arrays], schema=schema())


# --------------------------------------------------------------------------------------------- the contenders


def fastresume_iter(directory: Path, stacked: bool) -> Iterator[Columns]:
    return iter(open_dataset(directory, stacked))


def fastresume_loader(directory: Path, stacked: bool) -> Iterator[Columns]:
    return iter(fr.Loader(open_dataset(directory, stacked)))


def open_dataset(directory: Path, stacked: bool) -> fr.ParquetDataset:
    return fr.ParquetDataset(
        directory, batch_size=BATCH_SIZE, stack=STACK if stacked else None, rank=0, world_size=1
    )


def pyarrow_one_thread(directory: Path, stacked: bool) -> Iterator[Columns]:
    return pyarrow_files(directory, stacked, use_threads=False)


def pyarrow_threads(directory: Path, stacked: bool) -> Iterator[Columns]:
    return pyarrow_files(directory, stacked, use_threads=True)


def pyarrow_files(directory: Path, stacked: bool, use_threads: bool) -> Iterator[Columns]:
    for path in sorted(directory.iterdir()):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_SIZE, use_threads=use_threads):
                if batch.num_rows == BATCH_SIZE:  # as `tail="drop"` does it
                    yield to_tensors(batch, stacked)


def pyarrow_dataset(directory: Path, stacked: bool) -> Iterator[Columns]:
    for batch in pyarrow.dataset.dataset(directory, format="parquet").to_batches(batch_size=BATCH_SIZE):
        if batch.num_rows == BATCH_SIZE:
            yield to_tensors(batch, stacked)


def to_tensors(batch: pa.RecordBatch, stacked: bool) -> Columns:
    """Return tensors over Arrow's memory; only what is stacked is copied, in the fastest way found."""
    arrays = {name: column.to_numpy() for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    if not stacked:
        return {name: torch.from_numpy(array) for name, array in arrays.items()}
    tensors = {name: torch.from_numpy(arrays[name]) for name in ("label", "time")}
    for name in STACK:
        members = [array for column, array in arrays.items() if column.startswith(f"{name}_")]
        tensors[name] = torch.from_numpy(np.stack(members, axis=1))
    return tensors


CONTENDERS: dict[str, Callable[[Path, bool], Iterator[Columns]]] = {
    "fastresume `iter(dataset)`": fastresume_iter,
    "fastresume `Loader`": fastresume_loader,
    "pyarrow `iter_batches`, one thread": pyarrow_one_thread,
    "pyarrow `iter_batches`": pyarrow_threads,
    "`pyarrow.dataset`": pyarrow_dataset,
}
RIVAL = "pyarrow `iter_batches`, one thread"
"""The contender that all are compared with: of pyarrow's, the one that takes the least CPU."""

RESUMING = ["fastresume `iter(dataset)`", "fastresume `Loader`", RIVAL]


# -------------------------------------------------------------------------------------- what one process does


def measure_pass(contender: str, directory: Path, stacked: bool) -> dict[str, float]:
    """Open the dataset and read it to its end."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    rows = 0
    for batch in CONTENDERS[contender](directory, stacked):
        rows += len(batch["label"])
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": rows, "seconds": seconds, "cpu_seconds": cpu_seconds}


def digest_pass(contender: str, directory: Path, stacked: bool) -> dict[str, Any]:
    """Digest every column's values in the order in which they come."""
    names = schema().names
    digests = [hashlib.blake2b(digest_size=8) for _ in names]
    rows = 0
    for batch in CONTENDERS[contender](directory, stacked):
        rows += len(batch["label"])
        for name, digest in zip(names, digests, strict=True):
            stack, _, number = name.partition("_")
            column = batch[stack][:, int(number)] if stack in batch and number else batch[name]
            digest.update(column.contiguous().numpy().data)
    return {"rows": rows, "digest": hashlib.blake2b(b"".join(d.digest() for d in digests)).hexdigest()}


def measure_resume(contender: str, directory: Path, states: Sequence[tuple[int, Any]]) -> list[float]:
    """Return the seconds from nothing to the first batch at each place, after a trial that does not count."""
    seconds = []
    for batches, state in [states[0], *states]:
        began = time.perf_counter()
        if contender == RIVAL:
            found = next(itertools.islice(pyarrow_one_thread(directory, stacked=True), batches, None))
        else:
            dataset = open_dataset(directory, stacked=True)
            dataset.load_state_dict(state)
            found = next(iter(fr.Loader(dataset) if "Loader" in contender else dataset))
        seconds.append(time.perf_counter() - began)
        assert len(found["label"]) == BATCH_SIZE
    return seconds[1:]


def states_at_places(directory: Path) -> list[tuple[int, Any]]:
    """Return how many batches were delivered at each place, and the state then."""
    dataset = open_dataset(directory, stacked=True)
    wanted = [len(dataset) * percent // 100 for percent in PLACES]
    states = {0: dataset.state_dict()}
    for number, batch in enumerate(dataset, start=1):
        if number in wanted:
            states[number] = batch.state_dict()
    return [(batches, states[batches]) for batches in wanted]


def work(task: Mapping[str, Any]) -> object:
    warnings.simplefilter("ignore")  # Arrow's memory is read only, of which torch warns
    torch.set_num_threads(1)
    directory = Path(task["directory"])
    match task["what"]:
        case "pass":
            return measure_pass(task["contender"], directory, task["stacked"])
        case "digest":
            return digest_pass(task["contender"], directory, task["stacked"])
        case "resume":
            return measure_resume(task["contender"], directory, task["states"])
        case _:
            return states_at_places(directory)


# ------------------------------------------------------------------------------------------------------ turns


def in_process(**task: object) -> Any:
    """Do a task in a process of its own."""
    command = [sys.executable, __file__, "--task", json.dumps(task)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=600).stdout)


def check_same_rows(directory: Path) -> int:
    """Have each contender make a pass; return the number of rows, or end if they do not deliver the same."""
    found = {
        (contender, stacked): in_process(
            what="digest", contender=contender, directory=str(directory), stacked=stacked
        )
        for contender in CONTENDERS
        for stacked in (False, True)
    }
    first = found[RIVAL, False]
    for (contender, stacked), other in found.items():
        if other != first:
            sys.exit(f"{contender} (stacked: {stacked}) delivers {other}, {RIVAL} {first}")
    return int(first["rows"])


def take_turns(directory: Path, rounds: int) -> dict[str, Any]:
    """Measure everything once in each round."""
    states = in_process(what="states", directory=str(directory))
    passes: dict[bool, dict[str, list[dict[str, float]]]] = {
        stacked: {contender: [] for contender in CONTENDERS} for stacked in (False, True)
    }
    resumes: dict[str, list[list[float]]] = {contender: [] for contender in RESUMING}
    for number in range(1, rounds + 1):
        say(f"round {number} of {rounds}")
        for stacked, contender in itertools.product((False, True), CONTENDERS):
            task = {"contender": contender, "directory": str(directory), "stacked": stacked}
            passes[stacked][contender].append(in_process(what="pass", **task))
        for contender in RESUMING:
            task = {"contender": contender, "directory": str(directory), "states": states}
            resumes[contender].append(in_process(what="resume", **task))
    return {"per_column": passes[False], "stacked": passes[True], "resume": resumes}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------- the report


@dataclass(frozen=True)
class Figure:
    """Measurements of one thing, one from each round."""

    values: list[float]

    def spell(self, form: str) -> str:
        low, middle, high = min(self.values), statistics.median(self.values), max(self.values)
        return f"{middle:{form}} ({low:{form}}-{high:{form}})"

    def over(self, other: Figure) -> Figure:
        """Return the ratio within each round."""
        return Figure([one / two for one, two in zip(self.values, other.values, strict=True)])


def pass_table(measured: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    speeds, costs = {}, {}
    for name, runs in measured.items():
        speeds[name] = Figure([run["rows"] / run["seconds"] / 1e6 for run in runs])
        costs[name] = Figure([run["cpu_seconds"] / (run["rows"] * ROW_BYTES / 1e9) for run in runs])
    lines = [
        "| | million rows/s | CPU s per GB | rows/s, as a ratio | CPU, as a ratio |",
        "|---|---|---|---|---|",
    ]
    for name in measured:
        figures = (
            speeds[name],
            costs[name],
            speeds[name].over(speeds[RIVAL]),
            costs[name].over(costs[RIVAL]),
        )
        lines.append(f"| {name} | {' | '.join(figure.spell('.2f') for figure in figures)} |")
    return lines


def resume_table(measured: Mapping[str, Sequence[Sequence[float]]]) -> list[str]:
    heads = " | ".join(f"at {percent} %" for percent in PLACES)
    lines = [f"| | {heads} |", "|---" * (len(PLACES) + 1) + "|"]
    for name, rounds in measured.items():
        figures = (Figure([1000 * seconds for seconds in place]) for place in zip(*rounds, strict=True))
        told = f"{name}, reading up to the place" if name == RIVAL else name
        lines.append(f"| {told} | {' | '.join(figure.spell('.0f') for figure in figures)} |")
    return lines


RESULTS = """\
# Results

Written by `make bench`; the head of `bench.py` says how it measures. Medians of the rounds, with their range.
Compare ratios within one table, not figures of different days or machines; where ranges are wide, the machine
had other work to do as well.

{facts}

## A pass, one tensor per column

{per_column}

## A pass, columns of one type stacked into a matrix

{stacked}

Ratios are to {rival}, in the same round. CPU seconds are user and system time
of the whole process, from opening the dataset to the end of the pass; a GB is 10^9 bytes of delivered
tensors. Per column, pyarrow's tensors are views of Arrow's memory.

## Milliseconds from opening the dataset to the first batch after a resume

{resume}

Stacked. Reading the footers is in it, importing torch is not. What counts is where in its row group the place
lies, not where in the pass: a resume decodes the rest of the row group that it falls into.
"""


def report(facts: Mapping[str, Any], measured: Mapping[str, Any]) -> str:
    return RESULTS.format(
        rival=RIVAL,
        facts="\n".join(f"- {name}: {value}" for name, value in facts.items()),
        per_column="\n".join(pass_table(measured["per_column"])),
        stacked="\n".join(pass_table(measured["stacked"])),
        resume="\n".join(resume_table(measured["resume"])),
    )


def facts_of(directory: Path, rows: int, rounds: int) -> dict[str, Any]:
    files = sorted(directory.iterdir())
    stored = sum(path.stat().st_size for path in files)
    groups = sum(pq.read_metadata(path).num_row_groups for path in files)
    models = [line.partition(":")[2].strip() for line in read_cpu_info() if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0))
    machine = models[0] if models else platform.machine()
    versions = {
        "fastresume": fr.__version__,
        "pyarrow": pa.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "Python": platform.python_version(),
        "Linux": platform.release().partition("-")[0],
    }
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{cores} cores of {machine}; load average at the end {os.getloadavg()[1]:.1f}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "data": f"{rows} rows in {len(files)} files and {groups} row groups; {len(schema())} columns, "
        f"{ROW_BYTES} bytes a row as tensors, {stored / rows:.0f} as stored (snappy, dictionaries)",
        "batch size": BATCH_SIZE,
        "rounds": rounds,
    }


def read_cpu_info() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the dataset (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    parser.add_argument("--results", default=str(Path(__file__).with_name("RESULTS.md")), help="- for none")
    parser.add_argument("--json", type=Path, help="where to write every measurement")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not IS_OPTIMIZED:
        sys.exit("this build of fastresume has its checks on: measure a release build (make bench)")
    if options.task is not None:
        print(json.dumps(work(json.loads(options.task))))
        return
    directory = options.directory / f"rows-{options.rows}"
    if not directory.exists():
        say(f"writing {options.rows} rows")
        unfinished = directory.with_name(f"{directory.name}-{os.getpid()}")
        write_dataset(unfinished, options.rows)
        unfinished.rename(directory)
    say("checking that all contenders deliver the same rows")
    rows = check_same_rows(directory)
    measured = take_turns(directory, options.rounds)
    facts = facts_of(directory, rows, options.rounds)
    text = report(facts, measured)
    print(text)
    if options.results != "-":
        page = Path(options.results)
        older = page.read_text() if page.exists() else ""
        # What follows is written by other programs.
        _, title, others = older.partition("\n## Shuffle quality\n")
        page.write_text(text + title + others)
    if options.json is not None:
        options.json.write_text(json.dumps({"facts": facts, "measured": measured}, indent=1))


if __name__ == "__main__":
    main()
