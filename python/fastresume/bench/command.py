"""The run of `fastresume bench`."""

from __future__ import annotations

import argparse
import sys

from fastresume._core import FastresumeError
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
