"""Makes the notebooks here of pages: what a page says, and its blocks of Python as cells.

After a change of a page: python docs/notebooks/make.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
PAGES = {"recommender": "how-to/recommender.md", "kill-and-resume": "tutorial/kill-and-resume.md"}
BLOCK = re.compile(r"^```python\n(.*?)^```$\n?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:)[^)]*\)")
NEEDS = "Needs fastresume, torch and pyarrow. It writes its files into the folder that it runs in.\n"


def cell(kind: str, text: str, number: int) -> dict[str, object]:
    """A cell of the format."""
    made: dict[str, object] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}}
    if kind == "code":
        made |= {"execution_count": None, "outputs": []}
    return made | {"source": text.splitlines(keepends=True)}


def notebook(page: str) -> str:
    """A page as a notebook of the format 4.5. Links to other pages become their words."""
    parts: list[tuple[str, str]] = []
    text = (HERE.parent / page).read_text()
    end = 0
    for block in BLOCK.finditer(text):
        parts += [("markdown", text[end : block.start()]), ("code", block[1])]
        end = block.end()
    parts.append(("markdown", text[end:]))
    heading, _, rest = parts[0][1].partition("\n")
    parts[0] = ("markdown", f"{heading}\n\n{NEEDS}{rest}")
    cells = [
        cell(kind, (LINK.sub(r"\1", part) if kind == "markdown" else part).strip("\n"), number)
        for number, (kind, part) in enumerate((kind, part) for kind, part in parts if part.strip())
    ]
    language = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": language, "language_info": {"name": "python"}}
    made = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / f"{name}.ipynb").write_text(notebook(page))
