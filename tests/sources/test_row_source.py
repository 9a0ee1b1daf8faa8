"""Rows of a source that users write: counted, asked for again after a fault, named where they don't come."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
import traceback
from _thread import get_ident
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastresume as fr
from fastresume.checkpoint import Checkpointer
from fastresume.sources import RowSource, Segment, askers
from support.arrow_rows import TableSource, assert_same_rows, numbers_in, wide_table
from support.audits import assert_proven
from support.child import Child
from support.each_of import each_of
from support.lives import in_a_fork
from support.quick_waits import wait_in_no_time

ONE: dict[str, Any] = {"batch_size": 64, "tail": "short", "nulls": "mask", "world": (0, 1)}
SIZES = (70_000, 0, 5, 40_000)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rows = sum(SIZES)
    return pa.table({"x": range(rows), "text": [f"row {row}" for row in range(rows)], "other": [0.5] * rows})


def test_a_source_given_as_paths_names_what_takes_it(table: pa.Table) -> None:
    source: Any = TableSource(table, SIZES)
    with pytest.raises(
        TypeError, match=r"^paths must name files, found .*: write fr\.ArrowDataset\(source\)$"
    ):
        fr.ParquetDataset(source, batch_size=2)


def test_segments_are_read_in_their_order_and_columns_alone_that_are_asked_for(table: pa.Table) -> None:
    source = TableSource(table, SIZES)
    dataset = fr.ArrowDataset(source, batch_size=1000, tail="short", columns=["x"], world=(0, 1))
    source.asked.clear()  # the first rows have told how large texts are
    assert dataset.files == ("part-0", "part-1", "part-2", "part-3")
    assert numbers_in(dataset) == list(range(table.num_rows))
    assert {columns for *_, columns in source.asked} == {("x",)}
    assert dataset.locate([69_999, 70_000, 70_005]) == [
        ("part-0", 1, 4463),
        ("part-2", 0, 0),
        ("part-3", 0, 0),
    ]
    assert isinstance(source, RowSource)


@pytest.mark.parametrize("threads", [0, 2])
def test_reads_that_fail_or_end_early_lose_no_row_and_repeat_none(
    table: pa.Table, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_in_no_time(monkeypatch)
    asked: dict[str, Any] = {
        **ONE,
        "batch_size": 500,
        "shuffle": fr.Shuffle(window_rows=8192, block_rows=1024),
    }
    expected = list(fr.ArrowDataset(TableSource(table, SIZES), **asked))
    for seed in range(3):
        dataset = fr.ArrowDataset(TableSource(table, SIZES, fails=0.3, seed=seed), **asked)
        state: dict[str, Any] = {}
        with fr.Loader(dataset, threads=threads) as loader:
            for place, batch in enumerate(loader):
                assert_same_rows(batch, expected[place])
                if place == 100:
                    state = batch.state_dict()
        resumed = fr.ArrowDataset(TableSource(table, SIZES, fails=0.3, seed=seed + 9), **asked)
        resumed.load_state_dict(state)
        for one, other in zip(resumed, expected[101:], strict=True):
            assert_same_rows(one, other)


@dataclass
class Odd(TableSource):
    """A source whose reads are as a test makes them."""

    answer: Callable[[pa.Table], Any] = lambda rows: rows

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> Any:
        return self.answer(super().read(segment, start, stop, columns))


def failing(error: Exception) -> Callable[[pa.Table], Any]:
    def answer(_: pa.Table) -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (
            failing(RuntimeError("no luck")),
            fr.SourceError,
            r"rows \[0, 10\) of segment 'part-0': RuntimeError: no luck",
        ),
        (
            failing(TypeError("a mistake")),
            fr.SourceError,
            r"rows \[0, 10\) of segment 'part-0': TypeError: a mistake",
        ),
        (lambda rows: rows.slice(0, 0), fr.SourceError, "ended early, again and again"),
        (lambda rows: pa.concat_tables([rows, rows]), fr.DataError, r"more than the 10 rows of \[0, 10\)"),
        (lambda rows: rows.rename_columns(["y"]), fr.DataError, "no column 'x'"),
        (lambda _: 7, fr.SourceError, "__arrow_c_stream__, found 7: write return a pyarrow.Table"),
        (lambda _: [{"x": 1}], fr.SourceError, r"write return pyarrow.Table.from_pylist\(rows, schema\)"),
        (lambda _: {"x": [1]}, fr.SourceError, r"write return pyarrow.table\(columns\)"),
        (lambda rows: rows.set_column(0, "x", pa.array(["a"] * 10)), fr.DataError, "other types"),
    ],
)
def test_what_a_source_does_wrong_is_one_error_after_which_the_dataset_is_usable(
    answer: Callable[[pa.Table], Any], kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_in_no_time(monkeypatch)
    source = Odd(pa.table({"x": range(10)}), (10,), answer=answer)
    dataset = fr.ArrowDataset(source, **ONE)
    with pytest.raises(kind, match=message):
        list(dataset)
    source.answer = lambda rows: rows
    assert numbers_in(dataset) == list(range(10))


class MistakenError(Exception):
    """What a source raises."""


@dataclass
class Mistaken(TableSource):
    """A source with a mistake in its code, of this type."""

    kind: type[Exception] = TypeError

    def read(self, segment: int, start: int, stop: int, columns: list[str]) -> Any:
        raise self.kind("a mistake")


DOORS: dict[str, Callable[[Callable[..., fr.ArrowDataset]], Any]] = {
    "iter": lambda made: list(made()),
    "peek": lambda made: made().peek(),
    "read_rows": lambda made: made().read_rows([3]),
    "batch_at": lambda made: made().batch_at(0, 0),
    "a mixture": lambda made: list(fr.Mixture({"one": (made(), 1)}, batch_size=1)),
    "a filter": lambda made: made(filter=fr.col("x") > 3).peek(),
}


@each_of("door", DOORS)
@each_of("kind", [TypeError, KeyError, MistakenError, fr.SourceError])
def test_what_a_source_raises_is_the_cause_with_its_traceback(
    door: str, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait_in_no_time(monkeypatch)
    source = Mistaken(pa.table({"x": range(10)}), (10,), kind=kind)
    with pytest.raises(fr.SourceError, match="a mistake") as raised:
        DOORS[door](lambda **given: fr.ArrowDataset(source, **ONE, **given))
    cause = raised.value.__cause__
    assert cause is not None
    assert type(cause) is kind
    assert traceback.extract_tb(cause.__traceback__)[-1].line == 'raise self.kind("a mistake")'
    with pytest.raises(fr.SourceError) as another:  # of which it is not the cause
        fr.ParquetDataset("no-such-file.parquet", **ONE)
    assert another.value.__cause__ is None


def test_a_worker_tells_where_a_source_failed() -> None:
    dataset = fr.ArrowDataset(Mistaken(pa.table({"x": range(10)}), (10,)), **ONE)
    with fr.Loader(dataset, num_workers=1) as loader, pytest.raises(fr.SourceError) as raised:
        next(iter(loader))
    assert 'raise self.kind("a mistake")' in raised.value.__notes__[0]


@each_of("name", ["snapshot", "segments", "schema", "read"])
def test_a_method_that_is_none_is_one_that_a_source_lacks(name: str) -> None:
    kind = type("Half", (TableSource,), {name: None})
    with pytest.raises(TypeError, match=f"this Half has no {name}: write def {name}"):
        fr.ArrowDataset(kind(pa.table({"x": range(10)}), (10,)), **ONE)


def test_a_segment_says_what_to_write_for_an_argument_that_it_has_not() -> None:
    wrong: Any = Segment
    with pytest.raises(TypeError, match=r"^Segment has no argument num_rows=: write rows=$"):
        wrong("a", num_rows=3)
    with pytest.raises(TypeError, match=r"^Segment lacks rows: write Segment\('day=1', 1000\)$"):
        wrong("a")
    one = Segment("a", rows=3)
    assert pickle.loads(pickle.dumps(one)) == one == Segment._make(["a", 3]) == ("a", 3)


@pytest.mark.parametrize("kind", [FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError])
def test_a_file_that_a_source_can_not_open_is_asked_for_once(kind: type[OSError]) -> None:
    asked = []

    def answer(_: pa.Table) -> Any:
        asked.append(1)
        raise kind(2, "not there", "/data/day1.csv")

    dataset = fr.ArrowDataset(Odd(pa.table({"x": range(10)}), (10,), answer=answer), **ONE)
    with pytest.raises(
        fr.SourceError, match=rf"rows \[0, 10\) of segment 'part-0': {kind.__name__}: .*day1.csv"
    ):
        list(dataset)
    assert len(asked) == 1


def test_the_first_fault_of_a_source_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wait_in_no_time(monkeypatch)
    answer = failing(ConnectionError("the service is away"))
    dataset = fr.ArrowDataset(Odd(pa.table({"x": range(10)}), (10,), answer=answer), **ONE)
    with pytest.raises(fr.SourceError, match="the service is away"):
        list(dataset)
    found = [one.getMessage() for one in caplog.records if "is asked again" in one.getMessage()]
    assert len(found) == 1
    assert "ConnectionError: the service is away" in found[0]


def test_other_types_with_the_same_values_are_cast() -> None:
    narrow = Odd(
        pa.table({"x": range(10)}), (10,), answer=lambda rows: rows.cast(pa.schema([("x", pa.int8())]))
    )
    assert numbers_in(fr.ArrowDataset(narrow, **ONE)) == list(range(10))
    stated = {
        "x": pa.array([[1], None, [2]], pa.list_(pa.int64())),
        "m": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        "none": pa.array([[], None, [7]], pa.large_list(pa.int64())),
    }
    given = {
        "x": pa.array([[1], None, [2]], pa.large_list(pa.int8())),
        "m": pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int8())),
        "none": pa.array([[], None, [None]]),
    }
    nested = Odd(pa.table(stated), (3,), answer=lambda rows: pa.table(given).slice(0, len(rows)))
    columns = [fr.col(name).mask_null() for name in ("x", "m", "none")]
    batch = next(iter(fr.ArrowDataset(nested, columns=columns, **ONE)))
    assert batch["x"].to_list() == [[1], None, [2]]


@pytest.mark.parametrize(
    ("given", "stated"),
    [
        (pa.array([1e39, 1.0, None]), pa.float32()),
        (pa.array([70_000.0, 1.0, None]), pa.float16()),
        (pa.array([[1.0], [2.0, 1e39], None]), pa.list_(pa.float32())),
        (pa.array([{"a": 1e39}, {"a": 1.0}, None]), pa.struct([("a", pa.float32())])),
        (pa.array([2, 1, None]), pa.bool_()),
        (pa.array([datetime(2026, 1, 1, 23), None, None]), pa.date32()),
        (pa.array([1e39, 1.0, None]).dictionary_encode(), pa.float32()),
        (pa.array([2049, 1, None]), pa.float16()),
        (pa.array([1.239, 1.0, None]), pa.decimal128(5, 2)),
        (pa.array([Decimal(10) ** 60, None, None], pa.decimal256(70, 0)), pa.float32()),
    ],
    ids=str,
)
def test_values_that_the_stated_type_does_not_have_are_an_error(given: pa.Array, stated: pa.DataType) -> None:
    held = pa.array([None] * 3, stated)
    source = Odd(pa.table({"x": held}), (3,), answer=lambda rows: rows.set_column(0, "x", given[: len(rows)]))
    with pytest.raises(fr.DataError, match=r"returned other types than schema\(\) names: values of .x."):
        list(fr.ArrowDataset(source, **ONE))


@pytest.mark.parametrize(
    ("given", "stated"),
    [
        (pa.array(["12", "13", "14"]), pa.int64()),
        (pa.array([5.5, 1.0, 2.0]), pa.string()),
        (pa.array([datetime(2026, 1, 1, 23)] * 3), pa.int64()),
        (pa.array([datetime(2026, 1, 1, 23)] * 3), pa.timestamp("us", "UTC")),
        (pa.array([b"a", b"b", b"c"]), pa.string()),
        (pa.array([True, False, True]), pa.int64()),
        (pa.array([0.5, 1.0, 2.0]), pa.int64()),
        (pa.array([["12"], [], ["13"]]), pa.list_(pa.int64())),
        (pa.array([[5.5], [], None]), pa.list_(pa.string())),
        (pa.array([{"a": "12"}] * 3), pa.struct([("a", pa.int64())])),
    ],
    ids=str,
)
def test_values_of_another_kind_name_the_column(given: pa.Array, stated: pa.DataType) -> None:
    rows = pa.table({"a": [1, 2, 3], "v": pa.array([None] * 3, stated), "z": ["x", "y", "z"]})
    source = Odd(rows, (3,), answer=lambda rows: rows.drop(["v"]).append_column("v", given[: len(rows)]))
    with pytest.raises(
        fr.DataError, match=f"values of 'v' are {re.escape(str(given.type))}, and no "
    ) as refused:
        list(fr.ArrowDataset(source, **ONE, columns=["a", fr.col("v").mask_null()]))
    assert "(column 'a'" not in str(refused.value), "it was read first"


def test_numbers_that_are_rounded_or_infinite_already_are_taken() -> None:
    given = pa.array([0.1, math.inf, -math.inf])
    source = Odd(
        pa.table({"x": pa.array([0.0] * 3, pa.float32())}), (3,), answer=lambda rows: pa.table({"x": given})
    )
    assert numbers_in(fr.ArrowDataset(source, **ONE)) == [float(np.float32(0.1)), math.inf, -math.inf]


def test_a_session_that_has_ended_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_in_no_time(monkeypatch)

    class Session(Odd):
        def is_alive(self) -> bool:
            return False

    source = Session(pa.table({"x": range(10)}), (10,), answer=failing(RuntimeError("403")))
    with pytest.raises(fr.SourceError, match=r"session .* has ended"):
        list(fr.ArrowDataset(source, **ONE))


def test_damaged_rows_are_masked_if_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    wait_in_no_time(monkeypatch)

    class Half(TableSource):
        def read(self, segment: int, start: int, stop: int, columns: list[str]) -> pa.Table:
            if segment == 1:
                raise RuntimeError("gone")
            return super().read(segment, start, stop, columns)

    source = Half(pa.table({"x": range(1, 31)}), (10, 10, 10))
    dataset = fr.ArrowDataset(source, bad_rows=fr.MaskBadRows(at_most=10), **ONE)
    (batch,) = list(dataset)
    assert batch.valid.tolist() == [True] * 10 + [False] * 10 + [True] * 10
    assert numbers_in([batch]) == [*range(1, 11), *[0] * 10, *range(21, 31)]


def test_a_snapshot_and_the_segments_are_what_a_state_knows() -> None:
    rows = pa.table({"x": range(30)})
    first = fr.ArrowDataset(TableSource(rows, (10, 20)), **ONE)

    class Later(TableSource):
        def snapshot(self) -> str:
            return "a later one"

    assert fr.ArrowDataset(TableSource(rows, (10, 20)), **ONE).fingerprint == first.fingerprint
    others = (
        TableSource(rows, (20, 10)),
        Later(rows, (10, 20)),
        TableSource(rows.rename_columns(["y"]), (10, 20)),
    )
    assert first.fingerprint not in {fr.ArrowDataset(other, **ONE).fingerprint for other in others}


def test_segments_that_are_added_are_read_in_the_pass() -> None:
    rows = pa.table({"x": range(60)})
    asked: dict[str, Any] = {**ONE, "batch_size": 10, "on_change": "append"}
    first = fr.ArrowDataset(TableSource(rows, (10, 20)), **asked)
    batches = iter(first)
    seen = numbers_in([next(batches)])
    grown = fr.ArrowDataset(TableSource(rows, (10, 20, 30)), **asked)
    grown.load_state_dict(first.state_dict())
    seen += numbers_in(grown)
    assert seen == list(range(60))


def test_a_source_is_pickled_with_its_dataset() -> None:
    table = wide_table(50, 0.1)
    dataset = fr.ArrowDataset(TableSource(table, (20, 30)), **ONE)
    again = pickle.loads(pickle.dumps(dataset))
    for one, other in zip(again, dataset, strict=True):
        assert_same_rows(one, other)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        (7, "list of Segment"),
        ([("a", 1), ("a", 2)], "two segments have one name: 'a'"),
        ([("a", -1)], "rows of the Segment .a. must be"),
        ([("a", True)], "rows of the Segment .a. must be"),
        ([7], r"Segment\(name, rows\)"),
    ],
)
def test_segments_that_are_none_are_refused(segments: Any, message: str) -> None:
    class Wrong(TableSource):
        def segments(self) -> list[Segment]:
            return segments  # type: ignore[no-any-return]

    with pytest.raises((TypeError, ValueError), match=message):
        fr.ArrowDataset(Wrong(pa.table({"x": [1]}), (1,)), **ONE)


def test_lives_of_a_job_are_proven_by_the_audit_and_kept_by_checkpoints(tmp_path: Path) -> None:
    rows = pa.table({"x": range(3000)})
    restored: dict[str, int] = {"step": 0}
    for steps in (20, 30, 1000):
        asked: dict[str, Any] = {"batch_size": 32, "shuffle": True, "tail": "pad", "world": (0, 1)}
        dataset = fr.ArrowDataset(TableSource(rows, (1000, 1500, 500)), **asked)
        with fr.Loader(dataset, audit=tmp_path / "logs") as loader, Checkpointer(tmp_path / "saved") as saved:
            saved.restore(loader=loader)
            for _, batch in zip(range(steps), loader, strict=False):
                restored["step"] += 1
                saved.save(restored["step"], loader=batch)
    assert_proven(tmp_path / "logs", passes=1)


def test_a_source_opens_without_packages_that_it_does_not_need() -> None:
    code = """
