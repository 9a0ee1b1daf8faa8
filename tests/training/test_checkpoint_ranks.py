"""Checkpoints of several ranks: DistributedDataParallel, sharded models, other numbers of ranks."""

from __future__ import annotations

import itertools
import os
import platform
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo  # DistributedDataParallel needs it, which takes 2 s: once, and not in every rank
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import fastresume as fr
from fastresume import files
from fastresume.checkpoint import Checkpointer, CheckpointError, Randomness
from fastresume.checkpoint.directory import CheckpointDirectory
from support import training
from support.forks import in_ranks
from support.strategies import Dataset

pytestmark = pytest.mark.processes


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return training.written(tmp_path_factory.mktemp("data"))


def sharded(model: nn.Module) -> nn.Module:
    if dist.is_initialized():
        fully_shard(model)
    return model


def replicated(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model) if dist.is_initialized() else model


WRAPS = {"ddp": replicated, "fsdp2": sharded}


def whole(job: training.Job) -> dict[str, Any]:
    """All values of the model; of those that sharded models have on each rank, rank 0's are saved."""
    is_sharded = any(isinstance(value, DTensor) for value in job.model.parameters())
    return {
        name.removeprefix("module."): (value.full_tensor() if isinstance(value, DTensor) else value).tolist()
        for name, value in job.model.state_dict().items()
        if not (is_sharded and "running" in name)
    }


def save_along(rank: int, data: Dataset, directory: Path) -> dict[str, Any]:
    """Trains six steps of each kind, each saved; gives the losses and weights after each."""
    found = {}
    for name, wrap in WRAPS.items():
        job = training.job(data, wrap=wrap)
        torch.manual_seed(100 + rank)  # every rank its own dropout
        losses, weights = [], []
        with Checkpointer(directory / name, keep=None) as checkpointer:
            assert checkpointer.restore(**job.parts()) is None
            for step, loss in enumerate(job.steps(6), start=1):
                losses.append(loss)
                weights.append(whole(job))
                checkpointer.save(step, **job.parts(), wait=step % 2 == 0)
        found[name] = (losses, weights)
    return found


def resume(_rank: int, data: Dataset, directory: Path, step: int, batch_size: int) -> dict[str, Any]:
    found = {}
    for name, wrap in WRAPS.items():
        job = training.job(data, wrap=wrap, seed=9, batch_size=batch_size, tail="short")
        with Checkpointer(directory / name, keep=None) as checkpointer:
            if name == "fsdp2" and dist.get_world_size() != 2:
                message = r"saved by 2 ranks, .*own model\.norm\.running_mean, .*allow=\{'ranks'\} gives"
                with pytest.raises(fr.StateError, match=message):
                    checkpointer.restore(**job.parts(), step=step)
            restored = checkpointer.restore(**job.parts(), step=step, allow={"ranks"})
            assert restored is not None
            restored_weights, rank_draw = whole(job), torch.rand(1).item()
            restored.restore_random()
            assert torch.rand(1).item() == rank_draw
            restored.restore_random()
            losses = list(job.steps(6 - step))
        found[name] = (restored.step, restored_weights, losses, whole(job), rank_draw)
    return found


