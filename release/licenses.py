"""Writes the licences of all that is compiled into a wheel: `python licenses.py TARGET`.

They go to LICENSE-THIRD-PARTY.txt. `make wheels` calls this before each build, so that the wheel has it.
Cargo tells which crates a target takes. The texts are those that the crates' own folders hold, also for C
sources inside them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "LICENSE-THIRD-PARTY.txt"
PACKAGE = "fastresume-python"
TEXT = re.compile(r"(copying|licen[cs]e|notice|unlicense)(?!.*\.(rs|json|toml)$)", re.IGNORECASE)
"""Names of files with terms."""

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}
"""Licences that a crate may have: each lets the wheel be given on under Apache-2.0 if its text is in it."""


def cargo(*arguments: str) -> str:
    return subprocess.run(
        ["cargo", *arguments, "--locked"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def crates(target: str) -> list[tuple[str, str, str]]:
    """Names, versions and licences of all crates that are compiled into the extension, sorted."""
    tree = cargo(
        *("tree", "--package", PACKAGE, "--target", target, "--edges", "normal,no-proc-macro"),
        *("--prefix", "none", "--format", "{p}|{l}"),
    )
    lines = {line.removesuffix(" (*)") for line in tree.splitlines() if line and "(/" not in line}
    found = [re.fullmatch(r"(\S+) v(\S+)\|(.*)", line) for line in lines]
    return sorted((one[1], one[2], one[3]) for one in found if one)


def is_allowed(terms: str) -> bool:
    """Whether licences that are allowed meet these terms: one of each choice, and all that are joined."""
    return all(
        any(one.strip(" ()") in ALLOWED for one in re.split(r" OR |/", joined))
        for joined in terms.split(" AND ")
    )


def texts(folder: Path) -> list[str]:
    """The texts of licences in a crate's folder, also those of sources of others inside it.

    The GPL is left out: it is the other choice beside the licence of zstd, and no crate has it alone.
    """
    files = sorted(file for file in folder.rglob("*") if file.is_file() and TEXT.match(file.name))
    found = [file.read_text(errors="replace").strip() for file in files]
    return [text for text in found if "GNU GENERAL PUBLIC LICENSE" not in text[:200]]


def document(target: str) -> str:
    """The file's text: the list of crates, then each text once, under the names of those that have it."""
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    folders = {
        (one["name"], one["version"]): Path(one["manifest_path"]).parent for one in metadata["packages"]
    }
    taken = crates(target)
    refused = [f"{name} {version}: {terms}" for name, version, terms in taken if not is_allowed(terms)]
    if refused:
        sys.exit("not allowed by release/licenses.py:\n" + "\n".join(refused))
    owners: dict[str, list[str]] = {}
    first: dict[str, str] = {}  # many differ in their white space alone
    for name, version, _ in taken:
        for found in texts(folders[name, version]):
            text = first.setdefault(" ".join(found.split()), found)
            owners.setdefault(text, []).append(f"{name} {version}")
    rows = "\n".join(f"{name} {version}: {terms}" for name, version, terms in taken)
    rust = "The standard library of Rust: MIT OR Apache-2.0"
    head = f"What is compiled into fastresume for {target}, and its licences.\n\n{rust}\n{rows}\n"
    line = "=" * 80
    return head + "".join(
        f"\n{line}\n{', '.join(dict.fromkeys(names))}\n{line}\n\n{text}\n" for text, names in owners.items()
    )


if __name__ == "__main__":
    FILE.write_text(document(sys.argv[1]))
