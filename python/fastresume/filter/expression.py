"""The conditions of a filter: expressions over the columns of a row.

Nulls are those of SQL: a comparison with a null is neither true nor false, and what depends on it may be
neither, too. Only `is_null` and `is_valid` always answer. A row is kept if the condition is true.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np

from fastresume.filter.exact_compare import compare, compare_text, floor_of, is_nan, to_bytes
from fastresume.filter.ternary import Facts, Sought, Text, Truth, Values, may_equal
from fastresume.messages import bounds_messages

Temporal = dt.date | dt.time | dt.timedelta | np.datetime64 | np.timedelta64
"""What a condition has until the unit of its column is known; `temporal` makes numbers of it."""

Literal = bool | int | float | str | bytes | Fraction | Temporal

Types = Mapping[str, tuple[str, str, str | None]]
"""The dtype, kind and unit of each column."""

FEW = 16
"""Up to this many values are compared with strings one by one; more of them are looked up row by row."""


class Expression:
    """A condition on the columns of a row, made from `column(name)`; `&`, `|` and `~` join conditions."""

    def __and__(self, other: object) -> Expression:
        return _joined("&", self, other)

    def __or__(self, other: object) -> Expression:
        return _joined("|", self, other)

    def __rand__(self, other: object) -> NoReturn:
        _refuse_operator("&")

    def __ror__(self, other: object) -> NoReturn:
        _refuse_operator("|")

    def __invert__(self) -> Expression:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError("a condition has no truth of its own: join conditions by &, | and ~, in parentheses")

    @property
    def columns(self) -> set[str]:
        """The names of the columns in it."""
        raise NotImplementedError

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """The columns that it compares, and the values that they may have to equal."""
        raise NotImplementedError

    def check(self, types: Types) -> None:
        """Refuses values that a column can't be compared with.

        Raises:
            TypeError: naming the column, its type and the value.
        """
        raise NotImplementedError

    def of_rows(self, values: Mapping[str, Values]) -> Truth:
        """Whether it is true, for each row."""
        raise NotImplementedError

    def of_groups(self, facts: Mapping[str, Facts]) -> Truth:
        """Whether it may be true of a row, for each range of rows."""
        raise NotImplementedError


class Condition(Expression):
    """A condition on one column.

    Args:
        name: the column.
    """

    name: str

    @property
    def columns(self) -> set[str]:
        """The column in it."""
        return {self.name}


@dataclass(frozen=True)
class Comparison(Condition):
    """`column(name) op value`."""

    name: str
    op: str
    value: Literal

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """Its column, with the value if this is an equality."""
        return {self.name: _sought([self.value]) if self.op in ("==", "!=") else set()}

    def check(self, types: Types) -> None:
        """Refuses values that a column can't be compared with."""
        _check_value(self.name, self.value, *types[self.name])

    def of_rows(self, values: Mapping[str, Values]) -> Truth:
        """Whether it is true, for each row."""
        column = values[self.name]
        if isinstance(column.data, Text):
            found = compare_text(column.data, self.op, to_bytes(self.value))
        else:
            found = compare(column.data, self.op, self.value)
        return Truth(found & column.valid, ~found & column.valid, ~column.valid)

    def of_groups(self, facts: Mapping[str, Facts]) -> Truth:
        """Whether it may be true of a row, for each range of rows."""
        op, value = self.op, to_bytes(self.value)
        of_nan = (op == "!=", op != "!=")

        def judge(low: Any, high: Any, absent: AbstractSet[Sought]) -> tuple[bool, bool]:
            if is_nan(value):
                return of_nan
            if op in ("==", "!="):
                is_in = may_equal(value, low, high, absent)
                is_all = low is not None and low == value == high
                return (is_in, not is_all) if op == "==" else (not is_all, is_in)
            if low is None:
                return True, True
            if op == "<":
                return low < value, high >= value
            if op == "<=":
                return low <= value, high > value
            if op == ">":
                return high > value, low <= value
            return high >= value, low < value

        return facts[self.name].truth(judge, of_nan)

    def __repr__(self) -> str:
        return f"(column({self.name!r}) {self.op} {self.value!r})"


