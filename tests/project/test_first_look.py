"""What a newcomer types first answers at once, and finds all names."""

from __future__ import annotations

import subprocess
import sys

import pytest

import fastresume as fr
from fastresume.bench.arguments import MIX_NAMES, NAMES, PACK_NAMES
from fastresume.bench.contenders import OF_JOBS

HELP = """
import contextlib, io, sys

sys.argv = ["/usr/bin/fastresume"]
from fastresume.cli import main

for arguments in (["--help"], ["--version"], ["audit", "--help"], ["bench", "--help"]):
    said = io.StringIO()
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(said):
        main(arguments)
    assert said.getvalue(), arguments
print(*sys.modules)
sys.stdout.flush()
import fastresume as fr
for name in fr.__all__:
    assert name in dir(fr) and getattr(fr, name) is getattr(fr, name), name
assert "torch" in sys.modules
"""


@pytest.mark.processes
def test_help_waits_for_no_package_that_takes_long_to_import() -> None:
    ended = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "pyarrow", "polars"} & set(ended.stdout.split())


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
        ("Dataset", "fr.ParquetDataset(paths)"),
    ],
)
def test_a_name_of_before_or_of_others_says_what_to_write(name: str, instead: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(fr, name)
    assert str(caught.value) == f"module 'fastresume' has no attribute '{name}': write {instead}"


def test_the_help_of_bench_names_all_contenders() -> None:
    names = {"read": NAMES, "pack": PACK_NAMES, "mix": MIX_NAMES}
    assert {job: tuple(contenders) for job, contenders in OF_JOBS.items()} == names
