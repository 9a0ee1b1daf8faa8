"""Ranks of a process group that do not read the same: an error on each, and no rank that waits for ever."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

import fastresume as fr
from fastresume.agreement import attendance, same_reads
from support.forks import in_ranks
from support.strategies import Dataset

pytestmark = pytest.mark.processes


def outcome(read: Callable[[], Any]) -> str:
    """What reading gives: how many batches, or the error."""
    try:
        return f"{sum(1 for _ in read())} batches"
    except fr.FastresumeError as error:
        return str(error)


def read(rank: int, each: list[dict[str, Any]], late: float = 0.0, waits: float = 60.0) -> tuple[str, int]:
    """Reads what this rank is given, rank 1 later; gives what came of it, and the step after it."""
    attendance.WAIT_SECONDS = waits
    time.sleep(late if rank == 1 else 0.0)
    options = {"batch_size": 4, **each[rank]}
    workers, threads = options.pop("workers", None), options.pop("threads", None)
    dataset = fr.ParquetDataset(options.pop("paths"), **options)
    reader: Any = dataset
    if workers is not None:
        multiprocessing.current_process().daemon = False  # those may have no children
        reader = DataLoader(dataset, batch_size=None, num_workers=workers)
    elif threads is not None:
        reader = fr.Loader(dataset, threads=threads)
    return outcome(lambda: reader), fr.Cursor.from_state(dataset.state_dict())._core.steps


def test_ranks_that_list_other_files_are_told_before_the_first_batch(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    whole = {"paths": small_dataset.directory}
    part = {"paths": small_dataset.files[0]}
    for number, how in enumerate([{}, {"threads": 1}, {"workers": 1}]):
        found = in_ranks(3, tmp_path / f"{number}", read, [whole | how, part | how, whole | how], 0.3)
        assert len({error for error, _ in found}) == 1, "all ranks say the same"
        error = found[0][0]
        assert "ranks 0, 2: files 3, rows 103, dataset " in error
        assert "rank 1: files 1, rows 53, dataset " in error
        assert (
            "Give every rank all rows, and not files[rank::world_size] or a shard: the ranks divide" in error
        )
        assert same_reads.CHECK_RANKS in error
        assert "\n" not in error
        assert [step for _, step in found] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch_size": 3}, "batch_size 3"),
        ({"rows": fr.Split(0.0, 0.9)}, "selection "),
        ({"shuffle": True}, "'kind': 'shuffled'"),
        ({"lanes": 4}, "cut [4, 1, 2]"),
        ({"tail": "short"}, "tail short"),
    ],
)
def test_what_differs_is_named_and_nothing_else(
    small_dataset: Dataset, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    plain = {"paths": small_dataset.directory}
    found = in_ranks(2, tmp_path / "ranks", read, [plain, plain | options])
    assert found[0][0] == found[1][0]
    assert said in found[0][0].split("rank 1: ")[1]
    differences, _, way = found[0][0].partition(". ")
    assert "dataset " not in differences
    assert way.startswith(
        "Give every rank the same rows=" if "rows" in options else "Give all ranks the same;"
    )


def test_ranks_that_read_the_same_are_asked_once(small_dataset: Dataset, tmp_path: Path) -> None:
    plain = {"paths": small_dataset.directory, "threads": 1}
    assert in_ranks(2, tmp_path / "ranks", read, [plain, plain], 0.3) == [("12 batches", 0)] * 2


def read_on_rank_0_alone(rank: int, data: Dataset, named: dict[str, int]) -> tuple[list[str], list[str]]:
    """Rank 0 looks at a batch; then all read, in step; gives what came of it, and what was warned of."""
    attendance.WAIT_SECONDS = 0.0
    dataset = fr.ParquetDataset(data.directory, batch_size=4, on_iter="restart")
    found = []
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if rank == 0:
            look = fr.ParquetDataset(data.directory, batch_size=4, **named) if named else dataset
            found.append(str(len(next(iter(look))["row"])))
        dist.barrier()
        attendance.WAIT_SECONDS = 60.0
        found.append(outcome(lambda: dataset))
        dist.all_reduce(torch.zeros(1))
    return found, [str(one.message) for one in said if "not one batch" in str(one.message)]


@pytest.mark.parametrize("named", [{}, {"rank": 0, "world_size": 1}])
def test_a_rank_that_reads_alone_waits_a_little_and_says_so(
    small_dataset: Dataset, tmp_path: Path, named: dict[str, int]
) -> None:
    (found_0, said_0), (found_1, said_1) = in_ranks(
        2, tmp_path / "ranks", read_on_rank_0_alone, small_dataset, named
    )
    assert found_0 == ["4", "12 batches"]
    assert found_1 == ["12 batches"]
    assert said_1 == []
    assert [text.startswith("rank 1: not one batch was asked for") for text in said_0] == [True] * (not named)


def read_in_turns(rank: int, data: Dataset, drawn: list[int | None], fails: bool) -> tuple[int, list[str]]:
    """A rank draws some batches and breaks, then reads on; gives how many it read, and what was warned of."""
    attendance.WAIT_SECONDS = 60.0
    dataset = fr.ParquetDataset(data.directory, batch_size=4)
    loader = fr.Loader(dataset.map(Failing(rank)) if fails else dataset, threads=0)
    count = 0
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.suppress(ValueError):
            for _ in itertools.islice(loader, drawn[rank]):
                count += 1
        if fails or len({*drawn}) > 1:
            attendance.WAIT_SECONDS = 0.0
        if loader.epoch == 0:
            count += sum(1 for _ in loader)
        dist.barrier()
    return count, [str(one.message) for one in said if issubclass(one.category, UserWarning)]


class Failing:
    """A transform that fails on rank 0 at its third batch."""

    def __init__(self, rank: int) -> None:
        self._left = 3 if rank == 0 else -1

    def __call__(self, batch: fr.Batch) -> fr.Batch:
        self._left -= 1
        if self._left == 0:
            raise ValueError("once")
        return batch


def test_a_rank_that_alone_looked_at_a_batch_is_told_where_it_begins(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    (count_0, said_0), (count_1, said_1) = in_ranks(
        2, tmp_path / "alone", read_in_turns, small_dataset, [1, None], False
    )
    assert (count_0, count_1, said_1) == (12, 12, [])
    assert len(said_0) == 1
    assert "begins again at epoch 0, step 1, 8 rows consumed" in said_0[0]
    assert "rank 1: nothing began there" in said_0[0]
    assert "loader.peek() draws none" in said_0[0]


@pytest.mark.parametrize(
    ("drawn", "fails"), [([3, 3], False), ([None, None], True)], ids=["all break", "one fails"]
)
def test_ranks_that_begin_again_together_or_after_an_error_are_told_nothing(
    small_dataset: Dataset, tmp_path: Path, drawn: list[int | None], fails: bool
) -> None:
    assert in_ranks(2, tmp_path / "ranks", read_in_turns, small_dataset, drawn, fails) == [(12, [])] * 2


def test_a_rank_that_comes_late_is_not_the_only_one_to_know(small_dataset: Dataset, tmp_path: Path) -> None:
    whole, part = {"paths": small_dataset.directory}, {"paths": small_dataset.files[0]}
    found = in_ranks(2, tmp_path / "ranks", read_in_step, [whole, part])
    assert ["do not read the same" in text for text, _ in found] == [True, True]
    assert [steps for _, steps in found] == [1, 0]


def read_in_step(rank: int, each: list[dict[str, Any]]) -> tuple[str, int]:
    """Rank 0 has its first batch before rank 1 begins."""
    attendance.WAIT_SECONDS = 0.0
    dataset = fr.ParquetDataset(each[rank]["paths"], batch_size=4)
    batches = iter(dataset)
    steps = 0
    if rank == 0:
        with pytest.warns(UserWarning, match="rank 1: not one batch was asked for"):
            next(batches)
        steps += 1
    dist.barrier()
    if rank == 1:
        error = outcome(lambda: batches)
    dist.barrier()
    if rank == 0:
        error = outcome(lambda: batches)
    return error, steps


def test_the_comparison_can_be_turned_off(
    small_dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(same_reads.CHECK_RANKS, "0")
    whole, part = {"paths": small_dataset.directory}, {"paths": small_dataset.files[0]}
    found = in_ranks(2, tmp_path / "ranks", read, [whole, part])
    assert found == [("12 batches", 0), ("6 batches", 0)]


def test_ranks_that_name_another_world_are_left_alone(small_dataset: Dataset, tmp_path: Path) -> None:
    alone = {"rank": 0, "world_size": 1}
    whole, part = {"paths": small_dataset.directory}, {"paths": small_dataset.files[0]}
    found = in_ranks(2, tmp_path / "ranks", read, [whole | alone, part | alone])
    assert found == [("25 batches", 0), ("13 batches", 0)]


def test_ranks_that_read_as_one_rank_are_all_told_and_any_order_of_their_numbers_is_right(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    def ranks(name: str, *worlds: tuple[int, int]) -> list[str]:
        each = [{"paths": small_dataset.directory, "world": world, "threads": 1} for world in worlds]
        return [text for text, _ in in_ranks(len(worlds), tmp_path / name, read, each, 0.3)]

    told = ranks("local", (0, 3), (1, 3), (0, 3))
    assert len(set(told)) == 1, "all ranks say the same"
    assert "ranks 0, 2 of the process group read as rank 0 of 3" in told[0]
    assert "RANK, not LOCAL_RANK" in told[0]
    assert ranks("reversed", (1, 2), (0, 2)) == ["12 batches"] * 2
    assert ranks("data axis", (0, 2), (0, 2), (1, 2), (1, 2)) == ["12 batches"] * 4
    assert ranks("evaluation", (0, 1), (0, 1)) == ["25 batches"] * 2


def test_a_world_of_more_ranks_than_the_process_group_is_refused_with_both_numbers(
    small_dataset: Dataset, tmp_path: Path
) -> None:
    each = [{"paths": small_dataset.directory, "world": (rank, 4)} for rank in range(2)]
    found = in_ranks(2, tmp_path / "ranks", read, each)
    for rank, (text, step) in enumerate(found):
        assert f"reads as rank {rank} of 4, and the process group has 2 ranks" in text
        assert same_reads.CHECK_RANKS in text
        assert step == 0


def read_from(
    rank: int, data: Dataset, states: list[dict[str, str] | None], options: dict[str, Any]
) -> tuple[str, int]:
    """Reads from a state, if this rank has one; rank 0 looks at a batch before it."""
    attendance.WAIT_SECONDS = 60.0
    workers = options.get("workers")
    named = {name: value for name, value in options.items() if name != "workers"}
    dataset = fr.ParquetDataset(data.directory, batch_size=4, shuffle=True, **named)
    reader: Any = fr.Loader(dataset, threads=1)
    if workers is not None:
        multiprocessing.current_process().daemon = False  # those may have no children
        reader = DataLoader(dataset, batch_size=None, num_workers=workers)
    elif rank == 0:
        reader.peek()
    if (state := states[rank]) is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a pass that is started over has one
            dataset.load_state_dict(state)
    return outcome(lambda: reader), fr.Cursor.from_state(dataset.state_dict())._core.steps


def states_of(data: Dataset, *steps: int) -> list[dict[str, str]]:
    """The states of a rank of two after so many batches."""
    batches = list(fr.ParquetDataset(data.directory, batch_size=4, shuffle=True, world=(0, 2)))
    return [batches[step - 1].state_dict() for step in steps]


@pytest.mark.parametrize("options", [{}, {"workers": 1}])
def test_ranks_that_begin_at_other_places_are_told_to_load_the_same_state(
    small_dataset: Dataset, tmp_path: Path, options: dict[str, Any]
) -> None:
    third, fourth = states_of(small_dataset, 3, 4)
    found = in_ranks(2, tmp_path / "one", read_from, small_dataset, [third, None], options)
    assert len({text for text, _ in found}) == 1, "all ranks say the same"
    text = found[0][0]
    assert "rank 0: place epoch 0, step 3, 24 rows consumed, state " in text
    assert "rank 1: place epoch 0, step 0, 0 rows consumed, state " in text
    assert "Load the same state on every rank" in text
    assert [step for _, step in found] == [3, 0], "no rank has drawn a batch"
    older = in_ranks(2, tmp_path / "older", read_from, small_dataset, [fourth, third], options)
    assert ["step 4, 32 rows consumed" in text for text, _ in older] == [True, True]


def test_ranks_that_begin_at_one_place_read_on(small_dataset: Dataset, tmp_path: Path) -> None:
    third, fourth = states_of(small_dataset, 3, 4)
    merged = fr.Cursor.merge([third, fourth], world_size=2).to_state()
    for number, (states, options, batches) in enumerate(
        [
            ([third, third], {}, 9),
            ([merged, merged], {}, 9),
            ([third, third, third], {}, 6),
            ([third, None], {"world": (0, 1)}, None),
            ([third, third], {"on_iter": "restart"}, 12),
            ([third, None], {"on_iter": "restart"}, 12),
        ]
    ):
        found = in_ranks(len(states), tmp_path / f"{number}", read_from, small_dataset, states, options)
        assert ["batches" in text for text, _ in found] == [True] * len(states), found
        assert batches is None or found == [(f"{batches} batches", 0)] * len(states)