@dataclass(frozen=True)
class Membership(Condition):
    """`column(name).is_in(values)`."""

    name: str
    values: tuple[Literal, ...]

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """Its column and its values."""
        return {self.name: _sought(self.values)}

    def check(self, types: Types) -> None:
        """Refuses values that a column can't be compared with."""
        for value in self.values:
            _check_value(self.name, value, *types[self.name])

    def of_rows(self, values: Mapping[str, Values]) -> Truth:
        """Whether it is true, for each row."""
        column = values[self.name]
        found = np.zeros(len(column.valid), np.bool_)
        if not isinstance(column.data, Text):
            floors = [floor_of(value, column.data.dtype) for value in self.values if not is_nan(value)]
            there = [floor for floor, is_exact in floors if is_exact]
            found |= np.isin(column.data, np.array(there, column.data.dtype))
        elif len(self.values) <= FEW:
            for value in self.values:
                found |= column.data.equal(to_bytes(value))
        else:
            some = {to_bytes(value) for value in self.values}
            found |= np.fromiter((row in some for row in column.data.each()), np.bool_, len(found))
        return Truth(found & column.valid, ~found & column.valid, ~column.valid)

    def of_groups(self, facts: Mapping[str, Facts]) -> Truth:
        """Whether it may be true of a row, for each range of rows."""
        some = _sought(self.values)

        def judge(low: Any, high: Any, absent: AbstractSet[Sought]) -> tuple[bool, bool]:
            is_all = low is not None and low == high and low in some
            return any(may_equal(value, low, high, absent) for value in some), not is_all

        return facts[self.name].truth(judge, (False, True))

    def __repr__(self) -> str:
        return f"column({self.name!r}).is_in({list(self.values)!r})"


@dataclass(frozen=True)
class IsNull(Condition):
    """`column(name).is_null()`."""

    name: str

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """Nothing: it compares no values."""
        return {}

    def check(self, types: Types) -> None:
        """Accepts every column: all may have nulls."""

    def of_rows(self, values: Mapping[str, Values]) -> Truth:
        """Whether it is true, for each row."""
        valid = values[self.name].valid
        return Truth(~valid, valid, np.zeros_like(valid))

    def of_groups(self, facts: Mapping[str, Facts]) -> Truth:
        """Whether it may be true of a row, for each range of rows."""
        told = list(zip(facts[self.name].nulls, facts[self.name].rows, strict=True))
        yes = np.array([nulls != 0 for nulls, _ in told], np.bool_)
        no = np.array([nulls is None or nulls < rows for nulls, rows in told], np.bool_)
        return Truth(yes, no, np.zeros_like(yes))

    def __repr__(self) -> str:
        return f"column({self.name!r}).is_null()"


@dataclass(frozen=True)
class Not(Expression):
    """`~inner`."""

    inner: Expression

    @property
    def columns(self) -> set[str]:
        """The columns in it."""
        return self.inner.columns

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """What the inner condition compares."""
        return self.inner.sought

    def check(self, types: Types) -> None:
        """Refuses values that a column can't be compared with."""
        self.inner.check(types)

    def of_rows(self, values: Mapping[str, Values]) -> Truth:
        """Whether it is true, for each row."""
        return _negated(self.inner.of_rows(values))

    def of_groups(self, facts: Mapping[str, Facts]) -> Truth:
        """Whether it may be true of a row, for each range of rows."""
        return _negated(self.inner.of_groups(facts))

    def __repr__(self) -> str:
        return f"~{self.inner!r}"


@dataclass(frozen=True)
class Both(Expression):
    """`left & right` or `left | right`."""

    op: str
    left: Expression
    right: Expression

    @property
    def columns(self) -> set[str]:
        """The columns in it."""
        return self.left.columns | self.right.columns

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """What the two conditions compare."""
        left, right = self.left.sought, self.right.sought
        return {name: left.get(name, set()) | right.get(name, set()) for name in {**left, **right}}

    def check(self, types: Types) -> None:
        """Refuses values that a column can't be compared with."""
        self.left.check(types)
        self.right.check(types)

    def of_rows(self, values: Mapping[str, Values]) -> Truth:
        """Whether it is true, for each row."""
        return self._of(self.left.of_rows(values), self.right.of_rows(values))

    def of_groups(self, facts: Mapping[str, Facts]) -> Truth:
        """Whether it may be true of a row, for each range of rows."""
        return self._of(self.left.of_groups(facts), self.right.of_groups(facts))

    def _of(self, left: Truth, right: Truth) -> Truth:
        if self.op == "|":
            return _negated(self._both(_negated(left), _negated(right)))
        return self._both(left, right)

    @staticmethod
    def _both(left: Truth, right: Truth) -> Truth:
        # Neither, if one is neither and the other does not decide it.
        null = left.null & (right.null | right.yes) | right.null & (left.null | left.yes)
        return Truth(left.yes & right.yes, left.no | right.no, null)

    def __repr__(self) -> str:
        return f"({self.left!r} {self.op} {self.right!r})"


