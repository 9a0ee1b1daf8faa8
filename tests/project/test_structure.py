"""An import goes backwards along the flow of data, never forwards."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PYTHON_ORDER = [
    "_core",
    "files",
    "rng",
    "buffers",
    "checks",
    "column_options",
    "row_options",
    "topology",
    "intervals",
    "cursor",
    "shared_cursor",
    "distributed",
    "peers",
    "seeds",
    "origin",
    "arrow",
    "jagged",
    "schema",
    "batch",
    "delivered",
    "truth",
    "comparing",
    "expression",
    "decision",
    "scan",
    "foreign",
    "filter",
    "records",
    "audit",
    "placement",
    "lineage",
    "witness",
    "map_function",
    "places",
    "spec",
    "transform",
    "pagelock",
    "device",
    "ahead",
    "activity",
    "trail",
    "travel",
    "stats",
    "watchdog",
    "progress",
    "parcel",
    "board",
    "deaths",
    "worker_messages",
    "worker_process",
    "station",
    "crew",
    "callers",
    "workers",
    "worker_iterator",
    "iterator",
    "resumable",
    "plan",
    "dataset",
    "loader",
    "testing",
    "training",
    "checkpoint",
    "integrations",
    "bench",
    "cli",
    "__init__",
]

BENCH_ORDER = [
    "task",
    "arrow",
    "checksum",
    "delivered",
    "reading",
    "own",
    "rivals",
    "contenders",
    "child",
    "__main__",
    "turns",
    "survey",
    "machine",
    "figures",
    "report",
    "plot",
    "outputs",
    "progress",
    "command",
    "__init__",
]


CHECKPOINT_ORDER = [
    "randomness",
    "ranks",
    "manifest",
    "history",
    "verdict",
    "storage",
    "optimizer",
    "parts",
    "terms",
    "moment",
    "saving",
    "restoring",
    "checkpointer",
    "__init__",
]

INTEGRATIONS_ORDER = ["state", "accelerate", "dcp", "lightning", "transformers", "__init__"]

TRAINING_ORDER = ["accumulation", "agreement", "preemption", "tally", "evaluator", "__init__"]

PACKAGES = {
    "bench": BENCH_ORDER,
    "integrations": INTEGRATIONS_ORDER,
    "checkpoint": CHECKPOINT_ORDER,
    "training": TRAINING_ORDER,
}


RUST_ROOMS = [
    "simd",
    "memory",
    "intervals",
    "schema",
    "source",
    "format",
    "dataset",
    "order",
    "resume",
    "decode",
    "projection",
    "filter",
    "batch",
    "pipeline",
]

# Beside the rooms: what all of them may use, and what only tests and fuzzers use of them.
RUST_ROOT = {"error", "parallel"}
RUST_TESTS = {"test_files", "fuzzing"}


def test_a_rust_file_uses_rooms_before_its_own_and_its_room_without_a_circle() -> None:
    source = ROOT / "rust/fastresume/src"
    files = {module_of(path, source): path for path in sorted(source.rglob("*.rs"))}
    rooms = re.findall(r"^mod (\w+);", (source / "lib.rs").read_text(), re.MULTILINE)
    assert [room for room in rooms if room not in RUST_ROOT | RUST_TESTS] == RUST_ROOMS
    inside: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for module, path in files.items():
        room = module[0]
        if room in RUST_TESTS or path.name in ("lib.rs", "mod.rs"):
            continue
        used = rust_imports_of(path, module, files)
        before = set(RUST_ROOMS[: RUST_ROOMS.index(room)]) if room in RUST_ROOMS else set()
        forward = {other for other in used if other[0] not in before | RUST_ROOT | {room}}
        if "#[cfg(test)]" in path.read_text() or path.stem.endswith("_tests"):
            forward -= {("test_files",)}
        assert not forward, f"{path.relative_to(source)} uses {sorted(forward)}, which come after it"
        # A face may name any file of its room: who uses it there could go in a circle unseen.
        assert not [other for other in used if other[0] == room and files[other].name == "mod.rs"]
        inside[module] = {other for other in used if other[0] == room or {room, other[0]} <= RUST_ROOT}
    assert circle_of(inside) is None


def test_the_faces_of_rust_rooms_hold_a_sentence_and_no_code() -> None:
    for path in sorted((ROOT / "rust/fastresume/src").rglob("mod.rs")):
        text = path.read_text()
        assert re.match(r"//! [A-Z].*\.\n", text), f"{path} does not begin with the room's sentence"
        code = re.sub(
            r"^//.*$|^#!?\[[^\n]*\]$|^(pub )?mod \w+;$|^pub use [^;]*;$", "", text, flags=re.MULTILINE
        )
        assert not code.strip(), f"{path} holds code: {code.strip()[:80]}"


def module_of(path: Path, source: Path) -> tuple[str, ...]:
    """Return the path of a Rust file's module below its crate; that of a `mod.rs` is its folder's."""
    parts = path.relative_to(source).with_suffix("").parts
    return parts[:-1] if parts[-1] == "mod" else parts


def rust_imports_of(
    path: Path, module: tuple[str, ...], files: dict[tuple[str, ...], Path]
) -> set[tuple[str, ...]]:
    """Return the files of the crate that a file names, in its tests too."""
    text = re.sub(r"//.*", "", path.read_text())
    assert "crate::{" not in text, f"{path} takes from several rooms at once: name each"
    named = [tuple(name.split("::")) for name in re.findall(r"\bcrate::(\w+(?:::\w+)*)", text)]
    # In a block, as of tests, `super` is the file itself.
    beside = re.findall(r"^(?:pub )?use super::(\w+(?:::\w+)*)", text, re.MULTILINE)
    named += [(*module[:-1], *name.split("::")) for name in beside]
    # What is named behind the file is an item of it.
    heads = ({name[:length] for length in range(1, len(name) + 1)} & files.keys() for name in named)
    used = {max(found, key=len) for found in heads if found}
    return used - {module}


def circle_of(used: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[tuple[str, ...]] | None:
    """Return modules that lead from one to the next and back to the first, if there are such."""
    done: set[tuple[str, ...]] = set()

    def visit(module: tuple[str, ...], way: list[tuple[str, ...]]) -> list[tuple[str, ...]] | None:
        if module in way:
            return way[way.index(module) :]
        if module in done:
            return None
        done.add(module)
        circles = (visit(other, [*way, module]) for other in sorted(used.get(module, ())))
        return next((circle for circle in circles if circle), None)

    circles = (visit(module, []) for module in sorted(used))
    return next((circle for circle in circles if circle), None)


def test_python_modules_import_only_those_before_them() -> None:
    source = ROOT / "python/fastresume"
    there = {path.stem for path in source.glob("*.py*")} - {"py"} | {"_core", *PACKAGES}
    assert sorted(PYTHON_ORDER) == sorted(there)
    for place, module in enumerate(PYTHON_ORDER[1:], start=1):
        allowed = {*PYTHON_ORDER[:place], "__version__"}
        is_package = module in PACKAGES
        for path in sorted((source / module).glob("*.py")) if is_package else [source / f"{module}.py"]:
            used = imports_of(path, "fastresume") - ({module} if is_package else set())
            assert used <= allowed, f"{path.name} imports {sorted(used - allowed)}"


@pytest.mark.parametrize("package", PACKAGES)
def test_modules_of_a_package_import_only_those_before_them(package: str) -> None:
    source, order = ROOT / "python/fastresume" / package, PACKAGES[package]
    assert sorted(order) == sorted(path.stem for path in source.glob("*.py"))
    for place, module in enumerate(order):
        used = imports_of(source / f"{module}.py", f"fastresume.{package}")
        assert used <= set(order[:place]), f"{module} imports {sorted(used - set(order[:place]))}"


FRAMEWORKS = {"accelerate", "lightning", "pytorch_lightning", "torchdata", "transformers"}


def test_frameworks_are_imported_by_their_integration_alone() -> None:
    source = ROOT / "python/fastresume"
    for path in source.rglob("*.py"):
        tree = ast.parse(path.read_text())
        names = {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        used = {name.split(".")[0] for name in names} & FRAMEWORKS
        expected = {path.stem} if path.parent.name == "integrations" else set()
        if path.parent.name != "bench":  # which measures beside others, where they are installed
            assert used - {"pytorch_lightning"} <= expected, f"{path} imports {used}"
        if path.parent == source:
            assert "integrations" not in imports_of(path, "fastresume"), f"{path} imports integrations"


def imports_of(path: Path, package: str) -> set[str]:
    """Return the modules of the package that a file imports, be it for annotations alone."""
    return {name for node in ast.walk(ast.parse(path.read_text())) for name in imported(node, package)}


def imported(node: ast.AST, package: str) -> set[str]:
    """Return the modules of the package that an import names."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names if alias.name.startswith(f"{package}.")]
        return {name.removeprefix(f"{package}.").split(".")[0] for name in names}
    if isinstance(node, ast.ImportFrom) and node.module == package:
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
        return {(node.module or "").removeprefix(f"{package}.").split(".")[0]}
    return set()


def test_only_what_reads_many_files_starts_threads() -> None:
    source = ROOT / "rust/fastresume/src"
    threaded = {
        str(path.relative_to(source))
        for path in source.rglob("*.rs")
        if not path.stem.endswith("_tests") and re.search(r"\b(thread|parallel)::", path.read_text())
    }
    assert threaded == {
        "pipeline/thread_pool.rs",
        "dataset/manifest.rs",
        "projection/dictionary_scan.rs",
        "parallel.rs",
    }
