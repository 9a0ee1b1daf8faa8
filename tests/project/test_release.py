"""A wheel holds the terms of all that is compiled into it; one with what should not be in it is refused."""

from __future__ import annotations

import importlib
import re
import subprocess
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
INFO = "fastresume-0.1.0.dist-info"
TAG = "cp311-abi3-manylinux_2_28_x86_64"


@pytest.fixture
def licenses(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(ROOT / "release")
    return importlib.import_module("licenses")


@pytest.fixture
def check_wheel(licenses: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = importlib.import_module("check_wheel")
    monkeypatch.setattr(module, "crates", lambda _target: [("zstd", "1.0.0", "MIT")])
    return module


def made_wheel(folder: Path, tag: str = TAG, **changed: str | None) -> Path:
    """A wheel without machine code, with other files or without some."""
    files: dict[str, str | None] = {
        "fastresume/_core.abi3.so": "",
        f"{INFO}/METADATA": "",
        f"{INFO}/WHEEL": f"Tag: {TAG}\n",
        f"{INFO}/licenses/LICENSE": "",
        f"{INFO}/licenses/LICENSE-THIRD-PARTY.txt": "The standard library of Rust\nzstd 1.0.0: MIT\n",
    }
    wheel = folder / f"fastresume-0.1.0-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as opened:
        for name, text in (files | changed).items():
            if text is not None:
                opened.writestr(name, text)
    return wheel


def test_terms_are_allowed_where_one_of_each_choice_is(licenses: ModuleType) -> None:
    for terms in ("MIT", "GPL-2.0 OR MIT", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND Unicode-3.0"):
        assert licenses.is_allowed(terms), terms
    for terms in ("", "GPL-2.0", "MIT AND GPL-2.0", "(MIT OR ISC) AND GPL-2.0"):
        assert not licenses.is_allowed(terms), terms


def test_each_crate_of_the_extension_is_listed_with_its_text(licenses: ModuleType) -> None:
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    (host,) = re.findall(r"^host: (.+)$", said, re.MULTILINE)
    taken = licenses.crates(host)
    assert {"parquet", "pyo3", "ring", "zstd-sys"} <= {name for name, _, _ in taken}
    assert not any(name.startswith("fastresume") or name == "proptest" for name, _, _ in taken)
    document = licenses.document(host)
    for name, version, terms in taken:
        assert f"\n{name} {version}: {terms}\n" in document
    without = {name for name, version, _ in taken if document.count(f"{name} {version}") < 2}
    assert without <= {"alloc-stdlib"}, "it states its terms, and has no text of them"
    assert "Meta Platforms" in document, "what is C in a crate, too"
    assert "GNU GENERAL PUBLIC" not in document


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({f"{INFO}/WHEEL": "Tag: cp311-abi3-linux_x86_64\n"}, "its file WHEEL says"),
        ({"fastresume/other.so": ""}, "it should have one module"),
        ({f"{INFO}/licenses/LICENSE": None}, "LICENSE is missing"),
        ({f"{INFO}/licenses/LICENSE-THIRD-PARTY.txt": "zstd 0.9.0: MIT"}, "does not have zstd 1.0.0"),
        ({"fastresume/large.bin": "0" * 15_000_001}, "at most 15000000 are allowed"),
        ({}, "auditwheel"),
    ],
)
def test_a_wheel_is_refused_that_has_what_it_should_not_or_lacks_what_it_should(
    check_wheel: ModuleType, tmp_path: Path, changed: dict[str, str | None], said: str
) -> None:
    def refuse(tool: str, *_arguments: object) -> str:
        raise ValueError(tool)

    check_wheel.run = refuse
    with pytest.raises(ValueError, match=said):
        check_wheel.check(made_wheel(tmp_path, **changed))


def test_a_wheel_that_needs_a_newer_glibc_than_it_says_is_refused(
    check_wheel: ModuleType, tmp_path: Path
) -> None:
    for needed in ("manylinux_2_34_x86_64", "linux_x86_64"):
        check_wheel.run = lambda tool, *_, needed=needed: f'{{"overall_tag": "{needed}"}}'
        with pytest.raises(ValueError, match=f"its symbols and libraries need {needed}"):
            check_wheel.check(made_wheel(tmp_path))
    check_wheel.run = lambda tool, *_: '{"overall_tag": "manylinux_2_17_x86_64"}'
    assert check_wheel.check(made_wheel(tmp_path)).endswith("needs manylinux_2_17_x86_64")
