"""Each page that is a program runs: its blocks of Python, from the first one to the last, as they stand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from support.code_blocks import blocks, program

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tutorial", "how-to", "coming-from", "reference", "explanation")
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / "docs" / folder).glob("*.md") if blocks(page))


def test_pages_that_teach_show_python() -> None:
    for folder in ("tutorial", "how-to", "coming-from"):
        silent = [page.name for page in (ROOT / "docs" / folder).glob("*.md") if not blocks(page)]
        assert not silent, f"{folder}: {silent} show no Python"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_its_first_block_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = program(page)
    file = tmp_path / f"{page.stem}.py"
    file.write_text(code)
    runpy.run_path(str(file))
