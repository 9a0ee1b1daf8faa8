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


def test_the_page_of_what_is_supported_agrees_with_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text()
    least = dict(one.split(">=") for one in project["dependencies"])
    least["Python"] = project["requires-python"].removeprefix(">=")
    for name, version in least.items():
        assert f"| {name} | {version} and newer" in page
