"""The conditions of a filter: expressions over the columns of a row.

Nulls are those of SQL: a comparison with a null is neither true nor false, and what depends on it may be
neither, too. Only `is_null` and `is_valid` always answer. A row is kept if the condition is true.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import numpy as np

from fastresume.filter.exact_compare import compare, compare_text, floor_of, is_nan, to_bytes
from fastresume.filter.times import TIMES, Time, number_of
from fastresume.filter.truth import Facts, Sought, Text, Truth, Values, may_equal
from fastresume.messages import bounds_messages
from fastresume.options.attributes import METHODS_OF_CONDITIONS
from fastresume.options.checks import of_arrow, quoted
from fastresume.options.rows import RowSet
from fastresume.options.unknown import refuse_attribute

Literal = bool | int | float | str | bytes | Fraction | Decimal | Time

Types = Mapping[str, tuple[str, str, str | None]]
"""The dtype, kind and unit of each column."""

NO_UUID = "no filter compares UUIDs; rows= takes a mask that you make of them"
"""What to do with such a column."""

FEW = 16
"""Up to this many values are compared with strings one by one; more of them are looked up row by row."""


@dataclass(frozen=True)
class Named:
    """A column of a filter: its name, whether files may lack it, and whether it is in their paths."""

    name: str
    optional: bool = False
    from_path: bool = False

    def __repr__(self) -> str:
        optional, from_path = (".optional()" * self.optional, ".from_path()" * self.from_path)
        return f"fr.col({self.name!r}){optional}{from_path}"


class Condition:
    """A condition on columns, which a comparison of `fr.col(name)` makes; `&`, `|` and `~` join conditions.

    A null is SQL's: a comparison with a null is neither true nor false, and a row is kept only if the whole
    is true.

    Examples:
        >>> import fastresume as fr
        >>> (fr.col("label") == 1) & ~fr.col("c_0").isin([3, 5]) | fr.col("i_0").is_null()
        (((fr.col('label') == 1) & ~fr.col('c_0').isin([3, 5])) | fr.col('i_0').is_null())
    """

    def __init__(self, *_parts: object, **_more: object) -> None:
        raise TypeError("a comparison makes a condition: write fr.col(name) > 0")

    def __and__(self, other: object) -> Condition:
        return _joined("&", self, other)

    def __or__(self, other: object) -> Condition:
        return _joined("|", self, other)

    def __rand__(self, other: object) -> NoReturn:
        refuse_operator("&", other)

    def __ror__(self, other: object) -> NoReturn:
        refuse_operator("|", other)

    __array_ufunc__ = None  # so that numpy's masks leave & and | to this class
    __pandas_priority__ = 5000  # and those of pandas: a frame has 4000

    def __invert__(self) -> Condition:
        return Not(self)

    def __bool__(self) -> bool:
        raise TypeError(
            "a condition has no truth of its own: write &, | and ~ for and, or and not, with each comparison "
            "in parentheses, as (fr.col('a') > 0) & (fr.col('a') < 9), and .isin([1, 2]) for in"
        )

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """Says what to write for what a column has."""
            refuse_attribute(self, name, "a condition", METHODS_OF_CONDITIONS)

    @property
    def columns(self) -> set[str]:
        """The names of the columns that it asks for."""
        return {column.name for column in self.named}

    @property
    def named(self) -> set[Named]:
        """The same, as they were named."""
        raise NotImplementedError

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """The columns that it compares, and the values that they may have to equal."""
        raise NotImplementedError

    def in_units(self, types: Types) -> Condition:
        """The same with times, dates and their texts as the numbers that columns of such units hold.

        Raises:
            TypeError, ValueError: naming the column, its unit and the value.
        """
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


class ColumnCondition(Condition):
    """A condition on one column.

    Args:
        column: the column.
    """

    column: Named

    @property
    def name(self) -> str:
        """The name of the column."""
        return self.column.name

    @property
    def named(self) -> set[Named]:
        """The column that it asks for."""
        return {self.column}


@dataclass(frozen=True)
class Comparison(ColumnCondition):
    """`fr.col(name) op value`."""

    column: Named
    op: str
    value: Literal

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """Its column, with the value if this is an equality."""
        return {self.name: _sought([self.value]) if self.op in ("==", "!=") else set()}

    def in_units(self, types: Types) -> Condition:
        """The same with a time as a number."""
        return replace(self, value=number_of(self.name, self.value, types[self.name]))

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
        return f"({self.column!r} {self.op} {self.value!r})"


@dataclass(frozen=True)
class Membership(ColumnCondition):
    """`fr.col(name).isin(values)`."""

    column: Named
    values: tuple[Literal, ...]

    @classmethod
    def of(cls, column: Named, values: Iterable[object]) -> Membership:
        """The condition that the value is one of these.

        Raises:
            TypeError: if no column can be compared with one.
        """
        way = f"{column!r}.isin(", f") | {column!r}.is_null()"
        return cls(column, _literals(values, "a null equals nothing", way))

    @classmethod
    def of_others(cls, column: Named, values: Iterable[object]) -> Not:
        """The condition that there is a value, which is none of these.

        Raises:
            TypeError: if no column can be compared with one.
        """
        way = f"({column.name!r}, 'not in', ", ")"
        return Not(cls(column, _literals(values, "'not in' leaves nulls out", way)))

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """Its column and its values."""
        return {self.name: _sought(self.values)}

    def in_units(self, types: Types) -> Condition:
        """The same with times as numbers."""
        return replace(
            self, values=tuple(number_of(self.name, value, types[self.name]) for value in self.values)
        )

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
        return f"{self.column!r}.isin({list(self.values)!r})"


@dataclass(frozen=True)
class IsNull(ColumnCondition):
    """`fr.col(name).is_null()`."""

    column: Named

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """Nothing: it compares no values."""
        return {}

    def in_units(self, types: Types) -> Condition:
        """The same."""
        del types  # nulls have no unit
        return self

    def check(self, types: Types) -> None:
        """Accepts every column: all may have nulls."""

    def of_rows(self, values: Mapping[str, Values]) -> Truth:
        """Whether it is true, for each row."""
        valid = values[self.name].valid
        return Truth(~valid, valid, np.zeros_like(valid))

    def of_groups(self, facts: Mapping[str, Facts]) -> Truth:
        """Whether it may be true of a row, for each range of rows."""
        counts = list(zip(facts[self.name].nulls, facts[self.name].rows, strict=True))
        yes = np.array([nulls != 0 for nulls, _ in counts], np.bool_)
        no = np.array([nulls is None or nulls < rows for nulls, rows in counts], np.bool_)
        return Truth(yes, no, np.zeros_like(yes))

    def __repr__(self) -> str:
        return f"{self.column!r}.is_null()"


@dataclass(frozen=True)
class Not(Condition):
    """`~inner`."""

    inner: Condition

    @property
    def named(self) -> set[Named]:
        """The columns that it asks for."""
        return self.inner.named

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """What the inner condition compares."""
        return self.inner.sought

    def in_units(self, types: Types) -> Condition:
        """The same with times as numbers."""
        return Not(self.inner.in_units(types))

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
class Both(Condition):
    """`left & right` or `left | right`."""

    op: str
    left: Condition
    right: Condition

    @property
    def named(self) -> set[Named]:
        """The columns that it asks for."""
        return self.left.named | self.right.named

    @property
    def sought(self) -> dict[str, set[Sought]]:
        """What the two conditions compare."""
        left, right = self.left.sought, self.right.sought
        return {name: left.get(name, set()) | right.get(name, set()) for name in {**left, **right}}

    def in_units(self, types: Types) -> Condition:
        """The same with times as numbers."""
        return Both(self.op, self.left.in_units(types), self.right.in_units(types))

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


@bounds_messages
def literal(value: object) -> Literal:
    """The value as one of Python's own types.

    Raises:
        TypeError: if no column can be compared with it.
    """
    value = of_arrow(value)
    if isinstance(value, TIMES) or (isinstance(value, Decimal) and value.is_finite()):
        return value
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, (bool, int, float, str, bytes)):
        hint = ": ask is_null()" if is_no_value(value) else ""
        if hasattr(value, "__len__"):
            hint = ": .isin([...]) asks for several values"
        if isinstance(value, Mapping) and value:
            name, member = next(iter(value.items()))
            hint = f": a member of a struct has its own name, as fr.col('struct.{name}') == {member!r}"
        if callable(getattr(value, "item", None)) and getattr(value, "ndim", 1) == 0:
            hint = ": write its .item(), or .isin(tensor.tolist()) for several"
        if isinstance(value, UUID):
            hint = f": {NO_UUID}"
        raise TypeError(
            f"a column is compared with a number, bool, string, bytes or time, found {quoted(value)}{hint}"
        )
    return value


def _literals(values: Iterable[object], why: str, way: tuple[str, str]) -> tuple[Literal, ...]:
    """The values as Python's own; `why` there is no null among them, and the code around the others.

    Raises:
        TypeError: for a null, or for a value that no column can be compared with.
    """
    given = [of_arrow(value) for value in values]
    others = [value for value in given if not is_no_value(value)]
    if len(others) < len(given):
        raise TypeError(f"{why}, found one among {quoted(given)}: write {way[0]}{quoted(others)}{way[1]}")
    return tuple(map(literal, given))


def is_no_value(value: object) -> bool:
    """Whether it is what Python, or pandas, has for a null."""
    return value is None or type(value).__name__ == "NAType"


def is_of_arrow(given: object) -> bool:
    """Whether it is a pyarrow expression."""
    kind = type(given)
    return kind.__module__.split(".")[0] == "pyarrow" and kind.__name__ == "Expression"


@bounds_messages
def _joined(op: str, left: Condition, right: object) -> Condition:
    if not isinstance(right, Condition):
        way = "write a comparison there, in parentheses"
        if is_of_arrow(right):
            way = "write both with fr.col, or both with pyarrow.compute.field"
        if _are_rows(right):
            way = BESIDE_ROWS
        raise TypeError(f"{op} joins conditions, found {quoted(right)}: {way}")
    return Both(op, left, right)


BESIDE_ROWS = "write filter=condition beside rows=rows: the rows that both have are kept"
"""What to write instead of a condition joined with a mask or a Split."""


def _are_rows(given: object) -> bool:
    """Whether it is a mask, or another set of rows."""
    return isinstance(given, RowSet) or getattr(given, "ndim", 0) > 0


def refuse_operator(op: str, other: object = None) -> NoReturn:
    """Refuses a column or value that an operator met before a comparison did; or a mask on the other side."""
    if _are_rows(other):
        raise TypeError(f"{op} joins conditions, found {quoted(other)}: {BESIDE_ROWS}")
    raise TypeError(
        f"{op} binds more tightly than ==: put parentheses around comparisons, as "
        f"(fr.col('a') == 1) {op} (fr.col('b') == 2)"
    )


def _negated(truth: Truth) -> Truth:
    return Truth(truth.no, truth.yes, truth.null)


def _sought(values: Iterable[Literal]) -> set[Sought]:
    """The values that something can equal (all but NaN)."""
    return {to_bytes(value) for value in values if not is_nan(value)}


def _check_value(name: str, value: Literal, dtype: str, kind: str, unit: str | None) -> None:
    is_text = kind in ("string", "binary")
    if isinstance(value, Decimal) and not is_text:
        number = int(value) if value == int(value) else float(value)
        raise TypeError(
            f"column '{name}' of the type {dtype} can't be compared with {value!r}: write {number!r}"
        )
    is_time = isinstance(value, TIMES)
    if is_time or kind.startswith("list") or kind == "matrix" or is_text != isinstance(value, (str, bytes)):
        what = kind if kind != "scalar" else dtype
        hint = ": write a text" if is_text else ": write a number"
        if dtype == "bool" and kind == "scalar":
            hint = ": write True or False"
        if kind.startswith("list") or kind == "matrix":
            hint = ": a filter compares columns that have one value in a row"
        if kind == "matrix" and dtype == "uint8" and isinstance(value, bytes):
            way = f"write filter=pyarrow.compute.field({name!r}) == {value!r}"
            hint = f": {NO_UUID if unit == 'uuid' else way}"
        raise TypeError(f"column '{name}' of the type {what} can't be compared with {value!r}{hint}")
