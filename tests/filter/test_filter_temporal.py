"""Dates and times of Python and numpy in filters: compared exactly, in the unit and zone of the column."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fastresume as fr
from support.each_of import each_of

DAY = 86_400
NAIVE = dt.datetime(2024, 2, 29, 12, 30, 15, 250_001)
AWARE = NAIVE.replace(tzinfo=dt.UTC)
SECONDS = Fraction(1_709_209_815_250_001, 10**6)
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
OPS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def kept(path: Path, filter_: Any) -> list[int]:
    """The numbers of the rows that a filter keeps, which may be none."""
    type_ = pq.read_schema(path).field("at").type
    other = path.with_name(f"{type_.id}-{getattr(type_, 'unit', '')}-{getattr(type_, 'tz', '')}.parquet")
    if not other.exists():
        pq.write_table(pa.table({"row": pa.array([-1]), "at": pa.nulls(1, type_)}), other)
    if isinstance(filter_, list):
        filter_ = [filter_, [("row", "==", -1)]]
    else:
        filter_ |= fr.col("row") == -1
    dataset = fr.ParquetDataset([path, other], batch_size=1, columns="row", filter=filter_)
    return sorted(int(row) for batch in dataset for row in batch["row"])[1:]


def check(path: Path, type_: pa.DataType, value: Any, meant: Fraction) -> None:
    """Compare a value that means so many units with stored numbers around it, in every way."""
    floor = meant.numerator // meant.denominator
    stored = [floor - 1, floor, floor + 1, floor + 2]
    bits = pa.int32() if type_.bit_width == 32 else pa.int64()
    column = pa.array(stored, bits).view(type_)
    for how, is_listed in (({}, True), ({"write_statistics": False}, False), ({"row_group_size": 1}, False)):
        pq.write_table(pa.table({"row": range(4), "at": column}), path, **how)
        for name, op in OPS.items():
            expected = [row for row, number in enumerate(stored) if op(number, meant)]
            asked = [("at", name, value)] if is_listed else op(fr.col("at"), value)
            assert kept(path, asked) == expected, name
        equal = [row for row, number in enumerate(stored) if number == meant]
        assert kept(path, fr.col("at").isin([value])) == equal
        assert kept(path, ~fr.col("at").isin([value, value]) & (fr.col("row") >= 0)) == [
            row for row in range(4) if row not in equal
        ]


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_instants_are_compared_exactly_in_the_unit_of_the_column(path: Path, unit: str) -> None:
    meant = SECONDS * PER_SECOND[unit]
    check(path, pa.timestamp(unit), NAIVE, meant)
    check(path, pa.timestamp(unit, "UTC"), AWARE, meant)


def test_an_instant_of_another_zone_is_the_same_instant(path: Path) -> None:
    there = AWARE.astimezone(ZoneInfo("Asia/Kathmandu"))
    check(path, pa.timestamp("us", "UTC"), there, SECONDS * 10**6)
    last = dt.datetime.max.replace(tzinfo=dt.timezone(-dt.timedelta(hours=23)))
    check(path, pa.timestamp("us", "UTC"), last, Fraction(253_402_300_800 * 10**6 - 1 + 23 * 3600 * 10**6))


@each_of(
    ("value", "seconds"),
    [
        (dt.date(2024, 2, 29), Fraction(19_782 * DAY)),
        (np.datetime64("2024-02"), Fraction(19_754 * DAY)),
        (np.datetime64("1969-12-31"), Fraction(-DAY)),
        (np.datetime64(1_709_209_815_250_001_002, "ns"), Fraction(1_709_209_815_250_001_002, 10**9)),
        (np.datetime64(3, "ps"), Fraction(3, 10**12)),
        (pd.Timestamp(1_709_209_815_250_001_002), Fraction(1_709_209_815_250_001_002, 10**9)),
    ],
)
def test_dates_and_numpys_and_pandas_instants_are_compared_exactly(
    path: Path, value: Any, seconds: Fraction
) -> None:
    check(path, pa.timestamp("us"), value, seconds * 10**6)
    check(path, pa.timestamp("ns"), value, seconds * 10**9)
    check(path, pa.date32(), value, seconds / DAY)


@each_of(
    ("type_", "value", "meant"),
    [
        (pa.time32("ms"), dt.time(1, 2, 3, 4005), Fraction(3_723_004_005, 1000)),
        (pa.time64("us"), dt.time(1, 2, 3, 4005), Fraction(3_723_004_005)),
        (pa.time64("ns"), dt.time(0), Fraction(0)),
        (pa.duration("ms"), dt.timedelta(microseconds=-1), Fraction(-1, 1000)),
        (pa.duration("us"), dt.timedelta(days=3), Fraction(3 * DAY * 10**6)),
        (pa.duration("ns"), np.timedelta64(5, "us"), Fraction(5000)),
        (pa.duration("ns"), pd.Timedelta(7), Fraction(7)),
    ],
)
def test_times_and_durations_are_compared_exactly(
    path: Path, type_: pa.DataType, value: Any, meant: Fraction
) -> None:
    check(path, type_, value, meant)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(st.datetimes(), st.sampled_from(["us", "ms"]))
def test_any_instant_is_compared_as_its_number(path: Path, value: dt.datetime, unit: str) -> None:
    since = value - dt.datetime(1970, 1, 1)
    meant = Fraction(since // dt.timedelta(microseconds=1), 10**6) * PER_SECOND[unit]
    floor = meant.numerator // meant.denominator
    pq.write_table(
        pa.table({"row": range(3), "at": pa.array([floor - 1, floor, floor + 1], pa.timestamp(unit))}), path
    )
    assert kept(path, fr.col("at") <= value) == [0, 1]
    assert kept(path, fr.col("at") >= value) == ([1, 2] if meant == floor else [2])


@each_of(
    ("type_", "value", "message"),
    [
        (pa.timestamp("us"), AWARE, "timestamp[us] can't be compared with datetime.datetime(2024,"),
        (pa.timestamp("us"), AWARE, "it has no time zone; write the datetime without tzinfo"),
        (pa.timestamp("us", "UTC"), NAIVE, "it is of UTC; write a datetime with tzinfo=datetime.UTC"),
        (pa.timestamp("us", "UTC"), dt.date(2024, 1, 1), "write a datetime with tzinfo=datetime.UTC"),
        (pa.timestamp("us", "UTC"), np.datetime64("2024"), "write a datetime with tzinfo=datetime.UTC"),
        (pa.timestamp("us"), np.datetime64("NaT"), "ask is_null()"),
        (pa.timestamp("us"), pd.NaT, "ask is_null()"),
        (pa.timestamp("us"), dt.time(1), "write a value of that type, or the integer that its tensor holds"),
        (pa.timestamp("us"), dt.timedelta(1), "write a value of that type"),
        (pa.date32(), AWARE, "write the datetime without tzinfo"),
        (pa.time64("us"), dt.time(1, tzinfo=dt.UTC), "write the time without tzinfo"),
        (pa.time64("us"), NAIVE, "write a value of that type"),
        (pa.duration("us"), np.timedelta64(1, "M"), "months and years have no one length; write days"),
        (pa.int64(), NAIVE, "column 'at' of the type int64 can't be compared"),
        (pa.string(), dt.date(2024, 1, 1), "of the type string can't be compared"),
        (pa.string(), dt.date(2024, 1, 1), "write it as the text that the column has"),
    ],
)
def test_a_value_of_another_kind_is_told_with_what_to_write(
    path: Path, type_: pa.DataType, value: Any, message: str
) -> None:
    column = pa.array(["1"] if type_ == pa.string() else [None], type_)
    pq.write_table(pa.table({"at": column}), path)
    for filter_ in (fr.col("at") > value, ~fr.col("at").isin([value])):
        with pytest.raises(TypeError, match=r"^column 'at'") as caught:
            fr.ParquetDataset(path, batch_size=1, filter=filter_)
        assert message in str(caught.value)


def test_comparisons_joined_without_parentheses_are_told_to_have_some() -> None:
    a, b = fr.col("a"), fr.col("b")
    wrong: list[Callable[[], object]] = [
        lambda: a == 1 & b == 2,
        lambda: a == 1 | b == 2,
        lambda: a == 1 & (b == 2),
        lambda: (a == 1) & b == 2,
        lambda: a > np.int64(1) & b,
        lambda: a & (b == 1),
    ]
    for join in wrong:
        with pytest.raises(TypeError, match="parentheses"):
            join()
