"""The page RESULTS.md: a head, and sections, which several programs write."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from pathlib import Path

MARK = "\n## "


def put_section(path: Path, text: str) -> None:
    """Put a section into the page in place of an older one of its title, or behind all others."""
    title = _title(text.strip().removeprefix("## "))
    head, sections = _parts(path)
    new = text.strip().removeprefix("## ") + "\n"
    if not any(_title(section) == title for section in sections):
        sections.append(new)
    _write(path, head, [new if _title(section) == title else section for section in sections])


def tell(text: str, results: str) -> None:
    """Print a section, and put it into the page at the path `results`; into none if that is "-"."""
    print(text)
    if results != "-":
        put_section(Path(results), text)


def put_head(path: Path, text: str, titles: Collection[str]) -> None:
    """Put a head, and the sections in it, in place of an older one and of the sections with these titles."""
    _, sections = _parts(path)
    head, *new = f"\n{text}".split(MARK)
    _write(path, head, new + [section for section in sections if _title(section) not in titles])


def in_words(taken: Sequence[float], digits: int) -> str:
    """The median, and the range."""
    median, least, most = (
        f"{each:.{digits}f}" for each in (statistics.median(taken), min(taken), max(taken))
    )
    return f"{median} ({least}-{most})"


def _parts(path: Path) -> tuple[str, list[str]]:
    head, *sections = f"\n{path.read_text()}".split(MARK) if path.exists() else ["# Results\n"]
    return head, sections


def _title(section: str) -> str:
    return section.partition("\n")[0]


def _write(path: Path, head: str, sections: list[str]) -> None:
    parts = [head, *(f"## {section}" for section in sections)]
    path.write_text("\n\n".join(part.strip() for part in parts) + "\n")
