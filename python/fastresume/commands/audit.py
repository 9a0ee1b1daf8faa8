"""The run of `fastresume audit`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from fastresume._core import StateError
from fastresume.amounts import plural
from fastresume.audit.place import Place
from fastresume.audit.report import Report
from fastresume.audit.verify import audit
from fastresume.commands.state_file import named
from fastresume.messages import in_words, some_of
from fastresume.options.checks import local_path, quoted
from fastresume.state.cursor import KEY

PROVEN, NOT_PROVEN, UNUSABLE = 0, 1, 2


def run(given: argparse.Namespace) -> int:
    """The exit status: 0 if all is proven, 1 if it is not, 2 if the logs can't be read."""
    try:
        directory = logged(Path(local_path(given.directory)))
        report = audit(directory, [declared(text) for text in given.start])
    except (OSError, StateError) as cause:
        return _refuse(in_words(cause))
    if not report.counted and not report.problems:
        return _refuse(f"{directory}: {plural(report.logs, 'log')} without a batch: nothing to prove")
    found = min(report.finished, default=0)
    if found < given.passes:
        details = []
        if report.reopened:
            times = "once" if report.reopened == 1 else f"{report.reopened} times"
            details = [f"files came after a finished pass {times}: it continued with them, and counts once"]
        passes = "1 finished pass is" if found == 1 else f"{found} finished passes are"
        least = [name for name, count in zip(report.names, report.finished, strict=True) if count == found]
        of_source = f" of source {some_of(list(map(quoted, least)))}" if all(least) and least else ""
        report.problem(f"--passes {given.passes}: {passes} proven{of_source}", details)
    text = as_json(directory, report) if given.json else "\n".join([*report.lines, coloured(verdict(report))])
    # Names of files need be no text.
    sys.stdout.write(f"{text}\n".encode(errors="backslashreplace").decode())
    return NOT_PROVEN if report.problems else PROVEN


def logged(directory: Path) -> Path:
    """The directory if it has delivery logs, else the one inside it that has.

    Raises:
        StateError: if none has, or several have.
        OSError: if it can't be read.
    """
    if not directory.is_dir():
        next(directory.iterdir())  # the error of the system, which names it
    for level in ("", "*/", "*/*/"):
        found = sorted({log.parent for log in directory.glob(f"{level}rank-*.log")})
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(str(each) for each in found[:5])
            raise StateError(
                f"{directory}: {len(found)} directories in it have delivery logs; name one, or move the logs "
                f"of all ranks of a job into one: {names}"
            )
    raise StateError(f"{directory}: there is no delivery log (rank-*.log) in this directory")


def as_json(directory: Path, report: Report) -> str:
    """The report for programs."""
    found = {
        "directory": str(directory),
        "proven": report.problems == 0,
        "verdict": verdict(report),
        "problems": report.problems,
        "finished_passes": report.finished,
        "counted": sorted(report.counted),
        "masked": report.masked,
        "reopened": report.reopened,
        "logs": report.logs,
        "lines": report.lines,
    }
    return json.dumps(found, indent=2)


def verdict(report: Report) -> str:
    """The last line of the report."""
    if report.problems:
        return f"NOT PROVEN: {report.problems} problem{'s' if report.problems > 1 else ''}"
    passes, counted = sum(report.finished), " or ".join(each[:-1] for each in sorted(report.counted))
    if passes == 0:
        return f"PROVEN so far: no {counted} was delivered twice; no pass is finished yet"
    said = (
        f"PROVEN: {passes} finished pass{'es' if passes > 1 else ''}, every {counted} delivered exactly once"
    )
    return f"{said}; {report.masked} of them masked as not valid, as listed" if report.masked else said


def coloured(verdict: str) -> str:
    """The verdict, green or red where standard output is a terminal and `NO_COLOR` is not set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return verdict
    return f"\033[{32 if verdict.startswith('PROVEN') else 31}m{verdict}\033[0m"


def declared(text: str) -> str:
    """The text of the state that `--start` names.

    Raises:
        StateError: if it is no state, or the file can't be read; says which was meant.
    """
    is_text = text.lstrip().startswith("{")
    try:
        _, cursor = named(text)
        found = cursor.to_state()[KEY]
        Place(found)  # which says here what the audit does not understand
    except (OSError, ValueError) as cause:  # a StateError is also a ValueError
        raise StateError(f"{'--start' if is_text else f'--start {text}'}: {in_words(cause)}") from None
    return found


def _refuse(reason: str) -> int:
    sys.stderr.write(f"fastresume audit: {reason}\n")
    return UNUSABLE
