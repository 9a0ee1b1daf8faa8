"""The process of one contender: reads a request as JSON, and writes the answer."""

from __future__ import annotations

import json
import os
import sys
import traceback

from fastresume.bench.child import work

MOST_LINES = 3


def in_one_line(cause: Exception) -> str:
    """The error's type and text; for a long one, which may hold a traceback, its first and last line."""
    texts = "".join(traceback.format_exception_only(cause)).splitlines()
    lines = [line.strip() for line in texts if line.strip()]
    return " ".join(lines if len(lines) <= MOST_LINES else [lines[0], "...", lines[-1]])


def main() -> None:
    """Answer one request."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what libraries print is not part of the answer
    try:
        found = work(json.loads(sys.stdin.read()))
    except Exception as cause:  # noqa: BLE001  (whatever a reader raises)
        sys.exit(in_one_line(cause))
    with os.fdopen(answer, "w") as out:
        json.dump(found, out)
    # The answer is written; threads that a library left running may abort the process as it ends.
    os._exit(0)


if __name__ == "__main__":
    main()
