"""Which rows are selected (§4): splits, conditions, and the hash of a selection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from support.oracle.intervals import Interval, intervals_of
from support.oracle.order import WORD, key

SPLIT = 0x73706C69742031
"""The letters of "split 1"."""


def is_in_split(row: int, start: float, stop: float, seed: int) -> bool:
    """Return whether the hash of a row number lies in [start, stop), as a fraction of 1."""
    return Fraction(start) <= Fraction(key([SPLIT, seed, row]) >> 11, 2**53) < Fraction(stop)


def selection_hash(rows: Iterable[int]) -> str:
    """Return the hash of a set of row numbers."""
    return hash_of_intervals(intervals_of(rows))


def hash_of_intervals(intervals: Sequence[Interval]) -> str:
    """Return the hash of the row numbers that sorted, disjoint, coalesced intervals hold."""
    return "".join(f"{sum(key([half, *ends]) for ends in intervals) % WORD:016x}" for half in (0, 1))


def truth(condition: Sequence[Any], row: Mapping[str, Any]) -> bool | None:
    """Return whether a condition is true of a row; None where a null leaves it open.

    A condition is (op, name, value) for the six comparisons, ("in", name, values), ("null", name),
    ("not", c), ("and", c, d) or ("or", c, d). A null of the row is None.
    """
    op, *parts = condition
    if op == "not":
        inner = truth(parts[0], row)
        return None if inner is None else not inner
    if op in ("and", "or"):
        found = {truth(part, row) for part in parts}
        decides = op == "or"
        return decides if decides in found else None if None in found else not decides
    value = row[parts[0]]
    if op == "null":
        return value is None
    if value is None:
        return None
    if op == "in":
        return any(value == other for other in parts[1])
    compared = {
        "==": value == parts[1],
        "!=": value != parts[1],
        "<": value < parts[1],
        "<=": value <= parts[1],
        ">": value > parts[1],
        ">=": value >= parts[1],
    }
    return bool(compared[op])


def selected_group_rows(group_rows: Iterable[int], rows: Sequence[int]) -> tuple[int, ...]:
    """Return how many of the rows each row group has."""
    found, start = [], 0
    for count in group_rows:
        found.append(sum(start <= row < start + count for row in rows))
        start += count
    return tuple(found)
