"""Under Transformers' Trainer: what `ResumeCallback` makes right, and what it refuses.

Each life is a process of its own (see rehearsal.py), and most are killed in mid pass.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest

import fastresume as fr
from support.rehearsal import BATCH, ROWS, STEPS, make, run, steps, write_data

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("trainer")
    write_data(directory, ROWS)
    return directory


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


def test_what_would_lose_rows_is_refused(jobs: Any, live: Any) -> None:
    def work() -> None:
        loader = make()
        resume = jobs.ResumeCallback(loader)
        with pytest.raises(ValueError, match="Pass ignore_data_skip=True to TrainingArguments"):
            jobs.make_trainer(resume, ignore_data_skip=False)
        with pytest.raises(ValueError, match="would replace ResumeCallback by one without a loader"):
            jobs.make_trainer(resume, restore_callback_states_from_checkpoint=True)
        late = jobs.make_trainer(resume)
        late.args.ignore_data_skip = False  # a callback that is added later sees no on_init_end
        with pytest.raises(ValueError, match="Pass ignore_data_skip=True to TrainingArguments"):
            late.train()
        with pytest.raises(ValueError, match=r"let get_train_dataloader\(\) return resume.dataloader"):
            jobs.make_trainer(resume, dataloader=loader).train()
        plain = jobs.make_trainer(resume, dataloader=loader)
        plain.remove_callback(resume)
        with pytest.raises(TypeError, match=r"like Transformers' Trainer, be given dict\(batch\)"):
            plain.train()
        with pytest.raises(TypeError, match="the dataset yields whole batches"):
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


def test_another_number_of_steps_in_a_pass_is_told(jobs: Any, live: Any) -> None:
    live(jobs.job(), kill_at=4)

    def changed() -> None:
        with pytest.warns(
            UserWarning, match="takes 4 steps for 1 passes of 4, but 0 were done.*global_batch_"
        ):
            jobs.job(20)()

    def added() -> None:
        with pytest.warns(UserWarning, match="a pass of 10 batches ends amid 4 whose gradients add up"):
            jobs.job(gradient_accumulation_steps=4, max_steps=5)()

    live(added, kill_at=0)
    live(changed, kill_at=1)


def test_evaluation_is_given_dicts(jobs: Any, live: Any) -> None:
    def work() -> None:
        trainer = jobs.make_trainer(jobs.ResumeCallback(make()))
        batches = jobs.DictBatches(make(on_iter="restart", tail="short"))
        assert len(batches) == STEPS
        trainer.get_eval_dataloader = lambda *_: batches
        assert trainer.evaluate().keys() >= {"eval_loss"}
        assert [list(batch) for batch in batches] == [["label", "inputs"]] * STEPS

    live(work)


def test_what_was_drawn_and_not_used_comes_again_in_the_same_process(jobs: Any, live: Any) -> None:
    """An iteration that is broken off amid the batches of a step; the next one begins after the last step."""

    def work() -> None:
        resume = jobs.ResumeCallback(make())
        drawn = iter(resume.dataloader)
        for _ in range(4):
            next(drawn)
        nothing: Any = None
        resume.on_substep_end(nothing, nothing, nothing)
        assert fr.Cursor.from_state(resume.state()["attributes"]["state"]).consumed_rows == 0
        resume.on_step_end(nothing, nothing, nothing)
        assert fr.Cursor.from_state(resume.state()["attributes"]["state"]).consumed_rows == 2 * BATCH
        again = next(iter(resume.dataloader))
        assert (again["inputs"][:, 0] * 4096).tolist() == steps(2, 3)[0]

    live(work)
