"""Under Lightning: what `ResumeCallback` makes right, what it refuses, and what happens without it.

Each life is a process of its own (see rehearsal.py), and most are killed in mid pass.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_utilities.core.apply_func import apply_to_collection
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.integrations.resume_state import ResumeState
from support.rehearsal import BATCH, ROWS, STEPS, make, run, steps

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]


@pytest.fixture(scope="module")
def jobs() -> Any:
    """What the tests' processes run; the framework is imported before they fork."""
    return importlib.import_module("support.lightning_jobs")


@pytest.fixture
def live(directory: Path) -> Iterator[Callable[..., list[list[int]]]]:
    """A function that runs one life of a job, whose checkpoint the next one finds; it gives rows by step."""

    def live(work: Callable[[], object], kill_at: int | None = None) -> list[list[int]]:
        return run(work, directory, kill_at=kill_at)[0]

    yield live
    (directory / "always.ckpt").unlink(missing_ok=True)


@pytest.mark.parametrize("kind", ["Loader", "reads ahead", "DataLoader"])
def test_a_killed_fit_goes_on_after_the_batch_that_was_trained(kind: str, jobs: Any, live: Any) -> None:
    def work() -> None:
        inner = make()
        loader: Any = {
            "Loader": lambda: inner,
            "reads ahead": lambda: jobs.Unsized(inner),
            "DataLoader": lambda: DataLoader(inner.dataset, batch_size=None, num_workers=2),
        }[kind]()
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())

    found = live(work, kill_at=4)
    found += live(work, kill_at=7)  # in the second life: at step 11, of the second pass
    found += live(work)
    if kind == "DataLoader":  # two workers take turns
        assert sorted(row for step in found for row in step) == sorted([*range(ROWS)] * 2)
        assert sorted(row for step in found[:STEPS] for row in step) == [*range(ROWS)]
    else:
        assert found == steps(0, 2 * STEPS)


def test_lightnings_own_state_in_the_checkpoint_is_put_right(jobs: Any, live: Any) -> None:
    """Reading ahead, Lightning saves the state of a batch that was not trained: the callback mends it."""

    def alone() -> None:
        loader = jobs.Unsized(make())
        ResumeState(loader)  # type: ignore[arg-type]  # whose owner says that it keeps the place
        jobs.fit(loader, jobs.SaveAlways())

    def with_callback() -> None:
        loader = jobs.Unsized(make())
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())  # type: ignore[arg-type]  # as a DataLoader is

    assert live(with_callback, kill_at=4) == steps(0, 4)
    assert live(alone, kill_at=2) == steps(4, 6)  # without it, from what it mended
    assert live(alone, kill_at=2) == steps(7, 9), "Lightning has not lost a batch: is the callback needed?"


def test_what_was_added_up_before_a_kill_is_added_up_again(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways(), accumulate_grad_batches=4)

    # Steps 0 to 3 make a step of the optimizer; 4 and 5 are lost with the gradients that the kill took.
    assert live(work, kill_at=6) == steps(0, 6)
    assert live(work, kill_at=5) == steps(4, 9)
    # A pass ends amid four: its last two make one step.
    assert live(work, kill_at=3) == steps(8, 11)
    assert live(work) == steps(10, 2 * STEPS)


def test_how_many_batches_add_up_may_change_from_epoch_to_epoch(jobs: Any, live: Any) -> None:
    """Lightning knows of the number when the epoch begins, which is after the checkpoint was read."""

    def work() -> None:
        loader = make()
        scheduler = jobs.GradientAccumulationScheduler({0: 4, 1: 3})
        trainer = jobs.fit(loader, jobs.ResumeCallback(loader), scheduler, jobs.SaveAlways())
        assert trainer.global_step == 3 + 4

    assert live(work, kill_at=6) == steps(0, 6)
    assert live(work, kill_at=11) == steps(4, 15)
    assert live(work) == steps(13, 2 * STEPS)


@pytest.mark.parametrize("added", [1, 4])
def test_a_callback_that_comes_before_this_one_saves_the_batch_that_was_trained(
    added: int, jobs: Any, live: Any
) -> None:
    def work() -> None:
        loader = make()
        jobs.fit(loader, jobs.SaveAlways(), jobs.ResumeCallback(loader), accumulate_grad_batches=added)

    assert live(work, kill_at=4) == steps(0, 4)
    assert live(work, kill_at=6) == steps(4, 10)
    assert live(work) == steps(10, 2 * STEPS)


