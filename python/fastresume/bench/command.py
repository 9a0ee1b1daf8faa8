"""The arguments of `fastresume bench`, and the run itself."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fastresume._core import FastresumeError, cores
from fastresume.bench.contenders import CONTENDERS, missing, named, rival_of
from fastresume.bench.outputs import Outputs, require
from fastresume.bench.progress import Progress
from fastresume.bench.report import Report
from fastresume.bench.survey import survey, warm
from fastresume.bench.task import Task
from fastresume.bench.turns import ContenderError, Turns

FINE, NOT_FINE, UNUSABLE, NOT_WRITTEN = 0, 1, 2, 3
INTERRUPTED = 130
"""A shell's exit status after SIGINT: 128 and the number of the signal."""

PLACES, QUICK_PLACES = (0, 50, 90, 99), (0, 90)


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    command.add_argument("paths", metavar="PATH", nargs="+", help="files, directories or glob patterns")
    command.add_argument(
        "--columns",
        metavar="NAMES",
        type=_list,
        help="names or patterns, with commas (default: all that can be read)",
    )
    command.add_argument(
        "--batch-size", metavar="N", type=positive, default=4096, help="(default: %(default)s)"
    )
    command.add_argument("--rounds", metavar="N", type=positive, help="turns of each contender (default: 5)")
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
        "--threads", metavar="N", type=positive, default=cores(), help="(default: %(default)s)"
    )
    command.add_argument("--quick", action="store_true", help="one round, and fewer resumes")
    command.add_argument("--no-resume", action="store_true", help="measure no resumes")
    command.add_argument("--json", metavar="FILE", type=Path, help="write every measurement")
    command.add_argument("--plot", metavar="FILE", type=Path, help="draw a picture, such as out.png")


def run(given: argparse.Namespace) -> int:
    """The exit status: 0 if all delivered the same rows, 1 if not, 2 if nothing can be measured.

    It is 3 if an output file could not be written, and 130 after an interruption, whatever the rows.
    """
    try:
        return _run(given, Outputs(given.json, given.plot))
    except KeyboardInterrupt:
        # A second interruption, while the measurements are written, ends that, too.
        return INTERRUPTED


def _run(given: argparse.Namespace, outputs: Outputs) -> int:
    try:
        outputs.check()
        report = measure(given)
    except KeyboardInterrupt:
        sys.stderr.write("fastresume bench: interrupted before a round was whole\n")
        return INTERRUPTED
    except (FastresumeError, ContenderError, OSError, ValueError) as cause:
        sys.stderr.write(f"fastresume bench: {cause}\n")
        return UNUSABLE
    sys.stdout.write("\n".join(report.lines()) + "\n")
    problems = outputs.write(report)
    for problem in problems:
        sys.stderr.write(f"fastresume bench: {problem}\n")
    if report.is_interrupted:
        return INTERRUPTED
    if problems:
        return NOT_WRITTEN
    return NOT_FINE if report.faults else FINE


def measure(given: argparse.Namespace) -> Report:
    """Read the files with all contenders; an interruption leaves the complete rounds, if any.

    Raises:
        FastresumeError, OSError, ValueError: if the files can't be read or measured.
        ContenderError: if even the plainest reader fails.
        KeyboardInterrupt: if no round was complete by then.
    """
    require("pyarrow", "to check what is delivered")
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
        taken = turns.take(names, progress)
    finally:
        progress.close()
    rival = given.against or rival_of(present)
    expected, measured, is_interrupted = taken.expected, taken.measured, taken.is_interrupted
    return Report(found, task, expected, measured, rival, rounds, places, is_interrupted)


def _list(text: str) -> list[str]:
    names = [part.strip() for part in text.split(",") if part.strip()]
    if not names:
        raise argparse.ArgumentTypeError(f"expected names, with commas between them, found {text!r}")
    return names


def positive(text: str) -> int:
    """The positive number in an argument.

    Raises:
        ArgumentTypeError: if it is not one.
    """
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, found {text!r}")
    return number
