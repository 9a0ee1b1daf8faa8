"""The run of `fastresume bench`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType

from fastresume._core import FastresumeError
from fastresume.bench.contenders import OF_JOBS, missing, named, rival_of
from fastresume.bench.outputs import Outputs, require
from fastresume.bench.progress import Progress
from fastresume.bench.report import Report
from fastresume.bench.storage import size_bytes
from fastresume.bench.survey import Survey, listed, mixable, num_tokens, packable, survey, warm
from fastresume.bench.task import Job, Source, Task
from fastresume.bench.turns import ContenderError, Turns
from fastresume.sources.ipc_files import names_arrow

FINE, NOT_FINE, UNUSABLE, NOT_WRITTEN = 0, 1, 2, 3
INTERRUPTED = 130
TERMINATED = 143
"""A shell's exit statuses after SIGINT and SIGTERM: 128 and the number of the signal."""

PLACES = (0, 50, 90, 99)

QUICK_CONTENDERS = ("fastresume-stacked", "pyarrow-tensors", "polars")
QUICK_OTHERS = ("fastresume", "pyarrow", "datasets")
QUICK_BYTES = 64 << 20
"""What `--quick` measures: these contenders (others of Arrow's files, and under --pack and --mix), and
the first files up to this many bytes, at least one file of each dataset."""

TURN_SECONDS = 1.0
"""Passes are repeated in one turn for so long."""

ROWS, SEQUENCES = 4096, 8
"""The size of a batch, if none is given."""


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
    job = _job(given)
    usual = [name for name, one in OF_JOBS[job].items() if one.is_default]
    is_plain = job == "read" and not any(map(names_arrow, given.paths))
    quick = QUICK_CONTENDERS if is_plain else QUICK_OTHERS
    names = given.contenders or (list(quick) if given.quick else usual)
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"the contender {min(repeated)!r} is named more than once")
    present = [name for name in names if not missing(named(name, job))]
    if not present:
        raise ValueError(f"none of the contenders is installed: {', '.join(names)}")
    if given.against is not None and given.against not in present:
        raise ValueError(f"--against {given.against}: it takes no part; there are {', '.join(present)}")
    found, task = _task(given, job)
    warm(found.files)
    rounds = given.rounds or (1 if given.quick else 5)
    places = () if given.no_resume or given.quick or job != "read" else PLACES
    with tempfile.TemporaryDirectory() as scratch:
        turns = Turns(replace(task, scratch=scratch), rounds, TURN_SECONDS, places)
        progress = Progress(turns.count_steps(names))
        try:
            taken = turns.take(names, progress)
        finally:
            progress.close()
    rival = given.against or rival_of(present, task)
    expected, measured, is_interrupted = taken.expected, taken.measured, taken.is_interrupted
    report = Report(found, task, expected, measured, rival, rounds, places, is_interrupted)
    if not given.quick:
        return report
    absent = [name for name in usual if name not in names]
    return replace(report, not_measured=_left_out(given, job, len(found.files), absent))


def _job(given: argparse.Namespace) -> Job:
    """What the arguments ask for.

    Raises:
        ValueError: if they ask for nothing, or for two things, or for what is not measured of Arrow's files.
    """
    if bool(given.paths) == bool(given.mix):
        raise ValueError("name files as PATH, or datasets to mix as --mix PATH:WEIGHT, and not both")
    if given.mix and given.pack:
        raise ValueError("--pack and --mix are measured one at a time")
    if given.pack and given.columns:
        raise ValueError("--pack names the column itself, so leave out --columns")
    job: Job = "pack" if given.pack else "mix" if given.mix else "read"
    paths = given.paths or [path for path, _ in given.mix]
    if job != "read" and (of_arrow := [path for path in paths if names_arrow(path)]):
        raise ValueError(f"--{job} measures files of Parquet, found {of_arrow[0]}")
    return job


def _task(given: argparse.Namespace, job: Job) -> tuple[Survey, Task]:
    """The survey of the files, and what contenders make of them."""
    options = dict(given.storage_options)
    sources = [([path], weight) for path, weight in given.mix or ()] or [(given.paths, 1.0)]
    if given.quick:
        most_bytes = QUICK_BYTES // len(sources)
        sources = [(_quick_paths(paths, options, most_bytes), weight) for paths, weight in sources]
    every = [path for paths, _ in sources for path in paths]
    column, length = given.pack or ("", 0)
    try:
        found = survey(every, [column] if given.pack else given.columns, options)
    except ValueError as error:
        if not column.rpartition(":")[0]:
            raise
        raise ValueError(f"{error}; a length is digits alone, as --pack tokens:2048") from None
    size = given.batch_size or (SEQUENCES if job == "pack" else ROWS)
    if job == "mix":
        found = mixable(found, given.columns)
    task = Task(found.files, found.columns, size, given.threads, found.num_rows, options, length)
    if job == "pack":
        packable(found, column)
        return found, replace(task, num_rows=num_tokens(found, options))
    if job == "read":
        return found, task
    each = []
    for (path, weight), (paths, _) in zip(given.mix, sources, strict=True):
        own = survey(paths, task.names, options)
        each.append(Source(path, own.files, weight, own.num_rows))
    return found, replace(task, sources=tuple(each))


def _quick_paths(paths: Sequence[str], storage_options: Mapping[str, str], most_bytes: int) -> list[str]:
    """The first files, up to some bytes."""
    chosen: list[str] = []
    total = 0
    for path in listed(paths, storage_options):
        total += size_bytes(path, storage_options)
        if chosen and total > most_bytes:
            break
        chosen.append(path)
    return chosen


def _left_out(given: argparse.Namespace, job: Job, files: int, absent: Sequence[str]) -> str:
    """What a quick run has not measured, in words."""
    paths = given.paths or [path for path, _ in given.mix]
    of = len(listed(paths, dict(given.storage_options)))
    parts = ["resumes"] if job == "read" else []
    parts += [] if given.rounds else ["all rounds but one, so that there are no ranges"]
    if files < of:
        parts.append(f"{of - files} of {of} files")
    if absent and not given.contenders:
        parts.append(", ".join(absent))
    return "; ".join(parts)
