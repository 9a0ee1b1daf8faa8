"""Ranks that train in lockstep from the server of MaxCompute, in processes, until they are killed."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

import torch.distributed as dist

import fastresume as fr
from support.child import Child
from support.forks import join
from support.maxcompute_server import KEYS
from support.rank import replace, write


class Life(NamedTuple):
    """The ranks of a life, their batch size, and after how many steps of rank 0 they are killed."""

    world_size: int
    batch_size: int
    killed_after: int | None


def train(rank: int, life: tuple[int, Life], directory: str, job: dict[str, Any]) -> int:
    """Train from the saved state to the end of the pass, or until the process is killed."""
    number, (world_size, batch_size, _) = life
    place = Path(directory)
    join(place / f"store-{number}", rank, world_size)
    source = fr.maxcompute.open(job["address"], credentials=KEYS, endpoint=job["endpoint"])
    dataset: Any
    if "files" in job:
        table = fr.ArrowDataset(source, columns=["x"], shuffle=True)
        files = fr.ParquetDataset(job["files"], columns=["x"])
        arrow = fr.ArrowDataset(job["arrow"], columns=["x"], shuffle=True)
        sources = {"table": (table, 2), "files": (files, 1), "arrow": (arrow, 1)}
        dataset = fr.Mixture(sources, batch_size=batch_size, stop="all", tail="short")
    else:
        dataset = fr.ArrowDataset(source, batch_size=batch_size, tail="short", shuffle=job["shuffle"])
    loader = fr.Loader(dataset, threads=1)
    saved = place / "state.json"
    if saved.exists():
        loader.load_state_dict(json.loads(saved.read_text())["state"], check_same=True)
    log = os.open(place / f"{number}-{rank}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    steps = 0
    while loader.epoch < 1:
        for batch in loader:
            steps += 1
            write(
                log, {"rows": batch["x"].tolist(), "source": batch.source.tolist() if "files" in job else []}
            )
            dist.barrier()  # as gradients are added up: all ranks are at the same step
            if rank == 0:
                replace(saved, {"state": batch.state_dict(), "life": number, "steps": steps})
    dist.barrier()
    loader.close()
    return steps


def live(directory: Path, number: int, life: Life, job: dict[str, Any]) -> int:
    """Run the ranks of a life to their end, or kill them with SIGKILL; gives the steps that count."""
    children = [Child() for _ in range(life.world_size)]
    try:
        for rank, child in enumerate(children):
            child.start(train, rank, (number, life), str(directory), job)
        if life.killed_after is None:
            assert len({child.result(120) for child in children}) == 1  # even steps
        else:
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
    saved = directory / "state.json"
    found = json.loads(saved.read_text()) if saved.exists() else {"life": -1, "steps": 0}
    return int(found["steps"]) if found["life"] == number else 0


def trained(directory: Path, lives: list[Life], job: dict[str, Any]) -> list[dict[str, list[int]]]:
    """The batches that count: those of each life up to the state from which the next one began."""
    found = []
    for number, life in enumerate(lives):
        steps = live(directory, number, life, job)
        logs = [directory / f"{number}-{rank}.jsonl" for rank in range(life.world_size)]
        lines = [log.read_text().splitlines()[:steps] if log.exists() else [] for log in logs]
        found += [json.loads(line) for of_step in zip(*lines, strict=True) for line in of_step]
    return found
