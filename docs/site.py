"""Gathers the pages of the site, and builds it: `make site`.

The pages are README.md, all of docs, and every file of the repository that one of them links to. They go
into target/site/pages, a program becomes a page that shows it, and links lead to where their files went. A
page that no list here names comes after those of its kind, so that a new one is never lost. Python is wrapped
at 88 columns, so that a block fits beside the navigation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "target" / "site"

KINDS = {
    "Tutorial": ["tutorial/first-batches.md", "tutorial/kill-and-resume.md", "tutorial/your-own-files.md"],
    "How-to": [
        "how-to/recommender.md",
        "how-to/language-model.md",
        "how-to/tabular.md",
        "how-to/columns.md",
        "how-to/rows.md",
        "how-to/class-balance.md",
        "how-to/weighted-data.md",
        "how-to/images.md",
        "how-to/time-order.md",
        "how-to/mix.md",
        "how-to/tokenize.md",
        "how-to/pack.md",
        "how-to/attention.md",
        "how-to/stores.md",
        "how-to/tables.md",
        "how-to/arrow.md",
        "how-to/add-a-source.md",
        "how-to/kafka.md",
        "how-to/maxcompute.md",
        "how-to/new-files-each-day.md",
        "how-to/late-files.md",
        "how-to/damaged-files.md",
        "how-to/restarts.md",
        "how-to/ray-train.md",
        "how-to/torchtitan.md",
        "how-to/lightning-datamodule.md",
        "how-to/parallelism.md",
        "how-to/thousands-of-ranks.md",
        "how-to/evaluation.md",
        "how-to/tuning.md",
        "how-to/watching.md",
        "how-to/auditing.md",
        "how-to/own-reader.md",
        "how-to/training.md",
        "how-to/transforms.md",
    ],
    "Coming from": ["coming-from/torch-dataloader.md"],
    "Reference": [
        "reference/resume.md",
        "reference/types.md",
        "reference/shaping.md",
        "reference/stores.md",
        "reference/loader.md",
        "reference/checkpoint.md",
        "reference/frameworks.md",
        "reference/audit.md",
    ],
    "API": [
        f"reference/api/{page}.md"
        for page in (
            "dataset",
            "loader",
            "batch",
            "columns",
            "rows",
            "state",
            "ranks",
            "training",
            "checkpoint",
        )
    ],
    "Layouts": ["layouts/README.md"],
    "Explanation": [
        "explanation/exact-and-elastic.md",
        "explanation/shuffle.md",
        "explanation/how-it-is-fast.md",
        "explanation/what-is-refused.md",
    ],
    "Examples": ["examples.md"],
    "Project": [
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "DESIGN.md",
        "design/laws.md",
        "design/order-and-state.md",
        "design/reading.md",
        "design/sources.md",
        "design/add-a-unit.md",
        "SECURITY.md",
        "LICENSE.md",
    ],
}
"""The kinds of pages, and which of each come first, in the order of reading."""

FOLDERS = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "coming-from": "Coming from",
    "reference": "Reference",
    "layouts": "Layouts",
    "explanation": "Explanation",
    "reference/api": "API",
    "examples": "Examples",
    ".": "Reference",
}
"""The kind of a page that no list names, by its folder; what is in none of these is of the project."""

LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```(?:python|py)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COPIED = {".svg", ".png", ".ipynb"}
"""What is no page, and goes to the site as it is."""
LANGUAGES = {".py": "python", ".toml": "toml"}


def place(path: PurePosixPath) -> PurePosixPath:
    """Where a file of the repository stands on the site; both are relative to their roots."""
    if path.name == "README.md" and path.parent == PurePosixPath("."):
        return PurePosixPath("index.md")
    inside = PurePosixPath(*path.parts[1:]) if path.parts[0] == "docs" else path
    return (
        inside if path.suffix in {".md", *COPIED} else inside.with_name(f"{inside.name.replace('.', '-')}.md")
    )


def links(text: str) -> Iterator[re.Match[str]]:
    """The links of a page to other files, but for those in blocks of code."""
    blocks = [block.span() for block in FENCE.finditer(text)]
    for link in LINK.finditer(text):
        is_code = any(start <= link.start() < stop for start, stop in blocks)
        if not is_code and not re.match(r"[a-z]+:", link[2]):
            yield link


def text_of(path: PurePosixPath) -> str:
    """A file as a page: Markdown as it is, others in a block of code, folders as lists of their programs."""
    file = ROOT / path
    if file.is_dir():
        programs = sorted(program.name for program in file.glob("*.py"))
        return f"# {path}\n\n" + "".join(f"- [{name}]({path.name}/{name})\n" for name in programs)
    if file.suffix == ".md":
        return file.read_text()
    return f"# {path}\n\n```{LANGUAGES.get(file.suffix, 'text')}\n{file.read_text()}```\n"


def gather() -> dict[PurePosixPath, str | Path]:
    """All of the site: of each page its text, of each picture its file, by where it stands.

    Raises:
        FileNotFoundError: if a link leads to no file.
    """
    found: dict[PurePosixPath, str | Path] = {}
    to_do = [
        PurePosixPath("README.md"),
        PurePosixPath("CHANGELOG.md"),
        PurePosixPath("CONTRIBUTING.md"),
        PurePosixPath("SECURITY.md"),
        *(PurePosixPath(page.relative_to(ROOT).as_posix()) for page in sorted((ROOT / "docs").rglob("*.md"))),
    ]
    while to_do:
        path = to_do.pop()
        here = place(path)
        if here in found:
            continue
        if path.suffix in COPIED:
            found[here] = ROOT / path
            continue
        text = text_of(path)
        parts, end = [], 0
        for link in links(text):
            target = PurePosixPath(os.path.relpath(ROOT / path.parent / link[2], ROOT))
            if not (ROOT / target).exists():
                raise FileNotFoundError(f"{path} links to {link[2]}, which is not there")
            to_do.append(target)
            moved = os.path.relpath(place(target), here.parent)
            parts += [text[end : link.start()], link[1], moved, link[3] or "", link[4]]
            end = link.end()
        found[here] = "".join([*parts, text[end:]])
    return found


def title(text: str) -> str:
    """The first heading of a page, without signs of Markdown, up to a colon; "" if there is none."""
    heading = re.search(r"^# (?:fastresume: )?(.+)$", text, re.MULTILINE)
    words = re.sub(r"[`*]|^Coming from ", "", heading[1]).split(":")[0] if heading else ""
    return words[:1].upper() + words[1:] if " " in words else words


def nav(pages: dict[PurePosixPath, str | Path]) -> list[dict[str, object]]:
    """The navigation: each page once, under its kind."""
    first = {name: kind for kind, names in KINDS.items() for name in names}
    titles = {str(page): title(text) for page, text in pages.items() if isinstance(text, str)}
    rest: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for page in sorted(titles, key=lambda page: titles[page].lower()):
        if page not in first and page != "index.md":
            rest[FOLDERS.get(str(PurePosixPath(page).parent), "Project")].append(page)
    sections = {
        kind: [{titles[page]: page} for page in [*[name for name in names if name in titles], *rest[kind]]]
        for kind, names in KINDS.items()
    }
    return [{"fastresume": "index.md"}, *({kind: pages} for kind, pages in sections.items())]


def wrapped(pages: dict[PurePosixPath, str | Path]) -> dict[PurePosixPath, str | Path]:
    """The pages with their Python in lines of at most 88 characters, as ruff breaks them."""
    texts = [text for text in pages.values() if isinstance(text, str)]
    blocks = sorted({block for text in texts for block in PYTHON.findall(text)})
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.py") for number in range(len(blocks))]
        for file, block in zip(files, blocks, strict=True):
            file.write_text(block)
        # An excerpt that is no whole program stays as it is: ruff formats the others.
        run("ruff", "format", "--isolated", "--quiet", "--line-length=88", folder)
        formatted = {block: file.read_text() for file, block in zip(files, blocks, strict=True)}

    def block_of(found: re.Match[str]) -> str:
        whole, start = found[0], found.start(1) - found.start()
        return whole[:start] + formatted[found[1]] + whole[start + len(found[1]) :]

    return {
        page: PYTHON.sub(block_of, text) if isinstance(text, str) else text for page, text in pages.items()
    }


def web_address(remote: str) -> str | None:
    """Where people look at a repository, by its remote; None of a path, or of an address with a secret."""
    found = re.fullmatch(r"(?:https://|ssh://git@|git@)([\w.-]+)[:/]([\w./-]+?)(?:\.git)?/?", remote.strip())
    return f"https://{found[1]}/{found[2]}" if found else None


def about() -> dict[str, str]:
    """The settings that say which release this is, and where its repository is, if it has a remote."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    remote = subprocess.run(  # noqa: S603  (git, with arguments of ours)
        ["git", "-C", str(ROOT), "remote", "get-url", "origin"],  # noqa: S607  (git is where it is)
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    address = web_address(remote.stdout)
    settings = {"site_name": f"fastresume {version}"}
    return settings if address is None else settings | {"repo_url": address, "repo_name": "Repository"}


def write() -> Path:
    """Write pages and settings into target/site, and return the file of settings."""
    pages = wrapped(gather())
    shutil.rmtree(SITE, ignore_errors=True)
    for page, content in pages.items():
        there = SITE / "pages" / page
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(content.read_bytes() if isinstance(content, Path) else content.encode())
    settings = SITE / "mkdocs.yml"
    # JSON is YAML.
    made = {**about(), "nav": nav(pages)}
    lines = "".join(f"{name}: {json.dumps(value)}\n" for name, value in made.items())
    settings.write_text((ROOT / "mkdocs.yml").read_text() + "\n" + lines)
    return settings


def build() -> int:
    """Build the site, and return 0, or 1 if there was a warning: of a link, a heading, or a docstring."""
    said = run("zensical", "build", "--clean", "--strict", "-f", str(write()))
    sys.stdout.write(said.stdout)
    is_warned = "griffe:" in said.stdout  # zensical does not count what is said of docstrings
    return int(said.returncode != 0 or is_warned)


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment, and keep what it says."""
    command = [str(Path(sys.executable).with_name(program)), *arguments]
    return subprocess.run(  # noqa: S603  (a program of the environment)
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )


if __name__ == "__main__":
    sys.exit(build())
