"""The columns of rows that are JSON: each value as it was written, or an error that names its field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain, islice
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

import fastresume._core as _core
from fastresume.kafka.json_texts import decimals, exact, instead_of_decimal, instead_of_time, times
from fastresume.options.checks import quoted
from fastresume.sources.schema import arrow

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_EXACT = {16: 2**11, 64: 2**53}
"""Up to these each integer has its own float, by the bits of the float."""

Row = dict[str, Any]
Kind = Literal["whole", "time", "decimal", "float", "object", "map", "list", "other"]


class _Constant(float):
    """NaN or Infinity, as they were written: a number that is too large is a plain float."""


_DECODER = json.JSONDecoder(parse_constant=_Constant)
_EXACT_DECODER = json.JSONDecoder(parse_constant=_Constant, parse_float=exact)
"""Makes decimals of numbers: a float would lose digits."""


class _Field(NamedTuple):
    """A field, as its values are looked at.

    Attributes:
        path: how errors call it: "meta.city" in an object. Elements of lists have the name of the list.
        key: its name in an object.
        type: of its values.
        plain: the same without a dictionary around it.
        may_be_null: whether null is a value of it.
        may_be_absent: whether a row may lack it.
        kind: what may be wrong with its values.
        is_read: whether JSON has other values for it than Arrow takes, as texts for times.
        below: the fields in it, or the one of its elements.
    """

    path: str
    key: str
    type: pa.DataType
    plain: pa.DataType
    may_be_null: bool
    may_be_absent: bool
    kind: Kind
    is_read: bool
    below: tuple[_Field, ...]


class JsonColumns:
    """Makes columns of rows.

    Args:
        schema: the columns.
        optional: the fields that a row may lack, by names or patterns: "meta.city" in an object.

    Raises:
        TypeError, ValueError: if `optional` is something else, or means no field.
    """

    def __init__(self, schema: pa.Schema, optional: str | Sequence[str]) -> None:
        patterns = [optional] if isinstance(optional, str) else optional
        if not isinstance(patterns, list | tuple) or not all(isinstance(one, str) for one in patterns):
            raise TypeError(f"optional must be a list of names and patterns, found {quoted(optional)}")
        self._schema = schema
        self._has_decimals = any(map(_has_decimals, schema.types))
        self._fields = [_field(field, field.name, patterns, self._has_decimals) for field in schema]
        paths = [*_paths(self._fields)]
        for pattern in patterns:
            if not any(fnmatchcase(path, pattern) for path in paths):
                raise ValueError(
                    f"optional names {quoted(pattern)}: there is no such field in {quoted(paths)}"
                )

    def parsed(self, value: bytes) -> Any:
        """What `json.loads` makes of a value, with constants that differ from numbers.

        Raises:
            ValueError: if it is no JSON.
        """
        decoder = _EXACT_DECODER if self._has_decimals else _DECODER
        return decoder.decode(value.decode(json.detect_encoding(value), "surrogatepass"))

    def table(self, rows: Sequence[Row]) -> pa.Table:
        """The columns of rows.

        Raises:
            DataError: naming the first field that a row lacks, or whose value it can't have.
        """
        return arrow().Table.from_arrays([_column(rows, one) for one in self._fields], schema=self._schema)


def _plain(of: pa.DataType) -> pa.DataType:
    types = arrow().types
    while types.is_dictionary(of) or types.is_run_end_encoded(of) or hasattr(of, "storage_type"):
        of = of.storage_type if hasattr(of, "storage_type") else of.value_type
    return of


def _has_decimals(of: pa.DataType) -> bool:
    of = _plain(of)
    return arrow().types.is_decimal(of) or any(
        _has_decimals(of.field(number).type) for number in range(of.num_fields)
    )


def _field(field: pa.Field, path: str, optional: Sequence[str], is_exact: bool) -> _Field:
    """A field; `is_exact` if numbers are decimals, and no floats yet."""
    types, of = arrow().types, _plain(field.type)
    kind: Kind
    below: list[_Field] = []
    if types.is_struct(of):
        kind = "object"
        below = [_field(one, f"{path}.{one.name}", optional, is_exact) for one in of]
    elif types.is_map(of):
        kind, below = "map", [_field(of.item_field, path, optional, is_exact)]
    elif types.is_nested(of) and of.num_fields == 1:
        kind, below = "list", [_field(of.field(0), path, optional, is_exact)]
    elif types.is_floating(of):
        kind = "float"
    elif types.is_timestamp(of) or types.is_date(of) or types.is_time(of):
        kind = "time"
    elif types.is_decimal(of):
        kind = "decimal"
    else:
        kind = "whole" if types.is_integer(of) or types.is_temporal(of) else "other"
    may_be_absent = any(fnmatchcase(path, pattern) for pattern in optional)
    is_read = is_exact or kind == "time" or any(one.is_read for one in below)
    return _Field(
        path, field.name, field.type, of, field.nullable, may_be_absent, kind, is_read, tuple(below)
    )


def _paths(fields: Iterable[_Field]) -> Iterator[str]:
    for field in fields:
        yield field.path
        yield from _paths(field.below)


def _column(rows: Sequence[Row], field: _Field) -> Any:
    pyarrow, values = arrow(), _values(rows, field)
    if field.is_read:
        values = _read(values, field)
    try:
        column = pyarrow.array(values, field.type)
    except (pyarrow.ArrowException, ValueError, OverflowError, TypeError) as cause:
        raise _core.DataError(f"field {quoted(field.path)} is no {field.type}: {cause}") from cause
    _check(values, field, column)
    return column


def _values(rows: Sequence[Row], field: _Field) -> list[Any]:
    """The values of a field, null where it may be absent and is."""
    key = field.key
    try:
        return [row[key] for row in rows]
    except KeyError:
        if field.may_be_absent:
            return [row.get(key) for row in rows]
    raise _core.DataError(_absent(field, next(row for row in rows if key not in row)))


def _absent(field: _Field, row: Row) -> str:
    """What to write where a row lacks a field."""
    optional = f"write fr.kafka.JSON(schema, optional=[{quoted(field.path)}])"
    said = f"there is no field {quoted(field.path)}, found {quoted([*row])}"
    of = f"schema.field({quoted(field.path)}).type" if field.path == field.key else "..."
    member = _as_object(field.key, row, of)
    if member != _as_object(field.key, {}, of):
        return f"{said}: name {member} in the schema, which is an object"
    if (close := _core.nearest(field.key, [*row])) is not None:
        return f"{said}: did you mean {quoted(close)}? If such a row has a null there, {optional}"
    return f"{said}: {optional} if such a row has a null there"


def _as_object(key: str, row: Row, of: str) -> str:
    """The field to write for a key such as "a.b" where "a" is an object; `of` is its type."""
    head, _, rest = key.partition(".")
    within = row.get(head)
    if rest and isinstance(within, dict):
        return f"({quoted(head)}, pa.struct([{_as_object(rest, within, of)}]))"
    return f"({quoted(key)}, {of})"


def _read(values: list[Any], field: _Field) -> list[Any]:
    """The values as Arrow takes them; those that are of another kind stay."""
    below = field.below
    match field.kind:
        case "time":
            made = partial(_made, field, times, instead_of_time)
            return _replaced(values, lambda one: isinstance(one, str), made)
        case "decimal":
            made = partial(_made, field, decimals, instead_of_decimal)
            return _replaced(values, lambda one: one is not None, made)
        case "list":
            given = [one for one in values if isinstance(one, list)]
            items = iter(_read([*chain.from_iterable(given)], below[0]))
            return [[*islice(items, len(one))] if isinstance(one, list) else one for one in values]
        case "map":
            maps = [one for one in values if isinstance(one, dict)]
            items = iter(_read([*chain.from_iterable(one.values() for one in maps)], below[0]))
            return [
                dict(zip(one, islice(items, len(one)), strict=True)) if isinstance(one, dict) else one
                for one in values
            ]
        case "object":
            rows = [dict(one) if isinstance(one, dict) else one for one in values]
            for member in below if any(one.is_read for one in below) else ():
                having = [one for one in rows if isinstance(one, dict) and member.key in one]
                read = _read([one[member.key] for one in having], member)
                for one, value in zip(having, read, strict=True):
                    one[member.key] = value
            return rows
        case _:
            return _replaced(values, lambda one: type(one) is Decimal, lambda some: [*map(float, some)])


def _replaced(
    values: list[Any], is_one: Callable[[Any], bool], made: Callable[[list[Any]], list[Any]]
) -> list[Any]:
    """The values, with others for some of them."""
    read = iter(made([one for one in values if is_one(one)]))
    return [next(read) if is_one(one) else one for one in values]


def _made(
    field: _Field,
    make: Callable[[list[Any], pa.DataType], list[Any]],
    instead: Callable[[Any, pa.DataType], str],
    values: list[Any],
) -> list[Any]:
    """What `make` makes of values for the type of a field.

    Raises:
        DataError: for the first that the type can't have; `instead` gives one that can.
    """
    try:
        return make(values, field.plain)
    except (arrow().ArrowException, ArithmeticError, TypeError):
        if len(values) > 1:
            return [one for value in values for one in _made(field, make, instead, [value])]
        _refuse(values, field, f"name {instead(values[0], field.plain)} in the schema")
        raise


def _check(values: list[Any], field: _Field, column: Any = None) -> None:
    """Looks for values that Arrow takes, and changes. `column` is what it made of them, if that is known."""
    kinds = set(map(type, values))
    if NoneType in kinds and not field.may_be_null:
        raise _core.DataError(f"field {quoted(field.path)} is null, and the schema says that it never is")
    match field.kind:
        case "whole" | "time":
            if float in kinds:
                _refuse((one for one in values if type(one) is float and not _is_whole(one)), field)
        case "float":
            _check_floats(values, kinds, field, column)
        case "object" | "map":
            if not kinds <= {dict, NoneType}:
                _refuse((one for one in values if not isinstance(one, dict | None)), field)
            given = [one for one in values if one is not None]
            if field.kind == "map":
                _check([*chain.from_iterable(one.values() for one in given)], field.below[0])
            else:
                for below in field.below:
                    _check(_values(given, below), below)
        case "list":
            if not kinds <= {list, NoneType}:
                _refuse((one for one in values if not isinstance(one, list | None)), field)
            _check([*chain.from_iterable(filter(None, values))], field.below[0])


def _is_whole(number: float) -> bool:
    """Whether it is an integer, and no other one is written so."""
    return number.is_integer() and abs(number) < _MOST_EXACT[64]


def _check_floats(values: list[Any], kinds: set[type], field: _Field, column: Any) -> None:
    if bool in kinds:
        _refuse((one for one in values if type(one) is bool), field)
    if int in kinds and field.plain.bit_width == 16:  # Arrow looks at those of other floats
        _refuse((one for one in values if type(one) is int and abs(one) > _MOST_EXACT[16]), field)
    if float in kinds:
        made = arrow().array(values, field.plain) if column is None or column.type != field.plain else column
        is_inf = np.isinf(made.to_numpy(zero_copy_only=False))
        if is_inf.any():
            _refuse(
                (values[place] for place in np.flatnonzero(is_inf) if type(values[place]) is float), field
            )


def _refuse(changed: Iterable[Any], field: _Field, way: str = "name another type in the schema") -> None:
    """Refuses the first of the values that Arrow would change."""
    for value in changed:
        text = str(value) if isinstance(value, Decimal) else quoted(value)
        raise _core.DataError(f"field {quoted(field.path)} is {text}, which is no {field.type}: {way}")
