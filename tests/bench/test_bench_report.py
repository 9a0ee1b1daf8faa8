"""What the benchmark finds in files, and what it says of what was measured."""

from __future__ import annotations

import json
import platform
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume.platform
from fastresume import cli
from fastresume.bench import machine
from fastresume.bench.contenders import CONTENDERS
from fastresume.bench.figures import Figure
from fastresume.bench.plot import draw
from fastresume.bench.report import Report
from fastresume.bench.survey import survey
from fastresume.bench.task import Column, Task
from fastresume.bench.turns import Measured
from support.bench_columns import ROWS
from support.each_of import each_of


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
    assert Task.from_json(json.loads(json.dumps(task.to_json()))) == task


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
        "no resumes of polars: they have no state to resume from; "
        "what reading up to a place takes them, their rows/s tell"
    )
    alone = replace(report, measured=[theirs])
    assert len(alone.resume_table()) == 3, "of all there are resumes"


def test_a_pass_that_opening_files_is_most_of_is_too_small_to_tell(report: Report) -> None:
    assert not any("too small" in line for line in report.lines())
    for turn in report.measured[0].passes:
        turn.update(passes=250, seconds=0.5)  # 2 ms each
    (line,) = [line for line in report.lines() if line.startswith("too small to tell: ")]
    assert "a pass of fastresume" in line
    assert line.endswith(f"takes 2 ms, much of it to open files; some {ROWS * 50} rows take 100 ms")


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


@each_of(
    ("message", "expected"),
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
def test_the_processor_is_told_with_its_generation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, message: str | None, expected: str
) -> None:
    path = tmp_path / "cpuinfo"
    monkeypatch.setattr(fastresume.platform, "_PROCESSORS", path)
    if message is not None:
        path.write_text(message)
    assert machine._processor() == expected
