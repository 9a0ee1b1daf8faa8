"""From what a user names to the manifest of its rows."""

from __future__ import annotations

from typing import Any

import fastresume._core as _core
from fastresume.sources.called import CalledSource
from fastresume.sources.row_source import RowSource
from fastresume.sources.tables import Tables


def opened(source: object) -> _core.Manifest:
    """The manifest of the rows that a user names.

    Raises:
        TypeError: if it is nothing that has rows.
        DataError: if its columns can't be delivered, or contradict each other.
    """
    opener = CalledSource(source) if isinstance(source, RowSource) else Tables.of(source)
    rows = opener.rows()
    return _core.Manifest.of_rows(rows, opener.parts(rows), _core.Stores())


def has_session(source: Any) -> bool:
    """Whether the order of a source's rows is that of a session, which states name."""
    return isinstance(source, RowSource) and hasattr(source, "session") and hasattr(source, "in_session")
