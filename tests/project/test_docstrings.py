"""The examples in docstrings run, on a small dataset in `data/`, and print what they say."""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
import fastresume.checkpoint
import fastresume.training

MODULES = [
    "fastresume",
    *(f"fastresume.{module.name}" for module in pkgutil.iter_modules(fr.__path__)),
    *(
        f"{package.__name__}.{module.name}"
        for package in (fastresume.checkpoint, fastresume.training)
        for module in pkgutil.iter_modules(package.__path__)
    ),
]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Return what the examples take for granted."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for part in range(2):
        rows = np.arange(50 * part, 50 * part + 50)
        columns = {"label": rows.astype(np.float32), "c_0": rows}
        columns |= {f"i_{index}": (rows * index).astype(np.float32) for index in range(3)}
        pq.write_table(pa.table(columns), f"data/{part}.parquet")
    dataset = fr.ParquetDataset(
        "data/*.parquet", batch_size=32, columns=["*", "!i_*", fr.stack("i_*", name="dense")]
    )
    other = fr.ParquetDataset("data/*.parquet", batch_size=32)
    out_of_step = []
    for rank, batches in enumerate((3, 5)):
        iterator = iter(fr.ParquetDataset("data/*.parquet", batch_size=8, world=(rank, 2)))
        out_of_step.append([next(iterator) for _ in range(batches)][-1].state_dict())
    return {
        "state_of_rank_0": out_of_step[0],
        "state_of_rank_1": out_of_step[1],
        "dataset": dataset,
        "loader": fr.Loader(dataset),
        "mixture": fr.Mixture({"web": (other, 0.7), "code": (dataset_of_code(), 0.3)}, batch_size=7),
        "batch": next(iter(other)),
        "train": lambda _: None,
        "save": lambda _: None,
    }


def dataset_of_code() -> fr.ParquetDataset:
    return fr.ParquetDataset("data/*.parquet")


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: str, names: dict[str, object]) -> None:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    imported = importlib.import_module(module)
    failed, _ = doctest.testmod(imported, extraglobs=names, optionflags=options)
    assert failed == 0


@functools.cache
def described() -> list[tuple[str, ast.FunctionDef | ast.ClassDef, str]]:
    """The classes and functions of the package that have a docstring: file, definition, docstring."""
    root, found = Path(fr.__path__[0]), []
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                found.append((f"{file.relative_to(root)}: {node.name}", node, text))
    return found


def test_sections_have_the_headings_that_the_reference_knows() -> None:
    for where, _, text in described():
        unknown = re.search(r"^(Example|Arg|Raise|Warning|Parameters|Return):$", text, re.MULTILINE)
        assert not unknown, f"{where}: {unknown and unknown[0]} is no section of Google's style"


def test_docstrings_name_each_argument_of_the_signature_by_itself() -> None:
    for where, node, text in described():
        section = re.search(r"^Args:\n((?: +.*\n?|\n)+)", text, re.MULTILINE)
        inside = node.body if isinstance(node, ast.ClassDef) else [node]
        takers = [
            one for one in inside if isinstance(one, ast.FunctionDef) and one.name in (node.name, "__init__")
        ]
        if section and takers:
            there = {one.arg for one in ast.walk(takers[0].args) if isinstance(one, ast.arg)}
            named = set(re.findall(r"^ {4}(\S[^:]*):", section[1], re.MULTILINE))
            assert {name.lstrip("*") for name in named} <= there, where
