"""Ranks that train from a topic in lockstep, in processes of their own, until they are killed."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch.distributed as dist
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.kafka import KafkaDataset
from support.child import Child
from support.forks import join
from support.rank import replace, write


def train(rank: int, world_size: int, directory: str, life: int, address: str, given: dict[str, Any]) -> int:
    """Go on from the saved state up to the end of the topic, or until the process is killed.

    `trained` among what is given names the tensor that is written down.
    """
    place, name = Path(directory), given.pop("trained", "id")
    join(place / f"store-{life}", rank, world_size)
    dataset = KafkaDataset(address, **given)
    loader = fr.Loader(dataset, threads=1, audit=place / "logs")
    steps = train_on(loader, rank, place, life, name)
    dataset.close()
    return steps


def train_on(loader: fr.Loader, rank: int, place: Path, life: int, name: str = "id") -> int:
    """Go on with a loader from the saved state up to its end; write a tensor down."""
    saved = place / "state.json"
    if saved.exists():
        loader.load_state_dict(json.loads(saved.read_text())["state"])
    log = os.open(place / f"{life}-{rank}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    steps = 0
    for batch in loader:
        steps += 1
        write(log, {"rows": batch[name].tolist(), "epoch": batch.epoch, "step": batch.step})
        together = batch[name].sum().reshape(1)
        dist.all_reduce(together)  # as gradients are: nobody is a step ahead
        if rank == 0:
            replace(saved, {"state": batch.state_dict(), "life": life, "steps": steps})
    dist.barrier()
    loader.close()
    return steps


def train_under_dataloader(
    rank: int, world_size: int, directory: str, life: int, address: str, given: dict[str, Any]
) -> int:
    """The same with two workers of torch's DataLoader, an iteration for each round."""
    place = Path(directory)
    join(place / f"store-{life}", rank, world_size)
    dataset = KafkaDataset(address, **given)
    workers: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork"}  # none imports torch
    loader: DataLoader[Any] = DataLoader(dataset, batch_size=None, **workers)
    saved = place / "state.json"
    if saved.exists():
        dataset.load_state_dict(json.loads(saved.read_text())["state"])
    log = os.open(place / f"{life}-{rank}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    steps, before = 0, -1
    while steps > before:
        before = steps
        for batch in loader:
            steps += 1
            write(log, {"rows": batch["id"].tolist(), "epoch": batch.epoch, "step": batch.step})
            together = batch["id"].sum().reshape(1)
            dist.all_reduce(together)
            if rank == 0:
                replace(saved, {"state": batch.state_dict(), "life": life, "steps": steps})
    dist.barrier()
    dataset.close()
    return steps


TABLE = 1_000_000
"""The first number in the table beside a stream."""


def table_of() -> fr.ArrowDataset:
    """The table of 50 rows that is read beside a stream."""
    return fr.ArrowDataset(pa.table({"id": range(TABLE, TABLE + 50)}))


def train_mixed(
    rank: int, world_size: int, directory: str, life: int, address: str, given: dict[str, Any]
) -> int:
    """The same from a mixture with a table."""
    place = Path(directory)
    join(place / f"store-{life}", rank, world_size)
    stream = KafkaDataset(address, **{name: value for name, value in given.items() if name != "batch_size"})
    mixture = fr.Mixture({"old": (table_of(), 3), "live": (stream, 2)}, batch_size=given["batch_size"])
    loader = fr.Loader(mixture, threads=1, audit=place / "logs")
    steps = train_on(loader, rank, place, life)
    stream.close()
    return steps


@dataclass(frozen=True)
class Life:
    """The ranks of a life, their batch size, and after how many steps of rank 0 they are killed."""

    world_size: int
    batch_size: int
    killed_after: int | None


def live(
    directory: Path, number: int, life: Life, address: str, given: dict[str, Any], work: Any = train
) -> None:
    """Run the ranks of a life to their end, or kill them with SIGKILL."""
    children = [Child() for _ in range(life.world_size)]
    try:
        stop = None if life.killed_after is not None else "end"
        arguments = {"stop": stop, **given, "batch_size": life.batch_size}
        for rank, child in enumerate(children):
            child.start(work, rank, life.world_size, str(directory), number, address, arguments)
        if life.killed_after is None:
            steps = {child.result(120) for child in children}
            assert len(steps) == 1  # even steps
            return
        log = directory / f"{number}-0.jsonl"
        while not log.exists() or log.read_bytes().count(b"\n") < life.killed_after:
            if any(child.process.exitcode is not None for child in children):
                break
            children[0].process.join(0.02)
        for child in children:
            os.kill(child.process.pid or 0, signal.SIGKILL)
    finally:
        for child in children:
            child.close()


def trained(directory: Path, lives: list[Life], of: str = "rows") -> list[int]:
    """The rows that count: those of each life up to the state from which the next one began."""
    counted = json.loads((directory / "counted.json").read_text())
    rows: list[int] = []
    for number, life in enumerate(lives):
        for rank in range(life.world_size):
            log = directory / f"{number}-{rank}.jsonl"
            lines = log.read_text().splitlines() if log.exists() else []
            for line in lines[: counted[number]]:
                rows += json.loads(line)[of]
    return rows


def run(
    directory: Path,
    lives: list[Life],
    address: str,
    given: dict[str, Any],
    between: Any,
    work: Any = train,
) -> list[int]:
    """Run lives one after another; `between(number)` is called after each. Returns the rows that count."""
    counted = []
    for number, life in enumerate(lives):
        live(directory, number, life, address, given, work)
        saved = directory / "state.json"
        found = json.loads(saved.read_text()) if saved.exists() else {"life": -1, "steps": 0}
        counted.append(found["steps"] if found["life"] == number else 0)
        between(number)
    (directory / "counted.json").write_text(json.dumps(counted))
    return trained(directory, lives)
