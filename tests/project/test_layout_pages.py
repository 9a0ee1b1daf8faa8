"""The pages about layouts: their examples run, and their pictures are of what comes out of these."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace

from support.each_of import each_of

PAGES = Path(__file__).resolve().parents[2] / "docs" / "layouts"
DRAW = SimpleNamespace(**runpy.run_path(str(PAGES / "draw.py")))


@each_of("page", DRAW.pages())
def test_a_page_shows_the_memory_of_its_example(page: Path) -> None:
    shown = DRAW.PICTURE.findall(page.read_text())
    assert shown == [DRAW.picture(DRAW.batch_of(page))], "python docs/layouts/draw.py draws it again"


def test_every_page_is_in_the_table() -> None:
    table = (PAGES / "README.md").read_text()
    assert all(f"({page.name})" in table for page in DRAW.pages())
    assert len(DRAW.pages()) == table.count(".md)") - 1  # and the page of types
