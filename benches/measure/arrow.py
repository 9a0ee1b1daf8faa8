"""Measures rows of Arrow beside a Parquet file of the same, and beside how others read them.

    make bench-arrow                        # build for release, make the data, measure
    make bench-arrow ARGS='--rounds 3 --results -'
    make bench-arrow ARGS='--cases "IPC;row source"'   # cases whose names begin so

The rows are criteo's: 41 columns, 217 bytes a row. All ways of a case deliver the same values:

- IPC: an uncompressed file, mapped, in batches of 65,536 rows, beside the Parquet file (Snappy) of the same
  rows; a tensor for each column, or two matrices and the label.
- datasets: the same as a stream that `datasets.Dataset.from_file` maps, with `with_format("torch")` and
  `iter(batch_size)`; also streamed, as `to_iterable_dataset()`.
- row source: a `RowSource` whose `read()` slices a table in memory, in segments of 20,000 rows, beside the
  table itself.
- Lance: `fr.sources.lance` beside `lance.torch.data.LanceDataset`, in file order.
- shuffled: windows of the default size beside `datasets`' `.shuffle()`, whose indices are in memory.

All ways run in one process. After one pass of each they take turns. What is compared are medians of the CPU
of whole passes, all threads of the process together. Packages that are not installed are left out, and said
to be.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow import ipc

import data
from page import in_words, tell

BLOCK_ROWS, SEGMENT_ROWS = 65_536, 20_000
ALONE = (0, 1)
SUMMED = "c_0"
"""The column whose values are added, to see that all ways deliver the same."""

# --------------------------------------------------------------------------------------------------- the data


@dataclass(frozen=True)
class Rows:
    """The same rows, in each form."""

    parquet: Path
    file: Path
    stream: Path
    lance: Path
    count: int

    @classmethod
    def made(cls, directory: Path, count: int) -> Rows:
        """The rows in a directory; they are made if they are not there."""
        parquet = data.made("criteo", directory, count)
        folder = directory / f"arrow-{count}"
        found = cls(parquet, folder / "rows.arrow", folder / "rows.arrows", folder / "rows.lance", count)
        if not folder.exists():
            folder.mkdir(parents=True)
            table = found.table()
            for path, new in ((found.file, ipc.new_file), (found.stream, ipc.new_stream)):
                with new(str(path), table.schema) as writer:
                    writer.write_table(table, max_chunksize=BLOCK_ROWS)
        if is_there("lance") and not found.lance.exists():
            importlib.import_module("lance").write_dataset(found.table(), str(found.lance))
        return found

    def table(self) -> pa.Table:
        """The rows in memory."""
        table = pq.read_table(self.parquet)
        return pa.Table.from_batches(table.combine_chunks().to_batches(max_chunksize=BLOCK_ROWS))


def is_there(package: str) -> bool:
    """Whether a package is installed."""
    return importlib.util.find_spec(package) is not None


class Slices:
    """A source whose rows a function of Python gives: slices of a table."""

    def __init__(self, table: pa.Table) -> None:
        batches = [table.slice(start, SEGMENT_ROWS) for start in range(0, len(table), SEGMENT_ROWS)]
        self._segments = [batch.combine_chunks() for batch in batches]

    def snapshot(self) -> str:
        return "slices"

    def segments(self) -> list[Any]:
        segment = importlib.import_module("fastresume").sources.Segment
        return [segment(f"{number}", len(rows)) for number, rows in enumerate(self._segments)]

    def schema(self) -> pa.Schema:
        return self._segments[0].schema

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
        return self._segments[segment].select(columns).slice(start, stop - start)


# -------------------------------------------------------------------------------------------------- the cases

Way = Callable[[], Iterable[Any]]
"""Makes what is iterated over, once a pass."""


@dataclass(frozen=True)
class Case:
    """Ways to the same batches: the first one is measured, the second one is what it is beside."""

    ways: dict[str, Way]
    at_least: float | None = None


def ours(kind: str, rows: object, options: argparse.Namespace, **how: Any) -> Iterable[Any]:
    """A dataset of fastresume."""
    fr = importlib.import_module("fastresume")
    made: Iterable[Any] = getattr(fr, kind)(
        rows, batch_size=options.batch_size, tail="short", world=ALONE, **how
    )
    return made


def stacked() -> list[Any]:
    """Two matrices, the label and the time."""
    fr = importlib.import_module("fastresume")
    return [fr.stack("ts", "i_*", name="wide"), fr.stack("c_*", name="narrow"), "label"]


def of_datasets(rows: Rows, options: argparse.Namespace, how: str) -> Iterator[dict[str, torch.Tensor]]:
    """Batches as the package `datasets` makes them."""
    datasets = importlib.import_module("datasets")
    made = datasets.Dataset.from_file(str(rows.stream))
    if how == "shuffled":
        made = made.shuffle(seed=1, keep_in_memory=True)
    if how == "streamed":
        made = made.to_iterable_dataset()
    batches: Iterator[dict[str, torch.Tensor]] = made.with_format("torch").iter(batch_size=options.batch_size)
    return batches


def of_lance(rows: Rows, options: argparse.Namespace) -> Iterable[Any]:
    """Batches as Lance's own dataset makes them."""
    made: Iterable[Any] = importlib.import_module("lance.torch.data").LanceDataset(
        str(rows.lance), batch_size=options.batch_size
    )
    return made


