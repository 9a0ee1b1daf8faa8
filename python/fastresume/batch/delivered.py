"""A batch on its way to who asked for it: what is known of it, whoever has made it."""

from __future__ import annotations

from typing import Protocol

import fastresume._core as _core


class Delivered(Protocol):
    """What is known of a batch beside its tensors: of one that the core made, or a worker process.

    Rows and positions are those of the valid rows: what fills a batch up was delivered elsewhere. The core
    alone trims them.
    """

    @property
    def number(self) -> int:
        """Its number among the batches of the cut."""

    @property
    def epoch(self) -> int:
        """The number of the pass."""

    @property
    def step(self) -> int:
        """Batches of the pass before this one."""

    @property
    def ends_pass(self) -> bool:
        """Whether it is the last one of the pass."""

    @property
    def cursor(self) -> _core.Cursor:
        """The cursor after it."""

    @property
    def num_rows(self) -> int:
        """Its rows, with those that only fill it up."""

    @property
    def valid_rows(self) -> int:
        """Its first so many rows, which are delivered for the first time."""

    @property
    def num_bytes(self) -> int:
        """The bytes of its tensors."""

    @property
    def runs(self) -> _core.Buffer:
        """The numbers of the valid rows, in its order, as ranges."""

    @property
    def positions(self) -> _core.Buffer:
        """The positions of the valid rows in the order of the pass, in its order, as ranges."""

    @property
    def dropped(self) -> _core.Buffer:
        """The positions that no rank gets, if it is the last one of the pass; else none."""


def cursor_after(delivered: Delivered, end_cursor: _core.Cursor | None) -> _core.Cursor:
    """The cursor after a batch; `end_cursor` if a pass that starts anew ends with it."""
    return end_cursor if delivered.ends_pass and end_cursor is not None else delivered.cursor
