"""What a path names: files of Parquet or of Arrow, or a table."""

from __future__ import annotations

import fastresume._core as _core
from fastresume.options.checks import path_list
from fastresume.sources.ipc_files import names_arrow
from fastresume.sources.opened import opened
from fastresume.tables.named_table import open_table


def open_manifest(path: str) -> _core.Manifest:
    """The manifest of the files that a path names, or of the table at an address; as the environment says.

    Raises:
        ImportError: if the package that reads such tables is not installed.
        SourceError, DataError: if the table or a file can't be read.
    """
    table = open_table(path, lambda: None)
    if table is None and names_arrow(path):
        return opened(path)
    if table is None:
        return _core.Manifest.open([path_list(path)], _core.Stores())
    from fastresume.reading.deleted_rows import live_rows  # torch takes seconds, and files need it not

    return live_rows(
        _core.Manifest.open([[file] for file in table.files], _core.Stores(), table=table), table
    )
