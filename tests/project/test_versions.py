"""All that names the version names the same one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import fastresume as fr

ROOT = Path(__file__).resolve().parents[2]


def test_citation_and_project_have_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited is not None
    assert {cited[1], project["version"]} == {fr.__version__}


def test_the_changelog_has_a_dated_section_of_the_version_behind_what_is_not_released() -> None:
    sections = re.findall(r"^## \[(.+)\](.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert sections[0] == ("Unreleased", "")
    version, date = sections[1]
    assert version == fr.__version__
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", date)


def test_the_page_of_what_is_supported_agrees_with_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
    least = dict(one.split(">=") for one in project["dependencies"])
    least["Python"] = project["requires-python"].removeprefix(">=")
    for name, version in least.items():
        assert f"| {name} | {version} and newer" in page
