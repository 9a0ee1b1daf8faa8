"""The notebooks are their pages, and their cells run in order."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
MAKE = SimpleNamespace(**runpy.run_path(str(NOTEBOOKS / "make.py")))


@pytest.mark.parametrize("name", MAKE.PAGES)
def test_a_notebook_is_its_page(name: str) -> None:
    shown = (NOTEBOOKS / f"{name}.ipynb").read_text()
    assert shown == MAKE.notebook(MAKE.PAGES[name]), "python docs/notebooks/make.py makes it again"


@pytest.mark.parametrize("name", MAKE.PAGES)
def test_the_cells_of_a_notebook_run_in_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 3
    names: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(code):
        exec(compile(cell, f"{name}, cell {number}", "exec"), names)  # noqa: S102  (as a notebook does)


def test_every_notebook_has_a_page() -> None:
    assert {path.stem for path in NOTEBOOKS.glob("*.ipynb")} == set(MAKE.PAGES)