def cases(rows: Rows, options: argparse.Namespace) -> dict[str, Case]:
    """Each case by its name."""
    fr = importlib.import_module("fastresume")
    table = rows.table()
    source = Slices(table)
    parquet = partial(ours, "ParquetDataset", rows.parquet, options)
    file = partial(ours, "ArrowDataset", rows.file, options)
    found = {
        "IPC, a tensor per column": Case({"IPC": file, "Parquet": parquet}, 1.5),
        "IPC, stacked": Case(
            {"IPC": partial(file, columns=stacked()), "Parquet": partial(parquet, columns=stacked())}, 1.2
        ),
        "row source": Case(
            {
                "row source": partial(ours, "ArrowDataset", source, options),
                "table": partial(ours, "ArrowDataset", table, options),
            },
            0.8,
        ),
    }
    if is_there("datasets"):
        stream = partial(ours, "ArrowDataset", rows.stream, options)
        for how, at_least in (("in memory", 5.0), ("streamed", 5.0), ("shuffled", 10.0)):
            own = partial(stream, shuffle=True) if how == "shuffled" else stream
            name = "shuffled" if how == "shuffled" else f"datasets, {how}"
            found[name] = Case({"IPC": own, "datasets": partial(of_datasets, rows, options, how)}, at_least)
    if is_there("lance"):
        own = partial(ours, "ArrowDataset", fr.sources.lance(str(rows.lance)), options)
        found["Lance"] = Case({"fastresume": own, "LanceDataset": partial(of_lance, rows, options)}, 1.0)
    asked = options.cases.split(";")
    return {name: case for name, case in found.items() if any(name.startswith(each) for each in asked)}


# -------------------------------------------------------------------------------------------------- measuring


def added(batch: Any) -> int:
    """The sum of a column of a batch."""
    if SUMMED in batch:
        return int(batch[SUMMED].sum())
    return int(batch["narrow"][:, 0].sum())


def of_a_pass(way: Way, count: int) -> tuple[float, int]:
    """What a pass takes of CPU for each million rows, in seconds; and the sum of a column."""
    batches = way()
    began, summed, rows = time.process_time(), 0, 0
    for batch in batches:
        summed += added(batch)
        rows += len(next(iter(dict(batch).values())))
    took = time.process_time() - began
    if rows != count:
        raise SystemExit(f"{rows} rows came, there are {count}")
    return took / count * 1e6, summed


def measured(case: Case, rounds: int, count: int) -> dict[str, list[float]]:
    """What each round found, after one that does not count."""
    found: dict[str, list[float]] = {name: [] for name in case.ways}
    sums = set()
    for number in range(rounds + 1):
        for name, way in case.ways.items():
            took, summed = of_a_pass(way, count)
            sums.add(summed)
            found[name] += [took] if number else []
    if len(sums) > 1:
        raise SystemExit(f"the sums of {SUMMED} differ: {sorted(sums)}")
    return found


def report(options: argparse.Namespace) -> str:
    """The section of the page."""
    machine = importlib.import_module("fastresume.bench.machine")
    rows = Rows.made(options.directory, options.rows)
    lines = [
        "## Arrow",
        "",
        "Written by `make bench-arrow`; the head of `arrow.py` says what is measured, and how.",
        (
            f"CPU seconds for a million rows, batches of {options.batch_size}; medians and ranges of "
            f"{options.rounds} rounds in turns."
        ),
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
        *([f"- the machine meanwhile: {options.loaded}"] if options.loaded else []),
        "",
        "| | ours | beside it | ours | beside it | times as fast | asked for |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for name, case in cases(rows, options).items():
        print(name, file=sys.stderr, flush=True)
        found = measured(case, options.rounds, rows.count)
        own, other = found
        faster = [theirs / mine for mine, theirs in zip(found[own], found[other], strict=True)]
        cells = [name, own, other, in_words(found[own], 3), in_words(found[other], 3), in_words(faster, 2)]
        lines.append(f"| {' | '.join(cells)} | {case.at_least or ''} |")
        print(lines[-1], file=sys.stderr, flush=True)
    missing = [package for package in ("datasets", "lance") if not is_there(package)]
    if missing:
        lines += ["", f"Not installed, so not measured: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each way (%(default)s)")
    parser.add_argument("--rows", type=data.positive, default=data.ROWS, help="of criteo (%(default)s)")
    parser.add_argument("--batch-size", type=data.positive, default=4096, help="rows (%(default)s)")
    parser.add_argument("--cases", default="", help="names of cases, or how they begin; joined by ';'")
    parser.add_argument("--loaded", default="", help="what else the machine did, for the page")
    parser.add_argument("--results", default=str(Path(__file__).parents[1] / "RESULTS.md"), help="- for none")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    options = parser.parse_args()
    torch.set_num_threads(1)
    core = importlib.import_module("fastresume._core")
    if not core.IS_OPTIMIZED and options.results != "-" and not options.loaded:
        raise SystemExit("a build with checks on says little about speed: name --results - to see it")
    tell(report(options), options.results)


if __name__ == "__main__":
    main()
