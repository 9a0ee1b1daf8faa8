"""What is read, as a delivery log notes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, Self

import fastresume._core as _core
from fastresume.batch.delivered import Delivered
from fastresume.batch.origin import Origin
from fastresume.buffers import Intervals
from fastresume.options.world import World

Description = tuple[str, Callable[[], bytes]]
"""The name of a file that describes what is read, and what makes its bytes."""


class Logged(Protocol):
    """What a delivery log asks of the spec whose batches it notes."""

    @property
    def world(self) -> World:
        """The rank whose log it is, and the number of ranks."""

    def audited(self) -> Self:
        """The same, whose batches have what is noted."""

    def digests(self, batch: Delivered, origin: Origin) -> tuple[int, int | None]:
        """The digest of what is counted (rows, units), and that of what units hold; None for rows."""

    def dropped_content(self, before: _core.Cursor, positions: Intervals) -> int | None:
        """The digest of what units at positions hold that are dropped; None for rows."""

    def stage_at(self, before: _core.Cursor) -> Mapping[str, Any]:
        """What is noted of the stage of a mixture that a cursor is in, or of a stream's units."""

    def descriptions(self, rank: int) -> Iterator[Description]:
        """The files that describe what is read, which this rank writes if they are missing."""
