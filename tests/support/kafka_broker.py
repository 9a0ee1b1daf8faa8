"""A Kafka broker on loopback for tests: kfake, built once from tests/kafka/broker, in a process."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "kafka" / "broker"
GO = shutil.which("go") or shutil.which("/usr/local/go/bin/go")

NO_GO = "" if GO else "Go, which builds the broker, is not installed"


@functools.cache
def not_fetched() -> str:
    """Why the modules that the broker is made of can't be had, if so."""
    try:
        command = [str(GO), "mod", "download"]
        fetched = subprocess.run(
            command, cwd=SOURCES, capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return "nothing came within two minutes"
    return fetched.stderr.strip()[-200:] if fetched.returncode else ""


def program() -> Path:
    """The broker's program, built if it is not there yet."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.read_bytes())
    cache = Path(os.environ.get("FASTRESUME_TEST_CACHE", ROOT / "target")) / "kafka-broker"
    cache.mkdir(parents=True, exist_ok=True)
    built = cache / digest.hexdigest()[:16]
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            if reason := not_fetched():
                pytest.skip(f"Go can't fetch the modules of the broker: {reason}")
            draft = built.with_suffix(".draft")
            command = [str(GO), "build", "-o", str(draft), "."]
            subprocess.run(command, cwd=SOURCES, check=True, timeout=600)
            draft.rename(built)
    return built


class Broker:
    """The broker; a context manager that ends it."""

    def __init__(
        self,
        *topics: str,
        partitions: int = 1,
        user: str = "",
        brokers: int = 1,
        directory: Path | None = None,
    ) -> None:
        """Start it with these topics, of so many partitions; to be started again, it needs a directory."""
        names = ",".join(topics) or "rows"
        self._command = [program(), "-topics", names, "-partitions", str(partitions), "-user", user]
        self._command += ["-brokers", str(brokers), "-directory", str(directory or "")]
        self.topic = names.split(",")[0]
        self._producer: Any = None
        self._begin()

    def _begin(self, *more: str) -> None:
        command = [*self._command, *more]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.servers = self._line()
        assert self.servers

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._producer = None
        self._process.kill()
        self._process.communicate()

    def start_again(self) -> None:
        """Start it again after it was killed, with the messages that it had, on the same ports."""
        ports = [server.rpartition(":")[2] for server in self.servers.split(",")]
        self._begin("-ports", ",".join(ports))

    def ask(self, command: str) -> str:
        """Let it do what it does on a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._line()

    def move(self, partition: int, node: int) -> None:
        """Let another broker lead a partition of the first topic."""
        assert self.ask(f"move {self.topic} {partition} {node}") == "moved"

    def compact(self) -> None:
        """Remove messages whose keys later ones have."""
        assert self.ask("compact") == "compacted"

    def configure(self, **settings: object) -> None:
        """Let the first topic have these settings; names have `_` for `.`."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

        entries = [
            ConfigEntry(name.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic, incremental_configs=entries)
        admin = self.admin()
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(30)

    def create_again(self, partitions: int = 1) -> None:
        """Delete the first topic, and create one of its name."""
        from confluent_kafka.admin import NewTopic

        admin = self.admin()
        for future in admin.delete_topics([self.topic]).values():
            future.result(30)
        for future in admin.create_topics([NewTopic(self.topic, partitions, 1)]).values():
            future.result(30)

    @property
    def address(self) -> str:
        """Of the first topic."""
        return f"kafka://{self.servers}/{self.topic}"

    def producer(self, **settings: Any) -> Any:
        """A producer of its own."""
        from confluent_kafka import Producer

        return Producer(
            {"bootstrap.servers": self.servers, "linger.ms": 0, "enable.metrics.push": False, **settings}
        )

    def admin(self) -> Any:
        """What asks for administration."""
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.servers})

    def send(self, values: Iterable[tuple[int, bytes | None]], producer: Any = None, **given: Any) -> None:
        """Write values to partitions of the first topic, and wait until they are there."""
        if producer is None:
            self._producer = self._producer or self.producer()
            producer = self._producer
        for partition, value in values:
            producer.produce(self.topic, value, partition=partition, **given)
        assert producer.flush(30) == 0

    def delete_before(self, partition: int | Iterable[int], offset: int) -> None:
        """Let retention remove what is before an offset, -1 for all that there is, in these partitions."""
        from confluent_kafka import TopicPartition

        each = [partition] if isinstance(partition, int) else partition
        asked = [TopicPartition(self.topic, number, offset) for number in each]
        admin = self.admin()  # it must outlive what it is asked
        for future in admin.delete_records(asked).values():
            future.result(30)

    def add_partitions(self, total: int) -> None:
        """Let the first topic have so many partitions."""
        from confluent_kafka.admin import NewPartitions

        admin = self.admin()
        for future in admin.create_partitions([NewPartitions(self.topic, total)]).values():
            future.result(30)

    def freeze(self) -> None:
        """Let it answer nobody: its port is not free for others."""
        self._process.send_signal(signal.SIGSTOP)

    def close(self) -> None:
        """End it."""
        self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


LENGTHS = (None, 0, 1, 2, 3, 7, 40)
"""Tokens of documents: 40 are several sequences."""

SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False), pa.field("text", pa.string(), nullable=False)]
)
"""The columns of what tests send."""


def message(rows: Iterable[int]) -> bytes:
    """An Arrow IPC stream with these numbers in the column `id`."""
    ids = list(rows)
    table = pa.table({"id": ids, "text": [f"row {number}" for number in ids]}, SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def messages(sizes: Iterable[tuple[int, int]]) -> tuple[list[tuple[int, bytes]], dict[int, list[int]]]:
    """Messages of (partition, rows) with numbers from 0 on; also the numbers in each partition."""
    sent, by_partition, number = [], dict[int, list[int]](), 0
    for partition, size in sizes:
        rows = range(number, number + size)
        sent.append((partition, message(rows)))
        by_partition.setdefault(partition, []).extend(rows)
        number += size
    return sent, by_partition


def committed(broker: Broker, group: str) -> dict[int, int]:
    """The offsets that a group has committed, of the first two partitions."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": group})
    found = consumer.committed([TopicPartition(broker.topic, number) for number in range(2)], timeout=30)
    consumer.close()
    return {one.partition: one.offset for one in found}


