"""The index of units: which rows each one is made of, as the core tells by what rows cost."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

import fastresume._core as _core
from fastresume.amounts import plural
from fastresume.messages import warn
from fastresume.options.units import Packed, Unit
from fastresume.options.world import default_threads
from fastresume.packing.bins_table import BinsTable
from fastresume.packing.costs import numbers_of
from fastresume.packing.packed_table import PackedTable
from fastresume.packing.unreadable import without

_log = logging.getLogger("fastresume")

_SECONDS = 10.0
"""So often the log tells how far it is."""


class Index(NamedTuple):
    """Units, and what they are made of.

    Args:
        table: which rows each unit is made of.
        manifest: the files; all rows that can be read are selected.
        left_out: how many selected rows can't be read.
        files_read: how many files were read for it; the others were known.
    """

    table: PackedTable | BinsTable
    manifest: _core.Manifest
    left_out: int
    files_read: int


def index_of(
    manifest: _core.Manifest, unit: Unit, columns: list[str], cache: str | None, most_bad: int | None
) -> Index:
    """The index of the selected rows. What it knows of each file is kept beside `cache`.

    Args:
        manifest: the files, and which of their rows are selected.
        unit: how rows become units.
        columns: the names in the files of those that tell what rows cost.
        cache: the cache of the manifest, if there is one.
        most_bad: how many rows that can't be read are left out; None if one is an error.

    Raises:
        DataError: if rows can't be put together so, or more can't be read.
        SourceError: if a file can't be read.

    Warns:
        UserWarning: if it can't be kept.
    """
    table, damage, files_read, not_kept = _made(manifest, unit, columns, (cache, default_threads(), most_bad))
    if not_kept is not None:
        warn(not_kept)
    readable, left_out = manifest, 0
    if most_bad is not None:
        readable, left_out = without(manifest, damage, most_bad)
    table.warn_of_drops()
    counted = f"{plural(int(table.starts[-1]), 'unit')} of {plural(manifest.num_selected, 'row')}"
    read = f"{files_read:,} of {plural(len(manifest.files), 'file')} read"
    if manifest.num_selected:  # of a stream, nothing is known before its first round
        _log.info("%r: %s, %s dropped; %s", unit, counted, plural(table.dropped_tokens, "token"), read)
    return Index(table, readable, left_out, files_read)


def table_of(
    manifest: _core.Manifest, unit: Unit, columns: list[str], cut: Sequence[tuple[int, int]] = ()
) -> PackedTable | BinsTable:
    """Which rows each unit of the selected ones is made of.

    Args:
        manifest: the files, and which of their rows are selected.
        unit: how rows become units.
        columns: the names in the files of those that tell what rows cost.
        cut: of each file, the tokens `[start, end)` that sequences are cut from; all if none are named.

    Raises:
        DataError: if rows can't be put together so.
        SourceError: if a file can't be read.
    """
    return _made(manifest, unit, columns, (None, default_threads(), None), cut)[0]


def _made(
    manifest: _core.Manifest,
    unit: Unit,
    columns: list[str],
    how: tuple[str | None, int, int | None],
    cut: Sequence[tuple[int, int]] = (),
) -> tuple[PackedTable | BinsTable, list[tuple[int, int, str]], int, str | None]:
    """The table, rows that can't be read, how many files were read, and why it could not be kept, if so."""
    costs = columns, numbers_of(manifest, columns[0]) if unit.holds_whole_rows else None
    core, *_ = made = _core.UnitTable.of(manifest, costs, unit.rule, how, _Progress(), cut)
    return PackedTable(unit, core) if isinstance(unit, Packed) else BinsTable(core), *made[1:]


class _Progress:
    """Logs how many row groups were read, now and then."""

    def __init__(self) -> None:
        self._logged_at = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Takes note of how far it is."""
        if time.monotonic() - self._logged_at > _SECONDS:
            self._logged_at = time.monotonic()
            _log.info("the index of units: read %d of %d row groups", done, total)
