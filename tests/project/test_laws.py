"""Each law of docs/DESIGN.md is held by tests that every run has, in more than one file."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]
LAWS = range(1, 13)


def marks(expression: ast.expr) -> Iterator[tuple[str, int | None]]:
    """The marks of pytest in an expression, each with the number that it is given."""
    for node in ast.walk(expression):
        of = node.func if isinstance(node, ast.Call) else node
        if isinstance(of, ast.Attribute) and isinstance(of.value, ast.Attribute) and of.value.attr == "mark":
            number = node.args[0] if isinstance(node, ast.Call) and of.attr == "law" else None
            yield of.attr, None if number is None else ast.literal_eval(number)


def held(source: str) -> dict[int, list[str]]:
    """By law, the tests of a file that hold it, without those that are slow."""
    tree = ast.parse(source)
    of_all: list[tuple[str, int | None]] = []
    found: dict[int, list[str]] = defaultdict(list)
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            of_all += marks(node.value)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            # A case may be slow by itself: the others are run.
            of_one = [
                one for each in node.decorator_list if "param" not in ast.unparse(each) for one in marks(each)
            ]
            given = [*of_all, *of_one]
            if ("slow", None) not in given:
                for law in {number for name, number in given if name == "law" and number is not None}:
                    found[law].append(node.name)
    return found


def test_each_law_is_held_by_tests_of_several_files_that_are_not_slow() -> None:
    files: dict[int, dict[str, list[str]]] = defaultdict(dict)
    for path in sorted(TESTS.glob("*/test_*.py")):
        source = path.read_text()
        for law, names in held(source).items() if "law(" in source else ():
            files[law][str(path.relative_to(TESTS))] = names
    assert sorted(files) == list(LAWS)
    for law in LAWS:
        print(f"law {law}: {sum(map(len, files[law].values()))} tests, of {', '.join(files[law])}")
    assert [law for law in LAWS if len(files[law]) < 2] == []


def test_slow_ones_and_those_of_a_file_are_told_apart() -> None:
    source = """
pytestmark = [pytest.mark.law(11), pytest.mark.processes]

@pytest.mark.law(3)
def test_quick(): ...

@pytest.mark.law(2)
@pytest.mark.slow
def test_slow(): ...

@pytest.mark.law(4)
@pytest.mark.parametrize("a", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_some(): ...
"""
    assert held(source) == {11: ["test_quick", "test_some"], 3: ["test_quick"], 4: ["test_some"]}
