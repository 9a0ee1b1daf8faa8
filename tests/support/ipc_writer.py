"""Files and streams of Arrow's format, as pyarrow writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import ipc

HOW: dict[str, tuple[Any, dict[str, Any]]] = {
    "file": (ipc.new_file, {}),
    "stream": (ipc.new_stream, {}),
    "lz4": (ipc.new_file, {"compression": "lz4"}),
    "zstd": (ipc.new_file, {"compression": "zstd"}),
    "zstd stream": (ipc.new_stream, {"compression": "zstd"}),
    "V4": (ipc.new_file, {"metadata_version": ipc.MetadataVersion.V4}),
    "old stream": (
        ipc.new_stream,
        {"use_legacy_format": True, "metadata_version": ipc.MetadataVersion.V4},
    ),
}


def write_ipc(table: pa.Table, path: Path, how: str = "file", block: int = 100) -> Path:
    """Write a file of the rows of a table, in batches of so many."""
    new, options = HOW[how]
    with (
        pa.OSFile(str(path), "wb") as file,
        new(file, table.schema, options=ipc.IpcWriteOptions(**options)) as writer,
    ):
        for batch in table.to_batches(max_chunksize=block):
            writer.write_batch(batch)
    return path
