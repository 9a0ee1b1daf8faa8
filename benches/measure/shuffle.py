"""How well a shuffled order mixes rows, and what it holds, beside a random permutation and what others do.

    make bench-shuffle                      # print the table, write benches/RESULTS.md and docs/shuffle.svg
    make bench-shuffle ARGS='--rows 1000000 --out - --results -'

The dataset is the worst case, sorted by label and by file: label 0 in the first half of its rows, label 1 in
the second. It has so many files that no contender has all of them open at once. All deliver row numbers, and
the figures are arithmetic on these. Every choice is seeded: the figures are the same on every machine.

Smaller blocks mix better and cost more to decode. What they cost is timed on the click logs of `data.py`,
unless the build has its checks on.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from orders import (
    BATCH_SIZE,
    COLUMNS,
    PARTS,
    RANKS,
    Contender,
    Data,
    Rows,
    fastresume_defaults,
    fastresume_sequential,
    fastresume_shuffle,
    huggingface,
    numpy_permutation,
    open_dataset,
    random_sampler,
    say,
    shuffle_buffer,
)

import fastresume as fr
from data import GROUP_ROWS, write
from fastresume._core import IS_OPTIMIZED
from fastresume.bench.figures import Figure
from page import tell

# ------------------------------------------------------------------------------------------------ the figures


@dataclass(frozen=True)
class Figures:
    """How well rows are mixed, over several passes.

    Args:
        files: source files in a batch, on average.
        files_low: the same, in the 5th percentile of batches.
        label_spread: how far the label means of batches lie apart (root of the mean square distance from the
            dataset's mean), as a multiple of what random batches would show.
        distance: how many rows apart two neighbours in a batch are, as a share of what random rows would be.
        correlation: rank correlation of row number and place in the pass, without its sign.
    """

    files: float
    files_low: float
    label_spread: float
    distance: float
    correlation: float


def measure(data: Data, contender: Contender, count: int) -> Figures:
    label, file, _ = data.columns().values()
    mean = float(label.mean())
    random_variance = mean * (1 - mean) / BATCH_SIZE * (data.rows - BATCH_SIZE) / (data.rows - 1)
    random_distance = (data.rows + 1) / 3
    sources, variances, distances, correlations = [], [], [], []
    for rows in contender.passes(count):
        check_partition(contender, rows)
        files = np.sort(file[rows], axis=1)
        sources.append(1 + np.count_nonzero(np.diff(files, axis=1), axis=1))
        variances.append(np.mean((label[rows].mean(axis=1) - mean) ** 2))
        distances.append(np.abs(np.diff(rows, axis=1)).mean())
        correlations.append(abs(np.corrcoef(rows.ravel(), np.arange(rows.size))[0, 1]))
    return Figures(
        files=float(np.mean(np.concatenate(sources))),
        files_low=float(np.percentile(np.concatenate(sources), 5)),
        label_spread=math.sqrt(np.mean(variances) / random_variance),
        distance=float(np.mean(distances)) / random_distance,
        correlation=float(np.mean(correlations)),
    )


def check_partition(contender: Contender, rows: Rows) -> None:
    """End unless each row comes at most once: what repeats rows needs no figures."""
    if np.bincount(rows.ravel()).max() > 1:
        sys.exit(f"{contender.name} delivers a row twice in one pass")


def expected_spread(data: Data, window_rows: float, block_rows: float) -> float:
    """What to expect of the label spread, by the number of blocks in a window."""
    blocks, mixed = data.rows / block_rows, max(window_rows / block_rows, 1)
    return math.sqrt(1 + BATCH_SIZE / mixed * (blocks - mixed) / max(blocks - 1, 1))


# ------------------------------------------------------------------------------------------------- the report


Compared = dict[str, list[tuple[Contender, Figures]]]
"""The parts of the table."""


def compare(data: Data, count: int) -> Compared:
    """Return the parts of the table."""
    window = data.window_rows
    sizes = [
        (window // 16, window // 16),
        (window, window // 4),
        (window, window // 16),
        (window, window // 64),
        (8 * window, window // 16),
        (8 * window, window // 64),
    ]
    parts: dict[str, Iterable[Contender]] = {
        "Random, and not at all": [
            numpy_permutation(data),
            random_sampler(data),
            fastresume_sequential(data),
        ],
        "fastresume, `shuffle=True`": [
            *(fastresume_shuffle(data, *named) for named in sizes),
            fastresume_defaults(data),
        ],
        "Buffers": [
            *(shuffle_buffer(data, size) for size in (1000, 10_000, 100_000)),
            *(huggingface(data, size) for size in (1000, 10_000, 100_000)),
            huggingface(data, 10_000, shards=64),
        ],
        f"{RANKS} ranks, the same global batch": [
            fastresume_shuffle(data, window, window // 16, RANKS),
            fastresume_shuffle(data, window, window // 64, RANKS),
            shuffle_buffer(data, 10_000, RANKS),
            huggingface(data, 10_000, ranks=RANKS),
        ],
    }
    return {title: [measured(data, one, count) for one in part] for title, part in parts.items()}


def measured(data: Data, contender: Contender, count: int) -> tuple[Contender, Figures]:
    say(contender.name)
    return contender, measure(data, contender, count)


HEADS = (
    "",
    "files in a batch",
    "in 95 % at least",
    "label spread",
    "row distance",
    "correlation",
    "rows held",
    "MiB held",
)


def table(compared: Compared, row_bytes: int) -> list[str]:
    lines = [list(HEADS), ["---"] + ["---:"] * (len(HEADS) - 1)]
    for title, part in compared.items():
        lines.append([f"**{title}**"] + [""] * (len(HEADS) - 1))
        for contender, found in part:
            lines.append(
                [
                    contender.name,
                    f"{found.files:.1f}",
                    f"{found.files_low:.0f}",
                    f"{found.label_spread:.2f}",
                    f"{found.distance:.3f}",
                    f"{found.correlation:.3f}",
                    f"{contender.held_rows:,}",
                    f"{contender.held_rows * row_bytes / 2**20:.2f}",
                ]
            )
    width = max(len(line[0]) for line in lines)
    return [f"| {line[0]:{width}} | {' | '.join(line[1:])} |" for line in lines]


TITLE = "## Shuffle quality"

RESULTS = """\
{title}

Written by `make bench-shuffle`; the head of `shuffle.py` says how it measures, and
[explanation/shuffle.md](../docs/explanation/shuffle.md) how to read it. No figure of the first table
depends on the machine: nothing in it is timed, and every choice is seeded.

- versions: {versions}
- data: {rows:,} rows of {row_bytes} bytes in {files} files and {groups} row groups, sorted by label and file
- global batch: {batch_size:,} rows
- passes: {count} of each, every one in another order

{table}

*Rows held* are the decoded rows that one process holds at most, without what is decoded ahead: a window per
lane; or the buffer, and a row group of each file that is open. A permutation holds all rows, or reads a page
for every row.
"""

PRICES = """
### What smaller blocks cost

CPU time of a pass over click logs of `data.py` ({rows:,} rows, row groups of {group_rows:,}), with windows
of {window_rows:,} rows, beside the sequential order in the same round. Medians of {rounds} rounds, with their
range. These figures depend on the machine and on the data.

{table}
"""


def report(data: Data, count: int, compared: Compared) -> str:
    import datasets

    versions = {
        "fastresume": fr.__version__,
        "datasets": datasets.__version__,
        "torch": torch.__version__.partition("+")[0],
        "numpy": np.__version__,
        "Python": platform.python_version(),
    }
    row_bytes = open_dataset(data, 0, 1).plan().row_bytes
    return RESULTS.format(
        title=TITLE,
        versions=", ".join(f"{name} {version}" for name, version in versions.items()),
        rows=data.rows,
        row_bytes=row_bytes,
        files=data.files,
        groups=sum(pq.read_metadata(path).num_row_groups for path in data.paths),
        batch_size=BATCH_SIZE,
        count=count,
        table="\n".join(table(compared, row_bytes)),
    )


def price_report(directory: Path, num_rows: int = 2_000_000, rounds: int = 3) -> str:
    """Time passes with ever smaller blocks, in turn."""
    directory = directory / f"rows-{num_rows}"
    if not directory.exists():
        say(f"writing {num_rows} rows")
        unfinished = directory.with_name(f"{directory.name}-{os.getpid()}")
        write("criteo", unfinished, num_rows)
        unfinished.rename(directory)
    torch.set_num_threads(1)
    window_rows = 4 * GROUP_ROWS
    blocks = [GROUP_ROWS >> halved for halved in (0, 1, 2, 3, 4, 5, 7)]
    orders = [{"shuffle": fr.Shuffle(block, window_rows)} for block in blocks]
    ratios: list[list[float]] = [[] for _ in blocks]
    for number in range(rounds):
        say(f"what smaller blocks cost, round {number + 1} of {rounds}")
        base = cpu_seconds_of_pass(directory, {})
        for found, order in zip(ratios, orders, strict=True):
            found.append(cpu_seconds_of_pass(directory, order) / base)
    lines = ["| block | blocks per window | CPU time, as a ratio |", "|---:|---:|---:|"]
    lines += [
        f"| {block:,} | {window_rows // block:,} | {Figure(tuple(found)).spell('.1f')} |"
        for block, found in zip(blocks, ratios, strict=True)
    ]
    return PRICES.format(
        rows=num_rows,
        group_rows=GROUP_ROWS,
        window_rows=window_rows,
        rounds=rounds,
        table="\n".join(lines),
    )


def cpu_seconds_of_pass(directory: Path, order: Mapping[str, Any]) -> float:
    dataset = fr.ParquetDataset(directory, batch_size=4096, columns=COLUMNS, world=(0, 1), **order)
    began = time.process_time()
    for _ in dataset:
        pass
    return time.process_time() - began


# --------------------------------------------------------------------------------------------------- the plot

INK, RANDOM, COLOURS = "#333333", "#888888", ("#9ecae1", "#2171b5", "#08306b")

BLOCKS = ((4, "four row groups"), (16, "a row group"), (64, "a quarter of one"))
"""The default window in so many blocks, and what a block is then."""


def plot(data: Data, count: int, compared: Compared, path: Path) -> None:
    """Draw spread and sources over the rows held, and how rows travel; the same bytes every time."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "fastresume", "svg.fonttype": "none", "font.size": 9})
    mpl.rcParams.update({"axes.edgecolor": INK, "font.sans-serif": ["DejaVu Sans", "Arial", "sans-serif"]})
    mpl.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "savefig.facecolor": "white"})
    import matplotlib.pyplot as plt

    figure = plt.figure(figsize=(10, 7.2), layout="constrained")
    grid = figure.add_gridspec(2, 12, height_ratios=(1.9, 1))
    spread, files = figure.add_subplot(grid[0, :6]), figure.add_subplot(grid[0, 6:])
    for curve in curves(data, count, compared):
        for axes, name in ((spread, "label_spread"), (files, "files")):
            held = [contender.held_rows for contender, _ in curve.members]
            axes.plot(held, [getattr(found, name) for _, found in curve.members], **curve.style)
    for block, _ in BLOCKS:
        windows = [contender.held_rows for contender in windows_of_blocks(data, data.window_rows // block)]
        expected = [expected_spread(data, window, data.window_rows // block) for window in windows]
        spread.plot(windows, expected, ":", color=INK, linewidth=0.9, zorder=3)
    spread.plot([], [], ":", color=INK, linewidth=0.9, label="√(1 + batch / blocks per window)")
    best = compared["Random, and not at all"][0][1]
    for axes, value in ((spread, 1), (files, best.files)):
        axes.axhline(value, color=RANDOM, linewidth=1, label="a random permutation")
        axes.set_xscale("log", base=2)
        axes.set_xlabel("rows held: the window; or the buffer and the open row groups")
        axes.grid(True, linewidth=0.3)
    spread.set_yscale("log", base=2)
    spread.set_yticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    spread.set_title("Label spread of batches (1 is random)")
    files.set_title(f"Source files in a batch of {BATCH_SIZE:,} (of {data.files})")
    handles, names = spread.get_legend_handles_labels()
    figure.legend(handles, names, frameon=False, fontsize=8, ncols=3, loc="outside upper center")
    for number, (name, contender) in enumerate(travels(data)):
        axes = figure.add_subplot(grid[1, 2 * number : 2 * number + 2])
        # Every so many-th row: an odd number, so that no pattern of the order falls in step with it.
        rows = next(contender.passes(1)).ravel()[:: max(data.rows // 6000, 1) | 1]
        axes.plot(np.linspace(0, 1, len(rows)), rows / data.rows, ",", color=COLOURS[2], rasterized=True)
        axes.set(xlim=(0, 1), ylim=(0, 1), xticks=[], yticks=[])
        axes.set_title(name, fontsize=8)
        axes.set_xlabel("place in the pass", fontsize=8)
        if number == 0:
            axes.set_ylabel("row number", fontsize=8)
    figure.savefig(path, metadata={"Date": None, "Creator": None}, dpi=100)
    plt.close(figure)


@dataclass(frozen=True)
class Curve:
    members: list[tuple[Contender, Figures]]
    style: dict[str, Any]


def curves(data: Data, count: int, compared: Compared) -> Iterator[Curve]:
    known = {one.name: found for part in compared.values() for one, found in part}
    for (block, label), colour in zip(BLOCKS, COLOURS, strict=True):
        members = [
            (one, known[one.name]) if one.name in known else measured(data, one, count)
            for one in windows_of_blocks(data, data.window_rows // block)
        ]
        name = f"fastresume, blocks of {data.window_rows // block:,} ({label})"
        yield Curve(members, {"label": name, "color": colour, "marker": "o", "markersize": 4})
    for start, marker, colour in (("a plain buffer", "s", "#d94801"), ("`datasets`", "^", "#238b45")):
        found = [pair for pair in compared["Buffers"] if pair[0].name.startswith(start)]
        style = {"color": colour, "marker": marker, "markersize": 5, "linestyle": "--", "linewidth": 0.9}
        plain = [pair for pair in found if "reshard" not in pair[0].name]
        yield Curve(plain, style | {"label": start.strip("`") + ", 1,000 to 100,000"})
        if plain != found:
            hollow = {"linestyle": "", "markerfacecolor": "white"}
            yield Curve(found[len(plain) :], style | hollow | {"label": found[-1][0].name.replace("`", "")})


def windows_of_blocks(data: Data, block: int) -> list[Contender]:
    """Return windows of 1, 4, 16, ... blocks, from a batch up to the whole dataset."""
    windows = [block << power for power in range(0, 40, 2) if BATCH_SIZE <= block << power < data.rows]
    return [fastresume_shuffle(data, window, block) for window in [*windows, data.rows]]


def travels(data: Data) -> list[tuple[str, Contender]]:
    window = data.window_rows
    return [
        ("no shuffle", fastresume_sequential(data)),
        ("a plain buffer of 100,000", shuffle_buffer(data, 100_000)),
        ("datasets, buffer 100,000", huggingface(data, 100_000)),
        ("16 blocks per window", fastresume_shuffle(data, window, window // 16)),
        ("64 blocks per window", fastresume_shuffle(data, window, window // 64)),
        ("a random permutation", numpy_permutation(data)),
    ]


# ------------------------------------------------------------------------------------------------------- main


def main() -> None:
    benches = Path(__file__).resolve().parents[1]
    page, drawing = benches / "RESULTS.md", benches.parent / "docs" / "shuffle.svg"
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1 << 22, help="of the dataset (%(default)s)")
    parser.add_argument("--files", type=int, default=256, help="of the dataset (%(default)s)")
    parser.add_argument("--passes", type=int, default=3, help="of each contender (%(default)s)")
    parser.add_argument("--out", default=str(drawing), help="where to draw; - for nowhere")
    parser.add_argument("--results", default=str(page), help="the page that ends with the table; - for none")
    parser.add_argument("--directory", type=Path, default=Path(tempfile.gettempdir()) / "fastresume-bench")
    options = parser.parse_args()
    least = PARTS * BATCH_SIZE
    if options.rows < least:
        sys.exit(f"--rows {options.rows}: at least {least}, so that a window is more than a batch")
    # Local files alone are read; what `datasets` stores goes beside them.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(options.directory / "datasets")}
    data = Data(options.directory / f"shuffle-{options.rows}-{options.files}", options.rows, options.files)
    data.write()
    compared = compare(data, options.passes)
    text = report(data, options.passes, compared)
    if IS_OPTIMIZED:
        text += price_report(options.directory)
    tell(text, options.results)
    if options.out != "-":
        plot(data, options.passes, compared, Path(options.out))


if __name__ == "__main__":
    main()
