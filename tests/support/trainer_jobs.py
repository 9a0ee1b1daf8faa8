"""Trainers of Transformers and their models for its tests: imported when the first of them runs.

Transformers takes seconds to import, and tests are collected more often than these are run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

import fastresume as fr
from fastresume.integrations.transformers import DictBatches, ResumeCallback
from support.rehearsal import BATCH, make

__all__ = ["DictBatches"]


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)

    def forward(self, inputs: torch.Tensor, label: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": torch.nn.functional.mse_loss(self.linear(inputs).squeeze(1), label)}


def make_trainer(resume: ResumeCallback, dataloader: Any = None, **how: Any) -> Trainer:
    quiet: dict[str, Any] = {
        "num_train_epochs": 2,
        "save_steps": 1,
        "ignore_data_skip": True,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "save_only_model": False,
        "save_total_limit": 2,
    }
    trainer = Trainer(Model(), TrainingArguments("saved", **{**quiet, **how}), callbacks=[resume])
    trainer.get_train_dataloader = lambda: resume.dataloader if dataloader is None else dataloader
    return trainer


def train(trainer: Trainer) -> None:
    path = get_last_checkpoint("saved") if Path("saved").exists() else None
    trainer.train(resume_from_checkpoint=path)


def job(batch_size: int = BATCH, **how: Any) -> Callable[[], None]:
    return lambda: train(make_trainer(ResumeCallback(make(batch_size)), **how))


def global_job() -> None:
    """Trains with the same global batch on any number of ranks."""
    dataset = fr.ParquetDataset(
        "data", global_batch_size=BATCH, columns=["*", "!i_*", fr.stack("i_*", name="inputs")]
    )
    train(make_trainer(ResumeCallback(fr.Loader(dataset, threads=1), check_same=True)))
