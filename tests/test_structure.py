"""An import goes backwards along the flow of data, never forwards."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

PYTHON_ORDER = [
    "_core",
    "arguments",
    "padding",
    "draft",
    "world",
    "intervals",
    "selection",
    "cursor",
    "distributed",
    "peers",
    "seeds",
    "generators",
    "origin",
    "arrow",
    "jagged",
    "batch",
    "pagelock",
    "parcel",
    "truth",
    "comparing",
    "expression",
    "decision",
    "scan",
    "foreign",
    "filter",
    "transform",
    "workers",
    "callers",
    "lanes",
    "records",
    "audit",
    "device",
    "activity",
    "ahead",
    "board",
    "station",
    "arrival",
    "deaths",
    "crew",
    "trail",
    "stats",
    "watchdog",
    "iterator",
    "plan",
    "travel",
    "dataset",
    "progress",
    "loader",
    "integrations",
    "checkpoint",
    "testing",
    "training",
    "placement",
    "lineage",
    "witness",
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
    "failure",
    "durable",
    "randomness",
    "ranks",
    "tree",
    "leaves",
    "layout",
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


def test_rust_modules_use_only_those_before_them() -> None:
    source = ROOT / "rust/fastresume/src"
    order = re.findall(r"^(?:pub )?mod (\w+);", (source / "lib.rs").read_text(), re.MULTILINE)
    assert sorted(order) == sorted(path.stem for path in source.glob("*.rs") if path.stem != "lib")
    for place, module in enumerate(order):
        used = set(re.findall(r"\bcrate::(\w+)", (source / f"{module}.rs").read_text()))
        assert used <= set(order[:place]), f"{module} uses {sorted(used - set(order[:place]))}"


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
    """Return the modules of the package that a file imports when it runs."""
    tree = ast.parse(path.read_text())
    # What is imported for annotations alone never runs.
    for block in [node for node in ast.walk(tree) if isinstance(node, ast.If)]:
        if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            block.body = []
    return {name for node in ast.walk(tree) for name in imported(node, package)}


def imported(node: ast.AST, package: str) -> set[str]:
    """Return the modules of the package that an import names."""
    if isinstance(node, ast.ImportFrom) and node.module == package:
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
        return {(node.module or "").removeprefix(f"{package}.").split(".")[0]}
    return set()


def test_only_what_reads_many_files_starts_threads() -> None:
    source = ROOT / "rust/fastresume/src"
    threaded = {path.stem for path in source.glob("*.rs") if re.search(r"\bthreads?::", path.read_text())}
    assert threaded == {"pipeline", "manifest", "dictionaries", "threads"}