class Column:
    """A column by its name, for comparisons with values."""

    __hash__ = None  # type: ignore[assignment]  # equality makes a condition

    @bounds_messages
    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a column is named by a string, found {name!r}")
        self.name = name

    def __eq__(self, value: object) -> Comparison:  # type: ignore[override]  # it makes a condition
        return Comparison(self.name, "==", literal(value))

    def __ne__(self, value: object) -> Comparison:  # type: ignore[override]  # it makes a condition
        return Comparison(self.name, "!=", literal(value))

    def __lt__(self, value: object) -> Comparison:
        return Comparison(self.name, "<", literal(value))

    def __le__(self, value: object) -> Comparison:
        return Comparison(self.name, "<=", literal(value))

    def __gt__(self, value: object) -> Comparison:
        return Comparison(self.name, ">", literal(value))

    def __ge__(self, value: object) -> Comparison:
        return Comparison(self.name, ">=", literal(value))

    def __and__(self, other: object) -> NoReturn:
        _refuse_operator("&")

    def __or__(self, other: object) -> NoReturn:
        _refuse_operator("|")

    __rand__, __ror__ = __and__, __or__

    @bounds_messages
    def is_in(self, values: Iterable[object]) -> Membership:
        """Whether the value is one of these."""
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise TypeError(f"is_in takes a list of values, found {values!r}")
        return Membership(self.name, tuple(literal(value) for value in values))

    def is_null(self) -> Expression:
        """Whether the value is null."""
        return IsNull(self.name)

    def is_valid(self) -> Expression:
        """Whether the value is not null."""
        return Not(IsNull(self.name))

    def __repr__(self) -> str:
        return f"column({self.name!r})"


def column(name: str) -> Column:
    """A column for a filter: compare it with numbers, booleans, strings or bytes, and combine the results.

    Numbers are compared exactly, whatever the column's type. So are dates, times and durations of Python and
    numpy with columns of such values; a datetime has a time zone if the column is of UTC, and none otherwise.
    Such a column may also be compared with the integers that its tensor holds.

    Example:
        >>> (column("label") == 1) & ~column("c_0").is_in([3, 5]) | column("i_0").is_null()
        (((column('label') == 1) & ~column('c_0').is_in([3, 5])) | column('i_0').is_null())
    """
    return Column(name)


@bounds_messages
def literal(value: object) -> Literal:
    """The value as one of Python's own types.

    Raises:
        TypeError: if no column can be compared with it.
    """
    if isinstance(value, (np.datetime64, np.timedelta64, dt.date, dt.time, dt.timedelta)):
        return value
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, (bool, int, float, str, bytes)):
        hint = ": ask is_null()" if value is None else ""
        raise TypeError(
            f"a column is compared with a number, bool, string, bytes, date or time, found {value!r}{hint}"
        )
    return value


@bounds_messages
def _joined(op: str, left: Expression, right: object) -> Expression:
    if not isinstance(right, Expression):
        raise TypeError(f"{op} joins conditions, found {right!r}: comparisons need parentheses around them")
    return Both(op, left, right)


def _refuse_operator(op: str) -> NoReturn:
    """Refuses a column or value that an operator met before a comparison did."""
    raise TypeError(
        f"{op} binds more tightly than ==: put parentheses around comparisons, as "
        f"(column('a') == 1) {op} (column('b') == 2)"
    )


def _negated(truth: Truth) -> Truth:
    return Truth(truth.no, truth.yes, truth.null)


def _sought(values: Iterable[Literal]) -> set[Sought]:
    """The values that something can equal (all but NaN)."""
    return {to_bytes(value) for value in values if not is_nan(value)}


def _check_value(name: str, value: Literal, dtype: str, kind: str, unit: str | None) -> None:
    is_text = kind in ("string", "binary")
    if kind.startswith("list") or kind == "matrix" or is_text != isinstance(value, (str, bytes)):
        what = kind if kind != "scalar" else dtype
        hint = ""
        if kind == "scalar" and unit is not None and unit.startswith(("time", "date", "duration")):
            hint = f": it is {unit}, compared with a date or time of Python, or an integer of that unit"
        raise TypeError(f"column '{name}' of the type {what} can't be compared with {value!r}{hint}")