@pytest.mark.parametrize("is_told", [True, False])
def test_what_a_step_draws_ahead_by_itself_is_told_to_the_callback(
    is_told: bool, jobs: Any, live: Any
) -> None:
    def work() -> None:
        loader = make()
        callback = jobs.ResumeCallback(loader)
        model = jobs.Ahead(callback if is_told else None)
        jobs.fit(loader, callback, jobs.SaveAlways(), model=model, max_epochs=1)

    def warned() -> None:
        with pytest.warns(UserWarning, match=r"call trained\(batch\) of this ResumeCallback"):
            work()

    assert live(work if is_told else warned, kill_at=4) == steps(0, 4)
    assert live(work, kill_at=2) == (steps(4, 6) if is_told else steps(5, 7))  # else it is as if trained


@pytest.mark.law(3)
@pytest.mark.parametrize(("kill_at", "after"), [(5, 4), (5, 16), (STEPS, 4), (STEPS, 80), (STEPS + 5, 16)])
def test_epochs_remain_passes_when_the_batch_size_changes(
    kill_at: int, after: int, jobs: Any, live: Any
) -> None:
    """And so under another number of ranks: both change how many batches are left."""

    def work(size: int) -> Callable[[], None]:
        def fit_once() -> None:
            loader = make(size, tail="short")
            jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())

        return fit_once

    found = live(work(BATCH), kill_at=kill_at) + live(work(after))
    rows = [row for step in found for row in step]
    assert sorted(rows[:ROWS]) == [*range(ROWS)], "the first epoch is not the first pass"
    assert sorted(rows) == sorted([*range(ROWS)] * 2)


def test_epochs_of_fewer_batches_than_a_pass_go_on_in_it_and_say_so(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        how = {"limit_train_batches": 4, "max_epochs": 4, "accumulate_grad_batches": 2}
        with pytest.warns(UserWarning, match="an epoch has 4 of the 10 batches of a pass, and the next one"):
            jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways(), **how)

    assert live(work, kill_at=6) == steps(0, 6)
    assert live(work, kill_at=3) == steps(6, 9)
    assert live(work) == steps(8, 14)  # the third epoch ends with the pass, after two batches


def test_workers_go_on_in_a_pass_of_several_epochs_too(jobs: Any, live: Any) -> None:
    """Those of a DataLoader, which begin a pass anew that was broken off."""

    def work() -> None:
        loader = DataLoader(make().dataset, batch_size=None, num_workers=2)
        jobs.fit(loader, jobs.ResumeCallback(loader), limit_train_batches=4, max_epochs=6)

    found = [row for step in live(work) for row in step]
    assert sorted(found[:ROWS]) == sorted(found[ROWS:]) == [*range(ROWS)]


@pytest.mark.parametrize("kill_at", [None, 9, STEPS])
def test_an_epoch_that_ends_early_with_its_pass_has_its_last_step(
    kill_at: int | None, jobs: Any, live: Any
) -> None:
    """Lightning counts on four batches whose gradients add up: without a step two would be lost."""

    def work() -> None:
        loader = make()
        how = {"limit_train_batches": 4, "max_epochs": 4, "accumulate_grad_batches": 4}
        trainer = jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways(), **how)
        assert (trainer.global_step, trainer.current_epoch) == (4, 4)

    if kill_at is None:
        assert live(work) == steps(0, 14)
    else:
        assert live(work, kill_at=kill_at) == steps(0, kill_at)
        assert live(work) == steps(8 if kill_at == 9 else STEPS, 14)


def test_a_fit_that_begins_in_mid_pass_without_a_checkpoint_is_told(jobs: Any, live: Any) -> None:
    """And its first, shorter epoch has its last step, of two batches."""

    def work() -> None:
        loader = make()
        callback = jobs.ResumeCallback(loader)
        jobs.fit(loader, callback, max_steps=4)
        with pytest.warns(UserWarning, match="loader is in the middle of a pass: 6 of 10 batches are left"):
            trainer = jobs.fit(loader, callback, max_epochs=1, accumulate_grad_batches=4)
        assert trainer.global_step == 2

    assert live(work) == steps(0, STEPS)


