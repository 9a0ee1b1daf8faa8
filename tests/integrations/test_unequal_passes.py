"""Passes that differ in length, under frameworks that ask for it once: stages of 6, 10 and 14 batches.

Each life is a process of its own (see rehearsal.py), and most are killed in the middle of a pass.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from support.rehearsal import run
from support.staged_jobs import LENGTHS, loader, steps, write_sources

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]

ALL = sum(LENGTHS)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sources, which jobs leave their checkpoints in."""
    directory = tmp_path_factory.mktemp("staged")
    write_sources(directory)
    return directory


@pytest.fixture
def directory(sources: Path, tmp_path: Path) -> Path:
    """A fresh directory of a job."""
    for source in sources.glob("*.parquet"):
        (tmp_path / source.name).symlink_to(source)
    return tmp_path


def with_trainer(**how: Any) -> Callable[[], None]:
    jobs = importlib.import_module("support.trainer_jobs")

    def work() -> None:
        trainer = jobs.make_trainer(
            jobs.ResumeCallback(loader()), **{"num_train_epochs": len(LENGTHS), "save_total_limit": 1, **how}
        )
        jobs.train(trainer)
        added = trainer.args.gradient_accumulation_steps
        in_all = sum(-(-length // added) for length in LENGTHS)
        assert trainer.state.global_step == trainer.state.max_steps == in_all
        assert trainer.state.epoch == len(LENGTHS)
        assert trainer.args.max_steps == how.get("max_steps", -1)
        warmed = [entry["learning_rate"] for entry in trainer.state.log_history if "learning_rate" in entry]
        assert all(rate > 0 for rate in warmed[:-1]), "the schedule is made for all steps"

    return work


def with_lightning(**how: Any) -> Callable[[], None]:
    jobs = importlib.import_module("support.lightning_jobs")

    def work() -> None:
        resume = jobs.ResumeCallback(loader())
        made = jobs.trainer(resume, jobs.SaveAlways(), max_epochs=len(LENGTHS), **how)
        assert resume.stepping_batches(made) == sum(
            -(-length // made.accumulate_grad_batches) for length in LENGTHS
        )
        path = "always.ckpt" if Path("always.ckpt").exists() else None
        made.fit(jobs.Model(), resume._loader, ckpt_path=path)
        assert made.current_epoch == len(LENGTHS)

    return work


def with_accelerate(**how: Any) -> Callable[[], None]:
    accelerate = importlib.import_module("accelerate")
    register = importlib.import_module("fastresume.integrations.accelerate").register

    def work() -> None:
        accelerator = accelerate.Accelerator(cpu=True, **how)
        model = torch.nn.Linear(2, 1)
        model, optimizer, read = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), lr=0.01), loader()
        )
        resume = register(accelerator, read)
        if Path("saved").exists():
            accelerator.load_state("saved")
        while read.epoch < len(LENGTHS):
            for batch in read:
                with accelerator.accumulate(model):
                    accelerator.backward(model(batch["inputs"]).square().mean())
                    optimizer.step()
                    optimizer.zero_grad()
                resume.trained(batch)
                accelerator.save_state("saved")

    return work


JOBS: dict[str, Callable[..., Callable[[], None]]] = {
    "Trainer": with_trainer,
    "Lightning": with_lightning,
    "Accelerate": with_accelerate,
}

ADDING = {
    "Trainer": {"gradient_accumulation_steps": 4},
    "Lightning": {"accumulate_grad_batches": 4},
    "Accelerate": {"gradient_accumulation_steps": 4},
}


@pytest.mark.parametrize("framework", JOBS)
def test_all_batches_of_all_passes_are_trained_whenever_it_is_killed(framework: str, directory: Path) -> None:
    """Killed in the first pass, at its end, in the second and in the third one."""
    work, found = JOBS[framework](), []
    for kill_after in (3, 3, 4, 7):
        found += run(work, directory, kill_at=kill_after)[0]
    assert [*found, *run(work, directory)[0]] == steps(directory)


@pytest.mark.parametrize("framework", JOBS)
def test_gradients_that_add_up_end_with_their_pass(framework: str, directory: Path) -> None:
    """Of four batches: what was added up and made no step comes again."""
    work = JOBS[framework](**ADDING[framework])
    found = run(work, directory, kill_at=4)[0]
    found += run(work, directory, kill_at=2 + 8)[0]
    assert [*found, *run(work, directory)[0]] == steps(directory)


def test_the_trainer_steps_as_often_as_it_is_told(directory: Path) -> None:
    """`max_steps` counts over the passes."""
    found = run(with_trainer(max_steps=ALL), directory, kill_at=11)[0]
    assert [*found, *run(with_trainer(max_steps=ALL), directory)[0]] == steps(directory)
    assert run(with_trainer(max_steps=ALL), directory)[0] == [], "it was done"
