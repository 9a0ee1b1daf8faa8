"""Installs a wheel or an sdist into empty environments, and runs the first page of the tutorial in each.

`python try_package.py PACKAGE PYTHON...`, with `tests` on the path. An sdist is built on the way, as
`pip install` does it. Versions are those of `requirements/dev.lock`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from support.code_blocks import program

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "tutorial" / "first-batches.md"
LOCK = ROOT / "requirements" / "dev.lock"

LOOK = """
import pathlib, sys, fastresume
assert pathlib.Path(fastresume.__file__).is_relative_to(sys.prefix), fastresume.__file__
assert fastresume._core.IS_OPTIMIZED, "it is no release build"
"""


def run(*command: str | Path, folder: Path) -> None:
    """Run a command in a folder; neither this environment nor the checkout is in sight there."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    subprocess.run(command, cwd=folder, env=environment, check=True)


def try_out(package: Path, interpreter: Path) -> None:
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        python, command = folder / "env/bin/python", folder / "env/bin/fastresume"
        run(uv, "venv", "--quiet", "--python", interpreter, folder / "env", folder=folder)
        install = (uv, "pip", "install", "--quiet", "--python", python, "--constraints", LOCK)
        run(*install, f"fastresume[arrow] @ {package.resolve().as_uri()}", folder=folder)
        (folder / "page.py").write_text(program(PAGE))
        run(python, "-c", LOOK, folder=folder)
        run(python, "page.py", folder=folder)
        run(command, "inspect", "clicks.parquet", folder=folder)


if __name__ == "__main__":
    path, *interpreters = sys.argv[1:]
    for interpreter in interpreters:
        try_out(Path(path), Path(shutil.which(interpreter) or interpreter).absolute())
        print(f"{Path(path).name} ran {PAGE.name} in an empty environment of {interpreter}")
