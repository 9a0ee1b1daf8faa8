"""What one thread needs to read, to decode and to deliver the made data, in Rust alone; writes its table.

    make bench-floor                        # build for release, make the data, measure
    make bench-floor ARGS='criteo --rounds 9 --results -'

The program in `floor/` does the work, and says what each contender does. This one makes the data and the
section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import data
import page
from fastresume.bench import machine
from fastresume.bench.figures import Figure
from fastresume.bench.report import table

BENCHES = Path(__file__).resolve().parents[1]
TITLES = {
    "floor": "the floor: pages read and decompressed into reused buffers, no values",
    "arrow-group": "the `parquet` crate's arrow reader, a batch per row group, decode only",
    "arrow-small": "the `parquet` crate's arrow reader, batches of 1.75 MiB or 8192 rows, decode only",
    "own": "fastresume, a tensor per column",
    "own-stacked": "fastresume, stacked",
    "own-shuffled": "fastresume, stacked, shuffled",
}
SECTION = """\
## One thread, without Python

Written by `make bench-floor`: Rust alone, one thread, decoded GB per CPU second, medians of {rounds} rounds
in turns, with their range, each in a process of its own; opening the files counts. Ratios are those of each
round. "Against the arrow reader" means against the better one of its two batch sizes. fastresume delivers
batches of 4096 rows, with masks where there are nulls; a GB is 10^9 bytes of values.

- date: {date}
- machine: {machine}
- versions: fastresume {version}, parquet {parquet}
"""


class Found(NamedTuple):
    """What was measured on one data set: of each contender a figure, in GB per CPU second."""

    rows: int
    decoded_bytes: int
    figures: Mapping[str, Figure]

    def lines(self) -> list[str]:
        """A line for each contender."""
        floor = self.figures["floor"]
        arrow = max(
            (self.figures[name] for name in ("arrow-group", "arrow-small")), key=lambda one: one.median
        )
        heads = ["", "GB per CPU second", "of the floor", "against the arrow reader"]
        rows = []
        for name, figure in self.figures.items():
            ratio = "" if name == "floor" else figure.over(arrow).spell()
            rows.append([TITLES[name], figure.spell(), figure.over(floor).spell(), ratio])
        return table(heads, rows)


def measure(program: Path, files: Sequence[Path], rounds: int) -> Found:
    """What the program finds: each contender in processes of its own, in turns with the others."""
    rows = decoded_bytes = 0
    speeds: dict[str, list[float]] = {name: [] for name in TITLES}
    for turn in range(rounds):
        first = turn % len(TITLES)  # nobody always follows the same one
        for name in [*TITLES][first:] + [*TITLES][:first]:
            command = [str(program), name, *map(str, files)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode != 0:
                sys.exit(ended.stderr.strip() or f"{program} ended with status {ended.returncode}")
            rows, decoded_bytes, speed = map(int, ended.stdout.split())
            speeds[name].append(speed / 1e9)
    figures = {name: Figure(tuple(of)) for name, of in speeds.items()}
    return Found(rows, decoded_bytes, figures)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("program", type=Path, help="built from floor/")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(data.KINDS)} (default: all)")
    parser.add_argument(
        "--rows", type=data.positive, default=data.ROWS, help="of criteo; the others keep step (%(default)s)"
    )
    parser.add_argument("--rounds", type=data.positive, default=7, help="(%(default)s)")
    parser.add_argument(
        "--directory", type=Path, default=BENCHES.parent / "target" / "bench", help="of the data"
    )
    parser.add_argument("--results", default=str(BENCHES / "RESULTS.md"), help="the page; - for none")
    options = parser.parse_args()
    if unknown := set(options.names) - set(data.KINDS):
        parser.error(f"no data set is called {min(unknown)!r}; there are {', '.join(data.KINDS)}")
    lock = (BENCHES / "floor" / "Cargo.lock").read_text()
    parquet = lock.partition('name = "parquet"\nversion = "')[2].partition('"')[0]
    facts = {**machine.facts(), "version": machine.versions()["fastresume"], "parquet": parquet}
    lines = SECTION.format(rounds=options.rounds, **facts).splitlines()
    for name in options.names or data.KINDS:
        directory = data.made(name, options.directory, options.rows)
        found = measure(options.program, sorted(directory.glob("*.parquet")), options.rounds)
        size = f"{found.rows:,} rows, {found.decoded_bytes / found.rows:.0f} bytes a row decoded"
        lines += ["", f"### {name}", "", f"{size}.", "", *found.lines()]
        print("\n".join(lines[-len(found.lines()) - 4 :]), end="\n\n", flush=True)
    if options.results != "-":
        page.put_section(Path(options.results), "\n".join(lines))


if __name__ == "__main__":
    main()
