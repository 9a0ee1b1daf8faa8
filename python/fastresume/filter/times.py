"""Times, dates and durations as the numbers that columns of a unit hold."""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

import numpy as np

Time = dt.date | dt.time | dt.timedelta | np.datetime64 | np.timedelta64
"""A time of Python or numpy; a `datetime` is a `date`."""

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY_SECONDS = 86_400
EPOCH = dt.datetime(1970, 1, 1)


def is_counted(unit: str | None) -> bool:
    """Whether numbers of a unit are times, dates or durations."""
    return unit is not None and unit.startswith(("timestamp[", "date[", "time[", "duration["))


def count_of(value: Time | str, unit: str) -> int | float:
    """The number that a time, or its text, is in a unit ("timestamp[us, UTC]"); between two, a half.

    Raises:
        TypeError: if it is no time of the unit's kind, or only one of both has a time zone.
        ValueError: if a text is no time.
    """
    kind, _, inner = unit.removesuffix("]").partition("[")
    counted, _, zone = inner.partition(", ")
    seconds = {"timestamp": _instant, "date": _instant, "time": _of_day, "duration": _duration}[kind](
        value, bool(zone)
    )
    number = seconds / DAY_SECONDS if kind == "date" else seconds * PER_SECOND[counted]
    whole = number.numerator // number.denominator
    return whole if number.denominator == 1 else whole + 0.5


def _instant(value: Time | str, has_zone: bool) -> Fraction:
    """Seconds since 1970."""
    if isinstance(value, np.datetime64):
        return _of_numpy(value)
    given = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    is_date = not isinstance(given, dt.datetime) or (
        isinstance(value, str) and len(value) <= len("2026-01-01")
    )
    if not isinstance(given, dt.date):
        raise TypeError(f"an instant or a date is needed, found {value!r}")
    found = given if isinstance(given, dt.datetime) else dt.datetime(given.year, given.month, given.day)
    if not is_date and (found.tzinfo is not None) != has_zone:
        needed = (
            "with a time zone, as datetime(..., tzinfo=timezone.utc)" if has_zone else "without a time zone"
        )
        raise TypeError(f"a datetime {needed} is needed, found {value!r}")
    if found.tzinfo is not None:
        found = found.astimezone(dt.UTC).replace(tzinfo=None)
    return _duration(found - EPOCH, has_zone)


def _of_day(value: Time | str, _has_zone: bool) -> Fraction:
    """Seconds since midnight."""
    given = dt.time.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(given, dt.time) or given.tzinfo is not None:
        raise TypeError(f"a time of day without a time zone is needed, found {value!r}")
    return given.hour * 3600 + given.minute * 60 + given.second + Fraction(given.microsecond, 10**6)


def _duration(value: Time | str, _has_zone: bool) -> Fraction:
    """Seconds."""
    if isinstance(value, np.timedelta64):
        return _of_numpy(value)
    if not isinstance(value, dt.timedelta):
        raise TypeError(f"a timedelta is needed, found {value!r}")
    return value.days * DAY_SECONDS + value.seconds + Fraction(value.microseconds, 10**6)


def _of_numpy(value: np.datetime64 | np.timedelta64) -> Fraction:
    """Seconds (since 1970)."""
    if np.isnat(value):
        raise TypeError(f"no time is {value!r}: ask is_null()")
    kind = "datetime64" if isinstance(value, np.datetime64) else "timedelta64"
    unit, _ = np.datetime_data(value.dtype)
    fine = unit if unit in ("ns", "ps", "fs", "as") else "us"
    per = {"us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15, "as": 10**18}[fine]
    return Fraction(int(value.astype(f"{kind}[{fine}]").astype(np.int64)), per)
