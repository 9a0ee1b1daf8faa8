"""Of what worker processes died, in words."""

from __future__ import annotations

import signal

from fastresume.platform import kills_for_memory

_ADVICE = "; fewer workers, smaller prefetch_bytes or smaller batches take less"


def cause(exit_code: int | None, kills_before: dict[str, int]) -> str:
    """Of what a process died, in words.

    Args:
        exit_code: as `subprocess` has it; None if no one can tell.
        kills_before: what `kills_for_memory` returned before the process started.
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
