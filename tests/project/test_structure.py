"""Rooms: a file takes from rooms before its own, and inside its own room without a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "rust/fastresume/src"
CRATES_BESIDE = ["fastresume-stores", "fastresume-python", "fastresume-laws"]
PACKAGE = ROOT / "python/fastresume"

RUST_ROOMS = [
    "error",
    "parallel",
    "simd",
    "memory",
    "intervals",
    "schema",
    "source",
    "arrow",
    "format",
    "ipc",
    "dataset",
    "order",
    "resume",
    "decode",
    "projection",
    "filter",
    "units",
    "batch",
    "pipeline",
    "fuzzing",
]

PYTHON_ROOMS = [
    "_core",
    "amounts",
    "messages",
    "files",
    "rng",
    "buffers",
    "memory_file",
    "options",
    "tables",
    "sources",
    "intervals",
    "state",
    "agreement",
    "batch",
    "filter",
    "columns",
    "audit",
    "reading",
    "packing",
    "mixing",
    "plan",
    "rows_dataset",
    "dataset",
    "arrow_dataset",
    "kafka",
    "maxcompute",
    "mixture",
    "distributed",
    "loader",
    "testing",
    "training",
    "checkpoint",
    "integrations",
    "bench",
    "commands",
    "cli",
    "__main__",
    "__init__",
]

MOST_LINES = 600


def test_each_room_of_the_core_takes_from_rooms_before_it() -> None:
    imports = dict(rust_imports(CORE))
    check_rooms(imports, RUST_ROOMS)
    rooms = re.findall(r"^(?:pub )?mod (\w+);", (CORE / "lib.rs").read_text(), re.MULTILINE)
    assert sorted(set(rooms) - {"test_files"}) == sorted(RUST_ROOMS)


def test_each_room_of_the_package_takes_from_rooms_before_it() -> None:
    check_rooms(dict(python_imports()), PYTHON_ROOMS)


@pytest.mark.parametrize("crate", CRATES_BESIDE)
def test_the_files_of_the_other_crates_import_each_other_without_a_circle(crate: str) -> None:
    check_circles(dict(rust_imports(ROOT / "rust" / crate / "src")))
    assert {path.name for path in (ROOT / "rust").iterdir()} == {*CRATES_BESIDE, "fastresume"}


def test_a_forward_import_and_a_circle_are_seen() -> None:
    with pytest.raises(AssertionError, match="batch/jagged takes from reading/spec"):
        check_rooms({"batch/jagged": {"reading/spec"}, "reading/spec": set()}, PYTHON_ROOMS)
    with pytest.raises(AssertionError, match="circle"):
        check_rooms({"batch/a": {"batch/b"}, "batch/b": {"batch/a"}}, PYTHON_ROOMS)
    block = "if TYPE_CHECKING:\n    from fastresume.reading.spec import ReadSpec"
    assert set(imported(ast.parse(block))) == {"reading/spec"}


def test_each_room_begins_with_its_sentence() -> None:
    for path in sorted(CORE.rglob("mod.rs")):
        text = path.read_text()
        assert re.match(r"//! [A-Z].*\.\n", text), f"{path} does not begin with the room's sentence"
        face = r"^//.*$|^#!?\[[^\n]*\]$|^(pub )?mod \w+;$|^pub(\([a-z]+\))? use [^;]*;$"
        code = re.sub(face, "", text, flags=re.MULTILINE).strip()
        assert not code, f"{path} holds code: {code[:80]}"
    for path in sorted(PACKAGE.rglob("__init__.py")):
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_files_of_code_have_at_most_600_lines() -> None:
    folders = ("rust", "python", "benches", "fuzz", "release")
    sources = chain.from_iterable((ROOT / folder).rglob("*") for folder in folders)
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources
        if path.suffix in (".py", ".pyi", ".rs") and "target" not in path.parts
        if (count := len(path.read_text().splitlines())) > MOST_LINES
    }
    assert not long


def test_no_two_files_of_tests_have_one_name() -> None:
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names)), "pytest collects one of them alone"


FRAMEWORKS = {"accelerate", "lightning", "pytorch_lightning", "torchdata", "transformers"}


def test_frameworks_are_imported_by_their_integration_alone() -> None:
    for path in PACKAGE.rglob("*.py"):
        used = {name.split(".")[0] for name in modules_named(ast.parse(path.read_text()))} & FRAMEWORKS
        expected = {path.stem} if path.parent.name == "integrations" else set()
        if path.parent.name != "bench":  # which measures beside others, where they are installed
            assert used - {"pytorch_lightning"} <= expected, f"{path} imports {used}"


def check_rooms(imports: Mapping[str, set[str]], rooms: list[str]) -> None:
    """Fail where a file takes from a room behind its own, or where files import each other in a circle."""
    places = {room: place for place, room in enumerate(rooms)}
    unknown = {room_of(name) for name in imports} - set(places)
    assert not unknown, f"rooms that have no place in the order: {sorted(unknown)}"
    for name, used in imports.items():
        for other in used:
            assert places[room_of(other)] <= places[room_of(name)], f"{name} takes from {other}"
    check_circles(imports)


def check_circles(imports: Mapping[str, set[str]]) -> None:
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"a circle: {' -> '.join(error.args[1])}") from None


def room_of(name: str) -> str:
    return name.split("/", maxsplit=1)[0]


# ---------------------------------------------------------------------------------------------------- Python


def python_imports() -> Iterator[tuple[str, set[str]]]:
    """Each file of the package by its path, with the files that it names; those for annotations, too."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE).with_suffix(""))
        yield name, set(imported(ast.parse(path.read_text()))) - {name}


