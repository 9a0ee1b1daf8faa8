"""Two ranks under a function that fails over batches of one of them do even steps, and resume exactly."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch

import fastresume as fr
from support import failing
from support.failing import RANKS, STEPS
from support.rehearsal import run

pytestmark = [pytest.mark.processes, pytest.mark.law(2), pytest.mark.law(8)]

EACH = [(step,) for step in range(STEPS)]
SOME = [(0,), (STEPS - 1,), (0, 1, 4, 5)]


def check(directory: Path, reader: str, *how: Any) -> None:
    """Run two ranks that check themselves."""
    run(partial(failing.matrix, reader, *how), directory, world_size=RANKS, is_launched=True)
    for rank in range(RANKS):
        assert json.loads((directory / f"wrong-{rank}").read_text()) == []


def test_gradients_add_up_and_resume_on_two_ranks(directory: Path) -> None:
    check(directory, "threads", SOME, 4)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("bad_rank", range(RANKS))
@pytest.mark.parametrize("reader", ["alone", "threads", "workers", "fork"])
def test_two_ranks_resume_after_every_step_wherever_one_fails(
    directory: Path, reader: str, bad_rank: int, window: int
) -> None:
    for first in range(0, STEPS, 2):  # a job of its own for each: a rank has 90 seconds
        check(directory, reader, EACH[first : first + 2], window, (bad_rank,))
    check(directory, reader, SOME[2:], window, (bad_rank,))


@pytest.mark.slow
def test_workers_that_are_started_anew_see_the_same(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(directory)
    found = {}
    for reader in ("alone", "spawn"):
        batches = failing.READERS[reader](failing.opened((0, 8), rank=1))
        values: Any = [(one.step, one["inputs"], one["label"], one.valid) for one in batches]
        found[reader] = [(step, *(each.tolist() for each in rest)) for step, *rest in values]
    assert found["spawn"] == found["alone"]


# ------------------------------------------------------------------------------------------- the frameworks

KILL_AT = 5
BAD = (0, KILL_AT, STEPS - 1)
"""Rank 1 fails over the first batch, the first after the resume, and the last."""


def own_steps() -> tuple[int, ...]:
    return BAD if os.environ["RANK"] == "1" else ()


def loader_of(**how: Any) -> fr.Loader:
    return fr.Loader(failing.opened(own_steps(), **how), threads=2)


def plainly(adds: int) -> None:
    """A loop of its own, which saves after each step."""
    torch.distributed.init_process_group("gloo")
    inner = torch.nn.Linear(2, 1)
    model = torch.nn.parallel.DistributedDataParallel(inner)
    loader, accumulation = loader_of(), fr.training.accumulate(model, steps=adds)
    if Path("saved/state.pt").exists():
        loader.load_state_dict(torch.load("saved/state.pt"))
    Path("saved").mkdir(exist_ok=True)
    torch.distributed.barrier()
    while loader.epoch < 2:
        for batch in loader:
            with accumulation(batch):
                inputs: Any = batch["inputs"]
                model(inputs).sum().backward()
            torch.distributed.barrier()
            if os.environ["RANK"] == "0":
                torch.save(accumulation.state_dict(), "saved/new.pt")
                Path("saved/new.pt").rename("saved/state.pt")
            torch.distributed.barrier()


def by_trainer(jobs: Any, adds: int) -> None:
    resume = jobs.ResumeCallback(loader_of(), check_same=True)
    jobs.train(jobs.make_trainer(resume, gradient_accumulation_steps=adds, label_names=["label"]))


def by_lightning(jobs: Any, adds: int) -> None:
    os.environ["TORCHELASTIC_RUN_ID"] = "job"  # by which Lightning knows torchrun
    loader = loader_of()
    how = {"devices": RANKS, "strategy": "ddp", "accumulate_grad_batches": adds}
    jobs.fit(loader, jobs.ResumeCallback(loader, check_same=True), jobs.SaveAlways(), **how)


def by_accelerate(accelerate: Any, adds: int) -> None:
    config = accelerate.DataLoaderConfiguration(dispatch_batches=False)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=adds, dataloader_config=config)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader_of())
    register = importlib.import_module("fastresume.integrations.accelerate").register
    resume = register(accelerator, loader, check_same=True)
    if Path("saved").exists():
        accelerator.load_state("saved")
    while resume.dataset.epoch < 2:
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(model(batch["inputs"]).sum())
                optimizer.step()
                optimizer.zero_grad()
            resume.trained(batch)
            accelerator.save_state("saved")
            accelerator.wait_for_everyone()


FRAMEWORKS: dict[str, tuple[str, Callable[[Any, int], None]]] = {
    "plain": ("torch", lambda _, adds: plainly(adds)),
    "Trainer": ("support.trainer_jobs", by_trainer),
    "Lightning": ("support.lightning_jobs", by_lightning),
    "Accelerate": ("accelerate", by_accelerate),
}


@pytest.fixture
def saved(directory: Path) -> Iterator[Callable[[], None]]:
    """A function that removes what a job has saved, as the test's end does."""

    def remove() -> None:
        rmtree(directory / "saved", ignore_errors=True)
        (directory / "always.ckpt").unlink(missing_ok=True)

    remove()
    yield remove
    remove()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("adds", [1, 4])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_killed_job_of_two_ranks_goes_on_as_the_unbroken_one(
    directory: Path, framework: str, adds: int, saved: Callable[[], None]
) -> None:
    module, work = FRAMEWORKS[framework]
    job = partial(work, importlib.import_module(module), adds)
    whole = run(job, directory, world_size=RANKS, is_launched=True)
    assert [len(of_rank) for of_rank in whole] == [2 * STEPS] * RANKS
    saved()
    begun = run(job, directory, world_size=RANKS, kill_at=KILL_AT, is_launched=True)
    rest = run(job, directory, world_size=RANKS, is_launched=True)
    stepped = KILL_AT // adds * adds
    for rank in range(RANKS):
        assert begun[rank][:KILL_AT] == whole[rank][:KILL_AT]
        assert rest[rank] == whole[rank][stepped:], f"rank {rank}"
