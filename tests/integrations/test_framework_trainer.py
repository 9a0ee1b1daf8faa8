"""Under Transformers' Trainer: what `ResumeCallback` makes right, and what it refuses.

Each life is a process of its own (see rehearsal.py), and most are killed in mid pass.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from shutil import rmtree
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import fastresume as fr
from support.devices import LateDevices
from support.rehearsal import BATCH, ROWS, STEPS, make, run, steps

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]


@pytest.fixture(scope="module")
def jobs() -> Any:
    """What the tests' processes run; the framework is imported before they fork."""
    return importlib.import_module("support.trainer_jobs")


@pytest.fixture
def live(directory: Path) -> Iterator[Callable[..., list[list[int]]]]:
    """A function that runs one life of a job, whose checkpoint the next one finds; it gives rows by step."""

    def live(work: Callable[[], object], kill_at: int | None = None) -> list[list[int]]:
        return run(work, directory, kill_at=kill_at)[0]

    yield live
    rmtree(directory / "saved", ignore_errors=True)


def test_a_killed_training_goes_on_after_the_batch_that_was_trained(jobs: Any, live: Any) -> None:
    found = live(jobs.job(), kill_at=4)
    found += live(jobs.job(), kill_at=9)  # at step 13, of the second pass
    assert found + live(jobs.job()) == steps(0, 2 * STEPS)


@pytest.mark.law(3)
def test_two_ranks_that_are_killed_go_on_as_one(directory: Path, jobs: Any, live: Any) -> None:
    found = run(jobs.global_job, directory, world_size=2, kill_at=7, is_launched=True)
    assert [len(of_rank) for of_rank in found] in ([7, 7], [7, 8])
    first = [row for of_rank in found for step in of_rank[:7] for row in step]
    rest = [row for step in live(jobs.global_job) for row in step]
    assert sorted((first + rest)[:ROWS]) == [*range(ROWS)]
    assert rest[-ROWS:] == [*range(ROWS)]


def test_batches_that_were_drawn_for_a_step_that_was_not_done_come_again(jobs: Any, live: Any) -> None:
    """With gradients that add up, the Trainer draws all batches of a step before it trains on the first."""
    adding = {"gradient_accumulation_steps": 5}
    assert live(jobs.job(**adding), kill_at=7) == steps(0, 7)
    assert live(jobs.job(**adding), kill_at=9) == steps(5, 14)
    assert live(jobs.job(**adding)) == steps(10, 2 * STEPS)


