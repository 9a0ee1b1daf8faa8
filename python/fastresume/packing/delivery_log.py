"""The writer of a rank's delivery log of units: which were handed over, and what they hold."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import fastresume._core as _core
from fastresume.audit.log_format import contents_file, units_file
from fastresume.audit.writer import DeliveryLog
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin, Proof, of_a_pass
from fastresume.buffers import Intervals
from fastresume.packing.content import total
from fastresume.packing.packed_table import Digests
from fastresume.packing.spec import UnitsSpec
from fastresume.reading.files_spec import FilesSpec
from fastresume.reading.spec import ReadSpec


class UnitsLog(DeliveryLog):
    """The delivery log of one rank of a dataset of units.

    Args:
        directory: where the files of all ranks and runs are; created if it is missing.
        spec: what is read.

    Attributes:
        spec: the same, whose batches have a `Proof`.

    Raises:
        SourceError: if the directory can't be created.
    """

    def __init__(self, directory: str | os.PathLike[str], spec: UnitsSpec) -> None:
        super().__init__(directory, spec.manifest, spec.world)
        self.spec = replace(spec, is_audited=True)

    def digests(self, _batch: Delivered, origin: Origin) -> Proof:
        """The digest of the units of a batch, and that of what they hold."""
        return of_a_pass(of_a_pass(origin.units).proof)

    def content_at(self, before: _core.Cursor, positions: Intervals) -> int | None:
        """The digest of what the units that are dropped hold; None if that can't be read.

        One rank alone tells it.
        """
        if self._rank:
            return 0
        try:
            return self.spec.content_at(before, positions)
        except (_core.DataError, _core.SourceError):
            return None

    def descriptions(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """The files that describe what is read, by their names."""
        yield from super().descriptions()
        if not self._rank:
            yield from descriptions_of_units(self.spec)


def descriptions_of_units(spec: UnitsSpec) -> list[tuple[str, Callable[[], bytes]]]:
    """The files that describe units, by their names: how they are made, and what each one holds."""

    @cache
    def contents() -> Digests | None:
        try:
            return spec.contents()
        except (_core.DataError, _core.SourceError):
            return None  # what it is compared with can't be read

    def text() -> bytes:
        table, each = spec.units_table, contents()
        told: dict[str, Any] = {
            "fingerprint": spec.fingerprint,
            "hash": spec.hash_of_selection,
            "selection": spec.manifest.selection,
            "unit": repr(spec.unit),
            "counted": spec.counted,
            "starts": table.starts.tolist(),
            "content": None if each is None else total(each),
            "dropped_tokens": table.dropped_tokens,
        }
        return json.dumps(told).encode()

    def of_each() -> bytes:
        found = contents()
        return b"" if found is None else found.astype("<u8").tobytes()

    of_units = spec.fingerprint, spec.hash_of_selection
    return [(units_file(*of_units), text), (contents_file(*of_units), of_each)]


def audited(directory: str | os.PathLike[str], spec: ReadSpec) -> tuple[DeliveryLog, ReadSpec]:
    """The delivery log of what is read, and the same spec, whose batches have what it notes.

    Raises:
        TypeError: if it is of no files.
        SourceError: if the directory can't be created.
    """
    if isinstance(spec, UnitsSpec):
        log = UnitsLog(directory, spec)
        return log, log.spec
    if not isinstance(spec, FilesSpec):
        raise TypeError(f"audit= knows what ParquetDatasets read, found {type(spec).__name__}")
    manifest = None if spec.start().round is not None and spec.named_session is None else spec.manifest
    return DeliveryLog(directory, manifest, spec.world), spec
