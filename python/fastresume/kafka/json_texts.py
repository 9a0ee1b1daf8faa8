"""Texts and numbers of JSON that are times or decimals, as the values that Arrow takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from fastresume.options.checks import quoted
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_DAY = "1970-01-01T"
"""The day of a time that has none: Arrow reads texts of timestamps alone."""

_FRACTION = re.compile(r"\.([0-9]*?)0+(?=$|[Z+-])")
"""The decimals of a second, before zeros that any unit has."""

_MOST_DIGITS = 38
"""Of a decimal128."""

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def exact(text: str) -> Decimal | float:
    """A number as it is written; what has too many digits of an exponent is a float."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return float(text)


def times(texts: Sequence[str], of: pa.DataType) -> list[int]:
    """Times in ISO 8601, as numbers of their type.

    Raises:
        ArrowException: if one is no such time: it is finer than the unit, or just one of both has a zone.
    """
    pyarrow = arrow()
    is_time, of_text = pyarrow.types.is_time(of), of
    if is_time:
        of_text = pyarrow.timestamp(of.unit)
    plain = [(_DAY if is_time else "") + _FRACTION.sub(_shorter, text) for text in texts]
    counted = pyarrow.array(plain, pyarrow.string()).cast(of_text)
    width = pyarrow.int32() if pyarrow.types.is_date32(of) else pyarrow.int64()
    numbers: list[int] = counted.cast(width).to_pylist()
    return numbers


def _shorter(fraction: re.Match[str]) -> str:
    return f".{fraction[1]}" if fraction[1] else ""


def instead_of_time(text: str, of: pa.DataType) -> str:
    """The type to write for a text that a type of times can't have."""
    pyarrow = arrow()
    own = of.unit if pyarrow.types.is_timestamp(of) else "us"
    zoned = [("timestamp", unit, *zone) for unit in (own, "us", "ns") for zone in ((), ("UTC",))]
    for name, *args in [*zoned, ("date32",), ("time64", "us"), ("time64", "ns")]:
        try:
            times([text], getattr(pyarrow, name)(*args))
        except pyarrow.ArrowException:
            continue
        return f"pa.{name}({', '.join(map(repr, args))})"
    return "pa.string()"


def decimals(values: Sequence[Any], of: pa.DataType) -> list[Any]:
    """Decimals of numbers, and of texts that are numbers.

    Raises:
        ArrowException, TypeError, ValueError: if one is no number, or needs more digits than the type has.
    """
    made = [_decimal(one) for one in values]
    arrow().array(made, of)
    return made


def _decimal(value: Any) -> Decimal:
    is_number = type(value) in (int, Decimal) or (isinstance(value, str) and _NUMBER.fullmatch(value))
    if not is_number:
        raise TypeError(f"{quoted(value)} is no number")
    return Decimal(value)


def instead_of_decimal(value: Any, of: pa.DataType) -> str:
    """The type to write for a value that a type of decimals can't have."""
    other = "pa.string()" if isinstance(value, str) else "pa.float64()"
    try:
        _, digits, exponent = _decimal(value).as_tuple()
    except (ArithmeticError, TypeError):
        return "another type" if isinstance(value, bool | list | dict) else other
    scale = max(-int(exponent), of.scale)
    width = max(len(digits) + int(exponent), of.precision - of.scale) + scale
    return f"pa.decimal128({width}, {scale})" if width <= _MOST_DIGITS else other
