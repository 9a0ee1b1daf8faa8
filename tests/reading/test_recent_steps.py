"""The batches of the last steps again: the same bits, and nothing else moves."""

from __future__ import annotations

import random
import runpy
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fastresume as fr
from fastresume.testing import _assert_equal
from support.each_of import each_of
from support.strategies import Dataset


def shaken(batch: fr.Batch) -> dict[str, Any]:
    """A transform that draws, as one should."""
    noise = torch.randn(batch.num_rows, generator=batch.generator())
    return {**batch, "noise": noise, "kept": batch.row_seeds() % 3 == 0}


def drawing(batch: fr.Batch) -> dict[str, Any]:
    """A transform of a worker's, which may draw from its process's own generators."""
    drawn = torch.tensor([random.random(), np.random.random(), float(torch.rand(()))])
    return {**shaken(batch), "drawn": drawn}


def make(data: Dataset, transform: Any = shaken, batch_size: int = 16, **options: Any) -> fr.Loader:
    of_loader = {name: options.pop(name) for name in ("threads", "num_workers") if name in options}
    dataset = fr.ParquetDataset(data.files, batch_size=batch_size, nulls="mask", shuffle=True, **options)
    return fr.Loader(dataset.map(transform), **of_loader)


def check(loader: fr.Loader, seen: list[fr.Batch], steps: int) -> None:
    """Up to so many last steps are what was handed over, and the cursor stays."""
    before = loader.state_dict()
    for number in {min(each, steps) for each in (0, 1, 2, 3, steps // 2, steps)}:
        _assert_equal(seen[len(seen) - number :], list(loader.replay(number)), f"{number} steps ago")
    assert loader.state_dict() == before


@each_of("tail", ["drop", "short", "pad"])
@each_of("options", [{"threads": 0}, {"threads": 2}, {"threads": 1, "rank": 1, "world_size": 2}])
def test_every_number_of_last_steps_comes_again_over_ends_of_passes(
    lists: Dataset, tail: str, options: dict[str, Any]
) -> None:
    loader, seen = make(lists, tail=tail, **options), []
    for _ in range(2):
        for batch in loader:
            seen.append(batch)
            if batch.step in (0, 2):
                check(loader, seen, min(len(seen), 5))
    check(loader, seen, len(seen))


@pytest.mark.processes
def test_what_workers_drew_comes_again_and_this_process_draws_on(lists: Dataset) -> None:
    with make(lists, drawing, num_workers=2) as loader:
        seen = [*loader, *loader]
        batches = iter(loader)
        seen.append(next(batches))
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)
        check(loader, seen, len(seen))
        drawn = random.random(), np.random.random(), float(torch.rand(()))
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)
        assert drawn == (random.random(), np.random.random(), float(torch.rand(())))
        seen.append(next(batches))
        assert (seen[-1].epoch, seen[-1].step) == (2, 1), "what was made ahead is still there"


def test_steps_are_counted_over_breaks_loads_and_resets(lists: Dataset) -> None:
    loader, seen = make(lists, threads=1), []
    for _ in range(3):  # three iterators, each broken off
        for batch in loader:
            seen.append(batch)
            break
    check(loader, seen, 3)
    loader.load_state_dict(seen[0].state_dict())
    seen.append(next(iter(loader)))
    loader.reset()
    seen.append(next(iter(loader)))
    assert [batch.step for batch in seen] == [0, 1, 2, 1, 0]
    check(loader, seen, 5)
    assert loader.peek() is not None
    check(loader, seen, 5)


def test_a_pass_that_starts_anew_comes_again_with_its_states(lists: Dataset) -> None:
    loader = make(lists, tail="pad", on_iter="restart", threads=1)
    check(loader, [*loader, *loader], 2 * len(loader))


@pytest.mark.law(3)
def test_after_a_resume_on_other_ranks_it_leads_back_to_the_resume_and_says_so(lists: Dataset) -> None:
    first = make(lists, threads=0)
    state = next(iter(first)).state_dict()
    loader = make(lists, batch_size=6, rank=1, world_size=3, tail="pad", threads=0)
    loader.load_state_dict(state)
    with pytest.raises(
        IndexError, match=r"last 1 step .* has handed over 0 .*batch_at\(epoch, step, state=\)"
    ):
        loader.replay(1)
    seen = [*loader, *loader]
    check(loader, seen, len(seen))
    with pytest.raises(IndexError, match=f"the last {len(seen) + 1} steps .* handed over {len(seen)} "):
        loader.replay(len(seen) + 1)
    with pytest.raises(ValueError, match="steps must be at least 0, found -1"):
        loader.replay(-1)


def test_it_is_lazy_keeps_no_batch_and_does_not_change_while_the_loop_goes_on(lists: Dataset) -> None:
    loader = make(lists, threads=1)
    batches = iter(loader)
    seen = [next(batches) for _ in range(3)]
    replayed = loader.replay(2)
    seen.append(next(batches))
    _assert_equal(seen[1:3], list(replayed), "while the loop went on")
    held = [weakref.ref(batch) for batch in seen[:2]]
    del seen
    assert [each() for each in held] == [None, None]


def test_of_many_passes_the_last_ones_are_known(lists: Dataset) -> None:
    loader = make(lists, batch_size=50, threads=0)
    for _ in range(70):
        seen = list(loader)
    with pytest.raises(IndexError, match=f"handed over {64 * len(loader)} that it knows of"):
        loader.replay(65 * len(loader))
    check(loader, seen, len(loader))


def test_the_example_tells_bad_data_from_bad_hardware(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parents[2] / "examples/rerun.py"))
    data = "step 4: data: row 7 of row group 7 of part-0.parquet"
    left_out = "left out from now on: 1 row"
    memory = "step 6: machine: the batch in memory is not what the files hold"
    once = "step 9: machine: the same batch has a finite loss now"
    said = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert said[1:3] == [data, left_out]
    assert said[4:7] == [data, memory, left_out]
    assert said[8:] == [data, once, left_out]
