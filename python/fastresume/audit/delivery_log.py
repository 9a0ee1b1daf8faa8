"""The writer of a rank's delivery log, which records each batch before it is handed over.

`fastresume audit` reads the logs of all runs and ranks of a job; `fastresume.audit.verify` is the proof.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import fastresume._core as _core
from fastresume import files
from fastresume.audit.log_format import (
    BATCH,
    CONTENT,
    CONTENT_DIGEST,
    FIXED,
    LAST_BATCH,
    MAGIC,
    START,
    Integers,
    dataset_file,
    masked_body,
    record,
    selection_file,
    state_hash,
    varints,
)
from fastresume.audit.logged import Description, Logged
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin
from fastresume.buffers import Intervals, of_buffer, of_words
from fastresume.options.checks import one_path


@dataclass
class _File:
    """A file of this process; it is closed when no log refers to it any more."""

    path: Path
    descriptor: int
    process: int

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


@dataclass(frozen=True)
class _Tip:
    """The end of a file: the CRC-32 of its last record, its segment, and the states around its batch."""

    file: _File
    check: int
    segment: Mapping[str, Any] | None = None
    before: _core.Cursor | None = None
    after: _core.Cursor | None = None


class DeliveryLog:
    """The delivery log of one rank.

    A record reaches the operating system, in one unbuffered write, before `deliver` returns: it survives the
    death of the process. It is not forced to the disk, so the death of the machine may take the last records.

    Args:
        directory: where the files of all ranks and runs are; created if it is missing.
        spec: what is read, as its `audited()` gives it.

    Raises:
        SourceError: if the directory can't be created.
    """

    def __init__(self, directory: str | os.PathLike[str], spec: Logged) -> None:
        self._directory = Path(one_path("audit", directory))
        self._spec = spec
        self._rank, self._world_size = spec.world.rank, spec.world.world_size
        self._segment: Mapping[str, Any] | None = None
        self._name: str | None = None
        self._tip: _Tip | None = None
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise _core.SourceError(
                f"{self._directory}: can't write the delivery log: it is a file, and audit= takes a directory"
            ) from None
        except OSError as cause:
            raise _failure(self._directory, cause) from None

    def begin(self, cut: tuple[int, int, int], batch_size: int, tail: str, on_iter: str) -> None:
        """Notes how the next batches are cut. Nothing is written before the first of them."""
        self._segment = {"cut": list(cut), "batch_size": batch_size, "tail": tail, "on_iter": on_iter}

    def follow(self, spec: Logged) -> None:
        """Notes that the next batches are of another round of a stream."""
        self._spec = spec

    def deliver(
        self,
        batch: Delivered,
        origin: Origin,
        after: _core.Cursor,
        before: _core.Cursor,
        masked: Sequence[tuple[str, Integers]] = (),
    ) -> None:
        """Writes that a batch is being handed over, with its origin and the states before and after it.

        Its masked rows are written before it, by cause.

        A signal handler's exception may keep a batch from the caller, so that it is handed over again from
        the same state. It is still written once. (If the write itself was interrupted, it is written twice.)

        Raises:
            SourceError: if the file can't be written; the path is named.
        """
        found, content = self._spec.digests(batch, origin)
        numbers = [batch.epoch, batch.step, *_numbers(of_buffer(batch.positions))]
        # A round whose rest makes no whole batch is not over: more rows come to it.
        is_last = batch.ends_pass and (after.round is None or after.epoch > batch.epoch)
        if is_last:
            dropped = of_buffer(batch.dropped)
            numbers += _numbers(dropped)
            content = _sum(content, self._spec.dropped_content(before, dropped))
        kind = LAST_BATCH if is_last else BATCH
        self._append(kind, before, after, found, numbers, masked, content)

    def end(self, before: _core.Cursor, after: _core.Cursor) -> None:
        """Writes that the pass ends without a batch: the rest of it is dropped.

        Raises:
            SourceError: if the file can't be written; the path is named.
        """
        dropped = of_buffer(before.remaining())
        numbers = [before.epoch, before.steps, 0, *_numbers(dropped)]
        self._append(LAST_BATCH, before, after, 0, numbers, (), self._spec.dropped_content(before, dropped))

    def close(self) -> None:
        """Closes the file; a later batch opens another."""
        self._tip = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickles the log without its file: a copy opens a file of its own."""
        return {**self.__dict__, "_tip": None}

    def _append(
        self,
        kind: int,
        before: _core.Cursor,
        after: _core.Cursor,
        row_digest: int,
        numbers: Sequence[int],
        masked: Sequence[tuple[str, Integers]] = (),
        content: int | None = None,
    ) -> None:
        tip, data, previous = self._tip, b"", self._name
        if tip is not None and tip.file.process != os.getpid():
            tip = None
        if tip is not None and tip.segment is self._segment and (tip.before, tip.after) == (before, after):
            return
        if tip is not None and _is_removed(tip.file):
            raise _core.SourceError(
                f"{tip.file.path}: the delivery log was removed while the job ran, so that nothing can prove "
                "it any more: start the job again, with an audit= directory that stays"
            )
        # A write that a signal handler's exception interrupts leaves a file with an unknown end.
        self._tip = None
        if tip is None:
            tip, data = _Tip(self._create(), zlib.crc32(MAGIC)), MAGIC
        check = tip.check
        if tip.segment is not self._segment or tip.after != before:
            start = {"cursor": before.to_json(), "rank": self._rank, "world_size": self._world_size}
            start |= {"continues": previous, **(self._segment or {}), **self._spec.stage_at(before)}
            packed, check = record(bytes([START]) + json.dumps(start).encode(), check)
            data += packed
        if masked:
            packed, check = record(masked_body(masked), check)
            data += packed
        if content is not None:
            packed, check = record(CONTENT_DIGEST.pack(CONTENT, content), check)
            data += packed
        body = FIXED.pack(kind, state_hash(after.to_json()), row_digest) + varints(numbers)
        packed, check = record(body, check)
        self._write(tip.file, data + packed, is_new=tip.segment is None)
        self._name = tip.file.path.name
        self._tip = _Tip(tip.file, check, self._segment, before, after)

    def _write(self, file: _File, data: bytes, is_new: bool) -> None:
        try:
            written = os.write(file.descriptor, data)
        except OSError as cause:
            if is_new:  # it is empty
                with contextlib.suppress(OSError):
                    file.path.unlink()
            raise _failure(file.path, cause) from None
        if written < len(data):
            raise _core.SourceError(
                f"{file.path}: only {written} of {len(data)} bytes of the delivery log could be written: "
                "is the disk full?"
            )

    def _create(self) -> _File:
        """A new file of this process; also writes missing descriptions of what is read."""
        for name, content in self._spec.descriptions(self._rank):
            self._describe(name, content)
        rank, process = f"rank-{self._rank:05}-of-{self._world_size:05}", os.getpid()
        # Runs of one moment have the same time of modification: their names say which one began first.
        path = self._directory / f"{rank}-{process}-{time.time_ns():x}.log"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        try:
            return _File(path, os.open(path, flags, 0o666), process)
        except OSError as cause:
            raise _failure(path, cause) from None

    def _describe(self, name: str, content: Callable[[], bytes]) -> None:
        path = self._directory / name
        try:
            if not path.exists():
                files.put(path, content())
        except OSError as cause:
            raise _failure(path, cause) from None


