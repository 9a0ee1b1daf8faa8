"""One rank of an elastic job, in a process that imports no more than a training script does."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import fastresume as fr
from support.forks import join


def train(
    directory: Path,
    life: str,
    arguments: dict[str, Any],
    workers: int,
    passes: int,
    stops_after: int | None = None,
    saves_every: int = 1,
) -> None:
    """Go on from the saved state, in lockstep with the other ranks, until so many passes are done.

    A rank that stops asks for no batch after so many steps, and waits to be killed. The state is saved after
    each so many steps, and at the end of a pass.
    """
    rank, steps = dist.get_rank(), 0
    how: dict[str, Any] = {"num_workers": workers} if workers else {"threads": 1}
    dataset = fr.ParquetDataset(directory / "data", **arguments)
    loader = fr.Loader(dataset, audit=directory / "audit", **how)
    saved = directory / "state.json"
    given = json.loads(saved.read_text()) if saved.exists() else None
    if given is not None:
        loader.load_state_dict(given, check_same=True)
    log = os.open(directory / "lives" / f"{life}-{rank}.jsonl", os.O_CREAT | os.O_WRONLY | os.O_EXCL)
    write(log, {"process": os.getpid(), "saved": given, "state": loader.state_dict()})
    while loader.epoch < passes:
        for batch in loader:
            rows = batch["row"][batch.valid].tolist()
            write(log, {"epoch": batch.epoch, "step": batch.step, "rows": rows, "state": batch.state_dict()})
            together = batch["row"].sum().reshape(1)
            dist.all_reduce(together)  # as gradients are: nobody is a step ahead
            steps += 1
            if rank == 0 and (steps % saves_every == 0 or batch.cursor.epoch > batch.epoch):
                replace(saved, batch.state_dict())
            if steps == stops_after:
                signal.pause()
    loader.close()
    dist.barrier()


def write(log: int, entry: object) -> None:
    os.write(log, json.dumps(entry).encode() + b"\n")


def replace(path: Path, content: object) -> None:
    """Write a file whole or not at all."""
    draft = path.with_suffix(f".draft-{time.monotonic_ns()}")
    draft.write_text(json.dumps(content))
    draft.replace(path)


def forked(
    directory: Path,
    life: str,
    place: tuple[int, int],
    arguments: dict[str, Any],
    workers: int,
    passes: int,
    stops_after: int | None,
    saves_every: int,
) -> None:
    """What a rank does that was forked; its `place` is its rank and the world size."""
    with (directory / "ranks.log").open("ab") as log:  # who loses a peer says so at length
        os.dup2(log.fileno(), 2)
    join(directory / "lives" / f"{life}.store", *place)
    train(directory, life, arguments, workers, passes, stops_after, saves_every)
    dist.destroy_process_group()


def launched(directory: str, launch: str, arguments: str, passes: str) -> None:
    """What a rank does that torchrun started, for the first time or again."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    life = f"{launch}.{os.environ['TORCHELASTIC_RESTART_COUNT']}"
    train(Path(directory), life, json.loads(arguments), 0, int(passes))
    dist.destroy_process_group()


def agent(
    directory: str, world_size: int, restarts: int, environment: dict[str, str], arguments: list[str]
) -> None:
    """What torchrun does, in a process that was forked, and so has no need to import torch again."""
    os.environ |= environment
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    with (Path(directory) / "ranks.log").open("ab") as log:
        os.dup2(log.fileno(), 2)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=world_size,
        max_restarts=restarts,
        monitor_interval=0.05,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        start_method="fork",
    )
    elastic_launch(config, launched)(*arguments)


if __name__ == "__main__":
    launched(*sys.argv[1:])
