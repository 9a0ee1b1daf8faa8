"""Every link of a page leads to a file that is there, and to a heading that it has."""

from __future__ import annotations

import re
from pathlib import Path

from support.code_blocks import without_blocks
from support.each_of import each_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """What links may name of a page: its headings, in lower case, without signs, with dashes for spaces."""
    text = without_blocks(page.read_text())
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_of("page", PAGES)
def test_links_lead_somewhere(page: Path) -> None:
    text = without_blocks(page.read_text())
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{target}: there is no such file"
        assert not anchor or anchor in anchors(there), f"{target}: there is no such heading"
