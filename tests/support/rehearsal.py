"""Programs that train, in processes of their own that are killed: each rank is a fork of the test's process.

A fork has imported the frameworks already, which takes longer than all that they do here. What a model is
trained on is told by its inputs, whatever framework hands them over: `i_0` is the row's number.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import runpy
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import fastresume as fr
from support.jobs import fields_of, oracle_job
from support.topologies import Shuffle, Topology

SECONDS = 90

SCALE = 4096
"""Inputs are row numbers divided by this, exactly: a model that is trained on them learns."""

ROWS = 80
BATCH = 8
STEPS = ROWS // BATCH
"""What `make` reads and `steps` expects: rows of the data, rows of a batch, steps of a pass."""

Work = Callable[[], object]
Seen = Callable[[torch.nn.Module, tuple[Any, ...]], torch.Tensor | None]


def write_data(directory: Path, rows: int) -> None:
    """Write `data/*.parquet`: a label, and the inputs `i_0` (the row's number) and `i_1`."""
    (directory / "data").mkdir()
    for part, numbers in enumerate(np.array_split(np.arange(rows), 3)):
        columns = {
            "label": (numbers % 5).astype(np.float32),
            "i_0": (numbers / SCALE).astype(np.float32),
            "i_1": (numbers % 7).astype(np.float32),
        }
        pq.write_table(pa.table(columns), directory / "data" / f"{part}.parquet", row_group_size=200)


def make(batch_size: int = BATCH, **how: Any) -> fr.Loader:
    """A loader of the data in the present directory."""
    dataset = fr.ParquetDataset(
        "data", batch_size=batch_size, columns=["*", "!i_*", fr.stack("i_*", name="inputs")], **how
    )
    return fr.Loader(dataset, threads=1)


def steps(start: int, end: int, size: int = BATCH) -> list[list[int]]:
    """The rows of the steps [start, end) of two passes in the files' order."""
    per_pass = ROWS // size
    return [list(range(step % per_pass * size, step % per_pass * size + size)) for step in range(start, end)]


def program(path: Path) -> Work:
    """Return what runs a program."""
    return lambda: runpy.run_path(str(path), run_name="__main__")


def rows_in_inputs(module: torch.nn.Module, inputs: tuple[Any, ...]) -> torch.Tensor | None:
    """The rows that a linear model is trained on; None of another module."""
    if not module.training or not isinstance(module, torch.nn.Linear):
        return None
    return (inputs[0].detach()[:, 0].double() * SCALE).round().long()


def run(
    work: Work,
    directory: Path,
    world_size: int = 1,
    kill_at: int | None = None,
    is_launched: bool = False,
    rows_of: Seen = rows_in_inputs,
    seconds: float = SECONDS,
) -> list[list[list[int]]]:
    """Run a program on so many ranks, in `directory`; return the rows of each step of each rank.

    Args:
        work: what each rank does.
        directory: where.
        world_size: how many ranks.
        kill_at: the step that rank 0 begins, and does not live to do; the others are then killed, too. It is
            the one that saves, so all steps before are saved.
        is_launched: whether they find each other by the environment, as under torchrun.
        rows_of: the rows that a module sees; None of any but the one that tells them, once a step.
        seconds: how long each rank may take.
    """
    # Optimizers and FSDP import these with their first step, which takes each fork seconds.
    for module in ("torch._dynamo", "torch.distributed.fsdp"):
        importlib.import_module(module)
    store = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True) if is_launched else None
    context = multiprocessing.get_context("fork")
    ranks = []
    for rank in range(world_size):
        environment = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(world_size),
            "LOCAL_WORLD_SIZE": str(world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "0" if store is None else str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store is there: rank 0 makes none
            "ACCELERATE_USE_CPU": "true",  # as `accelerate launch --cpu` says it
        }
        to_be_killed = kill_at if rank == 0 else None
        arguments = (work, directory, rank, environment if store else {}, to_be_killed, rows_of)
        ranks.append(context.Process(target=_live, args=arguments))
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(seconds)
        if kill_at is not None or process.exitcode is None:
            for other in ranks:
                other.kill()
    codes = [process.exitcode for process in ranks]
    # Of a job that is killed the others may say so before they are killed.
    errors = [path.read_text() for path in sorted(directory.glob("error-*"))]
    if kill_at is None:
        assert codes == [0] * world_size, errors
    else:
        assert codes[0] == -signal.SIGKILL, (codes, errors)
    for path in directory.glob("error-*"):
        path.unlink()
    return [_take_log(directory / f"log-{rank}") for rank in range(world_size)]


def _live(
    work: Work,
    directory: Path,
    rank: int,
    environment: Mapping[str, str],
    kill_at: int | None,
    rows_of: Seen,
) -> None:
    os.chdir(directory)
    os.environ.update(environment)
    torch.set_num_threads(1)
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    sys.argv = ["program"]
    output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    log = os.open(f"log-{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    steps = 0

    def note(module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        """Take note of a step before it is done, as the model sees it."""
        nonlocal steps
        rows = rows_of(module, inputs)
        if rows is None:
            return
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        os.write(log, (json.dumps(rows.tolist()) + "\n").encode())

    torch.nn.modules.module.register_module_forward_pre_hook(note)
    torch.manual_seed(1)
    code = 0
    try:
        work()
    except BaseException:  # noqa: BLE001  (told by the process that waits)
        Path(f"error-{rank}").write_text(f"rank {rank}: {traceback.format_exc()}")
        code = 1
    os._exit(code)


def _take_log(path: Path) -> list[list[int]]:
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return [json.loads(line) for line in lines]


def expected_steps(
    directory: Path, legs: list[tuple[Topology, int | None]], epochs: int
) -> list[list[list[list[int]]]]:
    """Return, of each leg of a job, the rows of each step of each rank, as the oracle has them.

    Args:
        directory: where the data lies.
        legs: the ranks, workers and batch size of each life, and after how
            many steps the next goes on; None for the last, which goes on until so many passes are done.
        epochs: how many passes.
    """
    found = []
    state: str | None = None
    for topology, kept in legs:
        dataset = fr.ParquetDataset(
            directory / "data",
            batch_size=topology.batch_size,
            shuffle=True,
            world=(0, topology.world_size),
        )
        order = fields_of(dataset.state_dict())["order"]
        shuffle = Shuffle(order["seed"], order["block_rows"], order["window_rows"])
        groups = [
            pq.ParquetFile(file).metadata.row_group(index).num_rows
            for file in dataset.files
            for index in range(pq.ParquetFile(file).num_row_groups)
        ]
        job = oracle_job(dataset.num_rows, topology, dataset.fingerprint, shuffle, groups)
        if state is not None:
            job.load(state)
        steps: list[list[list[int]]] = []
        while (len(steps) < kept) if kept is not None else (job.epochs_done < epochs):
            steps.append(job.step() or [])
        state = job.state()
        found.append([[step[rank] for step in steps if step] for rank in range(topology.world_size)])
    return found
