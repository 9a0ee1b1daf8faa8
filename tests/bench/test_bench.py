"""`fastresume bench` measures contenders that deliver the same rows, and says so of those that do not."""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastresume import cli
from fastresume.bench import child, command, machine, turns
from fastresume.bench.arrow import Cells, cells_of
from fastresume.bench.checksum import Checksum, difference
from fastresume.bench.contenders import CONTENDERS, missing, named
from fastresume.bench.delivered import cells_by_name, num_rows
from fastresume.bench.figures import Figure
from fastresume.bench.plot import draw
from fastresume.bench.reading import Contender, Reading
from fastresume.bench.report import Report
from fastresume.bench.survey import survey
from fastresume.bench.task import Column, Task
from fastresume.bench.turns import Measured

ROWS = 1000
READERS = """
import pyarrow as pa
import pyarrow.parquet as pq

def table(task):
    return pa.concat_tables([pq.read_table(path, columns=task.names) for path in task.files])

def backwards(task):
    whole = table(task)
    yield whole.take(list(range(whole.num_rows))[::-1])

def loses_a_row(task):
    yield table(task).slice(1)

def changes_a_value(task):
    whole = table(task)
    place = whole.schema.get_field_index("small")
    values = whole["small"].to_pylist()
    values[77] += 1
    yield whole.set_column(place, whole.schema.field(place), pa.array(values, whole.schema.field(place).type))

def mixes_up_rows(task):
    whole = table(task)
    place = whole.schema.get_field_index("small")
    other = whole["small"].take(list(range(whole.num_rows))[::-1])
    yield whole.set_column(place, whole.schema.field(place), other)

def forgets_a_column(task):
    yield table(task).drop_columns(["small"])

def breaks(task):
    raise OSError("the disk is on fire")

def breaks_in_lines(task):
    raise ValueError("\\n".join(["first", *map(str, range(9)), "last"]))

def says_nothing(task):
    import os

    os._exit(0)
"""


def flat_columns(rows: int = ROWS) -> dict[str, Any]:
    random = np.random.default_rng(5)
    return {
        "id": np.arange(rows),
        "small": random.integers(-100, 100, rows).astype(np.int8),
        "weight": random.normal(size=rows).astype(np.float32),
        "wide": random.normal(size=rows),
        "flag": random.random(rows) < 0.5,
        "count": random.integers(0, 2**63, rows, dtype=np.uint64),
        "other": np.arange(rows) * 7,
        "when": pa.array(np.arange(rows), pa.timestamp("ms")),
        "day": pa.array([dt.date(2026, 1, 1)] * rows),
    }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("bench") / "data"
    directory.mkdir()
    table = pa.table(flat_columns())
    pq.write_table(table.slice(0, 600), directory / "a.parquet", row_group_size=250)
    pq.write_table(table.slice(600), directory / "b.parquet", row_group_size=250)
    return directory


@pytest.fixture(scope="module")
def task(files: Path) -> Task:
    found = survey([str(files)], None)
    return Task(found.files, found.columns, 64, 1, found.num_rows)


