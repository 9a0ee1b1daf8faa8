"""The writer of a rank's delivery log of a mixture: which source's rows, or units, it got."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

import fastresume._core as _core
from fastresume.audit.log_format import digest, key_of
from fastresume.audit.writer import DeliveryLog, descriptions_of
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin, of_a_pass
from fastresume.buffers import Intervals, of_buffer, of_runs
from fastresume.mixing.spec import MixtureSpec
from fastresume.packing import delivery_log
from fastresume.packing.delivery_log import descriptions_of_units
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
        self.spec = replace(spec, is_audited=spec.sources[0][1].counting is not None)

    def digests(self, batch: Delivered, origin: Origin) -> tuple[int, int | None]:
        """The digest of the rows, or units, of a batch, each with its source, and that of what units hold."""
        if origin.units is not None:
            return of_a_pass(origin.units.proof)
        rows = of_runs(of_buffer(batch.runs))
        sources = of_a_pass(origin.place_sources)[: len(rows)]
        names = self.spec.sources
        each = (digest(rows[sources == of], key_of(names[of][0])) for of in np.unique(sources).tolist())
        return sum(each) % (1 << 64), None

    def content_at(self, _before: _core.Cursor, _positions: Intervals) -> int | None:
        """What the places at the end of a stage hold that no rank gets counts for nothing: they go back.

        None for rows, whose numbers alone are logged.
        """
        return 0 if self.spec.is_audited else None

    def stage_at(self, before: _core.Cursor) -> Mapping[str, Any]:
        """The state in the stage that begins there or continues; the sources' files, and older names."""
        files = {name: (spec.fingerprint, spec.hash_of_selection) for name, spec in self.spec.sources}
        renamed = {"renamed": dict(self.spec.renamed)} if self.spec.renamed else {}
        return {"stage": self.spec.fitted(before).to_json(), "sources": files, **renamed}

    def descriptions(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """The files that describe what is read, by their names."""
        for _, spec in self.spec.sources:
            yield from descriptions_of(spec.manifest)
            if isinstance(spec, UnitsSpec) and not self._rank:
                yield from descriptions_of_units(spec)


def audited(directory: str | os.PathLike[str], spec: ReadSpec) -> tuple[DeliveryLog, ReadSpec]:
    """The delivery log of what is read, and the same spec, whose batches have what it notes.

    Raises:
        SourceError: if the directory can't be created.
    """
    if not isinstance(spec, MixtureSpec):
        return delivery_log.audited(directory, spec)
    log = MixtureLog(directory, spec)
    return log, log.spec
