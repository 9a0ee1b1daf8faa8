"""Training that stops by itself amid a pass goes on to the end of all passes, however it is told to.

It is stopped by `max_steps`, or by what says that it should stop. What is saved then is gone on with by
passes or by steps. The oracle is the job that never stopped: its batches, its weights bit for bit, and what
the framework counts.
"""

from __future__ import annotations

import importlib
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from support.rehearsal import make, run, write_data
from support.staged_jobs import LENGTHS, loader, write_sources

pytestmark = [pytest.mark.processes, pytest.mark.law(2), pytest.mark.law(7)]

PASSES = len(LENGTHS)

STOPS = [(by, after) for by in ("steps", "callback") for after in (3, 6, 9, 16)]

LIGHTNING: list[dict[str, Any]] = [
    {},
    {"accumulate_grad_batches": 4},
    {"limit_train_batches": 4},
    {"val_check_interval": 3},
    {"val_check_interval": 0.5, "accumulate_grad_batches": 2},
    {"val_check_interval": 7, "check_val_every_n_epoch": None},
]

TRAINER: list[dict[str, Any]] = [{}, {"gradient_accumulation_steps": 4}]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The data of jobs whose passes are of one length, and of those of stages."""
    write_data(tmp_path, 80)
    write_sources(tmp_path)
    return tmp_path


def cases(settings: list[dict[str, Any]], saved: tuple[str, ...], few: bool) -> Iterator[tuple[Any, ...]]:
    """How to stop and to go on: all ways, or every so many of them."""
    every = itertools.product((loader, make), settings, saved, STOPS, ("passes", "steps"))
    return itertools.islice(every, 5 if few else 0, None, 61 if few else 1)


def compare(unbroken: Any, first: list[Any], rest: list[Any], added: int, message: object) -> None:
    """Both parts are those of the unbroken job; what was added up without a step comes again."""
    again = len(first) + len(rest) - len(unbroken)
    assert first == unbroken[: len(first)], message
    assert rest == unbroken[len(unbroken) - len(rest) :], message
    assert 0 <= again < added, (message, again)


def same_weights(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(first.equal(second) for first, second in pairs)


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.timeout(1200)
def test_lightning_ends_the_pass_that_it_stopped_in(few: bool, directory: Path) -> None:
    """It counts an epoch as done wherever it stops: the rest of the pass was an epoch of its own."""
    jobs = importlib.import_module("support.lightning_jobs")

    class Stop(jobs.pl.Callback):  # type: ignore[name-defined,misc]  # known when the module is imported
        def __init__(self, after: int) -> None:
            self.left = after

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            self.left -= 1
            trainer.should_stop = trainer.should_stop or self.left == 0

    def fit(new: Any, how: dict[str, Any], *callbacks: Any, path: str | None = None, **until: Any) -> Any:
        val = make(on_iter="restart") if "val_check_interval" in how else None
        trainer = jobs.trainer(jobs.ResumeCallback(read := new()), *callbacks, **how, **until)
        trainer.fit(jobs.Breaking(None, False), read, val, ckpt_path=path)
        return trainer

    def work() -> None:
        unbroken: dict[str, Any] = {}
        for new, how, saved, (by, most), on in cases(LIGHTNING, ("after.ckpt", "always.ckpt"), few):
            found = (new.__name__, how, saved, by, most, on)
            key = f"{new.__name__} {how}"
            if key not in unbroken:
                unbroken[key] = fit(new, how, max_epochs=PASSES)
            whole = unbroken[key]
            after = min(most, whole.global_step - 1)
            first = (
                fit(new, how, jobs.SaveAtEnd(), max_steps=after, max_epochs=-1)
                if by == "steps"
                else fit(new, how, jobs.SaveAtEnd(), Stop(after), max_epochs=PASSES)
            )
            first.save_checkpoint("after.ckpt")
            until = (
                {"max_epochs": PASSES}
                if on == "passes"
                else {"max_steps": whole.global_step, "max_epochs": -1}
            )
            rest = fit(new, how, path=saved, **until)
            added = how.get("accumulate_grad_batches", 1)
            compare(whole.model.seen, first.model.seen, rest.model.seen, added, found)
            assert same_weights(whole.model, rest.model), found
            counts = [(each.global_step, each.current_epoch) for each in (whole, rest)]
            assert counts[0] == counts[1], (found, counts)

    run(work, directory, seconds=200 if few else 1100)


@pytest.mark.parametrize("few", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.timeout(1200)
def test_the_trainer_ends_the_pass_that_it_stopped_in(few: bool, directory: Path) -> None:
    jobs = importlib.import_module("support.trainer_jobs")
    transformers = importlib.import_module("transformers")

    class Stop(transformers.TrainerCallback):  # type: ignore[name-defined,misc]  # as above
        def __init__(self, after: int) -> None:
            self.left = after

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.left -= 1
            control.should_training_stop = control.should_training_stop or self.left == 0

    def train(new: Any, stop: int | None = None, resume: bool = False, **how: Any) -> Any:
        if not resume:
            shutil.rmtree("saved", ignore_errors=True)
        torch.manual_seed(1)
        trainer = jobs.make_trainer(jobs.ResumeCallback(new()), lr_scheduler_type="constant", **how)
        if stop is not None:
            trainer.add_callback(Stop(stop))
        seen: list[list[float]] = []
        trainer.model.register_forward_pre_hook(
            lambda _, __, given: seen.append(given["inputs"][:, 0].tolist()), with_kwargs=True
        )
        trainer.train(resume_from_checkpoint=jobs.get_last_checkpoint("saved") if resume else None)
        return trainer, seen

    def work() -> None:
        unbroken: dict[str, Any] = {}
        for new, how, strategy, (by, most), on in cases(TRAINER, ("steps", "epoch"), few):
            found = (new.__name__, how, strategy, by, most, on)
            key = f"{new.__name__} {how}"
            if key not in unbroken:
                unbroken[key] = train(new, num_train_epochs=PASSES, save_strategy="no", **how)
            whole, all_seen = unbroken[key]
            after = min(most, whole.state.global_step - 1)
            until = {"max_steps": after} if by == "steps" else {"num_train_epochs": PASSES}
            stop = after if by == "callback" else None
            saving = {"save_strategy": strategy}
            _, first = train(new, stop, **until, **saving, **how)
            until = {"num_train_epochs": PASSES} if on == "passes" else {"max_steps": whole.state.global_step}
            trainer, rest = train(new, resume=True, **until, **saving, **how)
            compare(all_seen, first, rest, 1, found)
            assert same_weights(whole.model, trainer.model), found
            counts = [(each.state.global_step, each.state.epoch) for each in (whole, trainer)]
            assert counts[0] == counts[1], (found, counts)

    run(work, directory, seconds=200 if few else 1100)


def test_a_second_fit_of_one_trainer_says_that_its_first_epoch_is_the_rest_of_a_pass(directory: Path) -> None:
    jobs = importlib.import_module("support.lightning_jobs")

    def work() -> None:
        read = make()
        trainer = jobs.trainer(jobs.ResumeCallback(read), max_steps=4, max_epochs=-1)
        trainer.fit(model := jobs.Breaking(None, False), read)
        trainer.fit_loop.epoch_loop.max_steps = 30
        with pytest.warns(UserWarning, match="loader is in the middle of a pass: 6 of 10 batches are left"):
            trainer.fit(model, read)
        assert len(model.seen) == 30

    run(work, directory)


@pytest.mark.parametrize("names", ["one", "two"])
def test_several_loaders_train_beside_a_mixture(names: str, directory: Path) -> None:
    """Its batches are known among those of others, and so end an epoch with their pass."""
    jobs = importlib.import_module("support.lightning_jobs")

    class Model(jobs.Model):  # type: ignore[name-defined,misc]  # as above
        def training_step(self, batch: Any) -> Any:
            return super().training_step(batch[names])

    def work() -> None:
        read = loader()
        pair = {names: read, "other": make(on_iter="restart")}
        jobs.fit(pair, jobs.ResumeCallback(read), jobs.SaveAlways(), model=Model(), max_epochs=PASSES)

    found = run(work, directory, kill_at=9)[0]
    assert len([*found, *run(work, directory)[0]]) == sum(LENGTHS)
