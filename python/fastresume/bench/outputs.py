"""The output files: all measurements as JSON, and the plot."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fastresume.bench.plot import draw, suffixes
from fastresume.bench.report import Report


@dataclass(frozen=True)
class Outputs:
    """Where to write the measurements.

    Args:
        json: the file for every measurement, if the user asks for it.
        plot: the picture, if the user asks for it.
    """

    json: Path | None
    plot: Path | None

    def check(self) -> None:
        """Check, before anything is measured, that the files can be written.

        Raises:
            ValueError: if one can't be written; names its option.
        """
        if self.json is not None:
            _check_place("--json", self.json)
        if self.plot is not None:
            require("matplotlib", "for --plot")
            _check_place("--plot", self.plot)
            if self.plot.suffix.lower() not in suffixes():
                found = repr(self.plot.suffix) if self.plot.suffix else "none"
                raise ValueError(
                    f"--plot {self.plot}: expected one of {', '.join(suffixes())}, found {found}"
                )

    def write(self, report: Report) -> list[str]:
        """Write all of them, each even if the other fails; return the errors, one line for each file."""
        problems = []
        if self.json is not None:
            problems += _attempt("--json", self.json, lambda path: _write_json(report, path))
        if self.plot is not None:
            problems += _attempt("--plot", self.plot, lambda path: draw(report, path))
        return problems


def require(package: str, purpose: str) -> None:
    """Check that a package is installed.

    Raises:
        ValueError: if it is not; says what to install.
    """
    if importlib.util.find_spec(package) is None:
        raise ValueError(f"{package} is needed {purpose}: pip install {package}")


def _check_place(option: str, path: Path) -> None:
    try:
        reason = _refusal(path)
    except OSError as cause:
        reason = f"this file can't be made: {_reason(cause)}"
    if reason is not None:
        raise ValueError(f"{option} {path}: {reason}")


def _refusal(path: Path) -> str | None:
    """Why the file can't be written; None if it can. The file is not changed.

    Raises:
        OSError: if it does not exist and can't be created.
    """
    if path.is_dir():
        return "expected a file, found a directory"
    if not path.parent.is_dir():
        return f"there is no directory {path.parent}"
    if path.exists():
        return None if os.access(path, os.W_OK) else "this file can't be written"
    # Permissions alone don't say it: the file system may be read-only.
    place = path.resolve()  # a link may point to a file that does not exist yet
    place.touch(exist_ok=False)
    place.unlink()
    return None


def _write_json(report: Report, path: Path) -> None:
    path.write_text(json.dumps(report.to_json(), indent=1) + "\n")


def _attempt(option: str, path: Path, write: Callable[[Path], None]) -> list[str]:
    try:
        write(path)
    except Exception as cause:  # noqa: BLE001  (matplotlib's are of any class; the measurements must not be lost)
        return [f"{option} {path}: this file could not be written: {_reason(cause)}"]
    return []


def _reason(cause: Exception) -> str:
    """The error in one line."""
    text = (cause.strerror if isinstance(cause, OSError) else None) or str(cause).strip()
    return text.partition("\n")[0] or type(cause).__name__
