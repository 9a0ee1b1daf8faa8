"""`fastresume bench` measures contenders that deliver the same rows, and says so of those that do not."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from fastresume import cli
from fastresume.bench import child, turns
from fastresume.bench.reading import Contender

# ------------------------------------------------------------------------------------------------ the command


@pytest.mark.processes
@pytest.mark.slow
def test_command_measures_those_that_deliver_the_same_and_lists_who_is_not_installed(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], readers: None
) -> None:
    message = tmp_path / "out.json"
    names = "fastresume-shuffled,pyarrow,dataloader,their_readers:backwards,not_there:read"
    arguments = ["bench", str(files), "--contenders", names, "--json", str(message), "--rounds", "1"]
    assert cli.main([*arguments, "--threads", "1", "--batch-size", "64"]) == 0
    said = capsys.readouterr().out
    assert "same rows: all 4 delivered what pyarrow reads, every value of all 1000 rows" in said
    assert "not_there:read: not installed: not_there" in said
    assert "against pyarrow" in said
    assert "ms to the first batch after a resume" in said

    found = json.loads(message.read_text())
    assert (found["format"], found["same_rows"], found["rival"]) == (1, True, "pyarrow")
    assert (found["rows"], found["row_groups"], len(found["files"])) == (1000, 5, 2)
    assert found["decoded_bytes"] == 1000 * (8 + 1 + 4 + 8 + 1 + 8 + 8 + 8 + 4)
    assert found["batch_size"] == 64
    for name, one in found["contenders"].items():
        assert one["is_missing"] == (name == "not_there:read")
        assert len(one["passes"]) == (not one["is_missing"])
        # What decodes alone, or is somebody's own, makes no first batch to wait for.
        can_resume = name in ("fastresume-shuffled", "dataloader")
        assert [list(turn) for turn in one["resumes"]] == ([["0", "50", "90", "99"]] if can_resume else [])
        for turn in one["passes"]:
            assert turn["rows"] == 1000 * turn["passes"]
            assert turn["peak_bytes"] > turn["peak_bytes_above_imports"] >= 0
            assert min(turn["seconds"], turn["cpu_seconds"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("is_asked", [True, pytest.param(False, marks=pytest.mark.slow)])
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
    found = tmp_path / "out.json"
    names = "fastresume,fastresume-shuffled,pyarrow"
    arguments = ["bench", str(files), "--columns", "id", "--contenders", names, "--json", str(found)]
    arguments += ["--rounds", "1", "--batch-size", "64", *([] if is_asked else ["--no-resume"])]
    assert cli.main(arguments) == 0
    assert ("ms to the first batch after a resume" in capsys.readouterr().out) == is_asked
    contenders = json.loads(found.read_text())["contenders"]
    places = {name: [list(turn) for turn in one["resumes"]] for name, one in contenders.items()}
    resumed = [["0", "50", "90", "99"]] if is_asked else []
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


# --------------------------------------------------------------------------------------- survey, report, plot


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
