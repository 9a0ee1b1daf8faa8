"""The stores of the files, in the words of each library that reads them."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastresume.bench.arrow_file import ArrowFile
from fastresume.options.checks import is_address
from fastresume.sources.ipc_files import ARROW_SUFFIXES

OPTIONS = {
    "aws_access_key_id": "access_key",
    "aws_secret_access_key": "secret_key",
    "aws_session_token": "session_token",
    "region": "region",
    "aws_region": "region",
    "endpoint_url": "endpoint_override",
    "aws_endpoint_url": "endpoint_override",
}
"""What pyarrow calls the options of S3; others say nothing to it."""


def arrow(file: str, options: Mapping[str, str]) -> tuple[str, Any]:
    """The path and the file system of a file, as pyarrow takes them; None for that of local files.

    Raises:
        ValueError: if it is where pyarrow alone reads nothing.
    """
    if not is_address(file):
        return file, None
    scheme, _, rest = file.partition("://")
    return rest, _file_system(scheme, tuple(sorted(options.items())))


def is_arrow(file: str) -> bool:
    """Whether a file is one of Arrow's, by its name; else it is one of Parquet."""
    return file.endswith(ARROW_SUFFIXES)


def opened(file: str, options: Mapping[str, str]) -> Any:
    """The file as pyarrow opens it, to be closed: a `ParquetFile`, or what has its methods."""
    path, system = arrow(file, options)
    if is_arrow(file):
        map_file = importlib.import_module("pyarrow").memory_map
        return ArrowFile(map_file(path) if system is None else system.open_input_file(path))
    return importlib.import_module("pyarrow.parquet").ParquetFile(path, filesystem=system)


def schema(file: str, options: Mapping[str, str]) -> Any:
    """The Arrow schema of a file."""
    with opened(file, options) as found:
        return found.schema_arrow


def size_bytes(file: str, options: Mapping[str, str]) -> int:
    """The size of a file."""
    path, system = arrow(file, options)
    return Path(path).stat().st_size if system is None else int(system.get_file_info(path).size)


@functools.cache
def _file_system(scheme: str, options: tuple[tuple[str, str], ...]) -> Any:
    if scheme not in ("s3", "s3a", "gs"):
        raise ValueError(
            f"the reference is what pyarrow reads, which is s3:// and gs:// beside local files, found {scheme}://"
        )
    module = importlib.import_module("pyarrow.fs")
    if scheme == "gs":
        return module.GcsFileSystem()
    known = {OPTIONS[name.lower()]: value for name, value in options if name.lower() in OPTIONS}
    endpoint = known.get("endpoint_override") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        known["endpoint_override"] = endpoint
    return module.S3FileSystem(**known)
