"""Trainers, models and callbacks of Lightning for its tests: imported when the first of them runs.

Lightning takes seconds to import, and tests are collected more often than these are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import GradientAccumulationScheduler, LearningRateFinder, ModelCheckpoint
from lightning.pytorch.tuner import Tuner

import fastresume as fr
from fastresume.integrations.lightning import ResumeCallback

__all__ = [
    "GradientAccumulationScheduler",
    "LearningRateFinder",
    "ModelCheckpoint",
    "ResumeCallback",
    "Tuner",
    "pl",
]

tried: list[tuple[int, int]] = []
"""What `Tuned` was trained on: passes and steps."""


class Model(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)

    def training_step(self, batch: Any) -> torch.Tensor:
        return torch.nn.functional.mse_loss(self.linear(batch["inputs"]).squeeze(1), batch["label"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Data(pl.LightningDataModule):
    """A DataModule that makes its loader when it is asked for one."""

    def __init__(self, make: Callable[[], fr.Loader]) -> None:
        super().__init__()
        self.make = make

    def train_dataloader(self) -> fr.Loader:
        return self.make()


class SaveAlways(pl.Callback):
    """A checkpoint after every batch, also while gradients add up: as one that is saved by the clock."""

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        trainer.save_checkpoint("always.ckpt")


class SaveAfterValidation(pl.Callback):
    """A checkpoint after every validation, as one that is chosen by its result."""

    def on_validation_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if not trainer.sanity_checking:
            trainer.save_checkpoint("always.ckpt")


class SaveAtEnd(pl.Callback):
    """A checkpoint at the end of each epoch."""

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        trainer.save_checkpoint("always.ckpt")


def trainer(*callbacks: pl.Callback, **how: Any) -> pl.Trainer:
    quiet: dict[str, Any] = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "accelerator": "cpu",
    }
    return pl.Trainer(callbacks=list(callbacks), **{**quiet, "max_epochs": 2, **how})


def fit(
    loader: Any, *callbacks: pl.Callback, model: pl.LightningModule | None = None, val: Any = None, **how: Any
) -> pl.Trainer:
    made = trainer(*callbacks, **how)
    path = "always.ckpt" if Path("always.ckpt").exists() else None
    made.fit(model or Model(), loader, val, ckpt_path=path)
    return made


class Asking(Model):
    """Asks how many steps there will be, as OneCycleLR needs it."""

    def configure_optimizers(self) -> torch.optim.Optimizer:
        assert self.trainer.estimated_stepping_batches == 20
        return super().configure_optimizers()


class Scheduled(Model):
    """Asks the callback how many steps there will be."""

    def __init__(self, resume: ResumeCallback) -> None:
        super().__init__()
        self.resume = resume

    def configure_optimizers(self) -> torch.optim.Optimizer:
        assert self.resume.stepping_batches(self.trainer) == 20
        return super().configure_optimizers()


class Tuned(Model):
    """What a Tuner tries, which takes note of each batch."""

    def __init__(self, loader: fr.Loader) -> None:
        super().__init__()
        self.loader = loader
        self.lr, self.batch_size = 0.01, 2

    def train_dataloader(self) -> fr.Loader:
        return self.loader

    def training_step(self, batch: fr.Batch) -> torch.Tensor:
        tried.append((batch.epoch, batch.step))
        return super().training_step(batch)


class Manual(Model):
    """Steps by itself, after so many batches."""

    def __init__(self, accumulate: int) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.accumulate = accumulate

    def training_step(self, batch: fr.Batch, batch_idx: int) -> None:
        self.manual_backward(super().training_step(batch))
        if (batch_idx + 1) % self.accumulate == 0:
            optimizer: Any = self.optimizers()
            optimizer.step()
            optimizer.zero_grad()


class Broken(Exception):  # noqa: N818  (what ends a job is no fault)
    """A job is broken off."""


class Breaking(Model):
    """Breaks off after so many batches; takes note of them."""

    def __init__(self, after: int | None, asks: bool) -> None:
        torch.manual_seed(1)
        super().__init__()
        self.after, self.asks = after, asks
        self.seen: list[tuple[int, int]] = []

    def training_step(self, batch: fr.Batch) -> torch.Tensor:
        if len(self.seen) == self.after:
            raise Broken
        self.seen.append((batch.epoch, batch.step))
        return super().training_step(batch)

    def validation_step(self, batch: fr.Batch) -> None:
        pass

    def configure_optimizers(self) -> torch.optim.Optimizer:
        if self.asks:
            assert self.trainer.estimated_stepping_batches
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Ahead(Model):
    """Draws by itself, one batch ahead of the one that it trains on."""

    def __init__(self, callback: ResumeCallback | None) -> None:
        super().__init__()
        self.callback = callback
        self.drawn: list[fr.Batch] = []

    def training_step(self, dataloader_iter: Iterator[Any]) -> torch.Tensor:
        while len(self.drawn) < 2:
            batch = next(dataloader_iter, None)
            if batch is None:
                break
            self.drawn.append(batch[0])
        batch = self.drawn.pop(0)
        if self.callback is not None:
            self.callback.trained(batch)
        return super().training_step(batch)


class Drawing(Model):
    """Draws from loaders of its own."""

    def __init__(self, make: Any) -> None:
        super().__init__()
        self.make = make

    def draw(self) -> None:
        assert len([*self.make()]) == len(self.make()) == 10

    def on_train_start(self) -> None:
        self.draw()

    def training_step(self, batch: fr.Batch) -> torch.Tensor:
        self.draw()
        return super().training_step(batch)

    def validation_step(self, batch: fr.Batch) -> None:
        self.draw()

    test_step = predict_step = validation_step


class Unsized:
    """A loader whose length nobody sees, so that Lightning fetches one batch ahead; it has a state."""

    def __init__(self, loader: fr.Loader) -> None:
        self.dataset, self._loader = loader.dataset, loader

    def __iter__(self) -> Iterator[fr.Batch]:
        return iter(self._loader)

    def state_dict(self) -> dict[str, str]:
        return self._loader.state_dict()

    def load_state_dict(self, state: dict[str, str]) -> None:
        self._loader.load_state_dict(state)


class Validated(Model):
    """Takes note of the rows of each validation, the sanity check's too."""

    def __init__(self, seen: list[list[int]]) -> None:
        super().__init__()
        self.seen = seen

    def on_validation_epoch_start(self) -> None:
        self.seen.append([])

    def validation_step(self, batch: fr.Batch) -> None:
        self.seen[-1] += batch.rows().tolist()

    test_step = predict_step = validation_step
    on_test_epoch_start = on_predict_epoch_start = on_validation_epoch_start


class Dicts(Model):
    """A model that makes a dict of each batch."""

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return dict(batch)
