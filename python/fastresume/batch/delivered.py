"""The protocol of a batch before its tensors are made, from the core or from a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import fastresume._core as _core
from fastresume.batch.damage import Range


class Delivered(Protocol):
    """The properties of a batch without its tensors, whether the core made it or a worker process.

    Rows and positions are those of the valid rows; padding rows count where they were delivered first. Only
    the core trims them.
    """

    @property
    def number(self) -> int:
        """The batch's number within its cut."""

    @property
    def epoch(self) -> int:
        """The number of its pass."""

    @property
    def step(self) -> int:
        """The number of batches of the pass before it."""

    @property
    def ends_pass(self) -> bool:
        """Whether it is the last batch of the pass."""

    @property
    def cursor(self) -> _core.Cursor:
        """The cursor after it."""

    @property
    def num_rows(self) -> int:
        """The number of its rows, with padding."""

    @property
    def valid_rows(self) -> int:
        """The number of its valid rows, which come first."""

    @property
    def num_bytes(self) -> int:
        """The bytes of its tensors."""

    @property
    def runs(self) -> _core.Buffer:
        """The row numbers of the valid rows, in the batch's order, as ranges."""

    @property
    def damage(self) -> Sequence[Range]:
        """The rows that could not be decoded, and maybe others: `[start, end)`, and why."""

    @property
    def positions(self) -> _core.Buffer:
        """The positions of the valid rows, in the batch's order, as ranges."""

    @property
    def dropped(self) -> _core.Buffer:
        """The positions that no rank gets, if this is the last batch of the pass; else empty."""


def cursor_after(delivered: Delivered, end_cursor: _core.Cursor | None) -> _core.Cursor:
    """The cursor after a batch; `end_cursor` if the batch ends a pass and the next one starts over."""
    return end_cursor if delivered.ends_pass and end_cursor is not None else delivered.cursor
