"""The programs that measure for the page of results: what they refuse before anything is made."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


@pytest.mark.parametrize("option", ["--rounds", "--threads"])
@pytest.mark.parametrize("found", ["-5", "0", "many"])
def test_the_page_of_results_refuses_numbers_that_are_none_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], programs: None, option: str, found: str
) -> None:
    arguments = ["tokens", "--directory", str(tmp_path / "new"), f"{option}={found}"]
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module("results").main(arguments)
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"argument {option}: expected a whole number of at least 1, found {found!r}")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("found", ["-5", "0", "many"])
@pytest.mark.parametrize("program", ["data", "results"])
def test_programs_refuse_rows_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], programs: None, program: str, found: str
) -> None:
    arguments = [str(tmp_path / "new"), "tokens"] if program == "data" else ["tokens"]
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module(program).main([*arguments, f"--rows={found}"])
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"argument --rows: expected a whole number of at least 1, found {found!r}")
    assert not (tmp_path / "new").exists()


def test_made_data_takes_the_place_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], programs: None
) -> None:
    (tmp_path / "jagged").mkdir()
    with pytest.raises(SystemExit, match="2"):
        importlib.import_module("data").main([str(tmp_path), "tokens", "jagged", "--rows", "40"])
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith(f"expected directories that do not exist yet, found {tmp_path / 'jagged'}")
    assert [path.name for path in tmp_path.iterdir()] == ["jagged"], "nothing was made before it was refused"
