"""Under Lightning, jobs that are broken off again and again end as unbroken ones do, whatever the settings.

The oracle is the job that was never broken off: the same batches to the end, and the same weights, bit for
bit, so that each step of the optimizer had the same batches.
"""

from __future__ import annotations

import importlib
import random
from pathlib import Path
from typing import Any

import pytest

from support.profile import SOAK
from support.rehearsal import STEPS, make, run, steps

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]

SEEDS = 60 if SOAK else 8


@pytest.fixture(scope="module")
def jobs() -> Any:
    """What the tests' processes run; the framework is imported before they fork."""
    return importlib.import_module("support.lightning_jobs")


def settings(chance: random.Random) -> dict[str, Any]:
    """How a Trainer may count, check and stop."""
    limit = chance.choice([None, None, None, 1, 4, 5, 0.5])
    added = chance.choice([1, 2, 3, 4, 7])
    how: dict[str, Any] = {
        **chance.choice([{"accumulate_grad_batches": added}] * 3 + [{"changing": {0: added, 1: 3}}]),
        "limit_train_batches": limit,
        "val_check_interval": chance.choice([1.0, 0.5] if limit == 1 else [1.0, 0.5, 3]),
    }
    counts = {"max_epochs": chance.choice([2, 3])}
    return how | chance.choice([counts, counts, {"max_steps": chance.choice([5, 8]), "max_epochs": -1}])


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_job_that_is_broken_off_ends_as_an_unbroken_one(part: int, directory: Path, jobs: Any) -> None:
    def fit(model: Any, saving: Any, is_first: bool, shuffle: bool, how: dict[str, Any]) -> Any:
        loader = make(shuffle=True, seed=3) if shuffle else make()
        callbacks = [saving, jobs.ResumeCallback(loader)]
        how = dict(how)
        if (changing := how.pop("changing", None)) is not None:
            callbacks.append(jobs.GradientAccumulationScheduler(changing))
        if is_first:
            callbacks.reverse()
        try:
            jobs.fit(loader, *callbacks, model=model, val=make(on_iter="restart"), **how)
        except jobs.Broken:
            return None
        return model

    def chain(seed: int) -> None:
        chance = random.Random(seed)
        how = settings(chance)
        place = chance.choice([jobs.SaveAlways, jobs.SaveAlways, jobs.SaveAfterValidation, jobs.SaveAtEnd])
        how_called = (place(), chance.random() < 0.5, chance.random() < 0.5, how)
        asks = chance.random() < 0.3
        Path("always.ckpt").unlink(missing_ok=True)
        unbroken = fit(jobs.Breaking(None, asks), *how_called)
        Path("always.ckpt").unlink(missing_ok=True)
        after = [
            chance.choice([chance.randint(1, 2 * STEPS), 4, 5, STEPS]) for _ in range(chance.randint(1, 3))
        ]
        for count in after:
            fit(jobs.Breaking(count, asks), *how_called)
        last = fit(jobs.Breaking(None, asks), *how_called)
        found = f"seed {seed}: {how_called}, broken off after {after}"
        assert last.seen == unbroken.seen[len(unbroken.seen) - len(last.seen) :], found
        assert last.trainer.global_step == unbroken.trainer.global_step, found
        for one, other in zip(unbroken.parameters(), last.parameters(), strict=True):
            assert one.equal(other), found

    def work() -> None:
        for seed in range(part * SEEDS, (part + 1) * SEEDS):
            chain(seed)

    run(work, directory)


def test_a_job_that_is_done_trains_no_more(directory: Path, jobs: Any) -> None:
    """Twice gone on from checkpoints of the last batch of an epoch, Lightning took it for undone."""

    def work() -> None:
        loader = make()
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())

    (directory / "always.ckpt").unlink(missing_ok=True)
    assert run(work, directory, kill_at=STEPS)[0] == steps(0, STEPS)
    assert run(work, directory)[0] == steps(STEPS, 2 * STEPS)
    assert run(work, directory)[0] == []


def test_an_epoch_that_has_ended_gets_no_batch_more_under_max_steps(directory: Path, jobs: Any) -> None:
    """It got the first batch of the next pass, alone in a step, where validation came at other batches."""

    def work() -> None:
        loader = make()
        how = {"max_steps": 5, "max_epochs": -1, "accumulate_grad_batches": 4, "val_check_interval": 3}
        val = make(on_iter="restart")
        callbacks = jobs.ResumeCallback(loader), jobs.SaveAtEnd()
        jobs.fit(loader, *callbacks, model=jobs.Validated([[]]), val=val, **how)

    (directory / "always.ckpt").unlink(missing_ok=True)
    assert run(work, directory, kill_at=12)[0] == steps(0, 12)
    assert run(work, directory)[0] == steps(10, 18)