@pytest.fixture
def readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers of a user's own, which a process finds by their module's name."""
    (tmp_path / "their_readers.py").write_text(READERS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(tmp_path)


# ---------------------------------------------------------------------------------------------- the command


@pytest.mark.processes
@pytest.mark.slow
def test_command_measures_those_that_deliver_the_same_and_lists_who_is_not_installed(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], readers: None
) -> None:
    told = tmp_path / "out.json"
    names = "fastresume-shuffled,pyarrow,dataloader,their_readers:backwards,not_there:read"
    arguments = ["bench", str(files), "--contenders", names, "--json", str(told), "--quick"]
    assert cli.main([*arguments, "--threads", "1", "--batch-size", "64"]) == 0
    said = capsys.readouterr().out
    assert "same rows: all 4 delivered what pyarrow reads, every value of all 1000 rows" in said
    assert "not_there:read: not installed: not_there" in said
    assert "against pyarrow" in said
    assert "ms to the first batch after a resume" in said

    found = json.loads(told.read_text())
    assert (found["format"], found["same_rows"], found["rival"]) == (1, True, "pyarrow")
    assert (found["rows"], found["row_groups"], len(found["files"])) == (1000, 5, 2)
    assert found["decoded_bytes"] == 1000 * (8 + 1 + 4 + 8 + 1 + 8 + 8 + 8 + 4)
    assert found["batch_size"] == 64
    for name, one in found["contenders"].items():
        assert one["is_missing"] == (name == "not_there:read")
        assert len(one["passes"]) == (not one["is_missing"])
        # What decodes alone, or is somebody's own, makes no first batch to wait for.
        can_resume = name in ("fastresume-shuffled", "dataloader")
        assert [list(turn) for turn in one["resumes"]] == ([["0", "90"]] if can_resume else [])
        for turn in one["passes"]:
            assert turn["rows"] == 1000 * turn["passes"]
            assert turn["peak_bytes"] > turn["peak_bytes_above_imports"] >= 0
            assert min(turn["seconds"], turn["cpu_seconds"]) > 0


@pytest.mark.parametrize("is_asked", [True, False])
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_command_measures_resumes_of_those_that_can_unless_nobody_asks(
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_asked: bool,
) -> None:
    def here(contender: Contender, **request: Any) -> Any:
        return json.loads(json.dumps(child.work({**request, "contender": contender.name})))

    # The test above starts processes.
    monkeypatch.setattr(turns, "in_process", here)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    told = tmp_path / "out.json"
    names = "fastresume,fastresume-shuffled,pyarrow,pyarrow-tensors"
    arguments = ["bench", str(files), "--columns", "id", "--contenders", names, "--json", str(told)]
    arguments += ["--quick", "--batch-size", "64", *([] if is_asked else ["--no-resume"])]
    assert cli.main(arguments) == 0
    assert ("ms to the first batch after a resume" in capsys.readouterr().out) == is_asked
    contenders = json.loads(told.read_text())["contenders"]
    places = {name: [list(turn) for turn in one["resumes"]] for name, one in contenders.items()}
    resumed = [["0", "90"]] if is_asked else []
    assert places == {name: [] if name == "pyarrow" else resumed for name in names.split(",")}


@pytest.mark.processes
@pytest.mark.slow
def test_command_is_loud_about_other_rows_and_failures(
    files: Path, capsys: pytest.CaptureFixture[str], readers: None
) -> None:
    expected = {
        "loses_a_row": "OTHER ROWS: it delivered 999 rows, expected 1000",
        "changes_a_value": "OTHER ROWS: other values in 'small'",
        "breaks": "failed: OSError: the disk is on fire (exit status 1)",
        "breaks_in_lines": "failed: ValueError: first ... last (exit status 1)",
        "says_nothing": "failed: it ended without an answer (exit status 0)",
    }
    names = ",".join(f"their_readers:{function}" for function in expected)
    arguments = ["bench", str(files), "--columns", "id,small", "--contenders", names, "--quick"]
    assert cli.main(arguments) == 1
    said = capsys.readouterr().out
    for function, problem in expected.items():
        assert f"!!! their_readers:{function}: {problem}\n" in said
    assert "same rows" not in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nothing-here.parquet"], "nothing-here.parquet"),
        (["FILES", "--columns", "id,colour"], "no column matches 'colour'; there are id, small, weight"),
        (["FILES", "--contenders", "pandas"], "no contender is called 'pandas'; there are fastresume, "),
        (["FILES", "--contenders", "not_there:read"], "none of the contenders is installed: not_there:read"),
        (["FILES", "--contenders", "pyarrow,pyarrow"], "'pyarrow' is named more than once"),
        (
            ["FILES", "--contenders", "fastresume", "--against", "polars"],
            "--against polars: it takes no part",
        ),
        (["FILES", "--json", "no/such/place.json"], "there is no directory no/such"),
    ],
)
def test_command_says_in_one_line_what_it_can_not_do(
    files: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    assert cli.main(["bench", *(str(files) if part == "FILES" else part for part in arguments)]) == 2
    said = capsys.readouterr().err
    assert said.startswith("fastresume bench: ")
    assert said.count("\n") == 1
    assert reason in said


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_command_refuses_numbers_that_are_none(capsys: pytest.CaptureFixture[str], number: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", "files", "--rounds", number])
    assert "--rounds" in capsys.readouterr().err


@pytest.mark.parametrize(("package", "option"), [("pyarrow", []), ("matplotlib", ["--plot", "out.png"])])
def test_command_says_what_to_install(
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    option: list[str],
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else find(name))
    assert cli.main(["bench", str(files), *option]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fastresume bench: {package} is needed ")
    assert said.endswith(f": pip install {package}\n")


# -------------------------------------------------------------------------------------------- the contenders


def rows_of(batches: Any, task: Task) -> dict[str, Any]:
    found = Checksum(task.names)
    for batch in batches:
        found.add(num_rows(batch), cells_by_name(batch, task))
    return found.to_json()


INSTALLED = [name for name, one in CONTENDERS.items() if not missing(one)]
IN_PROCESS = [name for name in INSTALLED if name not in ("dataloader", "torchdata")]  # they fork


@pytest.mark.parametrize("name", IN_PROCESS)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_contenders_deliver_every_type_alike(task: Task, name: str) -> None:
    expected = rows_of([pa.table(flat_columns())], task)
    assert difference(rows_of(CONTENDERS[name].open(task, None).batches, task), expected) is None


@pytest.mark.parametrize("name", IN_PROCESS)
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


@pytest.mark.parametrize("name", IN_PROCESS)
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


@pytest.mark.parametrize(
    ("batch", "found"),
    [({}, "dict"), ([1, 2], "list"), ({"a": np.zeros(3)}, "dict of ndarray"), (None, "NoneType")],
)
def test_what_is_no_batch_is_told_with_what_is(batch: object, found: str) -> None:
    with pytest.raises(TypeError, match=f"tensors by name .* or a polars frame, found {found}$"):
        num_rows(batch)


@pytest.mark.parametrize("name", [name for name in IN_PROCESS if CONTENDERS[name].resumes == "state"])
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


# ---------------------------------------------------------------------------------------------- the checksum

JAGGED = {
    "lists": pa.array([[1, 2], [], None, [3], [3, 4, 5]] * 4, pa.list_(pa.int64())),
    "fixed": pa.array([[1, 2], [3, 4], [5, 6], None, [9, 9]] * 4, pa.list_(pa.int32(), 2)),
    "text": pa.array(["a", "", None, "zoë", "bb"] * 4),
    "bytes": pa.array([b"a", b"", None, b"\x00\xff", b"bb"] * 4, pa.large_binary()),
    "sparse": pa.array([1, None, 3, None, 5] * 4, pa.int16()),
    "word": pa.array(["x", None, "y", "x", "x"] * 4).dictionary_encode(),
}


def sums_of(table: pa.Table, batch_rows: int = 100) -> dict[str, Any]:
    found = Checksum(table.column_names)
    for batch in table.to_batches(max_chunksize=batch_rows):
        found.add(batch.num_rows, {name: cells_of(batch[name]) for name in table.column_names})
    return found.to_json()


@given(order=st.permutations(range(20)), batch_rows=st.integers(1, 25))
def test_checksum_is_of_the_rows_whatever_their_order_and_batches(order: list[int], batch_rows: int) -> None:
    table = pa.table(JAGGED)
    assert sums_of(table.take(order), batch_rows) == sums_of(table)


CHANGES: dict[str, Callable[[Any], Any]] = {
    "lists": lambda value: [*(value or []), 0],
    "fixed": lambda value: value[::-1] if value and value[0] != value[1] else [7, 8],
    "text": lambda value: None if value == "" else "",
    "bytes": lambda value: (value or b"") + b"\x00",
    "sparse": lambda value: 0 if value is None else None,
    "word": lambda value: "z",
}


@pytest.mark.parametrize("name", CHANGES)
@given(place=st.integers(0, 19))
def test_checksum_tells_any_changed_value(name: str, place: int) -> None:
    table = pa.table(JAGGED)
    values = table[name].to_pylist()
    values[place] = CHANGES[name](values[place])
    field = table.schema.field(name)
    column = pa.array(values).dictionary_encode() if name == "word" else pa.array(values, field.type)
    changed = table.set_column(table.schema.get_field_index(name), field, column)
    assert difference(sums_of(changed), sums_of(table)) == f"other values in '{name}'"


def test_checksum_tells_an_order_within_a_list_and_where_a_list_ends() -> None:
    sums = {
        str(lists): sums_of(pa.table({"a": pa.array(lists, pa.list_(pa.int64()))}))["columns"]["a"]
        for lists in ([[1, 2], [3]], [[2, 1], [3]], [[1], [2, 3]], [[1, 2, 3], []], [[1, 2], [3, 0]])
    }
    assert len(set(sums.values())) == len(sums)


def test_checksum_tells_columns_apart_that_have_the_same_values() -> None:
    table = pa.table({"a": [1, 2, 3], "b": [2, 3, 1]})
    swapped = table.rename_columns(["b", "a"]).select(["a", "b"])
    assert (
        difference(sums_of(swapped), sums_of(table))
        == "the columns have the right values, but not in the same rows"
    )


def test_checksum_does_not_depend_on_what_lies_under_a_null() -> None:
    buffers = [pa.py_buffer(b"\x02"), pa.py_buffer(np.array([0, 2, 3], np.int32)), pa.py_buffer(b"xyz")]
    odd = pa.Array.from_buffers(pa.string(), 2, buffers)
    assert odd.to_pylist() == [None, "z"]
    plain = pa.table({"a": pa.array([None, "z"])})
    assert sums_of(pa.table({"a": odd})) == sums_of(plain)


def test_checksum_of_long_lists_does_not_depend_on_how_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table(JAGGED)
    whole = sums_of(table)
    for most in (1, 2, 3, 7):
        monkeypatch.setattr("fastresume.bench.checksum.MAX_VALUES", most)
        assert sums_of(table) == whole


def test_checksum_is_the_same_for_integers_of_any_width_and_not_for_other_bits() -> None:
    narrow, wide = (pa.table({"a": pa.array([-1, 7], type_)}) for type_ in (pa.int8(), pa.int64()))
    assert sums_of(narrow)["columns"] == sums_of(wide)["columns"]
    zeros = [sums_of(pa.table({"a": np.array([zero])}))["columns"] for zero in (0.0, -0.0)]
    assert zeros[0] != zeros[1]


def test_checksum_refuses_columns_of_unequal_length() -> None:
    cells = {"a": Cells(np.arange(3), None, None), "b": Cells(np.arange(2), None, None)}
    with pytest.raises(ValueError, match="the column 'b' has 2 rows in a batch of 3"):
        Checksum(["a", "b"]).add(3, cells)


# --------------------------------------------------------------------------------------- survey, report, plot


def test_survey_leaves_out_what_can_not_be_delivered_and_sees_nulls(tmp_path: Path) -> None:
    columns = {
        "id": [1, 2, 3],
        "gap": pa.array([1, None, 3]),
        "part": pa.array([{"x": 1}] * 3),
        "dotted.name": pa.array([1.5, None, 2.5]),
    }
    pq.write_table(pa.table(columns).slice(0, 0), tmp_path / "a.parquet")
    pq.write_table(pa.table(columns), tmp_path / "b.parquet")
    found = survey([str(tmp_path)], None)
    assert [(column.name, column.may_be_null) for column in found.columns] == [
        ("id", False),
        ("gap", True),
        ("dotted.name", True),
    ]
    assert list(found.left_out) == ["part"]
    assert "part" in found.left_out["part"]
    with pytest.raises(ValueError, match="part"):
        survey([str(tmp_path)], ["part"])
    assert [column.name for column in survey([str(tmp_path)], ["[ig]*"]).columns] == ["id", "gap"]
    with pytest.raises(ValueError, match="the files have no rows"):
        survey([str(tmp_path / "a.parquet")], None)


UNLIKE = {
    "texts": pa.array([["t1", None], []], pa.list_(pa.string())),
    "labels": pa.array([["a"], ["b", "a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "bytes": pa.array([[b"x"], []], pa.large_list(pa.binary())),
    "lists": pa.array([[[1]], []], pa.list_(pa.list_(pa.int64()))),
    "records": pa.array([[{"x": 1}], []], pa.list_(pa.struct({"x": pa.int64()}))),
    "record": pa.array([{"x": 1}] * 2),
    "pairs": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
    "price": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(9, 2)),
    "prices": pa.array([[Decimal("1.50")], []], pa.list_(pa.decimal128(9, 2))),
}


def test_columns_that_contenders_deliver_in_unlike_forms_are_left_out_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({**UNLIKE, "ids": pa.array([[1, 2], []])}), path)
    found = survey([str(path)], None)
    assert [column.name for column in found.columns] == ["ids"]
    for name in UNLIKE:
        assert found.left_out[name].startswith(f"{name}: contenders deliver "), found.left_out[name]
        assert found.left_out[name].endswith(" in forms that can't be compared")
    assert "list<element: string>" in found.left_out["texts"]


@pytest.mark.parametrize("name", ["texts", "record", "price"])
def test_a_column_of_an_unlike_form_alone_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({name: UNLIKE[name]}), path)
    for option in ([], ["--columns", name]):
        assert cli.main(["bench", str(path), *option]) == 2
        assert f"{name}: contenders deliver " in capsys.readouterr().err


def test_task_stacks_what_is_of_one_type_under_names_that_no_column_has() -> None:
    names = {"a": "int8", "b": "int8", "all_int8": "float", "c": "list<item: int8>", "d": "timestamp[us]"}
    columns = tuple(Column(name, type_, "list" in type_, False) for name, type_ in names.items())
    task = Task(("x",), columns, 1, 1, 1)
    assert task.stacks == {"all_int8_": ["a", "b"]}
    assert Task.from_json(json.loads(str(task))) == task


def measured(name: str, seconds: tuple[float, ...], resumes: tuple[float, ...] = ()) -> Measured:
    one = Measured(CONTENDERS[name], checksum={"rows": ROWS, "bytes": 10**9, "columns": {}, "whole_rows": ""})
    for each in seconds:
        sizes = {"peak_bytes": 3 << 20, "peak_bytes_above_imports": 1 << 20}
        one.passes.append({"passes": 1, "rows": ROWS, "seconds": each, "cpu_seconds": each / 2, **sizes})
    one.resumes += [{"0": each, "90": each * 2} for each in resumes]
    return one


@pytest.fixture
def report(files: Path, task: Task) -> Report:
    ours = measured("fastresume", (0.5, 0.25, 1.0), (0.010, 0.011, 0.012))
    theirs = measured("polars", (1.0, 1.0, 1.0))
    return Report(survey([str(files)], None), task, ours.checksum or {}, [ours, theirs], "polars", 3, (0, 90))


def test_report_compares_within_each_round(report: Report) -> None:
    ours, theirs = report.figures.values()
    assert ours.gigabytes_per_cpu_second.over(theirs.gigabytes_per_cpu_second) == Figure((2.0, 4.0, 1.0))
    said = [line.split("|")[1:-1] for line in report.pass_table()]
    assert [cell.strip() for cell in said[0]][4] == "against polars"
    assert [cell.strip() for cell in said[2]][2:5] == [
        "2.00 (1.00-4.00)",
        "4.00 (2.00-8.00)",
        "2.00 (1.00-4.00)",
    ]
    assert [cell.strip() for cell in said[2]][1] == "0.00 (0.00-0.00)"
    assert [cell.strip() for cell in said[2]][5:] == ["3 (3-3)", "1 (1-1)"]
    theirs = measured("torchdata", (), (0.020, 0.033, 0.060))
    said = replace(report, measured=[*report.measured, theirs]).resume_table()
    assert "at 90 %, over fastresume" in said[0]
    assert "22.0 (20.0-24.0)" in said[2]
    assert "3.0 (2.0-5.0)" in said[3], "the median and the range of each round's ratio"
    assert said[-1] == (
        "no resumes of polars: they have no state to go on from; "
        "what reading up to a place takes them, their rows/s tell"
    )
    alone = replace(report, measured=[theirs])
    assert len(alone.resume_table()) == 3, "of all there are resumes"


def test_report_has_every_figure_with_its_range(report: Report) -> None:
    report.measured[0].passes[1]["peak_bytes"] = 5 << 20
    figures = report.to_json()["contenders"]["fastresume"]["figures"]
    rows = ROWS / 1e6
    assert figures["millions_of_rows_per_second"] == {
        "median": rows / 0.5,
        "least": rows / 1.0,
        "greatest": rows / 0.25,
    }
    assert figures["peak_mebibytes"] == {"median": 3.0, "least": 3.0, "greatest": 5.0}
    assert "| 3 (3-5) |" in " ".join(report.pass_table()[2].split())
    report.measured[1].problem = "failed: it ended"
    contenders = json.loads(json.dumps(report.to_json()))["contenders"]
    assert (contenders["fastresume"]["figures"], contenders["polars"]["figures"]) == (figures, None)


def test_report_leaves_out_the_figures_of_who_delivered_other_rows(report: Report) -> None:
    report.measured[1].problem = "OTHER ROWS: it delivered 999 rows, expected 1000"
    assert list(report.figures) == ["fastresume"]
    assert report.to_json()["same_rows"] is False
    assert report.lines()[-1] == "!!! polars: OTHER ROWS: it delivered 999 rows, expected 1000"


def test_plot_is_a_picture(report: Report, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="is in requirements/bench.lock and not in dev.lock")
    for places in ((0, 90), ()):
        path = tmp_path / f"{len(places)}.png"
        if not places:
            report.measured[0].resumes.clear()
        draw(report, path)
        assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_all_contenders_have_names_of_their_own_and_say_what_they_are() -> None:
    assert len({one.title for one in CONTENDERS.values()}) == len(CONTENDERS)
    assert {name for name in CONTENDERS if ":" in name} == set()
    assert command.PLACES[0] == command.QUICK_PLACES[0] == 0


def test_made_data_is_the_same_every_time_and_can_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benches")
    made = importlib.import_module("data")
    facts: Mapping[str, tuple[int, int]] = {
        "criteo": (4000, 41),
        "criteo_zstd": (4000, 41),
        "criteo_nulls": (4000, 41),
        "criteo_large": (4000, 41),
        "tokens": (100, 1),
        "jagged": (500, 12),
    }
    assert set(made.KINDS) == set(facts)
    for name, (rows, columns) in facts.items():
        for number in range(2):
            made.write(name, tmp_path / f"{name}{number}", 4000)
        first, second = (pq.read_table(tmp_path / f"{name}{number}") for number in range(2))
        assert (first.num_rows, first.num_columns) == (rows, columns)
        assert first.equals(second)
        assert any(column.null_count for column in first.columns) == (name in ("criteo_nulls", "jagged"))


def test_programs_that_write_the_page_of_results_leave_each_others_sections_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benches")
    page = importlib.import_module("page")
    path = tmp_path / "RESULTS.md"
    page.put_section(path, "## Third\n\n3\n")
    page.put_head(path, "# Results\n\nold\n\n## first\n\n1\n\n## second\n\n2\n", ["first", "second"])
    page.put_section(path, "## Fourth\n\n### of it\n\n4")
    whole = "# Results\n\n{}## Third\n\n{}\n\n## Fourth\n\n### of it\n\n4\n"
    assert path.read_text() == whole.format("old\n\n## first\n\n1\n\n## second\n\n2\n\n", 3)
    page.put_head(path, "# Results\n\nnew\n\n## second\n\n2\n", ["first", "second"])
    page.put_section(path, "## Third\n\nthree\n")
    assert path.read_text() == whole.format("new\n\n## second\n\n2\n\n", "three"), "each in its place"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            "cpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\nflags\t: fpu avx2 bmi1\n\nmodel\t: 2\n",
            "AMD EPYC (family 25, model 1, AVX2)",
        ),
        ("model name : Some Xeon\nflags : avx2 avx512f\n", "Some Xeon (AVX-512)"),
        ("model name : A board\n", "A board"),
        ("Features : fp asimd\n", platform.machine()),
        (None, platform.machine()),
    ],
)
def test_the_processor_is_told_with_its_generation(tmp_path: Path, told: str | None, expected: str) -> None:
    path = tmp_path / "cpuinfo"
    if told is not None:
        path.write_text(told)
    assert machine._processor(path) == expected
