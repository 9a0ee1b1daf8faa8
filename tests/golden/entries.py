"""The form of the golden files: one entry a line, so that a change shows which one."""

from __future__ import annotations

import json
from typing import Any


def as_text(file: dict[str, list[Any]]) -> str:
    """Return the file's text."""
    parts = []
    for name, entries in file.items():
        lines = ",\n".join(json.dumps(entry) for entry in entries)
        parts.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(parts) + "\n}\n"
