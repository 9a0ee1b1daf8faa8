"""An import goes backwards along the flow of data, never forwards."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent

PYTHON_ORDER = [
    "_core",
    "arguments",
    "world",
    "intervals",
    "cursor",
    "jagged",
    "batch",
    "workers",
    "lanes",
    "records",
    "audit",
    "iterator",
    "plan",
    "travel",
    "dataset",
    "loader",
    "testing",
    "placement",
    "lineage",
    "witness",
    "cli",
    "__init__",
]


def test_rust_modules_use_only_those_before_them() -> None:
    source = ROOT / "rust/fastresume/src"
    order = re.findall(r"^(?:pub )?mod (\w+);", (source / "lib.rs").read_text(), re.MULTILINE)
    assert sorted(order) == sorted(path.stem for path in source.glob("*.rs") if path.stem != "lib")
    for place, module in enumerate(order):
        used = set(re.findall(r"\bcrate::(\w+)", (source / f"{module}.rs").read_text()))
        assert used <= set(order[:place]), f"{module} uses {sorted(used - set(order[:place]))}"


def test_python_modules_import_only_those_before_them() -> None:
    source = ROOT / "python/fastresume"
    assert sorted(PYTHON_ORDER) == sorted({path.stem for path in source.glob("*.py*")} - {"py"} | {"_core"})
    for place, module in enumerate(PYTHON_ORDER[1:], start=1):
        tree = ast.parse((source / f"{module}.py").read_text())
        # What is imported for annotations alone never runs.
        for block in [node for node in ast.walk(tree) if isinstance(node, ast.If)]:
            if isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
                block.body = []
        used = {name for node in ast.walk(tree) for name in imported(node)}
        allowed = {*PYTHON_ORDER[:place], "__version__"}
        assert used <= allowed, f"{module} imports {sorted(used - allowed)}"


def imported(node: ast.AST) -> set[str]:
    """Return the modules of the package that an import names."""
    if isinstance(node, ast.ImportFrom) and node.module == "fastresume":
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fastresume."):
        return {(node.module or "").split(".")[1]}
    return set()


def test_only_the_pipeline_and_the_manifest_start_threads() -> None:
    source = ROOT / "rust/fastresume/src"
    threaded = {path.stem for path in source.glob("*.rs") if "thread::" in path.read_text()}
    assert threaded == {"pipeline", "manifest"}
