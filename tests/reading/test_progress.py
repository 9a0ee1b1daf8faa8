"""A progress bar of a pass begins where the pass stands, and ends where it ends."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pytest
import rich.console
import rich.progress
import tqdm

import fastresume as fr
from support.jobs import make
from support.strategies import Dataset


def test_tqdms_bar_resumes_with_the_pass(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    bar: Any = loader.progress(file=io.StringIO())
    assert (bar.total, bar.n, bar.desc, bar.unit) == (10, 0, "pass 0", "batch")
    state = list(islice(bar, 4))[-1].state_dict()
    resumed = fr.Loader(make(small_dataset, batch_size=7), threads=1)
    resumed.load_state_dict(state)
    rest: Any = resumed.progress(tqdm.tqdm, file=io.StringIO(), leave=False)
    assert (rest.total, rest.initial, rest.n) == (4 + 9, 4, 4)
    assert [batch.step for batch in rest] == list(range(4, 13))
    assert rest.n == rest.total
    again: Any = resumed.progress(file=io.StringIO())
    assert (again.total, again.n, again.desc) == (14, 0, "pass 1")


def test_richs_bar_resumes_too(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    list(islice(loader, 3))
    console = rich.console.Console(file=io.StringIO(), force_terminal=True, width=200)
    with rich.progress.Progress(console=console) as progress:
        seen = []
        for batch in loader.progress(progress, visible=True):
            seen.append((batch.step, progress.tasks[0].completed))
        assert seen == [(step, step) for step in range(3, 10)]
        (task,) = progress.tasks
        assert (task.total, task.completed, task.description) == (10, 10, "pass 0")
    assert len(list(loader.progress(rich.progress.Progress, description="training"))) == 10


def test_a_break_loses_nothing_and_an_evaluation_begins_anew(small_dataset: Dataset) -> None:
    loader = fr.Loader(make(small_dataset), threads=1)
    for batch in loader.progress(disable=True):
        if batch.step == 2:
            break
    assert [batch.step for batch in loader.progress(disable=True)] == list(range(3, 10))
    evaluation = fr.Loader(make(small_dataset, on_iter="restart"), threads=1)
    list(islice(evaluation, 3))
    bar: Any = evaluation.progress(file=io.StringIO())
    assert (bar.total, bar.n) == (10, 0)
    assert len(list(bar)) == 10


@pytest.mark.processes
def test_workers_have_a_bar_of_their_batches(small_dataset: Dataset) -> None:
    with fr.Loader(make(small_dataset), num_workers=2, multiprocessing_context="fork") as loader:
        bar: Any = loader.progress(file=io.StringIO())
        assert len(list(bar)) == bar.total == bar.n == 10


def test_other_ranks_show_none(small_dataset: Dataset) -> None:
    dataset = fr.ParquetDataset(small_dataset.directory, batch_size=5, world=(1, 2))
    loader = fr.Loader(dataset, threads=1)
    assert loader.progress() is loader


def test_a_bar_that_can_not_begin_in_the_midst_is_refused(
    small_dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def plain(batches: Iterable[fr.Batch], total: int) -> Iterator[fr.Batch]:
        yield from batches

    loader = fr.Loader(make(small_dataset))
    with pytest.raises(TypeError, match=r"total= and initial= as tqdm does.*plain takes batches, total"):
        loader.progress(plain)
    with pytest.raises(TypeError, match="track forgets where a bar began"):
        loader.progress(rich.progress.track)
    for no_bar in ("rich", int):
        with pytest.raises(TypeError, match=r"bar must be tqdm.tqdm, rich.progress.Progress, or what takes"):
            loader.progress(no_bar)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tqdm, or pass what you have"):
        loader.progress()
