"""The command line: `fastresume inspect`, `state`, `audit` and `bench`."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from fastresume._core import __version__
from fastresume.bench import arguments as bench
from fastresume.commands.command_parser import CommandParser


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status of the command: 0 for success, 1 for a failed check, 2 if the check is impossible."""
    parser = argparse.ArgumentParser(prog="fastresume", description="Tools for fastresume.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=CommandParser)
    add_inspect(
        commands.add_parser(
            "inspect",
            help="tell what files hold, where they differ, and what to write to read them",
            description="Reads the footers of Parquet files: columns, nulls, sizes, where files differ, and "
            "the Python that reads them. Exit status: 0, or 2 if a file can't be read.",
        )
    )
    add_state(
        commands.add_parser(
            "state",
            help="tell what a state says, and whether it fits files",
            description="Reads a state: its dataset, pass, step and rows left. With PATH, says whether it "
            "fits these files, and if not, why. Exit status: 0, 1 if it does not fit, 2 if it is no state.",
        )
    )
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
            "Ctrl-C or 143 after SIGTERM, which show the rounds that were whole. Each turn is shown on "
            "standard error as it ends.",
        )
    )
    if sys.stdout is None:  # it was closed, as that of daemons may be: the exit status says it all
        sys.stdout = io.StringIO()
    given = parser.parse_args(arguments)
    try:
        status: int = given.run(given)
        sys.stdout.flush()
    except OSError as error:  # of standard output: commands tell of their files themselves
        if not isinstance(error, BrokenPipeError):
            sys.stderr.write(f"fastresume: standard output can't be written: {error.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in its buffer goes there at the exit
        return 2
    return status


def add_inspect(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `fastresume inspect`."""
    command.add_argument(
        "path", metavar="PATH", nargs="+", help="a file, a directory, a glob pattern or an address"
    )
    command.add_argument(
        "--batch-size",
        metavar="N",
        type=bench.positive,
        help="rows of a batch (512, or all if these are fewer)",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run_inspect)


def add_state(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `fastresume state`."""
    command.add_argument(
        "file",
        metavar="FILE",
        help="the JSON of a state_dict(), a file of torch.save that holds one, a directory of checkpoints, "
        "- for standard input, or the JSON text itself",
    )
    command.add_argument("path", metavar="PATH", nargs="*", default=[], help="files that it is compared with")
    command.add_argument(
        "--key",
        metavar="KEY",
        help="which of several states of a file, by the keys that lead to it: train.data",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run_state)


def add_audit(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `fastresume audit`."""
    command.add_argument("directory", metavar="DIR", help="where the logs are, or the run's directory")
    command.add_argument(
        "--start",
        metavar="STATE",
        action="append",
        default=[],
        help="a state that a run was meant to start from though no log leads to it: a file or directory as "
        "`fastresume state` takes it, or the JSON text; what was delivered before it is taken on trust; "
        "may be repeated",
    )
    command.add_argument(
        "--passes",
        metavar="N",
        type=bench.not_negative,
        default=0,
        help="demand N finished passes of each dataset and order",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.set_defaults(run=run_audit)


def add_bench(command: argparse.ArgumentParser) -> None:
    """Add the arguments of `fastresume bench`."""
    bench.add_arguments(command)
    command.set_defaults(run=run_bench)


def run_inspect(given: argparse.Namespace) -> int:
    """The exit status of `fastresume inspect`."""
    from fastresume.commands import inspect

    return inspect.run(given)


def run_state(given: argparse.Namespace) -> int:
    """The exit status of `fastresume state`."""
    from fastresume.commands import state

    return state.run(given)


def run_audit(given: argparse.Namespace) -> int:
    """The exit status of `fastresume audit`. Its module is imported here: it needs numpy and torch."""
    from fastresume.commands import audit

    return audit.run(given)


def run_bench(given: argparse.Namespace) -> int:
    """The exit status of `fastresume bench`."""
    from fastresume.bench import command

    return command.run(given)
