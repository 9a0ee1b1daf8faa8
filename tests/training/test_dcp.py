"""`torch.distributed.checkpoint` and its traps, through which our one leaf comes whole, and others do not.

Real processes of a gloo group. With FASTRESUME_PROFILE=soak from every number of ranks to every other.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from test_distributed import make
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner

import fastresume as fr
from fastresume.integrations.dcp import ResumeState
from support.forks import in_ranks
from support.jobs import fields_of
from support.profile import SOAK
from support.strategies import Dataset

pytestmark = [pytest.mark.processes, pytest.mark.law(5)]

WORLD_SIZES = [(1, 4), (4, 2), (4, 1)]
if SOAK:
    WORLD_SIZES = [(before, after) for before in (1, 2, 4) for after in (1, 2, 4)]


def train_ahead(_rank: int, data: Dataset, directory: Path) -> tuple[list[list[int]], list[tuple[Any, ...]]]:
    """Trains a pass and one step more, each batch drawn one step before; gives rows, and the states' shapes.

    A checkpoint before each step, plans cached, every second one while the training goes on.
    """
    loader, planner = make(data, tail="pad"), DefaultSavePlanner(enable_plan_caching=True)
    resume, shapes, rows = ResumeState(loader), [], []
    held = next(iter(loader))
    for step in range(len(loader) + 1):
        state = resume.state_dict()
        shapes.append(tuple((key, type(leaf).__name__) for key, leaf in state.items()))
        saved: Any = {"data": resume, "step": torch.tensor(step)}
        pending = None
        if step % 2:
            dcp.save(saved, checkpoint_id=directory / f"{step}", planner=planner)
        else:
            pending = dcp.async_save(saved, checkpoint_id=directory / f"{step}", planner=planner)
        rows.append(valid_rows(held))
        resume.trained(held)
        drawn = next(iter(loader), None)
        held = next(iter(loader)) if drawn is None else drawn
        if pending is not None:
            pending.result()
    return rows, shapes


def rest_of(_rank: int, data: Dataset, checkpoints: list[Path]) -> list[tuple[str, list[int]]]:
    """Loads each checkpoint, and gives the state and what is left of the pass: for many in one process."""
    found = []
    for checkpoint in checkpoints:
        loader = make(data, 3, tail="pad")
        resume = ResumeState(loader)
        dcp.load({"data": resume}, checkpoint_id=checkpoint)
        state = resume.state_dict()["fastresume"]
        found.append((state, [row for batch in loader for row in valid_rows(batch)]))
    return found


def valid_rows(batch: fr.Batch) -> list[int]:
    rows: list[int] = batch.rows()[batch.valid.numpy()].tolist()
    return rows


@pytest.mark.law(3)
@pytest.mark.parametrize(("before", "after"), WORLD_SIZES)
def test_every_save_under_a_cached_plan_loads_whole_on_other_ranks(
    small_dataset: Dataset, tmp_path: Path, before: int, after: int
) -> None:
    saved = in_ranks(before, tmp_path / "save", train_ahead, small_dataset, tmp_path)
    assert {shape for _, shapes in saved for shape in shapes} == {(("fastresume", "str"),)}
    steps = len(saved[0][0])
    found = in_ranks(
        after, tmp_path / "load", rest_of, small_dataset, [tmp_path / f"{step}" for step in range(steps)]
    )
    all_rows = set(range(small_dataset.num_rows))
    trained: set[int] = set()
    for step in range(steps):
        assert len({of_rank[step][0] for of_rank in found}) == 1, "ranks loaded states that differ"
        rest = sorted(row for of_rank in found for row in of_rank[step][1])
        assert rest == sorted(all_rows - trained), f"the checkpoint before step {step}"
        trained |= {row for rows, _ in saved for row in rows[step]}
        if step == steps - 2:
            assert trained == all_rows
            trained = set()


class Leaves:
    """A state of several leaves, as others have."""

    def __init__(self, leaves: dict[str, Any]) -> None:
        self.leaves = leaves

    def state_dict(self) -> dict[str, Any]:
        return self.leaves

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.leaves = state


def fall_into_traps(rank: int, data: Dataset, directory: Path) -> None:
    loader = make(data)
    resume = ResumeState(loader)
    states = [batch.state_dict() for batch in loader][:2]
    start = make(data).state_dict()

    # Ranks that are out of step: leaves come back from several ranks, and ours, whole, from one.
    resume.load_state_dict(states[rank])
    torn = Leaves({f"leaf {number}": f"{rank}" for number in range(8)})
    dcp.save({"data": resume, "torn": torn}, checkpoint_id=directory / "torn")
    fresh, empty = ResumeState(make(data)), Leaves(dict.fromkeys(torn.leaves, ""))
    dcp.load({"data": fresh, "torn": empty}, checkpoint_id=directory / "torn")
    assert set(empty.leaves.values()) == {"0", "1"}, "torch's checkpoints are no longer torn"
    assert fresh.state_dict() in states

    # What shows no keys before it is loaded is loaded with none. Ours shows its key from the start.
    lazy = Leaves({})
    dcp.load({"torn": lazy}, checkpoint_id=directory / "torn")
    assert lazy.leaves == {}, "torch loads keys that nobody asked for"
    assert [*fresh.state_dict()] == ["fastresume"]

    # The parsed JSON has several leaves: if it comes back torn, its checksum tells.
    parsed: dict[str, Any] = {"data": fields_of(states[rank])}
    dcp.save(parsed, checkpoint_id=directory / "parsed")
    parsed = {"data": fields_of(start)}
    dcp.load(parsed, checkpoint_id=directory / "parsed")
    is_torn = parsed["data"] not in [fields_of(state) for state in states]
    with pytest.raises(fr.StateError, match="damaged") if is_torn else contextlib.nullcontext():
        fresh.load_state_dict(parsed["data"])

    # Below the top of the mapping nobody is asked for a state: said at the save, not after the kill.
    for deeper in (loader, resume):
        with pytest.raises(dcp.api.CheckpointException, match=r"can't be (copied, )?pickled"):
            dcp.save({"train": {"data": deeper}}, checkpoint_id=directory / "deep")
    batch = next(iter(make(data)))
    with pytest.raises(dcp.api.CheckpointException, match="would save the tensors of a Batch, and not its"):
        dcp.save({"train": {"data": batch}}, checkpoint_id=directory / "deep batch")
    # A dataset is pickled, as workers need it, and what is loaded is another one: the docs say so.
    dataset = make(data).dataset
    dcp.save({"train": {"data": loader.dataset}}, checkpoint_id=directory / "dataset")
    dcp.load({"train": {"data": dataset}}, checkpoint_id=directory / "dataset")
    assert dataset.state_dict() == start
    dcp.save({"train": {"data": states[1]}}, checkpoint_id=directory / "text")
    text = {"train": {"data": dict(start)}}
    dcp.load(text, checkpoint_id=directory / "text")
    assert text["train"]["data"] == states[1]

    # One rank with a stale file: an error on all.
    stale = ResumeState(make(data), check_same=True)
    with pytest.raises(fr.StateError, match=r"rank 0: Cursor\(.* rank 1: Cursor\("):
        stale.load_state_dict(states[rank])
    assert stale.state_dict() == start


def test_known_traps_of_distributed_checkpoints(small_dataset: Dataset, tmp_path: Path) -> None:
    in_ranks(2, tmp_path / "store", fall_into_traps, small_dataset, tmp_path)


def resume_from_a_batch(_rank: int, data: Dataset, directory: Path) -> None:
    batch = next(iter(make(data)))
    for name, save in (("now", dcp.save), ("later", lambda *of, **how: dcp.async_save(*of, **how).result())):
        save({"model": {"weight": torch.zeros(3)}, "data": batch}, checkpoint_id=directory / name)
        loader = make(data)
        dcp.load({"model": {"weight": torch.ones(3)}, "data": loader}, checkpoint_id=directory / name)
        assert loader.state_dict() == batch.state_dict()
    with pytest.raises(AttributeError, match=r"write loader\.load_state_dict\(state\)"):
        dcp.load({"data": batch}, checkpoint_id=directory / "now")
    assert not hasattr(batch, "load_state_dict"), "others save the state of what has it, and load into it"


def test_a_batch_at_the_top_of_the_mapping_is_saved_as_its_state(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    in_ranks(2, tmp_path / "store", resume_from_a_batch, small_dataset, tmp_path)
