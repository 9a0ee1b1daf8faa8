"""The run of `fastresume bench`."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from fastresume._core import FastresumeError
from fastresume.bench.contenders import CONTENDERS, missing, named, rival_of
from fastresume.bench.outputs import Outputs, require
from fastresume.bench.progress import Progress
from fastresume.bench.report import Report
from fastresume.bench.storage import size_bytes
from fastresume.bench.survey import listed, survey, warm
from fastresume.bench.task import Task
from fastresume.bench.turns import ContenderError, Turns

FINE, NOT_FINE, UNUSABLE, NOT_WRITTEN = 0, 1, 2, 3
INTERRUPTED = 130
TERMINATED = 143
"""A shell's exit statuses after SIGINT and SIGTERM: 128 and the number of the signal."""

PLACES = (0, 50, 90, 99)

QUICK_CONTENDERS = ("fastresume-stacked", "pyarrow", "polars")
QUICK_BYTES = 64 << 20
"""What `--quick` measures: so few contenders, and the first files up to so many bytes, at least one file."""


def run(given: argparse.Namespace) -> int:
    """The exit status: 0 if all delivered the same rows, 1 if not, 2 if nothing can be measured.

    It is 3 if an output file could not be written, 130 after an interruption and 143 after SIGTERM, whatever
    the rows.
    """
    with _terminations() as terminations:
        try:
            status = _run(given, Outputs(given.json, given.plot))
        except KeyboardInterrupt:
            # A second interruption, while the measurements are written, ends that, too.
            status = INTERRUPTED
    return TERMINATED if status == INTERRUPTED and terminations else status


@contextmanager
def _terminations() -> Iterator[list[int]]:
    """SIGTERM, as a scheduler sends it, ends measuring as Ctrl-C does; the list is filled if it came."""
    came: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        came.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # others may set no handler
        yield came
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield came
    finally:
        signal.signal(signal.SIGTERM, before)


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
    usual = [name for name, one in CONTENDERS.items() if one.is_default]
    names = given.contenders or (list(QUICK_CONTENDERS) if given.quick else usual)
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"the contender {min(repeated)!r} is named more than once")
    present = [name for name in names if not missing(named(name))]
    if not present:
        raise ValueError(f"none of the contenders is installed: {', '.join(names)}")
    if given.against is not None and given.against not in present:
        raise ValueError(f"--against {given.against}: it takes no part; there are {', '.join(present)}")
    options = dict(given.storage_options)
    found = survey(_quick_paths(given.paths, options) if given.quick else given.paths, given.columns, options)
    task = Task(found.files, found.columns, given.batch_size, given.threads, found.num_rows, options)
    warm(found.files)
    rounds = given.rounds or (1 if given.quick else 5)
    places = () if given.no_resume or given.quick else PLACES
    turns = Turns(task, rounds, 0.0 if given.quick else 1.0, places)
    progress = Progress(turns.count_steps(names))
    try:
        taken = turns.take(names, progress)
    finally:
        progress.close()
    rival = given.against or rival_of(present)
    expected, measured, is_interrupted = taken.expected, taken.measured, taken.is_interrupted
    report = Report(found, task, expected, measured, rival, rounds, places, is_interrupted)
    if not given.quick:
        return report
    absent = [name for name in usual if name not in names]
    return replace(report, not_measured=_left_out(given, len(found.files), absent))


def _quick_paths(paths: Sequence[str], storage_options: Mapping[str, str]) -> list[str]:
    """The first files, up to some bytes."""
    chosen: list[str] = []
    total = 0
    for path in listed(paths, storage_options):
        total += size_bytes(path, storage_options)
        if chosen and total > QUICK_BYTES:
            break
        chosen.append(path)
    return chosen


def _left_out(given: argparse.Namespace, files: int, absent: Sequence[str]) -> str:
    """What a quick run has not measured, in words."""
    of = len(listed(given.paths, dict(given.storage_options)))
    parts = ["resumes", *([] if given.rounds else ["all rounds but one, so that there are no ranges"])]
    if files < of:
        parts.append(f"{of - files} of {of} files")
    if absent and not given.contenders:
        parts.append(", ".join(absent))
    return "; ".join(parts)
