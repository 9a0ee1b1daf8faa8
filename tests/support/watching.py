"""What the system tells of this process, and waiting until something is so."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def bytes_read() -> int:
    """Return how many bytes this process has read from files so far."""
    (count,) = re.findall(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)
    return int(count)


def switches(of: str) -> int:
    """Return how often threads of this process with such names have gone to sleep so far."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        # Other threads may end in the meantime.
        with suppress(FileNotFoundError, ProcessLookupError):
            if (task / "comm").read_text().startswith(of):
                lines = dict(line.split(":\t") for line in (task / "status").read_text().splitlines())
                found += int(lines["voluntary_ctxt_switches"])
    return found


def in_time(condition: Callable[[], bool], seconds: float = 60) -> bool:
    """Return whether something becomes true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
