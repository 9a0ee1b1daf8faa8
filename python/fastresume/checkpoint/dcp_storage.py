"""The storage of `torch.distributed.checkpoint`, with files that are durable and whose digests are known."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner, DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadPlan, SavePlan
from torch.distributed.checkpoint.storage import WriteResult

import fastresume._core as _core
from fastresume import files
from fastresume.checkpoint import leaves
from fastresume.checkpoint.layout import Seat
from fastresume.checkpoint.ranks import Ranks
from fastresume.files import Digest, Draft, digest_of


class _DraftFiles(FileSystem):
    """Writes files durably, and keeps their digests, and the error of the one that could not be written."""

    def __init__(self) -> None:
        self.digests: dict[str, Digest] = {}
        self.error: OSError | None = None

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        if mode != "wb":
            raise ValueError(f"drafts are written from their start, not opened as {mode!r}")
        draft = Draft(Path(path))
        try:
            with draft:
                yield draft
        finally:
            self.error = self.error or draft.error
        self.digests[Path(path).name] = draft.digest

    def rename(self, path: str | os.PathLike[str], new_path: str | os.PathLike[str]) -> None:
        super().rename(path, new_path)
        self.digests[Path(new_path).name] = self.digests.pop(Path(path).name)


class _WholeFiles(FileSystem):
    """Opens files of one directory that its manifest names, and no others."""

    def __init__(self, directory: Path, files: Mapping[str, Digest]) -> None:
        self._directory = directory
        self._files = files

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        place = Path(path)
        if mode != "rb" or place.parent != self._directory or place.name not in self._files:
            raise _core.StateError(f"{place} is no file of the checkpoint {self._directory}")
        descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with files.naming(place), os.fdopen(descriptor, "rb") as file:
            yield file


class Writing:
    """A state on its way into a directory: planned by all ranks, written by each, ended by rank 0.

    It does what `torch.distributed.checkpoint.save` does with the same planner and writer. But all messages
    go through `Ranks`, so that our errors and torch's are reported in the same way.

    Args:
        state: nested mappings of tensors and values, of the same keys on every rank.
        ranks: the ranks that write.
    """

    def __init__(self, state: dict[str, Any], ranks: Ranks) -> None:
        self._ranks = ranks
        self._state = state
        # Of what all ranks have, rank 0's counts: DistributedDataParallel takes its buffers from there, too.
        self._planner = DefaultSavePlanner(dedup_save_to_lowest_rank=True)
        self._files = _DraftFiles()
        self._writer: FileSystemWriter | None = None
        self._metadata: Metadata | None = None

    def plan(self) -> SavePlan:
        """What this rank has; on every rank."""
        is_lead = self._ranks.rank == 0
        self._planner.set_up_planner(self._state, is_coordinator=is_lead)
        return self._planner.create_local_plan()

    def join(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Who writes what; on rank 0."""
        shares, self._metadata = self._planner.create_global_plan(plans)
        return FileSystemWriter("").prepare_global_plan(shares)

    def write(self, directory: Path, share: SavePlan) -> list[WriteResult]:
        """Writes this rank's share into a directory: durable, except for the names."""
        # Everything is made durable by `_DraftFiles`.
        self._writer = FileSystemWriter(directory, sync_files=False)
        self._writer.fs = self._files
        self._writer.set_up_storage_writer(self._ranks.rank == 0)
        try:
            found = self._writer.write_data(self._planner.finish_plan(share), self._planner)
            found.wait()
            return found.value()
        except Exception as error:
            # Torch's writer knows only that it could not write, and not why.
            known = self._files.error
            if known is None or isinstance(error, OSError):
                raise
            raise OSError(known.errno, known.strerror, known.filename) from error

    def finish(self, results: list[list[WriteResult]]) -> None:
        """Writes the metadata; on rank 0."""
        if self._writer is None or self._metadata is None:
            raise RuntimeError("finish comes after plan, join and write")
        self._writer.finish(self._metadata, results)

    @property
    def digests(self) -> dict[str, Digest]:
        """Of the files that this rank has written, by name."""
        return dict(self._files.digests)


