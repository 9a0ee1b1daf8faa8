"""`fastresume bench` refuses at once what it can't do, and loses nothing that it has measured."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fastresume import cli
from fastresume.bench import child, command, outputs, turns
from fastresume.bench.outputs import Outputs
from fastresume.bench.reading import Contender
from fastresume.bench.report import Report
from fastresume.bench.survey import survey
from support.each_of import each_of

PNG = b"\x89PNG\r\n\x1a\n"
CONTENDERS = "fastresume,fastresume-stacked,pyarrow"
CHECKS, PASSES, STATES = 3, 9, 2
"""How many processes these take in three rounds of those contenders; those of resumes come last."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    directory.mkdir()
    pq.write_table(pa.table({"a": range(100), "b": range(100)}), directory / "0.parquet")
    return directory


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Answer at once, with made figures, but for the checks; the process of a number is interrupted."""
    started, interrupted = 0, 0

    def answer(contender: Contender, what: str, **request: Any) -> Any:
        nonlocal started
        started += 1
        if started == interrupted:
            raise KeyboardInterrupt
        if what == "check":
            return json.loads(json.dumps(child.work({"what": what, "contender": contender.name, **request})))
        sizes = {"peak_bytes": 3 << 20, "peak_bytes_above_imports": 1 << 20}
        turn = {"passes": 1, "rows": 100, "seconds": 0.5, "cpu_seconds": 0.5, **sizes}
        return turn if what == "pass" else {"0": 0.01, "50": 0.02, "90": 0.02, "99": 0.02}

    def interrupt(number: int) -> None:
        nonlocal interrupted
        interrupted = number

    monkeypatch.setattr(turns, "in_process", answer)
    monkeypatch.setattr(child.torch, "set_num_threads", lambda number: None)
    return interrupt


def bench(files: Path, *options: str | Path) -> int:
    arguments = ["bench", str(files), "--contenders", CONTENDERS, "--rounds", "3"]
    return cli.main([*arguments, *map(str, options)])


def problems(said: str) -> list[str]:
    """The lines of standard error that are no progress."""
    return [line for line in said.splitlines() if not line.startswith(("checked: ", "round ", "resumes "))]


def test_each_turn_is_told_as_it_ends_also_where_nobody_watches(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: Callable[[int], None]
) -> None:
    assert bench(files) == 0
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "checked: fastresume: the same rows"
    assert said[2] == "round 1 of 3: fastresume: 0.00 million rows/s"
    assert (
        "resumes 3 of 3: fastresume: 10.0 ms at 0 %, 20.0 ms at 50 %, 20.0 ms at 90 %, 20.0 ms at 99 %"
        in said
    )
    assert len(said) == 2 + 3 * 3 + 3 * 2


def test_sigterm_keeps_the_rounds_that_were_whole_as_ctrl_c_does(
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    quick: Callable[[int], None],
) -> None:
    answer, count = turns.in_process, 0

    def end(contender: Contender, **request: Any) -> Any:
        nonlocal count
        count += 1
        if count == CHECKS + 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return answer(contender, **request)

    monkeypatch.setattr(turns, "in_process", end)
    before = signal.getsignal(signal.SIGTERM)
    assert bench(files, "--json", tmp_path / "out.json") == command.TERMINATED
    assert signal.getsignal(signal.SIGTERM) is before
    assert "interrupted: of 3 rounds, 1 of passes and 0 of resumes are whole" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "out.json").read_text())["contenders"]["pyarrow"]["passes"]) == 1


def test_a_quick_run_says_what_it_leaves_out(
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    quick: Callable[[int], None],
) -> None:
    (files / "1.parquet").write_bytes((files / "0.parquet").read_bytes())
    monkeypatch.setattr(command, "QUICK_BYTES", 1)
    assert cli.main(["bench", str(files), "--quick"]) == 0
    said = capsys.readouterr()
    (line,) = [line for line in said.out.splitlines() if line.startswith("--quick leaves out: ")]
    assert "resumes; all rounds but one, so that there are no ranges; 1 of 2 files; fastresume, " in line
    assert "data: 100 rows" in said.out
    assert "ms to the first batch" not in said.out
    assert said.err.count("round 1 of 1: ") == len(command.QUICK_CONTENDERS)


def test_help_tells_every_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["bench", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert "3 if a file could not be written in the end, and 130 after Ctrl-C or 143 after SIGTERM" in said
    assert (command.NOT_WRITTEN, command.INTERRUPTED, command.TERMINATED) == (3, 130, 143)


# ------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize("option", ["--rounds", "--threads", "--batch-size"])
@pytest.mark.parametrize("found", ["x", "0", "-2", "1.5", ""])
def test_numbers_that_are_none_are_told_with_what_is_expected(
    capsys: pytest.CaptureFixture[str], option: str, found: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", "files", f"{option}={found}"])
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"argument {option}: expected a whole number of at least 1, found {found!r}")


@pytest.mark.parametrize("option", ["--columns", "--contenders"])
@pytest.mark.parametrize("found", [",", "", " , ,"])
def test_lists_of_names_without_one_are_told_with_what_is_expected(
    capsys: pytest.CaptureFixture[str], option: str, found: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["bench", "files", f"{option}={found}"])
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"argument {option}: expected names, with commas between them, found {found!r}")


def test_no_columns_are_no_survey(files: Path) -> None:
    with pytest.raises(ValueError, match=r"0\.parquet: no column is named; there are a, b$"):
        survey([str(files)], [])


@pytest.mark.parametrize(
    ("option", "name", "reason"),
    [
        ("--json", "directory", "expected a file, found a directory"),
        ("--plot", "directory", "expected a file, found a directory"),
        ("--json", "no/out.json", "there is no directory DIR/no"),
        ("--json", "file/out.json", "there is no directory DIR/file"),
        ("--json", "/proc/out.json", "this file can't be made: "),
        ("--json", "x" * 256, "this file can't be made: File name too long"),
        ("--json", "locked", "this file can't be written"),
        ("--plot", "out.xyz", ".png, .ps, "),
        ("--plot", "out.xyz", ", found '.xyz'"),
        ("--plot", "out", ", found none"),
    ],
)
def test_files_that_can_not_be_written_are_refused_before_anything_is_measured(
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    name: str,
    reason: str,
) -> None:
    if option == "--plot":
        pytest.importorskip("matplotlib", reason="is in requirements/bench.lock and not in dev.lock")
    (tmp_path / "directory").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "locked").touch()
    may = os.access  # root may write everything
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked" and may(path, mode))
    monkeypatch.setattr(command, "measure", lambda given: pytest.fail("it was measured"))
    there = sorted(tmp_path.iterdir())
    assert bench(files, option, tmp_path / name) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"fastresume bench: {option} {tmp_path / name}: ")
    assert reason.replace("DIR", str(tmp_path)) in said
    assert said.count("\n") == 1
    assert sorted(tmp_path.iterdir()) == there


def test_to_see_whether_files_can_be_written_changes_none(tmp_path: Path) -> None:
    old, link = tmp_path / "old.json", tmp_path / "link.json"
    old.write_text("what was measured yesterday")
    link.symlink_to("new.json")
    for path in (old, link, tmp_path / "other.json", Path("/dev/stdout")):
        Outputs(path, None).check()
    assert old.read_text() == "what was measured yesterday"
    assert sorted(tmp_path.iterdir()) == [link, old]


# --------------------------------------------------------------------------------------------------- the end


@pytest.mark.parametrize("lost", ["--json", "--plot"])
def test_a_file_that_can_not_be_written_in_the_end_takes_no_other_along(
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    quick: Callable[[int], None],
    lost: str,
) -> None:
    pytest.importorskip("matplotlib", reason="is in requirements/bench.lock and not in dev.lock")
    found, picture = tmp_path / "out.json", tmp_path / "out.png"
    if lost == "--json":
        found = Path("/dev/full")
        problem = "--json /dev/full: this file could not be written: No space left on device"
    else:

        def draw(*_: object) -> None:
            raise RuntimeError("latex was not able\nto process the text")

        monkeypatch.setattr(outputs, "draw", draw)
        problem = f"--plot {picture}: this file could not be written: latex was not able"
    assert bench(files, "--json", found, "--plot", picture) == command.NOT_WRITTEN
    said = capsys.readouterr()
    assert problems(said.err) == [f"fastresume bench: {problem}"]
    assert "same rows: all 3 delivered" in said.out
    if lost == "--json":
        assert picture.read_bytes().startswith(PNG)
    else:
        assert json.loads(found.read_text())["same_rows"] is True


@pytest.mark.parametrize(
    ("number", "passes", "resumes"),
    [
        (CHECKS + 4, 1, 0),
        (CHECKS + 6, 1, 0),
        (CHECKS + 7, 2, 0),
        (CHECKS + PASSES + 1, 3, 0),
        (CHECKS + PASSES + STATES + 2, 3, 0),
        (CHECKS + PASSES + STATES + 4, 3, 1),
        (CHECKS + PASSES + STATES + 6, 3, 2),
    ],
)
def test_an_interruption_leaves_the_rounds_that_were_whole(
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    quick: Callable[[int], None],
    number: int,
    passes: int,
    resumes: int,
) -> None:
    quick(number)
    message = tmp_path / "out.json"
    assert bench(files, "--json", message) == command.INTERRUPTED
    said = capsys.readouterr()
    assert problems(said.err) == []
    lines = said.out.splitlines()
    assert lines[-1] == f"interrupted: of 3 rounds, {passes} of passes and {resumes} of resumes are whole"
    assert f"; medians and ranges of {passes} round" in said.out
    assert ("ms to the first batch" in said.out) == (resumes > 0)
    found = json.loads(message.read_text())
    assert (found["is_interrupted"], found["rounds"]) == (True, 3)
    counts = {name: (len(one["passes"]), len(one["resumes"])) for name, one in found["contenders"].items()}
    assert counts == {name: (passes, 0 if name == "pyarrow" else resumes) for name in CONTENDERS.split(",")}


@pytest.mark.parametrize("number", [1, CHECKS, CHECKS + 1, CHECKS + 3])
def test_an_interruption_before_a_round_was_whole_has_nothing_to_show(
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    quick: Callable[[int], None],
    number: int,
) -> None:
    quick(number)
    assert bench(files, "--json", tmp_path / "out.json") == command.INTERRUPTED
    said = capsys.readouterr()
    assert said.out == ""
    assert problems(said.err) == ["fastresume bench: interrupted before a round was whole"]
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize("place", ["the tables", "the file"])
@pytest.mark.parametrize("is_second", [False, True])
def test_an_interruption_of_what_is_written_in_the_end_is_a_quiet_end(
    files: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    quick: Callable[[int], None],
    place: str,
    is_second: bool,
) -> None:
    def interrupt(*_: object) -> Any:
        raise KeyboardInterrupt

    if is_second:
        quick(CHECKS + 4)
    monkeypatch.setattr(Report, "lines" if place == "the tables" else "to_json", interrupt)
    assert bench(files, "--json", tmp_path / "out.json") == command.INTERRUPTED
    said = capsys.readouterr()
    assert problems(said.err) == []
    assert ("million rows/s" in said.out) == (place == "the file")


def test_the_page_of_results_is_not_written_of_an_interrupted_measurement(
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: None,
    quick: Callable[[int], None],
) -> None:
    results = importlib.import_module("results")
    monkeypatch.setattr(results, "IS_OPTIMIZED", True)
    monkeypatch.setattr(results.data, "made", lambda *_: files)
    quick(CHECKS + 4)
    page = tmp_path / "RESULTS.md"
    arguments = ["criteo", "tokens", "--contenders", CONTENDERS, "--results", str(page)]
    assert results.main(arguments) == command.INTERRUPTED
    assert not page.exists()


def test_nothing_is_said_of_interruptions_where_none_was(
    files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: Callable[[int], None]
) -> None:
    assert bench(files, "--json", tmp_path / "out.json") == 0
    assert "interrupted" not in capsys.readouterr().out
    assert json.loads((tmp_path / "out.json").read_text())["is_interrupted"] is False


IMPATIENT = """
import os, pathlib, signal
import pyarrow.parquet as pq