def test_epochs_of_the_same_batches_are_refused(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        with pytest.raises(ValueError, match=r'overfit_batches=2 .*pass on_iter="restart" to the dataset'):
            jobs.fit(loader, jobs.ResumeCallback(loader), overfit_batches=2)
        jobs.fit(make(on_iter="restart"), overfit_batches=2)

    assert live(work) == [*steps(0, 2), *steps(0, 2)]


@pytest.mark.parametrize("accumulate", [1, 3])
def test_under_manual_optimization_the_cursor_moves_with_the_optimizers_steps(
    accumulate: int, jobs: Any, live: Any
) -> None:
    def work() -> None:
        loader = make()
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways(), model=jobs.Manual(accumulate))

    assert live(work, kill_at=5) == steps(0, 5)
    assert live(work, kill_at=5) == (steps(5, 10) if accumulate == 1 else steps(3, 8))
    assert live(work) == steps(10 if accumulate == 1 else 6, 2 * STEPS)


@pytest.mark.law(3)
def test_two_ranks_that_are_killed_go_on_as_one(directory: Path, jobs: Any, live: Any) -> None:
    def work(devices: int) -> Callable[[], None]:
        def fit_once() -> None:
            os.environ["TORCHELASTIC_RUN_ID"] = "job"  # by which Lightning knows torchrun
            loader = fr.Loader(
                fr.ParquetDataset(
                    "data", global_batch_size=BATCH, columns=["*", "!i_*", fr.stack("i_*", name="inputs")]
                )
            )
            how = {"devices": devices, "strategy": "ddp" if devices > 1 else "auto"}
            jobs.fit(loader, jobs.ResumeCallback(loader, check_same=True), jobs.SaveAlways(), **how)

        return fit_once

    found = run(work(2), directory, world_size=2, kill_at=7, is_launched=True)
    assert [len(of_rank) for of_rank in found] in ([7, 7], [7, 8])
    first = [row for of_rank in found for step in of_rank[:7] for row in step]
    rest = [row for step in live(work(1)) for row in step]
    assert sorted((first + rest)[:ROWS]) == [*range(ROWS)]
    assert rest[-ROWS:] == [*range(ROWS)]

    def alone() -> None:
        os.environ.update({"RANK": "0", "WORLD_SIZE": "2"})
        loader = make()
        del os.environ["RANK"], os.environ["WORLD_SIZE"]
        with pytest.raises(ValueError, match="told the dataset of 2 ranks, but Lightning knows of 1"):
            jobs.fit(loader, jobs.ResumeCallback(loader))

    (directory / "always.ckpt").unlink()
    assert live(alone) == []


KINDS: dict[str, Callable[[Any, fr.Loader], Any]] = {
    "Loader": lambda _, loader: loader,
    "two": lambda _, loader: {"one": loader, "other": make(on_iter="restart")},
    "DataLoader": lambda _, loader: DataLoader(loader.dataset, batch_size=None),
    "workers": lambda _, loader: DataLoader(loader.dataset, batch_size=None, num_workers=2),
}


def test_what_lightning_trains_on_without_the_callback_is_refused(jobs: Any, live: Any) -> None:
    """Before a batch is drawn, and however Lightning comes to draw it."""

    def work() -> None:
        refused = pytest.raises(
            fr.FastresumeError, match=r"nothing keeps its place.*ResumeCallback\(loader\)"
        )
        for kind in KINDS.values():
            loader = make()
            with refused:
                jobs.fit(kind(jobs, loader), jobs.SaveAlways())
            assert loader.batches_left == STEPS
        with pytest.raises(RuntimeError, match="iter") as raised:  # of Lightning, which then can't end
            jobs.fit(jobs.Unsized(make()))
        assert "nothing keeps its place" in str(raised.value.__context__)
        with refused:
            jobs.fit(make(), model=jobs.Asking())
        with refused:
            jobs.Tuner(jobs.trainer()).lr_find(jobs.Tuned(make()), num_training=4)

    assert live(work) == []


def test_what_is_not_trained_on_by_lightning_is_its_owners(jobs: Any, live: Any) -> None:
    def work() -> None:
        jobs.fit(make(on_iter="restart"), max_epochs=1)
        # Drawn in hooks, in a step, and by other loops than the one that trains.
        trainer = jobs.trainer(max_epochs=1)
        loader = make()
        trainer.callbacks.append(jobs.ResumeCallback(loader))
        trainer.fit(jobs.Drawing(make), loader, make(on_iter="restart"))
        for loop in (trainer.validate, trainer.test, trainer.predict):
            loop(jobs.Drawing(make), make())

    assert live(work) == [*steps(0, STEPS), *steps(0, STEPS)]


