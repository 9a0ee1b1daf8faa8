"""Where and with what was measured."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from fastresume._core import IS_OPTIMIZED, __version__, cores

PACKAGES = ("torch", "numpy", "pyarrow", "polars", "duckdb", "datasets", "torchdata")


def facts() -> dict[str, str]:
    """The date, the machine and the versions, in words."""
    busy = f"; load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{cores()} cores of {_processor()}{busy}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
    }


def versions() -> dict[str, str]:
    """The versions of all that takes part and is installed."""
    found = {"fastresume": __version__ + ("" if IS_OPTIMIZED else " (a build with checks on)")}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    system = {platform.system(): platform.release().partition("-")[0]}
    return found | {"Python": platform.python_version()} | system


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())