def imported(tree: ast.AST) -> Iterator[str]:
    for module in modules_named(tree):
        parts = module.split(".")
        if parts[0] == "fastresume" and module != "fastresume.__version__":
            yield from file_of(parts[1:])


def file_of(parts: list[str]) -> Iterator[str]:
    """The file that an import names: the longest beginning of the dotted name that is one."""
    for length in range(len(parts), 0, -1):
        path = PACKAGE.joinpath(*parts[:length])
        if path.with_suffix(".py").exists() or path.with_suffix(".pyi").exists():
            yield "/".join(parts[:length])
            return
        if path.is_dir():
            yield "/".join([*parts[:length], "__init__"])
            return
    yield "__init__"


def modules_named(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# ------------------------------------------------------------------------------------------------------ Rust


def test_only_what_reads_many_files_starts_threads() -> None:
    threaded = {
        str(path.relative_to(CORE).with_suffix(""))
        for path in CORE.rglob("*.rs")
        if re.search(r"\b(?:thread|parallel)::", path.read_text())
        and path.name != "mod.rs"
        and not path.stem.endswith("_tests")
    }
    assert threaded == {
        "parallel",
        "batch/fetches",
        "dataset/arrow_files",
        "dataset/found_files",
        "dataset/row_parts",
        "projection/dictionary_scan",
        "units/index",
        "filter/page_stats",
        "pipeline/thread_pool",
    }


def rust_imports(source: Path) -> Iterator[tuple[str, set[str]]]:
    """Each file of a crate by its path, with the files that it names; those in its tests, too."""
    files = {rust_module(path, source): path for path in sorted(source.rglob("*.rs"))}
    for module, path in files.items():
        if path.name not in ("lib.rs", "mod.rs") and module != ("test_files",):
            used = rust_files_named(path.read_text(), module, files)
            # A face may name any file of its room: who uses it there could go in a circle unseen.
            faces = [other for other in used if other[0] == module[0] and files[other].name == "mod.rs"]
            assert not faces, f"{path} takes from the face of its own room: name the file"
            yield "/".join(module), {"/".join(other) for other in used if other != ("test_files",)}


def rust_module(path: Path, source: Path) -> tuple[str, ...]:
    """The path of a file's module below its crate; that of a `mod.rs` is its folder's."""
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] == "mod" else parts


def rust_files_named(
    text: str, module: tuple[str, ...], files: Mapping[tuple[str, ...], Path]
) -> set[tuple[str, ...]]:
    text = re.sub(r"//.*", "", text)
    assert "crate::{" not in text, f"{module} takes from several rooms at once: name each"
    named = [tuple(name.split("::")) for name in re.findall(r"\bcrate::(\w+(?:::\w+)*)", text)]
    # In a block, as of tests, `super` is the file itself.
    beside = re.findall(r"^(?:pub )?use super::(\w+(?:::\w+)*)", text, re.MULTILINE)
    named += [(*module[:-1], *name.split("::")) for name in beside]
    # What is named behind the file is an item of it.
    heads = ({name[:length] for length in range(1, len(name) + 1)} & files.keys() for name in named)
    return {max(found, key=len) for found in heads if found} - {module}
