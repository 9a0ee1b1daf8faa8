"""`ResumeState`: the place of the batch that was trained last, whatever was drawn ahead of it."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from torch.distributed.checkpoint.stateful import Stateful
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.integrations import dcp, resume_state
from fastresume.integrations.resume_state import ResumeState
from support.jobs import make, oracle_job, rows_of, text_of
from support.strategies import Dataset
from support.topologies import Topology


def ahead(batches: Iterable[fr.Batch], held: int) -> Iterator[fr.Batch]:
    """The batches, of which so many more are drawn than were given: torchrec's pipelines hold up to three."""
    waiting: deque[fr.Batch] = deque()
    for batch in batches:
        waiting.append(batch)
        if len(waiting) > held:
            yield waiting.popleft()
    yield from waiting


@pytest.mark.law(2)
@pytest.mark.law(6)
@pytest.mark.parametrize("held", [0, 1, 3])
@pytest.mark.parametrize("kind", ["Loader", "dataset", "DataLoader", "mapped"])
def test_what_was_drawn_ahead_is_not_in_the_state(small_dataset: Dataset, kind: str, held: int) -> None:
    def reader() -> tuple[fr.ParquetDataset, Any]:
        dataset = make(small_dataset)
        kinds: dict[str, Any] = {
            "Loader": lambda: fr.Loader(dataset, threads=1),
            "dataset": lambda: dataset,
            "DataLoader": lambda: DataLoader(dataset, batch_size=None),
            "mapped": lambda: fr.Loader(dataset.map(dict), threads=1),
        }
        return dataset, kinds[kind]()

    dataset, loader = reader()
    job = oracle_job(small_dataset.num_rows, Topology(1, 0, 10), dataset.fingerprint)
    resume = ResumeState(loader)
    for epoch in range(2):
        for batch in ahead(loader, held):
            assert text_of(resume.state_dict()) == job.state(), "a state before the step"
            job.step()
            resume.trained(batch)
            assert text_of(resume.state_dict()) == job.state()
            if batch.step % 4 == 3:
                fresh, other = reader()
                again = ResumeState(other)
                again.load_state_dict(resume.state_dict())
                assert again.state_dict() == resume.state_dict() == fresh.state_dict()
                (first,) = rows_of([next(iter(other))])
                assert first[0] == job.steps_done * 10 % 100
        assert job.epoch == epoch + 1


@pytest.mark.law(5)
def test_it_is_a_stateful_whose_state_survives_what_is_done_to_it(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    resume = dcp.ResumeState(loader)
    assert isinstance(resume, Stateful)
    assert isinstance(loader, Stateful)
    before = resume.state_dict()
    resume.trained(next(iter(loader)))
    after = resume.state_dict()
    assert [*map(type, before.values())] == [*map(type, after.values())] == [str]
    assert [*before] == [*after] == ["fastresume"]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(after, protocol)) == after
        if protocol >= 2:
            cursor = fr.Cursor.from_state(after)
            assert pickle.loads(pickle.dumps(cursor, protocol)) == cursor
    assert json.loads(json.dumps(after)) == copy.deepcopy(after) == after
    after.clear()
    assert resume.state_dict() != after
    assert copy.deepcopy(fr.Cursor.from_state(before)) == fr.Cursor.from_state(before)


def test_a_state_that_is_loaded_past_it_is_followed(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    resume = ResumeState(loader)
    batches = list(loader)
    resume.trained(batches[5])
    loader.load_state_dict(batches[2].state_dict())
    iterator = iter(loader)
    next(iterator), next(iterator)
    assert resume.state_dict() == batches[2].state_dict(), "what was drawn since counts as trained"
    resume.trained(batches[3])
    assert resume.state_dict() == batches[3].state_dict()
    loader.reset()
    assert fr.Cursor.from_state(resume.state_dict()).consumed_rows == 0


def test_what_is_never_told_to_be_trained_is_warned_about(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset, 4), threads=1)
    resume = ResumeState(loader)
    iterator = iter(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(16):  # a step of gradients that add up
            next(iterator)
        resume.state_dict()
    batch = next(iterator)
    with pytest.warns(UserWarning, match=r"17 batches, but no batch was reported as trained: call trained"):
        resume.state_dict()
    resume.trained(batch)
    resume.state_dict()


def test_a_place_that_stays_from_save_to_save_is_warned_about(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset, 4), threads=1)
    resume, added_up = ResumeState(loader), ResumeState(loader)
    iterator = iter(loader)
    resume.state_dict()
    for _ in range(2):
        next(iterator)
        added_up.added_up()
        added_up.state_dict()
        if loader.stats().batches == 1:
            resume.state_dict()
            resume.state_dict()  # a framework asks twice
    with pytest.warns(UserWarning, match=r"2 batches, but no batch was reported as trained: call trained"):
        resume.state_dict()
    batch = next(iterator)
    resume.trained(batch)
    assert resume.state_dict() == batch.state_dict()


def test_what_can_not_be_right_is_refused(small_dataset: Dataset, lists: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    resume = ResumeState(loader)
    batch = next(iter(loader))
    with pytest.raises(TypeError, match=r"the batch that was trained is a dict, and no fastresume\.Batch"):
        resume.trained(dict(batch))  # type: ignore[arg-type]  # a mistake
    with pytest.raises(fr.StateError, match="dataset"):
        resume.trained(next(iter(make(lists, columns="tokens", nulls="mask"))))
    for wrong in (None, {}, [loader], DataLoader([1, 2])):  # type: ignore[arg-type]  # a mistake
        with pytest.raises(TypeError, match=r"loader must be a fastresume\.Loader, a ParquetDataset, or a"):
            ResumeState(wrong)  # type: ignore[arg-type]  # a mistake
    with pytest.raises(ValueError, match='the dataset has on_iter="restart"'):
        ResumeState(make(small_dataset, on_iter="restart"))
    with pytest.raises(fr.StateError):
        resume.load_state_dict({})
    with pytest.raises(fr.StateError, match="the checkpoint has no state of the data"):
        resume_state.require_state(None, "here")
    with pytest.raises(TypeError, match=r"a ResumeState can't be pickled: put it at the top of the mapping"):
        pickle.dumps(resume)
    with pytest.raises(TypeError, match=r"a Loader can't be copied, .* save loader.state_d"):
        pickle.dumps(loader)
    assert "consumed_rows=0 of 103" in repr(resume)