import subprocess
import sys
import pyarrow as pa
import fastresume as fr
x = pa.Array.from_buffers(pa.int64(), 3, [None, pa.py_buffer(bytes(24))])
rows = pa.Table.from_batches([pa.RecordBatch.from_arrays([x], names=["x"])])
assert len(list(fr.ArrowDataset(rows, batch_size=1, world=(0, 1)))) == 3
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def read_here_and_in_a_fork(rows: int) -> tuple[list[int], str]:
    """Read a source here, whose threads then wait for more, and in a fork, which has none of them."""
    askers.IDLE_SECONDS = 60.0
    dataset = fr.ArrowDataset(TableSource(pa.table({"x": range(rows)}), [rows // 4] * 4), **ONE)
    here = numbers_in(dataset)
    return here, in_a_fork(lambda: numbers_in(dataset), at_once=True)["said"]


@pytest.mark.processes
def test_a_forked_process_reads_by_threads_of_its_own() -> None:
    with Child() as child:
        here, there = child.call(read_here_and_in_a_fork, 2000)
    assert here == list(range(2000))
    assert there == repr(here)


def test_a_thread_that_gives_up_waiting_does_the_call_that_counts_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = SimpleQueue[tuple[int, int]]()

    def ask(number: int) -> None:
        answer = lambda part, *_: answers.put((part, get_ident()))  # noqa: E731
        own.ask((lambda part, *_: part), (number, 0, [], 0), answer)

    class LateCalls(SimpleQueue[askers.Call]):
        """Nothing comes as long as a thread waits, and a call just then."""

        def get(self, block: bool = True, timeout: float | None = None) -> askers.Call:
            if late:
                ask(late.pop())
            raise Empty

    late = [2, 1]
    monkeypatch.setattr(askers, "SimpleQueue", LateCalls)
    own = askers.Askers()
    ask(0)
    found = [answers.get(timeout=60) for _ in range(3)]
    assert [number for number, _ in found] == [0, 1, 2]
    assert len({thread for _, thread in found}) == 1


def test_a_source_is_asked_for_no_column_that_is_not_read() -> None:
    table = pa.table({"x": range(50), "img": [b"far"] * 50, "s": ["a"] * 50, "u": [{"t": "b"}] * 50})
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"columns": "x"}, {"x"}),
        ({"columns": ["*", "!img"]}, {"x", "s", "u"}),
        ({"columns": "x", "filter": fr.col("s") == "a"}, {"x", "s"}),
        ({"columns": [fr.col("u.t").hash(9)]}, {"u"}),
        ({}, {"x", "img", "s", "u"}),
    ]
    for how, expected in cases:
        source = TableSource(table, [50])
        fr.ArrowDataset(source, batch_size=10, **how).peek()
        assert {name for *_, columns in source.asked for name in columns} == expected, how
