"""What a newcomer types first answers at once, and finds all names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import fastresume as fr
from fastresume.bench.arguments import MIX_NAMES, NAMES, PACK_NAMES
from fastresume.bench.contenders import OF_JOBS

HELP = """
import contextlib, io, sys

sys.argv = ["/usr/bin/fastresume"]
from fastresume.cli import main

def said_to(*arguments):
    said = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):
        main(arguments)
    assert said.getvalue(), arguments

for arguments in (["--help"], ["--version"], ["audit", "--help"], ["bench", "--help"]):
    said_to(*arguments)
assert not {"torch", "numpy", "pyarrow", "polars"} & set(sys.modules)
for arguments in (["inspect", FILES], ["inspect", FILES, "--json"], ["state", STATE, FILES]):
    said_to(*arguments)
assert not {"torch", "pyarrow", "polars"} & set(sys.modules)
import fastresume as fr
for name in fr.__all__:
    assert name in dir(fr) and getattr(fr, name) is getattr(fr, name), name
assert "torch" in sys.modules
"""


@pytest.mark.processes
def test_commands_wait_for_no_package_that_takes_long_to_import(tmp_path: Path) -> None:
    for number, value in enumerate((1, 1.5)):  # files that differ
        pq.write_table(pa.table({"x": [value, None]}), tmp_path / f"{number}.parquet")
    rows = [fr.col("x").cast(torch.float64).mask_null()]
    dataset = fr.ParquetDataset(tmp_path, batch_size=1, columns=rows, world=(0, 1))
    state = tmp_path / "state.json"
    state.write_text(json.dumps(next(iter(dataset)).state_dict()))
    code = HELP.replace("FILES", repr(str(tmp_path))).replace("STATE", repr(str(state)))
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.processes
def test_the_package_is_its_command() -> None:
    found = subprocess.run([sys.executable, "-m", "fastresume", "--version"], capture_output=True, check=True)
    assert found.stdout.decode().split() == ["fastresume", fr.__version__]


def test_all_names_of_the_package_are_there() -> None:
    assert set(fr.__all__) <= {*dir(fr)} & {*vars(fr)}, "some are imported late, where no command runs"
    found: dict[str, object] = {}
    exec("from fastresume import *", found)  # noqa: S102  (the very statement)
    assert found["Loader"] is fr.Loader
    with pytest.raises(AttributeError, match=r"module 'fastresume' has no attribute 'Loder'"):
        fr.Loder  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("column", "fr.col(name)"),
        ("DataLoader", "fr.Loader(dataset)"),
        ("Dataset", "fr.ParquetDataset(paths, batch_size=n)"),
    ],
)
def test_a_name_of_before_or_of_others_says_what_to_write(name: str, instead: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(fr, name)
    assert str(caught.value) == f"module 'fastresume' has no attribute '{name}': write {instead}"


def test_the_help_of_bench_names_all_contenders() -> None:
    names = {"read": NAMES, "pack": PACK_NAMES, "mix": MIX_NAMES}
    assert {job: tuple(contenders) for job, contenders in OF_JOBS.items()} == names