def descriptions_of(manifest: _core.Manifest) -> Iterator[Description]:
    """The files that describe a dataset and its selected rows, by their names."""
    yield dataset_file(manifest.fingerprint), lambda: json.dumps(describe(manifest)).encode()
    selected = manifest.selected
    if manifest.selection is not None and selected is not None:
        yield selection_file(manifest.selection), lambda: of_buffer(selected).astype("<i8").tobytes()


def describe(manifest: _core.Manifest) -> dict[str, Any]:
    """The dataset as JSON: its files, without their paths' common part, and the rows of row groups."""
    starts = of_words(manifest.group_starts)
    rows = (starts[1:] - starts[:-1]).tolist()
    bounds = of_words(manifest.file_groups).tolist()
    directories = [path.split("/")[:-1] for path in manifest.files]
    ends = min(directories, default=[]), max(directories, default=[])
    common = len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*ends, strict=False))))
    names = ["/".join(path.split("/")[common:]) for path in manifest.files]
    files = [[name, rows[bounds[index] : bounds[index + 1]]] for index, name in enumerate(names)]
    return {"fingerprint": manifest.fingerprint, "rows": manifest.num_rows, "files": files}


def _numbers(ranges: Intervals) -> list[int]:
    pairs = np.column_stack([ranges[:, 0], ranges[:, 1] - ranges[:, 0]])
    return [len(ranges), *pairs.reshape(-1).tolist()]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else (one + other) % (1 << 64)


def _is_removed(file: _File) -> bool:
    # Some file systems count no links: there the name decides.
    return os.fstat(file.descriptor).st_nlink == 0 and not file.path.exists()


def _failure(path: Path, cause: OSError) -> _core.SourceError:
    return _core.SourceError(f"{path}: can't write the delivery log: {cause.strerror or cause}")
