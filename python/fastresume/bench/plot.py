"""The plot of a report."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from fastresume.bench.figures import Figure, places_of
from fastresume.bench.reading import SKIPPING
from fastresume.bench.report import Report

OURS, THEIRS = "#1f6f8b", "#b0b7bd"


def suffixes() -> list[str]:
    """The file name endings that matplotlib can write."""
    canvas = importlib.import_module("matplotlib.backend_bases").FigureCanvasBase
    return sorted(f".{form}" for form in canvas.get_supported_filetypes())


def draw(report: Report, path: Path) -> None:
    """Write bars of CPU efficiency, and lines of the time to the first batch after a resume."""
    module = importlib.import_module("matplotlib")
    module.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    resumed = [one for one in report.measured if one.resumes and one.is_fit]
    height = 1.6 + 0.42 * len(report.figures)
    figure, axes = pyplot.subplots(
        1, 1 + bool(resumed), figsize=(7 + 7 * bool(resumed), height), squeeze=False
    )
    _bars(
        axes[0][0],
        {one.measured.contender.title: one.gigabytes_per_cpu_second for one in report.figures.values()},
    )
    if resumed:
        axis = axes[0][1]
        for one in resumed:
            middle = [place.median for place in places_of(one, report.places)]
            style = "-" if one.contender.title.startswith("fastresume") else "--"
            how = "reads up to the place" if one.contender.resumes == SKIPPING else "resumes from its state"
            axis.plot(report.places, middle, style, marker="o", label=f"{one.contender.title}: {how}")
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter("{x:g}")
        axis.yaxis.set_minor_formatter("")
        axis.set_ylim(bottom=1)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_xlabel("% of the pass")
        axis.set_title("ms to the first batch after a resume", loc="left", fontsize=10)
        axis.legend(
            title="medians; solid: fastresume, dashed: others",
            title_fontsize=7,
            fontsize=7,
            frameon=False,
            loc="center left",
            bbox_to_anchor=(1, 0.5),
        )
    figure.tight_layout()
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def _bars(axis: Any, figures: dict[str, Figure]) -> None:
    titles = list(figures)
    middle = [figure.median for figure in figures.values()]
    ranges = [
        [figure.median - min(figure.values) for figure in figures.values()],
        [max(figure.values) - figure.median for figure in figures.values()],
    ]
    colors = [OURS if title.startswith("fastresume") else THEIRS for title in titles]
    bars = axis.barh(titles, middle, xerr=ranges, color=colors, ecolor="#555555")
    axis.bar_label(bars, [f"{value:.2f}" for value in middle], padding=3, fontsize=8)
    axis.invert_yaxis()
    axis.set_title("decoded GB per CPU second: median, and range of the rounds", loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
