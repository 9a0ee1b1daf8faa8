"""Times, dates and durations in conditions, as exact numbers in the unit of their column."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction
from typing import Any

import numpy as np

Time = dt.date | dt.time | dt.timedelta | np.datetime64 | np.timedelta64
"""A time of Python or numpy; a `datetime` is a `date`."""

TIMES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)

COUNTED = ("timestamp[", "date[", "time[", "duration[")
"""How the units begin of columns of times."""

NANOSECONDS: dict[str, int | Fraction] = {
    "W": 604_800 * 10**9,
    "day": 86_400 * 10**9,
    "D": 86_400 * 10**9,
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "ns": 1,
    "ps": Fraction(1, 10**3),
    "fs": Fraction(1, 10**6),
    "as": Fraction(1, 10**9),
}
"""Of a unit of ours or numpy's."""


def number_of(name: str, value: Any, type_: tuple[str, str, str | None]) -> Any:
    """A time, or its text, as the number that a column has for it; other values as they are.

    `type_` is the dtype, kind and unit of the column.

    Raises:
        TypeError: if the column has no such values, or only one of both has a time zone.
        ValueError: if a text is no time.
    """
    dtype, kind, unit = type_
    if isinstance(value, (str, bytes)) and kind == "scalar" and unit is not None and unit.startswith(COUNTED):
        value = _parsed(name, value, unit)
    if not isinstance(value, TIMES):
        _check_calendar(name, value, unit)
        return value
    form, _, rest = (unit or "").rstrip("]").partition("[")
    step, _, zone = rest.partition(", ")
    named = f"column '{name}' of the type {unit or (dtype if kind == 'scalar' else kind)}"
    refusal = f"{named} can't be compared with {value!r}"
    if value != value:
        raise TypeError(f"{refusal}: ask is_null()")
    if kind == "string":
        raise TypeError(f"{refusal}: write it as the text that the column has")
    found = None
    if kind == "scalar" and form in ("timestamp", "date"):
        found = _instant(value, refusal, bool(zone))
    elif kind == "scalar" and form == "time" and isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise TypeError(f"{refusal}: it has no time zone; write the time without tzinfo")
        found = _of_delta(
            dt.timedelta(
                hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
            )
        )
    elif kind == "scalar" and form == "duration" and isinstance(value, dt.timedelta | np.timedelta64):
        found = _of_numpy(value, refusal) if isinstance(value, np.timedelta64) else _of_delta(value)
    if found is None:
        raise TypeError(f"{refusal}: write a value of that type, or the integer that its tensor holds")
    number = Fraction(found) / NANOSECONDS[step]
    return int(number) if number.denominator == 1 else number


def _check_calendar(name: str, value: Any, unit: str | None) -> None:
    """Refuses 20260201 for a day: the integers of a column of times count from 1970."""
    if isinstance(value, int) and 1900_01_01 <= value <= 2199_12_31 and unit is not None:
        year, month, day = value // 10_000, value // 100 % 100, value % 100
        if unit.startswith(("timestamp", "date")) and 1 <= month <= 12 and 1 <= day <= 31:
            raise TypeError(
                f"column '{name}' is {unit}, whose integers count from 1970: write "
                f"datetime.datetime({year}, {month}, {day}) for the day {value}, or "
                f"numpy.datetime64({value}, unit) for that number"
            )


def _instant(value: Any, refusal: str, has_zone: bool) -> Fraction | int | None:
    """Nanoseconds since 1970; None for a time or a duration."""
    offset = value.utcoffset() if isinstance(value, dt.datetime) else None
    if isinstance(value, dt.date | np.datetime64) and has_zone != (offset is not None):
        how = (
            "it is of UTC; write a datetime with tzinfo=datetime.UTC, or '2026-02-01T00:00:00+00:00'"
            if has_zone
            else ("it has no time zone; write the datetime without tzinfo")
        )
        raise TypeError(f"{refusal}: {how}")
    if isinstance(value, np.datetime64):
        return _of_numpy(value, refusal)
    if isinstance(value, dt.datetime):
        local = _of_delta(value.replace(tzinfo=None) - dt.datetime(1970, 1, 1))
        return local - (0 if offset is None else _of_delta(offset))
    return _of_delta(value - dt.date(1970, 1, 1)) if isinstance(value, dt.date) else None


def _of_delta(delta: dt.timedelta) -> int:
    """Nanoseconds of a duration; pandas' have some beyond the microseconds."""
    seconds = delta.days * 86_400 + delta.seconds
    return (seconds * 10**6 + delta.microseconds) * 1000 + int(getattr(delta, "nanoseconds", 0))


def _of_numpy(value: np.datetime64 | np.timedelta64, refusal: str) -> Fraction | int:
    unit, count = np.datetime_data(value.dtype)
    if unit in ("Y", "M") and isinstance(value, np.datetime64):
        value, unit, count = value.astype("datetime64[D]"), "D", 1
    if unit not in NANOSECONDS:
        raise TypeError(f"{refusal}: months and years have no one length; write days")
    return int(value.astype(np.int64)) * count * NANOSECONDS[unit]


def _parsed(name: str, text: str | bytes, unit: str) -> Time:
    """The time that a text in ISO 8601 is."""
    refusal = f"column '{name}' of the type {unit} can't be compared with {text!r}"
    if isinstance(text, bytes) or unit.startswith("duration"):
        what = "timedelta" if unit.startswith("duration") else "datetime, date or time, or a str of it"
        raise TypeError(f"{refusal}: write a {what}")
    try:
        if unit.startswith("time["):
            return dt.time.fromisoformat(text)
        return (
            dt.date.fromisoformat(text) if len(text) <= len("2026-01-01") else dt.datetime.fromisoformat(text)
        )
    except ValueError:
        form = "12:30:00" if unit.startswith("time[") else f"2026-02-01{'T00:00:00+00:00' * (', ' in unit)}"
        raise ValueError(f"{refusal}: write it as {form!r}, or as a value of datetime") from None
