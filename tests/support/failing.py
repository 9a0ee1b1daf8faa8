"""Two ranks that train under a function that fails over batches of one of them, and what both see."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

import fastresume as fr
from support.rehearsal import BATCH, ROWS

RANKS = 2
STEPS = ROWS // BATCH
"""Steps of a pass, as each rank gets half of a global batch."""

READERS: dict[str, Callable[[fr.ParquetDataset], Any]] = {
    "alone": lambda dataset: dataset,
    "threads": lambda dataset: fr.Loader(dataset, threads=2),
    "workers": lambda dataset: fr.Loader(dataset, num_workers=2),
    "fork": lambda dataset: DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="fork"
    ),
    "spawn": lambda dataset: DataLoader(
        dataset, batch_size=None, num_workers=2, multiprocessing_context="spawn"
    ),
}


class Stacking:
    """Makes a matrix of two columns, with noise; but it fails over the batches of some steps of every pass.

    So what it makes has other names than what it is given, and the first batch of a process may fail.
    """

    def __init__(self, steps: Iterable[int]) -> None:
        self.steps = frozenset(steps)

    def __call__(self, batch: fr.Batch) -> dict[str, Any]:
        if batch.step in self.steps:
            raise ValueError(f"step {batch.step} can't be taken")
        columns: Any = [batch["i_0"], batch["i_1"]]
        noise = torch.rand(batch.num_rows, generator=batch.generator())
        return {"inputs": torch.stack(columns, 1), "label": batch["label"] + noise}


def opened(steps: Iterable[int], rank: int | None = None, **how: Any) -> fr.ParquetDataset:
    """The data in the present directory, as one rank reads it, which fails at these steps."""
    if rank is not None:
        how |= {"rank": rank, "world_size": RANKS}
    dataset = fr.ParquetDataset("data", global_batch_size=BATCH, max_bad_rows=1.0, groups=2, **how)
    return dataset.map(Stacking(steps), on_error="mask")


Seen = tuple[int, list[bool], list[list[float]], list[float], list[list[float]]]
"""Of a step: its number, what is valid, inputs, labels, and the weights before it."""


def train(
    reader: str,
    steps: Iterable[int],
    window: int,
    state: Mapping[str, str] | None = None,
    weights: Mapping[str, torch.Tensor] | None = None,
) -> tuple[list[Seen], list[tuple[int, dict[str, str], dict[str, torch.Tensor]]]]:
    """What a rank sees of the rest of a pass, and after which steps it has which state and weights."""
    torch.manual_seed(3)
    inner = nn.Linear(2, 1)
    if weights is not None:
        inner.load_state_dict(weights)
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.05)
    accumulation = fr.training.accumulate(model, steps=window)
    dataset = opened(steps)
    if state is not None:
        dataset.load_state_dict(state)
    seen: list[Seen] = []
    saved = []
    for batch in READERS[reader](dataset):
        values: Any = batch["inputs"], batch["label"]
        before = [parameter.detach().flatten().tolist() for parameter in inner.parameters()]
        seen.append((batch.step, batch.valid.tolist(), values[0].tolist(), values[1].tolist(), before))
        with accumulation(batch) as place:
            errors = (model(values[0]).squeeze(1) - values[1]).square() * batch.valid
            (errors.sum() / batch.valid.sum().clamp(min=1) / place.size).backward()
        if place.is_last:
            optimizer.step()
            optimizer.zero_grad()
            copied = {name: value.clone() for name, value in inner.state_dict().items()}
            saved.append((batch.step, accumulation.state_dict(), copied))
    return seen, saved


def resumed_everywhere(
    reader: str, failing: Iterable[tuple[int, ...]], window: int, bad_ranks: Iterable[int]
) -> list[str]:
    """What is wrong where one rank fails at these steps, and goes on after every optimizer's step."""
    rank, wrong = torch.distributed.get_rank(), []
    for steps in failing:
        for bad_rank in bad_ranks:
            own = steps if rank == bad_rank else ()
            seen, saved = train(reader, own, window)
            found = f"{reader}: rank {bad_rank} fails at {steps}, windows of {window}"
            if [step for step, *_ in seen] != list(range(STEPS)):
                wrong.append(f"{found}: rank {rank} did the steps {[step for step, *_ in seen]}")
            if [step for step, valid, *_ in seen if not any(valid)] != sorted(own):
                wrong.append(f"{found}: rank {rank} has other masked steps")
            if saved[-1][0] != STEPS - 1:
                wrong.append(f"{found}: the last window is never stepped")
            for step, state, weights in saved[:-1]:
                again, _ = train(reader, own, window, state, weights)
                if again != seen[step + 1 :]:
                    wrong.append(f"{found}: resumed after step {step}, rank {rank} sees others")
    return wrong


def matrix(
    reader: str, failing: Iterable[tuple[int, ...]], window: int, bad_ranks: Iterable[int] = (0, 1)
) -> None:
    """A rank of a job that writes what is wrong to a file."""
    torch.distributed.init_process_group("gloo")
    wrong = resumed_everywhere(reader, failing, window, bad_ranks)
    Path(f"wrong-{os.environ['RANK']}").write_text(json.dumps(wrong))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
