"""Each page that is a program runs: its blocks of Python, from the first one to the last, as they stand."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page for folder in ("tutorial", "how-to", "coming-from") for page in (ROOT / "docs" / folder).glob("*.md")
)


def blocks(page: Path) -> list[str]:
    """The blocks of Python on a page, each behind as many empty lines as it has lines before it there."""
    text, found = page.read_text(), []
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        found.append("\n" * text.count("\n", 0, block.start(1)) + block[1])
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_its_first_block_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []
    for block in blocks(page):
        lines += block.split("\n")[len(lines) :]
    assert lines, f"{page.name} shows no Python"
    # Errors then name the lines of the page.
    program = tmp_path / f"{page.stem}.py"
    program.write_text("\n".join(lines))
    runpy.run_path(str(program))
