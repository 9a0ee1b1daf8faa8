"""The arguments of `fastresume bench`, and what follows from them."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from fastresume._core import FastresumeError
from fastresume.bench import machine
from fastresume.bench.contenders import CONTENDERS, missing, named, rival_of
from fastresume.bench.plot import draw
from fastresume.bench.progress import Progress
from fastresume.bench.report import Report
from fastresume.bench.survey import survey, warm
from fastresume.bench.task import Task
from fastresume.bench.turns import ContenderError, Turns

FINE, NOT_FINE, UNUSABLE = 0, 1, 2
PLACES, QUICK_PLACES = (0, 50, 90, 99), (0, 90)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add what the command takes."""
    command.add_argument("paths", metavar="PATH", nargs="+", help="files, directories or glob patterns")
    command.add_argument(
        "--columns",
        metavar="NAMES",
        type=_list,
        help="names or patterns, with commas (default: all that can be read)",
    )
    command.add_argument(
        "--batch-size", metavar="N", type=_positive, default=4096, help="(default: %(default)s)"
    )
    command.add_argument("--rounds", metavar="N", type=_positive, help="turns of each contender (default: 5)")
    command.add_argument(
        "--contenders",
        metavar="NAMES",
        type=_list,
        help=f"with commas, of {', '.join(CONTENDERS)}, and readers of your own as MODULE:FUNCTION, which "
        "takes a task and gives batches: tensors by name, Arrow tables or polars frames",
    )
    command.add_argument(
        "--against", metavar="NAME", help="whom to compare with (default: polars, or pyarrow)"
    )
    command.add_argument(
        "--threads", metavar="N", type=_positive, default=machine.cores(), help="(default: %(default)s)"
    )
    command.add_argument("--quick", action="store_true", help="one round, and fewer resumes")
    command.add_argument("--no-resume", action="store_true", help="measure no resumes")
    command.add_argument("--json", metavar="FILE", type=Path, help="write every measurement")
    command.add_argument("--plot", metavar="FILE", type=Path, help="draw a picture, such as out.png")


def run(given: argparse.Namespace) -> int:
    """The exit status: 0 if all delivered the same rows, 1 if not, 2 if nothing can be measured."""
    try:
        report = measure(given)
    except (FastresumeError, ContenderError, OSError, ValueError) as cause:
        sys.stderr.write(f"fastresume bench: {cause}\n")
        return UNUSABLE
    sys.stdout.write("\n".join(report.lines()) + "\n")
    if given.json is not None:
        given.json.write_text(json.dumps(report.to_json(), indent=1) + "\n")
    if given.plot is not None:
        draw(report, given.plot)
    return NOT_FINE if report.faults else FINE


def measure(given: argparse.Namespace) -> Report:
    """Read the files by all contenders.

    Raises:
        FastresumeError, OSError, ValueError: if that can't be.
        ContenderError: if even the plainest reader fails.
    """
    _require("pyarrow", "to check what is delivered")
    if given.plot is not None:
        _require("matplotlib", "for --plot")
    for path in (given.json, given.plot):
        if path is not None and not path.parent.is_dir():
            raise ValueError(f"{path}: there is no directory {path.parent}")
    names = given.contenders or [name for name, one in CONTENDERS.items() if one.is_default]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"the contender {min(repeated)!r} is named more than once")
    present = [name for name in names if not missing(named(name))]
    if not present:
        raise ValueError(f"none of the contenders is installed: {', '.join(names)}")
    if given.against is not None and given.against not in present:
        raise ValueError(f"--against {given.against}: it takes no part; there are {', '.join(present)}")
    found = survey(given.paths, given.columns)
    task = Task(found.files, found.columns, given.batch_size, given.threads, found.num_rows)
    warm(found.files)
    rounds = given.rounds or (1 if given.quick else 5)
    places = () if given.no_resume else QUICK_PLACES if given.quick else PLACES
    turns = Turns(task, rounds, 0.0 if given.quick else 1.0, places)
    progress = Progress(turns.count_steps(names))
    try:
        expected, all_measured = turns.take(names, progress)
    finally:
        progress.close()
    return Report(found, task, expected, all_measured, given.against or rival_of(present), rounds, places)


def _require(package: str, purpose: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{package} is needed {purpose}: pip install {package}")


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, found {number}")
    return number
