"""Audited jobs in this process, what the audit says of them, and the means to forge their logs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import fastresume as fr
from fastresume.audit.delivery_log import DeliveryLog
from fastresume.audit.log_format import HEADER, MAGIC, record
from fastresume.audit.report import Report
from fastresume.audit.verify import audit
from fastresume.batch.origin import Origin
from fastresume.buffers import of_buffer
from support.strategies import plain_spec
from support.topologies import Shuffle

SPEC = plain_spec([200, 0, 400], [350], [253])
ROWS = 1203
SHUFFLE = Shuffle(3, 50, 150)
ORDERS = pytest.mark.parametrize("shuffle", [None, SHUFFLE], ids=["sequential", "shuffled"])

State = Mapping[str, str]


class Ranks:
    """All ranks of one life of a job, in lockstep in this process, each with its log."""

    def __init__(
        self,
        data: Path,
        logs: Path,
        world_size: int = 2,
        batch_size: int = 10,
        *,
        state: State | None = None,
        shuffle: Shuffle | None = None,
        **arguments: Any,
    ) -> None:
        arguments |= {"batch_size": batch_size, "world_size": world_size}
        arguments |= {} if shuffle is None else shuffle.arguments
        datasets = [fr.ParquetDataset(data, rank=rank, **arguments) for rank in range(world_size)]
        self.loaders = [fr.Loader(dataset, threads=0, audit=logs) for dataset in datasets]
        if state is not None:
            self.load(state)
        self._iterators: dict[int, Iterator[fr.Batch]] = {}

    @property
    def state(self) -> dict[str, str]:
        return self.loaders[0].state_dict()

    def load(self, state: State, **arguments: Any) -> None:
        for loader in self.loaders:
            loader.load_state_dict(state, **arguments)
        self._iterators = {}

    def begin(self) -> None:
        self._iterators = {}

    def step(self, *ranks: int) -> bool:
        """Deliver a batch to these ranks, or to all; say whether there was one."""
        found = False
        for rank in ranks or range(len(self.loaders)):
            if rank not in self._iterators:
                self._iterators[rank] = iter(self.loaders[rank])
            if next(self._iterators[rank], None) is None:
                del self._iterators[rank]
            else:
                found = True
        return found

    def steps(self, count: int) -> dict[str, str]:
        """Deliver so many global batches, into the next pass too; return the state after them."""
        while count:
            count -= self.step()
        return self.state

    def finish(self) -> dict[str, str]:
        """Deliver what is left of the pass; return the state after it."""
        while self.step():
            pass
        return self.state


def found_in(logs: Path, *declared: State) -> str:
    """What the audit says, in one text."""
    return text_of(audit(logs, [state["fastresume"] for state in declared]))


def text_of(report: Report) -> str:
    assert report.problems == sum("problem: " in line for line in report.lines)
    return "\n".join(report.lines)


def assert_proven(logs: Path, passes: int, *declared: State, or_more: bool = False) -> str:
    report = audit(logs, [state["fastresume"] for state in declared])
    assert report.problems == 0, text_of(report)
    found = sum(report.finished)
    assert found == passes or (or_more and found > passes), text_of(report)
    return text_of(report)


def log_of(logs: Path, rank: int, nth: int = 0) -> Path:
    """The nth log of a rank, in the order in which they were begun."""
    paths = sorted(logs.glob(f"rank-{rank:05}-*.log"), key=lambda path: path.stat().st_mtime_ns)
    return paths[nth]


def bodies(path: Path) -> list[bytes]:
    data, at, found = path.read_bytes(), len(MAGIC), []
    while at < len(data):
        length = HEADER.unpack_from(data, at)[0]
        found.append(data[at + HEADER.size : at + HEADER.size + length])
        at += HEADER.size + length
    return found


def write_bodies(path: Path, kept: Sequence[bytes]) -> None:
    """Forge a log that has these records, with the right checksums."""
    data, check = MAGIC, zlib.crc32(MAGIC)
    for body in kept:
        packed, check = record(body, check)
        data += packed
    path.write_bytes(data)


def forge(loader: fr.Loader, change: Callable[[SimpleNamespace], None]) -> None:
    """Let a loader log other batches than it delivers."""
    log = loader._log
    assert log is not None

    class Forged(DeliveryLog):
        def __init__(self) -> None:
            self.__dict__ = log.__dict__

        def deliver(self, batch: Any, *cursors: Any, **more: Any) -> None:
            names = ("valid_rows", "epoch", "step", "ends_pass")
            fields = {name: getattr(batch, name) for name in names}
            for name in ("runs", "positions", "dropped"):
                fields[name] = of_buffer(getattr(batch, name)).copy()
            forged = SimpleNamespace(**fields)
            change(forged)
            super().deliver(forged, *cursors, **more)

    loader._log = Forged()


def origin_of(dataset: fr.ParquetDataset, delivered: Any) -> Origin:
    """The origin of a batch that a reader delivered."""
    return dataset._spec.batch(delivered, delivered.cursor, None)._origin


def new_log(logs: Path, dataset: fr.ParquetDataset) -> DeliveryLog:
    """A log as a `Loader` makes it."""
    log = DeliveryLog(logs, dataset._spec.audited())
    how = (1, 1, dataset.batch_size), dataset.batch_size, dataset.tail, dataset.on_iter
    log.begin(*how)
    return log
