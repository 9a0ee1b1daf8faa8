"""Measures a Kafka topic beside how others read one, and beside a Parquet file of the same rows.

    make bench-kafka                        # build for release, start a broker, measure
    make bench-kafka ARGS='--messages 2000 --rounds 3 --results -'
    make bench-kafka ARGS='--minutes 10'    # also the memory over so many minutes of rounds

Messages are Arrow IPC streams of 128 rows and 40 columns (26 of int64, 14 of float32), in 16 partitions of
the broker of the tests, in a process of its own. Each way reads all of them in a process of its own:

- fastresume: `KafkaDataset(stop="end")` behind a `Loader` of one thread.
- group: how TorchEasyRec reads: a consumer of a group, `pyarrow.ipc`, tables joined and cut into batches, and
  a tensor for each column. It has no state that resumes within a message.
- parquet: the same rows in a Parquet file behind a `Loader` of one thread.

CPU is user and system time of all threads of the process, from opening to the last batch, without imports.
Batches have 4096 rows, and the sum of a column is compared.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from page import in_words, tell

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

ROWS, WHOLE, REAL, PARTITIONS, BATCH = 128, 26, 14, 16, 4096
NAMES = [f"i_{number}" for number in range(WHOLE)] + [f"f_{number}" for number in range(REAL)]
ALONE = (0, 1)
LATENCIES = 50


def table(number: int) -> pa.Table:
    """The rows of a message."""
    random = np.random.default_rng([5, number])
    columns = [random.integers(0, 1 << 20, ROWS) for _ in range(WHOLE)]
    columns += [random.normal(size=ROWS).astype(np.float32) for _ in range(REAL)]
    fields = [
        pa.field(name, pa.array(column).type, nullable=False)
        for name, column in zip(NAMES, columns, strict=True)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def packed(rows: pa.Table) -> bytes:
    """A message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


# --------------------------------------------------------------------------------------------------- the ways


def from_kafka(address: str, **given: Any) -> Iterator[Any]:
    """Batches of a topic up to its end."""
    import fastresume as fr
    from fastresume.kafka import KafkaDataset

    dataset = KafkaDataset(address, batch_size=BATCH, world=ALONE, stop="end", max_wait=0.2, **given)
    with fr.Loader(dataset, threads=1) as loader:
        yield from loader
    dataset.close()


def from_parquet(path: str) -> Iterator[Any]:
    """Batches of a Parquet file."""
    import fastresume as fr

    with fr.Loader(fr.ParquetDataset(path, batch_size=BATCH, world=ALONE), threads=1) as loader:
        yield from loader