@pytest.mark.parametrize(
    ("added", "killed_after"),
    [(3, 2), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, 6), (4, 5), (9, 1)))],
)
def test_a_resumed_pass_has_its_last_smaller_step_and_later_passes_are_whole(
    added: int, killed_after: int, jobs: Any, live: Any
) -> None:
    """Where the batches of a step do not divide those of a pass; what was put back is put back once."""
    in_pass = -(-STEPS // added)
    done, of_pass = divmod(killed_after, in_pass)
    first = done * STEPS + of_pass * added  # the batch that comes after so many steps

    def job(passes: int) -> Callable[[], None]:
        def work() -> None:
            how = {"num_train_epochs": passes, "gradient_accumulation_steps": added}
            trainer = jobs.make_trainer(jobs.ResumeCallback(make()), **how)
            jobs.train(trainer)
            assert trainer.state.global_step == passes * in_pass
            assert trainer.args.gradient_accumulation_steps == added
            assert [entry["epoch"] for entry in trainer.state.log_history][-1] == passes

        return work

    live(job(3), kill_at=first)
    expected = [
        row for number in range(first, 3 * STEPS) for row in steps(number % STEPS, number % STEPS + 1)
    ]
    assert live(job(3)) == expected


def test_weights_after_a_resumed_pass_are_those_of_an_unbroken_job(
    directory: Path, jobs: Any, live: Any
) -> None:
    """Bit for bit: each step has its batches, the smaller one at a pass's end, too, and their mean."""

    def job(name: str) -> Callable[[], None]:
        def work() -> None:
            trainer = jobs.make_trainer(jobs.ResumeCallback(make()), gradient_accumulation_steps=4)
            jobs.train(trainer)
            torch.save(trainer.model.state_dict(), name)

        return work

    live(job("unbroken.pt"))
    rmtree(directory / "saved")
    live(job("broken.pt"), kill_at=4)
    live(job("broken.pt"))
    unbroken, broken = (torch.load(directory / name) for name in ("unbroken.pt", "broken.pt"))
    assert unbroken.keys() == broken.keys()
    for name, value in unbroken.items():
        assert torch.equal(value, broken[name]), name


def test_a_training_that_breaks_off_in_the_last_batch_of_a_pass_can_begin_again(jobs: Any, live: Any) -> None:
    """The Trainer's arguments are as they were, and what was drawn and not trained comes again."""

    def work() -> None:
        resume = jobs.ResumeCallback(make())
        trainer = jobs.make_trainer(resume, gradient_accumulation_steps=4, num_train_epochs=1)
        loader = resume.dataloader._loader
        loader.load_state_dict(loader.dataset.batch_at(0, 3).state_dict())
        step = trainer.training_step

        def fail(*arguments: Any) -> Any:
            if len(seen) == 5:
                raise RuntimeError("out of memory")
            seen.append(0)
            return step(*arguments)

        seen: list[int] = []
        trainer.training_step = fail
        with pytest.raises(RuntimeError, match="out of memory"):
            trainer.train()
        assert trainer.args.gradient_accumulation_steps == 6
        trainer.training_step = step
        trainer.train()
        assert trainer.args.gradient_accumulation_steps == 4

    found = live(work)
    assert found == [*steps(4, 9), *steps(8, 10)]


def test_rows_per_second_are_those_of_the_dataset_whatever_the_arguments_say(jobs: Any, live: Any) -> None:
    def work() -> None:
        for how in ({"num_train_epochs": 2}, {"max_steps": 2 * STEPS}):
            loader = fr.Loader(
                fr.ParquetDataset(
                    "data", batch_size=BATCH, columns=["*", "!i_*", fr.stack("i_*", name="inputs")]
                ),
                threads=1,
            )
            resume = jobs.ResumeCallback(loader)
            trainer = jobs.make_trainer(resume, per_device_train_batch_size=3, **how)
            assert trainer.num_examples(resume.dataloader) == ROWS
            found = trainer.train().metrics
            rows = found["train_samples_per_second"] * found["train_runtime"]
            assert rows == pytest.approx(2 * ROWS, rel=0.01)
            (logged,) = [entry for entry in trainer.state.log_history if "train_runtime" in entry]
            assert logged["train_samples_per_second"] == found["train_samples_per_second"]
        for tail, rows in (("drop", 75), ("short", 80), ("pad", 80)):
            dataset = fr.ParquetDataset("data", batch_size=15, on_iter="restart", tail=tail)
            words = r'leaves out 5 of its 80 rows, .* by tail="drop": pass tail="short" to it$'
            with pytest.warns(UserWarning, match=words) if tail == "drop" else nullcontext():
                assert len(jobs.DictBatches(fr.Loader(dataset)).dataset) == rows

    live(work)


def test_a_training_that_begins_in_mid_pass_without_a_checkpoint_is_told(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        trainer = jobs.make_trainer(jobs.ResumeCallback(loader), num_train_epochs=1)
        with pytest.warns(UserWarning, match="step 0, but the loader is in the middle of a pass: 7 of 10"):
            trainer.train()
        assert trainer.state.global_step == 7
        assert trainer.args.max_steps == -1

    assert live(work) == steps(3, STEPS)


def test_arguments_that_the_dataset_decides_are_warned_of(jobs: Any, live: Any) -> None:
    def work() -> None:
        unused = {"train_sampling_strategy": "group_by_length", "data_seed": 3}
        trainer = jobs.make_trainer(jobs.ResumeCallback(make()), num_train_epochs=1, **unused)
        with pytest.warns(
            UserWarning, match="has no effect, as the dataset says which rows come when"
        ) as told:
            trainer.train()
        said = [str(one.message) for one in told if "has no effect" in str(one.message)]
        assert [text.partition("and pass ")[2] for text in said] == [
            "seed=n to the dataset",
            "shuffle=True, or unit=fr.Bins(name, cost=n) for rows by their lengths to the dataset",
        ]

    live(work)


def test_what_would_lose_rows_is_refused(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        resume = jobs.ResumeCallback(loader)
        with pytest.raises(ValueError, match="Pass ignore_data_skip=True to TrainingArguments"):
            jobs.make_trainer(resume, ignore_data_skip=False)
        with pytest.raises(ValueError, match="would replace ResumeCallback by one without a loader"):
            jobs.make_trainer(resume, restore_callback_states_from_checkpoint=True)
        with pytest.raises(ValueError, match="pass a smaller batch_size= to ParquetDataset"):
            jobs.make_trainer(resume, auto_find_batch_size=True)
        late = jobs.make_trainer(resume)
        late.args.ignore_data_skip = False  # a callback that is added later sees no on_init_end
        with pytest.raises(ValueError, match="Pass ignore_data_skip=True to TrainingArguments"):
            late.train()
        with pytest.raises(ValueError, match=r"let get_train_dataloader\(\) return resume.dataloader"):
            jobs.make_trainer(resume, dataloader=loader).train()
        forgotten = jobs.make_trainer(resume)
        forgotten.remove_callback(resume)
        with pytest.raises(ValueError, match=r"write Trainer\(\.\.\., callbacks=\[resume\]\)"):
            forgotten.train()
        plain = jobs.make_trainer(resume, dataloader=loader)
        plain.remove_callback(resume)
        with pytest.raises(
            TypeError, match=r"to evaluate, and from ResumeCallback\(loader\)\.dataloader to train"
        ):
            plain.train()
        with pytest.raises(TypeError, match=r"integrations\.transformers\.ResumeCallback\(loader\)\.dat"):
            jobs.Trainer(jobs.Model(), late.args, train_dataset=make().dataset).train()

    assert live(work) == []


def test_a_checkpoint_without_a_state_is_refused(directory: Path, jobs: Any, live: Any) -> None:
    live(jobs.job(), kill_at=3)
    (saved,) = (directory / "saved").glob("checkpoint-3/trainer_state.json")
    state = json.loads(saved.read_text())
    kept = state["stateful_callbacks"].pop("ResumeCallback")
    assert list(kept["attributes"]["state"]) == ["fastresume"]
    saved.write_text(json.dumps(state))

    def work() -> None:
        with pytest.raises(fr.StateError, match="the checkpoint has no state of the data of ResumeCallback"):
            jobs.job()()

    assert live(work) == []


@pytest.mark.parametrize(
    ("before", "kill_at", "after", "message"),
    [
        ({}, 4, {"batch_size": 16}, "for 10 steps, and takes 12: 4 were done, and 8 are left of 2 passes"),
        (
            {"gradient_accumulation_steps": 2},
            8,
            {"gradient_accumulation_steps": 3},
            "for 8 steps, and takes 9",
        ),
        (
            {"gradient_accumulation_steps": 3},
            9,
            {"gradient_accumulation_steps": 2},
            "for 10 steps, and takes 9",
        ),
    ],
    ids=["batch size", "more added", "fewer added"],
)
def test_training_ends_with_its_passes_though_steps_have_changed_and_says_so(
    before: dict[str, int], kill_at: int, after: dict[str, int], message: str, jobs: Any, live: Any
) -> None:
    first = live(jobs.job(**before), kill_at=kill_at)

    def changed() -> None:
        with pytest.warns(UserWarning, match=f"made its schedule of learning rates {message}"):
            jobs.job(**after)()

    rows = [row for step in first + live(changed) for row in step]
    assert rows == [*range(ROWS)] * 2, "each row of both passes"


def test_batches_in_the_same_tensors_are_not_drawn_ahead(
    directory: Path, jobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    LateDevices(monkeypatch)
    dataset = fr.ParquetDataset(directory / "data", batch_size=BATCH)
    with fr.Loader(dataset, device="cuda", static=True) as loader:
        drawn = jobs.ResumeCallback(loader).dataloader
        two, one = (SimpleNamespace(gradient_accumulation_steps=added, max_steps=9) for added in (2, 1))
        drawn.prepare(two)
        with pytest.raises(ValueError, match="under static=True they come in the same tensors"):
            drawn.begin(two)
        drawn.prepare(one)
        drawn.begin(one)


def test_evaluation_is_given_dicts(jobs: Any, live: Any) -> None:
    def work() -> None:
        trainer = jobs.make_trainer(jobs.ResumeCallback(make()))
        batches = jobs.DictBatches(make(on_iter="restart", tail="short"))
        assert len(batches) == STEPS
        trainer.get_eval_dataloader = lambda *_: batches
        assert trainer.evaluate().keys() >= {"eval_loss"}
        assert [list(batch) for batch in batches] == [["label", "inputs"]] * STEPS

    live(work)


def test_an_evaluation_that_would_see_other_rows_each_time_is_refused(jobs: Any, live: Any) -> None:
    def work() -> None:
        for drawn in (make(), make().dataset, DataLoader(make().dataset, batch_size=None)):
            with pytest.raises(
                ValueError, match=r'continues where it stopped, .*: pass on_iter="restart" to it'
            ):
                jobs.DictBatches(drawn)
        trainer = jobs.make_trainer(jobs.ResumeCallback(make()))
        trainer.get_eval_dataloader = lambda *_: make(on_iter="restart")
        with pytest.raises(TypeError, match=r"Trainer draws from DictBatches\(loader\) to evaluate"):
            trainer.evaluate()

    live(work)


def test_what_is_given_as_eval_dataset_says_what_to_write(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make(on_iter="restart", tail="short")
        trainer = jobs.make_trainer(jobs.ResumeCallback(make()))
        for given in (loader.dataset, loader, jobs.DictBatches(loader)):
            with pytest.raises(TypeError, match=r"get_eval_dataloader\(\*_\) return .*DictBatches\(loader\)"):
                trainer.evaluate(given)
        with pytest.raises(TypeError, match="a Loader has no items"):
            loader[0]
        with pytest.raises(TypeError, match="has no items: iterate over it"):
            jobs.DictBatches(loader)[0]

    live(work)


def test_copies_that_fill_up_a_batch_are_told_unless_the_model_gets_the_mask(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make(12, on_iter="restart", tail="pad")
        told = r"^4 of the 12 rows of a batch are copies .* or call a fastresume\.training\.Evaluator"
        for drawn in (loader, DataLoader(loader.dataset, batch_size=None)):
            with pytest.warns(UserWarning, match=told) as warned:
                assert sum(len(batch["label"]) for batch in jobs.DictBatches(drawn)) == ROWS + 4
            assert len(warned) == 1
        masked = fr.Loader(loader.dataset.map(lambda batch: {**batch, "valid": batch.valid}))
        assert sum(int(batch["valid"].sum()) for batch in jobs.DictBatches(masked)) == ROWS
        trainer = jobs.make_trainer(
            jobs.ResumeCallback(make(12, tail="pad")), num_train_epochs=1, max_steps=7
        )
        with pytest.warns(UserWarning, match=r"^4 of the 12 rows .* by dataset\.map\("):
            trainer.train()
        assert len([*jobs.DictBatches(make(on_iter="restart", tail="pad"))]) == STEPS

    live(work)


def test_what_was_drawn_and_not_used_comes_again_in_the_same_process(jobs: Any, live: Any) -> None:
    """An iteration that is broken off amid the batches of a step; the next one begins after the last step."""

    def work() -> None:
        resume = jobs.ResumeCallback(make())
        arguments = SimpleNamespace(gradient_accumulation_steps=2, max_steps=9)
        resume.dataloader.prepare(arguments)
        resume.dataloader.begin(arguments)
        drawn = iter(resume.dataloader)
        for _ in range(4):
            next(drawn)
        of_trainer: Any = SimpleNamespace()
        resume.on_substep_end(of_trainer, of_trainer, of_trainer)
        assert fr.Cursor.from_state(resume.state()["attributes"]["state"]).consumed_rows == 0
        resume.on_step_end(of_trainer, of_trainer, of_trainer)
        assert of_trainer.epoch == 2 / STEPS
        assert fr.Cursor.from_state(resume.state()["attributes"]["state"]).consumed_rows == 2 * BATCH
        again = next(iter(resume.dataloader))
        assert (again["inputs"][:, 0] * 4096).tolist() == steps(2, 3)[0]

    live(work)