DOCUMENTS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("tokens", pa.list_(pa.int64())),
        pa.field("twice", pa.list_(pa.int32())),
    ]
)
"""The columns of documents: `twice` has as many values as `tokens`."""


def documents(seed: int, count: int, lengths: Sequence[int | None] = LENGTHS) -> list[pa.Table]:
    """Messages of 0 to 4 documents; each token tells which one it is among all."""
    draw, found, number = random.Random(seed), list[pa.Table](), 0
    for first in range(0, 10 * count, 10):
        rows: list[list[int] | None] = []
        for _ in range(draw.randrange(5)):
            length = draw.choice(lengths)
            rows.append(None if length is None else [*range(number, number + length)])
            number += length or 0
        twice = [None if row is None else [2 * token for token in row] for row in rows]
        ids = range(first, first + len(rows))
        found.append(pa.table({"id": ids, "tokens": rows, "twice": twice}, DOCUMENTS))
    return found


def sent_documents(
    tables: Sequence[pa.Table], partitions: int
) -> tuple[list[tuple[int, bytes]], list[pa.Table]]:
    """The messages of documents by turns for each partition; also the rows of each partition."""
    sent = []
    for number, table in enumerate(tables):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, DOCUMENTS) as writer:
            writer.write_table(table)
        sent.append((number % partitions, sink.getvalue().to_pybytes()))
    return sent, [pa.concat_tables(tables[partition::partitions]) for partition in range(partitions)]
