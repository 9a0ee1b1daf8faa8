"""Each page that is a program runs: its blocks of Python, from the first one to the last, as they stand."""

from __future__ import annotations

import re
import runpy
import warnings
from pathlib import Path

import pytest

from support.code_blocks import NEEDS, blocks, program, without_blocks

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("tutorial", "how-to", "coming-from", "reference", "explanation", "design")
"""The folders whose pages are one program each."""
ELSEWHERE = {
    "README.md": "test_examples.py",
    "docs/reference/checkpoint.md": "test_checkpoint.py",
    "docs/how-to/rows.md": "test_examples.py",
    "docs/reference/shaping.md": "test_examples.py",
    "docs/reference/loader.md": "test_examples.py",
    "docs/how-to/transforms.md": "test_examples.py",
}
"""Pages whose blocks another test runs, on files that it makes. A block of `py` is an excerpt."""
PAGES = sorted(
    page
    for folder in FOLDERS
    for page in (ROOT / "docs" / folder).glob("*.md")
    if blocks(page) and page.relative_to(ROOT).as_posix() not in ELSEWHERE
)


def test_no_page_has_a_block_of_python_that_no_test_runs() -> None:
    shown = {page for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if blocks(page)}
    layouts = {page for page in shown if page.parent.name == "layouts"}  # test_layout_pages.py
    elsewhere = {ROOT / name for name in ELSEWHERE}
    assert shown == layouts | elsewhere | set(PAGES)
    for name, test in ELSEWHERE.items():
        (file,) = (ROOT / "tests").rglob(test)
        assert name.rpartition("/")[2] in file.read_text()


def test_pages_that_teach_show_python() -> None:
    for folder in ("tutorial", "how-to", "coming-from"):
        silent = [page.name for page in (ROOT / "docs" / folder).glob("*.md") if not blocks(page)]
        assert not silent, f"{folder}: {silent} show no Python"


# torchdata asks for all names of torch, also for those that warn.
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
# The page about attention needs no compiler: what it compares is the same without one.
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_its_first_block_to_its_last(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / f"{page.stem}.py"
    file.write_text(program(page))
    with warnings.catch_warnings():
        if NEEDS.search(page.read_text()):  # other projects may warn of what they like
            warnings.simplefilter("ignore")
        runpy.run_path(str(file))


def test_blocks_that_need_another_project_run_where_it_is_installed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\n# pip install no-such\na = 1\n```\n\n```python\n# pip install pytest\nb = 2\n```\n"
    )
    assert "a = 1" not in program(page)
    assert program(page).splitlines()[7] == "b = 2"


CODE, SIGNS = re.compile(r"`[^`]*`"), re.compile(r"\]\([^)]*\)|[*_\[]|^\s*- ")


def long_sentences(text: str) -> list[str]:
    """The sentences of a page with more than 25 words, without its code, tables and addresses."""
    paragraphs = re.split(r"\n\s*\n|\n(?=- |\d+\. )", without_blocks(text))
    prose = [
        SIGNS.sub("", CODE.sub("x", part))
        for part in paragraphs
        if not part.lstrip().startswith(("|", "#", "<"))
    ]
    sentences = [one for part in prose for one in re.split(r"(?<=[.!?:;])\s+", part)]
    return [sentence for sentence in sentences if len(sentence.split()) > 25]


def test_pages_have_short_sentences_and_lines_that_fit_an_editor() -> None:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    assert len(pages) > 50
    found = {page.name: said for page in pages if (said := long_sentences(page.read_text()))}
    assert not found
    long = [page.name for page in pages if max(map(len, page.read_text().splitlines())) > 300]
    assert not long, "no line has more than 300 characters: let a table say less in each cell"
    assert long_sentences("word " * 26 + "end.\n\nShort.")
    assert not long_sentences("```\n" + "word " * 26 + "\n```\n| " + "word " * 26 + "|\n")
