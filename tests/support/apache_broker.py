"""Apache Kafka on loopback for tests: one broker in KRaft mode, in a process, from Maven's jars."""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NoReturn

import pytest

from support.kafka_broker import ROOT, Broker

SOURCES = ROOT / "tests" / "kafka" / "apache"
CACHE = Path(os.environ.get("FASTRESUME_TEST_CACHE", ROOT / "target")) / "kafka-apache"
CLUSTER = "4L6g3nShT-eMCtK--X86sw"
SECONDS = 60
"""So long a broker may take to start."""

IS_ASKED = os.environ.get("FASTRESUME_KAFKA") == "apache"
"""Whether the tests of Kafka run on it."""

NO_JAVA = "" if shutil.which("java") and shutil.which("mvn") else "Java and Maven are not installed"

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@functools.cache
def class_path() -> str:
    """The jars, fetched if they are not there yet."""
    CACHE.mkdir(parents=True, exist_ok=True)
    found = CACHE / "class-path"
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pom = SOURCES / "pom.xml"
        if not found.exists() or found.stat().st_mtime < pom.stat().st_mtime:
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:build-classpath"
            command = ["mvn", "--quiet", "--batch-mode", "--file", str(pom), goal]
            fetched = subprocess.run(
                [*command, f"-Dmdep.outputFile={found}"],
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            if fetched.returncode:
                pytest.skip(f"Maven can't fetch the jars of Apache Kafka: {fetched.stdout[-300:]}")
    return found.read_text().strip()


def java(*arguments: str) -> list[str]:
    """A command that runs a class of Kafka's."""
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", class_path(), *arguments]


def free_ports(count: int) -> list[int]:
    """Ports that nobody has."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class ApacheBroker(Broker):
    """The broker; a context manager that ends it, and removes what it has written."""

    def __init__(
        self,
        *topics: str,
        partitions: int = 1,
        user: str = "",
        brokers: int = 1,
        directory: Path | None = None,
    ) -> None:
        """Start it with these topics, of so many partitions each."""
        if brokers > 1:
            pytest.skip("one broker of Apache Kafka is started, and no partition has another leader")
        if NO_JAVA:
            pytest.skip(NO_JAVA)
        self._directory = tempfile.TemporaryDirectory(dir=directory and directory.parent)
        names = topics or ("rows",)
        self.topic = names[0]
        self._producer = None
        port, inner, controller = free_ports(3)
        self.servers = f"127.0.0.1:{port}"
        self._settings = Path(self._directory.name) / "server.properties"
        self._settings.write_text(self._properties(port, inner, controller, user))
        subprocess.run(
            java("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._settings)),
            check=True,
            capture_output=True,
            timeout=SECONDS,
        )
        self._inner = f"127.0.0.1:{inner}"
        self._begin()
        self._create(names, partitions)

    def _properties(self, port: int, inner: int, controller: int, user: str) -> str:
        name, _, password = user.partition(":")
        kind = "SASL_PLAINTEXT" if user else "PLAINTEXT"
        listeners = f"CLIENTS://127.0.0.1:{port},INNER://127.0.0.1:{inner}"
        found = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "INNER",
            "listener.security.protocol.map": f"CLIENTS:{kind},INNER:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": f"{self._directory.name}/log",
            "log.retention.ms": -1,  # times of messages are of 1970
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.num.partitions": 1,
            "transaction.state.log.min.isr": 1,
            "auto.create.topics.enable": "false",
        }
        if user:
            found["sasl.enabled.mechanisms"] = "PLAIN"
            login = f'{PLAIN} required user_{name}="{password}";'
            found["listener.name.clients.plain.sasl.jaas.config"] = login
        return "\n".join(f"{key}={value}" for key, value in found.items())

    def _begin(self, *_: str) -> None:
        log = (Path(self._directory.name) / "output").open("a")
        self._process = subprocess.Popen(
            java("kafka.Kafka", str(self._settings)), stdout=log, stderr=log, text=True
        )
        log.close()
        host, _, port = self._inner.partition(":")
        ends = time.monotonic() + SECONDS
        while True:
            assert self._process.poll() is None, (Path(self._directory.name) / "output").read_text()[-2000:]
            assert time.monotonic() < ends
            try:
                socket.create_connection((host, int(port)), 1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return

    def _create(self, names: tuple[str, ...], partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic

        admin = AdminClient({"bootstrap.servers": self._inner})
        wanted = [NewTopic(name, partitions, 1) for name in names]
        for future in admin.create_topics(wanted, operation_timeout=30).values():
            future.result(SECONDS)

    def start_again(self) -> None:
        """Start it again after it was killed, with the messages that it had, on the same ports."""
        self._begin()

    def ask(self, command: str) -> NoReturn:
        """It does not do this when it is told."""
        pytest.skip(f"Apache Kafka does not {command.partition(' ')[0]} when it is told")

    def close(self) -> None:
        """End it."""
        self.kill()
        self._directory.cleanup()