@pytest.mark.filterwarnings("ignore:the job resumes from step")  # which test_config.py tests
def test_ranks_go_on_bit_for_bit_and_other_numbers_of_ranks_with_the_same_weights(
    data: Dataset, tmp_path: Path
) -> None:
    golden = in_ranks(2, tmp_path / "save", save_along, data, tmp_path)
    again = in_ranks(2, tmp_path / "again", resume, data, tmp_path, 3, 4)
    for rank in range(2):
        for name in WRAPS:
            step, weights, losses, last, _ = again[rank][name]
            golden_losses, golden_weights = golden[rank][name]
            assert step == 3
            assert weights == golden[0][name][1][2], name
            assert losses == golden_losses[3:], name
            assert last == golden_weights[-1], name
    for world_size in (1, 4):
        found = in_ranks(world_size, tmp_path / f"{world_size}", resume, data, tmp_path, 5, 8 // world_size)
        for rank in range(world_size):
            for name in WRAPS:
                saved = golden[0][name][1][4]
                assert {key: found[rank][name][1][key] for key in saved} == saved, name
        draws = {one["ddp"][4] for one in found}
        assert len(draws) == world_size, "every rank has a random stream of its own"


def fail_in_turns(rank: int, data: Dataset, directory: Path) -> list[str]:
    """Saves that fail on one rank, each time in another way; gives what each rank is told."""
    found, shown = [], list[str]()
    job = training.job(data)
    states = [job.loader.state_dict()]
    list(job.steps(1))
    states.append(job.loader.state_dict())
    checkpointer = Checkpointer(directory, timeout_seconds=60)
    checkpointer.save(1, model=job.model)
    for wait in (True, False):
        for options in (
            {"step": 2, "loader": states[rank]},
            {"step": 2 + rank},
            {"step": 2, "extra": {"a": object() if rank else 1}},
            {"step": 2, "model": job.model},
        ):
            with pytest.MonkeyPatch.context() as patch:
                if "model" in options and rank:
                    patch.setattr(files, "write", full)
                try:
                    checkpointer.save(**options, wait=wait)
                    checkpointer.wait()
                except (CheckpointError, fr.StateError, TypeError) as error:
                    found.append(f"{type(error).__name__}: {error}")
                    if rank:
                        shown += [*traceback.format_exception(error)] if type(error) is TypeError else []
    assert sum("must be a plain value" in line for line in shown) == 2 * rank, "each is shown once"
    assert sum("manifest.py" in line for line in shown) == 2 * rank, "and where it arose"
    checkpointer.save(2, model=job.model)
    with pytest.MonkeyPatch.context() as patch:
        if rank:
            patch.setattr(Randomness, "restore", full)
        with pytest.raises(CheckpointError, match=r"rank 1: OSError: \[Errno 28\] full"):
            checkpointer.restore(model=job.model, loader=None)
    with pytest.raises(fr.StateError, match="accumulation was 1, and is 2"):
        Checkpointer(directory, accumulation=2 if rank else 1).restore(model=job.model)
    hasty = Checkpointer(directory, timeout_seconds=3)
    hasty.restore(model=job.model)
    if rank == 0:  # the other one does not call
        with pytest.raises(
            CheckpointError, match=r"save: another rank is lost or late: .*; all of them call"
        ):
            hasty.save(3, model=job.model)
        with pytest.raises(CheckpointError, match="save: ranks don't answer since an earlier call: "):
            hasty.save(3, model=job.model)
    return [*found, *(path.name for path in sorted(directory.iterdir()))]


def test_what_fails_on_one_rank_is_raised_on_all(data: Dataset, tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    message = in_ranks(2, tmp_path / "store", fail_in_turns, data, directory)
    assert message[0] == message[1]
    *errors, first, second, link = message[0][:8] + sorted(message[0][8:], key=lambda name: name == "latest")
    expected = [
        r"StateError: ranks 0 and 1 are at different places: Cursor\(.*_rows=0 .* and Cursor\(.*_rows=8 .*",
        "StateError: rank 0 saves step 2, and rank 1 step 3",
        r"TypeError: rank 1: extra\['a'\] must be a plain value .*; found object",
        r"CheckpointError: save: rank 1: OSError: \[Errno 28\] full",
    ] * 2
    assert len(errors) == len(expected)
    for error, pattern in zip(errors, expected, strict=True):
        assert re.fullmatch(pattern, error), error
    assert [first, second, link] == ["step-0000000001-000001", "step-0000000002-000002", "latest"]


def call_apart(rank: int, directory: Path) -> list[str]:
    """Calls that ranks do not make alike; gives what each is told."""
    found: list[str] = []

    def fails(call: Callable[[], object]) -> None:
        with pytest.raises((CheckpointError, ValueError)) as failed:
            call()
        found.append(f"{type(failed.value).__name__}: {failed.value}")

    fails(lambda: Checkpointer(directory / str(rank), timeout_seconds=60))
    checkpointer = Checkpointer(directory, best=("auc", "max"), timeout_seconds=60)
    model = training.small(1)
    fails(lambda: checkpointer.is_best({"auc": 1.0}) if rank else checkpointer.save(1, model=model))
    fails(lambda: checkpointer.save(1, model=model) if rank else checkpointer.restore(model=model))
    checkpointer.save(1, model=model)
    with pytest.MonkeyPatch.context() as patch:
        if rank:  # as if it had another file system
            patch.setattr(Path, "is_dir", lambda path: False)
        fails(lambda: checkpointer.save(2, model=model))
        fails(lambda: checkpointer.restore(model=model))
    if rank == 0:
        fails(lambda: Checkpointer(directory, timeout_seconds=1))
    return found


def test_ranks_that_call_apart_are_told_so_and_at_once(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoints"
    one, other = in_ranks(2, tmp_path / "store", call_apart, directory)
    place = re.escape(str(directory))
    unshared = "is not there: all ranks must share the directory, .*"
    expected = [
        rf"ValueError: rank 0 saves into {place}/0, and rank 1 into {place}/1",
        r"CheckpointError: rank 0 calls save, and rank 1 is_best: all of them call the same",
        r"CheckpointError: rank 0 calls restore, and rank 1 save: all of them call the same",
        rf"CheckpointError: rank 1: {place}/\.writing-\w+ {unshared}",
        rf"CheckpointError: rank 1: {place}/step-\S+ {unshared}",
        r"CheckpointError: not all of 2 ranks are here, and they make it together: .*",
    ]
    assert one[:-1] == other
    assert len(one) == len(expected)
    for found, pattern in zip(one, expected, strict=True):
        assert re.fullmatch(pattern, found), found
    assert sorted(path.name for path in directory.iterdir()) == ["latest", "step-0000000001-000001"]


def save_beside(_rank: int, directory: Path, step: int) -> tuple[int, list[int]]:
    """Another job, in a process of its own, that goes on and saves; gives its number, and the steps."""
    checkpointer = Checkpointer(directory, keep=None)
    checkpointer.restore(model=training.small())
    checkpointer.save(step, model=training.small(step))
    return os.getpid(), training.steps_of(checkpointer)


def test_a_job_beside_which_another_one_saves_is_told_by_whom_and_removes_nothing(tmp_path: Path) -> None:
    directory, stores = tmp_path / "checkpoints", map(str, itertools.count())
    checkpointer = Checkpointer(directory, keep=None)

    def beside(step: int) -> str:
        ((process, steps),) = in_ranks(1, tmp_path / next(stores), save_beside, directory, step)
        assert steps[-1] == step
        return f"step {step} that process {process} on {re.escape(platform.node())} saved after this job had"

    def refused(message: str) -> None:
        (directory / ".writing-by-the-other").mkdir(exist_ok=True)
        before = sorted(directory.iterdir())
        with pytest.raises(fr.StateError, match=message):
            checkpointer.save(7, model=training.small(7))
        checkpointer.save(7, model=training.small(7), wait=False)
        with pytest.raises(fr.StateError, match=message):
            checkpointer.wait()
        assert sorted(directory.iterdir()) == before

    refused(beside(1))
    checkpointer.restore(model=training.small())
    checkpointer.save(2, model=training.small(2))
    refused(beside(3))
    refused("step 3 that process")
    again = Checkpointer(directory, keep=None)
    again.restore(model=training.small(), step=2)
    again.save(4, model=training.small(4))
    assert training.steps_of(again) == [1, 2, 4], "to go back is to leave what was there, whoever saved it"
    again.restore(model=training.small(), step=2)
    again.save(2, model=training.small(2))
    assert training.steps_of(again) == [1, 2], "and a process does not stand in its own way"
    with pytest.MonkeyPatch.context() as patch:  # it saves after this one has looked
        draft = CheckpointDirectory.draft

        def draft_late(history: CheckpointDirectory, save: object) -> Path:
            patch.undo()
            beside(5)
            return draft(history, save)

        patch.setattr(CheckpointDirectory, "draft", draft_late)
        with pytest.raises(fr.StateError, match="step 5 that process"):
            again.save(6, model=training.small(6))
    assert training.steps_of(again) == [1, 2, 5]


def full(*_: object) -> None:
    raise OSError(28, "full")
