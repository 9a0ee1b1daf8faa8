"""Pruning: what paths, footers, bloom filters and page indexes say about a condition, without the data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

import fastresume._core as _core
from fastresume.buffers import Intervals, of_buffer, of_words
from fastresume.filter.condition import Condition
from fastresume.filter.truth import Bound, Facts, PlainValue, Sought, Truth

GROUPS_AT_A_TIME = 256
"""The number of row groups whose page indexes and bloom filters are in memory at a time."""

LARGEST_SOUGHT = 2**64
"""Integers above this are in columns of floats only."""


def selected_rows(manifest: _core.Manifest) -> Intervals:
    """The selected rows of a manifest as intervals."""
    selected = manifest.selected
    return np.array([[0, manifest.num_rows]]) if selected is None else of_buffer(selected)


@dataclass(frozen=True)
class Decision:
    """What files tell without their data: rows kept, rows to read, and what left out others."""

    kept: Intervals
    open_: Intervals
    by_paths: int
    by_statistics: int
    by_page_indexes: int
    by_bloom_filters: int


def decide(
    manifest: _core.Manifest,
    layout: _core.Layout,
    wanted: Condition,
    partitions: AbstractSet[str],
    reads_damaged: bool = False,
) -> Decision:
    """The selected rows that are known to fulfil a condition, and those that have to be read.

    `partitions` are the columns in the files' paths. Row groups whose details can't be known are read, if it
    `reads_damaged`.

    Raises:
        DataError, SourceError: if a file can't be opened, or has a damaged page index or bloom filter.
    """
    selected, starts = selected_rows(manifest), of_words(manifest.group_starts)
    bounds = np.column_stack([starts[:-1], starts[1:]])
    fields = [Asked(field.name, field.dtype.startswith("float")) for field in layout.fields]
    facts = {}
    for field, statistics in zip(fields, layout.statistics(manifest), strict=True):
        limits, nulls = (
            [(each.min, each.max) for each in statistics],
            [each.null_count for each in statistics],
        )
        rows = (bounds[:, 1] - bounds[:, 0]).tolist()
        facts[field.name] = Facts(limits, nulls, rows, [frozenset()] * len(statistics), field.is_float)
    of_paths = {name: each if name in partitions else each.unknown() for name, each in facts.items()}
    by_paths = _count(selected, bounds[~wanted.of_groups(of_paths).yes])
    truth = wanted.of_groups(facts)
    by_statistics = _count(selected, bounds[~truth.yes]) - by_paths
    kept, open_ = _parted(bounds, truth)
    # Row groups without a selected row are of no interest.
    open_ = of_buffer(_core.intersection(selected, open_))
    groups = _groups_of(starts, open_)
    by_pages = by_details = 0
    all_kept, left = [kept], [np.empty((0, 2), np.int64)]
    parts = [groups[first : first + GROUPS_AT_A_TIME] for first in range(0, len(groups), GROUPS_AT_A_TIME)]
    parts.reverse()
    while parts:
        some = parts.pop()
        try:
            spans, of_spans = _details(manifest, layout, wanted, fields, facts, some)
        except (_core.DataError, _core.SourceError):
            if not reads_damaged:
                raise
            if len(some) > 1:
                parts += reversed(np.array_split(some, 2))
            else:
                left.append(bounds[some])
            continue
        of_pages = {name: each.without_absent() for name, each in of_spans.items()}
        by_pages += _count(selected, spans[~wanted.of_groups(of_pages).yes])
        truth = wanted.of_groups(of_spans)
        by_details += _count(selected, spans[~truth.yes])
        kept, open_ = _parted(spans, truth)
        all_kept.append(kept)
        left.append(open_)
    kept = _intersection(selected, np.concatenate(all_kept))
    open_ = _intersection(selected, np.concatenate(left))
    return Decision(kept, open_, by_paths, by_statistics, by_pages, by_details - by_pages)


@dataclass(frozen=True)
class Asked:
    """A column of a condition, and whether its values are floats."""

    name: str
    is_float: bool


def _details(
    manifest: _core.Manifest,
    layout: _core.Layout,
    wanted: Condition,
    fields: list[Asked],
    of_groups: dict[str, Facts],
    groups: npt.NDArray[np.int64],
) -> tuple[Intervals, dict[str, Facts]]:
    """Stretches of some row groups, and what bounds of pages and absent values tell of them."""
    sought = wanted.sought
    values = [list(sought.get(field.name, ())) for field in fields]
    starts = of_words(manifest.group_starts)
    facts = {field.name: Facts([], [], [], [], field.is_float) for field in fields}
    spans = []
    details = layout.details(manifest, groups.tolist(), [[*map(_as_plain, some)] for some in values])
    for group, columns in zip(groups.tolist(), details, strict=True):
        first, count = int(starts[group]), int(starts[group + 1] - starts[group])
        firsts = [np.array(column.first_rows, np.int64) for column in columns]
        # Ranges of rows in which no column begins a new page.
        cuts = np.unique(np.concatenate([[0], *firsts]))
        spans.append(np.column_stack([cuts, np.append(cuts[1:], count)]) + first)
        for field, column, of_column, its_firsts in zip(fields, columns, values, firsts, strict=True):
            its, pages, whole = facts[field.name], column.pages, of_groups[field.name]
            its.absent.extend([frozenset(of_column[number] for number in column.absent)] * len(cuts))
            is_contradicted = bool(pages) and _contradict(pages, whole.bounds[group], whole.nulls[group])
            if not pages or is_contradicted:
                its.bounds.extend([(None, None) if is_contradicted else whole.bounds[group]] * len(cuts))
                its.nulls.extend([None if is_contradicted else whole.nulls[group]] * len(cuts))
                its.rows.extend([count] * len(cuts))
                continue
            rows = np.diff(its_firsts, append=count).tolist()
            for page in (np.searchsorted(its_firsts, cuts, "right") - 1).tolist():
                its.bounds.append((pages[page].min, pages[page].max))
                its.nulls.append(pages[page].null_count)
                its.rows.append(rows[page])
    return np.concatenate(spans), facts


def _contradict(pages: Sequence[_core.Statistics], whole: tuple[Bound, Bound], nulls: int | None) -> bool:
    """Whether the bounds of the pages contradict those of their row group.

    Bounds of text and bytes may be cut short anywhere.
    """
    of_pages = [page.null_count for page in pages]
    if nulls is not None and None not in of_pages and sum(filter(None, of_pages)) != nulls:
        return True
    low, high = whole
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return False
    bounds = [bound for page in pages for bound in (page.min, page.max) if isinstance(bound, (int, float))]
    return any(not low <= bound <= high for bound in bounds)


def _count(selected: Intervals, rows: Intervals) -> int:
    """How many of some ascending rows are selected."""
    found = _intersection(selected, rows)
    return int((found[:, 1] - found[:, 0]).sum())


def _as_plain(value: Sought) -> PlainValue:
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
