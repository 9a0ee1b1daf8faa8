"""Jobs that train so many passes of a loader under a framework: each is a function that one life runs.

Frameworks take seconds to import, so each is imported when its job is made, before its process is forked.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import fastresume as fr

Read = Callable[[], fr.Loader]
Life = Callable[[], None]


def with_trainer(read: Read, passes: int, world_size: int = 1, **how: Any) -> Life:
    jobs = importlib.import_module("support.trainer_jobs")

    def live() -> None:
        resume = jobs.ResumeCallback(read())
        settings = {"num_train_epochs": passes, "save_total_limit": 1, "lr_scheduler_type": "constant"}
        trainer = jobs.make_trainer(resume, **{**settings, **how})
        assert trainer.args.world_size == world_size
        jobs.train(trainer)
        assert trainer.state.epoch == passes
        assert trainer.state.global_step == trainer.state.max_steps

    return live


def with_lightning(read: Read, passes: int, world_size: int = 1, **how: Any) -> Life:
    jobs = importlib.import_module("support.lightning_jobs")

    def live() -> None:
        if world_size > 1:
            os.environ["TORCHELASTIC_RUN_ID"] = "job"  # by which Lightning knows torchrun
        resume = jobs.ResumeCallback(read())
        devices = {"devices": world_size, "strategy": "ddp" if world_size > 1 else "auto"}
        made = jobs.trainer(resume, jobs.SaveAlways(), max_epochs=passes, **devices, **how)
        path = "always.ckpt" if Path("always.ckpt").exists() else None
        made.fit(jobs.Model(), resume._loader, ckpt_path=path)
        assert made.current_epoch == passes

    return live


def with_accelerate(read: Read, passes: int, world_size: int = 1, **how: Any) -> Life:
    accelerate = importlib.import_module("accelerate")
    register = importlib.import_module("fastresume.integrations.accelerate").register

    def live() -> None:
        accelerator = accelerate.Accelerator(cpu=True, **how)
        assert accelerator.num_processes == world_size
        model = torch.nn.Linear(2, 1)
        model, optimizer, loader = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), lr=0.01), read()
        )
        resume = register(accelerator, loader)
        if Path("saved").exists():
            accelerator.load_state("saved")
        while loader.epoch < passes:
            for batch in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(model(batch["inputs"]).square().mean())
                    optimizer.step()
                    optimizer.zero_grad()
                resume.trained(batch)
                accelerator.save_state("saved")
                accelerator.wait_for_everyone()  # each rank has a file of its own there

    return live


JOBS: dict[str, Callable[..., Life]] = {
    "Trainer": with_trainer,
    "Lightning": with_lightning,
    "Accelerate": with_accelerate,
}