def test_hyperparameters_have_no_loader_and_the_error_says_how_to_leave_it_out(jobs: Any, live: Any) -> None:
    class Saving(jobs.pl.LightningModule):  # type: ignore[name-defined,misc]  # it is imported late
        left_out: list[str] | None = None

        def __init__(self, loader: fr.Loader, rate: float) -> None:
            super().__init__()
            self.save_hyperparameters(ignore=self.left_out)

    def work() -> None:
        with pytest.raises(TypeError, match=r"hyperparameters: save_hyperparameters\(ignore=\['loader'\]\)"):
            Saving(make(), 0.1)
        Saving.left_out = ["loader"]
        assert dict(Saving(make(), 0.1).hparams) == {"rate": 0.1}

    assert live(work) == []


def test_fabric_saves_the_state_of_a_batch_and_takes_the_loader_as_it_is(jobs: Any, live: Any) -> None:
    def work() -> None:
        from lightning.fabric import Fabric

        fabric = Fabric(accelerator="cpu", devices=1)
        model, loader = fabric.setup(torch.nn.Linear(2, 1)), make()
        for batch in loader:
            model(batch["inputs"])
            if batch.step == 2:
                fabric.save("fabric.ckpt", {"model": model, "data": batch.state_dict()})
        loader = make()
        loader.load_state_dict(fabric.load("fabric.ckpt", {"model": model})["data"])
        assert next(iter(loader)).step == 3

    live(work)


@pytest.mark.parametrize("stop", [3, STEPS], ids=["a step", "the end of an epoch"])
@pytest.mark.parametrize("reader", ["loader that restarts", "own ResumeState", "DataLoader"])
def test_a_checkpoint_that_was_saved_without_the_callback_is_refused(
    reader: str, stop: int, jobs: Any, live: Any
) -> None:
    """Lightning asks the loader by itself, whose state may be of a batch that was not trained, or of none."""

    def without() -> None:
        loader = make(on_iter="restart") if reader == "loader that restarts" else make()
        if reader != "loader that restarts":
            ResumeState(loader)
        drawn = DataLoader(loader.dataset, batch_size=None) if reader == "DataLoader" else loader
        jobs.fit(drawn, jobs.SaveAlways(), max_steps=stop)

    def with_callback() -> None:
        loader = make()
        with pytest.raises(
            fr.StateError, match="the checkpoint has no state of the data under ResumeCallback"
        ):
            jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())

    assert live(without) == steps(0, stop)
    assert live(with_callback) == []


@pytest.mark.parametrize("at", ["a step", "the end of an epoch"])
def test_a_model_that_asks_for_its_steps_when_it_begins_goes_on_where_it_was(
    at: str, jobs: Any, live: Any
) -> None:
    """Lightning then makes its iterator before it has restored anything, and gives no state back."""

    def work() -> None:
        loader = make()
        saving = jobs.SaveAlways() if at == "a step" else jobs.SaveAtEnd()
        jobs.fit(loader, jobs.ResumeCallback(loader), saving, model=jobs.Asking())

    assert live(work, kill_at=14) == steps(0, 14)
    assert live(work) == steps(14 if at == "a step" else STEPS, 2 * STEPS)


@pytest.mark.parametrize("search", ["lr_find", "scale_batch_size", "LearningRateFinder"])
@pytest.mark.parametrize("is_given", [True, False])
def test_what_was_drawn_to_try_something_comes_again(
    is_given: bool, search: str, jobs: Any, live: Any
) -> None:
    def work() -> None:
        loader = make()
        trainer, model = jobs.trainer(max_epochs=2), jobs.Tuned(loader)
        trainer.callbacks.append(jobs.ResumeCallback(*[loader] * is_given))
        if search == "lr_find":
            jobs.Tuner(trainer).lr_find(model, num_training=4)
        elif search == "scale_batch_size":
            jobs.Tuner(trainer).scale_batch_size(model, max_trials=2)
        else:
            trainer.callbacks.insert(0, jobs.LearningRateFinder(num_training_steps=4))
        tried = len(jobs.tried)
        trainer.fit(model)
        assert jobs.tried[-2 * STEPS :] == [(epoch, step) for epoch in range(2) for step in range(STEPS)]
        assert len(jobs.tried) - 2 * STEPS >= 4
        assert (tried >= 4) == (search != "LearningRateFinder")

    live(work)


