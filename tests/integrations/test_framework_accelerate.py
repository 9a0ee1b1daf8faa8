"""Under Accelerate: what it leaves alone, what it wraps, and what is refused."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch
from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.integrations.accelerate import register
from fastresume.integrations.resume_state import ResumeState
from support.rehearsal import BATCH, ROWS, STEPS, make, run, steps

pytestmark = [pytest.mark.processes, pytest.mark.law(2)]


@pytest.fixture
def live(directory: Path) -> Iterator[Callable[..., list[list[list[int]]]]]:
    """A function that runs one life of a job, whose checkpoint the next one finds."""

    def live(work: Callable[[], object], **how: Any) -> list[list[list[int]]]:
        return run(work, directory, **how)

    yield live
    rmtree(directory / "saved", ignore_errors=True)


def torch_loader(**how: Any) -> DataLoader[fr.Batch]:
    return DataLoader(make().dataset, **{"batch_size": None, **how})


def make_accelerator(**how: Any) -> Accelerator:
    return Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**how))


@pytest.mark.parametrize("stateful", [False, True])
def test_a_loader_that_fetches_ahead_saves_the_batch_that_was_trained(stateful: bool, live: Any) -> None:
    """DataLoaderShard holds one batch more than it has given; its adapter asks for states when it is made."""

    def work() -> None:
        accelerator = make_accelerator(dispatch_batches=False, use_stateful_dataloader=stateful)
        model, loader = accelerator.prepare(torch.nn.Linear(2, 1), torch_loader())
        resume = register(accelerator, loader)
        if Path("saved").exists():
            accelerator.load_state("saved")
        while loader.dataset.epoch < 2:
            for batch in loader:
                model(batch["inputs"])
                resume.trained(batch)
                fetched = fr.Cursor.from_state(loader.dataset.state_dict())
                assert batch.step == STEPS - 1 or fetched.consumed_rows == (batch.step + 2) % STEPS * BATCH
                accelerator.save_state("saved")

    found = live(work, kill_at=4)[0] + live(work, kill_at=8)[0]
    assert found + live(work)[0] == steps(0, 2 * STEPS)


def test_a_dispatcher_is_refused(live: Any) -> None:
    def work() -> None:
        accelerator = make_accelerator()
        loader = accelerator.prepare(torch_loader())
        assert type(loader).__name__ == "DataLoaderDispatcher", "not even in one process?"
        with pytest.raises(ValueError, match="rank 0 would read for all ranks"):
            register(accelerator, loader)
        with pytest.raises(TypeError, match="dispatch_batches=False"):
            next(iter(loader))
        plain = make()
        assert accelerator.prepare(plain) is plain
        with pytest.raises(AttributeError, match=r"write loader\.load_state_dict\(state\)"):
            accelerator.skip_first_batches(plain, 2)

    live(work)


def test_in_two_processes_one_file_is_written_and_read_by_both_and_nothing_is_dealt_out(live: Any) -> None:
    def work() -> None:
        accelerator = make_accelerator(dispatch_batches=False)
        assert accelerator.num_processes == 2
        loader = accelerator.prepare(make())
        resume = register(accelerator, loader, check_same=True)
        for batch in loader:
            if batch.step == 2:
                break
            resume.trained(batch)
        accelerator.save_state("saved")
        accelerator.wait_for_everyone()
        assert [path.name for path in Path("saved").glob("custom*")] == ["custom_checkpoint_0.pkl"]
        assert fr.Cursor.from_state(loader.state_dict()).consumed_rows == 3 * 2 * BATCH
        accelerator.load_state("saved")
        assert fr.Cursor.from_state(loader.state_dict()).consumed_rows == 2 * 2 * BATCH
        assert next(iter(loader)).step == 2
        dealt = accelerator.prepare(torch_loader(batch_size=1, collate_fn=lambda batches: batches[0]))
        with pytest.raises(fr.FastresumeError, match="would deal the batches out among the ranks"):
            next(iter(dealt))
        whole = accelerator.prepare(torch_loader())
        with pytest.raises(TypeError, match="NoneType"):  # Accelerate counts in batch sizes
            next(iter(whole))

    live(work, world_size=2, is_launched=True)


@pytest.mark.parametrize("prepared", ["Loader", "DataLoader"])
def test_what_accumulate_adds_up_ends_with_the_pass_and_comes_again_after_a_kill(
    prepared: str, live: Any
) -> None:
    """Four batches make a step, of ten: steps after the batches 3, 7 and 9, whatever was saved in between."""

    def work() -> None:
        accelerator = Accelerator(
            cpu=True,
            gradient_accumulation_steps=4,
            dataloader_config=DataLoaderConfiguration(dispatch_batches=False),
        )
        given = make() if prepared == "Loader" else torch_loader()
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        model, optimizer, loader = accelerator.prepare(model, optimizer, given)
        resume = register(accelerator, loader)
        if Path("saved").exists():
            accelerator.load_state("saved")
        while resume.dataset.epoch < 2:
            for batch in loader:
                before = model.weight.detach().clone()
                with accelerator.accumulate(model):
                    accelerator.backward(model(batch["inputs"]).sum())
                    optimizer.step()
                    optimizer.zero_grad()
                has_stepped = not torch.equal(before, model.weight)
                assert has_stepped == (batch.step in (3, 7, 9)), batch.step
                resume.trained(batch)
                accelerator.save_state("saved")

    assert live(work, kill_at=6)[0] == steps(0, 6)
    assert live(work, kill_at=5)[0] == steps(4, 9)
    assert live(work, kill_at=4)[0] == steps(8, 12)
    assert live(work)[0] == steps(10, 2 * STEPS)


def test_a_loader_that_accumulate_knows_not_of_says_so(live: Any) -> None:
    def work() -> None:
        Accelerator(cpu=True, gradient_accumulation_steps=4)
        loader = make()
        with pytest.warns(UserWarning, match=r"the last 2 of its 10 batches .*register\(accelerator"):
            iter(loader)
        warnings.simplefilter("error")
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=5)
        iter(make())
        accelerator.gradient_accumulation_steps = 4
        iter(make(on_iter="restart"))
        loader = make()
        register(accelerator, loader)
        iter(loader)

    live(work)


@pytest.mark.parametrize("prepared", ["Loader", "DataLoader"])
def test_a_save_without_a_place_says_once_what_to_register(prepared: str, live: Any) -> None:
    def work() -> None:
        accelerator = make_accelerator(dispatch_batches=False)
        loader = accelerator.prepare(make() if prepared == "Loader" else torch_loader())
        accelerator.save_state("saved")
        next(iter(loader))
        with pytest.warns(
            UserWarning, match=r"row 0\. Before training call .*register\(accelerator, loader\)"
        ):
            accelerator.save_state("saved")
        warnings.simplefilter("error")
        next(iter(loader))
        accelerator.save_state("saved")

    live(work)


@pytest.mark.parametrize("kept", ["register", "later", "for_checkpointing", "own", "restart", "held out"])
def test_a_save_with_the_place_or_of_no_place_says_nothing(kept: str, live: Any) -> None:
    def work() -> None:
        warnings.simplefilter("error")
        accelerator = make_accelerator()
        loader = accelerator.prepare(make(on_iter="restart") if kept == "restart" else make())
        if kept in ("register", "held out"):
            register(accelerator, loader)
        elif kept == "for_checkpointing":
            accelerator.register_for_checkpointing(loader)
        elif kept == "own":
            ResumeState(loader)
        next(iter(loader))
        if kept == "later":
            register(accelerator, loader)
        elif kept == "held out":
            next(iter(make()))
        accelerator.save_state("saved")

    live(work)


def test_another_loader_that_accelerate_prepared_is_asked_first_where_it_ends(live: Any) -> None:
    """An evaluation in mid pass neither ends the pass nor is cut short by it."""

    def work() -> None:
        accelerator = make_accelerator()
        loader = accelerator.prepare(make())
        register(accelerator, loader)
        held_out = accelerator.prepare(DataLoader(torch.arange(5.0), batch_size=2))
        for batch in loader:
            assert accelerator.gradient_state.end_of_dataloader == (batch.step == STEPS - 1)
            found = [accelerator.gather_for_metrics(part) for part in held_out]
            assert torch.cat(found).tolist() == [0, 1, 2, 3, 4]
            assert accelerator.gradient_state.end_of_dataloader == (batch.step == STEPS - 1)

    live(work)


def test_ranks_that_accelerate_does_not_know_of_are_told(live: Any) -> None:
    def work() -> None:
        os.environ.update({"RANK": "1", "WORLD_SIZE": "2"})
        loader = make()
        del os.environ["RANK"], os.environ["WORLD_SIZE"]
        with pytest.raises(ValueError, match="told the dataset of 2 ranks, but Accelerate knows of 1"):
            register(make_accelerator(), loader)

    live(work)


def test_an_evaluation_gathers_each_row_once_by_valid(live: Any) -> None:
    """What the table of frameworks says of `gather_for_metrics`, and what it says to write instead."""

    def work() -> None:
        accelerator = make_accelerator()
        loader = accelerator.prepare(make(batch_size=7, tail="pad", on_iter="restart"))
        counted: list[int] = []
        rows: list[int] = []
        for batch in loader:
            numbers = torch.from_numpy(batch.rows())
            counted += accelerator.gather_for_metrics(numbers).tolist()
            found, valid = accelerator.gather((numbers, batch.valid))
            rows += found[valid].tolist()
        assert sorted(rows) == list(range(ROWS))
        assert len(counted) == len(loader) * 7 * accelerator.num_processes > ROWS, "copies count"

    live(work)
    live(work, world_size=2, is_launched=True)


def test_a_loader_that_is_registered_again_has_one_state_and_another_one_of_its_files_is_warned_of(
    live: Any,
) -> None:
    def work() -> None:
        accelerator, loader, other = make_accelerator(), make(), make()
        resume = register(accelerator, loader)
        assert register(accelerator, loader, check_same=True) is resume
        accelerator.save_state("saved")
        assert [path.name for path in Path("saved").glob("custom*")] == ["custom_checkpoint_0.pkl"]
        with pytest.warns(UserWarning, match="make the Accelerator in the cell that calls register"):
            register(accelerator, other)
        again = make_accelerator()
        assert register(again, loader) is not resume, "the Accelerator of that cell, run again"
        again.load_state("saved")

    live(work)


def test_calls_that_lack_the_accelerator_or_the_batch_say_what_to_write(live: Any) -> None:
    def work() -> None:
        accelerator, loader = make_accelerator(), make()
        wrong: Any = loader
        resume: Any = register(accelerator, loader)
        said = []
        for call in (
            lambda: register(wrong),
            lambda: register(wrong, loader=loader),
            lambda: accelerator.prepare_data_loader(wrong),
            resume.trained,
        ):
            with pytest.raises((TypeError, AttributeError)) as found:
                call()
            said.append(str(found.value).partition(": write ")[2])
        assert said == [
            "register(accelerator, loader)",
            "register(accelerator, loader)",
            "accelerator.prepare(loader), which leaves it as it is",
            "trained(batch), of the batch that was trained",
        ]

    live(work)
