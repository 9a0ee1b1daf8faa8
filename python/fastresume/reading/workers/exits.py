"""Of what worker processes died, in words."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

_SELF = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_MACHINE = Path("/proc/vmstat")

_CONTAINER, _HOST = "in this container", "on this machine"

_ADVICE = "; fewer workers, smaller prefetch_bytes or smaller batches take less"


def cause(exit_code: int | None, kills_before: dict[str, int]) -> str:
    """Of what a process died, in words.

    Args:
        exit_code: as `subprocess` has it; None if no one can tell.
        kills_before: what `kills_for_memory` told before the process started.
    """
    if exit_code is None:
        return "closed its connection, and why it ended is not known"
    if exit_code >= 0:
        return f"ended with status {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    return f"was killed by {name}" + (_of_a_kill(kills_before) if name == "SIGKILL" else "")


def _of_a_kill(before: dict[str, int]) -> str:
    now = kills_for_memory()
    known = [where for where in now if where in before]
    for where in known:
        if (kills := now[where] - before[where]) > 0:
            killed = "a process" if kills == 1 else f"{kills} processes"
            return (
                ", it seems for want of memory: the out-of-memory killer of the system has killed "
                f"{killed} {where} since the workers started{_ADVICE}"
            )
    if not known:
        return ", perhaps for want of memory"
    return (
        f", which was not the system's out-of-memory killer: it has killed nothing {known[-1]} since the "
        "workers started"
    )


def kills_for_memory() -> dict[str, int]:
    """How many processes the system has killed so far for want of memory, by where: what can be known.

    The container's count comes first: it is the one whose limit is met first.
    """
    found: dict[str, int] = {}
    for where, path in _counters():
        try:
            lines = path.read_text(encoding="ascii", errors="replace").splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.strip().isdigit():
                found.setdefault(where, int(count))
    return found


def _counters() -> Iterator[tuple[str, Path]]:
    """The files that have a count, by what it is of."""
    try:
        lines = _SELF.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        place = path.lstrip("/")
        if number == "0":
            yield _CONTAINER, _CGROUPS / place / "memory.events"
        elif "memory" in controllers.split(","):
            yield _CONTAINER, _CGROUPS / "memory" / place / "memory.oom_control"
    yield _HOST, _MACHINE
