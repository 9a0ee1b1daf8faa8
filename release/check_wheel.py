"""Inspects wheels, and fails at what should not be in them: `python check_wheel.py WHEEL...`.

The tags agree with the name. By auditwheel, all symbols are there on the oldest system that the name
promises. By abi3audit, a module for many versions of Python takes only what all of them have. The wheel is
small, and holds the licences of all that was compiled into it. A line is printed for each.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import zipfile
from email.parser import Parser
from pathlib import Path

from packaging.utils import parse_wheel_filename

from licenses import FILE, crates

MOST_BYTES = 15 * 10**6
TARGETS = {
    "manylinux_2_28_x86_64": "x86_64-unknown-linux-gnu",
    "manylinux_2_28_aarch64": "aarch64-unknown-linux-gnu",
}
"""The platforms of wheels, and what cargo calls them."""


def run(tool: str, *arguments: str | Path) -> str:
    """What a tool of this environment prints; the tool's own words where it fails."""
    command = [Path(sysconfig.get_path("scripts")) / tool, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise ValueError(f"{tool}: {ended.stdout}{ended.stderr}")
    return ended.stdout


def check(wheel: Path) -> str:
    """What a wheel is, in a line.

    Raises:
        ValueError: Something in it should not be there, or is missing.
    """
    tags = parse_wheel_filename(wheel.name)[3]
    (tag,) = tags
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        folder = metadata.rpartition("/")[0]
        stated = Parser().parsestr(opened.read(f"{folder}/WHEEL").decode()).get_all("Tag")
        if stated != [str(tag)]:
            raise ValueError(f"its file WHEEL says {stated}, and its name {tag}")
        modules = [name for name in names if name.endswith((".so", ".dylib", ".pyd"))]
        if len(modules) != 1 or not modules[0].startswith("fastresume/_core."):
            raise ValueError(f"it should have one module, and has {modules}")
        terms = f"{folder}/licenses/{FILE.name}"
        for license_ in (f"{folder}/licenses/LICENSE", terms):
            if license_ not in names:
                raise ValueError(f"{license_} is missing")
        listed = opened.read(terms).decode()
    absent = [
        f"{name} {version}"
        for name, version, license_ in crates(TARGETS[tag.platform])
        if f"\n{name} {version}: {license_}\n" not in listed
    ]
    if absent:
        raise ValueError(f"{terms} does not have {', '.join(absent)}")
    if (size := wheel.stat().st_size) > MOST_BYTES:
        raise ValueError(f"it has {size} bytes, and at most {MOST_BYTES} are allowed")
    needed = json.loads(run("auditwheel", "show", "--json", wheel))["overall_tag"]
    if glibc(needed) > glibc(tag.platform):
        raise ValueError(f"its symbols and libraries need {needed}")
    if tag.abi == "abi3":
        run("abi3audit", wheel)
    return f"{wheel.name}: {size / 1e6:.1f} MB, {len(listed)} characters of licences, needs {needed}"


def glibc(platform: str) -> tuple[int, ...]:
    """The version of glibc that a platform's tag names; above all of them where it names none."""
    found = re.match(r"manylinux_(\d+)_(\d+)_", platform)
    return tuple(map(int, found.groups())) if found else (sys.maxsize,)


if __name__ == "__main__":
    failed = False
    for path in map(Path, sys.argv[1:]):
        try:
            print(check(path))
        except ValueError as error:
            print(f"{path.name}: {error}", file=sys.stderr)
            failed = True
    sys.exit(failed)
