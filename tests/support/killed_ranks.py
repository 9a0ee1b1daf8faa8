"""Ranks of an audited job in processes of their own, in lockstep, that are killed after some steps."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import fastresume as fr

Pipes = tuple[int, int]


def go(loader: fr.Loader, saved: Path, rank: int, pipes: Pipes, passes: int) -> None:
    """Tell the parent of each batch, and go on when all have theirs. Rank 0 saves states."""
    while loader.epoch < passes:
        for batch in loader:
            os.write(pipes[1], b".")
            assert os.read(pipes[0], 1)
            if rank == 0 and batch.step % 3 == 0:
                draft = saved.with_suffix(".draft")
                draft.write_text(json.dumps(batch.state_dict()))
                draft.replace(saved)


def run_ranks(
    rank_process: Callable[[int, Pipes], None], world_size: int, steps: int | None, delay: float = 0
) -> None:
    """Run ranks as processes to their end, or kill them with SIGKILL some time after so many steps."""
    children, pipes = [], []
    for rank in range(world_size):
        (go_read, go_write), (done_read, done_write) = os.pipe(), os.pipe()
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                for descriptor in (go_write, *(end for pair in pipes for end in pair)):
                    os.close(descriptor)
                rank_process(rank, (go_read, done_write))
                os._exit(0)
            os._exit(1)
        os.close(go_read)
        os.close(done_write)
        children.append(child)
        pipes.append((done_read, go_write))
    step = 0
    while step != steps and all(os.read(read, 1) for read, _ in pipes):
        for _, write in pipes:
            os.write(write, b".")
        step += 1
    if steps is not None:
        time.sleep(delay)
        for child in children:
            os.kill(child, signal.SIGKILL)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    assert statuses == [0 if steps is None else signal.SIGKILL] * world_size
    for descriptor in (end for pair in pipes for end in pair):
        os.close(descriptor)