class Reading:
    """A directory whose files are read once their digests have been compared.

    Args:
        directory: of the checkpoint.
        files: the digests of its files.
        seat: whose leaves are read.
    """

    def __init__(self, directory: Path, files: Mapping[str, Digest], seat: Seat) -> None:
        self._reader = FileSystemReader(directory)
        self._reader.fs = _WholeFiles(directory, files)
        self._seat = seat
        self._metadata: Metadata | None = None
        self._planner: DefaultLoadPlanner | None = None
        self._plan: LoadPlan | None = None
        self._state: dict[str, Any] = {}
        self._arranged: dict[str, Any] = {}

    @property
    def metadata(self) -> Metadata:
        """Torch's metadata; pickled, so never read before its digest was compared."""
        if self._metadata is None:
            self._metadata = self._reader.read_metadata()
        return self._metadata

    def paths(self) -> dict[str, tuple[str | int, ...]]:
        """The paths of what there is for this rank, by torch's names."""
        found = {}
        for name, path in (self.metadata.planner_data or {}).items():
            rank = leaves.rank_in(path)
            inner = path if rank is None else path[1:]
            leaf = leaves.name_of(inner)
            is_mine = rank == self._seat.source(leaf) and self._seat.is_mine(leaf)
            if is_mine and name in self.metadata.state_dict_metadata:
                found[name] = inner
        return found

    def shapes(self, part: str) -> dict[tuple[str | int, ...], Any]:
        """What there is of a part: its metadata, by path below the part's name."""
        return {
            path[1:]: self.metadata.state_dict_metadata[name]
            for name, path in self.paths().items()
            if path[0] == part
        }

    def is_needed(self, path: tuple[str | int, ...]) -> bool:
        """Whether it is this rank that lacks something without the leaf at a path."""
        return self._seat.is_needed(leaves.name_of(path))

    def plan(self, state: dict[str, Any], is_whole: Callable[[str], bool] = lambda _: True) -> set[str]:
        """Says what `fill` will fill: tensors in place and other values, in nested mappings.

        Args:
            state: of some parts, all that there is.
            is_whole: the parts that must be complete: the state must have all that was saved of them.

        Returns:
            The names of its leaves.

        Raises:
            StateError: if it has what was not saved, or lacks what was; both are named.
        """
        sources = self._seat.sources
        arranged = leaves.under_ranks(state, sources) if sources else state
        planner = DefaultLoadPlanner()
        planner.set_up_planner(arranged, self.metadata, is_coordinator=True)
        saved = {name: path for name, path in self.paths().items() if path[0] in state}
        lacking = sorted(
            _dotted(path)
            for name, path in saved.items()
            if is_whole(str(path[0])) and name not in planner.state_dict and self.is_needed(path)
        )
        excess = sorted(_dotted(planner.mappings[name]) for name in planner.state_dict.keys() - saved.keys())
        if lacking or excess:
            differences = [f"it had {name!r}" for name in lacking[:1]] + [
                f"it had no {name!r}" for name in excess[:1]
            ]
            raise _core.StateError(
                f"what the checkpoint holds is not what there is now: {', '.join(differences)}"
            )
        self._reader.set_up_storage_reader(self.metadata, is_coordinator=True)
        try:
            local = self._reader.prepare_local_plan(planner.create_local_plan())
        except ValueError as error:
            raise _core.StateError(f"what the checkpoint holds is not what there is now: {error}") from None
        # Nothing is left to agree on: every rank reads what it needs, no matter which rank wrote it.
        (self._plan,) = self._reader.prepare_global_plan(planner.create_global_plan([local]))
        self._planner, self._state, self._arranged = planner, state, arranged
        return {leaves.name_of(path) for path, _ in leaves.leaves(state)}

    def fill(self) -> None:
        """Fills what was planned."""
        if self._planner is None or self._plan is None:
            raise RuntimeError("fill comes after plan")
        self._reader.read_data(self._planner.finish_plan(self._plan), self._planner).wait()
        if self._arranged is not self._state:
            leaves.put_back(self._state, self._arranged)


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(map(str, path))


def damage(directory: Path, files: Mapping[str, Digest], rank: int, world_size: int) -> str | None:
    """What is wrong with this rank's share of the files, by their digests; None if nothing is.

    Raises:
        OSError: if one can't be read.
    """
    for name in sorted(files)[rank::world_size]:
        found = digest_of(directory / name)
        if found != files[name]:
            return (
                f"{directory / name} is damaged: it has {found.size} bytes of SHA-256 {found.sha256[:16]}, "
                f"the manifest says {files[name].size} of {files[name].sha256[:16]}"
            )
    return None