STARTED = pathlib.Path(__file__).with_name("started")
NUMBER = len(STARTED.read_text()) if STARTED.exists() else 0  # of the process: the first one checks
STARTED.write_text("x" * (NUMBER + 1))

def read(task):
    if NUMBER == 3:
        if "SIGTERM" in os.environ:
            os.kill(os.getppid(), signal.SIGTERM)  # as a scheduler does it
        else:
            os.killpg(0, signal.SIGINT)  # as a terminal does it
        signal.pause()
    yield pq.read_table(task.files[0], columns=task.names)
"""


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_all_processes_and_shows_what_they_found(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, status: int
) -> None:
    monkeypatch.setenv(name, "yes")
    (tmp_path / "impatient.py").write_text(IMPATIENT)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    arguments = [str(files), "--contenders", "impatient:read", "--rounds", "5"]
    ended = subprocess.run(
        [sys.executable, "-m", "fastresume", "bench", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (ended.returncode, problems(ended.stderr)) == (status, [])
    assert ended.stderr.count("round ") == 2
    assert ended.stdout.splitlines()[-1] == "interrupted: of 5 rounds, 2 of passes and 0 of resumes are whole"
    assert "impatient:read, your own" in ended.stdout


# ------------------------------------------------------------------------------------------------- the files


@each_of("rows", [2, 0])
@each_of("lacking", [0, 1, 2])
@each_of("patterns", [None, ["b"], ["*"]])
def test_a_column_that_a_file_lacks_is_refused_with_both_files(
    tmp_path: Path, lacking: int, rows: int, patterns: list[str] | None
) -> None:
    whole = pa.table({"a": [1, 2], "b": [3, 4]})
    for number in range(3):
        table = whole.select(["a"]).slice(0, rows) if number == lacking else whole
        pq.write_table(table, tmp_path / f"{number}.parquet")
    having = tmp_path / f"{int(lacking == 0)}.parquet"
    with pytest.raises(ValueError, match="lacks the column") as caught:
        survey([str(tmp_path)], patterns)
    assert str(caught.value) == (
        f"{tmp_path / f'{lacking}.parquet'}: it lacks the column 'b', which {having} has; "
        "name columns that all files have with --columns"
    )
    assert [column.name for column in survey([str(tmp_path)], ["a"]).columns] == ["a"]
