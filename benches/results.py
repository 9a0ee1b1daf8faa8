"""Measures this reader beside what a user would take instead, on made data, and writes benches/RESULTS.md.

    make bench                              # build for release, make the data, measure
    make bench ARGS='criteo tokens --rounds 7 --rows 4194304 --results -'

What is measured, and how, `fastresume bench` says, and `data.py` what the data sets are. They are made once
and stay in the directory for the next time.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import data
import page
from fastresume._core import IS_OPTIMIZED, FastresumeError, cores
from fastresume.bench import arguments as bench_arguments
from fastresume.bench import command, machine
from fastresume.bench.report import Report
from fastresume.bench.turns import ContenderError

HERE = Path(__file__).resolve().parent
RESUMED = "criteo"
"""The data set on which resumes are measured, and all contenders take part. Elsewhere only those do that read
the fastest: worker processes take ten times as long for the same, and would have most of the time."""

FAST = ("fastresume", "fastresume-shuffled", "fastresume-threads", "polars", "pyarrow", "pyarrow-dataset")
FLAT = ("criteo_zstd", "criteo_nulls", "criteo_large")
"""Here there is something to stack."""

PAGE = """\
# Results

Written by `make bench`; `fastresume bench --help` says how it is measured, and measures the same on your
own files. Every contender delivered the same rows (a checksum of every value is compared), in processes of
its own, in turns with the others. Medians of {rounds} rounds, with their ranges. Compare ratios within one
table, not figures of different days or machines; where ranges are wide, the machine had other work to do as
well.

- date: {date}
- machine: {machine}
- versions: {versions}

A GB is 10^9 bytes of values, as tensors have them. CPU seconds are user and system time of all threads and
worker processes, from opening the files to the end of the pass, after a second of reading that does not
count. The peak is that of resident memory, with and without what imports take. Contenders that decode only
make no tensors and no batches. After a resume the first batch is the one that would have come next: its
checksum is compared.
"""

SECTION = """
## {name}

{rows:,} rows in {files} files and {row_groups} row groups, {columns} columns; {decoded:.0f} bytes a row
decoded, {stored:.0f} as stored. Batches of {batch_size}, up to {threads} threads.

{tables}
"""


def measure(name: str, directory: Path, options: argparse.Namespace) -> Report:
    """Make the data set if it is not there; have all contenders read it."""
    path = data.made(name, directory, options.rows)
    arguments = [str(path), "--rounds", str(options.rounds), "--threads", str(options.threads)]
    contenders = options.contenders
    if contenders is None and name != RESUMED:
        contenders = ",".join([*FAST, "fastresume-stacked"] if name in FLAT else FAST)
    if contenders is not None:
        arguments += ["--contenders", contenders]
    if name != RESUMED:
        arguments += ["--no-resume"]
    parser = argparse.ArgumentParser()
    bench_arguments.add_arguments(parser)
    return command.measure(parser.parse_args(arguments))


def section(name: str, report: Report) -> str:
    survey, rows = report.survey, report.survey.num_rows
    tables = report.pass_table()
    if report.places:
        tables += ["", *report.resume_table()]
    return SECTION.format(
        name=name,
        rows=rows,
        files=len(survey.files),
        row_groups=survey.row_groups,
        columns=len(survey.columns),
        decoded=report.decoded_bytes / rows,
        stored=survey.stored_bytes / rows,
        batch_size=report.task.batch_size,
        threads=report.task.threads,
        tables="\n".join(tables),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(data.KINDS)} (default: all)")
    parser.add_argument(
        "--rows", type=data.positive, default=data.ROWS, help="of criteo; the others keep step (%(default)s)"
    )
    parser.add_argument("--rounds", type=bench_arguments.positive, default=3, help="(%(default)s)")
    parser.add_argument("--threads", type=bench_arguments.positive, default=cores(), help="(%(default)s)")
    parser.add_argument("--contenders", help="as `fastresume bench` takes them")
    parser.add_argument(
        "--directory", type=Path, default=HERE.parent / "target" / "bench", help="of the data"
    )
    parser.add_argument("--results", default=str(HERE / "RESULTS.md"), help="the page; - for none")
    parser.add_argument("--json", type=Path, help="where to write every measurement")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(data.KINDS):
        parser.error(f"no data set is called {min(unknown)!r}; there are {', '.join(data.KINDS)}")
    if not IS_OPTIMIZED:
        sys.exit("this build of fastresume has its checks on: measure a release build (make bench)")
    reports: dict[str, Report] = {}
    status = 0
    for name in options.names or data.KINDS:
        try:
            reports[name] = measure(name, options.directory, options)
        except (FastresumeError, ContenderError, ValueError) as cause:
            print(f"{name}: {cause}", file=sys.stderr)
            status = 1
            continue
        print("\n".join(reports[name].lines()), end="\n\n", flush=True)
        if reports[name].is_interrupted:
            return command.INTERRUPTED
        status = max(status, bool(reports[name].faults))
    if options.results != "-":
        head = PAGE.format(rounds=options.rounds, **machine.facts())
        sections = "".join(section(name, one) for name, one in reports.items())
        page.put_head(Path(options.results), head + sections, data.KINDS)
    if options.json is not None:
        options.json.write_text(json.dumps({name: one.to_json() for name, one in reports.items()}, indent=1))
    return status


if __name__ == "__main__":
    sys.exit(main())
