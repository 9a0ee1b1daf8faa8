"""Parts of a source of rows, and the row groups in which they are read."""

from __future__ import annotations

from typing import NamedTuple

GROUP_ROWS = 1 << 16
"""Parts are read in row groups of this many rows; the last one of each part has what is left."""


class Part(NamedTuple):
    """A part of a source: its name, its row groups' rows, and 16 bytes that differ if its content does."""

    name: str
    group_rows: list[int]
    hash: bytes


def groups(rows: int) -> list[int]:
    """The rows of each row group of a part.

    Examples:
        >>> groups(70000)
        [65536, 4464]
    """
    return [min(GROUP_ROWS, rows - start) for start in range(0, rows, GROUP_ROWS)]
