"""Where a dataset keeps what it has read, for the next start."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fastresume.options.checks import at_least, one_path, path_or_address, quoted
from fastresume.options.unknown import takes_no_other


@takes_no_other("fr.Cache", "cache")
@dataclass(frozen=True)
class Cache:
    """What to keep for the next start, and where: `cache=` of a `ParquetDataset`.

    Args:
        manifest: a file, or an object as `s3://bucket/manifest`, for what footers say. A later start reads no
            footers: it asks for the size and modification time (of objects, the tag) of each file, and reads
            only those that changed. The file is created if it is missing, and kept up to date. A damaged one,
            or one of another release, is replaced; a file of something else is refused. It belongs to one
            dataset (what another one put there is dropped), and any number of processes may share it. If it
            can't be written, a warning says so and nothing else changes. Keep it where `paths` do not find
            it. It holds paths, sizes, times, names of columns and numbers of rows, and no data. Next to it
            are what `unit=` knows of each file (`.units`), and the rows that each filter keeps (`.filter-`
            and a hash of the filter).
        data: a directory on a local disk for what is read of objects, so that the next pass (epoch), job or
            process on this machine asks no store for it. It is created if it is missing, and any number of
            processes may share it. What can't be kept or read there is read from the store, and a warning
            says so once. It holds data, as the objects do: anyone who may write to it can change what is
            read. Local files are read where they are, and are not copied there.
        data_bytes: how many bytes the files in `data` may have, for all processes together; None for no limit
            but the disk. When it is full, nothing is evicted: only you make room, with `rm -r`. Each process
            may write up to 4 MiB more for a moment.

    Raises:
        ValueError: if it keeps nothing, `manifest` is a directory, or `data_bytes` has none to bound.
        TypeError: for arguments of another type.

    Threads and forks: a frozen value.

    Examples:
        >>> Cache(data="/local/cache", data_bytes=500 << 30)
        Cache(manifest=None, data='/local/cache', data_bytes=536870912000)
    """

    manifest: str | os.PathLike[str] | None = None
    data: str | os.PathLike[str] | None = None
    data_bytes: int | None = None

    def __post_init__(self) -> None:
        if self.manifest is not None:
            manifest = path_or_address("manifest of fr.Cache", self.manifest)
            if manifest.endswith("/") or Path(manifest).is_dir():
                raise ValueError(
                    f"manifest of fr.Cache names a file, found the directory {manifest!r}: write "
                    f"manifest={manifest.rstrip('/') + '/manifest'!r}"
                )
            object.__setattr__(self, "manifest", manifest)
        if self.data is not None:
            object.__setattr__(self, "data", one_path("data of fr.Cache", self.data))
        if self.data_bytes is not None:
            most = at_least(1, "data_bytes of fr.Cache", self.data_bytes)
            object.__setattr__(self, "data_bytes", most)
            if self.data is None:
                raise ValueError(
                    f"data_bytes={most} bounds nothing without a directory: write "
                    f"fr.Cache(data='/local/cache', data_bytes={most})"
                )
        if self.manifest is None and self.data is None:
            raise ValueError("fr.Cache() keeps nothing: write fr.Cache(manifest='manifest'), or data=")

    @classmethod
    def _checked(cls, given: object) -> Self | None:
        """What a user passed as `cache=`.

        Raises:
            TypeError: if it is no `Cache`.
        """
        if given is not None and not isinstance(given, cls):
            raise TypeError(
                f"cache must be a Cache, found {quoted(given)}: write cache=fr.Cache(manifest='manifest', "
                "data='/local/cache')"
            )
        return given

    @property
    def _blocks(self) -> tuple[Path, int | None] | None:
        """The directory of what is read of objects, and how many bytes it may have."""
        # Workers and other ranks may have another working directory.
        return None if self.data is None else (Path(self.data).absolute(), self.data_bytes)

    @property
    def _manifest_path(self) -> str | None:
        """The path or address of the manifest."""
        return None if self.manifest is None else os.fspath(self.manifest)
