"""Contenders of the benchmark deliver the same values, and resume from their own states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from fastresume.bench import child, command
from fastresume.bench.checksum import Checksum, difference
from fastresume.bench.contenders import CONTENDERS, missing, named
from fastresume.bench.delivered import cells_by_name, num_rows
from fastresume.bench.reading import Contender, Reading
from fastresume.bench.survey import survey
from fastresume.bench.task import Task
from support.bench_columns import JAGGED, ROWS, flat_columns, sums_of
from support.each_of import each_of

# --------------------------------------------------------------------------------------------- the contenders


def rows_of(batches: Any, task: Task) -> dict[str, Any]:
    found = Checksum(task.names)
    for batch in batches:
        found.add(num_rows(batch), cells_by_name(batch, task))
    return found.to_json()


INSTALLED = [name for name, one in CONTENDERS.items() if not missing(one)]

IN_PROCESS = [name for name in INSTALLED if name not in ("dataloader", "torchdata")]  # they fork


@each_of("name", IN_PROCESS)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_contenders_deliver_every_type_alike(task: Task, name: str) -> None:
    expected = rows_of([pa.table(flat_columns())], task)
    assert difference(rows_of(CONTENDERS[name].open(task, None).batches, task), expected) is None


@each_of("name", IN_PROCESS)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_contenders_deliver_lists_strings_and_nulls_alike(tmp_path: Path, name: str) -> None:
    columns = {
        **JAGGED,
        "whole": np.arange(20, dtype=np.int16),
        "text": pa.array(["a", None, "zoë", "", "b"] * 4),
    }
    table = pa.table({key: pa.array(column) for key, column in columns.items()})
    for number in range(2):
        pq.write_table(table.slice(10 * number, 10), tmp_path / f"{number}.parquet", row_group_size=7)
    found = survey([str(tmp_path)], None)
    assert [column.name for column in found.columns] == list(columns)
    task = Task(found.files, found.columns, 6, 1, found.num_rows)
    assert difference(rows_of(CONTENDERS[name].open(task, None).batches, task), sums_of(table)) is None


NULLS_IN_LISTS = {
    "numbers": pa.array([[1, None], [], None, [3], [None, 4, 5]] * 4, pa.list_(pa.int64())),
    "floats": pa.array([[1, None], [], None, [3], [4.5]] * 4, pa.large_list(pa.float32())),
    "truths": pa.array([[True, None], [], None, [False], [True]] * 4, pa.list_(pa.bool_())),
    "times": pa.array([[1, None], [], None, [3], [5]] * 4, pa.list_(pa.timestamp("us"))),
    "whole": pa.array([[1, 2], [], None, [3], [5]] * 4, pa.list_(pa.int8())),
    "pairs": pa.array([[1, None], [3, 4], None, [3, 3], [9, 9]] * 4, pa.list_(pa.int32(), 2)),
}


@each_of("name", IN_PROCESS)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_contenders_deliver_nulls_in_lists_alike(tmp_path: Path, name: str) -> None:
    table = pa.table(NULLS_IN_LISTS)
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    found = survey([str(tmp_path)], None)
    assert list(found.left_out) == ["pairs"]
    assert [column.has_null_elements for column in found.columns] == [True] * 4 + [False]
    task = Task(found.files, found.columns, 6, 1, found.num_rows)
    delivered = rows_of(CONTENDERS[name].open(task, None).batches, task)
    assert difference(delivered, rows_of([table], task)) is None
    others = pa.table({**NULLS_IN_LISTS, "numbers": pa.array([[1]] * 20)})
    assert difference(delivered, rows_of([others], task)) == "other values in 'numbers'"


@each_of(
    ("batch", "found"),
    [({}, "dict"), ([1, 2], "list"), ({"a": np.zeros(3)}, "dict of ndarray"), (None, "NoneType")],
)
def test_what_is_no_batch_is_told_with_what_is(batch: object, found: str) -> None:
    with pytest.raises(TypeError, match=f"tensors by name .* or a polars frame, found {found}$"):
        num_rows(batch)


@each_of("name", [name for name in IN_PROCESS if CONTENDERS[name].resumes == "state"])
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_resumes_are_of_states_at_the_places_that_they_are_measured_at(
    task: Task, tmp_path: Path, name: str
) -> None:
    path = str(tmp_path / "states")
    kept = child.keep_states(task, CONTENDERS[name], [0, 50, 90, 99], path)
    assert kept == {0: 0, 50: 512, 90: 960, 99: 960}
    for place, (state, _) in torch.load(path, weights_only=True).items():
        left = CONTENDERS[name].open(task, state).batches
        assert sum(map(num_rows, left)) == ROWS - kept[place]


def test_resumes_are_timed_from_the_states_after_one_that_does_not_count(task: Task, tmp_path: Path) -> None:
    states = []

    def begin(_: Task, state: object) -> Reading:
        states.append(state)
        return Reading(iter([pa.table(flat_columns())]))

    path = tmp_path / "states"
    torch.save({0: (None, None), 90: ({"row": 900}, None)}, path)
    contender = Contender("theirs", "theirs", begin, resumes="state")
    assert list(child.resumes(task, contender, [0, 90], str(path))) == ["0", "90"]
    assert states == [None, None, {"row": 900}]


def test_resumes_that_go_on_with_another_batch_do_not_count(task: Task, tmp_path: Path) -> None:
    whole = pa.table(flat_columns())

    def begin(_: Task, state: object) -> Reading:
        first = 0 if state is None else 100  # forgets how far it had come
        batches = [whole.slice(start, 100) for start in range(first, ROWS, 100)]
        return Reading(iter(batches), lambda: {"row": 900})

    path = str(tmp_path / "states")
    contender = Contender("theirs", "theirs", begin, resumes="state")
    assert child.keep_states(task, contender, [0, 10, 90], path) == {0: 0, 10: 100, 90: 900}
    assert list(child.resumes(task, contender, [0, 10], path)) == ["0", "10"]
    with pytest.raises(ValueError, match="at 90 % is not the one that followed: other values in 'id'"):
        child.resumes(task, contender, [0, 90], path)


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_those_that_keep_no_state_read_up_to_the_place(task: Task) -> None:
    for rows in (0, 63, 64, 500, 999):
        left = child.skipped(CONTENDERS["pyarrow-tensors"].open(task, None), rows)
        # The first batch has the row at the place.
        assert 0 <= sum(map(num_rows, left.batches)) - (ROWS - rows) < 64


def test_checks_see_rows_that_are_mixed_up_and_columns_that_are_missing(task: Task, readers: None) -> None:
    expected = rows_of([pa.table(flat_columns())], task)
    mixed = rows_of(named("their_readers:mixes_up_rows").open(task, None).batches, task)
    assert difference(mixed, expected) == "the columns have the right values, but not in the same rows"
    with pytest.raises(ValueError, match="the column 'small' was not delivered"):
        rows_of(named("their_readers:forgets_a_column").open(task, None).batches, task)


def test_readers_of_ones_own_are_called_by_module_and_function(task: Task, readers: None) -> None:
    contender = named("their_readers:backwards")
    assert missing(contender) == []
    assert sum(map(num_rows, contender.open(task, None).batches)) == ROWS


# --------------------------------------------------------------------------------------- survey, report, plot


def test_all_contenders_have_names_of_their_own_and_say_what_they_are() -> None:
    assert len({one.title for one in CONTENDERS.values()}) == len(CONTENDERS)
    assert {name for name in CONTENDERS if ":" in name} == set()
    assert command.PLACES[0] == 0
    assert set(command.QUICK_CONTENDERS) < set(CONTENDERS)
