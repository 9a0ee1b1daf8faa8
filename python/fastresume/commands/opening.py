"""What a path names: files of Parquet or of Arrow, or a table."""

from __future__ import annotations

from collections.abc import Sequence

import fastresume._core as _core
from fastresume.options.checks import path_list
from fastresume.sources.ipc_files import names_arrow
from fastresume.sources.opened import opened
from fastresume.tables.named_table import open_table


def open_manifest(paths: Sequence[str]) -> _core.Manifest:
    """The manifest of the files that paths name, or of the table at an address; as the environment says.

    Raises:
        ImportError: if the package that reads such tables is not installed.
        SourceError, DataError: if the table or a file can't be read.
    """
    table = open_table(paths, lambda: None)
    if table is None and all(map(names_arrow, paths)):
        return opened(list(paths))
    if table is None:
        return _core.Manifest.open([path_list(paths)], _core.Stores())
    from fastresume.reading.deleted_rows import live_rows  # torch takes seconds, and files need it not

    return live_rows(
        _core.Manifest.open([[file] for file in table.files], _core.Stores(), table=table), table
    )
