"""What becomes of a job that is killed and resumed, here and with other loaders.

    make bench-resumes
    make bench-resumes ARGS='fastresume torchdata --results -'

All loaders read the same 9,600 made rows, each with an id. Each rank is a process. It saves its state after
20 batches of 16, and is killed with SIGKILL after 23, together with its workers. The job is then resumed as
the loader's documentation says, on the same ranks and workers or on others, and read to the end of the pass.
The rows before the state and those after the resume are counted: none may be missing, none may come twice.
`benches/beside/loaders.py` has the code of each loader.

The first batch is timed in one process without workers, on 38,400 shuffled rows: the seconds from opening the
files, after a resume at 90 %, over those of a fresh start. It is the median of 5, taken in turns.

Mosaic's package asks for older ones than the others do: `--python mosaic=PATH` names an interpreter with it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from beside.answers import QUESTIONS, Answers, answer
from beside.lives import Crew, scratch
from beside.loaders import LOADERS, write_parquet
from fastresume.bench import machine
from page import tell

RIVALS = [name for name in LOADERS if name != "fastresume"]
TESTS = (
    "tests/audit/test_audit.py",
    "tests/resume/test_elastic.py",
    "tests/resume/test_elastic.py",
    "tests/resume/test_elastic.py",
    "tests/resume/test_elastic.py",
    "tests/resume/test_elastic.py",
    "tests/resume/test_resume.py",
    "tests/resume/test_resume.py",
    "tests/resume/test_cursor.py",
    "tests/resume/test_seek.py",
    "tests/mixing/test_mixture.py",
)
CHECKED = dict(zip(QUESTIONS, TESTS, strict=True))
"""Of each question a test of fastresume on other data, which is larger or drawn at random."""
RESULTS = Path(__file__).parents[1] / "RESULTS.md"

SECTION = """
## Resumes beside others

Written by `make bench-resumes`; the head of `measure/resumes.py` says what is measured, and how. Each loader
is used as `beside/loaders.py` says. The README has the same table.

- date: {date}
- machine: {machine}
- versions: {versions}

{table}

"Exact" is each row once. Of 9,600 rows, "lost" ones were never delivered, and "repeated" ones twice. The
first six lines are in the order of the files. One batch later, the rows that are left fill no whole number of
batches on 2 ranks.

- `StatefulDataLoader` and Grain take rows by their number: the ids are in memory. Over a stream without a
  state, `StatefulDataLoader` reads up to the place ([criteo](#criteo)). Its mixture is torchdata's
  `MultiNodeWeightedSampler`.
- Grain is used through its experimental `ElasticIterator`. It takes no filter and no packing, and drops rows
  that fill no global batch. So does fastresume, unless `tail="short"` is asked for, as here.
- The stream of HF datasets shuffles in a buffer of 100 rows.
- litdata and Mosaic read copies of the rows in their own formats.
- Mosaic draws rows of a mixture at random: only rows that were repeated are counted.
- Zephon has 6 lanes. Its workers are threads, of which there is one at least.

What those said that refused or failed:

{said}

fastresume's column is also checked on other data, by

{checked}
"""


def version(loader: str, python: str) -> str:
    """The version of a loader's package, as its interpreter has it."""
    code = f"import importlib.metadata as m; print(m.version({LOADERS[loader].package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def seen(loader: str, directory: Path, python: str, questions: Sequence[str]) -> dict[str, tuple[str, str]]:
    """What this loader did, by question, and what it said."""
    crew = Crew(loader, directory / f"crew-{loader}", python)
    try:
        if LOADERS[loader].write is not write_parquet:
            crew.ask([{"what": "write", "directory": str(directory)}], seconds=900)
        answers = Answers(crew, directory)
        found = {}
        for question in questions:
            found[question] = answer(question, answers)
            print(f"{loader}: {question}: {': '.join(filter(None, found[question]))}", flush=True)
        return found
    finally:
        crew.close()


Found = Mapping[str, Mapping[str, tuple[str, str]]]
"""By loader and question: what was seen, and what was said."""


def table(found: Found) -> str:
    """A line for each question, a column for each loader."""
    titles = " | ".join(LOADERS[loader].title for loader in found)
    lines = [f"| | {titles} |", "|---" * (len(found) + 1) + "|"]
    for question in next(iter(found.values())):
        cells = " | ".join(answers[question][0] for answers in found.values())
        lines += [f"| {question} | {cells} |"]
    return "\n".join(lines)


def said(found: Found) -> str:
    """The first words of each error."""
    asked: dict[tuple[str, str], list[str]] = {}
    for loader, cells in found.items():
        for question, (_, words) in cells.items():
            if words:
                asked.setdefault((LOADERS[loader].title, words), []).append(question)
    return "\n".join(
        f"- {title}, {'; '.join(questions)}: `{words}`" for (title, words), questions in asked.items()
    )


def section(found: Found, pythons: Mapping[str, str]) -> str:
    """The section of the page."""
    own, facts = machine.versions(), machine.facts()
    versions = [f"{name} {own[name]}" for name in ("fastresume", "torch", "Python")]
    versions += [
        f"{LOADERS[name].package} {version(name, pythons[name])}" for name in found if name in RIVALS
    ]
    return SECTION.format(
        date=facts["date"],
        machine=facts["machine"],
        versions=", ".join(versions),
        table=table(found),
        said=said(found) or "- nothing",
        checked="\n".join(f"- {question}: `{path}`" for question, path in CHECKED.items()),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("loaders", nargs="*", metavar="NAME", help=f"of {', '.join(LOADERS)} (default: all)")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="of a loader")
    parser.add_argument("--results", default=str(RESULTS), help="the page; - for none")
    options = parser.parse_args(arguments)
    if unknown := set(options.loaders) - set(LOADERS):
        parser.error(f"no loader is called {min(unknown)!r}; there are {', '.join(LOADERS)}")
    pythons = dict.fromkeys(LOADERS, sys.executable) | dict(each.split("=", 1) for each in options.python)
    found = {}
    with scratch() as directory:
        write_parquet(directory)
        for loader in options.loaders or LOADERS:
            found[loader] = seen(loader, Path(directory), pythons[loader], list(QUESTIONS))
    tell(section(found, pythons), options.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