def test_rows_that_no_evaluation_sees_are_warned_of_once(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader, words = (
            make(),
            r'to {} with leaves out 8 of its 80 rows, .* by tail="drop": pass tail="short"',
        )
        with pytest.warns(UserWarning, match=words.format("validate")) as warned:
            jobs.fit(
                loader,
                jobs.ResumeCallback(loader),
                model=jobs.Validated([]),
                val=make(12, on_iter="restart"),
            )
        assert sum("leaves out" in str(one.message) for one in warned) == 1
        for doing in ("validate", "test", "predict"):
            evaluate = getattr(jobs.trainer(jobs.ResumeCallback()), doing)
            with pytest.warns(UserWarning, match=words.format(doing)):
                evaluate(jobs.Validated([]), make(12, on_iter="restart"))
            alone = getattr(jobs.trainer(), doing)  # Lightning knows the length, and asks for no end
            with pytest.warns(UserWarning, match=words.format("evaluate")):
                alone(jobs.Validated([]), make(12, on_iter="restart"))
            seen: list[list[int]] = []
            evaluate(jobs.Validated(seen), make(12, on_iter="restart", tail="short"))
            assert seen == [[*range(ROWS)]], "what the warning says to write has each row"
            some = jobs.trainer(jobs.ResumeCallback(), limit_val_batches=2, fast_dev_run=doing != "validate")
            getattr(some, doing)(jobs.Validated([]), make(12, on_iter="restart"))

    live(work)


def test_loaders_to_validate_with_begin_anew_or_are_refused(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader, seen = make(), []
        jobs.fit(loader, jobs.ResumeCallback(loader), model=jobs.Validated(seen), val=make(on_iter="restart"))
        assert seen == [[*range(2 * BATCH)], [*range(ROWS)], [*range(ROWS)]]
        with pytest.raises(
            ValueError, match=r'validate with continues where it stopped.*pass on_iter="restart"'
        ):
            jobs.fit(loader, jobs.ResumeCallback(loader), model=jobs.Validated([]), val=[make()])
        same = DataLoader(loader.dataset, batch_size=None)
        with pytest.raises(ValueError, match="draws from the dataset that is trained on"):
            jobs.fit(
                loader,
                jobs.ResumeCallback(loader),
                model=jobs.Validated([]),
                val=same,
                num_sanity_val_steps=0,
            )
        with pytest.raises(ValueError, match='the dataset has on_iter="restart"'):
            jobs.ResumeCallback(make(on_iter="restart"))
        other, kept = make(), make()
        ResumeState(kept)
        for found in (other, kept, {"one": loader, "other": other}):
            with pytest.raises(ValueError, match="trains on another loader than the one that ResumeCallback"):
                jobs.fit(found, jobs.ResumeCallback(loader))
        with pytest.raises(
            TypeError, match=r"the batch that was trained is a dict, and no fastresume\.Batch"
        ):
            jobs.fit(loader, jobs.ResumeCallback(loader), model=jobs.Dicts())

    live(work)


def test_a_checkpoint_after_a_validation_in_mid_pass_is_that_of_the_batch_before_it(
    jobs: Any, live: Any
) -> None:
    def work() -> None:
        loader, val = make(), make(on_iter="restart")
        callbacks = jobs.ResumeCallback(loader), jobs.SaveAfterValidation()
        jobs.fit(loader, *callbacks, model=jobs.Validated([[]]), val=val, val_check_interval=3)

    assert live(work, kill_at=5) == steps(0, 5)
    assert live(work, kill_at=4) == steps(3, 7)
    assert live(work) == steps(6, 2 * STEPS)


def test_a_checkpoint_that_is_only_tested_moves_nothing(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        saving = jobs.ModelCheckpoint(".", filename="best", every_n_train_steps=3)
        trainer = jobs.pl.Trainer(
            callbacks=[jobs.ResumeCallback(loader), saving],
            logger=False,
            enable_progress_bar=False,
            accelerator="cpu",
            max_steps=5,
        )
        trainer.fit(model := jobs.Validated([[]]), loader)
        before = loader.state_dict()
        trainer.validate(model, make(on_iter="restart"), ckpt_path="best")
        assert loader.state_dict() == before
        assert fr.Cursor.from_state(before).consumed_rows == 5 * BATCH

    live(work)


def test_a_callback_without_a_loader_finds_the_one_of_the_datamodule(jobs: Any, live: Any) -> None:
    def work() -> None:
        jobs.fit(jobs.Data(make), jobs.ResumeCallback(), jobs.SaveAlways())

    found = live(work, kill_at=4) + live(work, kill_at=7) + live(work)
    assert found == steps(0, 2 * STEPS)


@pytest.mark.parametrize("asked", ["Asking", "Scheduled"])
def test_a_callback_without_a_loader_finds_it_where_a_schedule_is_made(
    asked: str, jobs: Any, live: Any
) -> None:
    """The DataModule makes another loader each time that it is asked."""

    def work() -> None:
        callback = jobs.ResumeCallback()
        model = jobs.Asking() if asked == "Asking" else jobs.Scheduled(callback)
        jobs.fit(jobs.Data(make), callback, jobs.SaveAlways(), model=model)

    assert live(work, kill_at=4) + live(work, kill_at=9) + live(work) == steps(0, 2 * STEPS)


def test_a_callback_without_a_loader_finds_the_one_that_fit_is_given_and_that_of_the_model(
    jobs: Any, live: Any
) -> None:
    def given() -> None:
        jobs.fit(make(), jobs.ResumeCallback(), jobs.SaveAlways())

    def of_the_model() -> None:
        model = jobs.Model()
        model.train_dataloader = make  # type: ignore[method-assign]
        jobs.fit(None, jobs.ResumeCallback(), jobs.SaveAlways(), model=model)

    assert live(given, kill_at=4) + live(of_the_model) == steps(0, 2 * STEPS)


def test_a_callback_without_a_loader_says_that_there_is_none_or_more_than_one(
    jobs: Any, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(directory)
    callback = jobs.ResumeCallback()
    assert callback.state_dict() == {}
    for loaders, found in [({"a": make(), "b": make()}, "finds 2 loaders"), ([[1.0]], "finds no loaders")]:
        with pytest.raises(ValueError, match=rf"{found} .*write ResumeCallback\(loader\)"):
            jobs.fit(loaders, callback)


@pytest.mark.parametrize("precision", ["bf16-true", "64-true", "bf16-mixed"])
def test_batches_keep_their_place_in_any_precision(precision: str, jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        trainer = jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways(), precision=precision)
        jobs.ResumeCallback().setup(trainer, None, "validate")  # again: it is as if once
        rows = fr.Jagged(torch.ones(3), torch.tensor([0, 1, 3]))
        found = trainer.precision_plugin.convert_input([{"a": rows, "b": loader.peek()}])[0]
        types = {"bf16-true": torch.bfloat16, "64-true": torch.float64}
        assert {found["a"].dtype, found["b"]["label"].dtype} == {types.get(precision, torch.float32)}
        assert found["b"].state_dict() == loader.peek().state_dict()

    assert live(work, kill_at=4) + live(work) == steps(0, 2 * STEPS)


def test_a_precision_without_the_callback_says_to_pass_it(jobs: Any, live: Any) -> None:
    def work() -> None:
        with pytest.raises(TypeError, match=r"this precision=: pass ResumeCallback\(\) to its Trainer; in F"):
            jobs.fit(make(on_iter="restart"), precision="64-true")

    live(work)


def test_rows_that_a_precision_would_change_say_what_to_give_the_model() -> None:
    rows = fr.Jagged(torch.ones(3), torch.tensor([0, 1, 3]))
    with pytest.raises(AttributeError, match=r"in Fabric give the model tensors, as jagged\.values and"):
        apply_to_collection({"rows": rows}, torch.Tensor, torch.Tensor.bfloat16)
    with pytest.raises(AttributeError, match=r"write dataclasses\.replace\(jagged, values=\.\.\.\)"):
        rows.values = torch.zeros(3)  # type: ignore[misc]
    assert replace(rows, values=torch.zeros(3)).values.tolist() == [0, 0, 0]


def test_a_loader_that_stacks_batches_is_refused_where_no_place_is_kept(jobs: Any, live: Any) -> None:
    def work() -> None:
        for size in (1, 4):
            stacking = DataLoader(make(on_iter="restart").dataset, batch_size=size)
            with pytest.raises(fr.FastresumeError, match="pass batch_size=None to the DataLoader"):
                jobs.fit(stacking)

    live(work)


def test_a_loader_that_stacks_batches_is_refused_before_one_is_drawn(
    jobs: Any, monkeypatch: Any, directory: Path
) -> None:
    monkeypatch.chdir(directory)
    stacking = DataLoader(make().dataset, batch_size=4)
    for callback in (jobs.ResumeCallback, lambda _: jobs.ResumeCallback()):
        with pytest.raises(TypeError, match="pass batch_size=None to the DataLoader"):
            jobs.fit(stacking, callback(stacking))
