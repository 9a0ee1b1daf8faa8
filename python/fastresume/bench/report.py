"""The report: the measurements as tables for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any

from fastresume.amounts import plural
from fastresume.bench import machine
from fastresume.bench.contenders import REFERENCE
from fastresume.bench.figures import Figures, places_of
from fastresume.bench.reading import SKIPPING
from fastresume.bench.survey import Survey
from fastresume.bench.task import Task
from fastresume.bench.turns import Answer, Measured

FORMAT = 1
"""The version of the JSON's format."""

OTHER = "OTHER "
"""What a problem begins with, if somebody delivers other rows than are there."""

OWN, LATE = "fastresume", 90
"""All resumes are compared with the first of our contenders at this place, in percent of the pass."""

TELLING_SECONDS = 0.1
"""A shorter pass tells more of opening files than of reading them."""


@dataclass(frozen=True)
class Report:
    """All measurements.

    Args:
        survey, task: what was read.
        expected: the checksum of the correct rows.
        measured: the measurements of each contender.
        rival: the contender that all are compared with.
        rounds, places: the number of rounds and the places that were asked for.
        is_interrupted: whether fewer rounds were measured.
        not_measured: what `--quick` has left out, in words.
    """

    survey: Survey
    task: Task
    expected: Answer
    measured: Sequence[Measured]
    rival: str | None
    rounds: int
    places: Sequence[int]
    is_interrupted: bool = False
    not_measured: str = ""

    @property
    def faults(self) -> list[Measured]:
        """The contenders that failed, or delivered other rows."""
        return [one for one in self.measured if one.problem and not one.is_missing]

    @property
    def decoded_bytes(self) -> int:
        """Bytes of the values of all rows in Arrow's layout, without offsets and masks."""
        return int(self.expected["bytes"])

    @property
    def figures(self) -> dict[str, Figures]:
        """The figures of the contenders that were measured to the end, by name."""
        row_bytes = self.decoded_bytes / self.expected["rows"]
        return {
            one.contender.name: Figures(one, row_bytes, self.task.unit)
            for one in self.measured
            if one.passes and one.is_fit
        }

    def lines(self) -> list[str]:
        """The whole report, for people."""
        lines = [*self._head(), "", *self.pass_table(), *self._too_small()]
        if self.places and any(one.resumes for one in self.measured):
            lines += ["", *self.resume_table()]
        lines += ["", *self._verdict()]
        if self.is_interrupted:
            passes, resumes = self._whole_rounds()
            of_resumes = f" and {resumes} of resumes" if self.places else ""
            lines.append(
                f"interrupted: of {plural(self.rounds, 'round')}, {passes} of passes{of_resumes} are whole"
            )
        return lines

    def _too_small(self) -> list[str]:
        """A line that says so where a pass takes so little time that opening files is most of it."""
        seconds = {
            one.contender.title: min(turn["seconds"] / turn["passes"] for turn in one.passes)
            for one in self.measured
            if one.passes and one.is_fit
        }
        title = min(seconds, key=lambda title: seconds[title], default="")
        if not title or seconds[title] >= TELLING_SECONDS:
            return []
        rows = ceil(self.task.num_rows * TELLING_SECONDS / max(seconds[title], 1e-6))
        text = f"a pass of {title} takes {1000 * seconds[title]:.0f} ms, much of it to open files"
        return ["", f"too small to tell: {text}; some {rows} rows take {1000 * TELLING_SECONDS:.0f} ms"]

    def pass_table(self) -> list[str]:
        """A line for each contender's passes."""
        figures = self.figures
        against = figures.get(self.rival) if self.rival else None
        units = f"million {self.task.unit}s"
        heads = ["a pass", f"{units}/s", f"{units} per CPU second"]
        if self.task.job == "read":
            heads[2:] = ["GB/s", "GB per CPU second"]
        heads += [f"against {self.rival}"] if against else []
        rows = []
        for one in figures.values():
            cost, per_second = one.gigabytes_per_cpu_second, one.millions_of_rows_per_second.spell()
            cells = [one.measured.contender.title, per_second, one.millions_of_rows_per_cpu_second.spell()]
            if self.task.job == "read":
                cells[2:] = [one.gigabytes_per_second.spell(), cost.spell()]
            cells += [cost.over(against.gigabytes_per_cpu_second).spell()] if against else []
            peaks = (one.peak_mebibytes, one.peak_mebibytes_above_imports)
            rows.append([*cells, *(peak.spell(".0f") for peak in peaks)])
        return table([*heads, "peak MiB", "less imports"], rows)

    def resume_table(self) -> list[str]:
        """A line for each contender's resumes, and one that names the contenders without any."""
        resumed = [one for one in self.measured if one.resumes and one.is_fit]
        own = next((one for one in resumed if one.contender.name.startswith(OWN)), None)
        late = max((place for place in self.places if place <= LATE), default=0)
        heads = ["ms to the first batch after a resume", *(f"at {place} %" for place in self.places)]
        heads += [f"at {late} %, over {own.contender.name}"] if own else []
        rows = []
        for one in resumed:
            reads_up = ", reading up to the place" if one.contender.resumes == SKIPPING else ""
            figures = places_of(one, self.places)
            cells = [one.contender.title + reads_up, *(figure.spell(".1f") for figure in figures)]
            if own:
                at = self.places.index(late)
                cells.append(figures[at].over(places_of(own, self.places)[at]).spell(".1f"))
            rows.append(cells)
        lines = table(heads, rows)
        stateless = [one.contender.name for one in self.measured if one.is_fit and not one.contender.resumes]
        if stateless:
            text = f"no resumes of {', '.join(stateless)}: they have no state to resume from"
            lines += ["", f"{text}; what reading up to a place takes them, their rows/s tell"]
        return lines

    def to_json(self) -> dict[str, Any]:
        """The whole report, for programs."""
        figures = self.figures
        contenders = {
            one.contender.name: {
                "title": one.contender.title,
                "problem": one.problem,
                "is_missing": one.is_missing,
                "checksum": one.checksum,
                "figures": figures[one.contender.name].to_json() if one.contender.name in figures else None,
                "passes": one.passes,
                "resumes": one.resumes,
            }
            for one in self.measured
        }
        return {
            "format": FORMAT,
            **machine.facts(),
            "files": list(self.survey.files),
            "columns": [asdict(column) for column in self.survey.columns],
            "left_out": self.survey.left_out,
            "rows": self.survey.num_rows,
            "row_groups": self.survey.row_groups,
            "stored_bytes": self.survey.stored_bytes,
            "decoded_bytes": self.decoded_bytes,
            "batch_size": self.task.batch_size,
            "job": self.task.job,
            "length": self.task.length,
            "sources": [asdict(source) for source in self.task.sources],
            "threads": self.task.threads,
            "rounds": self.rounds,
            "is_interrupted": self.is_interrupted,
            "places": list(self.places),
            "rival": self.rival,
            "same_rows": not any((one.problem or "").startswith(OTHER) for one in self.measured),
            "contenders": contenders,
        }

    def _head(self) -> list[str]:
        survey, task = self.survey, self.task
        tokens = f"{task.num_rows} tokens, " if task.job == "pack" else ""
        counts = (
            f"{tokens}{survey.num_rows} rows, {plural(len(survey.columns), 'column')}, "
            f"{plural(len(survey.files), 'file')}, {plural(survey.row_groups, 'row group')}"
        )
        decoded, stored = self.decoded_bytes / self.expected["rows"], survey.stored_bytes / task.num_rows
        form = ".1f" if task.job == "pack" else ".0f"
        sizes = f"{decoded:{form}} bytes a {task.unit} decoded, {stored:{form}} as stored"
        lines = [f"{name}: {fact}" for name, fact in machine.facts().items()]
        lines += [f"data: {counts}; {sizes}"]
        lines += [f"left out: {name}: {reason}" for name, reason in survey.left_out.items()]
        whole = sum(source.weight for source in task.sources)
        lines += [
            f"source: {source.path}: {source.weight / whole:.2%} of the rows, {source.num_rows} there"
            for source in task.sources
        ]
        sequences = f" sequences of {task.length} tokens" if task.job == "pack" else ""
        batches = f"batches of {task.batch_size}{sequences}, up to {plural(task.threads, 'thread')}"
        rounds = self._whole_rounds()[0] if self.is_interrupted else self.rounds
        if self.not_measured:
            lines.append(f"--quick leaves out: {self.not_measured}")
        return [*lines, f"measured: {batches}; medians and ranges of {plural(rounds, 'round')}"]

    def _whole_rounds(self) -> tuple[int, int]:
        """The numbers of complete rounds of passes, and of resumes."""
        fit = [one for one in self.measured if one.is_fit]
        passes, resumes = ([len(one.passes) for one in fit], [len(one.resumes) for one in fit])
        return max(passes, default=0), max(resumes, default=0)

    def _verdict(self) -> list[str]:
        absent = [f"{one.contender.name}: {one.problem}" for one in self.measured if one.is_missing]
        if self.faults:
            return [*absent, *(f"!!! {one.contender.name}: {one.problem}" for one in self.faults)]
        checked = sum(one.checksum is not None for one in self.measured)
        text = f"all {checked} delivered" if checked > 1 else "it delivered"
        fine = {
            "read": f"same rows: {text} what {REFERENCE} reads, every value of all {self.task.num_rows} rows",
            "pack": f"same tokens: {text} each of the {self.task.num_rows} tokens once; what fills up a "
            "sequence does not count",
            "mix": f"by weight: {text} rows of the sources alone, whole, none more often than it is there, "
            "and of each source its share",
        }
        return [*absent, fine[self.task.job]]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines that read well as plain text and as Markdown."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [heads, ["-" * width for width in widths], *rows]
    return [
        "| "
        + " | ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        + " |"
        for line in lines
    ]
