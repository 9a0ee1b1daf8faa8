"""States in distributed checkpoints, and ranks that must agree: real processes of a gloo group."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

import fastresume as fr
from fastresume.integrations.resume_state import ResumeState
from support.forks import in_ranks
from support.strategies import Dataset

pytestmark = pytest.mark.processes


def make(data: Dataset, batch_size: int = 4, **options: Any) -> fr.Loader:
    return fr.Loader(fr.ParquetDataset(data.files, batch_size=batch_size, shuffle=True, **options), threads=1)


# ------------------------------------------------------------------------------------------- checkpoints


def save_along_a_pass(rank: int, data: Dataset, directory: Path) -> list[list[int]]:
    """Trains a pass and one batch more, with a checkpoint before each step, plans cached; gives the rows."""
    loader, planner = make(data), DefaultSavePlanner(enable_plan_caching=True)
    weights = {"weight": torch.zeros(3), "step": torch.zeros((), dtype=torch.int64)}
    rows: list[list[int]] = []
    pending: Any = None
    for step in range(len(loader) + 2):
        state = {"model": weights, "data": loader}
        if step % 2:
            dcp.save(state, checkpoint_id=directory / f"{step}", planner=planner)
        else:  # the state is that of the call, although the loader goes on
            pending = dcp.async_save(state, checkpoint_id=directory / f"{step}", planner=planner)
        rows.append(next(iter(loader)).rows().tolist())
        if pending is not None:
            pending.result()
            pending = None
        weights["weight"] += rank + 1
    return rows


def resume(_rank: int, data: Dataset, checkpoint: Path, batch_size: int) -> tuple[str, int, list[int]]:
    """Loads a checkpoint; gives the state, and the rows of the rest of the pass and its number."""
    loader = make(data, batch_size, tail="short")
    state = {"model": {"weight": torch.zeros(3)}, "data": loader}
    dcp.load(state, checkpoint_id=checkpoint)
    loaded = loader.state_dict()["fastresume"]
    epoch = loader.dataset._shared_cursor.cursor.epoch
    rest = [row for batch in loader for row in batch.rows().tolist()]
    return loaded, epoch, rest


@pytest.mark.law(5)
def test_a_cached_plan_saves_every_state_whole_and_other_world_sizes_load_it(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    rows = in_ranks(2, tmp_path / "save", save_along_a_pass, small_dataset, tmp_path)
    steps = len(rows[0])
    num_rows = make(small_dataset).dataset.num_rows
    trained: list[set[int]] = [set() for _ in range(steps + 1)]
    for step in range(steps):  # what was trained before each checkpoint
        trained[step + 1] = trained[step] | {row for of_rank in rows for row in of_rank[step]}
    passes = steps - 2
    for step in (0, 1, passes - 1, passes, passes + 1):
        world_size = 1 + step % 3
        found = in_ranks(world_size, tmp_path / f"load{step}", resume, small_dataset, tmp_path / f"{step}", 3)
        assert len({state for state, _, _ in found}) == 1
        rest = sorted(row for _, _, of_rank in found for row in of_rank)
        if step < passes:
            assert {epoch for _, epoch, _ in found} == {0}
            assert rest == sorted(set(range(num_rows)) - trained[step])
        else:
            assert {epoch for _, epoch, _ in found} == {1}
            second = {row for of_rank in rows for row in of_rank[passes]} if step > passes else set()
            assert rest == sorted(set(range(num_rows)) - second)


# ------------------------------------------------------------------------------------------ ranks that agree


def load_each_its_own(rank: int, data: Dataset, states: list[Any]) -> tuple[str, str]:
    """Loads this rank's state, checked; gives the error, and the state of the loader afterwards."""
    loader = make(data)
    try:
        loader.load_state_dict(states[rank], check_same=True)
        error = ""
    except fr.StateError as found:
        error = str(found)
    return error, loader.state_dict()["fastresume"]


def test_ranks_whose_states_differ_all_say_which(small_dataset: Dataset, tmp_path: Path) -> None:
    loader = make(small_dataset, rank=0, world_size=3)
    start = loader.state_dict()
    later = next(iter(loader)).state_dict()
    for number, (states, named) in enumerate(
        [
            ([later, later, later], None),
            ([later, start, later], ["ranks 0, 2: Cursor(epoch=0, consumed_rows=12", "rank 1: Cursor"]),
            ([{}, later, later], ["rank 0: unreadable: ", "ranks 1, 2: Cursor"]),
            ([{}, {}, {}], ["no key 'fastresume'"]),
        ]
    ):
        found = in_ranks(3, tmp_path / str(number), load_each_its_own, small_dataset, states)
        assert len(set(found)) == 1, "all ranks say the same"
        error, state = found[0]
        if named is None:
            assert (error, state) == ("", later["fastresume"])
        else:
            assert all(name in error for name in named), error
            assert state == start["fastresume"]


