"""Each page that is a program runs: its blocks of Python, from the first one to the last, as they stand."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from support.code_blocks import program

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page for folder in ("tutorial", "how-to", "coming-from") for page in (ROOT / "docs" / folder).glob("*.md")
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_its_first_block_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code = program(page)
    assert code, f"{page.name} shows no Python"
    file = tmp_path / f"{page.stem}.py"
    file.write_text(code)
    runpy.run_path(str(file))
