"""Pruning: what paths, footers, bloom filters and page indexes say about a condition, without the data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import Intervals, of_buffer, of_words
from fastresume.filter.expression import Expression
from fastresume.filter.ternary import Facts, Sought, Told, Truth

GROUPS_AT_A_TIME = 256
"""The number of row groups whose page indexes and bloom filters are in memory at a time."""

LARGEST_SOUGHT = 2**64
"""Integers above this are in columns of floats only."""


def selected_rows(manifest: _core.Manifest) -> Intervals:
    """The selected rows of a manifest as intervals."""
    selected = manifest.selected
    return np.array([[0, manifest.num_rows]]) if selected is None else of_buffer(selected)


def decide(manifest: _core.Manifest, layout: _core.Layout, wanted: Expression) -> tuple[Intervals, Intervals]:
    """The selected rows for which a condition is known to be true, and those that must be read.

    Both are intervals.

    Raises:
        DataError, SourceError: if a file can't be opened, or has a damaged page index or bloom filter.
    """
    selected, starts = selected_rows(manifest), of_words(manifest.group_starts)
    bounds = np.column_stack([starts[:-1], starts[1:]])
    fields = [Asked(field.name, field.dtype.startswith("float")) for field in layout.fields]
    facts = {}
    for field, told in zip(fields, layout.statistics(manifest), strict=True):
        limits, nulls = [(each.min, each.max) for each in told], [each.null_count for each in told]
        rows = (bounds[:, 1] - bounds[:, 0]).tolist()
        facts[field.name] = Facts(limits, nulls, rows, [frozenset()] * len(told), field.is_float)
    kept, open_ = _parted(bounds, wanted.of_groups(facts))
    # Row groups without a selected row are skipped.
    open_ = of_buffer(_core.intersection(selected, open_))
    groups = _groups_of(starts, open_)
    parts = [
        _decide_details(manifest, layout, wanted, fields, facts, groups[first : first + GROUPS_AT_A_TIME])
        for first in range(0, len(groups), GROUPS_AT_A_TIME)
    ]
    kept = np.concatenate([kept, *(part for part, _ in parts)])
    left = np.concatenate([np.empty((0, 2), np.int64), *(part for _, part in parts)])
    return _intersection(selected, kept), _intersection(selected, left)


@dataclass(frozen=True)
class Asked:
    """A column of a condition, and whether its values are floats."""

    name: str
    is_float: bool


def _decide_details(
    manifest: _core.Manifest,
    layout: _core.Layout,
    wanted: Expression,
    fields: list[Asked],
    of_groups: dict[str, Facts],
    groups: npt.NDArray[np.int64],
) -> tuple[Intervals, Intervals]:
    """The same for some row groups, by the bounds of their pages and by values that are absent."""
    sought = wanted.sought
    values = [list(sought.get(field.name, ())) for field in fields]
    starts = of_words(manifest.group_starts)
    facts = {field.name: Facts([], [], [], [], field.is_float) for field in fields}
    spans = []
    told = layout.details(manifest, groups.tolist(), [[*map(_as_told, some)] for some in values])
    for group, columns in zip(groups.tolist(), told, strict=True):
        first, count = int(starts[group]), int(starts[group + 1] - starts[group])
        firsts = [np.array(column.first_rows, np.int64) for column in columns]
        # Ranges of rows in which no column begins a new page.
        cuts = np.unique(np.concatenate([[0], *firsts]))
        spans.append(np.column_stack([cuts, np.append(cuts[1:], count)]) + first)
        for field, column, of_column, its_firsts in zip(fields, columns, values, firsts, strict=True):
            its, pages = facts[field.name], column.pages
            its.absent.extend([frozenset(of_column[number] for number in column.absent)] * len(cuts))
            if not pages:
                whole = of_groups[field.name]
                its.bounds.extend([whole.bounds[group]] * len(cuts))
                its.nulls.extend([whole.nulls[group]] * len(cuts))
                its.rows.extend([count] * len(cuts))
                continue
            rows = np.diff(its_firsts, append=count).tolist()
            for page in (np.searchsorted(its_firsts, cuts, "right") - 1).tolist():
                its.bounds.append((pages[page].min, pages[page].max))
                its.nulls.append(pages[page].null_count)
                its.rows.append(rows[page])
    return _parted(np.concatenate(spans), wanted.of_groups(facts))


def _as_told(value: Sought) -> Told:
    """The value in the form that the core takes; NaN, which equals nothing, if no column has such a value."""
    if isinstance(value, Fraction):
        return math.nan
    if not isinstance(value, int) or abs(value) < LARGEST_SOUGHT:
        return value
    try:
        return float(value) if float(value) == value else math.nan
    except OverflowError:
        return math.nan


def _parted(spans: Intervals, truth: Truth) -> tuple[Intervals, Intervals]:
    """The ranges whose rows are all kept, and those that may have some to keep."""
    is_kept = truth.yes & ~truth.no & ~truth.null
    return np.ascontiguousarray(spans[is_kept]), np.ascontiguousarray(spans[truth.yes & ~is_kept])


def _groups_of(starts: npt.NDArray[np.int64], rows: Intervals) -> npt.NDArray[np.int64]:
    """The row groups of some rows."""
    ends = np.zeros(len(starts) + 1, np.int64)
    np.add.at(ends, np.searchsorted(starts, rows[:, 0], "right") - 1, 1)
    np.add.at(ends, np.searchsorted(starts, rows[:, 1], "left"), -1)
    return np.flatnonzero(np.cumsum(ends))


def _intersection(selected: Intervals, rows: Intervals) -> Intervals:
    return of_buffer(_core.intersection(selected, np.ascontiguousarray(rows)))
