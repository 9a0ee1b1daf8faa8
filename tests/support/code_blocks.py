"""The blocks of code that pages of the documentation show."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path

BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDS = re.compile(r"^# pip install ([\w-]+)$", re.MULTILINE)


def blocks(page: Path, language: str = "python") -> list[str]:
    """The blocks of a language on a page, each behind as many empty lines as it has lines before it there."""
    text = page.read_text()
    return [
        "\n" * text.count("\n", 0, block.start(2)) + block[2]
        for block in BLOCK.finditer(text)
        if block[1] == language
    ]


def is_installed(package: str) -> bool:
    """Whether a package of this name on the index is here."""
    try:
        metadata.version(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def program(page: Path) -> str:
    """All blocks of Python on a page as one program, whose errors name the lines of the page.

    A block that begins with `# pip install name`, which shows another project, is left out where that is not
    installed.
    """
    lines: list[str] = []
    for block in blocks(page):
        if all(is_installed(package) for package in NEEDS.findall(block)):
            lines += block.split("\n")[len(lines) :]
    return "\n".join(lines)


def without_blocks(text: str) -> str:
    """A page without its blocks of code."""
    return BLOCK.sub("", text)
