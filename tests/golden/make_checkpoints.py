"""Writes the checkpoints of golden/checkpoints: of one rank and of two, with the format that is written now.

A checkpoint that was ever written must be restored for ever, so those that are there are never changed: with
a new format, this program writes into a directory of its number, beside the others.

    python tests/golden/make_checkpoints.py 1
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

import fastresume as fr  # noqa: E402
from fastresume.checkpoint import Checkpointer  # noqa: E402
from support.forks import in_ranks  # noqa: E402


def job(rank: int = 0, world_size: int = 1) -> dict[str, Any]:
    """Each kind of part, before its first step."""
    torch.manual_seed(11)
    model: nn.Module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    if world_size > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    dataset = fr.ParquetDataset(
        HERE / "dataset", batch_size=1, shuffle=True, seed=3, world=(rank, world_size)
    )
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 5], 0.5),
        "loader": fr.Loader(dataset, threads=0),
    }


def parts_beside() -> dict[str, Any]:
    """What is restored besides the job."""
    return {"ema": nn.Linear(2, 1), "tensor": torch.zeros(2)}


def train(parts: dict[str, Any], rank: int, steps: int = 3) -> None:
    """Steps on inputs of the rank's own, and so many batches of the data."""
    for step, _ in zip(range(steps), parts["loader"], strict=False):
        inputs = torch.arange(8.0).reshape(4, 2) * (rank + 1) + step
        parts["optimizer"].zero_grad()
        parts["model"](inputs).square().mean().backward()
        parts["optimizer"].step()
        parts["scheduler"].step()


def described(parts: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    """All there is to see of a job, as plain values."""
    names = [name.removeprefix("module.") for name, _ in parts["model"].named_parameters()]
    moments = [parts["optimizer"].state[one]["exp_avg"] for one in parts["model"].parameters()]
    return {
        "weights": {
            name.removeprefix("module."): one.tolist() for name, one in parts["model"].state_dict().items()
        },
        "moments": {name: one.tolist() for name, one in zip(names, moments, strict=True)},
        "scheduler": parts["scheduler"].last_epoch,
        "cursor": parts["loader"].state_dict(),
        "ema": beside["ema"].weight.tolist(),
        "tensor": beside["tensor"].tolist(),
        "random": torch.rand(1).item(),
    }


def save(rank: int, directory: Path, world_size: int) -> dict[str, Any]:
    """Saves a job in mid pass; gives what `described` gives of it."""
    parts = job(rank, world_size)
    train(parts, rank)
    beside = {"ema": nn.Linear(2, 1), "tensor": torch.tensor([1.5, 2.5 + rank])}
    torch.manual_seed(70 + rank)
    with Checkpointer(directory, best=("auc", "max")) as checkpointer:
        checkpointer.save(3, **parts, extra={**beside, "note": ["n", 1.5, None]}, metrics={"auc": 0.5})
    return described(parts, beside)


def main(number: str) -> None:
    for world_size in (1, 2):
        place = HERE / "checkpoints" / number / str(world_size)
        place.parent.mkdir(parents=True, exist_ok=True)
        # Torch notes where it wrote, which is to be the same everywhere.
        made = Path(tempfile.gettempdir()) / "golden"
        found = in_ranks(world_size, made.with_suffix(".store"), save, made, world_size)
        place.with_suffix(".json").write_text(json.dumps(found, indent=1))
        made.with_suffix(".store").unlink(missing_ok=True)
        for link in ("latest", "best"):
            (made / link).unlink()
        shutil.move(made, place)


if __name__ == "__main__":
    main(sys.argv[1])
