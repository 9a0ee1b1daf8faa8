"""The site has each page once, under its kind, and a reference of each public name. `make site` builds it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import fastresume as fr
import fastresume.checkpoint
import fastresume.training
from support.each_of import each_of

ROOT = Path(__file__).resolve().parents[2]
SITE = SimpleNamespace(**runpy.run_path(str(ROOT / "docs/site.py")))
PAGES = SITE.gather()

ELSEWHERE = {
    "DataError": "reference/errors.md",
    "FastresumeError": "reference/errors.md",
    "SourceError": "reference/errors.md",
    "StateError": "reference/errors.md",
    "__version__": None,
    "distributed": None,
    "maxcompute": None,
    "sources": "how-to/add-a-source.md",
    "testing": None,
    "training": None,
    "INTERRUPTED": "how-to/training.md",
    "RESUMABLE": "how-to/training.md",
}
"""Names without a docstring in Python's source, and the page about each; modules need none."""


def named() -> list[str]:
    """The pages that the navigation names."""
    _front, *kinds = SITE.nav(PAGES)
    return [
        "index.md",
        *(page for kind in kinds for pages in kind.values() for one in pages for page in one.values()),
    ]


def test_each_page_stands_once_in_the_navigation() -> None:
    pages = [str(page) for page, content in PAGES.items() if isinstance(content, str)]
    assert sorted(named()) == sorted(pages)
    of_docs = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert of_docs <= set(pages)


def test_the_lists_of_pages_name_pages_that_are_there() -> None:
    assert {page for pages in SITE.KINDS.values() for page in pages} <= {str(page) for page in PAGES}


def test_each_page_has_a_title() -> None:
    titles = [SITE.title(text) for text in PAGES.values() if isinstance(text, str)]
    assert all(titles)


def test_links_lead_to_pages_of_the_site() -> None:
    for page, text in PAGES.items():
        if isinstance(text, str):
            for link in SITE.links(text):
                there = (Path("/") / page.parent / link[2]).resolve().relative_to("/")
                assert PurePosixPath(there) in PAGES, f"{page}: {link[2]}"


@each_of(
    ("path", "page"),
    [
        ("README.md", "index.md"),
        ("docs/reference/resume.md", "reference/resume.md"),
        ("docs/layouts/README.md", "layouts/README.md"),
        ("docs/shuffle.svg", "shuffle.svg"),
        ("examples/train.py", "examples/train-py.md"),
        ("examples", "examples.md"),
        ("LICENSE", "LICENSE.md"),
        ("docs/notebooks/recommender.ipynb", "notebooks/recommender.ipynb"),
    ],
)
def test_a_file_has_its_place_on_the_site(path: str, page: str) -> None:
    assert str(SITE.place(PurePosixPath(path))) == page


def test_python_is_wrapped_and_nothing_else_is() -> None:
    long = "value = function(" + ", ".join(f"argument_{number}" for number in range(9)) + ")"
    text = f"{long}\n\n```python\n{long}\n```\n\n```py\nfor x in y:\n```\n"
    (shown,) = SITE.wrapped({PurePosixPath("page.md"): text}).values()
    assert max(map(len, shown.split("```")[1].splitlines())) <= 88
    assert shown.split("```")[::2] == text.split("```")[::2]
    assert "for x in y:\n" in shown, "an excerpt stays as it is"


@each_of(
    ("remote", "address"),
    [
        ("https://example.org/owner/name.git\n", "https://example.org/owner/name"),
        ("git@example.org:owner/name.git", "https://example.org/owner/name"),
        ("ssh://git@example.org/owner/name", "https://example.org/owner/name"),
        ("https://user:secret@example.org/owner/name", None),
        ("/home/somebody/name", None),
        ("", None),
    ],
)
def test_the_site_links_to_a_repository_on_the_web_alone(remote: str, address: str | None) -> None:
    assert SITE.web_address(remote) == address


def test_the_site_says_which_release_it_is_of() -> None:
    assert SITE.about()["site_name"] == f"fastresume {fr.__version__}"


def test_links_in_blocks_of_code_are_left_alone() -> None:
    text = "[a](b.md)\n\n```\n[c](d.md)\n```\n[e](https://example.org) [f](g.md#h)\n"
    assert [link[2] for link in SITE.links(text)] == ["b.md", "g.md"]


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(str(text) for page, text in PAGES.items() if page.parent.name == "api")
    described = set(re.findall(r"^::: ([\w.]+)$", text, re.MULTILINE))
    public = {f"fastresume.{name}" for name in fr.__all__}
    public |= {f"fastresume.training.{name}" for name in fastresume.training.__all__}
    public |= {f"fastresume.checkpoint.{name}" for name in fastresume.checkpoint.__all__}
    lacking = {name for name in public - described if name.rpartition(".")[2] not in ELSEWHERE}
    assert not lacking, "a page in docs/reference/api describes each: `::: name`"
    for name, page in ELSEWHERE.items():
        if page is not None:
            assert name in str(PAGES[PurePosixPath(page)])
