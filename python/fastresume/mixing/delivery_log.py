"""The writer of a rank's delivery log of a mixture: which rows of which source were handed over."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import fastresume._core as _core
from fastresume.audit.log_format import digest, key_of
from fastresume.audit.writer import DeliveryLog, descriptions_of
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import of_a_pass
from fastresume.buffers import of_buffer, of_runs
from fastresume.mixing.spec import MixtureSpec
from fastresume.packing import delivery_log
from fastresume.packing.spec import UnitsSpec
from fastresume.reading.spec import ReadSpec


class MixtureLog(DeliveryLog):
    """The delivery log of one rank of a mixture.

    Args:
        directory: where the files of all ranks and runs are; created if it is missing.
        spec: what is read.

    Raises:
        SourceError: if the directory can't be created.
    """

    def __init__(self, directory: str | os.PathLike[str], spec: MixtureSpec) -> None:
        super().__init__(directory, spec.sources[0][1].manifest, spec.world)
        self._spec = spec

    def digests(self, batch: Delivered) -> tuple[int, None]:
        """The digest of the rows of a batch, each with its source."""
        made: Any = batch
        rows = of_runs(of_buffer(batch.runs))
        sources = of_a_pass(made.batch._origin.sources)[: len(rows)]
        names = self._spec.sources
        each = (digest(rows[sources == of], key_of(names[of][0])) for of in np.unique(sources).tolist())
        return sum(each) % (1 << 64), None

    def stage_at(self, before: _core.Cursor) -> Mapping[str, Any]:
        """The state as the stage has it that begins there or goes on, and the files of the sources."""
        files = {name: (spec.fingerprint, spec.manifest.selection) for name, spec in self._spec.sources}
        return {"stage": self._spec.fitted(before).to_json(), "sources": files}

    def descriptions(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """The files that describe what is read, by their names."""
        for _, spec in self._spec.sources:
            yield from descriptions_of(spec.manifest)


def audited(directory: str | os.PathLike[str], spec: ReadSpec) -> tuple[DeliveryLog, ReadSpec]:
    """The delivery log of what is read, and the same spec, whose batches have what it notes.

    Raises:
        TypeError: if it is a mixture of units.
        SourceError: if the directory can't be created.
    """
    if not isinstance(spec, MixtureSpec):
        return delivery_log.audited(directory, spec)
    if of_units := [name for name, source in spec.sources if isinstance(source, UnitsSpec)]:
        raise TypeError(
            f"audit= of a Mixture proves rows, and the source {of_units[0]!r} counts units: audit the "
            "dataset alone"
        )
    return MixtureLog(directory, spec), spec
