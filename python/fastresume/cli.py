"""The command line: `fastresume audit DIR` and `fastresume bench PATHS`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from fastresume._core import StateError, __version__
from fastresume.audit.verify import Declared, Report, audit
from fastresume.bench import command as bench
from fastresume.state.cursor import KEY, Cursor

PROVEN, NOT_PROVEN, UNUSABLE = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0 for success, 1 for a failed check, 2 if the check is impossible."""
    parser = argparse.ArgumentParser(prog="fastresume", description="Tools for fastresume.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    add_audit(
        commands.add_parser(
            "audit",
            help="prove from delivery logs that every row was delivered exactly once",
            description="Reads the delivery logs of all runs and ranks of a job, which Loader(audit=DIR) "
            "wrote, and proves that every row of every finished pass was delivered exactly once, or says "
            "which were not. Exit status: 0 if it is proven, 1 if it is not, 2 if the logs can't be read.",
        )
    )
    add_bench(
        commands.add_parser(
            "bench",
            help="measure this reader beside what else is installed, on your own files",
            description="Reads files by this reader and by what is installed of pyarrow, polars, DuckDB, HF "
            "datasets, torch DataLoader and torchdata: each in processes of its own, in turns. Checks that "
            "all deliver the same rows. Exit status: 0 if they do, 1 if one fails or does not, 2 if nothing "
            "can be measured; whatever the rows, 3 if a file could not be written in the end, and 130 after "
            "Ctrl-C, which shows the rounds that were whole.",
        )
    )
    given = parser.parse_args(arguments)
    status: int = given.run(given)
    return status


def add_audit(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `fastresume audit`."""
    command.add_argument("directory", metavar="DIR", type=Path, help="where the logs are")
    command.add_argument(
        "--start",
        metavar="STATE",
        action="append",
        default=[],
        help="a state that a run was meant to start from though no log leads to it: a file with the JSON of "
        "a state_dict(), or that text; what was delivered before it is taken on trust; may be repeated",
    )
    command.add_argument(
        "--passes",
        metavar="N",
        type=int,
        default=0,
        help="demand N finished passes of each dataset and order",
    )
    command.set_defaults(run=run_audit)


def add_bench(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `fastresume bench`."""
    bench.add_arguments(command)
    command.set_defaults(run=bench.run)


def run_audit(given: argparse.Namespace) -> int:
    """The exit status: 0 if all is proven, 1 if it is not, 2 if the logs can't be read."""
    try:
        report = audit(given.directory, [declared(text) for text in given.start])
    except (OSError, StateError) as cause:
        return _refuse(str(cause))
    if report.logs == 0:
        return _refuse(f"{given.directory}: there is no delivery log (rank-*.log) in this directory")
    if min(report.finished, default=0) < given.passes:
        found = min(report.finished, default=0)
        report.problem(f"--passes {given.passes}: {found} finished passes are proven")
    lines = "\n".join([*report.lines, verdict(report)]) + "\n"
    # Names of files need be no text.
    sys.stdout.write(lines.encode(errors="backslashreplace").decode())
    return NOT_PROVEN if report.problems else PROVEN


def verdict(report: Report) -> str:
    """The last line of the report."""
    if report.problems:
        return f"NOT PROVEN: {report.problems} problem{'s' if report.problems > 1 else ''}"
    passes = sum(report.finished)
    if passes == 0:
        return "PROVEN so far: no row was delivered twice; no pass is finished yet"
    return f"PROVEN: {passes} finished pass{'es' if passes > 1 else ''}, every row delivered exactly once"


def declared(text: str) -> Declared:
    """The state that `--start` names.

    Raises:
        StateError: if it is no state, or the file can't be read; says which was meant.
    """
    source = "--start"
    try:
        if not text.lstrip().startswith("{"):
            source = f"--start {text}"
            text = Path(text).read_text()
        state = json.loads(text)
        # A state may be nested under a name, as in the checkpoint that it was saved in.
        if isinstance(state, dict) and KEY not in state and len(state) == 1:
            (state,) = state.values()
        cursor = Cursor.from_state(state)
    except UnicodeDecodeError:
        raise StateError(f"{source}: it is not text; save json.dumps(state) for the audit") from None
    except (OSError, ValueError) as cause:  # a StateError is also a ValueError
        raise StateError(f"{source}: {cause}") from None
    return Declared(cursor.to_state()[KEY], cursor.remaining())


def _refuse(reason: str) -> int:
    sys.stderr.write(f"fastresume audit: {reason}\n")
    return UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
