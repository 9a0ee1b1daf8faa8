"""A small training job, random in every way that a real one is: what checkpoints are tested with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from support.strategies import ColumnSpec, Dataset, plain_spec

COLUMNS = [
    ColumnSpec("x_1", "float32"),
    ColumnSpec("x_2", "float32", seed=1),
    ColumnSpec("y", "int64", seed=2),
]


def written(directory: Any, rows: int = 103) -> Dataset:
    """The data: two files, small numbers."""
    return plain_spec([40, 0, 13], [rows - 53], columns=COLUMNS).write(directory)


class Net(nn.Module):
    """Two layers, dropout between them, and statistics that every batch moves."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.inner = nn.Linear(2, width)
        self.norm = nn.BatchNorm1d(width)
        self.outer = nn.Linear(width, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.outer(nn.functional.dropout(self.norm(self.inner(inputs)).relu(), 0.3, self.training))


def augmented(batch: fr.Batch) -> fr.Batch:
    """Noise that a hash of each row's place chooses."""
    noise = (batch.row_seeds() & 0xFFFF).to(torch.float32) / 0xFFFF
    batch["x"] = batch["x"].nan_to_num().clamp(-10, 10) + noise.unsqueeze(1)
    return batch


@dataclass
class Job:
    """All that a checkpoint holds."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: Any
    loader: fr.Loader

    def parts(self) -> dict[str, Any]:
        return vars(self)

    def steps(self, count: int) -> Iterator[float]:
        """The losses of so many steps, over as many passes as they take."""
        done = 0
        while done < count:
            for batch in self.loader:
                loss = self.model(batch["x"]).square().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                done += 1
                yield loss.item()
                if done == count:
                    return

    def weights(self) -> list[Tensor]:
        return [value.clone() for value in self.model.state_dict().values()]


def job(
    data: Dataset,
    batch_size: int = 4,
    wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    seed: int = 5,
    transform: Callable[[fr.Batch], fr.Batch] = augmented,
    **options: Any,
) -> Job:
    """A fresh job, whose weights a seed alone chooses."""
    torch.manual_seed(seed)
    model = wrap(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [7, 20, 33], 0.5)
    dataset = fr.ParquetDataset(
        data.files,
        batch_size=batch_size,
        shuffle=True,
        seed=3,
        columns=["*", "!x_*", fr.stack("x_*", name="x")],
        **options,
    )
    return Job(model, optimizer, scheduler, fr.Loader(dataset.map(transform), threads=0))


def equal(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def small(value: float = 0.0) -> nn.Module:
    """A model all of whose numbers are one value."""
    model = nn.Linear(2, 2)
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)
    return model


def steps_of(checkpointer: Checkpointer) -> list[int]:
    """The steps of all whole checkpoints, the earliest save first."""
    return [entry.step for entry in checkpointer.entries()]