def test_alone_a_state_is_only_read(small_dataset: Dataset) -> None:
    loader = make(small_dataset)
    state = next(iter(loader)).state_dict()
    assert fr.distributed.check_same(state) == fr.Cursor.from_state(state)
    with pytest.raises(fr.StateError, match="no key 'fastresume'"):
        fr.distributed.check_same({})


def asked_of_all(data: Dataset, rank: int) -> list[str]:
    """What calls that ask all ranks say on a rank of two that the environment names."""
    held_out = fr.ParquetDataset(data.files, batch_size=4, on_iter="restart", tail="pad")
    loader = make(data)
    states = [loader.state_dict(), next(iter(loader)).state_dict()]
    loader.load_state_dict(states[0])
    said = []
    for call in (
        lambda: fr.distributed.check_same(states[rank]),
        lambda: loader.load_state_dict(states[rank], check_same=True),
        lambda: ResumeState(loader, check_same=True).load_state_dict(states[rank]),
        fr.training.Preemption,
        lambda: fr.training.Evaluator(held_out, dict),
    ):
        try:
            call()
            said.append("")
        except (fr.FastresumeError, fr.StateError, ValueError) as error:
            said.append(f"{type(error).__name__}: {error}")
    assert loader.state_dict() == states[0]
    return said


def asked_in_a_group(rank: int, data: Dataset) -> list[str]:
    """The same in a process group."""
    os.environ["RANK"] = str(rank)
    return asked_of_all(data, rank)


def test_a_rank_that_only_the_environment_tells_of_others_asks_them_in_a_process_group_or_not_at_all(
    small_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    said = asked_of_all(small_dataset, 1)
    for text, call in zip(said[:4], ["check_same"] * 3 + ["Preemption"], strict=True):
        assert text.startswith(f"FastresumeError: {call} asks all ranks, and no process group reaches them")
        assert "Call torch.distributed.init_process_group before" in text
    assert said[4].endswith("call torch.distributed.init_process_group before the Evaluator is made")
    for told in in_ranks(2, tmp_path / "group", asked_in_a_group, small_dataset):
        assert [text[:32] for text in told] == ["StateError: ranks have states tha"[:32]] * 3 + ["", ""]
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("RANK", "0")
    assert asked_of_all(small_dataset, 0) == [""] * 5, "one rank under torchrun is alone"


def of_other_ranks(rank: int, data: Dataset) -> list[str]:
    """What an Evaluator says of datasets of other ranks than its own, and after the advice of the first."""
    made = {"batch_size": 4, "on_iter": "restart", "tail": "pad"}
    alone = fr.ParquetDataset(data.files, world=(0, 1), **made)
    said = []
    for group in (None, torch.distributed.group.WORLD):
        with pytest.raises(ValueError, match="the dataset was made for") as found:
            fr.training.Evaluator(alone, dict, group=group)
        said.append(str(found.value).partition("world_size=2): ")[2])
    fr.training.Evaluator(fr.ParquetDataset(data.files, world=torch.distributed.group.WORLD, **made), dict)
    return said


def test_an_evaluator_says_how_a_dataset_of_other_ranks_becomes_one_of_its_own(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    assert in_ranks(2, tmp_path / "group", of_other_ranks, small_dataset) == 2 * [
        [
            "make it after init_process_group without world=, or give the Evaluator its ranks by group=",
            "make the dataset with world=group",
        ]
    ]


def test_check_same_of_a_dataset_is_named_where_it_is(small_dataset: Dataset) -> None:
    loader = make(small_dataset)
    ways = []
    for given in (loader.dataset, loader.dataset.map(dict)):
        with pytest.raises(TypeError) as found:
            given.load_state_dict(loader.state_dict(), check_same=True)
        ways.append(str(found.value).partition(": write ")[2])
    assert ways == ["loader.load_state_dict(state, check_same=True), or fr.distributed.check_same(state)"] * 2
