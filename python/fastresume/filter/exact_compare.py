"""Exact comparisons of a column's values with one value, whatever the types."""

from __future__ import annotations

import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from fastresume.filter.truth import Marks, Text


def to_bytes(value: Any) -> Any:
    """A string as UTF-8 bytes; other values unchanged."""
    return value.encode() if isinstance(value, str) else value


def is_nan(value: object) -> bool:
    """Whether it is a NaN, which equals nothing."""
    return isinstance(value, float) and math.isnan(value)


def floor_of(value: Any, dtype: np.dtype[Any]) -> tuple[Any, bool]:
    """The greatest number of the dtype up to the value, or None; and whether it equals the value."""
    if dtype.kind == "f":
        if isinstance(value, float) and math.isinf(value):
            return dtype.type(value), True
        try:
            with np.errstate(over="ignore"):
                nearest = dtype.type(float(value))
        except OverflowError:
            nearest = dtype.type(math.inf if value > 0 else -math.inf)
        if nearest == math.inf or (nearest != -math.inf and Fraction(float(nearest)) > Fraction(value)):
            nearest = np.nextafter(nearest, dtype.type(-math.inf))
        return nearest, nearest != -math.inf and Fraction(float(nearest)) == Fraction(value)
    low, high = (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    if isinstance(value, float) and math.isinf(value):
        return (high if value > 0 else None), False
    whole = math.floor(value)
    return (None if whole < low else min(whole, high)), low <= whole <= high and whole == value


def compare(data: npt.NDArray[Any], op: str, value: Any) -> Marks:
    """The comparison of each number with the value, exact whatever the types."""
    none = np.zeros(len(data), np.bool_)
    if is_nan(value):
        return ~none if op == "!=" else none
    floor, is_exact = floor_of(value, data.dtype)
    if floor is None:  # below all numbers of the type
        return ~none if op in (">", ">=", "!=") else none
    floor = data.dtype.type(floor)
    if op in ("==", "!="):
        if not is_exact:
            return ~none if op == "!=" else none
        found: Marks = data == floor if op == "==" else data != floor
    elif op in ("<", "<="):
        found = data < floor if op == "<" and is_exact else data <= floor
    else:
        found = data >= floor if op == ">=" and is_exact else data > floor
    return found


def compare_text(text: Text, op: str, value: bytes) -> Marks:
    """The comparison of each row with the value, byte by byte."""
    if op in ("==", "!="):
        found = text.equal(value)
        return found if op == "==" else ~found
    # Byte by byte, unsigned, as Python compares bytes; numpy would drop zero bytes at the end of the value.
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}[op]
    return np.array([compare(row, value) for row in text.each()], np.bool_)
