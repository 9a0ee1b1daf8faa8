"""What a thread of its own does for the core: it calls a source, and tells what it gave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fastresume._core as _core


def ask(
    read: Callable[[int, int, list[int], int], Any],
    asked: tuple[int, int, list[int], int],
    take: Callable[[Any, str | None, str | None], None],
) -> None:
    """Tells `take` the rows of (part, row group, columns, how many at least), or why they don't come."""
    try:
        given = read(*asked)
    except _core.DataError as error:
        take(None, str(error), "data")
    except _core.SourceError as error:
        take(None, str(error), "source")
    except BaseException as error:  # noqa: BLE001  (told by the batch that needs the rows)
        take(None, f"read() failed: {type(error).__name__}: {error}", "source")
    else:
        take(given, None, None)
