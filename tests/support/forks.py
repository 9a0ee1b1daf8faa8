"""Ranks of a gloo group, each a fork of the test's process: nobody has to import torch."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

SECONDS = 60

Work = Callable[..., Any]


def in_ranks(world_size: int, store: Path, work: Work, *arguments: object) -> list[Any]:
    """What `work(rank, *arguments)` gives on each rank of a process group."""
    context = multiprocessing.get_context("fork")
    pipes = [context.Pipe(duplex=False) for _ in range(world_size)]
    processes = [
        context.Process(target=_rank, args=(rank, world_size, store, sender, work, arguments), daemon=True)
        for rank, (_, sender) in enumerate(pipes)
    ]
    for process in processes:
        process.start()
    found = []
    for receiver, _ in pipes:
        assert receiver.poll(SECONDS), "a rank hangs"
        found.append(receiver.recv())
    for process in processes:
        process.join(SECONDS)
    failed = [text for is_well, text in found if not is_well]
    assert not failed, "\n".join(failed)
    return [result for _, result in found]


def _rank(
    rank: int, world_size: int, store: Path, sender: Connection, work: Work, arguments: tuple[object, ...]
) -> None:
    try:
        join(store, rank, world_size)
        result = work(rank, *arguments)
        dist.barrier()
        dist.destroy_process_group()
        sender.send((True, result))
    except BaseException:  # noqa: BLE001  (told by the process that waits)
        sender.send((False, f"rank {rank}: {traceback.format_exc()}"))


def join(store: Path, rank: int, world_size: int) -> None:
    """Become a rank, of those that meet in a file which is not there yet; one thread is enough for it."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world_size)
