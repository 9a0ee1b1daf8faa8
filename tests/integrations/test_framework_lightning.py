"""Under Lightning: what `ResumeCallback` makes right, what it refuses, and what happens without it.

Each life is a process of its own (see rehearsal.py), and most are killed in mid pass.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import fastresume as fr
from support.rehearsal import BATCH, ROWS, STEPS, make, run, steps, write_data

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lightning")
    write_data(directory, ROWS)
    return directory


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

    def work(*callbacks: Any) -> Callable[[], None]:
        return lambda: jobs.fit(jobs.Unsized(make()), *callbacks, jobs.SaveAlways())

    def with_callback() -> None:
        loader = jobs.Unsized(make())
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())  # type: ignore[arg-type]  # as a DataLoader is

    assert live(with_callback, kill_at=4) == steps(0, 4)
    assert live(work(), kill_at=2) == steps(4, 6)  # without it, from what it mended
    assert live(work(), kill_at=2) == steps(7, 9), "Lightning has not lost a batch: is the callback needed?"


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


def test_epochs_of_fewer_batches_than_a_pass_go_on_in_it(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        how = {"limit_train_batches": 4, "max_epochs": 4, "accumulate_grad_batches": 2}
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways(), **how)

    assert live(work, kill_at=6) == steps(0, 6)
    assert live(work, kill_at=3) == steps(6, 9)
    assert live(work) == steps(8, 14)  # the third epoch ends with the pass, after two batches


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


def test_without_the_callback_a_loader_is_asked_and_a_dataloader_is_not(jobs: Any, live: Any) -> None:
    def plain(kind: Callable[[fr.Loader], Any], *callbacks: Any) -> Callable[[], None]:
        return lambda: jobs.fit(kind(make()), *callbacks, jobs.SaveAlways())

    def with_callback() -> None:
        loader = make()
        with pytest.raises(
            fr.StateError, match="the checkpoint has no state of the data under ResumeCallback"
        ):
            jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())

    def from_lightning() -> None:
        loader = make()
        jobs.fit(loader, jobs.ResumeCallback(loader), jobs.SaveAlways())

    assert live(plain(lambda loader: loader), kill_at=4) == steps(0, 4)
    assert live(plain(lambda loader: loader), kill_at=3) == steps(4, 7)
    assert live(from_lightning, kill_at=2) == steps(7, 9)  # the callback may come later

    def of_torch(loader: fr.Loader) -> Any:
        return DataLoader(loader.dataset, batch_size=None)

    def anew() -> None:
        Path("always.ckpt").unlink()
        jobs.fit(of_torch(make()), jobs.SaveAlways())

    assert live(anew, kill_at=4) == steps(0, 4)

    def warned() -> None:
        with pytest.warns(UserWarning, match="your dataloader is not resumable"):
            jobs.fit(of_torch(make()), jobs.SaveAlways(), max_epochs=1)

    assert live(with_callback) == []
    assert live(warned) == steps(0, STEPS - 4), (
        "rows are trained twice, and others never: only a warning says so"
    )


def test_loaders_to_validate_with_begin_anew_or_are_refused(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader, seen = make(), []
        jobs.fit(loader, jobs.ResumeCallback(loader), model=jobs.Validated(seen), val=make(on_iter="restart"))
        assert seen == [[*range(2 * BATCH)], [*range(ROWS)], [*range(ROWS)]]
        with pytest.raises(
            ValueError, match=r'validate with goes on where it stopped.*pass on_iter="restart"'
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
        with pytest.raises(ValueError, match="trains on another loader than the one that ResumeCallback"):
            jobs.fit(make(), jobs.ResumeCallback(loader))
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
