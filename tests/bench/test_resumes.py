"""The table beside other loaders: README and results have the same, and two of its columns are seen again."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def resumes(programs: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "benches/measure")
    return importlib.import_module("resumes")


def table(page: str) -> dict[str, dict[str, str]]:
    """The cells of the table beside others, by question and loader, as a page has them."""
    (found,) = re.findall(r"(^\|[^\n]*\| Zephon \|\n(?:^\|.*\n)+)", (ROOT / page).read_text(), re.MULTILINE)
    head, _, *lines = ([cell.strip() for cell in line.split("|")[1:-1]] for line in found.splitlines())
    return {question: dict(zip(head[1:], cells, strict=True)) for question, *cells in lines}


def test_readme_and_results_have_the_same_table() -> None:
    assert table("README.md") == table("benches/RESULTS.md")


def test_the_table_has_a_cell_for_each_question_and_loader(resumes: ModuleType) -> None:
    found = table("README.md")
    assert [*found] == [*resumes.QUESTIONS]
    titles = [loader.title for loader in resumes.LOADERS.values()]
    assert all([*cells] == titles and all(cells.values()) for cells in found.values())


def test_each_line_of_the_table_names_a_test_that_is_there(resumes: ModuleType) -> None:
    assert [*resumes.CHECKED] == [*resumes.QUESTIONS]
    assert not [path for path in resumes.CHECKED.values() if not (ROOT / path).exists()]


@pytest.mark.parametrize("name", ["fastresume", pytest.param("torchdata", marks=pytest.mark.slow)])
def test_the_program_sees_what_the_table_says(tmp_path: Path, resumes: ModuleType, name: str) -> None:
    timed = importlib.import_module("beside.answers").TIMED
    asked = [question for question, ask in resumes.QUESTIONS.items() if ask not in timed]
    resumes.write_parquet(str(tmp_path))
    seen = resumes.seen(name, tmp_path, resumes.sys.executable, asked)
    title = resumes.LOADERS[name].title
    assert {question: cells for question, (cells, _) in seen.items()} == {
        question: table("README.md")[question][title] for question in asked
    }
