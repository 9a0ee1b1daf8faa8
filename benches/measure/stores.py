"""Measures reading from a store of objects beside reading local files, and beside other libraries.

    make bench-stores                       # build for release, make the data, measure
    make bench-stores ARGS='--rounds 3 --results -'

The store is a server on this machine, in a process of its own: it speaks as much of S3 as readers ask for.
It waits before each answer as long as the row of the table says. It takes a part of the cores, as no store
elsewhere does.

Each measurement is a process of its own, whose first pass, over files on the disk, does not count. The ways
of a row take turns. A ratio is that of one round, and the median of these is told. The table goes to
RESULTS.md.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import data
from page import in_words, tell

FILES = 10_000
"""Objects of the row that opens many."""

OPTIONS = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing", "region": "us-east-1"}
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}


@dataclass(frozen=True)
class Way:
    """One side of a row.

    Args:
        title: what it is, for the table.
        work: the function below that does it.
        where: "local" or "store".
        name: the data set.
        latency_ms: how long the server waits before each answer.
        how: arguments of the function.
    """

    title: str
    work: str
    where: str
    name: str
    latency_ms: int = 0
    how: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Row:
    """Ways that are compared by wall clock or CPU time, each with the first one.

    Args:
        title: what the row is about.
        figure: "seconds" or "cpu_seconds".
        base: what the others are compared with.
        others: the ways that are compared.
    """

    title: str
    figure: str
    base: Way
    others: tuple[Way, ...]


THREADS = (("threads", 2),)
SHUFFLED = (*THREADS, ("shuffle", True))
ROWS = (
    Row(
        "CPU time of a pass, one thread",
        "cpu_seconds",
        Way("local files", "passed", "local", "criteo"),
        (Way("the store, no latency", "passed", "store", "criteo"),),
    ),
    Row(
        "wall clock of a pass, large row groups, 2 threads",
        "seconds",
        Way("the store, no latency", "passed", "store", "criteo_large", 0, THREADS),
        (Way("30 ms added", "passed", "store", "criteo_large", 30, THREADS),),
    ),
    Row(
        "wall clock of a pass, 100 ms added, 2 threads",
        "seconds",
        Way("fastresume", "passed", "store", "criteo", 100, THREADS),
        (
            Way("polars, a scan", "scanned", "store", "criteo", 100),
            Way("HF datasets, streaming", "streamed", "store", "criteo", 100),
        ),
    ),
    Row(
        "wall clock of a pass, 30 ms added, 2 threads",
        "seconds",
        Way("in file order", "passed", "store", "criteo", 30, THREADS),
        (Way("shuffled", "passed", "store", "criteo", 30, SHUFFLED),),
    ),
    Row(
        "from opening to the first batch, 30 ms added",
        "seconds",
        Way("of a pass", "resumed", "store", "criteo", 30, (("place", 0.0),)),
        (Way("of a resume at 90 %", "resumed", "store", "criteo", 30, (("place", 0.9),)),),
    ),
    Row(
        f"opening {FILES:,} objects, no latency",
        "seconds",
        Way("with a manifest cache", "opened", "store", "many", 0, (("is_cached", True),)),
        (Way("without", "opened", "store", "many"),),
    ),
    Row(
        "wall clock of a second pass, 2 threads",
        "seconds",
        Way("local files", "passed", "local", "criteo", 0, THREADS),
        (Way("from `fr.Cache(data=)`", "passed", "store", "criteo", 0, (*THREADS, ("is_kept", True))),),
    ),
)


# -------------------------------------------------------------------------------------------------- the works


def dataset_of(path: str, options: dict[str, str], **how: Any) -> Any:
    fr = importlib.import_module("fastresume")
    return fr.ParquetDataset(
        path, batch_size=4096, world=(0, 1), tail="short", storage_options=options or None, **how
    )


def read(dataset: Any, threads: int = 0) -> int:
    fr = importlib.import_module("fastresume")
    if not threads:
        return sum(batch.num_rows for batch in dataset)
    with fr.Loader(dataset, threads=threads) as loader:
        return sum(batch.num_rows for batch in loader)


@contextmanager
def measured() -> Iterator[dict[str, float]]:
    """What the block takes."""
    found: dict[str, float] = {}
    cpu, began = time.process_time(), time.perf_counter()
    yield found
    found["seconds"], found["cpu_seconds"] = time.perf_counter() - began, time.process_time() - cpu


def passed(
    path: str,
    local: str,
    options: dict[str, str],
    threads: int = 0,
    shuffle: bool = False,
    is_kept: bool = False,
) -> dict[str, float]:
    fr = importlib.import_module("fastresume")
    read(dataset_of(local, {}, shuffle=shuffle), threads)
    with tempfile.TemporaryDirectory() as directory:
        how = {"shuffle": shuffle, **({"cache": fr.Cache(data=directory)} if is_kept else {})}
        dataset = dataset_of(path, options, **how)
        if is_kept:
            read(dataset, threads)
        with measured() as found:
            found["rows"] = read(dataset, threads)
        return found


def resumed(path: str, local: str, options: dict[str, str], place: float) -> dict[str, float]:
    whole = dataset_of(local, {})
    state, steps = whole.state_dict(), int(len(whole) * place)
    for batch in whole:
        if batch.step + 1 == steps:
            state = batch.state_dict()
            break
    with measured() as found:
        dataset = dataset_of(path, options)
        dataset.load_state_dict(state)
        found["rows"] = next(iter(dataset)).num_rows
    return found


def opened(path: str, local: str, options: dict[str, str], is_cached: bool = False) -> dict[str, float]:
    dataset_of(local, {})
    with tempfile.TemporaryDirectory() as directory:
        fr = importlib.import_module("fastresume")
        how = {"cache": fr.Cache(manifest=Path(directory) / "manifest")} if is_cached else {}
        if is_cached:
            dataset_of(path, options, **how)
        with measured() as found:
            found["rows"] = dataset_of(path, options, **how).num_rows
        return found


def scanned(path: str, local: str, options: dict[str, str]) -> dict[str, float]:
    polars = importlib.import_module("polars")
    polars.scan_parquet(f"{local}/*.parquet").collect(engine="streaming")
    asked = {
        "aws_endpoint_url": options["endpoint_url"],
        "aws_region": options["region"],
        "aws_allow_http": "true",
        **{name: value for name, value in options.items() if name.startswith("aws_")},
    }
    with measured() as found:
        lazy = polars.scan_parquet(f"{path}/*.parquet", storage_options=asked)
        found["rows"] = lazy.collect(engine="streaming").height
    return found


def streamed(path: str, local: str, options: dict[str, str]) -> dict[str, float]:
    module = importlib.import_module("datasets")
    files = sorted(each.name for each in Path(local).iterdir())
    web = f"{options['endpoint_url']}/{path.partition('://')[2]}"

    def rows(base: str) -> int:
        names = [f"{base}/{name}" for name in files]
        found = module.load_dataset("parquet", data_files=names, split="train", streaming=True)
        return sum(table.num_rows for table in found.with_format("arrow").iter(batch_size=4096))

    rows(local)
    with measured() as found:
        found["rows"] = rows(web)
    return found


# -------------------------------------------------------------------------------------------------- measuring


@contextmanager
def serving(directory: Path, latency_ms: int) -> Iterator[str]:
    """A server of the folders in a directory, as a bucket each; gives its address."""
    program = Path(__file__).parents[1] / "object_server.py"
    command = [sys.executable, str(program), str(directory), str(latency_ms)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def turn(way: Way, directory: Path) -> dict[str, float]:
    """What a way took, in a process of its own."""
    local = directory / "bench" / way.name
    with serving(directory, way.latency_ms) as address:
        options = {**OPTIONS, "endpoint_url": address} if way.where == "store" else {}
        path = f"s3://bench/{way.name}" if way.where == "store" else str(local)
        request = {"path": path, "local": str(local), "options": options, **dict(way.how)}
        ended = subprocess.run(
            [sys.executable, __file__, "--work", way.work],
            input=json.dumps(request),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env={**os.environ, **OFFLINE},
        )
    found: dict[str, float] = json.loads(ended.stdout)
    return found


def many(directory: Path) -> None:
    """Small files, a thousand in each folder."""
    if directory.exists():
        return
    pa, pq = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    for number in range(FILES):
        path = directory / f"day={number // 1000:02}" / f"{number:05}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": [number, 1], "y": [0.5, 1.5]}), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))


def report(rows: dict[str, list[list[dict[str, float]]]], rounds: int) -> str:
    """The section of the page."""
    machine = importlib.import_module("fastresume.bench.machine")
    lines = [
        "## Stores of objects",
        "",
        "Written by `make bench-stores`; the head of `stores.py` says what is measured, and how. Seconds,",
        f"medians of {rounds} rounds in turns, with their range. The ratio is the way's seconds over those",
        "of the row's first.",
        "",
        *(f"- {name}: {fact}" for name, fact in machine.facts().items()),
        "",
        "| | way | seconds | ratio |",
        "|---|---|---:|---:|",
    ]
    for row in ROWS:
        turns = rows.get(row.title)
        if not turns:
            continue
        for number, way in enumerate((row.base, *row.others)):
            took = [each[number][row.figure] for each in turns]
            ratio = statistics.median(each[number][row.figure] / each[0][row.figure] for each in turns)
            found = "" if number else row.title
            lines.append(
                f"| {found} | {way.title} | {in_words(took, 3)} | {f'{ratio:.2f}' if number else ''} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of each way (%(default)s)")
    parser.add_argument("--rows", type=data.positive, default=data.ROWS, help="of criteo (%(default)s)")
    parser.add_argument("--results", default=str(Path(__file__).parents[1] / "RESULTS.md"), help="- for none")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        importlib.import_module("torch").set_num_threads(1)
        print(json.dumps(globals()[options.work](**json.load(sys.stdin))))
        return
    core = importlib.import_module("fastresume._core")
    if not core.IS_OPTIMIZED:
        raise SystemExit("a build with checks on says nothing about speed")
    bucket = options.directory / f"objects-{options.rows}" / "bench"
    for name in ("criteo", "criteo_large"):
        if not (bucket / name).exists():
            data.write(name, bucket / name, options.rows)
    many(bucket / "many")
    found: dict[str, list[list[dict[str, float]]]] = {row.title: [] for row in ROWS}
    for number in range(options.rounds):
        for row in ROWS:
            print(f"round {number + 1} of {options.rounds}: {row.title}", file=sys.stderr, flush=True)
            turns = [turn(way, bucket.parent) for way in (row.base, *row.others)]
            if len({each["rows"] for each in turns}) > 1:
                raise SystemExit(f"{row.title}: not all delivered the same rows: {turns}")
            found[row.title].append(turns)
    text = report(found, options.rounds)
    tell(text, options.results)


if __name__ == "__main__":
    main()