def from_group(address: str, messages: int) -> Iterator[dict[str, torch.Tensor]]:
    """Batches as TorchEasyRec makes them: it commits by itself, and knows places by messages alone."""
    from confluent_kafka import Consumer

    servers, topic = address.removeprefix("kafka://").split("/")
    config = {
        "bootstrap.servers": servers,
        "group.id": f"bench-{time.time()}",
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(config)
    consumer.subscribe([topic])
    waiting: list[pa.Table] = []
    count = seen = 0
    while seen < messages:
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                seen += 1
                waiting.append(pa.ipc.open_stream(message.value()).read_all())
                count += waiting[-1].num_rows
        if count >= BATCH:
            joined = pa.concat_tables(waiting)
            whole = count // BATCH * BATCH
            for first in range(0, whole, BATCH):
                part = joined.slice(first, BATCH)
                yield {name: torch.from_numpy(part[name].to_numpy()) for name in part.column_names}
            waiting, count = [joined.slice(whole)], count - whole
    consumer.close()


def measure(way: str, where: str, messages: int) -> dict[str, float]:
    """What a way takes, in this process."""
    batches: Iterator[Any]
    makes: dict[str, Callable[[], Iterator[Any]]] = {
        "fastresume": lambda: from_kafka(where),
        "group": lambda: from_group(where, messages),
        "parquet": lambda: from_parquet(where),
    }
    for name in ("fastresume", "fastresume.kafka", "confluent_kafka.admin"):
        __import__(name)
    torch.from_numpy(np.zeros(1)).sum()
    batches, rows, total = makes[way](), 0, 0
    before, began = _cpu(), time.perf_counter()
    for batch in batches:
        rows += len(batch["i_0"])
        total += int(batch["i_0"].sum())
    return {"cpu": _cpu() - before, "wall": time.perf_counter() - began, "rows": rows, "sum": total}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# ------------------------------------------------------------------------------------------------- one by one


def latencies(broker: Any) -> list[float]:
    """Seconds from `produce` to the batch, with rounds of a batch."""
    import fastresume as fr
    from fastresume.kafka import ArrowIPC, KafkaDataset

    value = ArrowIPC(table(0).schema)
    given: dict[str, Any] = {"batch_size": ROWS, "round_rows": ROWS, "max_wait": 0.2, "world": ALONE}
    dataset = KafkaDataset(broker.address, start="latest", value=value, **given)
    found = []
    with fr.Loader(dataset, threads=1) as loader:
        batches = iter(loader)
        for number in range(LATENCIES):
            message = packed(table(number))
            began = time.perf_counter()
            broker.send([(0, message)])
            next(batches)
            found.append(time.perf_counter() - began)
    dataset.close()
    return found


def first_batches(address: str, rounds: int) -> dict[str, list[float]]:
    """Seconds to the first batch of a fresh start, and of a resume in the middle of a round."""
    import itertools

    import fastresume as fr
    from fastresume.kafka import KafkaDataset

    given: dict[str, Any] = {"batch_size": BATCH, "world": ALONE, "round_rows": 16 * BATCH, "max_wait": 0.2}
    dataset = KafkaDataset(address, **given)
    with fr.Loader(dataset, threads=1) as loader:
        state = list(itertools.islice(loader, 8))[-1].state_dict()
    dataset.close()
    found: dict[str, list[float]] = {"fresh": [], "resumed": []}
    for _ in range(rounds):
        for way, seconds in found.items():
            began = time.perf_counter()
            dataset = KafkaDataset(address, **given)
            with fr.Loader(dataset, threads=1) as loader:
                if way == "resumed":
                    loader.load_state_dict(state)
                next(iter(loader))
                seconds.append(time.perf_counter() - began)
            dataset.close()
    return found


def memory(broker: Any, minutes: float, messages: int) -> list[tuple[float, int, float]]:
    """Minutes, rounds and MiB of resident memory, once for each tenth of the time."""
    import fastresume as fr
    from fastresume.kafka import ArrowIPC, KafkaDataset

    given: dict[str, Any] = {"batch_size": BATCH, "round_rows": 8 * BATCH, "max_wait": 0.2, "world": ALONE}
    dataset = KafkaDataset(broker.address, start="latest", value=ArrowIPC(table(0).schema), **given)
    made = [packed(table(number)) for number in range(messages)]
    ends = time.monotonic() + 60 * minutes
    begins = time.monotonic()
    found: list[tuple[float, int, float]] = []
    with fr.Loader(dataset, threads=1) as loader:
        batches = iter(loader)
        while time.monotonic() < ends:
            broker.send((number % PARTITIONS, one) for number, one in enumerate(made))
            for _ in range(messages * ROWS // BATCH):
                next(batches)
            for partition in range(PARTITIONS):
                broker.delete_before(partition, -1)  # all that there is: the broker has it in memory
            passed = time.monotonic() - begins
            if passed >= len(found) * 6 * minutes:
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                found.append((passed / 60, loader.epoch, pages * resource.getpagesize() / (1 << 20)))
    dataset.close()
    return found


def main() -> None:
    """Measure, and write the section of the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--results", default=str(Path(__file__).resolve().parents[1] / "RESULTS.md"))
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--where", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        print(json.dumps(measure(given.way, given.where, given.messages)))
        return
    from support.kafka_broker import Broker

    lines = [
        f"{given.messages:,} messages of {ROWS} rows and {len(NAMES)} columns, in {PARTITIONS} partitions."
    ]
    with tempfile.TemporaryDirectory() as directory, Broker(partitions=PARTITIONS) as broker:
        path = Path(directory) / "rows.parquet"
        tables = [table(number) for number in range(given.messages)]
        pq.write_table(pa.concat_tables(tables), path, row_group_size=1 << 17)
        broker.send((number % PARTITIONS, packed(one)) for number, one in enumerate(tables))
        found: dict[str, list[dict[str, float]]] = {"fastresume": [], "group": [], "parquet": []}
        for _ in range(given.rounds):
            for way, runs in found.items():
                where = str(path) if way == "parquet" else broker.address
                command = [sys.executable, __file__, "--way", way, "--where", where]
                command += ["--messages", str(given.messages)]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                runs.append(json.loads(done.stdout))
        sums = {way: {one["sum"] for one in each} for way, each in found.items()}
        if sums["fastresume"] != sums["group"] or len(sums["group"]) != 1:
            # The last rows make no batch; who has partitions in other orders leaves out other ones.
            lines.append("The rows that make no whole batch differ, so sums do.")
        each = {way: [one["rows"] / one["cpu"] / 1e6 for one in runs] for way, runs in found.items()}
        rates = {way: in_words(values, 2) for way, values in each.items()}
        lines += [
            "",
            "| way | million rows per CPU second | beside group | beside parquet |",
            "|---|---|---|---|",
        ]
        middle = {way: statistics.median(values) for way, values in each.items()}
        for way, rate in rates.items():
            beside = (f"{middle[way] / middle[other]:.2f}" for other in ("group", "parquet"))
            lines.append(f"| {way} | {rate} | {' | '.join(beside)} |")
        first = first_batches(broker.address, given.rounds)
        ratio = statistics.median(first["resumed"]) / statistics.median(first["fresh"])
        fresh, resumed = (in_words(first[way], 2) for way in ("fresh", "resumed"))
        message = f"Seconds to the first batch, rounds of {16 * BATCH:,} rows: {fresh} of a fresh start, "
        lines += ["", f"{message}{resumed} in the middle of a round: {ratio:.2f} times as long."]
    with Broker(partitions=PARTITIONS) as broker:
        seconds = in_words(latencies(broker), 3)
        lines += [
            "",
            f"Seconds from `produce` to the batch, of {LATENCIES} rounds of {ROWS} rows: {seconds}.",
        ]
    if given.minutes:
        with Broker(partitions=PARTITIONS) as broker:
            message = memory(broker, given.minutes, 512)
        lines += ["", "| minutes | rounds | MiB resident |", "|---|---|---|"]
        lines += [f"| {minutes:.1f} | {rounds:,} | {size:.0f} |" for minutes, rounds, size in message]
    tell("## Kafka\n\n" + "\n".join(lines), given.results)


if __name__ == "__main__":
    main()
