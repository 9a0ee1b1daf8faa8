"""The machine and the versions that were used for the measurements."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from datetime import UTC, datetime

from fastresume._core import IS_OPTIMIZED, __version__, cores
from fastresume.platform import processor_facts

PACKAGES = ("torch", "numpy", "pyarrow", "polars", "duckdb", "datasets", "torchdata", "grain", "litdata")


def facts() -> dict[str, str]:
    """The date, the machine and the versions, in words."""
    busy = f"; load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": f"{cores()} cores of {_processor()}{busy}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions().items()),
    }


def versions() -> dict[str, str]:
    """The versions of all installed packages that take part."""
    found = {"fastresume": __version__ + ("" if IS_OPTIMIZED else " (a build with checks on)")}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    system = {platform.system(): platform.release().partition("-")[0]}
    return found | {"Python": platform.python_version()} | system


def _processor() -> str:
    """The processor's name and generation: hypervisors may give all processors of a maker one name."""
    facts = processor_facts()
    if "model name" not in facts:
        return platform.machine()
    words = {"cpu family": "family", "model": "model"}
    known = [f"{word} {facts[key]}" for key, word in words.items() if key in facts]
    flags = facts.get("flags", "").split()
    known += [name for flag, name in (("avx2", "AVX2"), ("avx512f", "AVX-512")) if flag in flags][-1:]
    return facts["model name"] + (f" ({', '.join(known)})" if known else "")
