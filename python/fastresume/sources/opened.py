"""From what a user names to the manifest of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fastresume._core as _core
from fastresume.options.checks import kind_of
from fastresume.sources.called import CalledSource
from fastresume.sources.hub_dataset import HubDataset, is_of_datasets
from fastresume.sources.ipc_files import IpcFiles, names_files
from fastresume.sources.row_source import METHODS, RowSource
from fastresume.sources.tables import Tables


def opened(
    source: object, stores: _core.Stores | None = None, wanted: Sequence[Sequence[str]] | None = None
) -> _core.Manifest:
    """The manifest of the rows that a user names; objects are read by these stores.

    The first rows say how large lists and texts are: those of columns that `wanted` means, or of all if it is
    None. It has names and patterns of columns, those together that mean columns together.

    Raises:
        TypeError: if it is nothing that has rows.
        DataError: if its columns can't be delivered, or contradict each other.
        SourceError: if a file can't be read.
    """
    stores = _core.Stores() if stores is None else stores
    opener = _opener(source, stores)
    rows = opener.rows()
    try:
        return _core.Manifest.of_rows(rows, opener.parts(rows), stores, wanted)
    except _core.DataError as error:
        raise (opener.named(error) if isinstance(opener, IpcFiles) else error) from None


def has_session(source: Any) -> bool:
    """Whether the order of a source's rows is that of a session, which states name."""
    return isinstance(source, RowSource) and hasattr(source, "session") and hasattr(source, "in_session")


def _opener(source: Any, stores: _core.Stores) -> CalledSource | HubDataset | IpcFiles | Tables:
    if isinstance(source, type):
        raise TypeError(f"source is {kind_of(source)}")
    if hasattr(type(source), "collect_schema"):  # a lazy frame of polars warns if it is asked what it has
        return Tables.of(source)
    if isinstance(source, RowSource):
        return CalledSource(source)
    lacking = [name for name in METHODS if getattr(source, name, None) is None]
    is_meant = len({"snapshot", "segments", "read"} - set(lacking)) > 1
    if is_meant and not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(
            f"a source of rows has {', '.join(METHODS)}; this {type(source).__name__} has no "
            f"{' and no '.join(lacking)}: write def {lacking[0]}(self, ...), as of "
            "fastresume.sources.RowSource"
        )
    if is_of_datasets(source):
        return HubDataset(source)
    return IpcFiles.of(source, stores) if names_files(source) else Tables.of(source)
