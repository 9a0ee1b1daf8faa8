"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def put(path: Path, content: bytes) -> None:
    """Writes a file beside its place, and moves it there.

    Raises:
        OSError: if it can't be written; nothing is left of it then.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    try:
        draft.write_bytes(content)
        draft.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
