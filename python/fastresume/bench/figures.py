"""Statistics of the measurements: medians and ranges over the rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastresume.bench.turns import Answer, Measured


@dataclass(frozen=True)
class Figure:
    """Measurements of one quantity, one from each round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median."""
        return statistics.median(self.values)

    def over(self, other: Figure) -> Figure:
        """The ratio within each round."""
        return Figure(tuple(one / two for one, two in zip(self.values, other.values, strict=False)))

    def spell(self, form: str = ".2f") -> str:
        """The median, and the range if there is one."""
        if len(self.values) < 2:
            return f"{self.median:{form}}"
        return f"{self.median:{form}} ({min(self.values):{form}}-{max(self.values):{form}})"


@dataclass(frozen=True)
class Figures:
    """The figures of one contender's passes.

    Args:
        measured: the measurements of each round.
        row_bytes: mean bytes of values in a row, the same for every contender.
        unit: what is counted, if not rows.
    """

    measured: Measured
    row_bytes: float
    unit: str = "row"

    @property
    def millions_of_rows_per_second(self) -> Figure:
        """Per second of wall clock."""
        return self._of(lambda turn: turn["rows"] / turn["seconds"] / 1e6)

    @property
    def millions_of_rows_per_cpu_second(self) -> Figure:
        """Per second of CPU time: all threads and worker processes, user and system time."""
        return self._of(lambda turn: turn["rows"] / max(turn["cpu_seconds"], 1e-6) / 1e6)

    @property
    def gigabytes_per_second(self) -> Figure:
        """Per second of wall clock."""
        return self._of(lambda turn: turn["rows"] * self.row_bytes / turn["seconds"] / 1e9)

    @property
    def gigabytes_per_cpu_second(self) -> Figure:
        """Per second of CPU time: all threads and worker processes, user and system time."""
        return self._of(lambda turn: turn["rows"] * self.row_bytes / max(turn["cpu_seconds"], 1e-6) / 1e9)

    @property
    def peak_mebibytes(self) -> Figure:
        """The peak memory of the process."""
        return self._of(lambda turn: turn["peak_bytes"] / 2**20)

    @property
    def peak_mebibytes_above_imports(self) -> Figure:
        """The same, without what it had after all imports."""
        return self._of(lambda turn: turn["peak_bytes_above_imports"] / 2**20)

    def to_json(self) -> dict[str, dict[str, float]]:
        """The median and the range of each figure, by its name."""
        found = {
            f"millions_of_{self.unit}s_per_second": self.millions_of_rows_per_second,
            f"millions_of_{self.unit}s_per_cpu_second": self.millions_of_rows_per_cpu_second,
            "gigabytes_per_second": self.gigabytes_per_second,
            "gigabytes_per_cpu_second": self.gigabytes_per_cpu_second,
            "peak_mebibytes": self.peak_mebibytes,
            "peak_mebibytes_above_imports": self.peak_mebibytes_above_imports,
        }
        return {
            name: {"median": one.median, "least": min(one.values), "greatest": max(one.values)}
            for name, one in found.items()
        }

    def _of(self, value: Callable[[Answer], float]) -> Figure:
        return Figure(tuple(value(turn) for turn in self.measured.passes))


def places_of(measured: Measured, places: Sequence[int]) -> list[Figure]:
    """Milliseconds to the first batch at each place."""
    return [Figure(tuple(1000 * turn[str(place)] for turn in measured.resumes)) for place in places]
